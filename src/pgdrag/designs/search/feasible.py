"""Which values made the server fail? Learnt from trials that did not start, crashed or stalled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pgdrag.designs.search.space import Point, Space

_MOST_RISK = 0.25  # of a trial that is proposed: it may fail by what is known


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
        """Return, by dimension, how likely each value makes a trial fail, as far as failures tell.

        The blame for a failure is shared by the changes that no trial that worked had. Of an ordered dimension
        a value between the baseline's and one that worked is cleared, and one beyond a culprit is no better than it.
        """
        cleared = self._cleared()
        risks = [np.zeros(len(one.values)) for one in self.space.dimensions]
        for point in self.failed:
            suspects = [x for x in self.space.changed(point) if not cleared[x][point[x]]]
            for at in suspects:
                for value in self._and_beyond(at, point[at]):
                    risks[at][value] = max(risks[at][value], 1 / len(suspects))
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

    def _and_beyond(self, at: int, value: int) -> range:
        one, start = self.space.dimensions[at], self.space.start[at]
        if not one.is_ordered:
            return range(value, value + 1)
        return range(value, len(one.values)) if value > start else range(value + 1)
