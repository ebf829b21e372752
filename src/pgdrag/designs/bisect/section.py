"""How does a bisection read? The set that was found, and the way to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pgdrag.designs.bisect.findings import BisectFinding, GuiltyChange, SetTested
from pgdrag.designs.bisect.history import SetVerdict
from pgdrag.designs.bisect.procedure import Ending
from pgdrag.english import counted, listed, percent_words
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

_MOST_NAMED = 8  # more changes than this are counted
_TITLE = "Sets that were tried, and the share each keeps"
_NEEDED = {
    SetVerdict.LOSES.value: ("needed", Tone.GOOD),
    SetVerdict.KEEPS.value: ("may not be needed", Tone.WARNING),
    SetVerdict.UNRESOLVED.value: ("inconclusive", Tone.PLAIN),
}
_TEXT_ROOM = 24  # changes that fit into a line of a terminal beside label and words


class BisectSection(Section):
    """The guilty changes in a table, and every set that was tried, as a strip."""

    name: ClassVar[str] = "bisect"
    summary: ClassVar[str] = "the guilty changes, and every set that was tried"
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
        return _set(found_of(findings, BisectFinding))


def answer(found: BisectFinding) -> str:
    """Return the answer in one to three sentences."""
    reference, target = found.reference, found.target
    if not found.changes:
        return f"No answer: {reference} and {target} are the same."
    match found.ending:
        case Ending.NO_REFERENCE | Ending.NO_TARGET:
            end = reference if found.ending == Ending.NO_REFERENCE else target
            return f"No answer: {end} has no number, and no outcome to bisect by."
        case Ending.NO_DIFFERENCE:
            number = f": {slowdown_words(found.slowdown)}" if found.slowdown is not None else ""
            return (
                f"Nothing to bisect: {target} and {reference} do not differ significantly{number}."
            )
    if not found.guilty:
        return f"No answer yet: {found.trials} of at most {found.trials_most} trials have run."
    return _set_words(found)


def warnings(found: BisectFinding) -> Iterator[str]:
    """Yield what may be wrong with it, each with the remedy still untried."""
    share, wanted = found.share, percent_words(found.share_wanted)
    if found.ending == Ending.OUT_OF_TRIALS:
        yield (
            f"all {found.trials_most} trials were used before the set was confirmed to keep {wanted}; allow "
            "more trials"
        )
    if share is not None and share.high < found.share_wanted:
        yield f"the set keeps less than the {wanted} wanted; allow more trials"
    elif share is not None and share.low < found.share_wanted:
        yield (
            f"the set may keep less than the {wanted} wanted, by the interval of its share; run more "
            "confirming trials"
        )
    if found.is_censored:
        yield (
            f"nothing committed on {found.target}: its slowdown is a lower bound, and shares are relative to "
            "that bound; a longer budget may show its rate"
        )
    if len(found.guilty) < 2 or found.ending == Ending.UNDER_WAY:
        return
    needless = [x.name for x in found.guilty if x.verdict == SetVerdict.KEEPS]
    untold = [x.name for x in found.guilty if x.verdict not in (SetVerdict.KEEPS, SetVerdict.LOSES)]
    if needless:
        yield (
            f"by short trials the set does not need {listed(needless, 'or')}; a lower share would leave more "
            "out"
        )
    if untold:
        yield (
            f"{listed(untold)} may not be needed: trials of the set without them are missing or "
            "inconclusive; allow more trials"
        )


def _set_words(found: BisectFinding) -> str:
    names = [one.name for one in found.guilty]
    is_one = len(names) == 1
    shown = names if len(names) <= _MOST_NAMED else [*names[: _MOST_NAMED - 1], "others"]
    count = f"{len(names)} of {counted(len(found.changes), 'change')}"
    if found.outcome:
        verb = "is" if is_one else "are"
        return f"{count} {verb} enough for {found.target}'s outcome ({found.outcome}): {listed(shown)}."
    if found.share is None:
        return f"{count} may be enough, but were not measured together yet: {listed(shown)}."
    what = "slowdown" if found.slowdown is None or found.slowdown.center >= 1 else "speedup"
    if found.share.center < found.share_wanted:
        verb = "comes closest" if is_one else "come closest"
    else:
        verb = "is enough" if is_one else "are enough"
    keep = "keeps" if is_one else "keep"
    text = f"{count} {verb}: {listed(shown)} {keep} {share_words(found.share)} of the log {what}."
    if found.slowdown is not None and found.held is not None:
        text += (
            f" With {'it' if is_one else 'them'} alone, {found.reference} is {slowdown_words(found.held)}; "
            f"with all changes, {slowdown_words(found.slowdown)}."
        )
    return text if found.ending != Ending.UNDER_WAY else f"So far: {text}"


def share_words(share: Interval) -> str:
    """Return `94 % (95 % CI 89 % to 99 %)`."""
    low, center, high = (share_of(x) for x in (share.low, share.center, share.high))
    return f"{center} ({percent_words(share.confidence)} CI {low} to {high})"


def share_of(share: float) -> str:
    """Return a share in whole per cent, without a sign before 0."""
    return percent_words(round(share, 2) + 0.0)


def _set(found: BisectFinding) -> list[Block]:
    if not found.guilty:
        return []
    columns = (
        Column("Change"),
        Column("Share alone", Align.RIGHT),
        Column("Share without it", Align.RIGHT),
    )
    rows = tuple(
        (
            Cell(one.name, f"{_value(one.before)} → {_value(one.after)}", is_strong=True),
            _share_cell(one.alone),
            _without_cell(one),
        )
        for one in found.guilty
    )
    table = Table("The set found, and the share of the log slowdown that is kept", columns, rows)
    return [table, Paragraph(_reading(found), Tone.MUTED)]


def _reading(found: BisectFinding) -> str:
    parts = []
    if found.share is not None and found.share_left is not None:
        kind = "by full trials" if found.is_confirmed else "by short trials, not confirmed yet"
        rest = counted(len(found.changes) - len(found.guilty), "other change")
        parts += [
            f"The set keeps {share_words(found.share)} of the log ratio, {kind}.",
            f"{rest} add {share_words(found.share_left)}.",
        ]
    if found.slowdown is not None:
        parts.append(f"All changes: {slowdown_words(found.slowdown)}.")
    parts.append(
        f"{counted(found.trials, 'trial')} of at most {found.trials_most}, {found.full_trials} of them full."
    )
    return " ".join(parts)


def _picture(found: BisectFinding) -> list[Block]:
    count = len(found.changes)
    rows, last = [], ""
    for test in found.tests:
        label = test.stage if test.stage != last else ""
        last = test.stage
        strong = test.verdict == SetVerdict.KEEPS
        rows.append(StripRow(label, frozenset(test.places), _kept_words(found, test), strong))
    description = "; ".join(f"{counted(len(row.places), 'change')}: {row.words}" for row in rows)
    caption = (
        "In the order tried, from the top. Each place is a change, filled if the set has it, and strong if "
        "the set keeps the share wanted."
    )
    text = strips_text(rows, count) if count <= _TEXT_ROOM else ""
    return [Figure(strips_chart(rows, count, _TITLE, description), caption, text)]


def _kept_words(found: BisectFinding, test: SetTested) -> str:
    if found.outcome:
        return "same outcome" if test.verdict == SetVerdict.KEEPS else test.verdict
    return "no number" if test.share is None else share_of(test.share.center)


def _tests(found: BisectFinding) -> Table:
    columns = (
        Column("Set"),
        Column("Stage"),
        Column("Verdict"),
        Column("Share kept", Align.RIGHT),
        Column("Trials", Align.RIGHT),
    )
    rows = tuple(
        (
            Cell(_members(found, test)),
            Cell(test.stage),
            Cell(test.verdict),
            _share_cell(test.share),
            Cell(str(test.trials), f"{test.full_trials} full" if test.full_trials else ""),
        )
        for test in found.tests
    )
    return Table("Every set of changes that was tried, in order", columns, rows)


def _members(found: BisectFinding, test: SetTested) -> str:
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
    text = f"Left out, because they read the same at both ends: {listed(found.inert)}."
    return [Paragraph(text, Tone.MUTED)]


def _share_cell(share: Interval | None) -> Cell:
    if share is None:
        return NOTHING
    bounds = f"{share_of(share.low)} to {share_of(share.high)}"
    return Cell(share_of(share.center), bounds)


def _without_cell(one: GuiltyChange) -> Cell:
    words, tone = _NEEDED.get(one.verdict, (one.verdict, Tone.PLAIN))
    if one.without is None:
        return Cell("–", words, tone)
    return Cell(share_of(one.without.center), words, tone)


def _value(value: str | None) -> str:
    return "not set" if value is None else value
