"""How did the transactions end? Committed, rolled back by design, failed, in flight, dropped, skipped."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pgdrag.findings.values import Findings
from pgdrag.report.document import Block, Cell, Note, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section

_WAYS = (
    ("scheduled", "Scheduled"),
    ("committed", "Committed"),
    ("rolled_back", "Rolled back by design"),
    ("failed", "Failed"),
    ("in_flight", "In flight at the end"),
    ("dropped", "Dropped"),
    ("skipped", "Skipped"),
    ("retried", "Retried attempts"),
    ("over_limit", "Committed over the limit"),
)
# Shown only where something came to it: a closed loop drops nothing, and most loads have no limit.
_SELDOM = ("dropped", "skipped", "over_limit")
_ENDS = ("committed", "rolled back by design", "failed", "in flight", "dropped", "skipped")


class CountsSection(Section):
    """The ways to end, by rung, with the identity that they obey, and the errors."""

    name = "counts"
    summary = "the ways to end, by rung, with the identity that they obey, and the errors"
    title = "How transactions ended"
    order = 70

    def applies(self, findings: Findings) -> bool:
        """A window was measured."""
        return any(rung.counts is not None for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table, the identity, and the failures by class."""
        counted = [(one.rung.name, one.counts) for one in findings.rungs if one.counts is not None]
        shown = [
            (key, title)
            for key, title in _WAYS
            if key not in _SELDOM or any(getattr(counts, key) for _, counts in counted)
        ]
        rows = tuple(
            (Cell(name, is_strong=True), *(Cell(f"{getattr(counts, key):,}") for key, _ in shown))
            for name, counts in counted
        )
        columns = header("Rung", *(f">{title}" for _, title in shown))
        table = Table("How transactions ended, over all trials of a rung", columns, rows)
        unbalanced = [name for name, counts in counted if not counts.is_balanced]
        identity = _identity(unbalanced, {key for key, _ in shown})
        return (table, identity, *_failures(findings), *_errors(findings))


def _identity(unbalanced: Sequence[str], shown: Collection[str]) -> Block:
    ends = [end for end in _ENDS if end not in _SELDOM or end in shown]
    identity = f"scheduled = {' + '.join(ends)}"
    if unbalanced:
        text = f"On {', '.join(unbalanced)} this does not hold: {identity}."
        return Note("Counts do not add up", (text,), Tone.BAD)
    return Paragraph(f"On every rung {identity}.", Tone.MUTED)


def _failures(findings: Findings) -> list[Block]:
    """Return failures by SQLSTATE, one row a rung and class."""
    rows = tuple(
        (Cell(rung.rung.name, is_strong=True), Cell(sqlstate), Cell(f"{count:,}"))
        for rung in findings.rungs
        if rung.counts is not None
        for sqlstate, count in sorted(rung.counts.failed_by_sqlstate.items())
    )
    columns = header("Rung", "SQLSTATE", ">Failed")
    return [Table("Failed transactions by error class", columns, rows)] if rows else []


def _errors(findings: Findings) -> list[Block]:
    rows = tuple(
        (Cell(rung.rung.name, is_strong=True), Cell(kind), Cell(state), Cell(f"{n:,}"), Cell(text))
        for rung in findings.rungs
        for kind, state, text, n in rung.errors
    )
    columns = header("Rung", "Transaction", "SQLSTATE", ">Times", "First message")
    return [Table("Errors, retried ones included", columns, rows)] if rows else []
