"""How large is a difference of logarithms, and can it be chance?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pgdrag.stats.distributions import student_beyond, t_multiplier

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Effect:
    """How much slower a change makes the server: a natural logarithm, above 0 is slower.

    Attributes:
        low, high: 95 % bounds of this one comparison; infinite where a side is only bounded.
        se: standard error, infinite for a bound.
        dof: degrees of freedom of the noise.
    """

    center: float
    low: float
    high: float
    se: float
    dof: float

    @property
    def p_value(self) -> float:
        """Probability of an effect this large by chance; 0 or 1 for a bound, by its 95 % interval."""
        if math.isinf(self.se):
            return 0.0 if self.is_significant else 1.0
        return 2 * student_beyond(abs(self.center) / self.se, self.dof)

    @property
    def is_significant(self) -> bool:
        """The interval excludes 0."""
        return self.low > 0 or self.high < 0

    def is_within(self, matters: float) -> bool:
        """Tell whether the interval lies within so much either way, a natural logarithm above 0."""
        return -matters < self.low <= self.high < matters

    @property
    def size(self) -> float:
        """The center, or the finite end of a bound: the effect is at least that."""
        if math.isfinite(self.center):
            return self.center
        return self.low if self.center > 0 else self.high


def effect_of(center: float, se: float, dof: float) -> Effect:
    """Return an effect with its bounds, by Student's t."""
    half = t_multiplier(CONFIDENCE, dof) * se
    return Effect(center, center - half, center + half, se, dof)
