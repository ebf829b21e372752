"""How long do holds last, if some of them were still there when nobody looked any more?

A hold whose end was not seen has lasted for at least so long (right censoring); the product-limit
estimate (Kaplan and Meier 1958) takes that in. Of holds that looks at intervals met, `between_looks` knows
more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST_STEPS = 40


@dataclass(frozen=True)
class SeenHold:
    """One hold as far as it was seen.

    Attributes:
        length_s: from its begin to its end, or to where it was last seen; over 0.
        has_ended: its end was seen.
    """

    length_s: float
    has_ended: bool = True

    def __post_init__(self) -> None:
        assert self.length_s > 0, f"{self.length_s} s"


@dataclass(frozen=True)
class LengthCurve:
    """Which share of holds lasts longer than so long: a step down at each length.

    Attributes:
        lengths_s: ascending, positive.
        longer: the share that lasts longer than the length at the same place; descending, the last 0.
        open_share: of these holds no end was seen: they last at least as long as the last length, and
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

    def steps(self) -> Iterator[tuple[float, float]]:
        """Yield each length with the share of holds that last as long."""
        for length_s, (above, below) in zip(
            self.lengths_s, pairwise((1.0, *self.longer)), strict=True
        ):
            yield length_s, above - below

    def quantile(self, share: float) -> float:
        """Return the least length that at least `share` of the holds do not outlast, in seconds."""
        at = next(i for i, longer in enumerate(self.longer) if 1 - longer >= share - 1e-12)
        return self.lengths_s[at]

    def longer_than(self, length_s: float) -> float:
        """Return the share of holds that last longer."""
        found = 1.0
        for length, longer in zip(self.lengths_s, self.longer, strict=True):
            if length > length_s:
                break
            found = longer
        return found

    def capped(self, longest_s: float) -> LengthCurve:
        """Return the curve of the same holds, had each ended after `longest_s` at the latest."""
        kept = [
            (length, share)
            for length, share in zip(self.lengths_s, self.longer, strict=True)
            if length < longest_s
        ]
        if len(kept) == len(self.lengths_s):
            return self
        lengths_s, longer = zip(*kept, (longest_s, 0.0), strict=True)
        return LengthCurve(lengths_s, longer)

    def thinned(self, most: int = MOST_STEPS) -> LengthCurve:
        """Return a curve of at most so many steps; neighbours become one at their geometric mean.

        The longest stays as it is: it is what hurts most.
        """
        if len(self.lengths_s) <= most:
            return self
        *others, (longest_s, _) = self.steps()
        found: list[tuple[float, float]] = []
        near: list[tuple[float, float]] = []
        gone = 0.0
        for at, step in enumerate(others, start=1):
            near.append(step)
            share = sum(mass for _, mass in near)
            if share >= 1 / (most - 2) or at == len(others):
                gone += share
                found.append((_geometric_mean(near), 1 - gone))
                near = []
        lengths_s, longer = zip(*found, (longest_s, 0.0), strict=True)
        return LengthCurve(lengths_s, longer, self.open_share)


def _geometric_mean(steps: Sequence[tuple[float, float]]) -> float:
    """Return the weighted mean of lengths that ascend; rounding never takes it beyond them."""
    lengths_s, masses = np.array(steps).T
    mean_s = float(np.exp(np.average(np.log(lengths_s), weights=masses)))
    (shortest_s, _), (longest_s, _) = steps[0], steps[-1]
    return min(max(mean_s, shortest_s), longest_s)


def product_limit(holds: Sequence[SeenHold]) -> LengthCurve | None:
    """Estimate how long holds last; None: there are none."""
    if not holds:
        return None
    lengths: Array = np.array([x.length_s for x in holds])
    ended = np.array([x.has_ended for x in holds])
    at, numbers = np.unique(lengths[ended], return_counts=True)
    last = float(lengths.max())
    if at.size == 0:
        return LengthCurve((last,), (0.0,), open_share=1.0)
    at_risk = len(holds) - np.searchsorted(np.sort(lengths), at, side="left")
    longer = np.cumprod(1.0 - numbers / at_risk)
    lengths_s, shares = [float(x) for x in at], [float(x) for x in longer]
    open_share = shares[-1] if shares[-1] > 1e-12 else 0.0
    if open_share and last > lengths_s[-1]:
        lengths_s.append(last)
        shares.append(0.0)
    shares[-1] = 0.0
    return LengthCurve(*_strictly(lengths_s, shares), open_share=open_share)


def _strictly(
    lengths_s: Sequence[float], longer: Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Leave out steps so small that they are none."""
    kept: list[tuple[float, float]] = []
    above = 1.0
    for length_s, share in zip(lengths_s, longer, strict=True):
        if share < above - 1e-12 or share == 0:
            kept.append((length_s, share if share > 1e-12 else 0.0))
            above = share
        if above <= 1e-12:
            break
    kept_s, shares = zip(*kept, strict=True)
    return kept_s, shares
