"""How does a boundary read? Where a setting fails, where its curve rises, and where more gains nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.designs.boundary import BoundaryFinding, ValueTried
from pgdrag.designs.boundary.curve import KneeVerdict
from pgdrag.english import counted
from pgdrag.findings.values import Findings, Interval
from pgdrag.report.cells import NOTHING, bounds_words
from pgdrag.report.document import Block, Cell, Paragraph, Table, Tone, header
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_number, format_rate


class BoundarySection(Section):
    name = "boundary"
    summary = "throughput at each value of a setting, its boundary and its knee"
    title = "Boundary and knee"
    order = 15
    is_folded = False
    finding_type = BoundaryFinding
    needs = "values"

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, BoundaryFinding)
        return (*_picture(found), *_knee(found), _table(found))

    def brief(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, BoundaryFinding)
        return (_table(found), *_knee(found))


def _picture(found: BoundaryFinding) -> list[Block]:
    shown = [(x, x.tps) for x in found.values if x.tps is not None and x.tps.center > 0]
    if not shown:
        return []
    largest, top = shown[-1][0].value, shown[-1][1].center
    rows = [
        Row(x.value, _place(found, x), format_rate(tps.center), found=_slower(tps, top))
        for x, tps in shown
    ]
    description = "; ".join(f"{row.name} {row.words}" for row in rows)
    caption = (
        f"How many times slower than at {largest}, with each value's 95 % interval. Logarithmic scale; "
        "further right is slower."
    )
    title = "Times slower than at the largest value"
    return [rows_figure(rows, title, description, caption, name="boundary-chart")]


def _slower(tps: Interval, top: float) -> Interval:
    """Return how many times slower it is than at the largest value, whose own error is left out."""
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
        f"Below the knee each doubling of {found.setting} gains {gain} %. Fitted: a line on logarithms that "
        "rises and then stays level. The knee's interval is a 95 % profile interval."
    )
    return [Paragraph(text, Tone.MUTED)]


def _table(found: BoundaryFinding) -> Table:
    rows = []
    for one in found.values:
        total = one.worked + one.failed
        worked = Cell(f"in {counted(total, 'trial')}", tone=Tone.GOOD)
        if one.failed:
            tone = Tone.WARNING if one.worked else Tone.BAD
            worked = Cell(f"in {one.worked} of {counted(total, 'trial')}", one.reason, tone)
        rate = NOTHING
        if one.tps is not None and one.tps.center == 0:
            rate = Cell(f"< {format_rate(one.tps.high)}", "nothing committed", Tone.BAD)
        elif one.tps is not None:
            rate = Cell(format_rate(one.tps.center), bounds_words(one.tps, format_number))
        rows.append((Cell(one.value, _place(found, one), is_strong=True), worked, rate))
    return Table("Every value that was tried", header("Value", "Worked", ">Committed"), tuple(rows))
