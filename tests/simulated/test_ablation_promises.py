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


def test_one_comparison_alone_misses_pairs(rows: list[Row]) -> None:
    found = {row.name: row.value for row in rows}
    assert found["one-at-a-time: effects found, both needed"] < 0.1
    assert found["leave-one-out: effects found, either suffices"] < 0.1
    assert found["ablate: effects found, both needed"] > 0.9
    assert found["ablate: effects found, either suffices"] > 0.9
