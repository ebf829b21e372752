from __future__ import annotations

import math

import pytest

from pgdrag.designs._subsets import Observed
from pgdrag.designs.ablate.history import REFERENCE, SetTrials
from pgdrag.findings.readings import Reading
from pgdrag.model import Outcome

ONE, TWO, ALL = frozenset({1}), frozenset({2}), frozenset({0, 1, 2, 3})


def values(**sets):
    """Values of sets, each from the logs of its trials and their error from within."""
    found = SetTrials(4)
    names = {"reference": REFERENCE, "one": ONE, "two": TWO, "target": ALL}
    for name, (logs, log_se) in sets.items():
        for log in logs:
            reading = Reading(log, log_se, False, 1, True)
            found.add(Observed(names[name], True, reading, Outcome.MEASURED))
    return found


def test_a_set_run_once_gets_the_noise_of_repeats():
    found = values(reference=([6.9, 7.1], 0.001), one=([5.0], 0.001))
    sd = math.sqrt(0.02)  # of 6.9 and 7.1
    assert found.noise(REFERENCE).log_sd == pytest.approx(sd)
    assert found.value(ONE).variance == pytest.approx(0.02, rel=1e-3)
    assert found.value(REFERENCE).variance == pytest.approx(0.01, rel=1e-3)
    assert found.value(REFERENCE).center == pytest.approx(7.0)


def test_a_set_with_few_commits_does_not_enter_the_pooled_noise():
    found = values(reference=([6.99, 7.01], 0.005), two=([0.5, 1.5, 1.0], 0.4))
    assert found.noise(REFERENCE).log_sd == pytest.approx(math.sqrt(0.0002))
    assert found.noise(REFERENCE).dof == 1


def test_few_commits_add_their_own_variance():
    found = values(reference=([6.99, 7.01], 0.005), one=([1.0], 0.4))
    between = 0.0002 - 0.005**2
    assert found.value(ONE).variance == pytest.approx(between + 0.4**2)


def test_a_set_noisier_than_the_others_has_its_own_variance():
    steady = [7.00, 7.01, 6.99, 7.005, 6.995, 7.0, 7.01, 6.99]
    found = values(reference=(steady, 0.005), one=([4.0, 5.0, 6.0], 0.005))
    assert found.value(ONE).variance == pytest.approx(1.0 / 3)


def test_a_target_steadier_than_the_reference_has_a_noise_of_its_own():
    unsteady, steady = [7.2, 6.8, 7.3, 6.9, 6.8], [4.00, 4.02, 3.98, 4.01, 3.99]
    found = values(reference=(unsteady, 0.001), target=(steady, 0.001), one=([6.0], 0.001))
    assert found.noise(ALL).log_sd == pytest.approx(0.0158, abs=1e-4)
    assert (
        found.noise(ONE).log_sd == found.noise(REFERENCE).log_sd == pytest.approx(0.235, abs=1e-3)
    )
    assert found.noise(ALL - ONE).dof == found.value(ALL).dof == 4
    alike = values(reference=(unsteady, 0.001), target=([4.1, 3.9, 4.2, 3.8, 3.9], 0.001))
    assert alike.noise(ALL) == alike.noise(REFERENCE)
    assert alike.noise(ALL).dof == 8


def test_without_repeats_the_noise_is_assumed_to_be_large():
    assert values(one=([5.0], 0.01)).value(ONE).variance >= 0.01


def test_an_invalid_trial_is_retried_once_and_a_failed_start_is_not():
    found = SetTrials(4)
    assert found.is_open(ONE)
    found.add(Observed(ONE, True, None, Outcome.INVALID))
    assert found.is_open(ONE)
    found.add(Observed(ONE, True, None, Outcome.INVALID))
    assert not found.is_open(ONE)
    assert found.failure(ONE) is Outcome.INVALID
    found.add(Observed(TWO, True, None, Outcome.DID_NOT_START))
    assert not found.is_open(TWO)
    assert found.value(TWO) is None


def test_a_set_that_committed_nothing_once_is_slow_and_noisy_but_not_bounded():
    stalled = Reading(math.log(-math.log(0.05) / 20), 0.0, True, 1, True)  # nothing in 20 s
    found = values(one=([-0.9] * 4, 0.35))
    steady = found.value(ONE)
    found.add(Observed(ONE, True, stalled, Outcome.STALLED))
    mixed = found.value(ONE)
    assert not mixed.is_bound
    assert mixed.center < steady.center
    assert mixed.variance > steady.variance
    # The 95 % interval still holds what the other trials say.
    assert steady.center < mixed.center + 2 * math.sqrt(mixed.variance)
    found.add(Observed(TWO, True, stalled, Outcome.STALLED))
    assert found.value(TWO).is_bound
