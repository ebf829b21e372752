"""How does one load run on one server as it is? One treatment, once: `pgdrag bench` and `pgdrag tpcc run`.

Nothing is compared: the report has rates and percentiles by transaction, and every other way to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pgdrag.designs import OneBlock
from pgdrag.english import counted, cut, percent_words
from pgdrag.findings.combine import RungTrials, rate_of
from pgdrag.findings.decay.findings import DecayFinding, way_words
from pgdrag.findings.decay.together import finding_of as decay_finding
from pgdrag.findings.decay.together import rung_decay
from pgdrag.findings.values import DesignFinding, Findings, Interval, NamedRate
from pgdrag.model import Arrivals, Block, Latency, Measurement, Result, RunRecord
from pgdrag.model.load import Closed, LoadProfile, Open
from pgdrag.model.measurement import Statement
from pgdrag.report import document
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import Cell, KeyValues, Note, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section, found_of
from pgdrag.stats.rates import DRIFT_MATTERS, rate_interval
from pgdrag.units import format_duration, format_number, format_rate

_LONGEST_STATEMENT = 60  # characters shown of a statement


@dataclass(frozen=True)
class WindowFinding(DesignFinding):
    """What one measured window showed.

    Attributes:
        committed_per_s: over the whole window; its interval does not cover variation between runs.
            None where no window was measured.
        latency_counts_from: when a transaction's latency starts: when it begins, when its arrival is
            due, or when a client takes the arrival from the queue.
        connecting: time to connect; None unless each transaction has its own connection.
        statements: latency of each statement of the scripts, where that was measured.
    """

    has_rungs: ClassVar[bool] = False

    committed_per_s: Interval | None
    latency_counts_from: Literal["begin", "due", "taken"]
    connecting: Latency | None
    statements: tuple[Statement, ...]


class Window(OneBlock):
    """The first rung, once; nothing is compared."""

    name = "window"
    summary = "one treatment, once: what one measured window shows"

    def block(self) -> Block:
        return Block((self.rungs[0].treatment,))

    def find(self, run: RunRecord) -> WindowFinding:
        load = run.study.load
        counts_from: Literal["begin", "due", "taken"] = "taken"
        if isinstance(load.pacing, (Closed, Open)):
            counts_from = "begin" if isinstance(load.pacing, Closed) else "due"
        window = _measured_window(run)
        if window is None:
            return WindowFinding("No window was measured.", (), None, counts_from, None, ())
        result, measured = window
        rate = rate_interval(rate_of(result, measured))
        # A trend large enough that the mean describes no moment of the window.
        decay = rung_decay(RungTrials(run.study.rungs[0], (result,)))
        drift = None if decay is None or not decay.has_trend else decay_finding(decay)
        if drift is not None and abs(drift.change.center - 1) < DRIFT_MATTERS:
            drift = None
        warnings = []
        if drift is not None:
            warnings.append("throughput was not steady: warm up longer")
        if measured.stopped_by == "clients":
            warnings.append("the run ended early: no client could continue")
        elif load.transactions is not None and measured.stopped_by == "deadline":
            warnings.append("the run ended before each client had run its transactions")
        return WindowFinding(
            _answer(rate, drift, measured),
            (*warnings, *rate.warnings),
            rate,
            counts_from,
            measured.connecting,
            tuple(measured.statements),
        )


def _measured_window(run: RunRecord) -> tuple[Result, Measurement] | None:
    """Return the run's first trial with a measured window of any length; None if there is none."""
    for result in run.results if run.study.rungs else ():
        if result.measurement is not None and result.measurement.elapsed_s > 0:
            return result, result.measurement
    return None


