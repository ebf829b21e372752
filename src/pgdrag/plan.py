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

# What the stations pass on is had from here as a whole; loads and measurements have files of their own.
from pgdrag.exhibits import Exhibits as Exhibits
from pgdrag.load import LoadProfile as LoadProfile
from pgdrag.measurement import Arrivals as Arrivals
from pgdrag.measurement import Counts as Counts
from pgdrag.measurement import DriverCost as DriverCost
from pgdrag.measurement import Latency as Latency
from pgdrag.measurement import Measurement as Measurement
from pgdrag.measurement import Sample as Sample

LONGEST_SHOWN = 100  # characters of a level's value


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

    @property
    def shown(self) -> str:
        """The value as people read it; of one that carries a file, what the file is."""
        short = self.value.partition(" {")[0] if len(self.value) > LONGEST_SHOWN else self.value
        return short if len(short) <= LONGEST_SHOWN else f"{short[: LONGEST_SHOWN - 1]}…"


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
class Block:
    """Treatments that a design wants run next, close together and in random order; none: it is done.

    Attributes:
        treatments: one may stand in it more than once.
        is_brief: by short trials, which are enough to tell what matters from what does not.
    """

    treatments: tuple[Treatment, ...] = ()
    is_brief: bool = False


@dataclass(frozen=True)
class Forecast:
    """How many trials are still to come, at least and at most."""

    least: int
    most: int
    brief_least: int = 0
    brief_most: int = 0


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
        is_checked: the dataset's consistency is checked after the window.
        is_brief: `load` is the study's, shortened; not to be compared with trials of the whole length.
    """

    number: int
    block: int
    replicate: int
    treatment: Treatment
    workload: WorkloadSpec
    load: LoadProfile
    seed: int
    is_checked: bool = True
    is_brief: bool = False


@dataclass(frozen=True)
class Applied:
    """What became of one level: asked for, and read back from the running system.

    Attributes:
        effective: the value read back, in the system's own spelling; None: it could not be set.
        note: why it is not what was asked for, or why it cannot be set; "" where all is well.
        default: what the system has where nobody sets the factor, in the same spelling; None where
            that is unknown.
        how: by which means it was applied, and what else was read, where the level does not tell; a
            clause, no doubt.
    """

    level: Level
    effective: str | None
    note: str = ""
    default: str | None = None
    how: str = ""


Unit = Literal[
    "ratio", "1/s", "1/transaction", "bytes/transaction", "s/transaction", "s", "bytes", "count"
]


@dataclass(frozen=True)
class Observation:
    """One thing that a collector saw over the measured window.

    Attributes:
        name: `snake_case`, unit last: "wal_bytes_per_transaction".
        label: for people: "WAL per transaction".
        value: in `unit`; None where it could not be seen, and then `missing` says why.
        unit: "ratio" (0…1), "1/s", "1/transaction", "bytes/transaction", "s/transaction", "s",
            "bytes" or "count".
        resolution: the smallest difference that means anything, in `unit` (e.g. one event in the window).
        detail: a sentence with what stands behind the number, or "".
        is_of_machine: of all that runs on the server's machine. It moves for reasons of its own, too.
    """

    name: str
    label: str
    value: float | None
    unit: Unit
    resolution: float
    missing: str = ""
    detail: str = ""
    is_of_machine: bool = False

    def __post_init__(self) -> None:
        assert (self.value is None) == bool(self.missing), (
            f"{self.name}: a value or a reason, never both"
        )
        assert self.resolution > 0, f"{self.name}: resolution {self.resolution}"


CopyMethod = Literal["reflink", "copy"]


@dataclass(frozen=True)
class RestoreCost:
    """What it took to give a trial a dataset as it was loaded.

    Attributes:
        seconds: until all was on the disk.
        bytes: of all its files.
        method: "reflink": blocks are shared with the snapshot until one of them is written; "copy":
            every byte was written.
    """

    seconds: float
    bytes: int
    method: CopyMethod


@dataclass(frozen=True)
class Result:
    """What came of one trial.

    Attributes:
        reason: why it was not simply measured; "" where it was.
        measurement: None unless the measured window ran.
        phases_s: how long each part of the trial took, in seconds, in order.
        restored: what its dataset took; None where none was restored.
        exhibits: what collectors brought beside numbers.
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
    restored: RestoreCost | None = None
    exhibits: Exhibits = field(default_factory=Exhibits)


