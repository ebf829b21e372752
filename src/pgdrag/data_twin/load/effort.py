"""How often may a statement be tried? Until the server has done so much for it, by its own counts.

A busy machine then chooses the same values as an idle one, only later. The clock ends what would take too long all the same,
and the load says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pgdrag.data_twin.load.statements import Analysed
from pgdrag.data_twin.load.texts import is_locking
from pgdrag.data_twin.load.work import wanted, work_of

ENTRIES_S = 20.0  # for the rows that queries are to find in the middle of the window
SLOWEST = (
    10.0  # a machine that takes so many times as long as one that does nothing else is stopped
)
# What such a machine takes for an execution by itself, and for each block of it, and row of each node of its plan.
_EXECUTION_S, _PIECE_S = 1e-3, 1e-6
_CANCELLED_S = 4.0  # what is taken for an execution that was cancelled
_SLOWER = 20.0  # than the original's calls, on average: then it is cancelled
_LEAST_TIMEOUT_S, _MOST_TIMEOUT_S = 4.0, 120.0


class Effort:
    """What the server does to try a statement, and how much it still may.

    Attributes:
        spent_s: by now, on a machine that does nothing else.
        is_late: the clock ended it.
        cancelled, done: how many executions were.
    """

    def __init__(self, one: Analysed, most_s: float, clock: Callable[[], float]) -> None:
        """Begin.

        Args:
            most_s: may be spent.
            clock: seconds that only grow.
        """
        self._most_s, self._clock = most_s, clock
        self._end_s = clock() + SLOWEST * most_s
        # What changes or locks rows waited for others in the original, as it does not here.
        is_alone = one.change.kind == "select" and not is_locking(one.text)
        target = wanted(one)
        self._mean_s = one.wanted.exec_s / max(one.wanted.calls, 1)
        self._pace_s = self._mean_s / max(target.rows + target.blocks, 1.0) if is_alone else 0.0
        self.spent_s, self.is_late, self.cancelled, self.done = 0.0, False, 0, 0

    @property
    def timeout_s(self) -> float:
        """After how long an execution is cancelled."""
        return min(max(_LEAST_TIMEOUT_S, _SLOWER * self._mean_s), _MOST_TIMEOUT_S)

    @property
    def may_go_on(self) -> bool:
        """Whether there may be another execution."""
        is_left = self.spent_s < self._most_s
        self.is_late |= is_left and self._clock() > self._end_s
        return is_left and not self.is_late

    def executed(self, plan: Mapping[str, Any]) -> None:
        """Count an execution, by what EXPLAIN (ANALYZE, BUFFERS) says of its plan."""
        work = work_of(plan)
        own_s = _PIECE_S * (_node_rows(plan) + work.blocks + work.temp)
        # A row may take long, as in a search through texts: then it did so in the original.
        self.spent_s += _EXECUTION_S + max(own_s, self._pace_s * (work.rows + work.blocks))
        self.done += 1

    def failed(self, *, is_cancelled: bool) -> None:
        """Count an execution that was refused, or cancelled."""
        self.spent_s += _CANCELLED_S if is_cancelled else _EXECUTION_S
        self.cancelled += is_cancelled

    @property
    def was_cut_short(self) -> bool:
        """Whether the clock decided what was tried, and not what the server did."""
        return self.is_late or (self.cancelled > 0 and not self.done)


def executions_within(most_s: float, one: Analysed) -> int:
    """Return how many calls took so long in the original."""
    return math.ceil(most_s * max(one.wanted.calls, 1) / max(one.wanted.exec_s, 1e-9))


def _node_rows(plan: Mapping[str, Any]) -> float:
    """Return how many rows all nodes of a plan returned or left out."""
    own = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")  # fmt: skip
    rows = sum(float(plan.get(x, 0)) for x in own) * float(plan.get("Actual Loops", 1))
    return rows + sum(map(_node_rows, plan.get("Plans", ())))
