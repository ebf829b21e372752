"""Which tables of the database were scanned and changed in the window, and in which state are they?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, LiteralString

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, attempt, known
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors.counters import require_track_counts
from pgdrag.model.live import CopyOut, TableUse
from pgdrag.model.recordings import Recordings

MOST_TABLES = 30
_COUNTS = ("seq_scans", "seq_rows", "index_scans", "inserted", "updated", "hot_updated", "deleted", "vacuums", "analyzes")  # fmt: skip
_TABLES: LiteralString = """
SELECT relid, quote_ident(schemaname) || '.' || quote_ident(relname) AS table,
       seq_scan AS seq_scans, seq_tup_read AS seq_rows, coalesce(idx_scan, 0) AS index_scans,
       n_tup_ins AS inserted, n_tup_upd AS updated, n_tup_hot_upd AS hot_updated, n_tup_del AS deleted,
       vacuum_count + autovacuum_count AS vacuums, analyze_count + autoanalyze_count AS analyzes,
       n_live_tup AS live, n_dead_tup AS dead, n_mod_since_analyze AS changed
  FROM pg_stat_user_tables
"""
# By the planner's count of pages: the true size would take a lock, and could have to wait for it. What columns the
# statistics have is hidden from who may not read them, but not that there are some.
_STATE: LiteralString = """
SELECT pg_class.oid, reltuples::float8 AS estimated_rows,
       greatest(relpages, 0)::bigint * current_setting('block_size')::bigint AS bytes,
       EXISTS (SELECT FROM pg_stats WHERE schemaname = nspname AND tablename = relname)
           OR reltuples >= 0 AND pg_stat_get_analyze_count(pg_class.oid) + pg_stat_get_autoanalyze_count(pg_class.oid) > 0
           AS has_statistics,
       (SELECT count(*) FROM pg_index WHERE indrelid = pg_class.oid)::int AS indexes
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE pg_class.oid = ANY (%s)
"""
# A query that copies few of the rows that it reads is not a copy of a table.
_COPIES: LiteralString = """
SELECT CASE relid WHEN 0 THEN '' ELSE quote_ident(nspname) || '.' || quote_ident(relname) END AS table,
       count(*), max(tuples_processed / greatest(extract(epoch FROM clock_timestamp() - query_start), 0.001))::float8
  FROM pg_stat_progress_copy AS c CROSS JOIN LATERAL pg_stat_get_activity(c.pid) LEFT JOIN pg_class ON pg_class.oid = relid
  LEFT JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE command = 'COPY TO' AND tuples_processed >= 1000 AND c.datname = current_database()
 GROUP BY 1
"""


class LiveTables(Collector):
    """Scans, changes and state of the tables of the database that it was reached in, and who copies them out."""

    name: ClassVar[str] = "live_tables"
    summary: ClassVar[str] = "scans, changes and statistics of each table"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("seq_rows_per_s", "rows read by sequential scans per second", "seq_rows", "1/s"),
        Metric("rows_changed_per_s", "rows inserted, updated and deleted per second", "changed", "1/s"),
        Metric("dead_rows", "dead row versions of all tables at the end", "dead", "count"),
        Metric("live_rows", "rows of all tables at the end", "live", "count"),
    )  # fmt: skip

    def __init__(self) -> None:
        self._before: Mapping[int, Mapping[str, Any]] | Unseen = NO_READING
        self._uses: list[TableUse] | Unseen = NO_READING
        self._sums: dict[str, float] = {}
        self._copies: dict[
            str, tuple[int, float]
        ] = {}  # sessions seen, and how many rows each sent a second
        self._looks = 0

    def before(self, observer: Observer) -> None:
        self._before = attempt(lambda: _tables(observer))

    def sample(self, observer: Observer) -> None:
        """See who copies tables out just now."""
        found = attempt(lambda: observer.query(_COPIES))
        if not isinstance(found, Unseen):
            self._looks += 1
            for table, sessions, rows_per_s in found:
                seen, most = self._copies.get(table, (0, 0.0))
                self._copies[table] = seen + sessions, max(most, rows_per_s)

    def after(self, observer: Observer) -> None:
        """Read them again, and the state of those that were used most."""
        self.sample(observer)
        self._uses = attempt(lambda: self._read(observer))

    def _read(self, observer: Observer) -> list[TableUse]:
        before, after = known(self._before), _tables(observer)
        moved = {
            oid: {name: row[name] - before.get(oid, {}).get(name, 0) for name in _COUNTS}
            for oid, row in after.items()
        }
        if any(count < 0 for counts in moved.values() for count in counts.values()):
            raise Unseen("the server's counters were reset within the window")
        changes = ("inserted", "updated", "deleted")
        self._sums = {
            "seq_rows": sum(counts["seq_rows"] for counts in moved.values()),
            "changed": sum(counts[x] for counts in moved.values() for x in changes),
            "dead": sum(row["dead"] for row in after.values()),
            "live": sum(row["live"] for row in after.values()),
        }

        def weight(oid: int) -> tuple[float, float]:
            return sum(moved[oid].values()), after[oid]["dead"]

        ranked = sorted(after, key=lambda oid: weight(oid), reverse=True)[:MOST_TABLES]
        states = {row.pop("oid"): row for row in observer.table(_STATE, ranked)}
        own = ("table", "live", "dead", "changed")
        return [
            TableUse(**{x: after[oid][x] for x in own}, **moved[oid], **states[oid])
            for oid in ranked
            if oid in states
        ]

    def amounts(self, window: Window) -> Amounts:
        known(self._uses)
        return self._sums

    def recordings(self, window: Window) -> Recordings:
        if isinstance(self._uses, Unseen):
            return Recordings(missing={self.name: self._uses.reason})
        step_s = window.length_s / max(self._looks, 1)
        copies = [
            CopyOut(table, seen * step_s, most) for table, (seen, most) in self._copies.items()
        ]
        return Recordings((*self._uses, *copies))


def _tables(observer: Observer) -> dict[int, dict[str, Any]]:
    require_track_counts(observer)
    return {row.pop("relid"): row for row in observer.table(_TABLES)}
