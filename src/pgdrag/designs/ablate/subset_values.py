"""How fast is the reference with a set of changes upon it? The trials of each set, as one number.

A set of changes is a `frozenset` of their numbers: empty is the reference, all of them the target.
Values are natural logarithms of throughput, so that differences of values are logarithms of ratios.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from pgdrag.findings.readings import Reading, log_rate, stalled_time_s
from pgdrag.model import Outcome
from pgdrag.stats.distributions import f_quantile, student_quantile

Changes = frozenset[int]
REFERENCE: Changes = frozenset()

# An outcome that says nothing of the treatment itself gets another trial, up to so many in all.
_TRIALS_MAX_WITHOUT_NUMBER = 2
_PASSING = (Outcome.INVALID, Outcome.MEASURED)
_SD_UNKNOWN = 0.1  # of single trials, where nothing was repeated: rather too doubtful than too sure
_VARIANCE_LEAST = 1e-12
_UNSTEADY = 0.01  # a set that chance makes so unsteady so rarely is unsteadier than the others
# Sets are pooled whose variance within a trial is up to so many times the least, or small anyhow.
_AS_FINE, _FINE = 4.0, 0.01**2


@dataclass(frozen=True)
class Value:
    """Log throughput of one set of changes.

    Attributes:
        center: mean over its trials; of a set that committed nothing, the bound.
        variance: of that mean.
        is_bound: no trial of it committed anything, so the throughput is at most this.
    """

    center: float
    variance: float
    is_bound: bool
    trials: int


@dataclass(frozen=True)
class TrialNoise:
    """How much trials of one set differ, on the log scale.

    Attributes:
        log_sd: standard deviation of one trial of a set with as many commits as the repeated ones.
        dof: what that rests on.
        within: part of its square that comes from within the trials.
    """

    log_sd: float
    dof: int
    within: float = 0.0

    def variance(self, log_se: float) -> float:
        """Return the variance of a trial that has this error from within: few commits have more of it."""
        between = max(self.log_sd**2 - self.within, 0.0)
        return between + max(log_se**2, self.within, _VARIANCE_LEAST)


class SubsetValues:
    """The trials of one fidelity, by set of changes."""

    def __init__(self) -> None:
        self._readings: dict[Changes, list[Reading]] = {}
        self._failures: dict[Changes, list[Outcome]] = {}
        self._noise: TrialNoise | None = None

    def add(self, changes: Changes, reading: Reading | None, outcome: Outcome) -> None:
        """Take one trial; without a reading, its outcome is what is known."""
        self._noise = None
        if reading is None:
            self._failures.setdefault(changes, []).append(outcome)
        else:
            self._readings.setdefault(changes, []).append(reading)

    def trials(self, changes: Changes) -> int:
        """Return how many trials of a set have a number."""
        return len(self._readings.get(changes, ()))

    def failure(self, changes: Changes) -> Outcome | None:
        """Return how a set without any number ended; None where it has one, or was not run."""
        ends = self._failures.get(changes)
        return ends[-1] if ends and changes not in self._readings else None

    def is_open(self, changes: Changes) -> bool:
        """Tell whether a first trial is wanted: none was run, or what was run says nothing."""
        ends = self._failures.get(changes, [])
        if changes in self._readings or len(ends) >= _TRIALS_MAX_WITHOUT_NUMBER:
            return False
        return not ends or ends[-1] in _PASSING

    def known(self) -> tuple[Changes, ...]:
        """Return the sets that have a number."""
        return tuple(self._readings)

    @property
    def noise(self) -> TrialNoise:
        """The noise between trials of one set, pooled over all that were repeated.

        Without repeats, or where they agree to the last digit, what the trials say of themselves is
        all there is.
        """
        if self._noise is None:
            self._noise = _pooled_noise(self._readings.values())
        return self._noise

    def value(self, changes: Changes) -> Value | None:
        """Return what the trials of a set say together; None where none has a number."""
        readings = self._readings.get(changes)
        if not readings:
            return None
        is_bound = all(one.is_bound for one in readings)
        if not is_bound:
            readings = [_estimated(one) for one in readings]
        count = len(readings)
        center = sum(one.log_per_s for one in readings) / count
        variance = sum(self.noise.variance(one.log_se) for one in readings) / count
        if count > 1 and self._is_unsteady(changes, readings):
            variance = max(variance, _squares(readings) / (count - 1))
        return Value(center, variance / count, is_bound, count)

    def _is_unsteady(self, changes: Changes, readings: list[Reading]) -> bool:
        """Tell whether a set differs from trial to trial by more than all the others make one expect.

        Some treatments are less steady than the reference is: then their own trials tell.
        """
        others = [one for key, one in self._readings.items() if key != changes]
        noise = _pooled_noise(others)
        expected = sum(noise.variance(one.log_se) for one in readings) / len(readings)
        own_dof = len(readings) - 1
        return _squares(readings) / own_dof > expected * _f_quantile(own_dof, noise.dof)


def _estimated(reading: Reading) -> Reading:
    """Return an estimate in place of the bound of a trial that committed nothing, where others of its set did."""
    if not reading.is_bound:
        return reading
    mean, variance = log_rate(0, stalled_time_s(reading))
    return replace(reading, log_per_s=mean, log_se=math.sqrt(variance), is_bound=False)


def _pooled_noise(repeats: Iterable[list[Reading]]) -> TrialNoise:
    """Pool the repeats of those sets that are counted most finely.

    A set with a handful of commits differs from trial to trial by the chance in counting them, and
    would drown what little the others differ by.
    """
    sets = [[one for one in readings if not one.is_bound] for readings in repeats]
    repeated = [(_within(readings), readings) for readings in sets if len(readings) > 1]
    if not repeated:
        return TrialNoise(_SD_UNKNOWN, 1)
    finest = min(within for within, _ in repeated)
    fine = [one for one in repeated if one[0] <= max(_AS_FINE * finest, _FINE)]
    squares = sum(_squares(readings) for _, readings in fine)
    dof = sum(len(readings) - 1 for _, readings in fine)
    within = sum(within * (len(readings) - 1) for within, readings in fine) / dof
    return TrialNoise(math.sqrt(squares / dof), dof, within)


def _within(readings: list[Reading]) -> float:
    return sum(one.log_se**2 for one in readings) / len(readings)


def _squares(readings: list[Reading]) -> float:
    logs = [one.log_per_s for one in readings]
    mean = sum(logs) / len(logs)
    return sum((log - mean) ** 2 for log in logs)


@lru_cache(maxsize=4096)
def _f_quantile(dof: int, noise_dof: int) -> float:
    return f_quantile(1 - _UNSTEADY, dof, noise_dof)


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, dof: float) -> float:
    """Return how many standard errors a two-sided t interval reaches to each side."""
    return student_quantile((1 + confidence) / 2, dof)
