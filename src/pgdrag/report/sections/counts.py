"""How did the transactions end? Committed, rolled back by design, failed, in flight, dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.analysis.findings import Findings
from pgdrag.plan import Counts
from pgdrag.report.document import Align, Block, Cell, Column, Note, Paragraph, Table, Tone
from pgdrag.report.sections import Section

_IDENTITY = "scheduled = committed + rolled back by design + failed + in flight + dropped"
_TITLES = (
    "Scheduled",
    "Committed",
    "Rolled back by design",
    "Failed",
    "In flight at the end",
    "Dropped",
    "Retried attempts",
)


class CountsSection(Section):
    """The ways to end, by rung, with the identity that they obey, and the errors."""

    name: ClassVar[str] = "counts"
    summary: ClassVar[str] = (
        "the ways to end, by rung, with the identity that they obey, and the errors"
    )
    title: ClassVar[str] = "How transactions ended"
    order: ClassVar[int] = 70

    def applies(self, findings: Findings) -> bool:
        """A window was measured."""
        return any(rung.counts is not None for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table, the identity, and the failures by class."""
        counted = [(one.rung.name, one.counts) for one in findings.rungs if one.counts is not None]
        rows = tuple(
            (Cell(name, is_strong=True), *(Cell(f"{n:,}") for n in _numbers(counts)))
            for name, counts in counted
        )
        columns = (Column("Rung"), *(Column(title, Align.RIGHT) for title in _TITLES))
        table = Table("How transactions ended, over all trials of a rung", columns, rows)
        unbalanced = [name for name, counts in counted if not counts.is_balanced]
        return (table, _identity(unbalanced), *_failures(findings), *_errors(findings))


def _numbers(counts: Counts) -> tuple[int, ...]:
    return (
        counts.scheduled,
        counts.committed,
        counts.rolled_back,
        counts.failed,
        counts.in_flight,
        counts.dropped,
        counts.retried,
    )


def _identity(unbalanced: Sequence[str]) -> Block:
    if unbalanced:
        text = f"On {', '.join(unbalanced)} this does not hold: {_IDENTITY}."
        return Note("Counts do not add up", (text,), Tone.BAD)
    return Paragraph(f"On every rung {_IDENTITY}.", Tone.MUTED)


def _failures(findings: Findings) -> list[Block]:
    """Return failures by SQLSTATE, one row a rung and class."""
    rows = tuple(
        (Cell(rung.rung.name, is_strong=True), Cell(sqlstate), Cell(f"{count:,}"))
        for rung in findings.rungs
        if rung.counts is not None
        for sqlstate, count in sorted(rung.counts.failed_by_sqlstate.items())
    )
    columns = (Column("Rung"), Column("SQLSTATE"), Column("Failed", Align.RIGHT))
    return [Table("Failed transactions by error class", columns, rows)] if rows else []


def _errors(findings: Findings) -> list[Block]:
    rows = tuple(
        (Cell(rung.rung.name, is_strong=True), Cell(kind), Cell(state), Cell(f"{n:,}"), Cell(text))
        for rung in findings.rungs
        for kind, state, text, n in rung.errors
    )
    columns = (
        Column("Rung"),
        Column("Transaction"),
        Column("SQLSTATE"),
        Column("Times", Align.RIGHT),
        Column("First message"),
    )
    return [Table("Errors, retried ones included", columns, rows)] if rows else []