HORIZON = "horizon"  # the kind of factor whose levels say who holds the horizon, and for how long
OPERATIONAL_SPEED = "operational speed"  # pg_expecto's; see `analysis.expecto.speed`


@dataclass(frozen=True)
class Claim:
    """A published number that a rung carries.

    Attributes:
        tps: published transactions per second, or None where only words were published.
        text: what else the source says of it.
        speedup: how many times as fast as the baseline it was published to be, where rates were not.
        of: the quantity that was published: "throughput" or "operational speed".
        trend: how the rate was published to go while the load went on, "steady" or "falling"; None
            where nothing was said of it.
        series: published rates: the end of each interval in seconds from the beginning, and the rate in it.
    """

    tps: float | None = None
    text: str = ""
    speedup: float | None = None
    of: str = "throughput"
    trend: Literal["steady", "falling"] | None = None
    series: tuple[tuple[float, float], ...] = ()


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

    @property
    def heading(self) -> str:
        """Its name with its title, where it has one: "A1 a small cache"."""
        return f"{self.name} {self.title}".strip()


@dataclass(frozen=True)
class Source:
    """Where the claims come from.

    Attributes:
        limits: what it could not know, in sentences.
    """

    title: str = ""
    author: str = ""
    url: str = ""
    setup: str = ""
    limits: str = ""


@dataclass(frozen=True)
class Study:
    """All that analysis and report need of an experiment: no files, no servers.

    Attributes:
        scale: which of the experiment's scales was run; without an experiment, the workload in words,
            with commas between them.
        rungs: the first is the baseline.
        notes: sentences of the experiment file to print with the results.
        is_checked: the dataset's consistency is checked after every trial.
        budget_s: what all trials together may take, in seconds; the run ends before one that would
            pass it. None: no limit.
        allowed: what it may change though it is somebody's: names of sysctls, devices, mount points.
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
    is_checked: bool = True
    budget_s: float | None = None
    allowed: tuple[str, ...] = ()

    @property
    def scale_words(self) -> str:
        """The scale as a report names it: "scale demo", or the workload itself."""
        return self.scale if "," in self.scale else f"scale {self.scale}"

    @property
    def levels(self) -> tuple[Level, ...]:
        """Every level that the study sets anywhere, once, in the order of the rungs."""
        every = (level for rung in self.rungs for level in (*rung.added, *rung.treatment.levels))
        return tuple(dict.fromkeys(every))

    def load_s(self, forecast: Forecast) -> tuple[float, float]:
        """Return how long these trials' load takes, in seconds: at least, and if each goes on to its budget."""
        brief = self.load.shortened()
        times = (
            (brief, forecast.brief_least, forecast.brief_most),
            (self.load, forecast.least, forecast.most),
        )
        least_s = sum(count * (x.warm_up_s + x.measure_s) for x, count, _ in times)
        most_s = sum(count * (x.warm_up_s + x.budget_s) for x, _, count in times)
        return least_s * self.replicates, most_s * self.replicates

    def with_replicates(self, replicates: int) -> Study:
        """Return the same study with another number of replicates."""
        return replace(self, replicates=replicates)

    def with_levels(self, levels: Iterable[Level]) -> Study:
        """Return the same study with levels that all its trials have beside their own."""
        levels = tuple(levels)
        rungs = (
            replace(rung, treatment=rung.treatment.with_levels(rung.treatment.name, levels))
            for rung in self.rungs
        )
        return replace(self, rungs=tuple(rungs))


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
