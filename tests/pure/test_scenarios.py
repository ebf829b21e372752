"""The three scenarios: weights as they are drawn, one dataset whatever the form."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pgdrag.workloads.scenarios import Scenarios


def weights(**given: float) -> dict[str, int]:
    scripts = Scenarios.model_validate({"weights": given}).job()["scripts"]
    assert isinstance(scripts, list)
    return {script["name"]: script["weight"] for script in scripts}


def test_weights_are_drawn_in_whole_numbers() -> None:
    assert weights() == {"select": 700_000, "update": 200_000, "insert": 100_000}
    assert weights(select=1, update=1, insert=2) == {
        "select": 250_000,
        "update": 250_000,
        "insert": 500_000,
    }


def test_what_is_to_be_drawn_at_all_is_drawn() -> None:
    assert weights(select=1e6, update=1e-3, insert=0) == {
        "select": 1_000_000,
        "update": 1,
        "insert": 0,
    }


def test_one_weight_must_be_over_zero() -> None:
    with pytest.raises(ValidationError, match="over 0"):
        weights(select=0, update=0, insert=0)


def test_functions_and_scripts_have_one_dataset() -> None:
    functions, scripts = (Scenarios(sent_as=form, scale=3) for form in ("functions", "scripts"))
    assert functions.dataset() == scripts.dataset()
    assert functions.job() != scripts.job()


def test_reading_alone_changes_no_data() -> None:
    reading = {"weights": {"select": 1, "update": 0, "insert": 0}}
    assert not Scenarios.model_validate(reading).changes_data
    assert Scenarios().changes_data
