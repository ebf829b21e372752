"""What was seen of an existing server in one window? The values that `pgdrag.live` makes and `findings` read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from pgdrag.model.recordings import Recording, Recordings, is_at_work
from pgdrag.model.result import Observation
from pgdrag.units import with_base_unit


@dataclass(frozen=True)
class LiveWindow:
    """What collectors saw of a server in a window in which others worked on it.

    Attributes:
        started_unix_s, finished_unix_s: by pgdrag's steady clock.
        transactions: committed on the whole server, without pgdrag's own; None where they are unknown.
        observations: one of each metric; what could not be seen has its reason.
        own_queries, own_query_s: what pgdrag asked the server, and for how long it waited for answers.
        own_cpu_s: what the server's process took of a processor to answer; None where that is not seen.
        notes: what happened to the observing itself, in sentences: statistics were reset, the window ended early.
    """

    server: str
    version: str
    started_unix_s: float
    finished_unix_s: float
    transactions: int | None
    observations: tuple[Observation, ...] = ()
    recordings: Recordings = field(default_factory=Recordings)
    own_queries: int = 0
    own_query_s: float = 0.0
    own_cpu_s: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def length_s(self) -> float:
        """Seconds from its begin to its end."""
        return self.finished_unix_s - self.started_unix_s

    @property
    def own_share(self) -> float:
        """The part of a processor that looking took; where that is not seen, of the time that it took."""
        taken_s = self.own_query_s if self.own_cpu_s is None else self.own_cpu_s
        return taken_s / self.length_s if self.length_s > 0 else 0.0

    @cached_property
    def by_name(self) -> Mapping[str, Observation]:
        """The observations by their names."""
        return {one.name: one for one in self.observations}

    def value(self, name: str) -> float | None:
        """Return the value of an observation; None where it was not seen."""
        found = self.by_name.get(name)
        return None if found is None else found.value


@dataclass(frozen=True)
class Blocker(Recording):
    """A session, or a prepared transaction, for whose locks others waited without it waiting for anyone's.

    Attributes:
        pid: 0 of prepared transactions.
        who: its application and user, where known.
        state: as pg_stat_activity has it: "idle in transaction".
        blocked_s: the sessions that waited for it, directly or behind others, times how long they were seen to.
        most_blocked: sessions at once.
        transaction_s: how old its transaction was when last seen.
        command: the first word of its statement, or of the last one.
        locks: what the others waited for, by the wait's event: "transactionid", "relation".
    """

    key: ClassVar[str] = "blockers"
    pid: int
    who: str
    state: str
    blocked_s: float
    most_blocked: int
    transaction_s: float
    command: str
    locks: tuple[str, ...]


@dataclass(frozen=True)
class StatementTime(Recording):
    """Where sessions were with one statement, by samples of pg_stat_activity.

    Attributes:
        query_id: the server's, as pg_stat_statements has it; 0 of all that have none.
        query: its text with parameters; "" where pg_stat_statements does not tell.
        time_s: of all sessions together, over the window.
        waits: seconds by "Type:Event"; "" is without a wait.
    """

    key: ClassVar[str] = "statement_times"
    query_id: int
    query: str
    time_s: float
    waits: Mapping[str, float]

    @property
    def at_work_s(self) -> float:
        """What of that it was at work, and neither waited for its client nor slept."""
        return sum(time_s for wait, time_s in self.waits.items() if is_at_work(wait))


@dataclass(frozen=True)
class TableUse(Recording):
    """What happened to one table in the window, and its state at the end.

    Attributes:
        table: with its schema.
        seq_scans, seq_rows, index_scans: in the window.
        inserted, updated, hot_updated, deleted: rows, in the window.
        vacuums, analyzes: that ended in the window, automatic ones and others.
        live, dead: rows, by the server's statistics, at the end.
        changed: rows changed since the last analyze.
        estimated_rows: the planner's; -1: it was never vacuumed or analyzed.
        bytes: by the planner's count of pages.
        has_statistics: columns of it have some.
        indexes: how many it has.
    """

    key: ClassVar[str] = "table_uses"
    table: str
    seq_scans: int
    seq_rows: int
    index_scans: int
    inserted: int
    updated: int
    hot_updated: int
    deleted: int
    vacuums: int
    analyzes: int
    live: int
    dead: int
    changed: int
    estimated_rows: float
    bytes: int
    has_statistics: bool
    indexes: int


@dataclass(frozen=True)
class CopyOut(Recording):
    """Sessions that copied rows out (COPY … TO), by samples of pg_stat_progress_copy.

    Attributes:
        table: with its schema; "" of a query.
        time_s: of all sessions together, over the window.
        rows_per_s: that one sent since its statement began, at most.
    """

    key: ClassVar[str] = "copies_out"
    table: str
    time_s: float
    rows_per_s: float


@dataclass(frozen=True)
class ServerSetting(Recording):
    """A setting as new sessions of the server's have it.

    Attributes:
        value: in `unit`, as pg_settings has it.
        unit: "8kB", "ms" … or "".
        default: the server's own.
        category: as pg_settings has it: "Query Tuning / Planner Cost Constants".
    """

    key: ClassVar[str] = "server_settings"
    name: str
    value: str
    unit: str
    default: str
    category: str

    @property
    def words(self) -> str:
        """Return it as it may be written into postgresql.conf: `work_mem = 4096kB`."""
        return f"{self.name} = {with_base_unit(self.value, self.unit or None)}"

    @property
    def size(self) -> float | None:
        """Return bytes or seconds where it has a unit; else its number; None where it is none."""
        try:
            number = float(self.value)
        except ValueError:
            return None
        return number * _UNITS.get(self.unit, 1)


_UNITS = {
    "B": 1,
    "kB": 1024,
    "8kB": 8192,
    "16kB": 16384,
    "32kB": 32768,
    "MB": 1 << 20,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "min": 60,
}
