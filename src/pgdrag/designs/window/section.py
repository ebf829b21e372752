"""What did one measured window count? Rates and percentiles by transaction, and every other way to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pgdrag.designs.window.findings import WindowFinding, measured_window
from pgdrag.english import percent_words
from pgdrag.findings.values import Findings, NamedRate
from pgdrag.model import Arrivals, Latency, Measurement
from pgdrag.model.load import Closed, LoadProfile, Open
from pgdrag.model.measurement import Statement
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import (
    Align,
    Block,
    Cell,
    Column,
    KeyValues,
    Note,
    Paragraph,
    Table,
    Tone,
)
from pgdrag.report.sections import Section, found_of
from pgdrag.report.sections.answer import rung_warnings
from pgdrag.units import format_duration, format_number, format_rate

ONE_WINDOW = (
    "The interval covers this one window on this one server, not the variation between runs."
)
LONGEST_STATEMENT = 60  # characters shown of a statement


class WindowSection(Section):
    """Rates and percentiles by transaction, other ways to end, arrivals, statements and connections."""

    name: ClassVar[str] = "window"
    summary: ClassVar[str] = "one measured window: rates and percentiles by transaction"
    title: ClassVar[str] = "The measured window"
    order: ClassVar[int] = 17
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """A window was measured, and nothing is compared."""
        found = findings.found
        return isinstance(found, WindowFinding) and found.committed_per_s is not None

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the load, what was counted, and warnings."""
        return (*_blocks(findings), *rung_warnings(findings))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the same and notes; the evidence section prints the warnings."""
        notes = findings.run.study.notes
        return (
            *_blocks(findings),
            *([Note("Notes", notes)] if notes else []),
        )


def _blocks(findings: Findings) -> Iterator[Block]:
    found = found_of(findings, WindowFinding)
    window = measured_window(findings.run)
    assert window is not None, "see applies"
    result, measured = window
    load = result.trial.load
    for named in findings.by_rung(NamedRate).values():
        yield Paragraph(f"{format_number(named.per_min.center)} {named.label}")
    yield Paragraph(load_words(load, result.trial.seed), Tone.MUTED)
    if measured.total.committed:
        yield Paragraph(ONE_WINDOW, Tone.MUTED)
    yield _transactions(measured)
    yield Paragraph(_MEANINGS[found.latency_counts_from], Tone.MUTED)
    yield from _other_ends(measured)
    if found.statements:
        yield _statements(found.statements)
    if measured.arrivals is not None:
        yield _arrivals(measured.arrivals)
    if found.connecting is not None:
        yield _connecting(found.connecting, load)
    yield from _failures(measured)


def load_words(load: LoadProfile, seed: int) -> str:
    """Return `8 clients, closed loop; 20 s after 5 s of warm-up; seed 42`."""
    pacing = load.pacing
    match pacing:
        case Closed():
            pace = "closed loop"
        case Open():
            kind = "Poisson" if pacing.arrivals == "poisson" else "uniform"
            pace = f"{format_number(pacing.rate_per_s)} {kind} arrivals/s"
        case _:
            pace = f"BenchBase's rate limit of {format_rate(pacing.rate_per_s)}"
    clients = "1 client" if load.connections == 1 else f"{load.connections:,} clients"
    if load.steps:
        clients = f"{load.steps[0].sessions} to {load.steps[-1].sessions} of {clients}"
    sessions = ", a new connection for each transaction" if load.reconnect else ""
    threads = f" on {load.threads} threads" if load.threads > 1 else ""
    window = format_duration(load.measure_s)
    if load.transactions is not None:
        each = "" if load.connections == 1 else " a client"
        window = f"{load.transactions:,} transaction{'s' * (load.transactions > 1)}{each}"
    warm_up = f" after {format_duration(load.warm_up_s)} of warm-up" if load.warm_up_s else ""
    return f"{clients}{threads}{sessions}, {pace}; {window}{warm_up}; seed {seed}"


def _transactions(measured: Measurement) -> Block:
    numbers = ("Committed", "/s", "Mean", "p50", "p95", "p99", "Max")
    columns = (Column("Transaction"), *(Column(title, Align.RIGHT) for title in numbers))
    rows = tuple(
        (
            Cell(name, is_strong=True),
            Cell(f"{counts.committed:,}"),
            Cell(format_number(counts.committed / measured.elapsed_s)),
            *_latency_cells(measured.latency.get(name)),
        )
        for name, counts in measured.transactions.items()
    )
    return Table("Transactions by type", columns, rows)


def _latency_cells(latency: Latency | None) -> tuple[Cell, ...]:
    if latency is None or not latency.count:
        return (NOTHING,) * 5
    times = (latency.mean_us, latency.p50_us, latency.p95_us, latency.p99_us, latency.max_us)
    return tuple(Cell(format_duration(us / 1e6)) for us in times)


# Every way to end other than a commit within the limit.
_OTHER_ENDS = (
    ("rolled_back", "Rolled back by design"),
    ("failed", "Failed"),
    ("retried", "Retried attempts"),
    ("over_limit", "Over the limit"),
    ("skipped", "Skipped"),
    ("dropped", "Dropped"),
)


def _other_ends(measured: Measurement) -> Iterator[Block]:
    """Return a column for each of these ways that some transaction took, if any."""
    types = measured.transactions
    shown = [x for x in _OTHER_ENDS if any(getattr(counts, x[0]) for counts in types.values())]
    if not shown:
        return
    columns = (Column("Transaction"), *(Column(title, Align.RIGHT) for _, title in shown))
    rows = tuple(
        (Cell(name, is_strong=True), *(Cell(f"{getattr(counts, key):,}") for key, _ in shown))
        for name, counts in types.items()
    )
    yield Table("Other ways to end", columns, rows)


_MEANINGS = {
    "begin": "Latency is service time: each client waits for its answer before it sends the next request, so "
    "work that was never sent does not count.",
    "due": "Latency is response time: it counts from when an arrival was due, so it includes the wait for a "
    "free client.",
    "taken": "Latency counts from when a client took an arrival from the queue.",
}


def _arrivals(arrivals: Arrivals) -> Block:
    pairs = [("Arrivals", Cell(f"{arrivals.scheduled:,}"))]
    for title, count, meaning in (
        ("Late", arrivals.late, "no client was free when they were due"),
        ("Skipped", arrivals.skipped, "over the latency limit before a client was free"),
        ("Dropped", arrivals.dropped, "too many were waiting"),
    ):
        if count:
            share = count / max(1, arrivals.scheduled)
            pairs.append((title, Cell(f"{count:,} ({_share_words(share)}): {meaning}")))
    waits = [
        f"{name} {format_duration(us / 1e6)}"
        for name, us in (("p50", arrivals.queue_us_p50), ("p99", arrivals.queue_us_p99), ("max", arrivals.queue_us_max))
        if us is not None
    ]  # fmt: skip
    if waits:
        longest = f"; at most {arrivals.max_queue:,} at once" if arrivals.max_queue else ""
        pairs.append(("Wait until started", Cell(", ".join(waits) + longest)))
    return KeyValues(tuple(pairs))


def _statements(statements: Sequence[Statement]) -> Block:
    shown = [x for x in ("failed", "retried") if any(getattr(one, x) for one in statements)]
    titles = ("Line", "Executed", "Mean", *(x.capitalize() for x in shown))
    columns = (
        Column("Transaction"),
        *(Column(title, Align.RIGHT) for title in titles),
        Column("Statement"),
    )
    rows = tuple(
        (
            Cell(one.transaction, is_strong=True),
            Cell(str(one.line)),
            Cell(f"{one.succeeded:,}"),
            NOTHING if one.mean_us is None else Cell(format_duration(one.mean_us / 1e6)),
            *(Cell(f"{getattr(one, key):,}") for key in shown),
            Cell(_shortened(one.text)),
        )
        for one in statements
    )
    return Table("Latency of each statement", columns, rows)


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST_STATEMENT else f"{words[: LONGEST_STATEMENT - 1]}…"


def _connecting(connecting: Latency, load: LoadProfile) -> Block:
    if not connecting.count:
        return KeyValues((("Connecting", Cell("no connection was opened in the window")),))
    times = ", ".join(
        f"{name} {format_duration(us / 1e6)}"
        for name, us in (("mean", connecting.mean_us), ("p50", connecting.p50_us), ("p99", connecting.p99_us), ("max", connecting.max_us))
    )  # fmt: skip
    where = "included" if isinstance(load.pacing, Open) else "not included"
    words = (
        f"{times}; {connecting.count:,} connections; {where} in the latency, included in the rate"
    )
    return KeyValues((("Connecting", Cell(words)),))


def _failures(measured: Measurement) -> Iterator[Block]:
    total = measured.total
    if not total.failed:
        return
    by_state = {state: text for _, state, text, _ in reversed(measured.errors)}
    classes = [
        f"{count:,} × {state}" + (f": {by_state[state]}" if state in by_state else "")
        for state, count in sorted(total.failed_by_sqlstate.items(), key=lambda x: -x[1])
    ]
    share = total.failed / max(1, total.scheduled)
    title = f"{total.failed:,} transactions failed ({_share_words(share)} of those started)"
    yield Note(title, tuple(classes), Tone.BAD)


def _share_words(share: float) -> str:
    """Return `83 %` or `0.04 %`: a small share must not read as zero."""
    return (
        percent_words(share) if share >= 0.1 else f"{format_number(share * 100, significant=2)} %"
    )
