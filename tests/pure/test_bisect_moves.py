"""What may be noise, and moves nothing of what the whole moves, is no gain for a bisection."""

from __future__ import annotations

import math

import pytest

from pgdrag.designs._subsets import Changes, Observed
from pgdrag.designs.bisect.history import History, Threshold, estimate
from pgdrag.designs.bisect.pieces import Node, Pieces
from pgdrag.findings.quantities import Quantity
from pgdrag.findings.readings import Reading
from pgdrag.model import Outcome

WHOLE = math.log(1.5)
NOISE = 0.05
WAL = math.log(3)
# Equal trials differ by this much.
JITTER = (0.0, 0.02, -0.02)


def trial(changes: Changes, lost: float, wal: float | None, at: int = 0) -> Observed:
    seen = {} if wal is None else {"wal_bytes": Quantity(wal + JITTER[at])}
    reading = Reading(7 - lost, 0.005, False, 1, True)
    return Observed(changes, True, reading, Outcome.MEASURED, seen)


def pieces(gain: float, *, moved: float | None, whole_moves: float | None) -> Pieces:
    """One change of two was tried, once."""
    history = History(2, 40)
    base = None if whole_moves is None else 0.0
    history.add([trial(history.none, 0.0, base, at) for at in range(3)])
    history.add([trial(history.all, WHOLE, whole_moves, at) for at in range(3)])
    ends = [estimate(history.readings(changes), NOISE) for changes in (history.none, history.all)]
    history.known_threshold = Threshold(*ends, NOISE, 0.9)
    history.add([trial(frozenset({0}), gain, moved)])
    return Pieces(history, [Node(frozenset({0})), Node(frozenset({1}))], aim=0.9)


@pytest.mark.parametrize(
    ("gain", "moved", "whole_moves", "expected"),
    [
        (0.1, 0.0, WAL, 0.0),  # two standard errors, and the WAL is as before: noise
        (0.1, WAL, WAL, 0.1),  # it moves what the whole moves
        (0.3, 0.0, WAL, 0.3),  # no noise, whatever else was measured
        (0.1, 0.0, 0.0, 0.1),  # the whole moves nothing that was measured
        (0.1, None, None, 0.1),  # nothing was measured
    ],
)
def test_a_gain_that_moves_nothing_counts_only_where_it_is_no_noise(
    gain: float, moved: float | None, whole_moves: float | None, expected: float
) -> None:
    found = pieces(gain, moved=moved, whole_moves=whole_moves).gain(frozenset({0}))
    assert found == pytest.approx(expected)
