"""How long did transactions take, how did they end, and was it the load driver that was measured?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pgdrag.english import percent_words
from pgdrag.findings.driver_limits import (
    BUSY,
    LATE_SHARE,
    LATE_US,
    DriverFinding,
    DriverThreads,
    busiest_thread_share,
    driver_words,
)
from pgdrag.findings.values import Findings
from pgdrag.model.load import BenchBaseRate, Closed, Open, Pacing
from pgdrag.model.measurement import Arrivals, Generator
from pgdrag.report.cells import NOTHING, time_cell
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Heading,
    Note,
    Paragraph,
    Table,
    Tone,
    header,
    table_of,
)
from pgdrag.report.latency_picture import latency_figure
from pgdrag.report.sections import Section
from pgdrag.units import format_bytes, format_duration, format_rate

_MOST_SHAPES = 8  # of a picture that is not folded


class LatencySection(Section):
    name = "latency"
    summary = "the distribution of latency with its modes, and percentiles by transaction type"
    title = "Latency"
    order = 42
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        return any(one.count for rung in findings.rungs for one in rung.latency.values())

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the picture; folded, one row a rung and type; and what came of arrivals."""
        of_types = [
            (rung.rung.name, kind, latency)
            for rung in findings.rungs
            for kind, latency in rung.latency.items()
            if latency.count
        ]
        kind, meaning = _counted_from(findings.run.study.load.pacing)
        table = table_of(
            f"Latency of committed transactions: {kind}",
            of_types,
            {
                findings.noun_heading: lambda one: Cell(one[0], is_strong=True),
                "Transaction": lambda one: one[1],
                ">Committed": lambda one: f"{one[2].count:,}",
                ">Mean": lambda one: time_cell(one[2].mean_us),
                ">p50": lambda one: time_cell(one[2].p50_us),
                ">p95": lambda one: time_cell(one[2].p95_us),
                ">p99": lambda one: time_cell(one[2].p99_us),
                ">Max": lambda one: time_cell(one[2].max_us),
            },
        )
        of = "Committed transactions of the trial of median throughput. "
        figure = latency_figure(findings)
        pictures: list[Block] = [] if figure is None else [figure]
        if len(findings.rungs) > _MOST_SHAPES:
            pictures = [Details("The distribution on each of them", tuple(pictures))]
        return (
            *pictures,
            Paragraph(of + meaning, Tone.MUTED),
            Details("Percentiles by transaction", (table,)),
            *_arrivals(findings),
        )


def _counted_from(pacing: Pacing) -> tuple[str, str]:
    """Return what the latency is called, and what it counts from."""
    match pacing:
        case Closed():
            return "service time", (
                "Service time: each client waits for an answer before it sends again (closed loop), so time that "
                "work waited to be sent is not included."
            )
        case Open():
            return "response time", (
                "Response time: counted from the moment an arrival was due (open loop), including the wait for a "
                "free client."
            )
        case BenchBaseRate():
            return "without the wait in the queue", (
                "BenchBase's latency: counted from the moment a client took an arrival from the queue; the wait in "
                "the queue is shown separately."
            )


def _arrivals(findings: Findings) -> list[Block]:
    """Return what came of arrivals on each rung, where they came by a schedule."""
    found = [(one.rung.name, one.arrivals) for one in findings.rungs if one.arrivals is not None]
    if not found:
        return []
    lost = {
        "late": "Late: no client free",
        "skipped": "Skipped: over the limit",
        "dropped": "Dropped: queue full",
    }
    seen = {key: x for key, x in lost.items() if any(getattr(one, key) for _, one in found)}
    table = table_of(
        "Arrivals, and their wait for a client",
        found,
        {
            findings.noun_heading: lambda x: Cell(x[0], is_strong=True),
            ">Arrivals": lambda x: f"{x[1].scheduled:,}",
            **{f">{title}": _number_of(key) for key, title in seen.items()},
            ">Wait p50": lambda x: time_cell(x[1].queue_us_p50),
            ">Wait p99": lambda x: time_cell(x[1].queue_us_p99),
            ">Wait max": lambda x: time_cell(x[1].queue_us_max),
            ">Longest queue": lambda x: f"{x[1].max_queue:,}",
        },
    )
    return [table]


