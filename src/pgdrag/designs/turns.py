"""What do the collectors cost? One treatment, in whose trials they run and pause in turns.

Four turns make a block: running, paused, paused, running or the reverse, drawn at random. The log of the
rate at rest less that of the rate while looking, averaged over the block's two of each, is one value. Lots
alone decide its sign where looking costs nothing, as with a pair of trials, so the same interval holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Annotated, ClassVar

from pydantic import Field

from pgdrag.designs import DesignParameters, OneBlock
from pgdrag.english import counted
from pgdrag.findings.values import DesignFinding, Findings, Interval
from pgdrag.model import Block, Outcome, Result, RunRecord
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import LOOKING, TURN, Event
from pgdrag.report import document
from pgdrag.report.document import Cell, KeyValues
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.stats.paired import PairedLogs, interval
from pgdrag.units import format_interval, format_rate

_TURNS = 4  # of a block
_COVERED = 0.9  # an interval of the driver's belongs to a turn that covers so much of it
_FEW = 10  # blocks
_SMALL = 1.01  # what the collectors are to stay below


class TurnsParameters(DesignParameters):
    """Parameters of a measurement by turns."""

    trials: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=5, description="Run the treatment this many times"
    )
    confidence: Annotated[float, Field(ge=0.8, le=0.999)] = Field(
        default=0.95, description="Confidence of the interval"
    )


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


class Turns(OneBlock):
    """The first rung, again and again; its level `collectors = "turns"` makes the difference within a trial."""

    name = "turns"
    summary = "one treatment in which the collectors run and pause in turns: what collecting costs"
    Parameters = TurnsParameters
    parameters: TurnsParameters

    def block(self) -> Block:
        return Block((self.rungs[0].treatment,) * self.parameters.trials)

    def so_far(self, results: Sequence[Result]) -> str:
        found = self._found(results)
        return "" if found.slowdown is None else f"paused {_words(found.slowdown)} so far"

    def find(self, run: RunRecord) -> TurnsFinding:
        return self._found(run.results)

    def _found(self, results: Sequence[Result]) -> TurnsFinding:
        by_trial = [blocks_of(x) for x in results if x.outcome is Outcome.MEASURED]
        blocks = tuple(block for found in by_trial for block in found)
        trials = sum(map(bool, by_trial))
        if len(blocks) < 2:
            answer = "No trial has measured yet what the collectors cost."
            return TurnsFinding(answer, (), None, blocks, trials)
        logs = PairedLogs(
            tuple(math.log(block.slowdown) for block in blocks),
            tuple(1 if block.looked_first else -1 for block in blocks),
        )
        cost = interval(logs, confidence=self.parameters.confidence).ratio
        count = counted(len(blocks), "block")
        answer = (
            f"Throughput with the collectors paused is {_words(cost)} that with them running, from {count} of "
            "four turns within the trials' windows."
        )
        few = f"only {count} of turns: measure longer windows, or give a larger --pairs"
        return TurnsFinding(answer, (few,) if len(blocks) < _FEW else (), cost, blocks, trials)


def _words(cost: Interval) -> str:
    return format_interval(cost.low, cost.center, cost.high)


def blocks_of(result: Result) -> list[TurnBlock]:
    """Return the whole blocks of a trial's turns in each of whose turns something was committed."""
    if result.measurement is None:
        return []
    turns = [event for event in result.recordings.events if event.kind == TURN]
    found = []
    for at in range(0, len(turns) - _TURNS + 1, _TURNS):
        block = turns[at : at + _TURNS]
        rates = [(turn.text == LOOKING, _rate(turn, result.measurement.samples)) for turn in block]
        if all(rate for _, rate in rates):
            looking = [rate for is_looking, rate in rates if is_looking]
            resting = [rate for is_looking, rate in rates if not is_looking]
            means = [math.prod(each) ** (1 / len(each)) for each in (looking, resting)]
            found.append(TurnBlock(means[0], means[1], looked_first=rates[0][0]))
    return found


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


class TurnsSection(Section):
    """Throughput with the collectors paused against throughput with them running."""

    name = "turns"
    summary = "what the collectors cost, from turns with and without them"
    title = "What collecting costs"
    order = 16
    is_folded = False
    finding_type = TurnsFinding
    needs = "slowdown"

    def blocks(self, findings: Findings) -> Sequence[document.Block]:
        found = found_of(findings, TurnsFinding)
        cost = found.slowdown
        assert cost is not None, "see applies"
        words = _words(cost)
        count = counted(len(found.blocks), "block")
        caption = (
            "Throughput with the collectors paused divided by that with them running: the interval, and below it each block of "
            "four neighbouring turns in the order run. The band is 1 % to either side."
        )
        looking = geometric_mean([x.looking_per_s for x in found.blocks])
        resting = geometric_mean([x.resting_per_s for x in found.blocks])
        how = f"{cost.confidence * 100:.3g} %: {cost.method}"
        numbers = (
            ("Collectors paused", Cell(format_rate(resting))),
            ("Collectors running", Cell(format_rate(looking))),
            ("Paused to running", Cell(words, how)),
            ("From", Cell(f"{count} in {counted(found.trials, 'trial')}")),
        )
        row = Row(count, words=words, found=cost)
        dots = [block.slowdown for block in found.blocks]
        figure = rows_figure(
            [row], self.title, found.answer, caption, name="turns-chart", band=_SMALL, dots=dots
        )
        return (figure, KeyValues(numbers))

    def brief(self, findings: Findings) -> Sequence[document.Block]:
        return self.blocks(findings)
