"""What does a bisection come to in words, and what is doubtful about it?"""

from __future__ import annotations

from pgdrag.designs.bisect.findings import BisectFinding
from pgdrag.designs.bisect.oracle import Verdict
from pgdrag.designs.bisect.rules import Ending
from pgdrag.english import counted, listed, percent_words
from pgdrag.findings.values import Interval
from pgdrag.findings.wording import slowdown_words

MOST_NAMED = 8  # more names than this are counted


def answer_words(found: BisectFinding) -> str:
    """Return the answer in one to three sentences."""
    if not found.changes:
        return f"No answer: {found.reference} and {found.target} are the same."
    match found.ending:
        case Ending.NO_REFERENCE | Ending.NO_TARGET:
            end = found.reference if found.ending == Ending.NO_REFERENCE else found.target
            return f"No answer: {end} has no number, and no outcome that could be followed."
        case Ending.NO_DIFFERENCE:
            number = f": {slowdown_words(found.slowdown)}" if found.slowdown is not None else ""
            return (
                f"Nothing to bisect: {found.target} and {found.reference} do not differ by more than "
                f"noise{number}."
            )
    if not found.guilty:
        return f"No answer yet: {counted(found.trials, 'trial')} of at most {found.trials_most} are in."
    return _set_words(found)


def doubts(found: BisectFinding) -> tuple[str, ...]:
    """Return what is doubtful, each with the remedy still untried."""
    told = []
    if found.ending == Ending.OUT_OF_TRIALS:
        told.append(
            f"the {found.trials_most} trials were used up before the set was confirmed to keep "
            f"{percent_words(found.share_wanted)}; allow more trials"
        )
    if found.share is not None and found.share.low < found.share_wanted <= found.share.high:
        told.append(
            f"the share held may lie below the {percent_words(found.share_wanted)} wanted: its interval "
            "includes less; more confirming trials would narrow it"
        )
    elif found.share is not None and found.share.high < found.share_wanted:
        told.append(
            f"the set holds less than the {percent_words(found.share_wanted)} wanted; allow more trials"
        )
    if found.is_censored:
        told.append(
            f"nothing committed on {found.target}: its slowdown is a lower bound, and so is what "
            "shares refer to; a longer budget may show its rate"
        )
    if found.guilty and found.ending != Ending.UNDER_WAY:
        told += _minimality(found)
    return tuple(told)


def share_words(share: Interval) -> str:
    """Return `94 % (89 % to 99 %)`."""
    low, center, high = (share_of(x) for x in (share.low, share.center, share.high))
    return f"{center} ({low} to {high})"


def share_of(share: float) -> str:
    """Return a share in whole per cent, without a sign before 0."""
    return percent_words(round(share, 2) + 0.0)


def _set_words(found: BisectFinding) -> str:
    names = [one.name for one in found.guilty]
    shown = names if len(names) <= MOST_NAMED else [*names[: MOST_NAMED - 1], "others"]
    count, verb = (
        f"{len(names)} of {counted(len(found.changes), 'change')}",
        ("is enough" if len(names) == 1 else "are enough"),
    )
    if found.outcome:
        end = found.target
        return f"{count} {verb} to end as {end} does ({found.outcome}): {listed(shown)}."
    if found.share is None:
        return f"{count} may be enough, and were not measured together yet: {listed(shown)}."
    what = "slowdown" if found.slowdown is None or found.slowdown.center >= 1 else "speedup"
    held = f"{listed(shown)} keep{'s' if len(names) == 1 else ''} {share_words(found.share)} of the log {what}"
    if found.share.center < found.share_wanted:
        verb = "come" + ("s" if len(names) == 1 else "") + " closest"
    text = f"{count} {verb}: {held}."
    if found.slowdown is not None and found.held is not None:
        who = "By itself it is" if len(names) == 1 else "Together they are"
        text += (
            f" {who} {slowdown_words(found.held)} than {found.reference}; all changes are "
            f"{slowdown_words(found.slowdown)}."
        )
    return text if found.ending != Ending.UNDER_WAY else f"So far: {text}"


def _minimality(found: BisectFinding) -> list[str]:
    if len(found.guilty) == 1:
        return []
    told = []
    needless = [x.name for x in found.guilty if x.verdict == Verdict.KEEPS]
    open_ = [x.name for x in found.guilty if x.verdict not in (Verdict.KEEPS, Verdict.LOSES)]
    if needless:
        told.append(
            f"the set may do without any one of {listed(needless)}, as far as short trials tell; "
            "a lower share would leave more out"
        )
    if open_:
        told.append(f"that {listed(open_)} cannot be left out was not shown; allow more trials")
    return told
