"""An estimate on the log scale, and the interval, p-value and detectable effect that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pgdrag.stats.distributions import (
    noncentrality,
    normal_beyond,
    student_beyond,
    t_multiplier,
)
from pgdrag.stats.interval import Interval

LOG_MAX = 700.0  # exp() of more is not a float


def bounded_exp(log: float) -> float:
    """Return exp(log), kept within what a float can hold."""
    return math.exp(min(max(log, -LOG_MAX), LOG_MAX))


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

    @property
    def p_value(self) -> float:
        """Two-sided p-value of no effect, by whichever error is larger."""
        distance = abs(self.center)
        if distance == 0:
            return 1.0
        between = 2 * student_beyond(distance / self.se, self.dof) if self.se else 0.0
        within = 2 * normal_beyond(distance / self.floor_se) if self.floor_se else 0.0
        return float(max(between, within))
