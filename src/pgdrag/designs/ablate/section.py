"""The picture of an ablation: which change carries how much of the whole, and what each is to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pgdrag.designs.ablate.findings import AblateFinding, ChangeFinding, ShareFinding
from pgdrag.designs.ablate.labels import Label
from pgdrag.designs.ablate.words import unseen_words
from pgdrag.english import counted
from pgdrag.findings.values import Findings, Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.cells import NOTHING, bare_ratio, bounds_words
from pgdrag.report.document import (
    Align,
    Block,
    Cell,
    Column,
    Details,
    Figure,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
)
from pgdrag.report.forest import ForestRow, forest_chart, forest_text
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_number, format_ratio

_TITLE = "Which change carries how much"
_TONES = {
    Label.INERT: Tone.MUTED,
    Label.UNDECIDED: Tone.DOUBT,
    Label.PREVENTS_START: Tone.BAD,
    Label.CRASHES: Tone.BAD,
    Label.UNTESTABLE: Tone.MUTED,
}


class AblateSection(Section):
    """A forest plot of the shares, the pairs, and a table of all changes."""

    name: ClassVar[str] = "ablate"
    summary: ClassVar[str] = "a forest plot of each change's share, with its label, and pairs"
    title: ClassVar[str] = _TITLE
    order: ClassVar[int] = 12
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """There is something to show as soon as the run is an ablation of something."""
        return isinstance(findings.found, AblateFinding) and bool(findings.found.changes)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return picture, pairs, checks and the table of all changes."""
        found = found_of(findings, AblateFinding)
        return (
            *_picture(found),
            *_pairs(found),
            Details(
                f"All {counted(len(found.changes), 'change')}", (_table(found), _reading(found))
            ),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the picture in characters, and the pairs."""
        found = found_of(findings, AblateFinding)
        return (*_picture(found), *_labels_in_words(found), *_pairs(found))


def _picture(found: AblateFinding) -> list[Block]:
    rows = _rows(found)
    if not rows:
        return []
    told = "; ".join(f"{row.name} {row.words}" for row in rows)
    caption = (
        "Factor of each change in the slowdown, averaged over the orders of the changes, with its 95 % "
        "interval; logarithmic scale, further right is slower. The factors multiply, and their parts add "
        f"up, to the whole. {found.method}; {counted(found.full_trials, 'trial')}."
    )
    return [Figure(forest_chart(rows, _TITLE, told), caption, forest_text(rows))]


def _rows(found: AblateFinding) -> list[ForestRow]:
    rows = [
        ForestRow(one.name, one.label.value, _share_words(one.share), one.share.slowdown)
        for one in found.changes
        if one.share is not None
    ]
    if found.others is not None:
        name = (
            counted(found.others_count, "other") if rows else counted(found.others_count, "change")
        )
        rows.append(ForestRow(name, "together", _share_words(found.others), found.others.slowdown))
    if rows and found.whole is not None:
        whole = ForestRow("the whole", "", slowdown_words(found.whole), found.whole, is_whole=True)
        rows.append(whole)
    return rows


def _share_words(share: ShareFinding) -> str:
    if share.part is None or share.part_low is None or share.part_high is None:
        return slowdown_words(share.slowdown)
    low, high = (
        "?" if math.isinf(x) else format_number(round(100 * x, 1 if abs(x) < 0.1 else 0))
        for x in (share.part_low, share.part_high)
    )
    return f"{round(100 * share.part):d} % ({low} to {high})"


def _pairs(found: AblateFinding) -> list[Block]:
    if not found.pairs:
        return []
    return [
        Heading("Pairs", "upon the reference, each alone and both"),
        Items(tuple(pair.sentence for pair in found.pairs)),
    ]


def _labels_in_words(found: AblateFinding) -> list[Block]:
    """Name the changes of each label."""
    lines = []
    for label in Label:
        names = [one.name for one in found.changes if one.label is label]
        if names:
            lines.append(f"{label.value}: {', '.join(names)}")
    return [Heading("Labels", "alone and in company"), Items(tuple(lines))]


def _table(found: AblateFinding) -> Table:
    columns = (
        Column("Change"),
        Column("Label"),
        Column("Alone, × slower", Align.RIGHT),
        Column("In company, × slower", Align.RIGHT),
        Column("Share", Align.RIGHT),
    )
    rows = tuple(
        (
            Cell(one.name, f"{_value(one.before)} → {_value(one.after)}", is_strong=True),
            Cell(one.label.value, tone=_TONES.get(one.label, Tone.PLAIN)),
            _effect_cell(one.alone),
            _effect_cell(one.company),
            _share_cell(one),
        )
        for one in found.changes
    )
    return Table("What each change is to the slowdown", columns, rows)


def _value(value: str | None) -> str:
    return "default" if value is None else value or "''"


def _effect_cell(found: Interval | None) -> Cell:
    if found is None:
        return NOTHING
    if math.isinf(found.center):
        return Cell(f"> {format_ratio(found.low)}", "lower bound")
    if found.center == 0:
        return Cell(f"< {format_ratio(found.high)}", "upper bound")
    is_significant = found.low > 1 or found.high < 1
    note = bounds_words(found, bare_ratio)
    return Cell(format_ratio(found.center), note, Tone.PLAIN if is_significant else Tone.MUTED)


def _share_cell(change: ChangeFinding) -> Cell:
    if change.share is None or change.share.part is None:
        return NOTHING
    words, _, bounds = _share_words(change.share).partition(" (")
    return Cell(words, bounds.rstrip(")"), is_strong=True)


def _reading(found: AblateFinding) -> Paragraph:
    unseen = unseen_words(found)
    return Paragraph(
        f"Alone: {found.reference} with the change against {found.reference}. In company: {found.target} "
        f"against {found.target} without the change. Both from {counted(found.brief_trials, 'short trial')}."
        f" What is inert shows {unseen}: a look misses an effect of that size one time in ten.",
        Tone.MUTED,
    )
