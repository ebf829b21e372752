"""What did collectors record beside numbers? What happened when, and tables that say more than a sum.

An `Observation` is one number over the measured window, and all verdicts are made of those. Recordings
let a reader look closer: series, events, profiles. Times are seconds from the window's start; they are
negative, or beyond its end, for what began before it or ended after it.

A kind of recording is a subclass of `Recording`. The kinds below are those that pgdrag ships; a plug-in
defines its own beside its collector, and its report section asks for them with `Recordings.of`. The
journal keeps each under its key, so nothing here needs to know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pgdrag.adapters import FINITE, adapter_of, first_mistake
from pgdrag.errors import JournalError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

# Types of processes that work for clients, as pg_stat_activity has them.
SESSION_TYPES = ("client backend", "parallel worker")
# A session that waits for its client, or that was told to sleep, loses nothing to the server.
_NOT_AT_WORK = ("Client:", "Timeout:PgSleep", "Activity:")
# The kind of the events that say when collectors sampled, and when they paused, where they took turns.
TURN = "collectors' turn"
LOOKING, RESTING = "looking", "resting"
# The kind of the events for each hold of the horizon that pgdrag itself made.
HOLD_EVENT = "hold"
# As EXPLAIN (FORMAT JSON) has it: the object below "Plan", with "JIT" of the whole where that is there,
# and without what is false and buffers that are 0.
Plan = Mapping[str, object]


class Recording:
    """The base class of all kinds of recordings: each is a frozen dataclass that JSON can hold.

    Attributes:
        key: under which the journal and the JSON report keep recordings of this kind; no other kind
            may have it.
    """

    key: ClassVar[str]
    __pydantic_config__: ClassVar[Mapping[str, object]] = FINITE


R = TypeVar("R", bound=Recording)

SeriesUnit = Literal["ratio", "1/s", "bytes/s", "bytes", "s", "count"]


# Series of all statements of the workload's database, as pg_stat_statements counts them.
CALLS = "calls_per_s"
ROWS = "rows_per_s"


@dataclass(frozen=True)
class Series(Recording):
    """One quantity over the window.

    Attributes:
        name: `snake_case`, unit last: "wal_bytes_per_s".
        label: for people: "WAL".
        unit: "ratio" (0…1), "1/s", "bytes/s", "bytes", "s" or "count".
        times_s: the end of each interval, growing.
        values: of each interval, in `unit`: raw differences, not smoothed.
        is_of_machine: of all that runs on the server's machine.
    """

    key: ClassVar[str] = "series"
    name: str
    label: str
    unit: SeriesUnit
    times_s: tuple[float, ...]
    values: tuple[float, ...]
    is_of_machine: bool = False

    def __post_init__(self) -> None:
        assert len(self.times_s) == len(self.values), self.name


@dataclass(frozen=True)
class Event(Recording):
    """Something that happened at a moment, or from one moment to another.

    Attributes:
        kind: "checkpoint", "vacuum", "analyze", "deadlock", "lock wait", "temporary file", "error",
            "holder" …
        end_s: None where it happened at `start_s`, or its end is not known.
        text: what else is known of it, without a full stop: "84 % of it for WAL volume".
        count: how many events of this kind it represents, if there were too many to keep each.
    """

    key: ClassVar[str] = "events"
    kind: str
    start_s: float
    end_s: float | None = None
    text: str = ""
    count: int = 1


def is_at_work(wait: str) -> bool:
    """Whether a session in a wait, "Type:Event", is at work for its client, be it that it waits for the server."""
    return not wait.startswith(_NOT_AT_WORK)


@dataclass(frozen=True)
class WaitTime(Recording):
    """What the server's processes of one type spent in one wait.

    Attributes:
        backend_type: as pg_stat_activity has it: "client backend".
        wait: type and event, "IO:DataFileRead"; "" is on a processor, or wanting one.
        time_s: of all these processes together, over the window.
    """

    key: ClassVar[str] = "waits"
    backend_type: str
    wait: str
    time_s: float


@dataclass(frozen=True)
class StatementUse(Recording):
    """The totals of one statement over the window, from pg_stat_statements.

    Attributes:
        query: its text, constants replaced by parameters.
        plan_s: None where planning is not tracked.
        io_s: of `exec_s` in I/O of tables and indexes; None where that is not timed.
        jit_s: in compiling it; None before PostgreSQL 15.
    """

    key: ClassVar[str] = "statements"
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

    @property
    def time_s(self) -> float:
        """In execution, and in planning where that is tracked."""
        return self.exec_s + (self.plan_s or 0.0)


@dataclass(frozen=True)
class StatementPlan(Recording):
    """How the server would run, and ran, one statement of the workload.

    Attributes:
        query: its text, with parameters.
        transaction: the type of transaction that sends it first.
        generic: its plan for any values; None where the server cannot tell, and `missing` says why.
        custom: its plan for values that the workload may send.
        analyzed: the same with actual rows and times; None where it was not run.
        missing: why a plan is not there, or "".
    """

    key: ClassVar[str] = "plans"
    query: str
    generic: Plan | None = None
    custom: Plan | None = None
    analyzed: Plan | None = None
    missing: str = ""
    transaction: str = ""

    def __post_init__(self) -> None:
        plans = (self.generic, self.custom, self.analyzed)
        assert all(plan is None or _is_plan(plan) for plan in plans), self.query


def _is_plan(node: object) -> bool:
    if not isinstance(node, Mapping):
        return False
    below = node.get("Plans", [])
    return isinstance(below, Sequence) and all(map(_is_plan, below))


@dataclass(frozen=True)
class Stack(Recording):
    """How often processes were seen on a processor at one place of their code.

    Attributes:
        frames: functions from the outermost in; the first is the type of process.
    """

    key: ClassVar[str] = "stacks"
    frames: tuple[str, ...]
    samples: int


@dataclass(frozen=True)
class ProcessIoUse(Recording):
    """What the server's processes of one kind read and wrote over the window, by system calls.

    Attributes:
        kind: "sessions", "I/O workers", "checkpointer" …; "not attributed" is what processes did
            between the last look at them and their end.
        read_bytes: from the kernel's page cache or a device.
        written_bytes: into the kernel's page cache or to a device.
    """

    key: ClassVar[str] = "process_io"
    kind: str
    read_calls: int
    write_calls: int
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class PageStrip(Recording):
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

    key: ClassVar[str] = "page_strips"
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
class ChainLink:
    """A line pointer of a HOT chain, as the page has it.

    Attributes:
        line_pointer: its number on the page, from 1.
        state: "redirect", "old" or "live", as in `PageStrip`.
        next_block, next_line_pointer: of a version its ctid, which is its own where no later one has replaced it;
            of a redirect the line pointer that it stands for.
        xmin, xmax: the transactions that made and ended it; 0 of a redirect, and an xmax of 0 where none has.
        is_heap_only: no index entry points to it.
    """

    line_pointer: int
    state: Literal["redirect", "old", "live"]
    next_block: int
    next_line_pointer: int
    xmin: int = 0
    xmax: int = 0
    is_heap_only: bool = False


@dataclass(frozen=True)
class HotChain(Recording):
    """The longest HOT chain on the pages of a table that were read at one moment.

    Attributes:
        relation: with its schema.
        at_s: seconds from the window's start; before and after it, too.
        block: the number of its page.
        versions: in the chain.
        first: its first line pointers; all of a short one.
        last: the last of a long one, behind some that are not kept.
    """

    key: ClassVar[str] = "hot_chains"
    relation: str
    at_s: float
    block: int
    versions: int
    first: tuple[ChainLink, ...]
    last: tuple[ChainLink, ...] = ()


@dataclass(frozen=True)
class UpdateSample(Recording):
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
        plan: as it ran; None where the sample before was found in the same way, and this is not the last.
    """

    key: ClassVar[str] = "update_looks"
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
        """All accesses to blocks."""
        return self.buffers_hit + self.buffers_read


