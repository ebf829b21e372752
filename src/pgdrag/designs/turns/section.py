"""What looking costs: every block of turns, and the interval that they come to."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean
from typing import ClassVar

from pgdrag.designs.turns.measure import TurnsFinding
from pgdrag.english import counted
from pgdrag.findings.values import Findings
from pgdrag.report.document import Block, Cell, Figure, KeyValues
from pgdrag.report.rows_chart import Row, RowsChart
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_interval, format_rate

_SMALL = 1.01  # what the collectors are to stay below


class TurnsSection(Section):
    """Throughput with the collectors paused against throughput with them running."""

    name: ClassVar[str] = "turns"
    summary: ClassVar[str] = "what the collectors cost, from turns with and without them"
    title: ClassVar[str] = "What collecting costs"
    order: ClassVar[int] = 16
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """There is something to show as soon as there are two blocks."""
        return isinstance(findings.found, TurnsFinding) and findings.found.slowdown is not None

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the picture and the numbers."""
        found = found_of(findings, TurnsFinding)
        cost = found.slowdown
        assert cost is not None, "see applies"
        words = format_interval(cost.low, cost.center, cost.high)
        shown = RowsChart(
            "turns-chart",
            (Row(counted(len(found.blocks), "block"), words=words, found=cost),),
            band=_SMALL,
            dots=tuple(block.slowdown for block in found.blocks),
        )
        caption = (
            "Throughput with the collectors paused divided by that with them running: the interval, and below it each block of "
            "four neighbouring turns in the order run. The band is 1 % to either side."
        )
        looking = geometric_mean([x.looking_per_s for x in found.blocks])
        resting = geometric_mean([x.resting_per_s for x in found.blocks])
        count = f"{counted(len(found.blocks), 'block')} in {counted(found.trials, 'trial')}"
        return (
            Figure(shown.svg(self.title, found.answer), caption, shown.text()),
            KeyValues(
                (
                    ("Collectors paused", Cell(format_rate(resting))),
                    ("Collectors running", Cell(format_rate(looking))),
                    (
                        "Paused to running",
                        Cell(words, f"{cost.confidence * 100:.3g} %: {cost.method}"),
                    ),
                    ("From", Cell(count)),
                )
            ),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the same."""
        return self.blocks(findings)
