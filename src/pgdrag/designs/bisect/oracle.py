"""Does this treatment keep enough of a slowdown? A sequential test on logarithms of throughput.

The question is always on which side of a threshold a rate lies. Each trial tells as much as its
commits do (a Poisson count over its time; of a stalled trial none), and what differs from trial to
trial is added. The test goes on until one side is likelier by far, and gives up in between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pgdrag.findings.readings import Reading, log_rate, stalled_time_s

ERROR = (
    0.05  # of the sequential test, on either side, where a rate lies beyond its indifference zone
)
NOISE_USUAL = 0.06  # standard deviation between trials that a quiet machine shows, as a logarithm
NOISE_WEIGHT = 3  # degrees of freedom that this experience is worth

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_MANY_COMMITS = 25.0


class Verdict(StrEnum):
    """What a test of a set of changes came to."""

    KEEPS = "keeps"  # as slow as it must be
    LOSES = "loses"  # too much of the slowdown is gone
    UNRESOLVED = (
        "unresolved"  # no number, or too close to the threshold for the trials it was given
    )


@dataclass(frozen=True)
class Estimate:
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

    reference: Estimate
    target: Estimate
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

    @property
    def log_per_s(self) -> float:
        """The threshold itself."""
        return self.reference.log - self.share * (self.reference.log - self.target.log)

    @property
    def indifference(self) -> float:
        """Half the width of the zone within which either answer will do.

        Half of what may be lost; never below the noise of one trial, which no test of a few trials
        could see through.
        """
        return max((1 - self.share) * self.whole / 2, self.noise_sd)

    def effect(self, readings: Sequence[Reading]) -> Estimate:
        """Return how far a treatment's rate lies from the reference's, towards the target's."""
        found = estimate(readings, self.noise_sd)
        return Estimate(self.sign * (self.reference.log - found.log), found.se)

    def verdict(self, readings: Sequence[Reading]) -> Verdict:
        """Return what the trials of a treatment say so far.

        Source: Wald's sequential probability ratio test (1945) between the two ends of the
        indifference zone.
        """
        if not readings:
            return Verdict.UNRESOLVED
        away = self.sign * self.indifference
        keeps, loses = (
            log_likelihood(readings, self.log_per_s + side * away, self.noise_sd)
            for side in (-1, 1)
        )
        bound = math.log((1 - ERROR) / ERROR)
        if keeps - loses >= bound:
            return Verdict.KEEPS
        return Verdict.LOSES if loses - keeps >= bound else Verdict.UNRESOLVED


def estimate(readings: Sequence[Reading], noise_sd: float) -> Estimate:
    """Return the logarithm of a treatment's rate from all its trials.

    Weighed where all have many commits; else they are counted together, as one trial of all their time.
    """
    assert readings, "no trial to estimate from"
    seen = [_as_counts(reading) for reading in readings]
    if all(commits >= _MANY_COMMITS for commits, _ in seen):
        weights = [1 / (1 / commits + noise_sd**2) for commits, _ in seen]
        total = sum(weights)
        mean = sum(w * x.log_per_s for w, x in zip(weights, readings, strict=True)) / total
        return Estimate(mean, 1 / math.sqrt(total))
    mean, variance = log_rate(
        sum(commits for commits, _ in seen), sum(time_s for _, time_s in seen)
    )
    return Estimate(mean, math.sqrt(variance + noise_sd**2 / len(seen)))


def commits(readings: Sequence[Reading]) -> float:
    """Return how many commits the trials of a treatment are worth together."""
    return sum(_as_counts(reading)[0] for reading in readings)


def log_likelihood(readings: Sequence[Reading], log_per_s: float, noise_sd: float) -> float:
    """Return how likely the trials are at a rate, as a logarithm up to a constant.

    A trial's own rate differs from the treatment's by normal noise, over which is integrated
    (Gauss and Hermite, nine nodes); its commits are Poisson.
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

    Few repeats know little: what a quiet machine usually shows is worth three of them. What the
    chance in counting explains is no noise.
    """
    squares, dof = NOISE_WEIGHT * NOISE_USUAL**2, float(NOISE_WEIGHT)
    for readings in groups:
        many = [x for x in readings if _as_counts(x)[0] >= _MANY_COMMITS]
        if len(many) < 2:
            continue
        logs = np.array([x.log_per_s for x in many])
        within = sum(x.log_se**2 for x in many) / len(many)
        squares += (len(many) - 1) * max(float(logs.var(ddof=1)) - within, 0.0)
        dof += len(many) - 1
    return math.sqrt(squares / dof)


def _as_counts(reading: Reading) -> tuple[float, float]:
    """Return the commits that a reading is worth, and the seconds that go with them."""
    if reading.is_bound:
        return 0.0, stalled_time_s(reading)
    count = 1 / max(reading.log_se, 1e-4) ** 2
    return count, count / math.exp(reading.log_per_s)