# The kinds whose keys the JSON report always has.
SHIPPED: tuple[type[Recording], ...] = (
    *(Series, Event, WaitTime, StatementUse, StatementPlan),
    *(Stack, ProcessIoUse, PageStrip, HotChain, UpdateSample),
)


class Recordings:
    """All recordings of one trial, of any kinds.

    A journal is read without knowing the kinds in it: values stay as JSON until `of` asks for them. So
    recordings of a plug-in that is no longer installed are kept, too.

    Attributes:
        missing: why a collector recorded nothing, by its name.
    """

    def __init__(
        self, values: Iterable[Recording] = (), missing: Mapping[str, str] | None = None
    ) -> None:
        self.missing: Mapping[str, str] = dict(missing or {})
        self._by_key: dict[str, list[Any]] = {}
        for value in values:
            self._by_key.setdefault(value.key, []).append(value)

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """Return the recordings of one kind, in the order in which they were recorded.

        Raises:
            JournalError: they were read from a journal, and are not of this kind.
        """
        stored = self._by_key.get(kind.key, [])
        if any(not isinstance(value, kind) for value in stored):
            stored = self._by_key[kind.key] = [_typed(kind, value) for value in stored]
        return tuple(stored)

    @property
    def series(self) -> tuple[Series, ...]:
        """All series."""
        return self.of(Series)

    @property
    def events(self) -> tuple[Event, ...]:
        """All events."""
        return self.of(Event)

    def as_json(self) -> dict[str, Any]:
        """Return the recordings by their keys, and `missing` under its own."""
        shipped: dict[str, Any] = {kind.key: [] for kind in SHIPPED}
        return {**shipped, **self._by_key, "missing": self.missing}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Recordings:
        """Return recordings whose values are what `as_json` made of them, read back.

        Raises:
            ValueError: they are something else.
        """
        if not isinstance(stored, Mapping):
            raise ValueError("recordings are a table")
        by_key = {key: x for key, x in stored.items() if key != "missing" and x}
        missing = stored.get("missing") or {}
        if not isinstance(missing, Mapping) or not all(
            isinstance(x, list) for x in by_key.values()
        ):
            raise ValueError("recordings are a table of lists, by kind")
        found = cls(missing={str(name): str(why) for name, why in missing.items()})
        found._by_key = {key: list(x) for key, x in by_key.items()}
        return found

    def __bool__(self) -> bool:
        return bool(self._by_key or self.missing)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recordings):
            return NotImplemented
        from pydantic_core import to_jsonable_python

        # One of them may have been read from a journal, and not be typed yet.
        mine, others = (to_jsonable_python(one.as_json()) for one in (self, other))
        return bool(mine == others)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Recordings({self.as_json()})"

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else cls.from_json(value),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.as_json),
        )


def together(parts: Iterable[Recordings]) -> Recordings:
    """Return the recordings of several collectors as one; events in the order of time."""
    whole = Recordings()
    for part in parts:
        whole.missing = {**whole.missing, **part.missing}
        for key, values in part._by_key.items():
            whole._by_key.setdefault(key, []).extend(values)
    if Event.key in whole._by_key:
        whole._by_key[Event.key] = sorted(whole.events, key=lambda event: event.start_s)
    return whole


def _typed(kind: type[R], value: Any) -> R:
    if isinstance(value, kind):
        return value
    from pydantic import ValidationError

    try:
        return adapter_of(kind).validate_python(value)
    except ValidationError as error:
        raise JournalError(
            "recordings of a trial cannot be read",
            detail=f"{first_mistake(error, kind.key)}.",
            hint="Another version of pgdrag, or of a plug-in, may have written them.",
        ) from None
