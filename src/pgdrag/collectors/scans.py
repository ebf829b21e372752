"""Did the workload read its tables through indexes, or whole?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import (
    CounterCollector,
    Counters,
    most_named,
    of_kind,
    per_second,
    per_transaction,
    require_track_counts,
    share,
    total_of_kind,
)
from pgdrag.model import Observation

# One row a table, so that a table that is dropped in the window takes only its own counts along.
_TABLES = """
SELECT relid::text, schemaname || '.' || relname, seq_scan, seq_tup_read, coalesce(idx_scan, 0)
  FROM pg_stat_user_tables
"""


class Scans(CounterCollector):
    """Scans of the workload's tables (pg_stat_user_tables of its database)."""

    name: ClassVar[str] = "scans"
    summary: ClassVar[str] = "sequential and index scans of the workload's tables"

    def __init__(self) -> None:
        super().__init__()
        self._table_names: dict[str, str] = {}

    def read(self, observer: Observer) -> Counters:
        """Counters named "KIND OID", three for each table that exists now."""
        require_track_counts(observer)
        counters: dict[str, int] = {}
        for oid, name, seq_scans, seq_tuples, index_scans in observer.query(_TABLES):
            self._table_names[oid] = name
            counters[f"seq_scans {oid}"] = seq_scans
            counters[f"seq_tuples {oid}"] = seq_tuples
            counters[f"index_scans {oid}"] = index_scans
        return counters

    def observations(self, window: Window) -> Sequence[Observation]:
        """Scans of both kinds per transaction, tuples read sequentially, and the share of indexes."""
        moved = self.moved()
        seq_scans = total_of_kind(moved, "seq_scans")
        seq_tuples = total_of_kind(moved, "seq_tuples")
        index_scans = total_of_kind(moved, "index_scans")
        all_scans: int | Unseen = seq_scans
        detail = ""
        if not isinstance(seq_scans, Unseen) and not isinstance(index_scans, Unseen):
            all_scans = seq_scans + index_scans
            detail = (
                f"{seq_scans:,} sequential scans read {seq_tuples:,} tuples, and there were"
                f" {index_scans:,} index scans.{self._most_read(moved)}{self.doubt}"
            )
        return (
            per_transaction(
                "seq_scans_per_transaction",
                "sequential scans per transaction",
                seq_scans,
                window,
                detail=detail,
            ),
            per_second(
                "seq_scans_per_s",
                "sequential scans per second",
                seq_scans,
                self.observed_s,
                detail=detail,
            ),
            per_transaction(
                "seq_tuples_per_transaction",
                "tuples read by sequential scans per transaction",
                seq_tuples,
                window,
                detail=detail,
            ),
            per_transaction(
                "index_scans_per_transaction",
                "index scans per transaction",
                index_scans,
                window,
                detail=detail,
            ),
            share(
                "index_scan_share",
                "index scans among all scans",
                index_scans,
                all_scans,
                nothing="no table was scanned in the window",
                detail=detail,
            ),
        )

    def _most_read(self, moved: Counters | Unseen) -> str:
        tuples = of_kind(moved, "seq_tuples")
        by_table = {self._table_names[oid]: count for oid, count in tuples.items()}
        named = most_named("Tuples by table", by_table)
        return f" {named}" if named else ""
