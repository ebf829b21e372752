"""Which of a ladder's steps carries the whole? Each change in the ladder, alone, and left out of the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pgdrag.designs.ablate.labels import Label
from pgdrag.designs.ladder.findings import LadderFinding, RungChange
from pgdrag.english import percent_words
from pgdrag.findings.values import Comparison, Findings, Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.cells import NOTHING, slowdown_cell
from pgdrag.report.document import Align, Block, Cell, Column, Paragraph, Table, Tone
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_ratio

_TITLE = "Each change alone, and the whole without it"
_TONES = {Label.INERT: Tone.MUTED, Label.UNDECIDED: Tone.WARNING, Label.UNTESTABLE: Tone.MUTED}


class SingleChangesSection(Section):
    """One row a step of the ladder: its ratio there, alone and with the others, and its part of the whole."""

    name: ClassVar[str] = "single-changes"
    summary: ClassVar[str] = (
        "each step of a ladder alone and left out of the whole, with its label and what carries the whole"
    )
    title: ClassVar[str] = _TITLE
    order: ClassVar[int] = 25
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """The ladder was asked for more than its rungs."""
        return isinstance(findings.found, LadderFinding)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the picture of what each does alone, the table, and how to read it."""
        found = found_of(findings, LadderFinding)
        return (*_picture(found), _table(found, has_details=True), _reading(found))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the table without parts, which the terminal has no room for."""
        return (_table(found_of(findings, LadderFinding), has_details=False),)


def _picture(found: LadderFinding) -> list[Block]:
    if found.whole is None or all(one.alone is None for one in found.changes):
        return []
    rows = [
        Row(one.rung, f"alone: {one.title}", _words(one.alone), found=_slowdown(one.alone))
        for one in found.changes
    ]
    whole = found.whole.slowdown
    rows.append(Row("the whole", "", slowdown_words(whole), found=whole, is_whole=True))
    words = "; ".join(f"{row.name} {row.words}" for row in rows)
    caption = (
        f"{found.baseline} with one change only against {found.baseline}, and {found.target}, which has all of "
        "them; logarithmic scale, further right is slower."
    )
    return [rows_figure(rows, _TITLE, words, caption, name="ladder-chart")]


def _words(comparison: Comparison | None) -> str:
    return "no number" if comparison is None else slowdown_words(comparison.slowdown)


def _slowdown(comparison: Comparison | None) -> Interval | None:
    return None if comparison is None else comparison.slowdown


def _table(found: LadderFinding, *, has_details: bool) -> Table:
    columns = [
        Column("Change"),
        Column("Label"),
        Column("Step, × slower", Align.RIGHT),
        Column("Alone, × slower", Align.RIGHT),
        Column("With the others, × slower", Align.RIGHT),
    ]
    if has_details:
        columns.append(Column("Part of the whole, alone", Align.RIGHT))
        columns.append(Column("Part, with the others", Align.RIGHT))
    columns.append(Column("Detectable effect", Align.RIGHT))
    rows = tuple(_row(one, has_details=has_details) for one in found.changes)
    return Table("Each step of the ladder by itself", tuple(columns), rows)


def _row(change: RungChange, *, has_details: bool) -> tuple[Cell, ...]:
    label = Cell(
        change.label.value,
        "carries the whole" if change.carries else "",
        _TONES.get(change.label, Tone.PLAIN),
        is_strong=change.carries,
    )
    seen = change.detectable
    return (
        Cell(change.rung, change.title, is_strong=True),
        label,
        slowdown_cell(change.step),
        slowdown_cell(change.alone),
        slowdown_cell(change.with_others),
        *(
            [_part_cell(change.alone_part), _part_cell(change.with_others_part)]
            if has_details
            else []
        ),
        NOTHING if math.isinf(seen) else Cell(f"{format_ratio(seen)} or more"),
    )


def _part_cell(part: Interval | None) -> Cell:
    if part is None:
        return NOTHING
    bounds = f"{percent_words(part.low)} to {percent_words(part.high)}"
    return Cell(percent_words(part.center), bounds)


def _reading(found: LadderFinding) -> Paragraph:
    method = f" Intervals: {found.method}." if found.method else ""
    return Paragraph(
        f"Step: the rung against the one before it, which depends on the order. Alone: {found.baseline} with the "
        f"change against {found.baseline}. With the others: {found.target} against {found.target} without the change. "
        "Parts are of the whole on the log scale. A change is sufficient if it has an effect alone, necessary if "
        "the whole differs without it, redundant if another change does the same, a synergist if it needs a partner, "
        f"and inert if neither comparison shows an effect that it could have detected.{method}",
        Tone.MUTED,
    )
