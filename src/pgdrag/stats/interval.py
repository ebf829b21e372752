"""An estimate with its bounds, what every number is handed on as, and the one on the log scale behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from pgdrag.stats.distributions import noncentrality, normal_beyond, student_beyond, t_multiplier

LOG_MAX = 700.0  # exp() of more is not a float
EQUIVALENCE = 0.02  # slowdowns between 1/1.02 and 1.02 are as good as none


@dataclass(frozen=True)
class Interval:
    """An estimate with its bounds.

    Attributes:
        center: the estimate; for a censored rate the upper bound stands in `high` and center is 0;
            for a slowdown to a treatment that committed nothing the bound stands in `low` and
            center is infinite.
        low, high: bounds; `high` may be infinite, `low` may be 0.
        confidence: the coverage, in (0, 1).
        method: how it was made, in a few words.
        warnings: to print beside the number, each naming the remedy still untried.
    """

    low: float
    center: float
    high: float
    confidence: float
    method: str
    warnings: tuple[str, ...] = ()

    @classmethod
    def of_logs(
        cls, low: float, center: float, high: float, confidence: float, method: str
    ) -> Interval:
        """Return a ratio from natural logarithms, which may be infinite."""
        return cls(ratio_of_log(low), ratio_of_log(center), ratio_of_log(high), confidence, method)

    @property
    def excludes_one(self) -> bool:
        """Of a ratio: it differs significantly from no change."""
        return self.low > 1 or self.high < 1


class Verdict(StrEnum):
    """How a treatment compares with another."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Comparison:
    """One treatment against another: how many times *slower* (over 1) or faster (under 1) it is.

    Attributes:
        slowdown: throughput of the reference divided by that of the treatment.
        detectable: the smallest slowdown (as a ratio over 1) that trials like these detect
            with a power of 80 %; infinite where they can detect none.
    """

    verdict: Verdict
    slowdown: Interval
    detectable: float

    @classmethod
    def of(cls, slowdown: Interval) -> Comparison:
        """Return the verdict of an interval alone, without what its trials could have detected."""
        return cls(verdict_of(slowdown, None), slowdown, math.inf)

    @property
    def is_significant(self) -> bool:
        """Whether it is slower or faster."""
        return self.verdict in (Verdict.SLOWER, Verdict.FASTER)


def verdict_of(interval: Interval, narrow: Interval | None) -> Verdict:
    """Return *slower* or *faster* where the interval excludes 1, *equivalent* where the narrow one lies within the margin."""
    if interval.excludes_one:
        return Verdict.SLOWER if interval.low > 1 else Verdict.FASTER
    if narrow is not None and 1 / (1 + EQUIVALENCE) < narrow.low <= narrow.high < 1 + EQUIVALENCE:
        return Verdict.EQUIVALENT
    return Verdict.INCONCLUSIVE


def bounded_exp(log: float) -> float:
    """Return exp(log), kept within what a float can hold."""
    return math.exp(min(max(log, -LOG_MAX), LOG_MAX))


def ratio_of_log(log: float) -> float:
    """Return exp(log): infinite or 0 for an infinite one, else within what a float can hold."""
    return math.exp(log) if math.isinf(log) else bounded_exp(log)


@dataclass(frozen=True)
class LogEstimate:
    """A logarithm of a rate or of a ratio of rates, its standard error and degrees of freedom.

    Attributes:
        floor_se: standard error from within the trials alone: the interval is never narrower than this.
        method: how it was estimated, in a few words.
        warnings: each naming the remedy still untried.
        has_between: the error includes what differs from trial to trial.
    """

    center: float
    se: float
    dof: float
    floor_se: float
    method: str
    warnings: tuple[str, ...] = ()
    has_between: bool = True

    def half_width(self, confidence: float = 0.95) -> float:
        """Return half the width of the interval on the log scale."""
        return max(
            t_multiplier(confidence, self.dof) * self.se,
            # Replicates that agree by luck know no more than their own counts do.
            t_multiplier(confidence, math.inf) * self.floor_se,
        )

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return the estimate with its interval, as a rate or a ratio."""
        half = self.half_width(confidence)
        return Interval(
            bounded_exp(self.center - half),
            bounded_exp(self.center),
            bounded_exp(self.center + half),
            confidence,
            self.method,
            self.warnings,
        )

    def detectable(self, confidence: float = 0.95) -> float:
        """Return the smallest ratio (over 1) that would have been significant with a power of 80 %."""
        # The power of the t test at a true log ratio of `shift` standard errors is a noncentral t.
        between = noncentrality(self.dof, confidence) * self.se
        within = noncentrality(math.inf, confidence) * self.floor_se
        return bounded_exp(max(between, within))

    def comparison(self, confidence: float = 0.95) -> Comparison:
        """Return the verdict on a slowdown; *equivalent* by the interval at `2 * confidence - 1`."""
        interval = self.interval(confidence)
        narrow = self.interval(2 * confidence - 1) if self.has_between else None
        return Comparison(verdict_of(interval, narrow), interval, self.detectable(confidence))

    @property
    def p_value(self) -> float:
        """Two-sided p-value of no effect, by whichever error is larger."""
        distance = abs(self.center)
        if distance == 0:
            return 1.0
        between = 2 * student_beyond(distance / self.se, self.dof) if self.se else 0.0
        within = 2 * normal_beyond(distance / self.floor_se) if self.floor_se else 0.0
        return float(max(between, within))
