"""Which of a configuration's changes can be left out, and its gain is kept?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from pgdrag.designs.search.feasible import Feasible
from pgdrag.designs.search.response import Response
from pgdrag.designs.search.space import Point


@dataclass
class Reduction:
    """The search for the fewest changes that keep enough of the gain, for one aim.

    What effects add up to says which ones to try. Where a trial contradicts, half as many are left out.

    Attributes:
        whole: all changes.
        kept: the fewest known to keep its gain.
        lost: numbers of changes that were not enough.
    """

    whole: Point
    kept: Point
    lost: int = 0

    def candidate(self, response: Response, keep: float) -> Point:
        """Return the changes to try next; the kept ones if nothing more can be left out."""
        gains = gains_of(self.kept, response)
        order = sorted(gains, key=lambda at: -gains[at])
        needed = keep * sum(gains_of(self.whole, response).values())
        sums = accumulate(gains[at] for at in order)
        enough = next((count for count, x in enumerate(sums, start=1) if x >= needed), len(order))
        if self.lost:
            enough = max(enough, (self.lost + len(order) + 1) // 2)
        return response.kernels.space.only(self.kept, order[:enough])

    def judge(self, fewer: Point, response: Response, feasible: Feasible, keep: float) -> None:
        """Take what a trial of a candidate showed.

        Its error excuses no loss: of eight candidates that each may lose what noise hides, little would be left.
        """
        gain, _ = response.gain(self.whole)
        more, _ = response.gain(fewer, self.whole)
        if fewer in feasible.failed or more + (1 - keep) * gain < 0:
            self.lost = max(self.lost, len(response.kernels.space.changed(fewer)))
        else:
            self.kept = fewer


def gains_of(point: Point, response: Response) -> dict[int, float]:
    """Return, by dimension in which a point differs from the baseline, the mean effect of that."""
    changed = response.kernels.space.changed(point)
    return {at: float(response.effects[at][0][point[at]]) for at in changed}
