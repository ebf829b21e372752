"""Pairs whose sums the reader can do."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.stats.paired import (
    EXACT_PAIRS,
    PairedLogs,
    _subsets,
    interval,
    p_value,
    power,
    smallest_effect,
)

ORDERS = (1, -1, -1, 1)


def pairs(*logs, signs=None, floor_se=0.0):
    signs = signs or (ORDERS * len(logs))[: len(logs)]
    return PairedLogs(tuple(map(float, logs)), tuple(signs), floor_se)


def test_two_pairs_have_the_t_interval_of_their_mean():
    found = interval(pairs(0.1, 0.3), confidence=0.95)
    half = scipy.stats.t.ppf(0.975, 1) * 0.1
    assert (found.low, found.center, found.high) == pytest.approx((0.2 - half, 0.2, 0.2 + half))


def test_pairs_that_differ_by_their_order_alone_have_that_order_and_no_effect():
    drifting = pairs(0.02, -0.021, -0.019, 0.02, 0.021, -0.02, -0.02, 0.019)
    assert drifting.fit is not None
    assert drifting.fit.p < 0.05
    # First minus second is 0.02: the second of a pair is slower.
    assert drifting.fit.order == pytest.approx(-0.02, abs=1e-3)
    found = interval(drifting, confidence=0.95)
    assert found.center == pytest.approx(0, abs=1e-3)
    assert found.low < 0 < found.high


def test_pairs_of_one_order_only_tell_nothing():
    found = interval(pairs(0.1, 0.1, 0.11, 0.1, signs=(1, 1, 1, 1)), confidence=0.95)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert p_value(pairs(0.1, 0.1, 0.11, 0.1, signs=(1, 1, 1, 1))) == 1.0


def test_one_disturbed_trial_that_fits_its_order_is_no_effect():
    # Three quiet pairs of one order and a disturbed one of the other: least squares alone is sure.
    disturbed = pairs(0.0, 0.001, -0.001, 0.05, signs=(1, 1, 1, -1))
    found = interval(disturbed, confidence=0.95)
    assert found.low < 0 < found.high
    assert p_value(disturbed) > 0.3


def test_ten_pairs_that_all_agree_have_the_smallest_p_there_is():
    logs = [0.1 + 0.001 * at for at in range(EXACT_PAIRS)]
    assert p_value(pairs(*logs)) == pytest.approx(2 / 2**EXACT_PAIRS, rel=2)


def test_the_exact_p_counts_the_flips_that_take_the_sum_as_far():
    logs = [1, -1, 2, -2, 3, -3, 4, -4, 5, 6]
    signs = [1, -1, 1, -1, 1, -1, -1, 1, 1, -1]
    first = np.array(logs) * signs
    centred = (first - first.mean()) * signs
    flips = np.array([[1 - 2 * (row >> at & 1) for at in range(10)] for row in range(2**10)])
    sums = flips @ centred
    expected = (sums >= centred.sum() - 1e-9).mean()
    assert p_value(pairs(*logs, signs=signs)) == pytest.approx(
        2 * min(expected, 1 - expected), rel=0.05
    )


@given(st.floats(-2, 2), st.integers(4, 16))
def test_an_effect_common_to_all_pairs_moves_the_interval_and_nothing_else(effect, count):
    rng = np.random.default_rng(count)
    logs = rng.normal(0, 0.05, count)
    still = interval(pairs(*logs), confidence=0.95)
    moved = interval(pairs(*(logs + effect)), confidence=0.95)
    assert moved.low == pytest.approx(still.low + effect, abs=1e-6)
    assert moved.high == pytest.approx(still.high + effect, abs=1e-6)


@given(st.integers(2, 20))
def test_turning_the_ratio_round_turns_the_interval_round(count):
    logs = np.random.default_rng(count).normal(0.1, 0.05, count)
    one = interval(pairs(*logs), confidence=0.95)
    other = interval(pairs(*-logs), confidence=0.95)
    # Beyond 14 pairs a sample of the flips is taken, which is not quite the same both ways.
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=0.002)


@pytest.mark.parametrize("count", [5, 12, 18])
def test_a_higher_confidence_is_wider(count):
    logs = np.random.default_rng(1).normal(0, 0.05, count)
    widths = [interval(pairs(*logs), confidence=x).high for x in (0.8, 0.9, 0.95, 0.99)]
    assert widths == sorted(widths)


def test_no_interval_is_narrower_than_what_is_known_within_the_trials():
    found = interval(pairs(*[0.1] * 12, floor_se=0.01), confidence=0.95)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * 0.01, rel=1e-3)


def test_the_smallest_effect_shrinks_with_the_root_of_the_pairs():
    few, many = (smallest_effect(0.05, count, confidence=0.95) for count in (100, 400))
    assert few / many == pytest.approx(2, rel=0.02)
    # (1.98 + 0.84) * 0.05 / 10
    assert few == pytest.approx(0.0142, rel=0.01)
    assert math.isinf(smallest_effect(0.05, 1, confidence=0.95))


@given(st.integers(4, 200), st.sampled_from([0.9, 0.95, 0.99]), st.floats(0.001, 1.0))
def test_the_smallest_effect_is_told_four_times_in_five(count, confidence, sd):
    effect = smallest_effect(sd, count, confidence=confidence)
    assert power(effect, sd, count, confidence=confidence) == pytest.approx(0.8, abs=0.01)
    assert power(0.5 * effect, sd, count, confidence=confidence) < 0.5
    assert power(100 * effect, sd, count, confidence=confidence) > 0.8


def test_the_spread_of_pairs_is_told_apart_from_their_order():
    rng = np.random.default_rng(3)
    signs = rng.choice([-1, 1], 200).tolist()
    logs = 0.1 * np.array(signs) + rng.normal(0, 0.01, 200)
    assert pairs(*logs, signs=signs).sd == pytest.approx(0.01, rel=0.15)


def test_long_comparisons_keep_no_subsets_in_memory():
    """Of 800 pairs they take 100 MB, and each further pair asks for others."""
    for count in (20, 60, 61, 62):
        kept = _subsets.cache_info().currsize
        interval(pairs(*np.linspace(-0.1, 0.2, count)), confidence=0.95)
    assert _subsets.cache_info().currsize == kept
