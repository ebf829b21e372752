"""How much WAL was written in the window, and how much of it was full-page images?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Metric, detailed
from pgdrag.collectors.counters import SHARED_STATISTICS_SINCE, CounterCollector, Drawn

# The position is exact and counts every process; the views' counters are handed in later.
_BEFORE_18 = """
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS bytes, wal_records AS records,
       wal_fpi AS images, wal_write AS writes, wal_sync AS syncs,
       CASE WHEN current_setting('track_wal_io_timing') = 'on'
            THEN (1000 * wal_sync_time)::bigint END AS sync_us
  FROM pg_stat_wal
"""
_SINCE_18 = """
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS bytes, wal_records AS records,
       wal_fpi AS images, writes, syncs,
       CASE WHEN current_setting('track_wal_io_timing') = 'on' THEN sync_us END AS sync_us
  FROM pg_stat_wal,
       (SELECT coalesce(sum(writes), 0)::bigint, coalesce(sum(fsyncs), 0)::bigint,
               (1000 * coalesce(sum(fsync_time), 0))::bigint
          FROM pg_stat_io
         WHERE object = 'wal' AND context = 'normal') AS io (writes, syncs, sync_us)
"""
_DETAIL = "{bytes:,} bytes, {records:,} records and {images:,} full-page images of all processes.{warning}"
_SYNC_DETAIL = (
    "With wal_sync_method open_sync or open_datasync each write syncs, and none is counted."
)


class Wal(CounterCollector):
    """WAL of all processes: the insert position, pg_stat_wal, and since 18 pg_stat_io."""

    name: ClassVar[str] = "wal"
    summary: ClassVar[str] = "WAL written, its records, full-page images and syncs"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _BEFORE_18, 180000: _SINCE_18}
    # Without it none of these reached the process that kept them.
    track_counts_before: ClassVar[int] = SHARED_STATISTICS_SINCE
    absent: Mapping[str, str] = {"sync_us": "track_wal_io_timing is off"}
    drawn: ClassVar[tuple[Drawn, ...]] = (
        Drawn("wal_bytes_per_s", "WAL", "bytes/s", ("bytes",)),
        Drawn("full_page_images_per_s", "full-page images", "1/s", ("images",)),
    )
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        *detailed(
            _DETAIL,
            Metric("wal_bytes_per_transaction", "WAL per transaction", "bytes", "bytes/transaction"),
            Metric("wal_records_per_transaction", "WAL records per transaction", "records"),
            Metric("full_page_images_per_transaction", "full-page images per transaction", "images"),
        ),
        Metric("wal_writes_per_transaction", "writes of the WAL per transaction", "writes"),
        Metric("wal_syncs_per_transaction", "WAL syncs per transaction", "syncs", detail=_SYNC_DETAIL),
        Metric("wal_sync_s_per_transaction", "time in WAL syncs per transaction", "sync_us", "s/transaction", size=1e-6),
    )
    # fmt: on
