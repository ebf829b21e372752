"""How fast is the reference with a set of changes upon it? The trials of each set, as one number.

A set of changes is a `frozenset` of their numbers: empty is the reference, all of them the target.
Values are natural logarithms of throughput, so that differences of values are logarithms of ratios.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from scipy import stats

from pgdrag.analysis.readings import Reading
from pgdrag.plan import Outcome

Changes = frozenset[int]
REFERENCE: Changes = frozenset()

# An outcome that says nothing of the treatment itself gets another trial, up to so many in all.
_TRIALS_MAX_WITHOUT_NUMBER = 2
_PASSING = (Outcome.INVALID, Outcome.MEASURED)
_SD_UNKNOWN = 0.1  # of single trials, where nothing was repeated: rather too doubtful than too sure
_VARIANCE_LEAST = 1e-12


@dataclass(frozen=True)
class Value:
    """Log throughput of one set of changes.

    Attributes:
        center: mean over its trials; of a set that committed nothing, the bound.
        variance: of that mean.
        is_bound: a trial of it committed nothing, so the throughput is at most this.
    """

    center: float
    variance: float
    is_bound: bool
    trials: int


@dataclass(frozen=True)
class TrialNoise:
    """How much trials of one set differ: standard deviation of a logarithm, and what it rests on."""

    log_sd: float
    dof: int


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
        count = len(readings)
        between = self.noise.log_sd**2
        # Repeats hold the chance within a trial as well; a trial with few commits may have more of it.
        variance = sum(max(between, one.log_se**2, _VARIANCE_LEAST) for one in readings) / count**2
        return Value(
            sum(one.log_per_s for one in readings) / count,
            variance,
            any(one.is_bound for one in readings),
            count,
        )


def _pooled_noise(repeats: Iterable[list[Reading]]) -> TrialNoise:
    squares, dof = 0.0, 0
    for readings in repeats:
        logs = [one.log_per_s for one in readings if not one.is_bound]
        if len(logs) > 1:
            mean = sum(logs) / len(logs)
            squares += sum((log - mean) ** 2 for log in logs)
            dof += len(logs) - 1
    return TrialNoise(math.sqrt(squares / dof), dof) if dof else TrialNoise(_SD_UNKNOWN, 1)


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, dof: float) -> float:
    """Return how many standard errors a two-sided t interval reaches to each side."""
    return float(stats.t.ppf((1 + confidence) / 2, dof))
