"""What is to be run, and what came of it: the values that the stations of the road pass on.

Everything here is a frozen value without behaviour that reaches outside: a design asks for
`Treatment`s, the laboratory makes `Trial`s of them, a trial ends as a `Result`, and the journal,
the analysis and the report read nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal


class Outcome(StrEnum):
    """How a trial ended."""

    MEASURED = "measured"
    DID_NOT_START = "did not start"
    CRASHED = "crashed"
    STALLED = "stalled"  # nothing committed within the budget: censored, not missing
    INERT = "inert"  # measured nothing: the treatment changes nothing effective here
    INVALID = "invalid"  # the driver, the machine or the dataset spoilt it
    UNTESTABLE = "untestable here"  # this server or machine lacks what the treatment needs


@dataclass(frozen=True, order=True)
class Level:
    """One value of one factor.

    Attributes:
        kind: the kind of factor, as `pgdrag list` names it: "setting", …
        name: the factor's own name, "shared_buffers".
        value: as the user wrote it, "8MB".
    """

    kind: str
    name: str
    value: str

    @property
    def factor(self) -> tuple[str, str]:
        """Which factor this is a level of."""
        return (self.kind, self.name)


@dataclass(frozen=True)
class Treatment:
    """A level for each factor of the experiment; a factor not named keeps its default."""

    name: str
    levels: tuple[Level, ...] = ()

    def with_levels(self, name: str, levels: Iterable[Level]) -> Treatment:
        """Return this treatment changed by `levels`; a later level of a factor replaces an earlier."""
        merged = {level.factor: level for level in self.levels}
        merged.update((level.factor, level) for level in levels)
        return Treatment(name, tuple(merged.values()))

    def of_kind(self, kind: str) -> dict[str, str]:
        """Return the levels of one kind of factor, by name."""
        return {level.name: level.value for level in self.levels if level.kind == kind}

    @property
    def identity(self) -> str:
        """A digest of the levels alone: equal treatments have equal identities, whatever their names."""
        text = json.dumps(sorted((x.kind, x.name, x.value) for x in self.levels))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class LoadProfile:
    """How hard and how long the workload is driven.

    Attributes:
        connections: clients, one connection each.
        rate_per_s: transactions offered per second over all clients; None: closed loop, no pause.
        warm_up_s: load before the measured window, in seconds.
        measure_s: length of the measured window, in seconds.
        min_commits: with fewer commits the window goes on, up to `budget_s`.
        budget_s: longest measured window, in seconds.
    """

    connections: int
    warm_up_s: float
    measure_s: float
    budget_s: float
    rate_per_s: float | None = None
    min_commits: int = 30


@dataclass(frozen=True)
class WorkloadSpec:
    """Which workload, with its own parameters (JSON values)."""

    kind: str
    parameters: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One run of one treatment, before it is run.

    Attributes:
        number: position in the run, from 1.
        block: which block of the design, from 1; trials of a block ran close together.
        replicate: which repeat of the treatment, from 1.
        seed: of everything random in this trial; the same in all treatments of one replicate.
    """

    number: int
    block: int
    replicate: int
    treatment: Treatment
    workload: WorkloadSpec
    load: LoadProfile
    seed: int


@dataclass(frozen=True)
class Applied:
    """What became of one level: asked for, and read back from the running system.

    Attributes:
        effective: the value read back, in the system's own spelling; None: it could not be set.
        note: why it is not what was asked for, or why it cannot be set; "" where all is well.
        default: what the system has where nobody sets the factor, in the same spelling; None where
            that is unknown.
    """

    level: Level
    effective: str | None
    note: str = ""
    default: str | None = None


@dataclass(frozen=True)
class Latency:
    """Latencies of the committed transactions of one type, in microseconds."""

    count: int
    mean_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    max_us: float
    encoded: str = ""  # HdrHistogram, V2 compressed, base64; microseconds


@dataclass(frozen=True)
class Counts:
    """How the transactions of one type ended; `scheduled` is the sum of the five ways to end."""

    scheduled: int = 0
    committed: int = 0
    rolled_back: int = 0  # by design
    failed: int = 0
    in_flight: int = 0  # at the end of the window
    dropped: int = 0  # refused by a full queue
    retried: int = 0  # attempts, not transactions
    failed_by_sqlstate: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        states = dict(self.failed_by_sqlstate)
        for sqlstate, count in other.failed_by_sqlstate.items():
            states[sqlstate] = states.get(sqlstate, 0) + count
        return Counts(
            self.scheduled + other.scheduled,
            self.committed + other.committed,
            self.rolled_back + other.rolled_back,
            self.failed + other.failed,
            self.in_flight + other.in_flight,
            self.dropped + other.dropped,
            self.retried + other.retried,
            states,
        )

    @property
    def is_balanced(self) -> bool:
        """Every scheduled transaction ended in exactly one counted way."""
        ended = self.committed + self.rolled_back + self.failed + self.in_flight + self.dropped
        return self.scheduled == ended and self.failed == sum(self.failed_by_sqlstate.values())


@dataclass(frozen=True)
class Sample:
    """One interval of the measured window: `t_s` is its end, in seconds from the window's start."""

    t_s: float
    duration_s: float
    committed: int
    failed: int = 0
    p99_us: float | None = None  # over all types, the worst of them; None: nothing committed


