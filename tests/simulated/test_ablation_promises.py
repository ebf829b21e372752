"""The promises of an ablation, on a handful of systems; `make simulate` has a thousand."""

from __future__ import annotations

import pytest

from simulations.ablate import simulate
from simulations.rows import Row


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return simulate(0.02)


def test_every_promise_is_kept(rows: list[Row]) -> None:
    assert [row.name for row in rows if row.met is False] == []
    assert sum(row.met is True for row in rows) >= 20


def test_single_looks_have_their_blind_spots(rows: list[Row]) -> None:
    found = {row.name: row.value for row in rows}
    assert found["one-at-a-time: guilty changes found, both needed"] < 0.1
    assert found["leave-one-out: guilty changes found, either does it"] < 0.1
    assert found["ablate: guilty changes found, both needed"] > 0.9
    assert found["ablate: guilty changes found, either does it"] > 0.9
