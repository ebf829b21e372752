"""How much of what the workload's sessions needed was in shared_buffers?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Window, detailed
from pgdrag.collectors.counters import CounterCollector, Drawn

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
_DATABASE = """
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
        0: _DATABASE,
        160000: _SESSIONS_SINCE_16,
        180000: _SESSIONS_SINCE_18,
    }
    # Of the two views only pg_stat_database depends on it.
    track_counts_before: ClassVar[int] = 160000
    drawn: ClassVar[tuple[Drawn, ...]] = (
        Drawn("blocks_read_per_s", "blocks read into shared_buffers", "1/s", ("reads",)),
    )
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{hits:,} blocks were found and {reads:,} read {source}.{warning}",
        Metric("buffer_hit_ratio", "blocks found in shared_buffers", "hits", "ratio", _NEEDED, nothing="no block was needed in the window"),
        Metric("blocks_needed_per_transaction", "blocks needed, in shared_buffers or not, per transaction", _NEEDED),
        Metric("blocks_read_per_transaction", "blocks read into shared_buffers per transaction", "reads"),
        Metric("blocks_read_per_s", "blocks read into shared_buffers per second", "reads", "1/s"),
    )
    # fmt: on

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return whose blocks they are."""
        source = (
            "by sessions and their parallel workers (pg_stat_io)"
            if self.server_version_num >= 160000
            else "in the workload's database, autovacuum's included (pg_stat_database)"
        )
        return {**super().words(amounts, window), "source": source}