def _answer(rate: Interval, drift: DecayFinding | None, measured: Measurement) -> str:
    length = format_duration(measured.elapsed_s)
    if not rate.center:
        return f"Nothing was committed in {length}."
    counted = f"{measured.total.committed:,} in {length}"
    if drift is None:
        interval = f"{format_number(rate.low)}–{format_number(rate.high)}"
        confidence = percent_words(rate.confidence)
        return (
            f"{format_rate(rate.center)} committed ({confidence} interval {interval}): {counted}."
        )
    change = drift.change
    low, center, high = (
        format_number(x, significant=2) for x in (change.low, change.center, change.high)
    )
    return (
        f"{way_words(drift)} committed, {drift.direction} (× {center}, "
        f"{percent_words(change.confidence)} interval {low}–{high}; "
        f"{format_rate(rate.center)} on average): {counted}."
    )


class WindowSection(Section):
    """Rates and percentiles by transaction, other ways to end, arrivals, statements and connections."""

    name = "window"
    summary = "one measured window: rates and percentiles by transaction"
    title = "The measured window"
    order = 17
    is_folded = False
    finding_type = WindowFinding
    needs = "committed_per_s"

    def blocks(self, findings: Findings) -> Sequence[document.Block]:
        return tuple(_blocks(findings))

    def brief(self, findings: Findings) -> Sequence[document.Block]:
        """Return the same and notes; the evidence section prints the warnings."""
        notes = findings.run.study.notes
        return (*_blocks(findings), *([Note("Notes", notes)] if notes else []))


def _blocks(findings: Findings) -> Iterator[document.Block]:
    found = found_of(findings, WindowFinding)
    window = _measured_window(findings.run)
    assert window is not None, "see applies"
    result, measured = window
    load = result.trial.load
    for named in findings.by_rung(NamedRate).values():
        yield Paragraph(f"{format_number(named.per_min.center)} {named.label}")
    yield Paragraph(load_words(load, result.trial.seed), Tone.MUTED)
    if measured.total.committed:
        yield Paragraph(
            "The interval covers this one window on this one server, not the variation between runs.",
            Tone.MUTED,
        )
    yield _transactions(measured)
    yield Paragraph(_MEANINGS[found.latency_counts_from], Tone.MUTED)
    # A column for each way to end, other than a commit within the limit, that some transaction took.
    ends = [x for x in _OTHER_ENDS if any(getattr(y, x) for y in measured.transactions.values())]
    if ends:
        titles = header("Transaction", *(f">{_OTHER_ENDS[x]}" for x in ends))
        rows = tuple(
            (Cell(name, is_strong=True), *(Cell(f"{getattr(counts, x):,}") for x in ends))
            for name, counts in measured.transactions.items()
        )
        yield Table("Other ways to end", titles, rows)
    if found.statements:
        yield _statements(found.statements)
    if measured.arrivals is not None:
        yield _arrivals(measured.arrivals)
    if found.connecting is not None:
        yield _connecting(found.connecting, load)
    if measured.total.failed:
        yield _failures(measured)


_MEANINGS = {
    "begin": "Latency is service time: each client waits for its answer before it sends the next request, so "
    "work that was never sent does not count.",
    "due": "Latency is response time: it counts from when an arrival was due, so it includes the wait for a "
    "free client.",
    "taken": "Latency counts from when a client took an arrival from the queue.",
}
_OTHER_ENDS = {
    "rolled_back": "Rolled back by design",
    "failed": "Failed",
    "retried": "Retried attempts",
    "over_limit": "Over the limit",
    "skipped": "Skipped",
    "dropped": "Dropped",
}


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
    threads = f" on {load.threads} threads" if (load.threads or 1) > 1 else ""
    if load.generators:
        threads = f"{f'{threads} each' if threads else ''} of {counted(len(load.generators), 'load generator')}"
    window = format_duration(load.measure_s)
    if load.transactions is not None:
        each = "" if load.connections == 1 else " a client"
        window = f"{load.transactions:,} transaction{'s' * (load.transactions > 1)}{each}"
    warm_up = f" after {format_duration(load.warm_up_s)} of warm-up" if load.warm_up_s else ""
    return f"{clients}{threads}{sessions}, {pace}; {window}{warm_up}; seed {seed}"


