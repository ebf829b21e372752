"""Which of the workload's indexes were used? A plan that loses one shows here, whatever took its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Unseen, Window
from pgdrag.collectors._metric import most_named, of_kind
from pgdrag.collectors.counters import ANY_VERSION, CounterCollector

_INDEXES = """
SELECT indexrelid::text AS key, schemaname || '.' || indexrelname AS title, idx_scan AS scans,
       idx_tup_read AS entries
  FROM pg_stat_user_indexes
"""
_NAMED_UNUSED = 5


class Indexes(CounterCollector):
    """Scans of each of the workload's indexes (pg_stat_user_indexes of its database)."""

    name: ClassVar[str] = "indexes"
    summary: ClassVar[str] = "which of the workload's indexes were used, and which were not"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _INDEXES}
    track_counts_before: ClassVar[int] = ANY_VERSION
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("indexes_used", "indexes that were scanned in the window", "used", "count", detail="{used most} {unused}{warning}"),
        Metric("index_entries_read_per_transaction", "entries read from indexes per transaction", "entries *", detail="{read most}"),
    )
    # fmt: on

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return scans of and entries read from each index, and how many indexes were scanned."""
        moved = self.moved()
        if isinstance(moved, Unseen):
            return moved
        return {**moved, "used": sum(map(bool, of_kind(moved, "scans").values()))}

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return which indexes were used most, and which not at all."""
        scans = self.titled(amounts, "scans")
        unused = sorted(name for name, count in scans.items() if not count)
        more = f" and {len(unused) - _NAMED_UNUSED} more" if len(unused) > _NAMED_UNUSED else ""
        return {
            **super().words(amounts, window),
            "used most": most_named("Scans by index", scans),
            "unused": f"Not scanned: {', '.join(unused[:_NAMED_UNUSED])}{more}." if unused else "",
            "read most": most_named("Entries by index", self.titled(amounts, "entries")),
        }
