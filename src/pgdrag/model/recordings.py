"""What does a collector bring beside its numbers? What happened when, and tables that say more than a sum.

An `Observation` is one number over the measured window, and all verdicts are made of those. Recordings
are for looking closer: series, events, profiles. Each is a frozen value; times are seconds from the
window's start and may be negative, or beyond its end, where something began before or ended after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

# Types of processes that work for clients, as pg_stat_activity has them.
SESSION_TYPES = ("client backend", "parallel worker")
# The kind of the events that tell when collectors looked, and when they rested, where they took turns.
TURN = "collectors' turn"
LOOKING, RESTING = "looking", "resting"
# The kind of the events that tell of each hold of the horizon that pgdrag itself made.
HOLD_EVENT = "hold"
# As EXPLAIN (FORMAT JSON) has it: the object below "Plan", with "JIT" of the whole where that is there,
# and without what is false and buffers that are 0.
Plan = Mapping[str, object]

SeriesUnit = Literal["ratio", "1/s", "bytes/s", "bytes", "s", "count"]


@dataclass(frozen=True)
class Series:
    """One quantity over the window.

    Attributes:
        name: `snake_case`, unit last: "wal_bytes_per_s".
        label: for people: "WAL".
        unit: "ratio" (0…1), "1/s", "bytes/s", "bytes", "s" or "count".
        times_s: the end of each interval, growing.
        values: of each interval, in `unit`: raw differences, not smoothed.
        is_of_machine: of all that runs on the server's machine.
    """

    name: str
    label: str
    unit: SeriesUnit
    times_s: tuple[float, ...]
    values: tuple[float, ...]
    is_of_machine: bool = False

    def __post_init__(self) -> None:
        assert len(self.times_s) == len(self.values), self.name


@dataclass(frozen=True)
class Event:
    """Something that happened at a moment, or from one moment to another.

    Attributes:
        kind: "checkpoint", "vacuum", "analyze", "deadlock", "lock wait", "temporary file", "error",
            "holder" …
        end_s: None where it happened at `start_s`, or its end is not known.
        text: what else is known of it, without a full stop: "84 % of it for WAL volume".
        count: how many alike are told by this one, where there were too many to keep each.
    """

    kind: str
    start_s: float
    end_s: float | None = None
    text: str = ""
    count: int = 1


@dataclass(frozen=True)
class WaitTime:
    """What the server's processes of one type spent in one wait.

    Attributes:
        backend_type: as pg_stat_activity has it: "client backend".
        wait: type and event, "IO:DataFileRead"; "" is on a processor, or wanting one.
        time_s: of all these processes together, over the window.
    """

    backend_type: str
    wait: str
    time_s: float


@dataclass(frozen=True)
class StatementUse:
    """What one statement came to over the window, from pg_stat_statements.

    Attributes:
        query: its text, constants replaced by parameters.
        plan_s: None where planning is not tracked.
        io_s: of `exec_s` in I/O of tables and indexes; None where that is not timed.
        jit_s: in compiling it; None before PostgreSQL 15.
    """

    query: str
    calls: int
    rows: int
    exec_s: float
    plan_s: float | None
    blocks_hit: int
    blocks_read: int
    blocks_dirtied: int
    temp_blocks_written: int
    wal_bytes: int
    io_s: float | None = None
    jit_s: float | None = None


@dataclass(frozen=True)
class StatementPlan:
    """How the server would run, and ran, one statement of the workload.

    Attributes:
        query: its text, with parameters.
        transaction: the type of transaction that sends it first.
        generic: its plan for any values; None where the server cannot tell, and `missing` says why.
        custom: its plan for values that the workload may send.
        analyzed: the same with actual rows and times; None where it was not run.
        missing: why a plan is not there, or "".
    """

    query: str
    generic: Plan | None = None
    custom: Plan | None = None
    analyzed: Plan | None = None
    missing: str = ""
    transaction: str = ""


@dataclass(frozen=True)
class Stack:
    """How often processes were seen on a processor at one place of their code.

    Attributes:
        frames: functions from the outermost in; the first is the type of process.
    """

    frames: tuple[str, ...]
    samples: int


@dataclass(frozen=True)
class ProcessIoUse:
    """What the server's processes of one kind read and wrote over the window, by system calls.

    Attributes:
        kind: "sessions", "I/O workers", "checkpointer" …; "not attributed" is what processes did
            between the last look at them and their end.
        read_bytes: from the kernel's page cache or a device.
        written_bytes: into the kernel's page cache or to a device.
    """

    kind: str
    read_calls: int
    write_calls: int
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class PageStrip:
    """What the pages of a table held at one moment, from its first page to its last.

    Each column stands for as many neighbouring pages as the others; its numbers are means over those of
    them that were read.

    Attributes:
        relation: with its schema.
        at_s: seconds from the window's start; before and after it, too.
        pages: of the table.
        pages_read: of these, evenly spread.
        page_bytes: of each of them.
        live: line pointers to the newest version of a row.
        old: to a version that is stored still: replaced, deleted or rolled back.
        redirect: to the first version that is left of a HOT chain.
        dead: to no version any more, but index entries may still point to them.
        unused: free to be used again.
        free_bytes: between line pointers and versions.
    """

    relation: str
    at_s: float
    pages: int
    pages_read: int
    page_bytes: int
    live: tuple[float, ...]
    old: tuple[float, ...]
    redirect: tuple[float, ...]
    dead: tuple[float, ...]
    unused: tuple[float, ...]
    free_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        states = (self.live, self.old, self.redirect, self.dead, self.unused, self.free_bytes)
        assert len({len(one) for one in states}) == 1, self.relation


@dataclass(frozen=True)
class UpdateLook:
    """What one update of the workload's took at one moment, when it was run and rolled back.

    Attributes:
        transaction: the type of transaction that sends it first.
        query: its text, with parameters.
        at_s: seconds from the window's start; before and after it, too.
        buffers_hit: blocks of tables and indexes found in shared_buffers.
        buffers_read: read from outside of them.
        rows: that it updated.
        took_s: as the server says; its own measuring is part of it.
        way: how it finds its rows: "index scan of counters by counters_pkey".
        plan: as it ran; None where the look before was found in the same way, and this is not the last.
    """

    transaction: str
    query: str
    at_s: float
    buffers_hit: int
    buffers_read: int
    rows: float
    took_s: float
    way: str
    plan: Plan | None = None

    @property
    def buffers(self) -> int:
        """All blocks that it looked at, each as often as it did."""
        return self.buffers_hit + self.buffers_read


@dataclass(frozen=True)
class Recordings:
    """All that collectors brought from one trial beside numbers.

    Attributes:
        missing: why a collector brought nothing, by its name.
    """

    series: tuple[Series, ...] = ()
    events: tuple[Event, ...] = ()
    waits: tuple[WaitTime, ...] = ()
    statements: tuple[StatementUse, ...] = ()
    plans: tuple[StatementPlan, ...] = ()
    stacks: tuple[Stack, ...] = ()
    process_io: tuple[ProcessIoUse, ...] = ()
    page_strips: tuple[PageStrip, ...] = ()
    update_looks: tuple[UpdateLook, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))


def together(parts: Iterable[Recordings]) -> Recordings:
    """Return what several collectors brought as one."""
    parts = tuple(parts)
    return Recordings(
        series=tuple(x for part in parts for x in part.series),
        events=tuple(sorted((x for part in parts for x in part.events), key=lambda x: x.start_s)),
        waits=tuple(x for part in parts for x in part.waits),
        statements=tuple(x for part in parts for x in part.statements),
        plans=tuple(x for part in parts for x in part.plans),
        stacks=tuple(x for part in parts for x in part.stacks),
        process_io=tuple(x for part in parts for x in part.process_io),
        page_strips=tuple(x for part in parts for x in part.page_strips),
        update_looks=tuple(x for part in parts for x in part.update_looks),
        missing={name: why for part in parts for name, why in part.missing.items()},
    )
