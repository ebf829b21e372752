"""How much of what the workload's sessions needed was in shared_buffers?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import (
    CounterCollector,
    Counters,
    Drawn,
    per_second,
    per_transaction,
    pick,
    require_track_counts,
    share,
)
from pgdrag.model import Observation

# Sessions and their parallel workers; autovacuum, checkpointer and the rest would blur the picture.
_SESSIONS_SINCE_18 = """
SELECT coalesce(sum(hits), 0)::bigint,
       (coalesce(sum(read_bytes), 0) / current_setting('block_size')::int)::bigint
  FROM pg_stat_io
 WHERE backend_type IN ('client backend', 'background worker') AND object = 'relation'
"""
# 16 and 17 count a block as a read; 18 counts a read of many blocks as one, but has the bytes.
_SESSIONS_SINCE_16 = """
SELECT coalesce(sum(hits), 0)::bigint, coalesce(sum(reads), 0)::bigint
  FROM pg_stat_io
 WHERE backend_type IN ('client backend', 'background worker') AND object = 'relation'
"""
_DATABASE = "SELECT blks_hit, blks_read FROM pg_stat_database WHERE datname = current_database()"


class Buffers(CounterCollector):
    """Hits and misses in shared_buffers: pg_stat_io, before version 16 pg_stat_database."""

    name: ClassVar[str] = "buffers"
    summary: ClassVar[str] = "how many of the blocks needed were found in shared_buffers"
    drawn: ClassVar[tuple[Drawn, ...]] = (
        Drawn("blocks_read_per_s", "blocks read into shared_buffers", "1/s", ("reads",)),
    )

    _source = ""

    def read(self, observer: Observer) -> Counters:
        """Blocks found in and read into shared_buffers."""
        if observer.server_version_num >= 160000:
            self._source = "by sessions and their parallel workers (pg_stat_io)"
            since_18 = observer.server_version_num >= 180000
            [(hits, reads)] = observer.query(_SESSIONS_SINCE_18 if since_18 else _SESSIONS_SINCE_16)
        else:
            self._source = "in the workload's database, autovacuum's included (pg_stat_database)"
            # Of the two views only this one depends on it.
            require_track_counts(observer)
            [(hits, reads)] = observer.query(_DATABASE)
        return {"hits": hits, "reads": reads}

    def observations(self, window: Window) -> Sequence[Observation]:
        """The hit ratio, and misses per transaction and second."""
        moved = self.moved()
        reads = pick(moved, "reads")
        detail = ""
        if not isinstance(moved, Unseen):
            detail = (
                f"{moved['hits']:,} blocks were found and {moved['reads']:,} read"
                f" {self._source}.{self.doubt}"
            )
        return (
            share(
                "buffer_hit_ratio",
                "blocks found in shared_buffers",
                pick(moved, "hits"),
                pick(moved, "hits", "reads"),
                nothing="no block was needed in the window",
                detail=detail,
            ),
            per_transaction(
                "blocks_needed_per_transaction",
                "blocks needed, in shared_buffers or not, per transaction",
                pick(moved, "hits", "reads"),
                window,
                detail=detail,
            ),
            per_transaction(
                "blocks_read_per_transaction",
                "blocks read into shared_buffers per transaction",
                reads,
                window,
                detail=detail,
            ),
            per_second(
                "blocks_read_per_s",
                "blocks read into shared_buffers per second",
                reads,
                self.observed_s,
                detail=detail,
            ),
        )
