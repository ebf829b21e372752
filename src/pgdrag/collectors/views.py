"""What do the server's cumulative statistics say? One collector for each question that a view answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Observer, Window, detailed
from pgdrag.collectors._metric import most_named, of_kind, total
from pgdrag.collectors.counters import (
    ANY_VERSION,
    SHARED_STATISTICS_SINCE,
    CounterCollector,
    Counters,
    Drawn,
)
from pgdrag.servers.processes import CLIENT_BACKEND

# Sessions and their parallel workers; autovacuum, checkpointer and the rest would blur the picture.
_SESSIONS_SINCE_18 = """
SELECT coalesce(sum(hits), 0)::bigint AS hits,
       (coalesce(sum(read_bytes), 0) / current_setting('block_size')::int)::bigint AS reads
  FROM pg_stat_io
 WHERE backend_type IN ('client backend', 'background worker') AND object = 'relation'
"""
# 16 and 17 count a block as a read; 18 counts a read of many blocks as one, but has the bytes.
_SESSIONS_SINCE_16 = """
SELECT coalesce(sum(hits), 0)::bigint AS hits, coalesce(sum(reads), 0)::bigint AS reads
  FROM pg_stat_io
 WHERE backend_type IN ('client backend', 'background worker') AND object = 'relation'
"""
_SESSIONS_BEFORE_16 = """
SELECT blks_hit AS hits, blks_read AS reads
  FROM pg_stat_database
 WHERE datname = current_database()
"""
_NEEDED = ("hits", "reads")


class Buffers(CounterCollector):
    """Hits and misses in shared_buffers: pg_stat_io, before version 16 pg_stat_database."""

    name: ClassVar[str] = "buffers"
    summary: ClassVar[str] = "how many of the blocks needed were found in shared_buffers"
    queries: ClassVar[Mapping[int, LiteralString]] = {
        0: _SESSIONS_BEFORE_16,
        160000: _SESSIONS_SINCE_16,
        180000: _SESSIONS_SINCE_18,
    }
    # Of the two views only pg_stat_database depends on it.
    track_counts_before: ClassVar[int] = 160000
    drawn: ClassVar[tuple[Drawn, ...]] = (
        Drawn("blocks_read_per_s", "blocks read into shared_buffers", "1/s", ("reads",)),
    )
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{hits:,} blocks were found and {reads:,} read {source}.{warning}",
        Metric("buffer_hit_ratio", "blocks found in shared_buffers", "hits", "ratio", _NEEDED, nothing="no block was needed in the window"),
        Metric("blocks_needed_per_transaction", "blocks needed, in shared_buffers or not, per transaction", _NEEDED),
        Metric("blocks_read_per_transaction", "blocks read into shared_buffers per transaction", "reads"),
        Metric("blocks_read_per_s", "blocks read into shared_buffers per second", "reads", "1/s"),
    )  # fmt: skip

    def amounts(self, window: Window) -> Amounts:
        source = (
            "by sessions and their parallel workers (pg_stat_io)"
            if self.server_version_num >= 160000
            else "in the workload's database, autovacuum's included (pg_stat_database)"
        )
        return {**super().amounts(window), "source": source}


_DATABASE = """
SELECT xact_rollback AS rollbacks, deadlocks, temp_bytes AS temporary
  FROM pg_stat_database
 WHERE datname = current_database()
"""


class Database(CounterCollector):
    """The workload's row of pg_stat_database."""

    name: ClassVar[str] = "database"
    summary: ClassVar[str] = "rollbacks, deadlocks and temporary files of the workload's database"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _DATABASE}
    # Rollbacks are counted without it, the others are not.
    track_counts_before: ClassVar[int] = ANY_VERSION
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{warning}",
        Metric("rollbacks_per_transaction", "transactions rolled back per one committed", "rollbacks"),
        Metric("deadlocks_per_transaction", "deadlocks per transaction", "deadlocks"),
        Metric("temp_bytes_per_transaction", "bytes written to temporary files per transaction", "temporary", "bytes/transaction"),
    )  # fmt: skip


