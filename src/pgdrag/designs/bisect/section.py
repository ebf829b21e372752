"""The set that a bisection found, and the way to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.designs.bisect.findings import BisectFinding, GuiltyChange, SetTested
from pgdrag.designs.bisect.oracle import Verdict
from pgdrag.designs.bisect.words import share_of, share_words
from pgdrag.english import counted, listed
from pgdrag.findings.values import Findings, Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import (
    Align,
    Block,
    Cell,
    Column,
    Details,
    Figure,
    Paragraph,
    Table,
    Tone,
)
from pgdrag.report.sections import Section, found_of
from pgdrag.report.strips import StripRow, strips_chart, strips_text

_TITLE = "What was tried, and what it kept"
_TONES = {
    Verdict.LOSES.value: Tone.GOOD,
    Verdict.KEEPS.value: Tone.DOUBT,
}
_NEEDED = {
    Verdict.LOSES.value: "needed",
    Verdict.KEEPS.value: "may be needless",
    Verdict.UNRESOLVED.value: "could not be told",
}
_TEXT_ROOM = 24  # changes that fit into a line of a terminal beside label and words


class BisectSection(Section):
    """The guilty changes in a table, and every set that was tried as a narrowing strip."""

    name: ClassVar[str] = "bisect"
    summary: ClassVar[str] = "the guilty changes, and every set that was tried as a narrowing strip"
    title: ClassVar[str] = "The guilty changes"
    order: ClassVar[int] = 13
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """There is something to show as soon as a set was tried."""
        return isinstance(findings.found, BisectFinding) and bool(findings.found.tests)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the set, the picture of the search and the table of all tests."""
        found = found_of(findings, BisectFinding)
        return (
            *_set(found),
            *_inert(found),
            *_picture(found),
            Details(f"All {counted(len(found.tests), 'set')} that were tried", (_tests(found),)),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the set."""
        found = found_of(findings, BisectFinding)
        return _set(found)


def _set(found: BisectFinding) -> list[Block]:
    if not found.guilty:
        return []
    columns = (
        Column("Change"),
        Column("Keeps by itself", Align.RIGHT),
        Column("Kept without it", Align.RIGHT),
    )
    rows = tuple(
        (
            Cell(one.name, f"{_value(one.before)} → {_value(one.after)}", is_strong=True),
            _share_cell(one.alone),
            _without_cell(one),
        )
        for one in found.guilty
    )
    table = Table("The changes of the set that was found", columns, rows)
    return [table, Paragraph(_reading(found), Tone.MUTED)]


def _reading(found: BisectFinding) -> str:
    parts = []
    if found.share is not None:
        kind = "full trials" if found.is_confirmed else "short trials, not confirmed yet"
        parts.append(f"Together they hold {share_words(found.share)} of the log ratio, by {kind}.")
    if found.share_left is not None:
        rest = len(found.changes) - len(found.guilty)
        parts.append(
            f"{counted(rest, 'other change')} add {share_words(found.share_left)} to that."
        )
    if found.slowdown is not None:
        parts.append(f"The whole: {slowdown_words(found.slowdown)}.")
    parts.append(
        f"{counted(found.trials, 'trial')}, {found.full_trials} of them full, of at most "
        f"{found.trials_most}."
    )
    return " ".join(parts)


def _picture(found: BisectFinding) -> list[Block]:
    count = len(found.changes)
    rows, last = [], ""
    for test in found.tests:
        label = test.stage if test.stage != last else ""
        last = test.stage
        strong = test.verdict == Verdict.KEEPS
        rows.append(StripRow(label, frozenset(test.places), _words(found, test), strong))
    told = "; ".join(f"{counted(len(row.places), 'change')}: {row.words}" for row in rows)
    caption = (
        "From top to bottom in the order tried; each place is a change, filled where the set has it: "
        "strong where the set keeps what is wanted."
    )
    text = strips_text(rows, count) if count <= _TEXT_ROOM else ""
    return [Figure(strips_chart(rows, count, _TITLE, told), caption, text)]


def _words(found: BisectFinding, test: SetTested) -> str:
    if found.outcome:
        return "ends alike" if test.verdict == Verdict.KEEPS else test.verdict
    return "no number" if test.share is None else share_of(test.share.center)


def _tests(found: BisectFinding) -> Table:
    columns = (
        Column("Set"),
        Column("At"),
        Column("Verdict"),
        Column("Share kept", Align.RIGHT),
        Column("Trials", Align.RIGHT),
    )
    rows = tuple(
        (
            Cell(_set_words(found, test)),
            Cell(test.stage),
            Cell(test.verdict),
            _share_cell(test.share),
            Cell(str(test.trials), f"{test.full_trials} full" if test.full_trials else ""),
        )
        for test in found.tests
    )
    return Table("Every set of changes that was tried, in order", columns, rows)


def _set_words(found: BisectFinding, test: SetTested) -> str:
    """Name the changes of a set, or those it lacks, whichever are fewer."""
    if not test.changes:
        return f"none: {found.reference}"
    lacking = [name for name in found.changes if name not in test.changes]
    if not lacking:
        return f"all: {found.target}"
    if len(lacking) < len(test.changes):
        return f"all but {listed(lacking)}"
    return listed(test.changes)


def _inert(found: BisectFinding) -> list[Block]:
    if not found.inert:
        return []
    text = f"The same at both ends, and left out at once: {listed(found.inert)}."
    return [Paragraph(text, Tone.MUTED)]


def _share_cell(share: Interval | None) -> Cell:
    if share is None:
        return NOTHING
    bounds = f"{share_of(share.low)} to {share_of(share.high)}"
    return Cell(share_of(share.center), bounds)


def _without_cell(one: GuiltyChange) -> Cell:
    words = _NEEDED.get(one.verdict, one.verdict)
    tone = _TONES.get(one.verdict, Tone.PLAIN)
    if one.without is None:
        return Cell("–", words, tone)
    return Cell(share_of(one.without.center), words, tone)


def _value(value: str | None) -> str:
    return "not set" if value is None else value
