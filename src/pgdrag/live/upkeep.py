"""What may soon stop the server: a full disk, transaction numbers, replication slots that keep WAL?"""

from __future__ import annotations

import os
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, attempt, known
from pgdrag.collectors._metric import NO_READING
from pgdrag.host.allowance import allowance
from pgdrag.units import format_bytes

_AGE: LiteralString = """
SELECT max(age(datfrozenxid)) AS age, max(mxid_age(datminmxid)) AS multixact_age,
       (array_agg(datname::text ORDER BY age(datfrozenxid) DESC))[1] AS oldest,
       current_setting('autovacuum_freeze_max_age')::bigint AS freeze_max_age
  FROM pg_database
"""
_SLOTS: LiteralString = """
SELECT coalesce(max(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
                                         ELSE pg_current_wal_lsn() END, restart_lsn)), 0)::bigint AS slot_bytes,
       coalesce((array_agg(quote_ident(slot_name) || CASE WHEN active THEN ', active' ELSE ', inactive' END
                           ORDER BY restart_lsn))[1], '') AS slot,
       count(*)::int AS slots
  FROM pg_replication_slots WHERE restart_lsn IS NOT NULL
"""
# It fails as long as the last success is older than the last failure.
_ARCHIVER: LiteralString = """
SELECT CASE WHEN last_failed_time > coalesce(last_archived_time, '-infinity')
             AND current_setting('archive_mode') <> 'off'  -- a former failure
            THEN greatest(extract(epoch FROM clock_timestamp() - coalesce(last_archived_time, stats_reset, last_failed_time)), 0)
            ELSE 0 END::float8 AS archive_behind_s,
       coalesce(last_failed_wal, '') AS archive_failed_wal
  FROM pg_stat_archiver
"""
_WAL_LIMITS: LiteralString = """
SELECT (SELECT setting::bigint * 1024 * 1024 FROM pg_settings WHERE name = 'max_wal_size') AS max_wal_bytes
"""
_WAL_SIZE: LiteralString = "SELECT coalesce(sum(size), 0)::bigint AS wal_bytes FROM pg_ls_waldir()"
# The server stops to give out transaction numbers 3 million before half of them are in use.
XID_LIMIT = 2**31 - 3_000_000


class Upkeep(Collector):
    """Age of transaction numbers, WAL kept by slots, and free space of the data directory's file system."""

    name: ClassVar[str] = "upkeep"
    summary: ClassVar[str] = "transaction numbers left, WAL kept for slots, free disk space"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("frozen_age_transactions", "transactions since the oldest that is not frozen", "age", "count", detail='In database "{oldest}".'),
        Metric("frozen_age_share", "share of the transaction numbers in use before the server stops", "age", "ratio", "limit", detail='In database "{oldest}".'),
        Metric("slot_wal_bytes", "WAL kept for the replication slot furthest behind", "slot_bytes", "bytes", detail="{slot}"),
        Metric("archive_behind_s", "time since WAL was last archived, where archiving fails", "archive_behind_s", "s", step=0.001, detail="{archive_failed_wal}"),
        Metric("wal_directory_bytes", "size of pg_wal", "wal_bytes", "bytes", detail="max_wal_size is {max_wal}."),
        Metric("max_wal_bytes", "max_wal_size", "max_wal_bytes", "bytes"),
        Metric("processors", "processors that the server may use", "processors", "count"),
        Metric("disk_free_bytes", "free space of the data directory's file system", "free", "bytes"),
        Metric("disk_used_share", "share in use of the data directory's file system", "used", "ratio", "size", detail="{free words} free of {size words}."),
        Metric("disk_fills_in_s", "time until the data directory's file system is full, at this rate", "fills_in", "s"),
    )  # fmt: skip

    def __init__(self) -> None:
        self._found: dict[str, float | str | Unseen] = {}
        self._began: tuple[int, int] | Unseen = NO_READING
        self._ended: tuple[int, int] | Unseen = NO_READING
        self._processors: float | Unseen = NO_READING

    def before(self, observer: Observer) -> None:
        self._began = attempt(lambda: _space(observer))

    def after(self, observer: Observer) -> None:
        self._ended = attempt(lambda: _space(observer))
        self._processors = attempt(lambda: _processors(observer))
        names = (
            (_AGE, ("age", "oldest")),
            (_SLOTS, ("slot_bytes", "slot")),
            (_WAL_LIMITS, ("max_wal_bytes",)),
            (_ARCHIVER, ("archive_behind_s", "archive_failed_wal")),
            (_WAL_SIZE, ("wal_bytes",)),
        )
        for sql, columns in names:
            rows = attempt(lambda sql=sql: observer.table(sql))  # type: ignore[misc]
            found = dict.fromkeys(columns, rows) if isinstance(rows, Unseen) else rows[0]
            self._found |= found

    def amounts(self, window: Window) -> Amounts:
        if not self._found:
            raise NO_READING
        found = {**self._found, "limit": XID_LIMIT, "processors": self._processors}
        limit = found.get("max_wal_bytes")
        found["max_wal"] = format_bytes(limit) if isinstance(limit, int) else "unknown"
        if found.get("slot"):
            found["slot"] = f"Slot {found['slot']}."
        space = self._ended
        if isinstance(space, Unseen):
            return {**found, **dict.fromkeys(("free", "used", "size", "fills_in"), space)}
        free, size = space
        lost = known(self._began)[0] - free
        steady = Unseen("the free space did not shrink in the window")
        return {
            **found,
            "free": free,
            "used": size - free,
            "size": size,
            "free words": format_bytes(free),
            "size words": format_bytes(size),
            "fills_in": free / (lost / window.length_s) if lost > 0 else steady,
        }


def _processors(observer: Observer) -> float:
    try:
        return allowance(pid=observer.postmaster()).processors
    except OSError as error:
        raise Unseen(f"the server's process cannot be looked at: {error.strerror}") from error


def _space(observer: Observer) -> tuple[int, int]:
    """Return the free and all bytes of the data directory's file system, as an unprivileged user has them."""
    observer.postmaster()
    try:
        found = os.statvfs(observer.cluster.data_directory)
    except OSError as error:
        raise Unseen(f"the data directory cannot be looked at: {error.strerror}") from error
    reserved = found.f_bfree - found.f_bavail
    return found.f_bavail * found.f_frsize, (found.f_blocks - reserved) * found.f_frsize