_INDEXES = """
SELECT indexrelid::text AS key, schemaname || '.' || indexrelname AS title, idx_scan AS scans,
       idx_tup_read AS entries
  FROM pg_stat_user_indexes
"""
_NAMED_UNUSED = 5


class Indexes(CounterCollector):
    """Scans of each of the workload's indexes: an index that a plan no longer uses shows here."""

    name: ClassVar[str] = "indexes"
    summary: ClassVar[str] = "which of the workload's indexes were used, and which were not"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _INDEXES}
    track_counts_before: ClassVar[int] = ANY_VERSION
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("indexes_used", "indexes that were scanned in the window", "used", "count", detail="{used most} {unused}{warning}"),
        Metric("index_entries_read_per_transaction", "entries read from indexes per transaction", "entries *", detail="{read most}"),
    )  # fmt: skip

    def amounts(self, window: Window) -> Amounts:
        moved = super().amounts(window)
        scans = self.titled(moved, "scans")
        unused = sorted(name for name, count in scans.items() if not count)
        more = f" and {len(unused) - _NAMED_UNUSED} more" if len(unused) > _NAMED_UNUSED else ""
        return {
            **moved,
            "used": sum(map(bool, of_kind(moved, "scans").values())),
            "used most": most_named("Scans by index", scans),
            "unused": f"Not scanned: {', '.join(unused[:_NAMED_UNUSED])}{more}." if unused else "",
            "read most": most_named("Entries by index", self.titled(moved, "entries")),
        }


# Each column is null where an operation cannot happen.
_IO = """
SELECT backend_type AS key,
       coalesce(sum(reads), 0)::bigint AS reads, coalesce(sum(writes), 0)::bigint AS writes,
       coalesce(sum(extends), 0)::bigint AS extends,
       coalesce(sum(evictions), 0)::bigint AS evictions,
       coalesce(sum(fsyncs), 0)::bigint AS fsyncs,
       CASE WHEN current_setting('track_io_timing') = 'on' THEN
            (1000 * sum(coalesce(read_time, 0) + coalesce(write_time, 0) + coalesce(extend_time, 0)
                        + coalesce(writeback_time, 0) + coalesce(fsync_time, 0)))::bigint
            END AS time_us
  FROM pg_stat_io
 WHERE object <> 'wal'
 GROUP BY backend_type
"""


class Io(CounterCollector):
    """pg_stat_io, of relations, by type of backend: who moved blocks between memory and the files."""

    name: ClassVar[str] = "io"
    summary: ClassVar[str] = "blocks read, written, evicted and synchronised by type of backend"
    queries: ClassVar[Mapping[int, LiteralString]] = {160000: _IO}
    too_old: ClassVar[str] = "pg_stat_io exists since PostgreSQL 16"
    absent: Mapping[str, str] = {"time_us": "track_io_timing is off"}
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("session_writes_per_transaction", "blocks that sessions had to write themselves per transaction", "session writes", detail="{warning}"),
        Metric("block_writes_per_transaction", "blocks written per transaction", "writes *", detail="{writes by type}{warning}"),
        Metric("evictions_per_transaction", "blocks evicted from shared_buffers per transaction", "evictions *", detail="{evictions by type}{warning}"),
        Metric("fsyncs_per_transaction", "fsyncs of relations per transaction", "fsyncs *", detail="{fsyncs by type}{warning}"),
        Metric("io_s_per_transaction", "time in I/O of relations per transaction", "time_us", "s/transaction", size=1e-6),
    )  # fmt: skip

    def amounts(self, window: Window) -> Amounts:
        moved = super().amounts(window)
        times = of_kind(moved, "time_us")
        return {
            **moved,
            **({"time_us": sum(times.values())} if times else {}),
            "session writes": moved.get(f"writes {CLIENT_BACKEND}", 0),
            **{
                f"{operation} by type": most_named("By type of backend", of_kind(moved, operation))
                for operation in ("writes", "evictions", "fsyncs")
            },
        }


# One row a table, so that a table that is dropped in the window takes only its own counts along.
_SCANS = """
SELECT relid::text AS key, schemaname || '.' || relname AS title, seq_scan AS seq_scans,
       seq_tup_read AS seq_tuples, coalesce(idx_scan, 0) AS index_scans
  FROM pg_stat_user_tables
"""


