"""What came of one run outside of an experiment (`pgdrag bench`, `pgdrag tpcc run`)? For people and as JSON.

There is nothing to compare it with: the interval is that of this one window, and says nothing of
what a second run would give.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import pgdrag
from pgdrag.english import percent_words
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.decay.together import finding_of, rung_decay
from pgdrag.findings.decay.words import drift_sentence, way_words
from pgdrag.findings.driver_limits import DriverFinding, driver_finding, driver_words
from pgdrag.findings.named_rate import NamedRate
from pgdrag.findings.steps import StepFinding, step_findings
from pgdrag.findings.values import Interval
from pgdrag.model import Arrivals, Host, Latency, Measurement, Result, Rung
from pgdrag.model.load import Closed, LoadProfile, Open
from pgdrag.model.measurement import Statement
from pgdrag.report.cells import NOTHING, bounds_words
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
from pgdrag.report.json import plain
from pgdrag.stats.rates import DRIFT_MATTERS, TrialRate, rate_interval, trend
from pgdrag.units import format_duration, format_number, format_rate
from pgdrag.workloads.new_orders import new_orders

ONE_WINDOW = "The interval is that of this one window on this one server: what differs from run to run is not in it."
LONGEST_STATEMENT = 60  # of which a row shows that much


@dataclass(frozen=True)
class BenchRun:
    """One run on one server.

    Attributes:
        server: where it is, for people.
        what: what was run: "pgbench scripts, scale 10, prepared statements".
        result: its one trial, whose treatment is the server as it is.
        host: the machine that the driver ran on.
        notes: what else was done to the server, and what to know of the run.
    """

    server: str
    what: str
    result: Result
    host: Host
    notes: tuple[str, ...] = ()

    @property
    def measured(self) -> Measurement:
        """What was counted in the window."""
        assert self.result.measurement is not None, "a run that ended without an error"
        return self.result.measurement

    @property
    def load(self) -> LoadProfile:
        """How hard it was driven."""
        return self.result.trial.load

    @property
    def committed_per_s(self) -> Interval:
        """Committed transactions per second over the whole window, with what chance there is in it."""
        return rate_interval(_rate(self.measured, self.load))

    @cached_property
    def drift(self) -> DecayFinding | None:
        """How throughput went where it had a trend that matters: then a mean is of no moment of the window."""
        treatment = self.result.trial.treatment
        found = rung_decay(RungTrials(Rung(treatment.name, "", treatment), (self.result,)))
        if found is None or found.direction not in ("falling", "rising"):
            return None
        drift = finding_of(found)
        return drift if abs(drift.change.center - 1) >= DRIFT_MATTERS else None

    @property
    def steps(self) -> tuple[StepFinding, ...]:
        """Throughput of each step, where the load changed."""
        return step_findings([(self.result, self.measured)])

    @property
    def driver(self) -> DriverFinding:
        """What the load driver used."""
        found = driver_finding([(self.result, self.measured)])
        assert found is not None, "there is one trial"
        return found

    @property
    def new_orders(self) -> NamedRate | None:
        """New-Orders per minute of TPC-C."""
        pair = (self.result, self.measured)
        return new_orders(self.result.trial.workload, self.committed_per_s, [pair])

    @property
    def doubts(self) -> tuple[str, ...]:
        """What to bear in mind with the numbers; sentences."""
        found = [*self.committed_per_s.warnings, *self.driver.warnings]
        line = None if self.load.steps else trend(self.measured.samples)
        if self.drift is not None:
            found.append(f"{drift_sentence(self.drift)}; warm up longer")
        elif line is not None and line.matters:
            found.append(
                f"throughput changed by {line.change * 100:+.0f} % within the window: it was not steady, and "
                "its mean depends on when it began; warm up longer"
            )
        if self.measured.stopped_by == "clients":
            found.append("the run ended early: no client could go on")
        if self.load.transactions is not None and self.measured.stopped_by == "deadline":
            found.append("the run ended before each client had run its transactions")
        return tuple(f"{text[0].upper()}{text[1:]}." for text in found)

    @property
    def failed(self) -> int:
        """Transactions that gave up on an error."""
        return self.measured.total.failed


def bench_blocks(run: BenchRun) -> Sequence[Block]:
    """Return what is printed."""
    return tuple(_blocks(run))


def bench_json(run: BenchRun) -> str:
    """Return the same, and all that is exact, as JSON."""
    measured, trial = run.measured, run.result.trial
    found = {
        "pgdrag": pgdrag.__version__,
        "server": run.server,
        "server_version": run.result.server_version,
        "host": run.host,
        "started_unix_s": run.result.started_unix_s,
        "seed": trial.seed,
        "workload": {"kind": trial.workload.kind, **trial.workload.parameters},
        "load": trial.load,
        "elapsed_s": measured.elapsed_s,
        "warm_up_s": measured.warm_up_s,
        "stopped_by": measured.stopped_by,
        "committed_per_s": run.committed_per_s,
        "committed_per_s_covers": ONE_WINDOW,
        "drift": _drift_json(run.drift),
        "new_orders": run.new_orders,
        "steps": run.steps,
        "total": measured.total,
        "transactions": {
            name: {**asdict(counts), "latency": measured.latency.get(name)}
            for name, counts in measured.transactions.items()
        },
        "latency_counts_from": _counts_from(run.load),
        "arrivals": measured.arrivals,
        "connecting": measured.connecting,
        "statements": measured.statements,
        "errors": [
            {"transaction": kind, "sqlstate": state, "message": text, "count": count}
            for kind, state, text, count in measured.errors
        ],
        "driver": run.driver,
        "samples": measured.samples,
        "phases_s": run.result.phases_s,
        "notes": run.notes,
        "doubts": run.doubts,
    }
    return json.dumps(plain(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _blocks(run: BenchRun) -> Iterator[Block]:
    yield Paragraph(f"{run.what} on {run.server}, PostgreSQL {run.result.server_version}")
    yield Paragraph(load_words(run.load, run.result.trial.seed), Tone.MUTED)
    yield _headline(run)
    if run.measured.total.committed:
        yield Paragraph(ONE_WINDOW, Tone.MUTED)
    yield _transactions(run.measured)
    yield Paragraph(_MEANINGS[_counts_from(run.load)], Tone.MUTED)
    yield from _other_ends(run.measured)
    if run.measured.statements:
        yield _statements(run.measured.statements)
    if run.measured.arrivals is not None:
        yield _arrivals(run.measured.arrivals)
    if run.measured.connecting is not None:
        yield _connecting(run.measured.connecting, run.load)
    if run.steps:
        yield _steps(run.steps)
    yield KeyValues((("Load driver", Cell(driver_words(run.driver))),))
    yield from _failures(run.measured)
    if run.notes:
        yield Note("Notes", run.notes)
    if run.doubts:
        yield Note("Warnings", run.doubts, Tone.WARNING)


def load_words(load: LoadProfile, seed: int) -> str:
    """Return `8 clients, closed loop; 20 s after 5 s of warm-up; seed 42`."""
    pacing = load.pacing
    match pacing:
        case Closed():
            pace = "closed loop"
        case Open():
            kind = "Poisson" if pacing.arrivals == "poisson" else "even"
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


def _headline(run: BenchRun) -> Block:
    rate, measured = run.committed_per_s, run.measured
    counted = f"{measured.total.committed:,} in {format_duration(measured.elapsed_s)}"
    if not rate.center:
        return Paragraph(
            f"Nothing was committed in {format_duration(measured.elapsed_s)}.", Tone.BAD
        )
    interval = f"{percent_words(rate.confidence)} interval {bounds_words(rate, format_number)}"
    orders = run.new_orders
    tail = f"; {format_number(orders.per_min.center)} {orders.label}" if orders else ""
    if run.drift is not None:
        # A trend gets its ends, and no bare mean.
        text = (
            f"{way_words(run.drift)} committed, {run.drift.direction} ({_change_words(run.drift.change)}; "
            f"{format_rate(rate.center)} on average): {counted}{tail}"
        )
    else:
        text = f"{format_rate(rate.center)} committed ({interval}): {counted}{tail}"
    return Paragraph(text, is_lead=True)


def _change_words(change: Interval) -> str:
    return (
        f"× {format_number(change.center, significant=2)}, {percent_words(change.confidence)} interval "
        f"{bounds_words(change, lambda x: format_number(x, significant=2))}"
    )


def _drift_json(drift: DecayFinding | None) -> dict[str, object] | None:
    if drift is None:
        return None
    return {
        "direction": drift.direction,
        "begin_per_s": drift.begin_per_s,
        "end_per_s": drift.end_per_s,
        "change": drift.change,
        "sentence": drift_sentence(drift),
    }


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


# What ends otherwise than by COMMIT within the limit.
_OTHER_ENDS = (
    ("rolled_back", "Rolled back by design"),
    ("failed", "Failed"),
    ("retried", "Retried attempts"),
    ("over_limit", "Over the limit"),
    ("skipped", "Skipped"),
    ("dropped", "Dropped"),
)


def _other_ends(measured: Measurement) -> Iterator[Block]:
    """Return the ways to end that some transaction took, a column each; nothing where none did."""
    types = measured.transactions
    shown = [x for x in _OTHER_ENDS if any(getattr(counts, x[0]) for counts in types.values())]
    if not shown:
        return
    columns = (Column("Transaction"), *(Column(title, Align.RIGHT) for _, title in shown))
    rows = tuple(
        (Cell(name, is_strong=True), *(Cell(f"{getattr(counts, key):,}") for key, _ in shown))
        for name, counts in types.items()
    )
    yield Table("How others ended", columns, rows)


_MEANINGS = {
    "begin": "Latency is service time: each client waits for its answer before it asks again, so the "
    "wait of work that was never sent is not in it.",
    "due": "Latency is response time: it counts from the moment at which an arrival was due, so its wait "
    "for a free client is in it.",
    "taken": "Latency counts from the moment at which a client took an arrival out of the queue.",
}


def _counts_from(load: LoadProfile) -> str:
    match load.pacing:
        case Closed():
            return "begin"
        case Open():
            return "due"
        case _:
            return "taken"


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
        pairs.append(("Wait until begun", Cell(", ".join(waits) + longest)))
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
        return KeyValues((("Connecting", Cell("no connection was made in the window")),))
    times = ", ".join(
        f"{name} {format_duration(us / 1e6)}"
        for name, us in (("mean", connecting.mean_us), ("p50", connecting.p50_us), ("p99", connecting.p99_us), ("max", connecting.max_us))
    )  # fmt: skip
    where = "in the latency" if isinstance(load.pacing, Open) else "not in the latency"
    words = f"{times}; {connecting.count:,} connections; {where}, but in the rate"
    return KeyValues((("Connecting", Cell(words)),))


def _steps(steps: Sequence[StepFinding]) -> Block:
    columns = (Column("From"), Column("Sessions", Align.RIGHT), Column("Committed", Align.RIGHT))
    rows = tuple(
        (
            Cell(format_duration(step.at_s)),
            Cell(str(step.sessions)),
            NOTHING
            if step.tps is None
            else Cell(format_rate(step.tps.center), bounds_words(step.tps, format_number)),
        )
        for step in steps
    )
    return Table("Throughput of each step", columns, rows)


def _failures(measured: Measurement) -> Iterator[Block]:
    total = measured.total
    if not total.failed:
        return
    by_state = {state: text for _, state, text, _ in reversed(measured.errors)}
    told = [
        f"{count:,} × {state}" + (f": {by_state[state]}" if state in by_state else "")
        for state, count in sorted(total.failed_by_sqlstate.items(), key=lambda x: -x[1])
    ]
    share = total.failed / max(1, total.scheduled)
    title = f"{total.failed:,} transactions failed ({_share_words(share)} of those begun)"
    yield Note(title, tuple(told), Tone.BAD)


def _share_words(share: float) -> str:
    """Return `83 %` or `0.04 %`: what happens seldom must not read as never."""
    return (
        percent_words(share) if share >= 0.1 else f"{format_number(share * 100, significant=2)} %"
    )


def _rate(measured: Measurement, load: LoadProfile) -> TrialRate:
    # Such a window ends with its last transaction.
    is_inverse = measured.stopped_by == "transactions"
    committed = measured.total.committed
    return TrialRate(1, committed, measured.elapsed_s, measured.samples, is_inverse, load.changes_s)
