"""How long did transactions take?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.findings.values import Findings
from pgdrag.model.load import BenchBaseRate, Closed, Open, Pacing
from pgdrag.model.measurement import Latency
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import Align, Block, Cell, Column, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section
from pgdrag.units import format_duration


class LatencySection(Section):
    """Percentiles by rung and transaction type."""

    name = "latency"
    summary = "percentiles by rung and transaction type"
    title = "Latency"
    order = 60

    def applies(self, findings: Findings) -> bool:
        """Something committed somewhere."""
        return any(one.count for rung in findings.rungs for one in rung.latency.values())

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one row a rung and type, and what the numbers count from."""
        numbers = ("Committed", "Mean", "p50", "p95", "p99", "Max")
        columns = header("Rung", "Transaction", *(f">{title}" for title in numbers))
        rows = tuple(
            (Cell(rung.rung.name, is_strong=True), Cell(kind), *_cells(latency))
            for rung in findings.rungs
            for kind, latency in rung.latency.items()
            if latency.count
        )
        kind = _kind(findings.run.study.load.pacing)
        table = Table(f"Latency of committed transactions: {kind}", columns, rows)
        return (Paragraph(_meaning(findings), Tone.MUTED), table, *_arrivals(findings))


def _cells(latency: Latency) -> tuple[Cell, ...]:
    times = (latency.mean_us, latency.p50_us, latency.p95_us, latency.p99_us, latency.max_us)
    return (Cell(f"{latency.count:,}"), *(Cell(format_duration(us / 1e6)) for us in times))


def _meaning(findings: Findings) -> str:
    of = "Committed transactions of the trial of median throughput. "
    match findings.run.study.load.pacing:
        case Closed():
            return of + (
                "Service time: each client waits for an answer before it sends again (closed loop), so time that "
                "work waited to be sent is not included."
            )
        case Open():
            return of + (
                "Response time: counted from the moment an arrival was due (open loop), including the wait for a "
                "free client."
            )
        case BenchBaseRate():
            return of + (
                "BenchBase's latency: counted from the moment a client took an arrival from the queue; the wait in "
                "the queue is shown separately."
            )


def _kind(pacing: Pacing) -> str:
    match pacing:
        case Closed():
            return "service time"
        case Open():
            return "response time"
        case BenchBaseRate():
            return "without the wait in the queue"


def _arrivals(findings: Findings) -> list[Block]:
    """Return what came of arrivals on each rung, where they came by a schedule."""
    found = [(one.rung.name, one.arrivals) for one in findings.rungs if one.arrivals is not None]
    if not found:
        return []
    columns = [Column("Rung")]
    rows = [[Cell(name, is_strong=True)] for name, _ in found]

    def add(title: str, cells: list[Cell]) -> None:
        columns.append(Column(title, Align.RIGHT))
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)

    def add_if_any(title: str, numbers: list[int]) -> None:
        if any(numbers):
            add(title, [Cell(f"{number:,}") for number in numbers])

    add("Arrivals", [Cell(f"{one.scheduled:,}") for _, one in found])
    add_if_any("Late: no client free", [one.late for _, one in found])
    add_if_any("Skipped: over the limit", [one.skipped for _, one in found])
    add_if_any("Dropped: queue full", [one.dropped for _, one in found])
    add("Wait p50", [_wait_cell(one.queue_us_p50) for _, one in found])
    add("Wait p99", [_wait_cell(one.queue_us_p99) for _, one in found])
    add("Wait max", [_wait_cell(one.queue_us_max) for _, one in found])
    add("Longest queue", [Cell(f"{one.max_queue:,}") for _, one in found])
    title = "Arrivals, and their wait for a client"
    return [Table(title, tuple(columns), tuple(map(tuple, rows)))]


def _wait_cell(wait_us: float | None) -> Cell:
    return NOTHING if wait_us is None else Cell(format_duration(wait_us / 1e6))
