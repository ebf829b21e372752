"""False trends are rare and intervals cover the truth: docs/method.md.

`make simulate` does the same with many repeats.
"""

from __future__ import annotations

import numpy as np
import pytest

from simulations.decay import FALLING, STEADY, covered, false_alarms, fitted, of_many_rungs

REPEATS = 60


@pytest.mark.parametrize("length", [20, 60])
@pytest.mark.parametrize(("size", "memory"), [(0.02, 0.0), (0.1, 0.6)])
def test_a_steady_window_is_rarely_called_a_trend(length, size, memory):
    # Of 60, more than 8 come by chance in less than 1 of 100 such tests at a rate of 5 %.
    assert false_alarms(np.random.default_rng(1), length, size, memory, REPEATS) <= 8


@pytest.mark.parametrize("truth", FALLING, ids=lambda truth: truth.name)
def test_the_intervals_of_slope_and_half_life_cover_the_truth(truth):
    slope, half_life = covered(np.random.default_rng(2), truth, 30, 0.05, 0.3, REPEATS)
    # At 90 %, fewer than 48 of 60 come by chance in less than 1 of 100 such tests.
    assert slope >= 48
    assert half_life >= 48


def test_a_fall_to_a_half_is_significant_in_thirty_noisy_seconds():
    rng = np.random.default_rng(3)
    found = [fitted(rng, FALLING[0], 30, 0.05, 0.3).direction for _ in range(20)]
    assert found == ["falling"] * 20


def test_a_quiet_minute_is_called_steady_and_a_noisy_one_is_not():
    rng = np.random.default_rng(4)
    quiet = [fitted(rng, STEADY, 60, 0.02, 0.3).direction for _ in range(20)]
    noisy = [fitted(rng, STEADY, 20, 0.1, 0.6).direction for _ in range(20)]
    assert quiet.count("steady") >= 18
    assert noisy.count("steady") <= 2


@pytest.mark.parametrize("differ", [0.0, 0.2])
def test_two_trials_of_each_of_six_rungs_cover_their_mean_slope(differ):
    # At 90 %, fewer than 38 of 48 come by chance in less than 1 of 100 such tests.
    assert of_many_rungs(np.random.default_rng(5), differ, 8) >= 38
