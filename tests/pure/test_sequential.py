"""The levels of the looks together spend the error, and no more."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.stats.sequential import (
    FIRST_LOOK,
    look_confidence,
    look_levels,
    looks_so_far,
    planned_looks,
    released,
)


def test_looks_come_often_at_first_and_end_with_all_pairs():
    assert planned_looks(20) == (2, 4, 6, 8, 10, 12, 16, 20)
    assert planned_looks(7) == (2, 4, 6, 7)
    assert planned_looks(2) == (2,)


def test_a_run_that_was_cut_short_is_looked_at_where_it_ended():
    assert looks_so_far(5, 20) == (2, 4, 5)
    assert looks_so_far(8, 20) == (2, 4, 6, 8)


def test_one_look_has_the_whole_error():
    assert look_levels((20,), 20, 0.05) == pytest.approx((0.05,))


def test_two_looks_of_equal_size_have_the_known_bounds():
    # Spending at half of the information 0.05 / 2 ** 1.5 = 0.0177; by hand, z = 2.372 then.
    first, last = look_levels((10, 20), 20, 0.05)
    assert first == pytest.approx(0.05 / 2**1.5)
    assert first < last < 0.05


@given(st.integers(FIRST_LOOK, 60), st.sampled_from([0.1, 0.05, 0.01]))
def test_no_level_is_above_the_error_and_none_below_what_it_may_spend(max_pairs, error):
    looks = planned_looks(max_pairs)
    levels = look_levels(looks, max_pairs, error)
    assert all(0 < level <= error + 1e-9 for level in levels)
    # A look may use at least what was released since the one before.
    shares = np.diff([0.0, *(released(look, max_pairs, error) for look in looks)])
    assert all(level >= share - 1e-9 for level, share in zip(levels, shares, strict=True))


def test_the_looks_together_err_as_often_as_promised():
    rng = np.random.default_rng(1)
    looks = planned_looks(20)
    steps = rng.standard_normal((100_000, 20)).cumsum(axis=1)
    bounds = [
        -math.sqrt(look) * _quantile(level / 2)
        for look, level in zip(looks, look_levels(looks, 20, 0.05), strict=True)
    ]
    crossed = np.zeros(len(steps), dtype=bool)
    for look, bound in zip(looks, bounds, strict=True):
        crossed |= abs(steps[:, look - 1]) > bound
    assert crossed.mean() == pytest.approx(0.05, abs=0.002)


def test_the_confidence_of_the_last_look_is_the_lowest_and_above_the_one_asked_for():
    found = [look_confidence(pairs, 20, confidence=0.95) for pairs in planned_looks(20)]
    assert found == sorted(found, reverse=True)
    assert 0.95 < found[-1] < 0.98


def _quantile(tail):
    from scipy import stats

    return float(stats.norm.ppf(tail))
