"""The three scenarios: what weights split, and one dataset whatever the form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pgdrag.experiment import load_experiment
from pgdrag.model.load import LoadProfile, Step
from pgdrag.workloads.scenarios import Scenarios

GOLDEN = Path(__file__).parents[1] / "golden" / "expecto"


def weights(**given: float) -> dict[str, int]:
    scripts = Scenarios.model_validate({"weights": given}).job()["scripts"]
    assert isinstance(scripts, list)
    return {script["name"]: script["weight"] for script in scripts}


def under(connections: int, steps: tuple[Step, ...] = ()) -> LoadProfile:
    return LoadProfile(connections, warm_up_s=0, measure_s=1, budget_s=1, steps=steps)


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


def passes() -> list[dict[str, Any]]:
    """What pg_expecto's functions asked of each of pgbench's processes, pass by pass."""
    found = json.loads((GOLDEN / "load_test.json").read_text(encoding="utf-8"))["found"]
    return list(found["passes"])


def test_scenarios_have_the_sessions_that_pg_expecto_gives_them() -> None:
    published = {one["load"]: one["clients"] for one in passes()}
    assert len(published) == 9
    assert {load: list(Scenarios().sessions_of(load)) for load in published} == published


def test_a_growing_load_adds_sessions_and_takes_none_from_a_scenario() -> None:
    for load in range(1, 101):
        each = Scenarios().sessions_of(load)
        clients = Scenarios().clients(sum(each))
        assert tuple(clients.count(scenario) for scenario in range(3)) == each
        assert clients == Scenarios().clients(sum(each) + 1)[:-1]


def test_the_paper_scale_has_pg_expectos_sessions_an_hour_and_ten_minutes_for_each_load() -> None:
    sessions = [sum(one["clients"]) for one in passes()]
    load = load_experiment("os-io").study("paper").load
    begins = {step.at_s: step.sessions for step in load.steps}
    held = [begins[max(at for at in begins if at <= 600.0 * number)] for number in range(15)]
    assert held == sessions
    assert load.measure_s == 600 * 15


def test_a_scenario_without_a_session_is_refused() -> None:
    assert Scenarios().objection(under(3)) is None
    found = Scenarios().objection(under(2))
    assert found is not None
    assert found.parameter == "split"
    assert found.message == (
        'must be "transactions" where 2 sessions are to run select, update and insert'
    )
    assert "none is left for insert" in found.hint
    # Also where it is so in one step of the load alone.
    assert Scenarios().objection(under(9, (Step(0, 9), Step(1, 1)))) is not None
    assert Scenarios(split="transactions").objection(under(1)) is None
    two = Scenarios.model_validate({"weights": {"select": 1, "update": 0, "insert": 1}})
    idle = two.objection(under(1))
    assert idle is not None
    assert "update" not in idle.message
    reading = Scenarios.model_validate({"weights": {"select": 1, "update": 0, "insert": 0}})
    assert reading.objection(under(1)) is None


def test_functions_and_scripts_have_one_dataset() -> None:
    functions, scripts = (Scenarios(sent_as=form, scale=3) for form in ("functions", "scripts"))
    assert functions.dataset() == scripts.dataset()
    assert functions.job() != scripts.job()


def test_reading_alone_changes_no_data() -> None:
    reading = {"weights": {"select": 1, "update": 0, "insert": 0}}
    assert not Scenarios.model_validate(reading).changes_data
    assert Scenarios().changes_data
