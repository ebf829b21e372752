"""What is read of a server at one moment, and what do two readings say of the time between them?

A query is a row, or a row for each of several things of a kind. A counter becomes a rate by the time between two readings
of it; what is a number at a moment stands for the time since the reading before. A query that takes long is
asked less often.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, LiteralString, TypeAlias

from pgdrag.collectors import Observer, all_collectors
from pgdrag.collectors.counters import CounterCollector, Drawn
from pgdrag.horizon.sampling import read_oldest
from pgdrag.live.databases import COMMITS, OWN, ROLLBACKS, own_transactions
from pgdrag.model.observed import Quantity, Spread

# Of the time, at most, that one query may take.
MOST_SHARE = 2e-3
FREE_S = 0.03  # what a query may take in any case

# A row a database: one that is dropped takes only its own counts along.
_DATABASES: LiteralString = """
SELECT datid::text AS key, xact_commit AS commits, xact_rollback AS rollbacks, blks_hit AS hits, blks_read AS reads,
       tup_returned + tup_fetched AS read_rows, tup_inserted AS inserted, tup_updated AS updated,
       tup_deleted AS deleted, temp_files, temp_bytes, deadlocks, conflicts,
       (1000 * (blk_read_time + blk_write_time))::bigint AS io_us, sessions
  FROM pg_stat_database
"""
_WAL: LiteralString = """
SELECT '' AS key, wal_bytes::bigint AS wal_bytes, wal_records, wal_fpi, wal_buffers_full FROM pg_stat_wal
"""
_CHECKPOINTS_SINCE_17: LiteralString = """
SELECT '' AS key, num_timed AS timed, num_requested AS requested, buffers_written AS written,
       (1000 * sync_time)::bigint AS sync_us, buffers_clean AS cleaned, buffers_alloc AS allocated
  FROM pg_stat_checkpointer, pg_stat_bgwriter
"""
_CHECKPOINTS_BEFORE_17: LiteralString = """
SELECT '' AS key, checkpoints_timed AS timed, checkpoints_req AS requested, buffers_checkpoint AS written,
       (1000 * checkpoint_sync_time)::bigint AS sync_us, buffers_clean AS cleaned, buffers_alloc AS allocated
  FROM pg_stat_bgwriter
"""
_TABLES: LiteralString = """
SELECT relid::text AS key, seq_tup_read, n_dead_tup AS dead, vacuum_count + autovacuum_count AS vacuums,
       analyze_count + autoanalyze_count AS analyzes
  FROM pg_stat_user_tables
"""
_REPLICATION: LiteralString = """
SELECT count(*) AS standbys,
       coalesce(max(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                    ELSE pg_current_wal_lsn() END, replay_lsn)), 0)::float8 AS lag
  FROM pg_stat_replication
"""
_AGE: LiteralString = "SELECT max(age(datfrozenxid)) AS age FROM pg_database"


def _us(name: str, label: str, *counters: str) -> Drawn:
    return Drawn(name, label, "count", counters, 1e-6)


Counters: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclass
class Group:
    """What one query, or one account of the host's, says.

    Attributes:
        queries: by the server's version from which on each holds; rows with a "key", and counters.
        rates: what becomes of the counters.
        gauges: of the columns that are not counters: the sums over all rows.
        is_small: it has a row or a few, however large the server is; if it takes long, it is the server that is busy.
        was_reset: between the last two readings a counter fell.
    """

    name: str
    queries: Mapping[int, LiteralString] = field(default_factory=dict)
    rates: tuple[Drawn, ...] = ()
    gauges: Mapping[str, Quantity] = field(default_factory=dict)
    is_of_machine: bool = False
    is_small: bool = False
    was_reset: bool = False
    _then: Counters | None = None
    _read_s: float = 0.0
    _took_s: float = 0.0

    def read(self, observer: Observer) -> list[dict[str, Any]]:
        """Return the rows.

        Raises:
            Unseen: they cannot be read here.
        """
        since = max(x for x in self.queries if x <= observer.server_version_num)
        return observer.table(self.queries[since])

    def forget(self) -> None:
        """Begin anew: the time until the next reading is not known."""
        self._then = None

    def is_due(self, now_s: float) -> bool:
        """Whether it may be asked again without taking more than its share of the time."""
        if self.is_small or self._then is None:
            return True
        return self._took_s <= max(MOST_SHARE * (now_s - self._read_s), FREE_S)

    def since_last(self, observer: Observer) -> Iterator[tuple[str, Spread]]:
        """Read again, and yield what the time since the last reading showed.

        Raises:
            Unseen: see `read`.
        """
        begin_s = time.monotonic()
        rows = self.read(observer)
        now_s = time.monotonic()
        self._took_s = now_s - begin_s
        then, read_s = self._then, self._read_s
        gauges = {x: sum(float(row.pop(x) or 0) for row in rows) for x in self.gauges}
        now = {
            str(row.pop("key", "")): {x: int(n) for x, n in row.items() if n is not None}
            for row in rows
        }
        self._then, self._read_s = now, begin_s
        length_s = begin_s - read_s
        if then is None or length_s <= 0:
            return
        for column, quantity in self.gauges.items():
            yield quantity.name, _flat(gauges[column], length_s)
        moved, fallen = _growth(then, now)
        self.was_reset = bool(fallen)
        for rate in self.rates:
            value = rate.between(dict.fromkeys(moved, 0), moved, length_s)
            if value is not None:
                yield rate.name, _flat(value, length_s)

    def quantities(self) -> Iterator[Quantity]:
        """Yield all that it may say."""
        for one in self.rates:
            yield Quantity(one.name, one.label, one.unit, self.is_of_machine)
        yield from self.gauges.values()


def _growth(then: Counters, now: Counters) -> tuple[dict[str, int], set[str]]:
    """Return by how much each counter grew in all rows, a new row from 0 on; and which fell: they were reset."""
    moved: dict[str, int] = {}
    fallen: set[str] = set()
    for key, counters in now.items():
        before = then.get(key, {})
        for name, count in counters.items():
            by = count - before.get(name, 0)
            moved[name] = moved.get(name, 0) + by
            if by < 0:
                fallen.add(name)
    return {name: by for name, by in moved.items() if name not in fallen}, fallen


def _flat(value: float, length_s: float) -> Spread:
    return Spread(value, value, value, length_s)


class HostGroup(Group):
    """An account of the kernel's, where the server runs here: what its collector draws in a trial."""

    def __init__(self, collector: CounterCollector) -> None:
        super().__init__(
            collector.name, rates=collector.drawn, is_of_machine=collector.is_of_machine
        )
        self._collector = collector

    def read(self, observer: Observer) -> list[dict[str, Any]]:
        """Return one row."""
        return [dict(self._collector.read_drawn(observer))]


