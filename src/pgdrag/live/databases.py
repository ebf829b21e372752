"""What did the whole server count in the window? Transactions, checkpoints, WAL, temporary files, archiving."""

from __future__ import annotations

from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Observer, Window
from pgdrag.collectors.counters import SHARED_STATISTICS_SINCE, CounterCollector, Counters, Drawn

_DATABASES: LiteralString = """
SELECT sum(xact_commit)::bigint AS commits, sum(xact_rollback)::bigint AS rollbacks,
       sum(deadlocks)::bigint AS deadlocks, sum(temp_bytes)::bigint AS temp_bytes,
       sum(temp_files)::bigint AS temp_files, sum(conflicts)::bigint AS conflicts,
       sum(sessions)::bigint AS sessions, sum(sessions_killed + sessions_abandoned + sessions_fatal)::bigint AS lost,
       (1000 * sum(active_time))::bigint AS active_us,
       (1000 * sum(idle_in_transaction_time))::bigint AS idle_in_transaction_us,
       sum(blks_hit)::bigint AS hits, sum(blks_read)::bigint AS reads,
       sum(tup_returned)::bigint AS returned, sum(tup_fetched)::bigint AS fetched
  FROM pg_stat_database
"""
_CHECKPOINTS_BEFORE_17: LiteralString = """
SELECT checkpoints_timed AS timed, checkpoints_req AS requested, buffers_checkpoint AS checkpoint_buffers,
       (1000 * checkpoint_write_time)::bigint AS write_us, (1000 * checkpoint_sync_time)::bigint AS sync_us
  FROM pg_stat_bgwriter
"""
_CHECKPOINTS_SINCE_17: LiteralString = """
SELECT num_timed AS timed, num_requested AS requested, buffers_written AS checkpoint_buffers,
       (1000 * write_time)::bigint AS write_us, (1000 * sync_time)::bigint AS sync_us
  FROM pg_stat_checkpointer
"""
_WAL: LiteralString = """
SELECT wal_bytes::bigint AS wal_bytes, wal_records, wal_fpi, wal_buffers_full
  FROM pg_stat_wal
"""
_COMMITTED: LiteralString = "SELECT sum(xact_commit)::bigint FROM pg_stat_database"
_FLUSH: LiteralString = "SELECT pg_stat_force_next_flush()"
_ARCHIVER: LiteralString = (
    "SELECT archived_count AS archived, failed_count AS archive_failures FROM pg_stat_archiver"
)
# Each query of an observer's is a transaction, too, and none of the server's load; one that is refused is rolled back.
OWN, OWN_REFUSED = "own", "own_refused"
COMMITS = Drawn("commits_per_s", "transactions committed", "1/s", ("commits",), less=(OWN,))
ROLLBACKS = Drawn("rollbacks_per_s", "transactions rolled back", "1/s", ("rollbacks",), less=(OWN_REFUSED,))  # fmt: skip


def own_transactions(observer: Observer) -> Counters:
    """Return the counters of the observer's own transactions."""
    return {OWN: observer.queries - observer.refused, OWN_REFUSED: observer.refused}


def hand_in_own(observer: Observer) -> None:
    """Have the server count the observer's own transactions now, so that the next reading has all of them.

    Raises:
        Unseen: see `Observer.query`.
    """
    if observer.server_version_num >= SHARED_STATISTICS_SINCE:
        observer.query(_FLUSH)


class ServerCounters(CounterCollector):
    """Counters of all databases together, of checkpoints, of WAL and of archiving, per second."""

    name: ClassVar[str] = "server"
    summary: ClassVar[str] = (
        "transactions, checkpoints, WAL and temporary files of the whole server"
    )
    drawn: ClassVar[tuple[Drawn, ...]] = (COMMITS,)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("commits_per_s", "transactions committed per second, on the whole server", "commits", "1/s"),
        Metric("rollbacks_per_s", "transactions rolled back per second", "rollbacks", "1/s"),
        Metric("rollback_share", "share of rolled back transactions", "rollbacks", "ratio", ("commits", "rollbacks"), nothing="no transaction ended in the window"),
        Metric("deadlocks_per_s", "deadlocks per second", "deadlocks", "1/s", detail="{deadlocks} in the window."),
        Metric("temp_bytes_per_s", "bytes written to temporary files per second", "temp_bytes", "bytes/s", detail="{temp_files:,} files."),
        Metric("temp_files_per_s", "temporary files per second", "temp_files", "1/s"),
        Metric("new_sessions_per_s", "sessions that began per second", "sessions", "1/s"),
        Metric("lost_sessions_per_s", "sessions that were killed, abandoned or ended by errors per second", "lost", "1/s"),
        Metric("sessions_per_transaction", "sessions that began per transaction", "sessions", "ratio", "commits", nothing="no transaction was committed in the window"),
        Metric("timed_checkpoints_per_s", "checkpoints begun by time per second", "timed", "1/s"),
        Metric("requested_checkpoints_per_s", "checkpoints requested (WAL volume, or a command) per second", "requested", "1/s", detail="{requested} in the window."),
        Metric("checkpoint_sync_share", "share of the time in which a checkpoint synced files", "sync_us", "ratio", "observed_us"),
        Metric("wal_bytes_per_s", "WAL per second", "wal_bytes", "bytes/s"),
        Metric("full_page_images_per_s", "full page images in WAL per second", "wal_fpi", "1/s"),
        Metric("wal_buffers_full_per_s", "WAL writes because wal_buffers were full, per second", "wal_buffers_full", "1/s"),
        Metric("archive_failures_per_s", "failures to archive WAL per second", "archive_failures", "1/s", detail="{archive_failures} in the window."),
        Metric("server_buffer_hit_ratio", "blocks found in shared_buffers, of all databases", "hits", "ratio", ("hits", "reads"), nothing="no block was needed in the window"),
        Metric("server_blocks_read_per_s", "blocks read into shared_buffers per second, of all databases", "reads", "1/s"),
    )  # fmt: skip

    def read(self, observer: Observer) -> Counters:
        is_new = observer.server_version_num >= 170000
        checkpoints = _CHECKPOINTS_SINCE_17 if is_new else _CHECKPOINTS_BEFORE_17
        found: dict[str, int] = {}
        hand_in_own(observer)
        for sql in (_DATABASES, checkpoints, _WAL, _ARCHIVER):
            [row] = observer.table(sql)
            found |= row
        return {**found, **own_transactions(observer)}

    def read_drawn(self, observer: Observer) -> Counters:
        [(commits,)] = observer.query(_COMMITTED)
        return {"commits": commits, **own_transactions(observer)}

    def amounts(self, window: Window) -> Amounts:
        moved = self.moved()
        ended = {"commits": self.committed(), "rollbacks": round(ROLLBACKS.grown(moved))}
        return {**moved, **ended, "observed_us": round(self.observed_s * 1e6)}

    def committed(self) -> int:
        """Return how many transactions others committed.

        Raises:
            Unseen: the counters could not be read, or were reset.
        """
        return round(COMMITS.grown(self.moved()))
