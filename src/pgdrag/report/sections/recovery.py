"""How long after the horizon is free again is throughput back?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pgdrag.english import as_sentence
from pgdrag.findings.dose.findings import HorizonFinding, Recovery
from pgdrag.findings.holds.levels import NOTHING
from pgdrag.findings.values import Findings
from pgdrag.report.document import Align, Block, Cell, Column, Items, Paragraph, Table, Tone
from pgdrag.report.sections import Section
from pgdrag.units import format_duration

_READING = (
    "From the release until five seconds on end come to {share} % of what throughput is measured against. Below: the range of "
    "what the trials allow, with what the reference and five seconds are unsure of. Where two ranges don't meet, the "
    "recoveries differ; where they do, these trials don't tell them apart. Not back within the window is a bound, and no number."
)


class RecoverySection(Section):
    """Time from the release of the horizon until throughput is back, with and without vacuum and reindex."""

    name: ClassVar[str] = "recovery"
    summary: ClassVar[str] = "time from the release of the horizon until throughput is back"
    title: ClassVar[str] = "Recovery after the release"
    order: ClassVar[int] = 27
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """A hold ended within its window."""
        return bool(_found(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table, one row a rung, those of one length together."""
        found = _found(findings)
        reading = _READING.format(share=f"{found[0].share * 100:.0f}")
        return (_table(found), *_compared(found), Paragraph(reading, Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return a sentence for each rung."""
        told = (as_sentence(f"{one.rung}: {one.sentence}") for one in _found(findings))
        return (Items(tuple(told)),)


def _found(findings: Findings) -> tuple[Recovery, ...]:
    found = findings.get(HorizonFinding)
    return found.recoveries if found is not None else ()


def _table(found: Sequence[Recovery]) -> Table:
    columns = (
        Column("Rung"),
        Column("Held for", Align.RIGHT),
        Column("Then"),
        Column("Back after", Align.RIGHT),
        Column("Against"),
        Column("Trials", Align.RIGHT),
    )
    rows = tuple(_row(one) for one in sorted(found, key=lambda one: round(one.held_s)))
    return Table("Recovery of each rung", columns, rows)


def _row(one: Recovery) -> tuple[Cell, ...]:
    censored = f"{one.censored} not back" if one.censored else ""
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
        return Cell(f"> {watched}", "not within the window", Tone.DOUBT)
    return Cell(format_duration(round(one.back_s.center, 1)), _range_words(one), is_strong=True)


def _range_words(one: Recovery) -> str:
    low = format_duration(round(one.back_s.low, 1))
    if math.isinf(one.back_s.high):
        return f"over {low}"
    return f"{low}–{format_duration(round(one.back_s.high, 1))}"


def _compared(found: Sequence[Recovery]) -> list[Block]:
    """Say of holds of one length whether what was done after them made a difference."""
    told = []
    for one in found:
        alike = [x for x in found if x.after_release != NOTHING and _is_alike(x, one)]
        if one.after_release == NOTHING:
            told += [_difference(one, other) for other in alike]
    return [Items(tuple(told))] if told else []


def _is_alike(one: Recovery, other: Recovery) -> bool:
    return math.isclose(one.held_s, other.held_s, rel_tol=0.05)


def _difference(nothing: Recovery, done: Recovery) -> str:
    what = f"{done.after_release} after a hold of {format_duration(round(done.held_s))}"
    names = f"({done.rung} against {nothing.rung})"
    # What two trials of one treatment differ by is not in the range of one.
    are_repeated = min(nothing.trials, done.trials) > 1
    if are_repeated and done.back_s.high < nothing.back_s.low:
        return as_sentence(f"{what} brings throughput back sooner {names}")
    if are_repeated and done.back_s.low > nothing.back_s.high:
        return as_sentence(f"{what} brings throughput back later {names}")
    more = "" if are_repeated else ": one trial is no range; run 2 replicates or more"
    return as_sentence(f"whether {what} brings throughput back sooner cannot be told {names}{more}")
