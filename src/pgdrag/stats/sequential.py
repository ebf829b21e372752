"""Which confidence does each interim analysis need, so that all together have the one promised?

Analysing the pairs again and again and stopping at the first significant result errs far more often
than each analysis promises. So the whole error is a budget, and each interim analysis may spend a part
of it: the later, the more has been released. The levels follow from the joint distribution of the
analyses (each has all pairs of those before it), which wastes less than dividing the budget would.

Source: Lan and DeMets 1983; Kim and DeMets 1987 (the power family of spending functions); the
recursion of Armitage, McPherson and Rowe 1969; levels of a normal statistic used for others, Pocock
1977.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from pgdrag.stats.distributions import normal_beyond, normal_quantile

FIRST_INTERIM = 2  # pairs: enough for a treatment that commits next to nothing
_STEPS = (
    (12, 2),
    (24, 4),
    (60, 6),
    (math.inf, 12),
)  # up to how many pairs, and an interim analysis every how many
# The share of the error released after a share of the pairs is that share to this power: 1 spends
# evenly, 3 hardly anything early (as O'Brien and Fleming's bounds do).
SPENDING_POWER = 1.5
# The levels are those of a normal statistic. Tests on few pairs, t or sign flips, are correlated less
# from one analysis to the next, and spend about a ninth more (simulations/compare.py): so they get less.
SPENT_OF_ERROR = 0.85
_GRID = 401
_FARTHEST = 8.5  # standard deviations beyond which nothing is left of a normal distribution


def planned_interims(max_pairs: int) -> tuple[int, ...]:
    """Return after how many pairs to analyse; the last time after all of them."""
    assert max_pairs >= FIRST_INTERIM, f"{max_pairs} pairs"
    counts = []
    pairs = FIRST_INTERIM
    while pairs < max_pairs:
        counts.append(pairs)
        pairs += next(step for limit, step in _STEPS if pairs < limit)
    return (*counts, max_pairs)


def interims_so_far(pairs: int, max_pairs: int) -> tuple[int, ...]:
    """Return the interim analyses up to `pairs`, itself the last: even if none was planned there.

    A run that was cut short is analysed where it ended. The error that such an analysis may spend
    depends on the pairs alone, not on the plan.
    """
    return (*(at for at in planned_interims(max_pairs) if at < pairs), pairs)


def released(pairs: int, max_pairs: int, error: float) -> float:
    """Return how much of the error may be spent by the analysis after `pairs`."""
    return error * float(min(pairs / max_pairs, 1.0) ** SPENDING_POWER)


def interim_confidence(pairs: int, max_pairs: int, *, confidence: float) -> float:
    """Return the confidence that an interval needs after this many pairs.

    Intervals at these confidences, one an analysis, all cover the truth together with at least
    `confidence`; so a verdict by the first that excludes "no change" is wrong at most so often.

    Args:
        pairs: of this analysis.
        max_pairs: of the last one, when the whole error is spent.
        confidence: of all together, in (0, 1).
    """
    counts, error = interims_so_far(pairs, max_pairs), SPENT_OF_ERROR * (1 - confidence)
    return 1 - interim_levels(counts, max_pairs, error)[-1]


@lru_cache(maxsize=256)
def interim_levels(counts: Sequence[int], max_pairs: int, error: float) -> tuple[float, ...]:
    """Return the two-sided level of each interim analysis.

    Args:
        counts: numbers of pairs, ascending.
        max_pairs: at which the whole error is released.
        error: of all analyses together, two-sided.
    """
    times = [min(count / max_pairs, 1.0) for count in counts]
    levels: list[float] = []
    spent = 0.0
    walk: _Walk | None = None
    for time, count in zip(times, counts, strict=True):
        share = max(released(count, max_pairs, error) - spent, 1e-12)
        bound = _bound(walk, time, share)
        levels.append(2 * normal_beyond(bound / math.sqrt(time)))
        walk = _Walk.onward(walk, time, bound)
        spent += share
    return tuple(levels)


class _Walk:
    """A normal random walk that no analysis has stopped yet: its density within the last bounds."""

    def __init__(self, time: float, at: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        self.time = time
        self.at = at
        self.weights = weights  # density times the width of each point of the grid

    @classmethod
    def onward(cls, before: _Walk | None, time: float, bound: float) -> _Walk:
        """Return the walk at a later time, where it has stayed within the bound."""
        at = np.linspace(-bound, bound, _GRID)
        widths = np.full(_GRID, at[1] - at[0])
        widths[[0, -1]] /= 2
        if before is None:
            return cls(time, at, _density(at, math.sqrt(time)) * widths)
        step = math.sqrt(time - before.time)
        density = _density(at[:, None] - before.at[None, :], step) @ before.weights
        return cls(time, at, density * widths)

    def leaving(self, time: float, bound: float) -> float:
        """Return the probability of being beyond the bound at a later time, on either side."""
        step = math.sqrt(time - self.time)
        above, below = (self.at - bound) / step, (-bound - self.at) / step
        beyond = scipy.special.ndtr(above) + scipy.special.ndtr(below)
        return float(beyond @ self.weights)


def _density(at: NDArray[np.float64], sd: float) -> NDArray[np.float64]:
    # The normal density around 0, as `scipy.stats.norm.pdf` has it in several times as long.
    scaled = at / sd
    density: NDArray[np.float64] = np.exp(-scaled * scaled / 2) / (sd * math.sqrt(2 * math.pi))
    return density


def _bound(walk: _Walk | None, time: float, share: float) -> float:
    """Return the bound that the walk crosses at `time`, and not before, with a probability `share`."""
    if walk is None:
        return -normal_quantile(share / 2) * math.sqrt(time)
    before = walk

    def missing(bound: float) -> float:
        return before.leaving(time, bound) - share

    return float(scipy.optimize.brentq(missing, 0.0, _FARTHEST * math.sqrt(time), xtol=1e-9))
