"""What did a measurement by turns find? What looking costs in throughput, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgdrag.designs.turns.measure import TurnBlock, TurnsFinding, blocks_of, logs_of
from pgdrag.english import counted
from pgdrag.findings.values import Interval
from pgdrag.model import Outcome, RunRecord
from pgdrag.stats.paired import interval
from pgdrag.units import format_interval

if TYPE_CHECKING:
    from pgdrag.designs.turns import Turns

_FEW = 10  # blocks
_FEW_HINT = "measure longer windows, or give a larger --pairs"


def finding_of(design: Turns, run: RunRecord) -> TurnsFinding:
    """Return the collectors' cost, from all trials that were measured."""
    measured = [one for one in run.results if one.outcome is Outcome.MEASURED]
    by_trial = [blocks_of(one) for one in measured]
    blocks = tuple(block for found in by_trial for block in found)
    cost = _cost(blocks, design.parameters.confidence)
    return TurnsFinding(
        answer=_answer(cost, len(blocks)),
        warnings=tuple(_warnings(cost, len(blocks))),
        slowdown=cost,
        blocks=blocks,
        trials=sum(bool(found) for found in by_trial),
    )


def _cost(blocks: tuple[TurnBlock, ...], confidence: float) -> Interval | None:
    if len(blocks) < 2:
        return None
    return interval(logs_of(blocks), confidence=confidence).ratio


def _answer(cost: Interval | None, blocks: int) -> str:
    if cost is None:
        return "No trial has measured yet what the collectors cost."
    ratio = format_interval(cost.low, cost.center, cost.high)
    return (
        f"Throughput with the collectors paused is {ratio} that with them running, from "
        f"{counted(blocks, 'block')} of four turns within the trials' windows."
    )


def _warnings(cost: Interval | None, blocks: int) -> Iterator[str]:
    if cost is not None and blocks < _FEW:
        yield f"only {counted(blocks, 'block')} of turns: {_FEW_HINT}"
