"""The sequential test that a bisection asks: are its verdicts right as often as it says?"""

import math

import numpy as np
import pytest

from pgdrag.designs.bisect.history import (
    ERROR,
    USUAL_NOISE,
    LogValue,
    SetVerdict,
    Threshold,
    estimate,
    log_likelihood,
    noise_between,
)
from pgdrag.findings.readings import Reading

# 1,000/s to 1/s, of which 90 % are kept at 2/s.
WHOLE = math.log(1000)
THRESHOLD = Threshold(LogValue(WHOLE, 0.0), LogValue(0.0, 0.0), noise_sd=0.05, share=0.9)


def counted(count, time_s):
    """Return the reading of so many commits."""
    if count == 0:
        return Reading(math.log(-math.log(0.05) / time_s), 0.0, True, 1, True)
    return Reading(math.log(count / time_s), 1 / math.sqrt(count), False, 1, True)


def test_the_threshold_keeps_the_share_of_the_log_slowdown():
    assert THRESHOLD.effect([counted(40_000, 40)]).log == pytest.approx(0.0)
    assert THRESHOLD.effect([counted(10_000, 10_000)]).log == pytest.approx(WHOLE)


def test_a_clear_case_is_decided_by_one_trial():
    assert THRESHOLD.verdict([counted(100, 100)]) is SetVerdict.KEEPS
    assert THRESHOLD.verdict([counted(4000, 100)]) is SetVerdict.LOSES


def test_a_stalled_trial_keeps_and_no_number_is_unresolved():
    assert THRESHOLD.verdict([counted(0, 20)]) is SetVerdict.KEEPS
    assert THRESHOLD.verdict([]) is SetVerdict.UNRESOLVED


def test_a_rate_at_the_threshold_is_unresolved():
    at = 1000**0.1
    assert THRESHOLD.verdict([counted(round(at * 200), 200)]) is SetVerdict.UNRESOLVED


def test_a_faster_target_is_bisected_the_other_way_round():
    speedup = Threshold(LogValue(0.0, 0.0), LogValue(WHOLE, 0.0), 0.05, 0.9)
    assert speedup.sign == -1
    assert speedup.verdict([counted(100_000, 100)]) is SetVerdict.KEEPS
    assert speedup.verdict([counted(100, 100)]) is SetVerdict.LOSES
    assert speedup.effect([counted(100_000, 100)]).log == pytest.approx(WHOLE)


@pytest.mark.parametrize("side", [-1, 1])
def test_at_the_ends_of_the_indifference_zone_the_test_is_wrong_as_often_as_it_says(side):
    rng = np.random.default_rng(1)
    rate = math.exp(0.1 * WHOLE + side * 0.1 * WHOLE / 2)
    wrong = 0
    for _ in range(600):
        readings = []
        while (found := THRESHOLD.verdict(readings)) is SetVerdict.UNRESOLVED and len(
            readings
        ) < 50:
            own = rate * math.exp(rng.normal(0, THRESHOLD.noise_sd))
            readings.append(counted(int(rng.poisson(own * 3)), 3))
        wrong += found is (SetVerdict.KEEPS if side > 0 else SetVerdict.LOSES)
    assert wrong / 600 <= ERROR + 2 * math.sqrt(ERROR * (1 - ERROR) / 600)


def test_few_commits_are_estimated_with_their_own_chance():
    found = estimate([counted(3, 20), counted(1, 20)], 0.05)
    # Gamma of 4.5 over 40 s: its logarithm has the mean digamma(4.5) - log(40).
    assert found.log == pytest.approx(1.3889 - math.log(40), abs=1e-3)
    assert 0.45 < found.se < 0.55


def test_many_commits_are_weighted_by_their_own_errors_and_the_noise_between_trials():
    found = estimate([counted(10_000, 10), counted(10_000, 10)], 0.1)
    assert found.log == pytest.approx(math.log(1000))
    assert found.se == pytest.approx(math.hypot(0.1, 0.01) / math.sqrt(2))


def test_the_likelihood_is_highest_at_the_rate_that_was_seen():
    readings = [counted(12, 4)]
    logs = np.linspace(-1, 3, 81)
    best = logs[np.argmax([log_likelihood(readings, float(x), 0.01) for x in logs])]
    assert best == pytest.approx(math.log(3), abs=0.05)


def test_noise_is_estimated_from_repeats_without_the_chance_in_counting():
    assert noise_between([]) == pytest.approx(USUAL_NOISE.log_sd)
    assert noise_between([[counted(34, 10), counted(40, 10)]]) < USUAL_NOISE.log_sd
    loud = [counted(1_000_000, 10), counted(2_000_000, 10), counted(1_400_000, 10)]
    assert noise_between([loud]) > 0.2