@dataclass(frozen=True)
class DriverCost:
    """What the driver itself used in the measured window: the proof that it was not the bottleneck."""

    user_cpu_s: float
    system_cpu_s: float
    loop_lag_us_p99: float
    loop_lag_us_max: float
    threads: int = 1


@dataclass(frozen=True)
class Measurement:
    """What the driver counted in the measured window.

    Attributes:
        elapsed_s: the window as it was, in seconds.
        stopped_by: "deadline", "commits" (extended until it had enough), "budget" (extended as far
            as allowed) or "signal".
        transactions: counts by transaction type.
        errors: first message of each error class: (transaction type, SQLSTATE, message, count).
    """

    elapsed_s: float
    stopped_by: str
    transactions: Mapping[str, Counts]
    latency: Mapping[str, Latency]
    samples: tuple[Sample, ...]
    driver: DriverCost
    errors: tuple[tuple[str, str, str, int], ...] = ()
    queue_us_p99: float | None = None  # with a rate: how long work waited before its first attempt
    max_queue: int | None = None

    @property
    def total(self) -> Counts:
        """Counts over all transaction types."""
        return sum(self.transactions.values(), Counts())

    @property
    def committed_per_s(self) -> float:
        """Committed transactions per second."""
        return self.total.committed / self.elapsed_s


@dataclass(frozen=True)
class Observation:
    """One thing that a collector saw over the measured window.

    Attributes:
        name: `snake_case`, unit last: "wal_bytes_per_transaction".
        label: for people: "WAL per transaction".
        value: in `unit`; None where it could not be seen, and then `missing` says why.
        unit: "ratio" (0…1), "1/s", "1/transaction", "bytes/transaction", "s" or "count".
        resolution: the smallest difference that means anything, in `unit` (e.g. one event in the window).
        detail: a sentence with what stands behind the number, or "".
    """

    name: str
    label: str
    value: float | None
    unit: Literal["ratio", "1/s", "1/transaction", "bytes/transaction", "s", "count"]
    resolution: float
    missing: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        assert (self.value is None) == bool(self.missing), (
            f"{self.name}: a value or a reason, never both"
        )
        assert self.resolution > 0, f"{self.name}: resolution {self.resolution}"


@dataclass(frozen=True)
class Result:
    """What came of one trial.

    Attributes:
        reason: why it was not simply measured; "" where it was.
        measurement: None unless the measured window ran.
        phases_s: how long each part of the trial took, in seconds, in order.
        warnings: doubts to print beside the number.
    """

    trial: Trial
    outcome: Outcome
    started_unix_s: float
    reason: str = ""
    server_version: str = ""
    applied: tuple[Applied, ...] = ()
    measurement: Measurement | None = None
    evidence: tuple[Observation, ...] = ()
    violations: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    phases_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A published number that a rung carries.

    Attributes:
        tps: published transactions per second, or None where only words were published.
        text: what else the source says of it.
    """

    tps: float | None = None
    text: str = ""


@dataclass(frozen=True)
class Rung:
    """One step of a ladder: what it adds, and what was published of it.

    Attributes:
        treatment: complete: the baseline and all rungs up to this one.
        added: the levels that this rung itself names.
        expects: observation name → "up" or "down": what the claimed mechanism must move.
    """

    name: str
    title: str
    treatment: Treatment
    added: tuple[Level, ...] = ()
    claim: Claim = field(default_factory=Claim)
    mechanism: str = ""
    expects: Mapping[str, Literal["up", "down"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Where the claims come from."""

    title: str = ""
    author: str = ""
    url: str = ""
    setup: str = ""


@dataclass(frozen=True)
class Study:
    """All that analysis and report need of an experiment: no files, no servers.

    Attributes:
        scale: which of the experiment's scales was run.
        rungs: the first is the baseline.
        notes: sentences of the experiment file to print with the results.
    """

    name: str
    title: str
    question: str
    scale: str
    design: str
    rungs: tuple[Rung, ...]
    source: Source
    workload: WorkloadSpec
    load: LoadProfile
    replicates: int
    notes: tuple[str, ...] = ()
    design_parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Every level that the study sets anywhere, once, in the order of the rungs."""
        every = (level for rung in self.rungs for level in (*rung.added, *rung.treatment.levels))
        return tuple(dict.fromkeys(every))

    def with_replicates(self, replicates: int) -> Study:
        """Return the same study with another number of replicates."""
        return replace(self, replicates=replicates)


@dataclass(frozen=True)
class Host:
    """The machine that a run was made on; runs on different hosts are not compared."""

    cpu_model: str
    cpu_count: int
    memory_bytes: int
    kernel: str
    file_system: str


@dataclass(frozen=True)
class RunRecord:
    """One run of an experiment, as the journal keeps it."""

    run_id: str
    study: Study
    host: Host
    server_version: str
    pgdrag_version: str
    seed: int
    started_unix_s: float
    finished_unix_s: float | None
    status: Literal["running", "done", "interrupted", "failed"]
    results: tuple[Result, ...]
    planned_trials: int | None = None
