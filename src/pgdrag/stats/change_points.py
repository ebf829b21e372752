"""Where in a series of runs did the level change?

The largest difference between what lies before and behind any place is compared with what it is in random orders of
the same values: where nothing changed, every order is as likely as the one seen, whatever the distribution of the
values. That needs no assumption but that runs do not depend on each other. If a change is found, both sides of it are
searched in the same way (binary segmentation).

Source: Matteson and James 2014 for segmentation by permutations; the statistic is the standardized sum of deviations
(CUSUM; Csörgő and Horváth 1997), which for a change of the mean has more power than their energy distance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pgdrag.stats.interval import Interval, LogEstimate

FALSE_ALARMS = 0.05  # the largest share of series without a change in which one is found
_ORDERS = 9_999
_VALUES_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class ChangePoint:
    """A change of the level.

    Attributes:
        at: index of the first value behind it.
        p: how often a random order of the values has a difference as large.
        ratio: level behind it divided by that before it, each up to the next change. The interval is that of a
            place which is known.
    """

    at: int
    p: float
    ratio: Interval


def change_points(
    logs: Sequence[float], *, false_alarms: float = FALSE_ALARMS
) -> tuple[ChangePoint, ...]:
    """Return the changes of the level of a series, in order.

    Args:
        logs: logarithms of its values, in the order measured.
        false_alarms: the share of series without a change in which one is found, at most; and so between two changes.

    Returns:
        None with fewer than `least_values`, whatever they are.
    """
    values = np.asarray(logs, dtype=float)
    found = sorted(_search(values, 0, len(values), false_alarms))
    edges = [0, *(at for at, _ in found), len(values)]
    return tuple(
        ChangePoint(at, p, _ratio(values[begin:at], values[at:end]))
        for (at, p), (begin, _), (_, end) in zip(
            found, pairwise(edges[:-1]), pairwise(edges[1:]), strict=True
        )
    )


def least_values(false_alarms: float = FALSE_ALARMS) -> int:
    """Return how many values it takes at least to find a change: with fewer even the clearest order is too likely."""
    count = 2
    while 2 / math.comb(count, count // 2) > false_alarms:
        count += 1
    return count


def _search(
    values: NDArray[np.float64], begin: int, end: int, false_alarms: float
) -> Iterator[tuple[int, float]]:
    """Yield the changes between two places, each with its p-value."""
    part = values[begin:end]
    if len(part) < least_values(false_alarms):
        return
    at, p = _largest(part)
    if p <= false_alarms:
        yield begin + at, p
        yield from _search(values, begin, begin + at, false_alarms)
        yield from _search(values, begin + at, end, false_alarms)


def _largest(values: NDArray[np.float64]) -> tuple[int, float]:
    """Return the place of the largest difference, and how often a random order has one as large."""
    seen = _differences(values[np.newaxis])[0]
    largest = float(seen.max())
    # The same values always have the same answer.
    random = np.random.default_rng(len(values))
    at_once = max(_VALUES_AT_ONCE // len(values), 1)
    as_large = 0
    for first in range(0, _ORDERS, at_once):
        orders = np.tile(values, (min(at_once, _ORDERS - first), 1))
        random.permuted(orders, axis=1, out=orders)
        # Of an order that is the same, or its reverse, rounding must not decide.
        as_large += int((_differences(orders).max(axis=1) >= largest * (1 - 1e-9)).sum())
    return int(seen.argmax()) + 1, (1 + as_large) / (1 + _ORDERS)


def _differences(orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standardized difference of both sides of each place between values, a row an order."""
    count = orders.shape[1]
    before = np.arange(1, count)
    centered = orders - orders.mean(axis=1, keepdims=True)
    sums: NDArray[np.float64] = np.abs(centered.cumsum(axis=1)[:, :-1])
    standardized: NDArray[np.float64] = sums / np.sqrt(before * (count - before))
    return standardized


def _ratio(before: NDArray[np.float64], after: NDArray[np.float64]) -> Interval:
    sizes = len(before), len(after)
    dof = sum(sizes) - 2
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in (before, after))
    se = math.sqrt(squares / dof * (1 / sizes[0] + 1 / sizes[1])) if dof else math.inf
    method = f"t on logarithms of {sizes[0]} and {sizes[1]} runs"
    center = float(after.mean() - before.mean())
    return LogEstimate(center, se, max(dof, 1), 0.0, method).interval()
