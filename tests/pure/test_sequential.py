"""The levels of the interim analyses together spend the error, and no more."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.stats.sequential import (
    FIRST_INTERIM,
    interim_confidence,
    interim_levels,
    interims_so_far,
    planned_interims,
    released,
)


def test_interim_analyses_are_frequent_at_first_and_end_with_all_pairs():
    assert planned_interims(20) == (2, 4, 6, 8, 10, 12, 16, 20)
    assert planned_interims(7) == (2, 4, 6, 7)
    assert planned_interims(2) == (2,)


def test_a_run_that_was_cut_short_is_analysed_where_it_ended():
    assert interims_so_far(5, 20) == (2, 4, 5)
    assert interims_so_far(8, 20) == (2, 4, 6, 8)


def test_a_single_analysis_has_the_whole_error():
    assert interim_levels((20,), 20, 0.05) == pytest.approx((0.05,))


def test_two_analyses_of_equal_size_have_the_known_bounds():
    # Spending at half of the information 0.05 / 2 ** 1.5 = 0.0177; by hand, z = 2.372 then.
    first, last = interim_levels((10, 20), 20, 0.05)
    assert first == pytest.approx(0.05 / 2**1.5)
    assert first < last < 0.05


@given(st.integers(FIRST_INTERIM, 60), st.sampled_from([0.1, 0.05, 0.01]))
def test_no_level_is_above_the_error_and_none_below_what_it_may_spend(max_pairs, error):
    counts = planned_interims(max_pairs)
    levels = interim_levels(counts, max_pairs, error)
    assert all(0 < level <= error + 1e-9 for level in levels)
    # Each may use at least what was released since the one before.
    shares = np.diff([0.0, *(released(at, max_pairs, error) for at in counts)])
    assert all(level >= share - 1e-9 for level, share in zip(levels, shares, strict=True))


def test_the_analyses_together_err_as_often_as_promised():
    rng = np.random.default_rng(1)
    counts = planned_interims(20)
    steps = rng.standard_normal((100_000, 20)).cumsum(axis=1)
    bounds = [
        -math.sqrt(at) * scipy.stats.norm.ppf(level / 2)
        for at, level in zip(counts, interim_levels(counts, 20, 0.05), strict=True)
    ]
    crossed = np.zeros(len(steps), dtype=bool)
    for at, bound in zip(counts, bounds, strict=True):
        crossed |= abs(steps[:, at - 1]) > bound
    assert crossed.mean() == pytest.approx(0.05, abs=0.002)


def test_the_last_analysis_needs_the_lowest_confidence_still_above_the_one_asked_for():
    found = [interim_confidence(pairs, 20, confidence=0.95) for pairs in planned_interims(20)]
    assert found == sorted(found, reverse=True)
    assert 0.95 < found[-1] < 0.98
