"""Was it the load driver that was measured? What it used on each rung, and how late it was."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import percent_words
from pgdrag.findings.driver_limits import BUSY, LATE_SHARE, LATE_US, DriverFinding, driver_words
from pgdrag.findings.values import Findings
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import Block, Cell, Heading, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section
from pgdrag.units import format_bytes, format_duration


class DriverSection(Section):
    """The load driver's processor time and delays, by rung: why it was not the bottleneck."""

    name = "driver"
    summary = "the load driver's processor time and delays, by rung"
    title = "The load driver itself"
    order = 42
    finding_type = DriverFinding

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one row a rung, and the rule by which the driver is suspect."""
        return (Paragraph(_reading(), Tone.MUTED), _table(_found(findings)))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return one line: the rung on which the driver was busiest."""
        name, found = max(_found(findings), key=lambda pair: pair[1].busiest_share)
        return (Heading("Load driver:", f"at most {driver_words(found)} (on {name})"),)


def _found(findings: Findings) -> list[tuple[str, DriverFinding]]:
    return list(findings.by_rung(DriverFinding).items())


def _reading() -> str:
    return (
        "Of the trial of each rung in which the driver was busiest. The driver is suspect if one of its threads "
        f"used more than {percent_words(BUSY)} of a processor; if 1 % of arrivals began more than "
        f"{format_duration(LATE_US / 1e6)}, or {percent_words(LATE_SHARE)} of the median latency, late although a "
        f"client was free; if 1 % of answers waited more than {percent_words(LATE_SHARE)} of the median latency for "
        "the driver; or if it stalled for longer than an interval. The rung keeps its number, with a warning."
    )


def _table(found: Sequence[tuple[str, DriverFinding]]) -> Table:
    columns = header(
        *("Rung", ">Processor", ">Busiest thread", ">Per transaction", ">Send lag p99"),
        *(">Behind schedule p99", ">Longest stall", ">Memory", "Suspect"),
    )
    rows = tuple(_row(name, one) for name, one in found)
    return Table("What the load driver used", columns, rows)


def _row(name: str, found: DriverFinding) -> tuple[Cell, ...]:
    cost, per_transaction_us = found.cost, found.cpu_us_per_transaction
    memory = NOTHING if cost.max_rss_bytes is None else Cell(format_bytes(cost.max_rss_bytes))
    suspect = Cell("yes", tone=Tone.WARNING) if found.is_suspect else Cell("no", tone=Tone.GOOD)
    return (
        Cell(name, is_strong=True),
        Cell(percent_words(found.cpu_share)),
        Cell(percent_words(found.busiest_share)),
        _time_cell(per_transaction_us),
        _time_cell(cost.send_lag_us_p99),
        _time_cell(cost.lateness_us_p99),
        _time_cell(cost.stall_us_max),
        memory,
        suspect,
    )


def _time_cell(value_us: float | None) -> Cell:
    return NOTHING if value_us is None else Cell(format_duration(value_us / 1e6))