def _number_of(key: str) -> Callable[[tuple[str, Arrivals]], Cell | str]:
    return lambda found: f"{getattr(found[1], key):,}"


_WAYS = {
    "scheduled": "Scheduled",
    "committed": "Committed",
    "rolled_back": "Rolled back by design",
    "failed": "Failed",
    "in_flight": "In flight at the end",
    "dropped": "Dropped",
    "skipped": "Skipped",
    "retried": "Retried attempts",
    "over_limit": "Committed over the limit",
}
# Shown only where something came to it: a closed loop drops nothing, and most loads have no limit.
_SELDOM = ("dropped", "skipped", "over_limit")
_ENDS = ("committed", "rolled back by design", "failed", "in flight", "dropped", "skipped")


class CountsSection(Section):
    name = "counts"
    summary = "the ways to end, by treatment, with the identity that they obey, and the errors"
    title = "How transactions ended"
    order = 70

    def applies(self, findings: Findings) -> bool:
        return any(rung.counts is not None for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        rungs = [(one.rung.name, one.counts) for one in findings.rungs if one.counts is not None]
        shown = {
            key: title
            for key, title in _WAYS.items()
            if key not in _SELDOM or any(getattr(counts, key) for _, counts in rungs)
        }
        rows = tuple(
            (Cell(name, is_strong=True), *(Cell(f"{getattr(counts, key):,}") for key in shown))
            for name, counts in rungs
        )
        columns = header(findings.noun_heading, *(f">{title}" for title in shown.values()))
        table = Table(
            f"How transactions ended, over all trials of each {findings.noun}", columns, rows
        )
        unbalanced = [name for name, counts in rungs if not counts.is_balanced]
        return (table, _identity(unbalanced, shown, findings.noun), *_failures(findings))


def _identity(unbalanced: Sequence[str], shown: Collection[str], noun: str) -> Block:
    ends = [end for end in _ENDS if end not in _SELDOM or end in shown]
    identity = f"scheduled = {' + '.join(ends)}"
    if unbalanced:
        text = f"On {', '.join(unbalanced)} this does not hold: {identity}."
        return Note("Counts do not add up", (text,), Tone.BAD)
    return Paragraph(f"On every {noun} {identity}.", Tone.MUTED)


def _failures(findings: Findings) -> list[Block]:
    """Return failures by rung and SQLSTATE, and what each kind of error says."""
    failed = [
        (rung.rung.name, sqlstate, count)
        for rung in findings.rungs
        if rung.counts is not None
        for sqlstate, count in sorted(rung.counts.failed_by_sqlstate.items())
    ]
    by_class = table_of(
        "Failed transactions by error class",
        failed,
        {
            findings.noun_heading: lambda one: Cell(one[0], is_strong=True),
            "SQLSTATE": lambda one: one[1],
            ">Failed": lambda one: f"{one[2]:,}",
        },
    )
    errors = [(rung.rung.name, *error) for rung in findings.rungs for error in rung.errors]
    messages = table_of(
        "Errors, retried ones included",
        errors,
        {
            findings.noun_heading: lambda one: Cell(one[0], is_strong=True),
            "Transaction": lambda one: one[1],
            "SQLSTATE": lambda one: one[2],
            ">Times": lambda one: f"{one[4]:,}",
            "First message": lambda one: one[3],
        },
    )
    return [table for table in (by_class, messages) if table.rows]


_SUSPECT = Cell("yes", tone=Tone.WARNING)


class DriverSection(Section):
    name = "driver"
    summary = "the load driver's processor time and delays, by treatment"
    title = "The load driver itself"
    order = 72
    finding_type = DriverFinding

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one row a rung, and the rule by which the driver is suspect."""
        found = findings.by_rung(DriverFinding).items()
        late, busy = percent_words(LATE_SHARE), percent_words(BUSY)
        reading = (
            f"Of the trial of each {findings.noun} in which the driver was busiest. The driver is suspect if one of its threads "
            f"used more than {busy} of a processor; if 1 % of arrivals began more than "
            f"{format_duration(LATE_US / 1e6)}, or {late} of the median latency, late although a "
            f"client was free; if 1 % of answers waited more than {late} of the median latency for "
            "the driver; or if it stalled for longer than an interval. The number stays, with a warning."
        )
        table = table_of(
            "What the load driver used",
            found,
            {
                findings.noun_heading: lambda x: Cell(x[0], is_strong=True),
                ">Processor": lambda x: percent_words(x[1].cpu_share),
                ">Busiest thread": lambda x: percent_words(x[1].busiest_share),
                ">Per transaction": lambda x: time_cell(x[1].cpu_us_per_transaction),
                ">Send lag p99": lambda x: time_cell(x[1].cost.send_lag_us_p99),
                ">Behind schedule p99": lambda x: time_cell(x[1].cost.lateness_us_p99),
                ">Longest stall": lambda x: time_cell(x[1].cost.stall_us_max),
                ">Memory": lambda x: (
                    NOTHING if (size := x[1].cost.max_rss_bytes) is None else format_bytes(size)
                ),
                "Suspect": lambda x: _SUSPECT if x[1].is_suspect else Cell("no", tone=Tone.GOOD),
            },
        )
        chosen = findings.get(DriverThreads)
        threads = [Paragraph(f"Chosen at the start of the run: {chosen.words}.")] if chosen else []
        return (Paragraph(reading, Tone.MUTED), *threads, table, *_generators(findings))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return one line: the rung on which the driver was busiest; and what each of several generators did."""
        found = findings.by_rung(DriverFinding)
        name = max(found, key=lambda one: found[one].busiest_share)
        words = f"at most {driver_words(found[name])}"
        if len(found) > 1:
            words += f" (on {name})"
        if (chosen := findings.get(DriverThreads)) is not None:
            words += f"; chosen at the start: {chosen.words}"
        return (Heading("Load driver:", words), *_generators(findings, only=name))


def _generators(findings: Findings, only: str | None = None) -> Sequence[Block]:
    """Return a table with a row for each of several load generators; none where there is one driver."""
    rows = [
        (name, one, found)
        for name, found in findings.by_rung(DriverFinding).items()
        for one in found.generators
        if only in (None, name)
    ]
    if not rows:
        return ()
    columns: dict[str, Callable[[tuple[str, Generator, DriverFinding]], Cell | str]] = {}
    if only is None:
        columns[findings.noun_heading] = lambda x: Cell(x[0], is_strong=True)
    table = table_of(
        "Load generators: each of them alone must not be the bottleneck",
        rows,
        columns
        | {
            "Generator": lambda x: x[1].name.removeprefix("generator "),
            ">Clients": lambda x: f"{x[1].clients:,}",
            ">Committed": lambda x: format_rate(x[1].committed_per_s),
            ">Share": lambda x: percent_words(_share(x[1], x[2])),
            ">CPU": lambda x: percent_words(
                (x[1].driver.user_cpu_s + x[1].driver.system_cpu_s) / x[1].elapsed_s
            ),
            ">Busiest thread": lambda x: percent_words(
                busiest_thread_share(x[1].driver, x[1].elapsed_s)
            ),
            ">Send lag p99": lambda x: time_cell(x[1].driver.send_lag_us_p99),
            ">Late p99": lambda x: time_cell(x[1].driver.lateness_us_p99),
            ">Stall": lambda x: time_cell(x[1].driver.stall_us_max),
            ">Clock": lambda x: f"±{format_duration(x[1].clock_uncertainty_s)}",
        },
    )
    return (table,)


def _share(one: Generator, found: DriverFinding) -> float:
    """Return which share of all commits was one generator's."""
    return one.committed / max(sum(x.committed for x in found.generators), 1)
