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
from bisect import bisect_left
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
_BOUND_WITHIN = 1e-9
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
    levels: list[float] = []
    spent = before = 0.0
    # A normal random walk that no analysis has stopped yet: places within the last bounds, and the density
    # there times the width of each.
    at, weights = np.zeros(1), np.ones(1)
    for count in counts:
        time = min(count / max_pairs, 1.0)
        share = max(released(count, max_pairs, error) - spent, 1e-12)
        step = math.sqrt(time - before)
        if not levels:
            bound = -normal_quantile(share / 2) * step
        else:
            walk, farthest = (at, weights, step), _FARTHEST * math.sqrt(time)
            # scipy.optimize needs fewer steps, and longer to be imported than all of them take.
            places = range(int(farthest / _BOUND_WITHIN))
            bound = _BOUND_WITHIN * bisect_left(
                places, -share, key=lambda place: -_beyond(place * _BOUND_WITHIN, *walk)
            )
        levels.append(2 * normal_beyond(bound / math.sqrt(time)))
        spent, before = spent + share, time
        earlier, at = at, np.linspace(-bound, bound, _GRID)
        widths = np.full(_GRID, at[1] - at[0])
        widths[[0, -1]] /= 2
        # The normal density, as `scipy.stats.norm.pdf` has it in several times as long.
        apart = (at[:, None] - earlier) / step
        density = np.exp(-apart * apart / 2) / (step * math.sqrt(2 * math.pi))
        weights = density @ weights * widths
    return tuple(levels)


def _beyond(
    bound: float, at: NDArray[np.float64], weights: NDArray[np.float64], step: float
) -> float:
    """Return the probability that a walk is beyond the bound, on either side, after one more step."""
    beyond = scipy.special.ndtr((at - bound) / step) + scipy.special.ndtr((-bound - at) / step)
    return float(beyond @ weights)
