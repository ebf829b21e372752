"""How does a bisection read? The set that was found, and the way to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdrag.designs.bisect.findings import BisectFinding, Reverted, SetTested
from pgdrag.designs.bisect.history import SetVerdict
from pgdrag.designs.bisect.procedure import Ending
from pgdrag.english import counted, listed, percent_words
from pgdrag.findings.values import Findings, Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import Block, Cell, Details, Figure, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section, found_of
from pgdrag.report.strips import StripRow, strips_figure

_MOST_NAMED = 8  # more changes than this are counted
_NEEDED = {
    SetVerdict.LOSES.value: ("needed", Tone.GOOD),
    SetVerdict.KEEPS.value: ("may not be needed", Tone.WARNING),
    SetVerdict.UNRESOLVED.value: ("inconclusive", Tone.PLAIN),
}
_TEXT_ROOM = 24  # changes that fit into a line of a terminal beside label and words


class BisectSection(Section):
    name = "bisect"
    summary = "the guilty changes, and every set that was tried"
    title = "The guilty changes"
    order = 13
    is_folded = False
    finding_type = BisectFinding
    needs = "tests"

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, BisectFinding)
        blocks = list(self.brief(findings))
        if found.inert:
            text = f"Left out, because they read the same at both ends: {listed(found.inert)}."
            blocks.append(Paragraph(text, Tone.MUTED))
        tests = Details(f"All {counted(len(found.tests), 'set')} that were tried", (_tests(found),))
        return (*blocks, _picture(found), tests)

    def brief(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, BisectFinding)
        if not found.guilty:
            return ()
        rows = []
        for one in found.guilty:
            words, tone = _NEEDED.get(one.verdict, (one.verdict, Tone.PLAIN))
            without = "–" if one.without is None else _percent(one.without.center)
            ends = f"{_value(one.before)} → {_value(one.after)}"
            name = Cell(one.name, ends, is_strong=True)
            rows.append((name, _share_cell(one.alone), Cell(without, words, tone)))
        caption = "The set found, and the share of the log slowdown that is kept"
        table = Table(caption, header("Change", ">Share alone", ">Share without it"), tuple(rows))
        return (table, Paragraph(_reading(found), Tone.MUTED))


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
    if (
        found.ending == Ending.FOUND
        and not found.reverted
        and len(found.guilty) < len(found.changes)
    ):
        yield "what reverting the set restores was not tried; allow more trials"
    elif found.reverted and not found.reverted[-1].is_enough:
        yield (
            "even with all that was found reverted the rest is slow; allow more trials, or use "
            '"pgdrag ablate"'
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
    names, them = [one.name for one in found.guilty], "them"
    shown = names if len(names) <= _MOST_NAMED else [*names[: _MOST_NAMED - 1], "others"]
    count = f"{len(names)} of {counted(len(found.changes), 'change')}"
    are, come, keep = "are", "come closest", "keep"
    if len(names) == 1:
        them, are, come, keep = "it", "is", "comes closest", "keeps"
    if found.outcome:
        text = (
            f"{count} {are} enough for {found.target}'s outcome ({found.outcome}): {listed(shown)}."
        )
        return f"{text} {_reverted(found, them)}".strip()
    if found.share is None:
        return f"{count} may be enough, but were not measured together yet: {listed(shown)}."
    what = "slowdown" if found.slowdown is None or found.slowdown.center >= 1 else "speedup"
    verb = come if found.share.center < found.share_wanted else f"{are} enough"
    text = f"{count} {verb}: {listed(shown)} {keep} {_share_words(found.share)} of the log {what}."
    if found.slowdown is not None and found.held is not None:
        text += (
            f" With {them} alone, {found.reference} is {slowdown_words(found.held)}; "
            f"with all changes, {slowdown_words(found.slowdown)}."
        )
    text = f"{text} {_reverted(found, them)}".strip()
    return text if found.ending != Ending.UNDER_WAY else f"So far: {text}"


def _reverted(found: BisectFinding, them: str) -> str:
    """Say what reverting the set restores, and what else does the same."""
    if not found.reverted:
        return ""
    first, last = found.reverted[0], found.reverted[-1]
    if first.is_enough:
        return f"Reverting {them} {_restored(first)}."
    others = listed([" with ".join(names) for names in found.also], "and")
    start = f"Reverting {them} is not enough: it {_restored(first)}"
    if not others:
        return f"{start}, and what else does it was not found."
    does = "does" if len(found.also) == 1 else "do"
    every = "both" if len(last.changes) == 2 else f"all {len(last.changes)}"
    end = f" Reverting {every} {_restored(last)}." if len(found.reverted) > 1 else ""
    return f"{start}; {others} {does} the same.{end}"


def _restored(one: Reverted) -> str:
    if one.restored is None:
        return "restores throughput" if one.is_enough else "changes nothing"
    left = "" if one.slowdown is None else f", and leaves it {slowdown_words(one.slowdown)}"
    return f"restores {_share_words(one.restored)} of it{left}"


def _share_words(share: Interval) -> str:
    """Return `94 % (95 % CI 89 % to 99 %)`."""
    low, center, high = map(_percent, (share.low, share.center, share.high))
    return f"{center} ({percent_words(share.confidence)} CI {low} to {high})"


def _percent(share: float) -> str:
    """Return a share in whole per cent, without a sign before 0."""
    return percent_words(round(share, 2) + 0.0)


def _reading(found: BisectFinding) -> str:
    parts = []
    if found.share is not None and found.share_left is not None:
        kind = "by full trials" if found.is_confirmed else "by short trials, not confirmed yet"
        parts.append(f"The set keeps {_share_words(found.share)} of the log ratio, {kind}.")
    if found.slowdown is not None:
        parts.append(f"All changes: {slowdown_words(found.slowdown)}.")
    parts.append(
        f"{counted(found.trials, 'trial')} of at most {found.trials_most}, {found.full_trials} of them full."
    )
    return " ".join(parts)


def _picture(found: BisectFinding) -> Figure:
    count = len(found.changes)
    rows, last = [], ""
    for test in found.tests:
        keeps = test.verdict == SetVerdict.KEEPS
        words = "no number" if test.share is None else _percent(test.share.center)
        if found.outcome:
            words = "same outcome" if keeps else test.verdict
        label = test.stage if test.stage != last else ""
        rows.append(StripRow(label, frozenset(test.places), words, keeps))
        last = test.stage
    description = "; ".join(f"{counted(len(row.places), 'change')}: {row.words}" for row in rows)
    caption = (
        "In the order tried, from the top. Each place is a change, filled if the set has it, and strong if "
        "the set keeps the share wanted."
    )
    title = "Sets that were tried, and the share each keeps"
    has_text = count <= _TEXT_ROOM
    return strips_figure(rows, count, title, description, caption, has_text=has_text)


def _tests(found: BisectFinding) -> Table:
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
    columns = header("Set", "Stage", "Verdict", ">Share kept", ">Trials")
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


def _share_cell(share: Interval | None) -> Cell:
    if share is None:
        return NOTHING
    return Cell(_percent(share.center), f"{_percent(share.low)} to {_percent(share.high)}")


def _value(value: str | None) -> str:
    return "not set" if value is None else value
