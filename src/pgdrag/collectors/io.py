"""Which of the server's processes moved blocks between its memory and the files?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Unseen, Window
from pgdrag.collectors._metric import most_named, of_kind
from pgdrag.collectors.counters import CounterCollector
from pgdrag.servers.processes import CLIENT_BACKEND

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
    """pg_stat_io, of relations, by type of backend."""

    name: ClassVar[str] = "io"
    summary: ClassVar[str] = "blocks read, written, evicted and synchronised by type of backend"
    queries: ClassVar[Mapping[int, LiteralString]] = {160000: _IO}
    too_old: ClassVar[str] = "pg_stat_io is there since PostgreSQL 16"
    absent: Mapping[str, str] = {"time_us": "track_io_timing is off"}
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("session_writes_per_transaction", "blocks that sessions had to write themselves per transaction", "session writes", detail="{warning}"),
        Metric("block_writes_per_transaction", "blocks written per transaction", "writes *", detail="{writes by type}{warning}"),
        Metric("evictions_per_transaction", "blocks evicted from shared_buffers per transaction", "evictions *", detail="{evictions by type}{warning}"),
        Metric("fsyncs_per_transaction", "fsyncs of relations per transaction", "fsyncs *", detail="{fsyncs by type}{warning}"),
        Metric("io_s_per_transaction", "time in I/O of relations per transaction", "time_us", "s/transaction", size=1e-6),
    )
    # fmt: on

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return the counters, named "OPERATION BACKEND TYPE", and two sums of them."""
        moved = self.moved()
        if isinstance(moved, Unseen):
            return moved
        times = of_kind(moved, "time_us")
        timed = {"time_us": sum(times.values())} if times else {}
        return {**moved, **timed, "session writes": moved.get(f"writes {CLIENT_BACKEND}", 0)}

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return which types of backend did most."""
        by_type = {
            f"{operation} by type": most_named("By type of backend", of_kind(amounts, operation))
            for operation in ("writes", "evictions", "fsyncs")
        }
        return {**super().words(amounts, window), **by_type}
