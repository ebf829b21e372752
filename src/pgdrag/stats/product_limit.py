"""How long do holds last, where the end of some was not seen?

A hold without an end has lasted at least as long as it was seen (right censoring): the product-limit
estimate (Kaplan and Meier 1958). For holds that were sampled at intervals, see `interval_censored`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

MOST_STEPS = 40


@dataclass(frozen=True)
class SeenHold:
    """One hold as far as it was seen.

    Attributes:
        length_s: from its beginning to its end, or to when it was last seen; over 0.
        has_ended: its end was seen.
    """

    length_s: float
    has_ended: bool = True

    def __post_init__(self) -> None:
        assert self.length_s > 0, f"{self.length_s} s"


@dataclass(frozen=True)
class LengthCurve:
    """The share of holds that last longer than a length: a step down at each.

    Attributes:
        lengths_s: ascending, positive.
        longer: the share that lasts longer than the length at the same place; descending, the last 0.
        open_share: share of holds without an end: they last at least as long as the last length, and
            are taken to end there (Efron 1967).
    """

    lengths_s: tuple[float, ...]
    longer: tuple[float, ...]
    open_share: float = 0.0

    def __post_init__(self) -> None:
        assert self.lengths_s, "a curve has a step"
        assert len(self.lengths_s) == len(self.longer), "a share for each length"
        assert self.lengths_s[0] > 0, "lengths are positive"
        assert all(a < b for a, b in pairwise(self.lengths_s)), "lengths ascend"
        assert all(a > b for a, b in pairwise((1.0, *self.longer))), "shares descend"
        assert self.longer[-1] == 0, "in the end every hold has ended"

    @classmethod
    def of_shares(
        cls, lengths_s: ArrayLike, shares: ArrayLike, open_share: float = 0.0
    ) -> LengthCurve:
        """Return the curve of ascending lengths with the share of holds that last as long; none is 0."""
        longer = 1 - np.cumsum(shares)
        longer[-1] = 0.0
        return cls(tuple(np.asarray(lengths_s).tolist()), tuple(longer.tolist()), open_share)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of holds that last as long as each length."""
        return -np.diff((1.0, *self.longer))

    def steps(self) -> Iterator[tuple[float, float]]:
        """Yield each length with the share of holds that last as long."""
        return zip(self.lengths_s, self.shares.tolist(), strict=True)

    def quantile(self, share: float) -> float:
        """Return the least length that at least `share` of the holds do not exceed, in seconds."""
        at = next(i for i, longer in enumerate(self.longer) if 1 - longer >= share - 1e-12)
        return self.lengths_s[at]

    def longer_than(self, length_s: float) -> float:
        """Return the share of holds that last longer."""
        at = int(np.searchsorted(self.lengths_s, length_s, side="right"))
        return (1.0, *self.longer)[at]

    def capped(self, longest_s: float) -> LengthCurve:
        """Return the curve of the same holds, had each ended after `longest_s` at the latest."""
        kept = int(np.searchsorted(self.lengths_s, longest_s))
        if kept == len(self.lengths_s):
            return self
        return LengthCurve((*self.lengths_s[:kept], longest_s), (*self.longer[:kept], 0.0))

    def thinned(self, most: int = MOST_STEPS) -> LengthCurve:
        """Return a curve of at most so many steps; neighbours become one at their geometric mean.

        The longest stays as it is: it matters most.
        """
        if len(self.lengths_s) <= most:
            return self
        *others, longest = self.steps()
        found: list[tuple[float, float]] = []
        near: list[tuple[float, float]] = []
        for at, step in enumerate(others, start=1):
            near.append(step)
            share = sum(mass for _, mass in near)
            if share >= 1 / (most - 2) or at == len(others):
                found.append((_geometric_mean(near), share))
                near = []
        lengths_s, shares = zip(*found, longest, strict=True)
        return LengthCurve.of_shares(lengths_s, shares, self.open_share)


def _geometric_mean(steps: Sequence[tuple[float, float]]) -> float:
    """Return the weighted mean of ascending lengths; rounding never takes it beyond them."""
    lengths_s, shares = np.array(steps).T
    mean_s = float(np.exp(np.average(np.log(lengths_s), weights=shares)))
    return float(np.clip(mean_s, lengths_s[0], lengths_s[-1]))


def product_limit(holds: Sequence[SeenHold]) -> LengthCurve | None:
    """Estimate how long holds last; None without any."""
    if not holds:
        return None
    lengths = np.array([x.length_s for x in holds])
    has_ended = np.array([x.has_ended for x in holds])
    found = scipy.stats.ecdf(scipy.stats.CensoredData.right_censored(lengths, ~has_ended)).sf
    open_share = float(found.probabilities[-1])
    open_share = open_share if open_share > 1e-12 else 0.0
    shares = -np.diff(found.probabilities, prepend=1.0)
    shares[-1] += open_share  # what is left is taken to end with the longest
    kept = shares > 1e-12
    return LengthCurve.of_shares(found.quantiles[kept], shares[kept], open_share)
