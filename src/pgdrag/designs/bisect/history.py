"""Which sets of changes were tried, and does each keep enough of the slowdown?

A sequential test on logarithms of throughput says on which side of a threshold a rate lies. A trial is a
Poisson count over its time (of a stalled trial, zero) with the noise between trials added. The test goes on
until one side is far likelier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from pgdrag.designs._moves import Quantities
from pgdrag.designs._subsets import Changes, Observed
from pgdrag.findings.readings import Reading, log_rate, of_mean_host, stalled_time_s
from pgdrag.stats.noise import Noise, pooled_noise

ERROR = 0.05  # of the test on either side, where a rate lies outside the zone of indifference
USUAL_NOISE = Noise(0.06, 3)  # of a quiet machine, worth so many degrees of freedom

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_MANY_COMMITS = 25.0


class SetVerdict(StrEnum):
    """The result of testing a set of changes."""

    KEEPS = "keeps"  # at least the share wanted
    LOSES = "loses"  # less than that
    UNRESOLVED = "unresolved"  # no number, or too close to the threshold for its trials


@dataclass(frozen=True)
class LogValue:
    """A logarithm of transactions/s, or a difference of two, with its standard error."""

    log: float
    se: float


@dataclass(frozen=True)
class Threshold:
    """The rate at which a share of the way from the reference to the target is kept.

    Attributes:
        reference, target: logarithms of their rates.
        noise_sd: standard deviation of the logarithm between trials.
        share: of the log ratio that must be kept, in (0, 1).
    """

    reference: LogValue
    target: LogValue
    noise_sd: float
    share: float

    @property
    def whole(self) -> float:
        """The log ratio from the reference to the target, never negative."""
        return abs(self.reference.log - self.target.log)

    @property
    def whole_se(self) -> float:
        """Its standard error."""
        return math.hypot(self.reference.se, self.target.se)

    @property
    def sign(self) -> int:
        """1 where the target is the slower one, else -1."""
        return 1 if self.reference.log >= self.target.log else -1

    def effect(self, readings: Sequence[Reading]) -> LogValue:
        """Return how far a treatment's rate lies from the reference's, towards the target's."""
        found = estimate(readings, self.noise_sd)
        return LogValue(self.sign * (self.reference.log - found.log), found.se)

    def verdict(self, readings: Sequence[Reading]) -> SetVerdict:
        """Return the verdict on a treatment from its trials so far.

        Within a zone around the threshold, half of what may be lost and at least the noise of one trial to
        either side, either verdict will do.

        Source: Wald's sequential probability ratio test (1945) between the two ends of that zone.
        """
        threshold = self.reference.log - self.share * (self.reference.log - self.target.log)
        away = self.sign * max((1 - self.share) * self.whole / 2, self.noise_sd)
        keeps, loses = (
            log_likelihood(readings, at, self.noise_sd)
            for at in (threshold - away, threshold + away)
        )
        if abs(keeps - loses) < math.log((1 - ERROR) / ERROR):
            return SetVerdict.UNRESOLVED
        return SetVerdict.KEEPS if keeps > loses else SetVerdict.LOSES


def estimate(readings: Sequence[Reading], noise_sd: float) -> LogValue:
    """Return the logarithm of a treatment's rate from all its trials.

    A weighted mean where all have many commits; else their counts are pooled.
    """
    assert readings, "no trial to estimate from"
    seen = [_as_counts(reading) for reading in readings]
    if all(commits >= _MANY_COMMITS for commits, _ in seen):
        weights = [1 / (1 / commits + noise_sd**2) for commits, _ in seen]
        total = sum(weights)
        mean = sum(w * x.log_per_s for w, x in zip(weights, readings, strict=True)) / total
        return LogValue(mean, 1 / math.sqrt(total))
    mean, variance = log_rate(
        sum(commits for commits, _ in seen), sum(time_s for _, time_s in seen)
    )
    return LogValue(mean, math.sqrt(variance + noise_sd**2 / len(seen)))


def log_likelihood(readings: Sequence[Reading], log_per_s: float, noise_sd: float) -> float:
    """Return the log likelihood of the trials at a rate, up to a constant.

    A trial's own rate differs from the treatment's by normal noise, integrated out by Gauss-Hermite
    quadrature; its commits are Poisson.
    """
    total = 0.0
    for reading in readings:
        count, time_s = _as_counts(reading)
        logs = log_per_s + noise_sd * _NODES
        peak = count * (math.log(count / time_s) - 1) if count else 0.0
        terms = count * logs - time_s * np.exp(logs) - peak
        top = float(terms.max())
        total += top + math.log(float((_WEIGHTS * np.exp(terms - top)).sum()))
    return total


def noise_between(groups: Sequence[Sequence[Reading]]) -> float:
    """Return the standard deviation between trials of one treatment, from several treatments' repeats.

    With a prior, since repeats are few; the chance in counting commits is subtracted.
    """
    many = [[x for x in group if _as_counts(x)[0] >= _MANY_COMMITS] for group in groups]
    within = [sum(x.log_se**2 for x in group) / max(len(group), 1) for group in many]
    logs = [[x.log_per_s for x in group] for group in many]
    found = pooled_noise(logs, within=within, prior=USUAL_NOISE)
    assert found is not None, "a prior is always known"
    return found.log_sd


