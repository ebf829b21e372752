"""Which values made the server fail? Learnt from trials that did not start, crashed or stalled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pgdrag.designs.search.space import Point, Space

_MOST_RISK = 0.25  # of a trial that is proposed: it may fail by what is known
_RARE = 20  # times as likely is one value that explains two failures as two values with one failure each


@dataclass
class Feasible:
    """What trials that failed and trials that worked say of each value.

    Attributes:
        worked, failed: their points, in the order run.
    """

    space: Space
    worked: list[Point] = field(default_factory=list)
    failed: list[Point] = field(default_factory=list)

    def risks(self) -> list[NDArray[np.float64]]:
        """Return, by dimension, the estimated probability that each value makes a trial fail.

        The blame for a failure is shared by the changes that no trial that worked had, and falls on those that explain
        other failures, too. Of an ordered dimension a value between the baseline's and one that worked is cleared, and
        one beyond a culprit is no better than it.
        """
        cleared = self._cleared()
        suspects = [
            [at for at in self.space.changed(point) if not cleared[at][point[at]]]
            for point in self.failed
        ]
        explained = [np.zeros(len(one.values)) for one in self.space.dimensions]
        for point, of_one in zip(self.failed, suspects, strict=True):
            for at in of_one:
                explained[at][self._up_to(at, point[at])] += 1
        risks = [np.zeros(len(one.values)) for one in self.space.dimensions]
        for point, of_one in zip(self.failed, suspects, strict=True):
            weights = [_RARE ** (explained[at][point[at]] - 1) for at in of_one]
            for at, weight in zip(of_one, weights, strict=True):
                beyond = risks[at][self._and_beyond(at, point[at])]
                np.maximum(beyond, weight / sum(weights), out=beyond)
        return risks

    def cautious(self, point: Point, known: Point, risks: Sequence[NDArray[np.float64]]) -> Point:
        """Return a point with its riskiest values taken from a known one until it is likely to work."""
        found = list(point)
        for at in sorted(range(len(found)), key=lambda x: -risks[x][point[x]]):
            works = float(np.prod([1 - risks[x][value] for x, value in enumerate(found)]))
            if works >= 1 - _MOST_RISK:
                break
            found[at] = known[at] if risks[at][known[at]] < risks[at][found[at]] else found[at]
        return tuple(found)

    def _cleared(self) -> list[NDArray[np.bool_]]:
        cleared = []
        for at, one in enumerate(self.space.dimensions):
            start = self.space.start[at]
            of_one = np.zeros(len(one.values), dtype=bool)
            of_one[start] = True
            for value in {point[at] for point in self.worked}:
                low, high = sorted((start, value))
                of_one[slice(low, high + 1) if one.is_ordered else value] = True
            cleared.append(of_one)
        return cleared

    def _and_beyond(self, at: int, value: int) -> slice:
        one, start = self.space.dimensions[at], self.space.start[at]
        if not one.is_ordered:
            return slice(value, value + 1)
        return slice(value, None) if value > start else slice(value + 1)

    def _up_to(self, at: int, value: int) -> slice:
        """Return the values that a culprit may be if this one failed because of it."""
        one, start = self.space.dimensions[at], self.space.start[at]
        if not one.is_ordered:
            return slice(value, value + 1)
        return slice(start + 1, value + 1) if value > start else slice(value, start)
