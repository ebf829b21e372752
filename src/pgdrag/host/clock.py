"""When did something happen, by a clock that does not jump while pgdrag runs?

A machine's own clock jumps: it is set by hand, a time daemon corrects it, a virtual machine was suspended. Moments
that are to be compared are therefore the wall clock's when this process began, and what has passed since. The log
of a server on this machine has the wall clock's: how far that is off is looked at again and again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

# Reading both clocks takes a microsecond: what took longer was interrupted, and is tried again.
_BLURRED_S = 2e-3
_TRIES = 5
_LEAST_STEP_S = 0.05
_MOST_STEPS = 1000


@dataclass(frozen=True)
class Step:
    """A jump of the machine's clock.

    Attributes:
        at_unix_s: when it was seen, by the steady clock; it was up to the time between two looks before.
        by_s: forward; negative: back.
    """

    at_unix_s: float
    by_s: float


@dataclass(frozen=True)
class _Ahead:
    """How far ahead of the steady clock the machine's is: at the earliest from `since` on, and from `seen` for sure."""

    since: float
    seen: float
    by_s: float


class SteadyClock:
    """The time of day, without the jumps of the machine's clock."""

    def __init__(
        self,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall_s, self._steady_s = wall_s, steady_s
        self._origin_s = wall_s() - steady_s()
        self._ahead = [_Ahead(float("-inf"), float("-inf"), 0.0)]
        self._last_look = self.unix_s()
        self._lock = threading.Lock()

    def unix_s(self) -> float:
        """Return the time, in Unix seconds."""
        return self._steady_s() + self._origin_s

    def look(self) -> None:
        """See whether the machine's clock has jumped; it takes a few microseconds."""
        for _ in range(_TRIES):
            before, wall_s, after = self.unix_s(), self._wall_s(), self.unix_s()
            if after - before <= _BLURRED_S:
                break
        else:
            return
        with self._lock:
            ahead_s = wall_s - (before + after) / 2
            if abs(ahead_s - self._ahead[-1].by_s) > _LEAST_STEP_S:
                jumped = _Ahead(self._last_look, after, ahead_s)
                self._ahead = [*self._ahead[-_MOST_STEPS:], jumped]
            self._last_look = after

    def correction_s(self, wall_unix_s: float) -> float:
        """Return what to add to a moment that the machine's clock showed, at or before the last look.

        Where it showed the same time twice, since it was set back, the later one is meant.
        """
        ahead = self._ahead
        if len(ahead) == 1:
            return 0.0
        ends = [*(each.seen for each in ahead[1:]), self.unix_s()]
        away, correction_s = float("inf"), 0.0
        for each, end in zip(ahead, ends, strict=True):
            moment = wall_unix_s - each.by_s
            distance = max(each.since - moment, moment - end, 0.0)
            if distance <= away:
                away, correction_s = distance, -each.by_s
        return correction_s

    def of_wall(self, wall_unix_s: float) -> float:
        """Return when it was by this clock that the machine's showed a moment."""
        return wall_unix_s + self.correction_s(wall_unix_s)

    def steps(self, begin_unix_s: float, end_unix_s: float) -> list[Step]:
        """Return the jumps of the machine's clock that were seen between two moments of this one."""
        jumps = (Step(now.seen, now.by_s - then.by_s) for then, now in pairwise(self._ahead))
        return [each for each in jumps if begin_unix_s <= each.at_unix_s <= end_unix_s]


CLOCK = SteadyClock()
