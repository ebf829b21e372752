"""Which trials has an ablation run, how fast was each set of changes, and how many trials are left?

A set of changes is a `frozenset` of their numbers: empty is the reference, all of them the target.
Values are natural logarithms of throughput, so a difference of values is the logarithm of a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pgdrag.designs._moves import Quantities
from pgdrag.designs._sides import NoiseOfSides
from pgdrag.designs._subsets import Changes, Observed, Request
from pgdrag.findings.readings import Reading, log_rate, of_mean_host, stalled_time_s
from pgdrag.model import Outcome
from pgdrag.stats.distributions import f_quantile
from pgdrag.stats.noise import Noise, pooled_noise

REFERENCE: Changes = frozenset()

# An outcome that says nothing about the treatment itself is retried, up to this number of trials.
_TRIALS_MAX_WITHOUT_NUMBER = 2
_RETRIED = (Outcome.INVALID, Outcome.MEASURED)
_SD_UNKNOWN = 0.1  # of single trials, where nothing was repeated: large, to be on the safe side
_VARIANCE_LEAST = 1e-12
_UNSTEADY = 0.01  # significance level at which a set is noisier than the others
# Pool sets whose variance within a trial is up to this many times the least, or small anyhow.
_AS_FINE, _FINE = 4.0, 0.01**2


@dataclass(frozen=True)
class Value:
    """Log throughput of one set of changes.

    Attributes:
        center: mean over its trials; the bound, for a set that committed nothing.
        variance: of that mean.
        is_bound: no trial committed anything, so the throughput is at most `center`.
        dof: degrees of freedom of the variance.
    """

    center: float
    variance: float
    is_bound: bool
    trials: int
    dof: float


@dataclass(frozen=True)
class TrialNoise(Noise):
    """Noise between trials of one set that have as many commits as the repeated ones.

    Attributes:
        within: part of the variance that comes from within the trials.
    """

    within: float = 0.0

    def variance(self, log_se: float) -> float:
        """Return the variance of a trial with this error from within: few commits have more of it."""
        between = max(self.log_sd**2 - self.within, 0.0)
        return between + max(log_se**2, self.within, _VARIANCE_LEAST)


_UNKNOWN = TrialNoise(_SD_UNKNOWN, 1)


class SetTrials:
    """The trials of one length, by set of changes.

    Args:
        changes: how many there are.

    Attributes:
        quantities: what else was measured in each trial that has a number.
    """

    def __init__(self, changes: int) -> None:
        self._most = changes / 2
        self._seen: dict[Changes, list[Reading]] = {}
        self._alike: dict[Changes, list[Reading]] | None = None
        self._failures: dict[Changes, list[Outcome]] = {}
        self.quantities = Quantities()
        self._noise: NoiseOfSides[TrialNoise] | None = None
        self._values: dict[Changes, Value] = {}

    def add(self, one: Observed) -> None:
        """Add one trial; without a reading, only its outcome is known."""
        self._noise = self._alike = None
        self._values.clear()
        if one.reading is None:
            self._failures.setdefault(one.changes, []).append(one.outcome)
        else:
            self._seen.setdefault(one.changes, []).append(one.reading)
            self.quantities.add(one.changes, one.quantities)

    @property
    def _readings(self) -> dict[Changes, list[Reading]]:
        if self._alike is None:
            self._alike = of_mean_host(self._seen)
        return self._alike

    def has_trial(self, changes: Changes) -> bool:
        """Tell whether a set has been run, with or without a number."""
        return changes in self._readings or changes in self._failures

    def count(self, changes: Changes) -> int:
        """Return how many trials of a set have a number."""
        return len(self._readings.get(changes, ()))

    def failure(self, changes: Changes) -> Outcome | None:
        """Return how a set without any number ended; None where it has one, or was not run."""
        ends = self._failures.get(changes)
        return ends[-1] if ends and changes not in self._readings else None

    def is_open(self, changes: Changes) -> bool:
        """Tell whether a set lacks a number and is worth a trial: not run yet, or worth a retry."""
        ends = self._failures.get(changes, [])
        if changes in self._readings or len(ends) >= _TRIALS_MAX_WITHOUT_NUMBER:
            return False
        return not ends or ends[-1] in _RETRIED

    def noise(self, changes: Changes) -> TrialNoise:
        """Return the noise between trials of one set, pooled over the sets that are as noisy as this one."""
        if self._noise is None:
            self._noise = NoiseOfSides.of(self._readings, self._most, _noise_of)
        return _UNKNOWN if self._noise is None else self._noise.near(changes)

    def value(self, changes: Changes) -> Value | None:
        """Return the mean over the trials of a set; None where none has a number."""
        readings = self._readings.get(changes)
        if readings is None or changes in self._values:
            return self._values.get(changes)
        is_bound = all(one.is_bound for one in readings)
        if not is_bound:
            readings = [_estimated(one) for one in readings]
        count = len(readings)
        center = sum(one.log_per_s for one in readings) / count
        noise = self.noise(changes)
        variance = sum(noise.variance(one.log_se) for one in readings) / count
        if count > 1:
            # Of a set that is noisier than the others, its own trials give the variance.
            own = sum((one.log_per_s - center) ** 2 for one in readings) / (count - 1)
            rest = {key: one for key, one in self._readings.items() if key != changes}
            others = NoiseOfSides.of(rest, self._most, _noise_of)
            usual = _UNKNOWN if others is None else others.near(changes)
            expected = sum(usual.variance(one.log_se) for one in readings) / count
            if own > expected * f_quantile(1 - _UNSTEADY, count - 1, usual.dof):
                variance = max(variance, own)
        self._values[changes] = Value(center, variance / count, is_bound, count, noise.dof)
        return self._values[changes]


class History:
    """All trials so far, and the budget; each stage of the procedure asks for trials here.

    Args:
        changes: how many there are.
        limit: the most trials to run.
        is_per_replicate: the limit holds for each replicate, not for all together.

    Attributes:
        brief, full: the trials of either length.
        trials, brief_trials: how many were run, and how many of those were short.
    """

    def __init__(self, changes: int, limit: int, *, is_per_replicate: bool = False) -> None:
        self.limit = limit
        self._is_per_replicate = is_per_replicate
        self.brief = SetTrials(changes)
        self.full = SetTrials(changes)
        self.trials = 0
        self.brief_trials = 0
        self._asked = 0
        self._pending = 0  # asked for and not finished

    def add(self, observed: Iterable[Observed]) -> None:
        """Add finished trials."""
        self._pending = 0
        for one in observed:
            self.trials += 1
            self.brief_trials += one.is_brief
            of_length = self.brief if one.is_brief else self.full
            of_length.add(one)

    def has_all(self, request: Request) -> bool:
        """Tell whether each set that is asked for has a trial."""
        of_length = self.brief if request.is_brief else self.full
        return all(map(of_length.has_trial, request.sets))

    @property
    def left(self) -> int:
        """How many more sets fit into the budget, including those asked for now."""
        asked = self._asked - self._pending
        if self._is_per_replicate:
            return max(self.limit - asked, 0)
        # The laboratory may run every set several times: its replicates.
        times = max(round(self.trials / asked), 1) if asked else 1
        return max(self.limit - self.trials, 0) // times

    def ask(self, sets: Sequence[Changes], *, is_brief: bool = False) -> Iterator[Request]:
        """Ask for one block within the budget; yield nothing for no sets."""
        affordable = tuple(sets[: self.left])
        if affordable:
            self._asked += len(affordable)
            self._pending = len(affordable)
            yield Request(affordable, is_brief)


def _estimated(reading: Reading) -> Reading:
    """Return an estimate for a trial that committed nothing, where others of its set did."""
    if not reading.is_bound:
        return reading
    mean, variance = log_rate(0, stalled_time_s(reading))
    return replace(reading, log_per_s=mean, log_se=math.sqrt(variance), is_bound=False)


def _noise_of(repeats: Iterable[list[Reading]]) -> TrialNoise | None:
    """Pool the repeats of those sets that have the most commits.

    The chance in counting a handful of commits would mask the small differences between the others. None where
    nothing was repeated.
    """
    sets = [[one for one in readings if not one.is_bound] for readings in repeats]
    repeated = [
        (sum(one.log_se**2 for one in readings) / len(readings), readings)
        for readings in sets
        if len(readings) > 1
    ]
    if not repeated:
        return None
    finest = min(within for within, _ in repeated)
    fine = [one for one in repeated if one[0] <= max(_AS_FINE * finest, _FINE)]
    noise = pooled_noise([one.log_per_s for one in readings] for _, readings in fine)
    assert noise is not None, "several trials of each"
    within = sum(within * (len(readings) - 1) for within, readings in fine) / noise.dof
    return TrialNoise(noise.log_sd, noise.dof, within)
