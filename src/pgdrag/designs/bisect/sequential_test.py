"""Does this treatment keep enough of a slowdown? A sequential test on logarithms of throughput.

The question is on which side of a threshold a rate lies. A trial is a Poisson count over its time (of a
stalled trial, zero) with the noise between trials added. The test goes on until one side is far likelier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pgdrag.findings.readings import Reading, log_rate, stalled_time_s
from pgdrag.stats.noise import Noise, pooled_noise

ERROR = 0.05  # of the test on either side, where a rate lies outside the indifference zone
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

    @property
    def log_per_s(self) -> float:
        """The threshold itself."""
        return self.reference.log - self.share * (self.reference.log - self.target.log)

    @property
    def indifference(self) -> float:
        """Half the width of the zone within which either verdict will do.

        Half of what may be lost, and at least the noise of one trial.
        """
        return max((1 - self.share) * self.whole / 2, self.noise_sd)

    def effect(self, readings: Sequence[Reading]) -> LogValue:
        """Return how far a treatment's rate lies from the reference's, towards the target's."""
        found = estimate(readings, self.noise_sd)
        return LogValue(self.sign * (self.reference.log - found.log), found.se)

    def verdict(self, readings: Sequence[Reading]) -> SetVerdict:
        """Return the verdict on a treatment from its trials so far.

        Source: Wald's sequential probability ratio test (1945) between the two ends of the
        indifference zone.
        """
        if not readings:
            return SetVerdict.UNRESOLVED
        away = self.sign * self.indifference
        at_ends = (self.log_per_s - away, self.log_per_s + away)
        keeps, loses = (log_likelihood(readings, at, self.noise_sd) for at in at_ends)
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


def commits(readings: Sequence[Reading]) -> float:
    """Return how many commits the trials of a treatment are worth together."""
    return sum(_as_counts(reading)[0] for reading in readings)


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


def noise_between(groups: Sequence[Sequence[Reading]]) -> Noise:
    """LogValue the standard deviation between trials of one treatment, from several treatments' repeats.

    With a prior, since repeats are few; the chance in counting commits is subtracted.
    """
    many = [[x for x in group if _as_counts(x)[0] >= _MANY_COMMITS] for group in groups]
    within = [sum(x.log_se**2 for x in group) / max(len(group), 1) for group in many]
    logs = [[x.log_per_s for x in group] for group in many]
    found = pooled_noise(logs, within=within, prior=USUAL_NOISE)
    assert found is not None, "a prior is always known"
    return found


def _as_counts(reading: Reading) -> tuple[float, float]:
    """Return the commits that a reading is worth, and the seconds that go with them."""
    if reading.is_bound:
        return 0.0, stalled_time_s(reading)
    count = 1 / max(reading.log_se, 1e-4) ** 2
    return count, count / math.exp(reading.log_per_s)
