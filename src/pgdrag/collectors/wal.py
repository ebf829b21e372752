"""How much WAL did the window write, and how much of it was full-page images?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import (
    SHARED_STATISTICS_SINCE,
    CounterCollector,
    Counters,
    Drawn,
    attempt,
    per_transaction,
    pick,
    require_track_counts,
)
from pgdrag.model import Observation

# The position is exact and counts every process; the views' counters are handed in later.
_SINCE_18 = """
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, wal_records, wal_fpi, writes, syncs,
       sync_us
  FROM pg_stat_wal,
       (SELECT coalesce(sum(writes), 0)::bigint, coalesce(sum(fsyncs), 0)::bigint,
               (1000 * coalesce(sum(fsync_time), 0))::bigint
          FROM pg_stat_io
         WHERE object = 'wal' AND context = 'normal') AS io (writes, syncs, sync_us)
"""
_BEFORE_18 = """
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, wal_records, wal_fpi,
       wal_write, wal_sync, (1000 * wal_sync_time)::bigint
  FROM pg_stat_wal
"""
_COUNTERS = ("bytes", "records", "images", "writes", "syncs", "sync_us")
_IS_TIMED = "SELECT current_setting('track_wal_io_timing')"
_US = 1e-6
_SYNC_DETAIL = (
    "With wal_sync_method open_sync or open_datasync each write syncs, and none is counted."
)


class Wal(CounterCollector):
    """WAL of all processes: the insert position, pg_stat_wal, and since 18 pg_stat_io."""

    name: ClassVar[str] = "wal"
    summary: ClassVar[str] = "WAL written, its records, full-page images and syncs"
    drawn: ClassVar[tuple[Drawn, ...]] = (
        Drawn("wal_bytes_per_s", "WAL", "bytes/s", ("bytes",)),
        Drawn("full_page_images_per_s", "full-page images", "1/s", ("images",)),
    )

    def __init__(self) -> None:
        super().__init__()
        self._is_timed = False

    def before(self, observer: Observer) -> None:
        """Take the first reading."""
        self._is_timed = attempt(lambda: observer.query(_IS_TIMED)) == [("on",)]
        super().before(observer)

    def read(self, observer: Observer) -> Counters:
        """Bytes, records, full-page images, writes and syncs since the cluster was made or counters reset."""
        version = observer.server_version_num
        if version < SHARED_STATISTICS_SINCE:
            # Without it none of these reached the process that kept them.
            require_track_counts(observer)
        [values] = observer.query(_SINCE_18 if version >= 180000 else _BEFORE_18)
        return dict(zip(_COUNTERS, values, strict=True))

    def observations(self, window: Window) -> Sequence[Observation]:
        """Bytes, records, full-page images, writes and syncs per transaction."""
        moved = self.moved()
        sync_us = pick(moved, "sync_us")
        sync_s = sync_us if isinstance(sync_us, Unseen) else sync_us * _US
        if not isinstance(sync_s, Unseen) and not self._is_timed and window.committed:
            sync_s = Unseen("track_wal_io_timing is off")
        detail = ""
        if not isinstance(moved, Unseen):
            detail = (
                f"{moved['bytes']:,} bytes, {moved['records']:,} records and"
                f" {moved['images']:,} full-page images of all processes.{self.doubt}"
            )
        return (
            per_transaction(
                "wal_bytes_per_transaction",
                "WAL per transaction",
                pick(moved, "bytes"),
                window,
                unit="bytes/transaction",
                detail=detail,
            ),
            per_transaction(
                "wal_records_per_transaction",
                "WAL records per transaction",
                pick(moved, "records"),
                window,
                detail=detail,
            ),
            per_transaction(
                "full_page_images_per_transaction",
                "full-page images per transaction",
                pick(moved, "images"),
                window,
                detail=detail,
            ),
            per_transaction(
                "wal_writes_per_transaction",
                "writes of the WAL per transaction",
                pick(moved, "writes"),
                window,
            ),
            per_transaction(
                "wal_syncs_per_transaction",
                "WAL syncs per transaction",
                pick(moved, "syncs"),
                window,
                detail=_SYNC_DETAIL,
            ),
            per_transaction(
                "wal_sync_s_per_transaction",
                "time in WAL syncs per transaction",
                sync_s,
                window,
                unit="s/transaction",
                step=_US,
            ),
        )