class DatabasesGroup(Group):
    """The counters of all databases, and the observer's own transactions, to be taken off."""

    def read(self, observer: Observer) -> list[dict[str, Any]]:
        """Return a row for each database, and one for the observer."""
        return [*super().read(observer), {"key": OWN, **own_transactions(observer)}]


class HorizonGroup(Group):
    """The age of the oldest transaction that any snapshot may still need."""

    def __init__(self) -> None:
        quantity = Quantity(
            "horizon_age", "transactions since the oldest that may still be seen", "count"
        )
        super().__init__("horizon", gauges={"age": quantity})

    def read(self, observer: Observer) -> list[dict[str, Any]]:
        """Return one row."""
        return [{"age": read_oldest(observer.query)[0]}]


def all_groups() -> list[Group]:
    """Return all that is read in each sample, without any reading yet."""
    return [
        DatabasesGroup(
            "databases",
            {0: _DATABASES},
            (
                COMMITS,
                ROLLBACKS,
                Drawn("rows_read_per_s", "rows read from tables and indexes", "1/s", ("read_rows",)),
                Drawn("rows_changed_per_s", "rows inserted, updated or deleted", "1/s", ("inserted", "updated", "deleted")),
                Drawn("blocks_hit_per_s", "blocks found in shared_buffers", "1/s", ("hits",)),
                Drawn("blocks_read_per_s", "blocks read into shared_buffers", "1/s", ("reads",)),
                _us("timed_io_sessions", "sessions in I/O of tables and indexes (track_io_timing)", "io_us"),
                Drawn("temp_bytes_per_s", "written to temporary files", "bytes/s", ("temp_bytes",)),
                Drawn("deadlocks_per_s", "deadlocks", "1/s", ("deadlocks",)),
                Drawn("conflicts_per_s", "queries cancelled for replay", "1/s", ("conflicts",)),
                Drawn("sessions_begun_per_s", "sessions begun", "1/s", ("sessions",)),
            ),
            is_small=True,
        ),
        Group(
            "wal",
            {0: _WAL},
            (
                Drawn("wal_bytes_per_s", "WAL", "bytes/s", ("wal_bytes",)),
                Drawn("full_page_images_per_s", "full-page images", "1/s", ("wal_fpi",)),
                Drawn("wal_records_per_s", "WAL records", "1/s", ("wal_records",)),
                Drawn("wal_buffers_full_per_s", "WAL written because its buffers were full", "1/s", ("wal_buffers_full",)),
            ),
            is_small=True,
        ),
        Group(
            "checkpoints",
            {0: _CHECKPOINTS_BEFORE_17, 170000: _CHECKPOINTS_SINCE_17},
            (
                Drawn("timed_checkpoints_per_s", "checkpoints because it was time", "1/s", ("timed",)),
                Drawn("requested_checkpoints_per_s", "checkpoints for WAL volume or on request", "1/s", ("requested",)),
                Drawn("checkpoint_buffers_per_s", "buffers written by checkpoints", "1/s", ("written",)),
                Drawn("bgwriter_buffers_per_s", "buffers written by the background writer", "1/s", ("cleaned",)),
                Drawn("buffers_allocated_per_s", "buffers allocated", "1/s", ("allocated",)),
            ),
            is_small=True,
        ),
        Group(
            "tables",
            {0: _TABLES},
            (
                Drawn("seq_tuples_per_s", "rows read by sequential scans of this database", "1/s", ("seq_tup_read",)),
                Drawn("vacuums_per_s", "vacuums of this database's tables", "1/s", ("vacuums",)),
                Drawn("analyzes_per_s", "analyzes of this database's tables", "1/s", ("analyzes",)),
            ),
            {"dead": Quantity("dead_versions", "dead row versions in this database", "count")},
        ),
        Group(
            "replication",
            {0: _REPLICATION},
            gauges={
                "standbys": Quantity("standbys", "connected standbys", "count"),
                "lag": Quantity("replay_lag_bytes", "WAL that the slowest standby has not replayed", "bytes"),
            },
        ),
        Group("age", {0: _AGE}, gauges={"age": Quantity("frozen_age", "transactions since the oldest unfrozen one", "count")}),
        HorizonGroup(),
        *(HostGroup(kind()) for kind in all_collectors().values() if issubclass(kind, CounterCollector) and kind.is_of_machine),
    ]  # fmt: skip
