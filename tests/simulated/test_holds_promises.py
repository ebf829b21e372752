"""What decides is found where it is planted, and rarely elsewhere: docs/method.md."""

from __future__ import annotations

import numpy as np
import pytest

from simulations.holds import (
    by_bloat,
    by_length,
    covered,
    falls,
    finds_bloat,
    finds_length,
    nothing,
    run,
)


@pytest.mark.parametrize(
    ("law", "length", "bloat"),
    [(by_length, True, False), (by_bloat, False, True), (nothing, False, False)],
)
def test_the_planted_decider_is_found_and_the_other_rarely(law, length, bloat):
    rng = np.random.default_rng(6)
    runs = [run(rng, law) for _ in range(6)]
    found = [(finds_length(one), finds_bloat(one)) for one in runs]
    # One of six may err: two or more come by chance in 3 of 100 such tests at 5 %.
    assert found.count((length, bloat)) >= 5


def test_a_dose_curve_has_the_planted_half_dose_and_none_where_holds_cost_nothing():
    rng = np.random.default_rng(7)
    assert covered([run(rng, by_length) for _ in range(4)]) >= 3
    assert falls([run(rng, nothing) for _ in range(4)]) <= 1
