"""The curve of a setting: where it fails, where it rises, and from where on more gains nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pgdrag.designs.boundary.analysis import BoundaryFinding, ValueTried
from pgdrag.designs.boundary.curve import KneeVerdict
from pgdrag.english import counted
from pgdrag.findings.values import Findings, Interval
from pgdrag.report.cells import NOTHING, bounds_words
from pgdrag.report.document import Align, Block, Cell, Column, Figure, Paragraph, Table, Tone
from pgdrag.report.forest import ForestRow, forest_chart, forest_text
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_number, format_rate

_TITLE = "Times slower than at the largest value"


class BoundarySection(Section):
    """Throughput at each value with its interval, and how often each worked."""

    name: ClassVar[str] = "boundary"
    summary: ClassVar[str] = "throughput at each value of a setting, its boundary and its knee"
    title: ClassVar[str] = "Boundary and knee"
    order: ClassVar[int] = 15
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """There is something to show as soon as a value was tried."""
        return isinstance(findings.found, BoundaryFinding) and bool(findings.found.values)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the curve and the table of the values."""
        found = found_of(findings, BoundaryFinding)
        return (*_picture(found), *_knee(found), _table(found))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the table of the values."""
        found = found_of(findings, BoundaryFinding)
        return (_table(found), *_knee(found))


def _picture(found: BoundaryFinding) -> list[Block]:
    shown = [(x, x.tps) for x in found.values if x.tps is not None and x.tps.center > 0]
    if not shown:
        return []
    largest, top = shown[-1][0].value, shown[-1][1].center
    rows = [
        ForestRow(x.value, _place(found, x), format_rate(tps.center), _slower(tps, top))
        for x, tps in shown
    ]
    told = "; ".join(f"{row.name} {row.words}" for row in rows)
    caption = (
        f"How many times slower than at {largest}, with the 95 % interval of each value's throughput; "
        "logarithmic scale, further right is slower."
    )
    return [Figure(forest_chart(rows, _TITLE, told), caption, forest_text(rows))]


def _slower(tps: Interval, top: float) -> Interval:
    """Return throughput as so many times below that of the largest value, taken as it is."""
    high = top / tps.low if tps.low > 0 else math.inf
    return Interval(top / tps.high, top / tps.center, high, tps.confidence, tps.method)


def _place(found: BoundaryFinding, value: ValueTried) -> str:
    if value.value == found.curve.at:
        return "the knee"
    return "the smallest that works" if value.value == found.smallest else ""


def _knee(found: BoundaryFinding) -> list[Block]:
    curve = found.curve
    if curve.verdict != KneeVerdict.KNEE or curve.slope is None:
        return []
    gain = format_number((2**curve.slope - 1) * 100, significant=2)
    text = (
        f"Below the knee each doubling of {found.setting} gains {gain} %. A line that rises and then stays "
        "level, fitted on logarithms; its break has a 95 % profile interval."
    )
    return [Paragraph(text, Tone.MUTED)]


def _table(found: BoundaryFinding) -> Table:
    columns = (
        Column("Value"),
        Column("Worked"),
        Column("Committed", Align.RIGHT),
    )
    rows = tuple(
        (
            Cell(x.value, _place(found, x), is_strong=True),
            _worked_cell(x),
            _rate_cell(x),
        )
        for x in found.values
    )
    return Table("Every value that was tried", columns, rows)


def _worked_cell(value: ValueTried) -> Cell:
    total = value.worked + value.failed
    if not total:
        return NOTHING
    if not value.failed:
        return Cell(f"in {counted(total, 'trial')}", tone=Tone.GOOD)
    text = f"in {value.worked} of {counted(total, 'trial')}"
    return Cell(text, value.reason, Tone.BAD if not value.worked else Tone.DOUBT)


def _rate_cell(value: ValueTried) -> Cell:
    if value.tps is None:
        return NOTHING
    if value.tps.center == 0:
        return Cell(f"< {format_rate(value.tps.high)}", "nothing committed", Tone.BAD)
    return Cell(format_rate(value.tps.center), bounds_words(value.tps, format_number))
