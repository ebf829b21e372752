"""Which of a ladder's steps carries the whole? Each change in the ladder, alone, and left out of the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.designs.ablate.labels import Label
from pgdrag.designs.ladder import LadderFinding, RungChange
from pgdrag.english import percent_words
from pgdrag.findings.values import Comparison, Findings, Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.cells import NOTHING, slowdown_cell
from pgdrag.report.document import Block, Cell, Paragraph, Table, Tone, header
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_ratio

_TONES = {Label.INERT: Tone.MUTED, Label.UNDECIDED: Tone.WARNING, Label.UNTESTABLE: Tone.MUTED}


class SingleChangesSection(Section):
    name = "single-changes"
    summary = "each step of a ladder alone and left out of the whole, with its label and what carries the whole"
    title = "Each change alone, and the whole without it"
    order = 25
    finding_type = LadderFinding
    is_folded = False
    needs = "changes"

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, LadderFinding)
        method = f" Intervals: {found.method}." if found.method else ""
        reading = (
            f"Step: the rung against the one before it, which depends on the order. Alone: {found.baseline} with the "
            f"change against {found.baseline}. With the others: {found.target} against {found.target} without the change. "
            "Parts are of the whole on the log scale. A change is sufficient if it has an effect alone, necessary if "
            "the whole differs without it, redundant if another change does the same, and inert if neither comparison shows "
            f"an effect that it could have detected. One that needs a partner has an effect only together with another.{method}"
        )
        table = _table(found, has_details=True)
        return (*_picture(found, self.title), table, Paragraph(reading, Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the table without parts, which the terminal has no room for."""
        return (_table(found_of(findings, LadderFinding), has_details=False),)


def _picture(found: LadderFinding, title: str) -> list[Block]:
    if found.whole is None or all(one.alone is None for one in found.changes):
        return []
    rows = [_chart_row(one.rung, f"alone: {one.title}", one.alone) for one in found.changes]
    rows.append(_chart_row("the whole", "", found.whole, is_whole=True))
    words = "; ".join(f"{row.name} {row.words}" for row in rows)
    caption = (
        f"{found.baseline} with one change only against {found.baseline}, and {found.target}, which has all of "
        "them; logarithmic scale, further right is slower."
    )
    return [rows_figure(rows, title, words, caption, name="ladder-chart")]


def _chart_row(name: str, aside: str, found: Comparison | None, *, is_whole: bool = False) -> Row:
    if found is None:
        return Row(name, aside, "no number")
    words = slowdown_words(found.slowdown)
    return Row(name, aside, words, found=found.slowdown, is_whole=is_whole)


def _table(found: LadderFinding, *, has_details: bool) -> Table:
    ratios = (">Step, × slower", ">Alone, × slower", ">With the others, × slower")
    parts = (">Part of the whole, alone", ">Part, with the others") if has_details else ()
    columns = header("Change", "Label", *ratios, *parts, ">Detectable effect")
    rows = tuple(_row(one, has_details=has_details) for one in found.changes)
    return Table("Each step of the ladder by itself", columns, rows)


def _row(change: RungChange, *, has_details: bool) -> tuple[Cell, ...]:
    carries = "carries the whole" if change.carries else ""
    tone = _TONES.get(change.label, Tone.PLAIN)
    parts = (change.alone_part, change.with_others_part) if has_details else ()
    seen = change.detectable
    return (
        Cell(change.rung, change.title, is_strong=True),
        Cell(change.label.value, carries, tone, is_strong=change.carries),
        *map(slowdown_cell, (change.step, change.alone, change.with_others)),
        *map(_part_cell, parts),
        Cell(f"{format_ratio(seen)} or more") if seen < math.inf else NOTHING,
    )


def _part_cell(part: Interval | None) -> Cell:
    if part is None:
        return NOTHING
    bounds = f"{percent_words(part.low)} to {percent_words(part.high)}"
    return Cell(percent_words(part.center), bounds)
