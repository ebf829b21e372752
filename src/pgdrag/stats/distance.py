"""Are holds that were made as long as those that they were to repeat?

The distance is Wasserstein's on the logarithms of the lengths: by which factor must a hold be made
longer or shorter, on average, so that one distribution becomes the other. Kolmogorov and Smirnov's
is given beside it, but does not judge: between two sharp modes a hundredth apart it is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdrag.stats.product_limit import LengthCurve, SeenHold, product_limit

TOLERANCE = 1.25  # lengths that differ by less than this factor, on average, are alike
_RESAMPLES = 400
_SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class LengthDistance:
    """How far the lengths of holds are from a distribution.

    Attributes:
        factor: the mean factor between the two, 1 or more.
        low, high: its interval: what other holds of the same kind would have given.
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
        """Whether the factor is within the tolerance, or within what chance alone brings."""
        return self.factor <= max(TOLERANCE, self.chance)


def log_wasserstein(first: LengthCurve, second: LengthCurve) -> float:
    """Return the mean distance of the logarithms of two curves' lengths, 0 or more."""
    at, gaps = _gaps(first, second)
    return float(np.sum(np.diff(np.log(at)) * gaps[:-1]))


def kolmogorov_smirnov(first: LengthCurve, second: LengthCurve) -> float:
    """Return the largest difference of two curves, 0 to 1."""
    return float(_gaps(first, second)[1].max())


def distance(
    wanted: LengthCurve, holds: Sequence[SeenHold], *, longest_s: float, seed: int
) -> LengthDistance:
    """Return how far holds are from the distribution that they were to repeat.

    Args:
        holds: at least one.
        longest_s: no hold could last longer, such as the length of the measured window; both are
            compared as if each hold ended there.
        seed: of the resampling behind the interval and behind what chance brings.
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
    by_chance = [
        log_wasserstein(wanted, _empirical(drawn))
        for drawn in _draws(wanted, rng, (_RESAMPLES, number))
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


def _gaps(first: LengthCurve, second: LengthCurve) -> tuple[np.ndarray, np.ndarray]:
    """Return all lengths at which either steps, and how far apart the two are from there on."""
    at = np.union1d(first.lengths_s, second.lengths_s)
    return at, np.abs(_values(first, at) - _values(second, at))


def _values(curve: LengthCurve, at: np.ndarray) -> np.ndarray:
    steps = np.concatenate(([1.0], curve.longer))
    found: np.ndarray = steps[np.searchsorted(curve.lengths_s, at, side="right")]
    return found


def _draws(curve: LengthCurve, rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    shares = np.array([share for _, share in curve.steps()])
    return rng.choice(np.array(curve.lengths_s), size=size, p=shares / shares.sum())


def _empirical(lengths_s: np.ndarray) -> LengthCurve:
    at, counts = np.unique(lengths_s, return_counts=True)
    longer = 1.0 - np.cumsum(counts) / counts.sum()
    longer[-1] = 0.0
    return LengthCurve(tuple(map(float, at)), tuple(map(float, longer)))
