"""Are holds that were made as long as those that they were to repeat?

The distance is Wasserstein's on the logarithms of the lengths: the factor by which a hold must be made
longer or shorter, on average, to turn one distribution into the other. Kolmogorov and Smirnov's is given
beside it but does not decide: between two sharp modes a hundredth apart it is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pgdrag.stats.product_limit import LengthCurve, SeenHold, product_limit

TOLERANCE = 1.25  # lengths that differ by less than this factor, on average, are alike
_RESAMPLES = 400
_SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class LengthDistance:
    """How far the lengths of holds are from a distribution.

    Attributes:
        factor: the mean factor between the two, 1 or more.
        low, high: its interval, by resampling the holds.
        chance: the factor that 95 in 100 perfect repetitions of as many holds stay below.
        largest_gap: the largest difference of the two curves (Kolmogorov–Smirnov), 0 to 1.
        holds: how many there were.
        quantiles: of shares 0.1, 0.5 and 0.9: the length in the distribution and in the holds, s.
    """

    factor: float
    low: float
    high: float
    chance: float
    largest_gap: float
    holds: int
    quantiles: tuple[tuple[float, float, float], ...]

    @property
    def is_alike(self) -> bool:
        """Whether the factor is within the tolerance, or within chance."""
        return self.factor <= max(TOLERANCE, self.chance)


def log_wasserstein(first: LengthCurve, second: LengthCurve) -> float:
    """Return the mean distance of the logarithms of two curves' lengths, 0 or more."""
    logs = np.log(first.lengths_s), np.log(second.lengths_s)
    return float(scipy.stats.wasserstein_distance(*logs, first.shares, second.shares))


def kolmogorov_smirnov(first: LengthCurve, second: LengthCurve) -> float:
    """Return the largest difference of two curves, 0 to 1."""
    lengths_s = (*first.lengths_s, *second.lengths_s)
    return max(abs(first.longer_than(x) - second.longer_than(x)) for x in lengths_s)


def distance(
    wanted: LengthCurve, holds: Sequence[SeenHold], *, longest_s: float, seed: int
) -> LengthDistance:
    """Return how far holds are from the distribution that they were to repeat.

    Args:
        holds: at least one.
        longest_s: no hold could last longer, such as the length of the measured window; both are
            compared as if each hold ended there.
        seed: of the resampling behind the interval and behind chance.
    """
    assert holds, "a distance needs a hold"
    rng = np.random.default_rng(seed)
    wanted = wanted.capped(longest_s)
    found = _curve(holds, longest_s)
    number = len(holds)
    again = [
        log_wasserstein(wanted, _curve([holds[i] for i in chosen], longest_s))
        for chosen in rng.integers(number, size=(_RESAMPLES, number))
    ]
    logs, shares = np.log(wanted.lengths_s), wanted.shares
    by_chance = [
        scipy.stats.wasserstein_distance(logs, drawn, shares)
        for drawn in rng.choice(logs, size=(_RESAMPLES, number), p=shares / shares.sum())
    ]
    low, high = np.quantile(again, [0.025, 0.975])
    center = log_wasserstein(wanted, found)
    return LengthDistance(
        factor=math.exp(center),
        low=math.exp(min(float(low), center)),
        high=math.exp(max(float(high), center)),
        chance=math.exp(float(np.quantile(by_chance, 0.95))),
        largest_gap=kolmogorov_smirnov(wanted, found),
        holds=number,
        quantiles=tuple((x, wanted.quantile(x), found.quantile(x)) for x in _SHARES),
    )


def _curve(holds: Sequence[SeenHold], longest_s: float) -> LengthCurve:
    found = product_limit(holds)
    assert found is not None, "there is a hold"
    return found.capped(longest_s)
