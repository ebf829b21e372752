"""What became of the rows: how they were updated, how many are dead, and by how much the tables grew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import (
    CounterCollector,
    Counters,
    per_transaction,
    pick,
    require_track_counts,
    share,
)
from pgdrag.model import Observation

_TUPLES = """
SELECT coalesce(sum(n_tup_upd), 0)::bigint, coalesce(sum(n_tup_hot_upd), 0)::bigint,
       coalesce(sum(n_tup_del), 0)::bigint,
       coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint,
       pg_database_size(current_database())
  FROM pg_stat_user_tables
"""


class Tables(CounterCollector):
    """Updates, dead tuples and size of the workload's tables (pg_stat_user_tables of its database)."""

    name: ClassVar[str] = "tables"
    summary: ClassVar[str] = "updates, HOT updates, dead tuples and growth of the workload's tables"

    def __init__(self) -> None:
        super().__init__()
        self._dead: int | Unseen = Unseen("no reading was taken")
        self._tuples: int | Unseen = self._dead
        self._bytes = 0

    def read(self, observer: Observer) -> Counters:
        """Updates so far; what comes and goes is kept beside them."""
        require_track_counts(observer)
        [(updates, hot_updates, deletes, dead, live, size)] = observer.query(_TUPLES)
        self._dead, self._tuples = dead, dead + live
        # A database that shrank has not grown: what vacuum gave back does not count against it.
        self._bytes = max(self._bytes, size)
        return {
            "updates": updates,
            "hot updates": hot_updates,
            "old versions": updates + deletes,
            "bytes": self._bytes,
        }

    def observations(self, window: Window) -> Sequence[Observation]:
        """Updates per transaction and how many were HOT, dead tuples at the end, and growth."""
        moved = self.moved()
        updates, hot = pick(moved, "updates"), pick(moved, "hot updates")
        unread = moved if isinstance(moved, Unseen) else None
        detail = ""
        if not isinstance(updates, Unseen) and not isinstance(hot, Unseen):
            detail = f"{updates:,} updates, of which {hot:,} were HOT.{self.doubt}"
        return (
            per_transaction(
                "updates_per_transaction",
                "rows updated per transaction",
                updates,
                window,
                detail=detail,
            ),
            share(
                "hot_update_share",
                "HOT updates among all updates",
                hot,
                updates,
                nothing="no row was updated in the window",
                detail=detail,
            ),
            share(
                "hot_version_share",
                "old row versions left by HOT updates, among those of all updates and deletes",
                hot,
                pick(moved, "old versions"),
                nothing="no row was updated or deleted in the window",
                detail=detail,
            ),
            share(
                "dead_tuple_share",
                "dead tuples among all, at the window's end",
                unread or self._dead,
                unread or self._tuples,
                nothing="the tables are empty",
                detail="" if isinstance(self._dead, Unseen) else f"{self._dead:,} dead tuples.",
            ),
            per_transaction(
                "database_growth_bytes_per_transaction",
                "growth of the database per transaction",
                pick(moved, "bytes"),
                window,
                unit="bytes/transaction",
            ),
        )
