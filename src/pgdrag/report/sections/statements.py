"""Which statements take the time? For each transaction, before and after, what added most time first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdrag.findings.statement_diff import StatementChange, StatementShare, statement_changes
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.recordings import StatementUse
from pgdrag.report.cells import NOTHING, committed_in_middle
from pgdrag.report.document import (
    Block,
    Cell,
    Heading,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.sections import Section
from pgdrag.report.sections.plans import statement_words
from pgdrag.units import format_bytes, format_duration, format_number

MOST_SHOWN = 15


class StatementsSection(Section):
    """pg_stat_statements, as differences between rungs."""

    name = "statements"
    summary = "time, blocks and WAL of each statement per transaction, against before"
    title = "Statements"
    order = 46

    def applies(self, findings: Findings) -> bool:
        """pg_stat_statements was loaded somewhere."""
        return any(rung.recordings.of(StatementUse) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return a table a rung."""
        by_name = {rung.rung.name: rung for rung in findings.rungs}
        intro = Paragraph(
            "Per committed transaction, in the trial of median throughput; before → after where the rung before has "
            "the statement. Time is execution time, plus planning time where that is tracked.",
            Tone.MUTED,
        )
        rungs = [rung for rung in findings.rungs if rung.recordings.of(StatementUse)]
        tables = [x for rung in rungs for x in _rung(findings, rung, by_name.get(rung.previous))]
        return (intro, *tables)


def _rung(
    findings: Findings, rung: TreatmentFinding, previous: TreatmentFinding | None
) -> Iterator[Block]:
    has_before = previous is not None and bool(previous.recordings.of(StatementUse))
    changes = statement_changes(
        previous.recordings.of(StatementUse) if previous is not None else (),
        committed_in_middle(findings, previous) if previous is not None else 0,
        rung.recordings.of(StatementUse),
        committed_in_middle(findings, rung),
    )
    against = f"against {rung.previous}" if has_before else ""
    yield Heading(rung.rung.heading, against)
    titles = ("Time", "Added", "Calls", "Blocks", "Blocks read", "WAL")
    columns = header("Statement", *(f">{title}" for title in titles))
    rows = tuple(_row(change, has_before=has_before) for change in changes[:MOST_SHOWN])
    yield Table(f"Statements on {rung.rung.name}, per transaction", columns, rows)
    if len(changes) > MOST_SHOWN:
        verb = "added" if has_before else "took"
        yield Paragraph(f"{len(changes) - MOST_SHOWN} more statements {verb} less.", Tone.MUTED)


def _row(change: StatementChange, *, has_before: bool) -> tuple[Cell, ...]:
    def both(of: str) -> Cell:
        pair = [change.before, change.after] if has_before else [change.after]
        return Cell(" → ".join(_value(share, of) for share in pair))

    sign = "−" if change.added_s < 0 else "+"
    added = Cell(f"{sign}{format_duration(abs(change.added_s))}") if has_before else NOTHING
    values = (both(of) for of in ("calls", "blocks", "blocks_read", "wal_bytes"))
    return (Cell(statement_words(change.query)), both("time_s"), added, *values)


def _value(share: StatementShare | None, of: str) -> str:
    if share is None:
        return "–"
    value = getattr(share, of)
    if of == "time_s":
        return format_duration(value)
    return format_bytes(value) if of == "wal_bytes" else format_number(value)