class Scans(CounterCollector):
    """Scans of the workload's tables, through indexes or whole (pg_stat_user_tables of its database)."""

    name: ClassVar[str] = "scans"
    summary: ClassVar[str] = "sequential and index scans of the workload's tables"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _SCANS}
    track_counts_before: ClassVar[int] = ANY_VERSION
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{seq_scans:,} sequential scans read {seq_tuples:,} tuples, and there were {index_scans:,} index"
        " scans. {most read}{warning}",
        Metric("seq_scans_per_transaction", "sequential scans per transaction", "seq_scans"),
        Metric("seq_scans_per_s", "sequential scans per second", "seq_scans", "1/s"),
        Metric("seq_tuples_per_transaction", "tuples read by sequential scans per transaction", "seq_tuples"),
        Metric("index_scans_per_transaction", "index scans per transaction", "index_scans"),
        Metric(
            "index_scan_share", "share of index scans among all scans", "index_scans", "ratio", ("seq_scans", "index_scans"),
            nothing="no table was scanned in the window",
        ),
    )  # fmt: skip

    def amounts(self, window: Window) -> Amounts:
        moved = super().amounts(window)
        kinds = ("seq_scans", "seq_tuples", "index_scans")
        return {
            **moved,
            **{kind: total(moved, f"{kind} *") for kind in kinds},
            "most read": most_named("Tuples by table", self.titled(moved, "seq_tuples")),
        }


_SLRU = "SELECT name AS key, blks_hit AS hits, blks_read AS reads FROM pg_stat_slru"
_LOOKUPS = ("reads *", "hits *")
_NAMES_SINCE_17 = {
    "CommitTs": "commit_timestamp",
    "MultiXactMember": "multixact_member",
    "MultiXactOffset": "multixact_offset",
    "Notify": "notify",
    "Serial": "serializable",
    "Subtrans": "subtransaction",
    "Xact": "transaction",
}


class Slru(CounterCollector):
    """Hits and reads of all simple LRU caches, by their names of PostgreSQL 17 and later.

    Long snapshots and savepoints make sessions look up who committed when; what is not in these caches
    is read from files, under locks that all sessions share.
    """

    name: ClassVar[str] = "slru"
    summary: ClassVar[str] = "lookups of transaction status, subtransactions and multixacts"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _SLRU}
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{busiest}",
        Metric("slru_lookups_per_transaction", "lookups in the caches of transaction status per transaction", _LOOKUPS),
        Metric("slru_reads_per_transaction", "blocks of transaction status read per transaction", "reads *"),
        Metric(
            "slru_miss_ratio", "share of transaction status lookups that read a block", "reads *", "ratio", _LOOKUPS,
            nothing="nothing was looked up in the window",
        ),
    )  # fmt: skip

    def amounts(self, window: Window) -> Amounts:
        moved = super().amounts(window)
        self.titles = _NAMES_SINCE_17
        hits, reads = self.titled(moved, "hits"), self.titled(moved, "reads")
        lookups = {cache: hits[cache] + reads[cache] for cache in hits}
        return {**moved, "busiest": most_named("Lookups by cache", lookups)}


_TABLES = """
SELECT coalesce(sum(n_tup_upd), 0)::bigint AS updates,
       coalesce(sum(n_tup_hot_upd), 0)::bigint AS hot_updates,
       coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint AS old_versions,
       coalesce(sum(n_dead_tup), 0)::bigint AS dead,
       coalesce(sum(n_dead_tup + n_live_tup), 0)::bigint AS tuples,
       pg_database_size(current_database()) AS bytes
  FROM pg_stat_user_tables
"""


