"""Does a quantity that was looked at again and again grow, or does it only move?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdrag.stats.distributions import t_multiplier

# What is loaded, opened and cached once is no growth: the first part is left out.
WARM_UP = 0.3
# Neighbouring looks resemble each other, and a line through them would be called growth too often.
BATCHES = 12
CONFIDENCE = 0.99


@dataclass(frozen=True)
class Growth:
    """How fast a quantity grows, in its unit per hour.

    Attributes:
        mean: of the quantity itself, after the warm-up.
        low, high: the interval of `per_h`, at `CONFIDENCE`.
    """

    mean: float
    per_h: float
    low: float
    high: float

    def is_beyond(self, allowed_per_h: float) -> bool:
        """Whether it grows faster than allowed, whatever the noise."""
        return self.low > allowed_per_h


def growth(times_s: Sequence[float], values: Sequence[float]) -> Growth | None:
    """Estimate the growth from a straight line through batch means; None: there are too few looks.

    Args:
        times_s: of the looks, ascending.
        values: what was seen then.
    """
    first = math.ceil(WARM_UP * len(times_s))
    if len(times_s) - first < 2 * BATCHES:
        return None
    x, y = (
        np.array([part.mean() for part in np.array_split(np.asarray(of[first:], float), BATCHES)])
        for of in (times_s, values)
    )
    mean, x = float(y.mean()), (x - x.mean()) / 3600
    spread = float(x @ x)
    slope = float(x @ y) / spread
    rest = y - mean - slope * x
    half = t_multiplier(CONFIDENCE, BATCHES - 2) * math.sqrt(
        float(rest @ rest) / (BATCHES - 2) / spread
    )
    return Growth(mean, slope, slope - half, slope + half)
