"""What does looking cost, when collectors look and rest in turns within the window?

Four turns make a block, running, paused, paused, running or the reverse, drawn at random; the log of the rate at rest less
that of the rate while looking, averaged over the block's two of each, is one value. Lots alone decide
its sign where looking costs nothing, as with a pair of trials, so the same interval holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.findings.values import DesignFinding, Interval
from pgdrag.model import Result
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import LOOKING, TURN, Event
from pgdrag.stats.pair_logs import PairedLogs

BLOCK = 4
# An interval of the driver's belongs to a turn that covers so much of it.
_COVERED = 0.9


@dataclass(frozen=True)
class TurnBlock:
    """Four turns.

    Attributes:
        looking_per_s, resting_per_s: transactions committed per second; geometric means of two turns.
        looked_first: which of the two orders it was.
    """

    looking_per_s: float
    resting_per_s: float
    looked_first: bool

    @property
    def slowdown(self) -> float:
        """Throughput at rest divided by that while looking."""
        return self.resting_per_s / self.looking_per_s


@dataclass(frozen=True)
class TurnsFinding(DesignFinding):
    """What looking costs.

    Attributes:
        slowdown: throughput without collectors divided by that with them; None: no two blocks.
        blocks: in the order run.
        trials: that they are from.
    """

    has_rungs: ClassVar[bool] = False

    slowdown: Interval | None
    blocks: tuple[TurnBlock, ...]
    trials: int


def blocks_of(result: Result) -> list[TurnBlock]:
    """Return the whole blocks of a trial's turns in each of whose turns something was committed."""
    if result.measurement is None:
        return []
    turns = [event for event in result.recordings.events if event.kind == TURN]
    found = [_block(four, result.measurement.samples) for four in _fours(turns)]
    return [block for block in found if block is not None]


def logs_of(blocks: Sequence[TurnBlock]) -> PairedLogs:
    """Return a log ratio for each block."""
    return PairedLogs(
        tuple(math.log(block.slowdown) for block in blocks),
        tuple(1 if block.looked_first else -1 for block in blocks),
    )


def _fours(turns: Sequence[Event]) -> Iterator[Sequence[Event]]:
    for at in range(0, len(turns) - BLOCK + 1, BLOCK):
        yield turns[at : at + BLOCK]


def _block(turns: Sequence[Event], samples: Sequence[Sample]) -> TurnBlock | None:
    rates = [_rate(turn, samples) for turn in turns]
    if not all(rates):
        return None
    looking = [rate for turn, rate in zip(turns, rates, strict=True) if turn.text == LOOKING]
    resting = [rate for turn, rate in zip(turns, rates, strict=True) if turn.text != LOOKING]
    return TurnBlock(
        math.prod(looking) ** (1 / len(looking)),
        math.prod(resting) ** (1 / len(resting)),
        turns[0].text == LOOKING,
    )


def _rate(turn: Event, samples: Sequence[Sample]) -> float:
    """Return the transactions committed per second in a turn; 0 where no interval lies within it."""
    assert turn.end_s is not None, "a turn ends"
    within = [
        one
        for one in samples
        if min(one.t_s, turn.end_s) - max(one.t_s - one.duration_s, turn.start_s)
        >= _COVERED * one.duration_s
    ]
    length_s = sum(one.duration_s for one in within)
    return sum(one.committed for one in within) / length_s if length_s else 0.0
