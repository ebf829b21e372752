"""Did the workload read its tables through indexes, or whole?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import (
    CounterCollector,
    Counters,
    per_second,
    per_transaction,
    require_track_counts,
    share,
)
from pgdrag.plan import Observation

# One row a table, so that a table that is dropped in the window takes only its own counts along.
_TABLES = """
SELECT relid::text, schemaname || '.' || relname, seq_scan, seq_tup_read, coalesce(idx_scan, 0)
  FROM pg_stat_user_tables
"""
_NAMED_TABLES = 3


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
        seq_scans = _total(moved, "seq_scans")
        seq_tuples = _total(moved, "seq_tuples")
        index_scans = _total(moved, "index_scans")
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
        tuples = _by_table(moved, "seq_tuples")
        ranked = sorted(tuples.items(), key=lambda each: -each[1])[:_NAMED_TABLES]
        named = [f"{self._table_names[oid]} {count:,}" for oid, count in ranked if count]
        return f" Tuples by table: {', '.join(named)}." if named else ""


def _by_table(moved: Counters | Unseen, kind: str) -> dict[str, int]:
    if isinstance(moved, Unseen):
        return {}
    prefix = f"{kind} "
    return {
        name.removeprefix(prefix): value for name, value in moved.items() if name.startswith(prefix)
    }


def _total(moved: Counters | Unseen, kind: str) -> int | Unseen:
    return moved if isinstance(moved, Unseen) else sum(_by_table(moved, kind).values())
