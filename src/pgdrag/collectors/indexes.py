"""Which of the workload's indexes were used? A plan that loses one shows here, whatever took its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import (
    CounterCollector,
    Counters,
    missing,
    most_named,
    of_kind,
    per_transaction,
    require_track_counts,
    total_of_kind,
)
from pgdrag.model import Observation

_INDEXES = """
SELECT indexrelid::text, schemaname || '.' || indexrelname, idx_scan, idx_tup_read
  FROM pg_stat_user_indexes
"""
_USED = ("indexes_used", "indexes that were scanned in the window")
_NAMED_UNUSED = 5


class Indexes(CounterCollector):
    """Scans of each of the workload's indexes (pg_stat_user_indexes of its database)."""

    name: ClassVar[str] = "indexes"
    summary: ClassVar[str] = "which of the workload's indexes were used, and which were not"

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}

    def read(self, observer: Observer) -> Counters:
        """Counters named "KIND OID", two for each index that exists now."""
        require_track_counts(observer)
        counters: dict[str, int] = {}
        for oid, name, scans, tuples in observer.query(_INDEXES):
            self._names[oid] = name
            counters[f"scans {oid}"] = scans
            counters[f"tuples {oid}"] = tuples
        return counters

    def observations(self, window: Window) -> Sequence[Observation]:
        """How many were used, with those used most and those not at all; and entries read from them."""
        moved = self.moved()
        return (
            self._used(moved),
            per_transaction(
                "index_entries_read_per_transaction",
                "entries read from indexes per transaction",
                total_of_kind(moved, "tuples"),
                window,
                detail=most_named("Entries by index", self._by_name(moved, "tuples")),
            ),
        )

    def _used(self, moved: Counters | Unseen) -> Observation:
        if isinstance(moved, Unseen):
            return missing(*_USED, "count", moved)
        scans = self._by_name(moved, "scans")
        unused = sorted(name for name, count in scans.items() if not count)
        more = f" and {len(unused) - _NAMED_UNUSED} more" if len(unused) > _NAMED_UNUSED else ""
        parts = (
            most_named("Scans by index", scans),
            f"Not scanned: {', '.join(unused[:_NAMED_UNUSED])}{more}." if unused else "",
            self.doubt.strip(),
        )
        used = len(scans) - len(unused)
        return Observation(*_USED, used, "count", 1, detail=" ".join(filter(None, parts)))

    def _by_name(self, moved: Counters | Unseen, kind: str) -> dict[str, int]:
        return {self._names[oid]: count for oid, count in of_kind(moved, kind).items()}