def _as_counts(reading: Reading) -> tuple[float, float]:
    """Return the commits that a reading is worth, and the seconds that go with them."""
    if reading.is_bound:
        return 0.0, stalled_time_s(reading)
    count = 1 / max(reading.log_se, 1e-4) ** 2
    return count, count / math.exp(reading.log_per_s)


def _of_mean_host(seen: Sequence[Observed]) -> list[Observed]:
    groups: dict[tuple[Changes, bool], list[Reading]] = {}
    for one in seen:
        if one.reading is not None:
            groups.setdefault((one.changes, one.is_brief), []).append(one.reading)
    found = {key: iter(readings) for key, readings in of_mean_host(groups).items()}
    return [
        one if one.reading is None else replace(one, reading=next(found[one.changes, one.is_brief]))
        for one in seen
    ]


@dataclass
class SetTest:
    """A set that was tried.

    Attributes:
        stage: of the procedure when it was first tried: "ends", "groups", "parts", "set", "left out",
            "without one" or "confirm".
        verdict: at the time; a set tried only to measure it has the verdict of those trials.
    """

    stage: str
    verdict: SetVerdict = SetVerdict.UNRESOLVED


class History:
    """All results so far, and the budget.

    Args:
        count: how many changes there are.
        limit: trials at most, all together.

    Attributes:
        replicates: how many trials the laboratory runs for each one wanted.
        tests: every set tried, in the order of the first trial.
        reserved: trials kept back for the confirmation.
    """

    def __init__(self, count: int, limit: int) -> None:
        self.none: Changes = frozenset()
        self.all: Changes = frozenset(range(count))
        self.limit = limit
        self.replicates = 1
        self.results: list[Observed] = []
        self._seen: list[Observed] = []
        self.stage = "ends"
        self.tests: dict[Changes, SetTest] = {}
        self.reserved = 0
        self.known_threshold: Threshold | None = None
        self.has_slow_target = False
        self._quantities = Quantities()  # of short trials

    @property
    def threshold(self) -> Threshold:
        """The threshold as the trials so far have it."""
        assert self.known_threshold is not None, "the ends come first"
        return self.known_threshold

    @property
    def left(self) -> int:
        """Trials that may still be asked for, those reserved left out."""
        return (self.limit - len(self.results)) // self.replicates - self.reserved

    def add(self, results: Sequence[Observed]) -> None:
        """Take the results of the trials wanted last."""
        self._seen += results
        self.results = _of_mean_host(self._seen)
        for one in results:
            if one.is_brief and one.reading is not None:
                self._quantities.add(one.changes, one.quantities)
        for result in results:
            test = self.tests.setdefault(result.changes, SetTest(self.stage))
            if self.known_threshold is not None:
                test.verdict = self.verdict(result.changes)

    def of(self, subset: Changes, *, is_brief: bool | None = None) -> list[Observed]:
        """Return the results of one set; `is_brief`: only of short trials, or only of full ones."""
        return [x for x in self.results if x.changes == subset and is_brief in (None, x.is_brief)]

    def readings(self, subset: Changes, *, is_brief: bool | None = None) -> list[Reading]:
        """Return those that have a number."""
        return [x.reading for x in self.of(subset, is_brief=is_brief) if x.reading is not None]

    def judged(self, subset: Changes) -> list[Reading]:
        """Return the readings that a set is judged by: of one length, since the two need not agree.

        Short ones; with a slow target full ones where there are any, except of the reference.
        """
        brief, full = (self.readings(subset, is_brief=x) for x in (True, False))
        return (full or brief) if self.has_slow_target and subset else (brief or full)

    def brief_commits(self, subset: Changes) -> float:
        """Return how many commits the short trials of a set are worth together."""
        return sum(_as_counts(one)[0] for one in self.readings(subset, is_brief=True))

    def effect(self, subset: Changes) -> LogValue | None:
        """Return how far a set comes on the way to the target; None without a number."""
        if subset == self.none:
            return LogValue(0.0, 0.0)
        readings = self.judged(subset)
        return self.threshold.effect(readings) if readings else None

    def moves_nothing(self, before: Changes, after: Changes) -> bool:
        """Tell whether `after` has as much as `before` of each amount per transaction that the whole moves.

        Those are far less noisy than throughput. False where the whole moves nothing, or a set has no trial.
        """
        whole = (self.none, self.all)
        are_known = all(self.readings(x, is_brief=True) for x in (before, after))
        if not are_known or not self._quantities.fingerprint(whole):
            return False
        return not self._quantities.moves(whole, {0: (before, after)})[0]

    def verdict(self, subset: Changes) -> SetVerdict:
        """Return what the sequential test says of a set so far."""
        return self.threshold.verdict(self.judged(subset))
