"""How long did transactions take?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.analysis.findings import Findings
from pgdrag.plan import Latency
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import Align, Block, Cell, Column, Paragraph, Table, Tone
from pgdrag.report.sections import Section
from pgdrag.units import format_duration


class LatencySection(Section):
    """Percentiles by rung and transaction type."""

    name: ClassVar[str] = "latency"
    summary: ClassVar[str] = "percentiles by rung and transaction type"
    title: ClassVar[str] = "Latency"
    order: ClassVar[int] = 60

    def applies(self, findings: Findings) -> bool:
        """Something committed somewhere."""
        return any(one.count for rung in findings.rungs for one in rung.latency.values())

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one row a rung and type, and what the numbers count from."""
        numbers = ("Committed", "Mean", "p50", "p95", "p99", "Max")
        columns = (
            Column("Rung"),
            Column("Transaction"),
            *(Column(title, Align.RIGHT) for title in numbers),
        )
        rows = tuple(
            (Cell(rung.rung.name, is_strong=True), Cell(kind), *_cells(latency))
            for rung in findings.rungs
            for kind, latency in rung.latency.items()
            if latency.count
        )
        table = Table("Latency of committed transactions", columns, rows)
        return (Paragraph(_meaning(findings), Tone.MUTED), table, *_queues(findings))


def _cells(latency: Latency) -> tuple[Cell, ...]:
    times = (latency.mean_us, latency.p50_us, latency.p95_us, latency.p99_us, latency.max_us)
    return (Cell(f"{latency.count:,}"), *(Cell(format_duration(us / 1e6)) for us in times))


def _meaning(findings: Findings) -> str:
    of = "Committed transactions of the trial in the middle by throughput. "
    if findings.run.study.load.rate_per_s is None:
        return of + (
            "Service time: each client waits for its answer before it asks again (closed loop), so "
            "the wait of work that was never sent is not in it."
        )
    return of + (
        "Counted from the start of the first attempt: the wait of an arrival for a free client (open "
        "loop) is not in it and stands apart."
    )


def _queues(findings: Findings) -> list[Block]:
    """Return how long arrivals waited for a client, where they came at a rate."""
    rows = tuple(
        (
            Cell(rung.rung.name, is_strong=True),
            _wait_cell(rung.queue_us_p99),
            NOTHING if rung.max_queue is None else Cell(f"{rung.max_queue:,}"),
        )
        for rung in findings.rungs
        if rung.queue_us_p99 is not None or rung.max_queue is not None
    )
    columns = (
        Column("Rung"),
        Column("Wait before the first attempt, p99", Align.RIGHT),
        Column("Longest queue", Align.RIGHT),
    )
    title = "Wait of arrivals before their first attempt"
    return [Table(title, columns, rows)] if rows else []


def _wait_cell(wait_us: float | None) -> Cell:
    return NOTHING if wait_us is None else Cell(format_duration(wait_us / 1e6))