class Tables(CounterCollector):
    """Updates, dead tuples and size of the workload's tables (pg_stat_user_tables of its database)."""

    name: ClassVar[str] = "tables"
    summary: ClassVar[str] = "updates, HOT updates, dead tuples and growth of the workload's tables"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _TABLES}
    track_counts_before: ClassVar[int] = ANY_VERSION
    metrics: ClassVar[tuple[Metric, ...]] = (
        *detailed(
            "{updates:,} updates, of which {hot_updates:,} were HOT.{warning}",
            Metric("updates_per_transaction", "rows updated per transaction", "updates"),
            Metric(
                "hot_update_share", "share of HOT updates among all updates", "hot_updates", "ratio", "updates", nothing="no row was updated in the window",
            ),
            Metric(
                "hot_version_share", "old row versions left by HOT updates, among those of all updates and deletes", "hot_updates", "ratio",
                "old_versions", nothing="no row was updated or deleted in the window",
            ),
        ),
        Metric(
            "dead_tuple_share", "share of dead tuples at the window's end", "dead", "ratio", "tuples", nothing="the tables are empty",
            detail="{dead:,} dead tuples.",
        ),
        Metric("database_growth_bytes_per_transaction", "growth of the database per transaction", "bytes", "bytes/transaction", step=8192),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, int] = {}

    def read(self, observer: Observer) -> Counters:
        """Read updates so far; what can shrink is kept beside them."""
        found = dict(super().read(observer))
        # What vacuum gave back is not counted against the growth.
        found["bytes"] = max(found["bytes"], self._last.get("bytes", 0))
        self._last = found
        return {name: count for name, count in found.items() if name not in ("dead", "tuples")}

    def amounts(self, window: Window) -> Amounts:
        moved = super().amounts(window)
        return {**moved, "dead": self._last["dead"], "tuples": self._last["tuples"]}


# The position is exact and counts every process; the views' counters are handed in later.
_WAL_BEFORE_18 = """
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS bytes, wal_records AS records,
       wal_fpi AS images, wal_write AS writes, wal_sync AS syncs,
       CASE WHEN current_setting('track_wal_io_timing') = 'on'
            THEN (1000 * wal_sync_time)::bigint END AS sync_us
  FROM pg_stat_wal
"""
_WAL_SINCE_18 = """
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS bytes, wal_records AS records,
       wal_fpi AS images, writes, syncs,
       CASE WHEN current_setting('track_wal_io_timing') = 'on' THEN sync_us END AS sync_us
  FROM pg_stat_wal,
       (SELECT coalesce(sum(writes), 0)::bigint, coalesce(sum(fsyncs), 0)::bigint,
               (1000 * coalesce(sum(fsync_time), 0))::bigint
          FROM pg_stat_io
         WHERE object = 'wal' AND context = 'normal') AS io (writes, syncs, sync_us)
"""


class Wal(CounterCollector):
    """WAL of all processes: the insert position, pg_stat_wal, and since 18 pg_stat_io."""

    name: ClassVar[str] = "wal"
    summary: ClassVar[str] = "WAL written, its records, full-page images and syncs"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _WAL_BEFORE_18, 180000: _WAL_SINCE_18}
    # Without it none of these reached the process that kept them.
    track_counts_before: ClassVar[int] = SHARED_STATISTICS_SINCE
    absent: Mapping[str, str] = {"sync_us": "track_wal_io_timing is off"}
    drawn: ClassVar[tuple[Drawn, ...]] = (
        Drawn("wal_bytes_per_s", "WAL", "bytes/s", ("bytes",)),
        Drawn("full_page_images_per_s", "full-page images", "1/s", ("images",)),
    )
    metrics: ClassVar[tuple[Metric, ...]] = (
        *detailed(
            "{bytes:,} bytes, {records:,} records and {images:,} full-page images of all processes.{warning}",
            Metric("wal_bytes_per_transaction", "WAL per transaction", "bytes", "bytes/transaction"),
            Metric("wal_records_per_transaction", "WAL records per transaction", "records"),
            Metric("full_page_images_per_transaction", "full-page images per transaction", "images"),
        ),
        Metric("wal_writes_per_transaction", "writes of the WAL per transaction", "writes"),
        Metric(
            "wal_syncs_per_transaction", "WAL syncs per transaction", "syncs",
            detail="With wal_sync_method open_sync or open_datasync each write syncs, and none is counted.",
        ),
        Metric("wal_sync_s_per_transaction", "time in WAL syncs per transaction", "sync_us", "s/transaction", size=1e-6),
    )  # fmt: skip
