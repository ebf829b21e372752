"""How long after the release of the horizon does throughput take to recover?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.findings.dose.findings import HorizonFinding, Recovery
from pgdrag.findings.dose.recovery import BEFORE, BEGINNING
from pgdrag.findings.holds.levels import NOTHING
from pgdrag.findings.values import Findings
from pgdrag.report.document import Block, Cell, Items, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section
from pgdrag.units import format_duration

_READING = (
    "Time from the release until five consecutive seconds reach {share} % of the reference. Below it: the range that the "
    "trials allow, with the uncertainty of the reference and of five seconds. Where two ranges overlap, the difference is "
    "not significant. A window that ends before throughput recovers gives a lower bound."
)


class RecoverySection(Section):
    """Time from the release of the horizon until throughput recovers, with and without vacuum and reindex."""

    name = "recovery"
    summary = "time from the release of the horizon until throughput recovers"
    title = "Recovery after the release"
    order = 27
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """A hold ended within its window."""
        return bool(_found(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table, one row a rung, ordered by the length of the hold."""
        found = _found(findings)
        reading = _READING.format(share=f"{found[0].share * 100:.0f}")
        return (_table(found), *_compared(found), Paragraph(reading, Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return a sentence for each rung."""
        sentences = (f"{one.rung}: {recovery_sentence(one)}" for one in _found(findings))
        return (Items(tuple(sentences)),)


def recovery_sentence(found: Recovery) -> str:
    """Return how long throughput took to recover."""
    after = "" if found.after_release == NOTHING else f" and {found.after_release}"
    what = f"after a hold of {format_duration(round(found.held_s))}{after} throughput"
    reference = {BEFORE: "the rate before the hold", BEGINNING: "the rate at the hold's beginning"}
    of = reference.get(found.reference, f"{found.reference}'s rate")
    level = f"{found.share * 100:.0f} % of {of}"
    if math.isinf(found.back_s.center):
        watched = format_duration(round(found.watched_s))
        return f"{what} does not recover to {level} within {watched}."
    center = format_duration(round(found.back_s.center, 1))
    return f"{what} recovers to {level} in {center} ({_range_words(found)})."


def _found(findings: Findings) -> tuple[Recovery, ...]:
    found = findings.get(HorizonFinding)
    return found.recoveries if found is not None else ()


def _table(found: Sequence[Recovery]) -> Table:
    columns = header("Rung", ">Held for", "Then", ">Recovers in", "Against", ">Trials")
    rows = tuple(_row(one) for one in sorted(found, key=lambda one: round(one.held_s)))
    return Table("Recovery of each rung", columns, rows)


def _row(one: Recovery) -> tuple[Cell, ...]:
    censored = f"{one.censored} did not recover" if one.censored else ""
    return (
        Cell(one.rung, is_strong=True),
        Cell(format_duration(round(one.held_s))),
        Cell(one.after_release),
        _back_cell(one),
        Cell(one.reference),
        Cell(str(one.trials), censored),
    )


def _back_cell(one: Recovery) -> Cell:
    if math.isinf(one.back_s.center):
        watched = format_duration(round(one.watched_s))
        return Cell(f"> {watched}", "not within the window", Tone.WARNING)
    return Cell(format_duration(round(one.back_s.center, 1)), _range_words(one), is_strong=True)


def _range_words(one: Recovery) -> str:
    low = format_duration(round(one.back_s.low, 1))
    if math.isinf(one.back_s.high):
        return f"over {low}"
    return f"{low}–{format_duration(round(one.back_s.high, 1))}"


def _compared(found: Sequence[Recovery]) -> list[Block]:
    """Compare holds of one length with and without a vacuum after them."""
    sentences = [
        _difference(one, other)
        for one in found
        for other in found
        if one.after_release == NOTHING != other.after_release
        and math.isclose(other.held_s, one.held_s, rel_tol=0.05)
    ]
    return [Items(tuple(sentences))] if sentences else []


def _difference(nothing: Recovery, done: Recovery) -> str:
    names = f"{done.rung} against {nothing.rung}"
    what = f"{names}: {done.after_release} after a hold of {format_duration(round(done.held_s))}"
    if min(nothing.trials, done.trials) < 2:  # one trial does not show how much trials differ
        return f"{what} needs 2 replicates or more to compare."
    if done.back_s.high < nothing.back_s.low:
        return f"{what} makes throughput recover sooner."
    if done.back_s.low > nothing.back_s.high:
        return f"{what} makes throughput recover later."
    return f"{what} makes no significant difference."
