"""What did the driver count in the measured window, and what did it use itself?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property


@dataclass(frozen=True)
class Latency:
    """Latencies in microseconds: of the committed transactions of one type, or of connecting."""

    count: int
    mean_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    max_us: float
    encoded: str = ""  # HdrHistogram, V2 compressed, base64; microseconds


@dataclass(frozen=True)
class Counts:
    """How the transactions of one type ended; `scheduled` is the sum of the six ways to end."""

    scheduled: int = 0
    committed: int = 0
    rolled_back: int = 0  # by design
    failed: int = 0
    in_flight: int = 0  # at the end of the window
    dropped: int = 0  # the queue or backlog was full
    retried: int = 0  # attempts, not transactions
    failed_by_sqlstate: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0  # later than the latency limit before a client could begin it
    over_limit: int = 0  # committed, but slower than the latency limit: not an end of its own
    tried: int = 0  # attempts in all: transactions that a client began, and those retried

    def __add__(self, other: Counts) -> Counts:
        states = dict(self.failed_by_sqlstate)
        for sqlstate, count in other.failed_by_sqlstate.items():
            states[sqlstate] = states.get(sqlstate, 0) + count
        sums = {
            one.name: getattr(self, one.name) + getattr(other, one.name)
            for one in fields(self)
            if one.name != "failed_by_sqlstate"
        }
        return Counts(**sums, failed_by_sqlstate=states)

    @property
    def is_balanced(self) -> bool:
        """Every scheduled transaction ended in exactly one counted way."""
        began = self.committed + self.rolled_back + self.failed + self.in_flight
        is_failed_told = self.failed == sum(self.failed_by_sqlstate.values())
        return self.scheduled == began + self.dropped + self.skipped and is_failed_told


@dataclass(frozen=True)
class Arrivals:
    """What came of the arrivals of an open loop or a rate limit, and how long they waited.

    Attributes:
        scheduled: due in the window, or `carried` into it: due before, and not ended when it opened.
        late: begun after they were due because no client was free.
        max_queue: the most that waited at once.
        queue_us_p50, queue_us_p99, queue_us_max: from due to begun; None where nothing was begun.
    """

    scheduled: int
    dropped: int
    skipped: int
    late: int
    max_queue: int
    carried: int = 0
    queue_us_p50: float | None = None
    queue_us_p99: float | None = None
    queue_us_max: float | None = None


@dataclass(frozen=True)
class Sample:
    """One interval of the measured window: `t_s` is its end, in seconds from the window's start.

    Attributes:
        p50_us, p95_us, p99_us: latency of that percentile, of the type of transaction that has the
            highest; None where nothing committed, and where an older version did not keep it.
        sessions: clients that worked at its end.
    """

    t_s: float
    duration_s: float
    committed: int
    failed: int = 0
    p99_us: float | None = None
    sessions: int | None = None
    p50_us: float | None = None
    p95_us: float | None = None


@dataclass(frozen=True)
class Statement:
    """The executions of one statement of a script, in transactions that the window counts.

    Attributes:
        line: where it begins in the script.
        mean_us: of those that succeeded; None without any.
        failed: those that failed, and the transaction with them.
        retried: those that failed and were tried again.
    """

    transaction: str
    line: int
    text: str
    succeeded: int
    mean_us: float | None
    failed: int
    retried: int


@dataclass(frozen=True)
class Example:
    """A statement that a workload sends, and values that it may send with it.

    Attributes:
        text: with $1, $2 … in the places of values, whose types the server infers.
        values: as text; None is NULL.
    """

    transaction: str
    text: str
    values: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Sum:
    """What a script's variable sums to over the server's transactions that committed, from the warm-up on.

    Attributes:
        sum: of the values that were committed, also of those whose script went on to fail, and of those that
            committed after the window.
        committed: the server's transactions with such a value.
        untouched: those of them in which the statement with the value touched no row ("UPDATE 0").
        unknown: those whose connection broke before it was known whether they committed.
        unknown_low, unknown_high: what they add to the sum at least and at most.
    """

    sum: int
    committed: int
    untouched: int = 0
    unknown: int = 0
    unknown_low: int = 0
    unknown_high: int = 0

    def allows(self, total: int) -> bool:
        """Tell whether a table that began at 0 can have this total."""
        return self.sum + self.unknown_low <= total <= self.sum + self.unknown_high


@dataclass(frozen=True)
class DriverCost:
    """What the driver itself used in the measured window: the proof that it was not the bottleneck.

    What a driver cannot tell of itself (another program as the workload) is None.

    Attributes:
        threads: worker threads.
        busiest_thread_cpu_s: user and system CPU of the worker thread that used most.
        send_lag_us_p99, send_lag_us_max: how long an answer waited for the driver's CPU.
        lateness_us_p99, lateness_us_max: open loop: how much later than due the driver began an
            arrival for which a client was free; None in closed loop.
        stall_us_p99, stall_us_max: how late a 10 ms timer of the event loop fired.
        round_trips: questions that were sent and answered, however many statements were in each.
        round_trip_us: what a question takes that asks for nothing, before the load: the least of a few.
        busiest_thread_busy_s: how long the worker thread that did so most ran, or waited for a processor.
        processors: that it may use.
    """

    user_cpu_s: float
    system_cpu_s: float
    threads: int = 1
    busiest_thread_cpu_s: float | None = None
    max_rss_bytes: int | None = None
    send_lag_us_p99: float | None = None
    send_lag_us_max: float | None = None
    lateness_us_p99: float | None = None
    lateness_us_max: float | None = None
    stall_us_p99: float | None = None
    stall_us_max: float | None = None
    round_trips: int | None = None
    round_trip_us: float | None = None
    busiest_thread_busy_s: float | None = None
    processors: int | None = None


@dataclass(frozen=True)
class Generator:
    """One of several load generators that measured together.

    Attributes:
        name: "generator 2", with its host where it has one of its own: "generator 2 (load-b)".
        clients: how many of the load's were its own.
        elapsed_s: its window; shorter than that of all where its clients had ended their transactions earlier.
        clock_uncertainty_s: how far its window may have begun before or after that of pgdrag's clock.
    """

    name: str
    clients: int
    committed: int
    elapsed_s: float
    clock_uncertainty_s: float
    driver: DriverCost

    @property
    def committed_per_s(self) -> float:
        """Committed transactions per second of its window."""
        return self.committed / self.elapsed_s if self.elapsed_s else 0.0


@dataclass(frozen=True)
class Measurement:
    """What the driver counted in the measured window.

    Attributes:
        elapsed_s: the window as it was, in seconds.
        stopped_by: "deadline", "transactions" (each client ended its number), "commits" (extended until it had enough), "budget" (extended as far
            as allowed), "signal" or "clients" (none could go on).
        transactions: counts by transaction type.
        errors: first message of each error class: (transaction type, SQLSTATE, message, count).
        arrivals: of an open loop or a rate limit; None in closed loop.
        warm_up_s: load before the window, as it was; None where that is unknown.
        statements: of the scripts, where they were to be timed.
        sums: of the scripts' variables, where they are asked for, by the variable's name.
        connecting: how long it took, where each transaction has a session of its own.
        generators: each of them, where there are several; `driver` then has their sums, and of what may have been the
            bottleneck the worst.
    """

    elapsed_s: float
    stopped_by: str
    transactions: Mapping[str, Counts]
    latency: Mapping[str, Latency]
    samples: tuple[Sample, ...]
    driver: DriverCost
    errors: tuple[tuple[str, str, str, int], ...] = ()
    arrivals: Arrivals | None = None
    warm_up_s: float | None = None
    connecting: Latency | None = None
    statements: tuple[Statement, ...] = ()
    sums: Mapping[str, Sum] = field(default_factory=dict)
    generators: tuple[Generator, ...] = ()

    @cached_property  # the analysis asks each trial for it dozens of times
    def total(self) -> Counts:
        """Counts over all transaction types."""
        first, *others = self.transactions.values() or (Counts(),)
        return sum(others, first)

    @property
    def unknown(self) -> int:
        """Transactions of which it is unknown whether they committed, where sums need to know."""
        return sum(one.unknown for one in self.sums.values())

    @property
    def committed_per_s(self) -> float:
        """Committed transactions per second."""
        return self.total.committed / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def busy_share(self) -> float | None:
        """Of the window, in which the busiest thread of a load driver ran or waited for a processor; None where unknown.

        Where the kernel does not count the waits, it is the share in which the thread ran.
        """
        busy_s, cpu_s = self.driver.busiest_thread_busy_s, self.driver.busiest_thread_cpu_s
        known_s = cpu_s if busy_s is None else busy_s
        return None if known_s is None or not self.elapsed_s else min(1.0, known_s / self.elapsed_s)
