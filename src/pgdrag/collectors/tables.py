"""How were rows updated, how many row versions are dead, and by how much did the database grow?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window, detailed
from pgdrag.collectors.counters import ANY_VERSION, CounterCollector, Counters

_TUPLES = """
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
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _TUPLES}
    track_counts_before: ClassVar[int] = ANY_VERSION
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        *detailed(
            "{updates:,} updates, of which {hot_updates:,} were HOT.{warning}",
            Metric("updates_per_transaction", "rows updated per transaction", "updates"),
            Metric(
                "hot_update_share", "HOT updates among all updates", "hot_updates", "ratio", "updates", nothing="no row was updated in the window",
            ),
            Metric(
                "hot_version_share", "old row versions left by HOT updates, among those of all updates and deletes", "hot_updates", "ratio",
                "old_versions", nothing="no row was updated or deleted in the window",
            ),
        ),
        Metric(
            "dead_tuple_share", "dead tuples among all, at the window's end", "dead", "ratio", "tuples", nothing="the tables are empty",
            detail="{dead:,} dead tuples.",
        ),
        Metric("database_growth_bytes_per_transaction", "growth of the database per transaction", "bytes", "bytes/transaction"),
    )
    # fmt: on

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

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return how the counters grew, and the tuples at the end."""
        moved = self.moved()
        if isinstance(moved, Unseen):
            return moved
        return {**moved, "dead": self._last["dead"], "tuples": self._last["tuples"]}