def _transactions(measured: Measurement) -> Table:
    rows = []
    for name, counts in measured.transactions.items():
        latency = measured.latency.get(name)
        cells: tuple[Cell, ...] = (NOTHING,) * 5
        if latency is not None and latency.count:
            times = (
                latency.mean_us,
                latency.p50_us,
                latency.p95_us,
                latency.p99_us,
                latency.max_us,
            )
            cells = tuple(Cell(format_duration(us / 1e6)) for us in times)
        rate = Cell(format_number(counts.committed / measured.elapsed_s))
        rows.append((Cell(name, is_strong=True), Cell(f"{counts.committed:,}"), rate, *cells))
    titles = ("Transaction", ">Committed", ">/s", ">Mean", ">p50", ">p95", ">p99", ">Max")
    return Table("Transactions by type", header(*titles), tuple(rows))


def _statements(statements: Sequence[Statement]) -> Table:
    shown = [x for x in ("failed", "retried") if any(getattr(one, x) for one in statements)]
    titles = (">Line", ">Executed", ">Mean", *(f">{x.capitalize()}" for x in shown))
    rows = tuple(
        (
            Cell(one.transaction, is_strong=True),
            Cell(str(one.line)),
            Cell(f"{one.succeeded:,}"),
            NOTHING if one.mean_us is None else Cell(format_duration(one.mean_us / 1e6)),
            *(Cell(f"{getattr(one, key):,}") for key in shown),
            Cell(cut(" ".join(one.text.split()), _LONGEST_STATEMENT)),
        )
        for one in statements
    )
    return Table("Latency of each statement", header("Transaction", *titles, "Statement"), rows)


def _arrivals(arrivals: Arrivals) -> KeyValues:
    pairs = [("Arrivals", Cell(f"{arrivals.scheduled:,}"))]
    for title, count, meaning in (
        ("Late", arrivals.late, "no client was free when they were due"),
        ("Skipped", arrivals.skipped, "over the latency limit before a client was free"),
        ("Dropped", arrivals.dropped, "too many were waiting"),
    ):
        if count:
            share = count / max(1, arrivals.scheduled)
            pairs.append((title, Cell(f"{count:,} ({_share_words(share)}): {meaning}")))
    waits = _times(p50=arrivals.queue_us_p50, p99=arrivals.queue_us_p99, max=arrivals.queue_us_max)
    if waits:
        longest = f"; at most {arrivals.max_queue:,} at once" if arrivals.max_queue else ""
        pairs.append(("Wait until started", Cell(waits + longest)))
    return KeyValues(tuple(pairs))


def _connecting(connecting: Latency, load: LoadProfile) -> KeyValues:
    words = "no connection was opened in the window"
    if connecting.count:
        times = _times(
            mean=connecting.mean_us,
            p50=connecting.p50_us,
            p99=connecting.p99_us,
            max=connecting.max_us,
        )
        where = "included" if isinstance(load.pacing, Open) else "not included"
        words = f"{times}; {connecting.count:,} connections; {where} in the latency, included in the rate"
    return KeyValues((("Connecting", Cell(words)),))


def _times(**times_us: float | None) -> str:
    """Return `p50 1.2 ms, max 3 ms`, without those that are not known."""
    known = ((name, us) for name, us in times_us.items() if us is not None)
    return ", ".join(f"{name} {format_duration(us / 1e6)}" for name, us in known)


def _failures(measured: Measurement) -> Note:
    total = measured.total
    by_state = {state: text for _, state, text, _ in reversed(measured.errors)}
    classes = [
        f"{count:,} × {state}" + (f": {by_state[state]}" if state in by_state else "")
        for state, count in sorted(total.failed_by_sqlstate.items(), key=lambda x: -x[1])
    ]
    share = total.failed / max(1, total.scheduled)
    title = f"{total.failed:,} transactions failed ({_share_words(share)} of those started)"
    return Note(title, tuple(classes), Tone.BAD)


def _share_words(share: float) -> str:
    """Return `83 %` or `0.04 %`: a small share must not read as zero."""
    return (
        percent_words(share) if share >= 0.1 else f"{format_number(share * 100, significant=2)} %"
    )
