"""A trial before it is run, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal

from pgdrag.adapters import FINITE
from pgdrag.model.host import Host
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import Recordings
from pgdrag.model.study import Instrument, WorkloadSpec
from pgdrag.model.treatment import Level, Treatment


class Outcome(StrEnum):
    """How a trial ended."""

    MEASURED = "measured"
    DID_NOT_START = "did not start"
    CRASHED = "crashed"
    STALLED = "stalled"  # nothing committed within the budget: censored, not missing
    INERT = "inert"  # measured nothing: the treatment changes nothing effective here
    INVALID = "invalid"  # the driver, the machine or the dataset spoilt it
    UNTESTABLE = "untestable here"  # this server or machine lacks what the treatment needs


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
    instrument: Instrument = field(default_factory=Instrument)


@dataclass(frozen=True)
class Applied:
    """What became of one level: asked for, and read back from the running system.

    Attributes:
        effective: the value read back, in the system's own spelling; None: it could not be set.
        note: why it is not what was asked for, or why it cannot be set; "" where all is well.
        default: what the system has if the factor is not set, in the same spelling; None where
            that is unknown.
        how: by which means it was applied, and what else was read, where the level does not tell; a
            clause, not a warning.
    """

    level: Level
    effective: str | None
    note: str = ""
    default: str | None = None
    how: str = ""


Unit = Literal[
    "ratio",
    "1/s",
    "bytes/s",
    "1/transaction",
    "bytes/transaction",
    "s/transaction",
    "s",
    "bytes",
    "count",
]


@dataclass(frozen=True)
class Observation:
    """One thing that a collector saw over the measured window.

    Attributes:
        name: `snake_case`, unit last: "wal_bytes_per_transaction".
        label: for people: "WAL per transaction".
        value: in `unit`; None where it could not be seen, and then `missing` says why.
        unit: "ratio" (0…1), "1/s", "bytes/s", "1/transaction", "bytes/transaction",
            "s/transaction", "s", "bytes" or "count".
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
    """What it took to restore the dataset for a trial.

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
        phases_s: how long each part of the trial took, in seconds, in order; "prepare", of a run's first
            trial, is what all trials share: loading the dataset.
        restored: what its dataset took; None where none was restored.
        recordings: what collectors brought beside numbers.
        warnings: to print beside the number.
        took_s: seconds from the end of the trial before, or from the run's beginning; 0 where no laboratory
            ran it, and in old journals.
        host: name of the fleet's host that ran it; "": no fleet did.
        machine: that host.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = FINITE
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
    recordings: Recordings = field(default_factory=Recordings)
    took_s: float = 0.0
    host: str = ""
    machine: Host | None = None
