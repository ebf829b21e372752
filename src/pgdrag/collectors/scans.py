"""Did the workload read its tables through indexes, or whole?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Unseen, Window, detailed
from pgdrag.collectors._metric import most_named, total
from pgdrag.collectors.counters import ANY_VERSION, CounterCollector

# One row a table, so that a table that is dropped in the window takes only its own counts along.
_TABLES = """
SELECT relid::text AS key, schemaname || '.' || relname AS title, seq_scan AS seq_scans,
       seq_tup_read AS seq_tuples, coalesce(idx_scan, 0) AS index_scans
  FROM pg_stat_user_tables
"""


class Scans(CounterCollector):
    """Scans of the workload's tables (pg_stat_user_tables of its database)."""

    name: ClassVar[str] = "scans"
    summary: ClassVar[str] = "sequential and index scans of the workload's tables"
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _TABLES}
    track_counts_before: ClassVar[int] = ANY_VERSION
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{seq_scans:,} sequential scans read {seq_tuples:,} tuples, and there were {index_scans:,} index"
        " scans.{most read}{warning}",
        Metric("seq_scans_per_transaction", "sequential scans per transaction", "seq_scans"),
        Metric("seq_scans_per_s", "sequential scans per second", "seq_scans", "1/s"),
        Metric("seq_tuples_per_transaction", "tuples read by sequential scans per transaction", "seq_tuples"),
        Metric("index_scans_per_transaction", "index scans per transaction", "index_scans"),
        Metric(
            "index_scan_share", "index scans among all scans", "index_scans", "ratio", ("seq_scans", "index_scans"),
            nothing="no table was scanned in the window",
        ),
    )
    # fmt: on

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return the scans of all tables together, beside those of each."""
        moved = self.moved()
        if isinstance(moved, Unseen):
            return moved
        kinds = ("seq_scans", "seq_tuples", "index_scans")
        return {**moved, **{kind: total(moved, f"{kind} *") for kind in kinds}}

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return which tables were read most."""
        named = most_named("Tuples by table", self.titled(amounts, "seq_tuples"))
        return {**super().words(amounts, window), "most read": f" {named}" if named else ""}
