"""What decides is found where it was planted, and hardly where it was not: docs/method.md."""

from __future__ import annotations

import numpy as np
import pytest

from simulations.holds import (
    bloat_told,
    by_bloat,
    by_length,
    covered,
    falls,
    length_told,
    nothing,
    run,
)


@pytest.mark.parametrize(
    ("law", "length", "bloat"),
    [(by_length, True, False), (by_bloat, False, True), (nothing, False, False)],
)
def test_what_was_planted_is_told_and_the_other_hardly_ever(law, length, bloat):
    rng = np.random.default_rng(6)
    runs = [run(rng, law) for _ in range(6)]
    told = [(length_told(one), bloat_told(one)) for one in runs]
    # One of six may err: two or more come by chance in 3 of 100 such tests at 5 %.
    assert told.count((length, bloat)) >= 5


def test_a_dose_curve_has_the_planted_half_dose_and_none_where_holds_cost_nothing():
    rng = np.random.default_rng(7)
    assert covered([run(rng, by_length) for _ in range(4)]) >= 3
    assert falls([run(rng, nothing) for _ in range(4)]) <= 1
