"""How often did autovacuum work, and did it find anything to do?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import Counters, missing, per_second, pick, require_track_counts
from pgdrag.collectors._jsonlog import LogCollector
from pgdrag.plan import Observation

_COUNTS = """
SELECT coalesce(sum(autovacuum_count), 0)::bigint, coalesce(sum(autoanalyze_count), 0)::bigint
  FROM pg_stat_all_tables
"""
_VACUUM = re.compile(
    r'^automatic (?:aggressive )?vacuum (?:to prevent wraparound )?of table "(?P<table>.+)": '
)
_ANALYZE = re.compile(r'^automatic analyze of table "(?P<table>.+)"')
_TUPLES = re.compile(
    r"^tuples: (?P<removed>\d+) removed, \d+ remain, (?P<kept>\d+) are dead but not yet removable",
    re.MULTILINE,
)
_ELAPSED = re.compile(r"elapsed: (?P<seconds>[\d.]+) s\b")
_NAMED_TABLES = 3


@dataclass(frozen=True)
class Vacuum:
    """One automatic vacuum of one table.

    Attributes:
        table: with its schema, without the database.
        removed: dead tuples taken away.
        kept: dead tuples that some snapshot may still see.
        elapsed_s: how long it took.
    """

    table: str
    removed: int
    kept: int
    elapsed_s: float


def parse_vacuum(message: str) -> Vacuum | None:
    """Read the log message of an automatic vacuum, as versions 15 to 18 write it; None: another."""
    start, tuples = _VACUUM.match(message), _TUPLES.search(message)
    if not start or not tuples:
        return None
    elapsed = _ELAPSED.search(message)
    return Vacuum(
        _without_database(start["table"]),
        int(tuples["removed"]),
        int(tuples["kept"]),
        float(elapsed["seconds"]) if elapsed else 0.0,
    )


def parse_analyze(message: str) -> str | None:
    """Return the table of an automatic analyze's log message; None: another message."""
    found = _ANALYZE.match(message)
    return _without_database(found["table"]) if found else None


class Autovacuum(LogCollector):
    """Automatic vacuums and analyzes, from the log; their number also from pg_stat_all_tables."""

    name: ClassVar[str] = "autovacuum"
    summary: ClassVar[str] = "automatic vacuums and analyzes, and what they removed"
    wanted: ClassVar[tuple[str, ...]] = ("automatic ",)

    def read(self, observer: Observer) -> Counters:
        """Automatic vacuums and analyzes in the workload's database so far."""
        require_track_counts(observer)
        [(vacuums, analyzes)] = observer.query(_COUNTS)
        return {"vacuums": vacuums, "analyzes": analyzes}

    def observations(self, window: Window) -> Sequence[Observation]:
        """Rates of both, and dead tuples removed and kept per vacuum."""
        if isinstance(self.excerpt, Unseen):
            return self._from_counters(self.excerpt)
        lines = self.excerpt.within(window)
        doubt = self.excerpt.doubt
        vacuums = [vacuum for line in lines if (vacuum := parse_vacuum(line.message))]
        analyzed = [table for line in lines if (table := parse_analyze(line.message))]
        return (
            per_second(
                *_VACUUMS, len(vacuums), window.length_s, detail=_detail(vacuums, window) + doubt
            ),
            per_second(
                *_ANALYZES,
                len(analyzed),
                window.length_s,
                detail=f"{len(analyzed)} tables were analyzed{_most_often(analyzed)}.{doubt}",
            ),
            _per_vacuum(*_REMOVED, [vacuum.removed for vacuum in vacuums]),
            _per_vacuum(*_KEPT, [vacuum.kept for vacuum in vacuums]),
        )

    def _from_counters(self, unseen: Unseen) -> Sequence[Observation]:
        moved = self.moved()
        source = f"By pg_stat_all_tables of the workload's database, since {unseen.reason}."
        return (
            per_second(*_VACUUMS, pick(moved, "vacuums"), self.observed_s, detail=source),
            per_second(*_ANALYZES, pick(moved, "analyzes"), self.observed_s, detail=source),
            missing(*_REMOVED, "count", unseen),
            missing(*_KEPT, "count", unseen),
        )


_VACUUMS = ("vacuums_per_s", "automatic vacuums per second")
_ANALYZES = ("analyzes_per_s", "automatic analyzes per second")
_REMOVED = ("tuples_removed_per_vacuum", "dead tuples removed per automatic vacuum")
_KEPT = ("dead_tuples_kept_per_vacuum", "dead tuples not yet removable per automatic vacuum")


def _detail(vacuums: Sequence[Vacuum], window: Window) -> str:
    busy_s = sum(vacuum.elapsed_s for vacuum in vacuums)
    idle = sum(1 for vacuum in vacuums if vacuum.removed == 0)
    tables = _most_often(vacuum.table for vacuum in vacuums)
    return (
        f"{len(vacuums)} vacuums in {window.length_s:.1f} s took {busy_s:.1f} s together,"
        f" and {idle} of them removed nothing{tables}."
    )


def _per_vacuum(name: str, label: str, tuples: Sequence[int]) -> Observation:
    if not tuples:
        return missing(name, label, "count", Unseen("no automatic vacuum ended in the window"))
    detail = f"{sum(tuples):,} in {len(tuples)} vacuums; at most {max(tuples):,} in one."
    return Observation(
        name, label, sum(tuples) / len(tuples), "count", 1 / len(tuples), detail=detail
    )


def _most_often(tables: Iterable[str]) -> str:
    counts = Counter(tables)
    # Among equals the workload's tables before the system's.
    ranked = sorted(counts, key=lambda table: (-counts[table], table.startswith("pg_"), table))
    named = ", ".join(f"{table} {counts[table]}" for table in ranked[:_NAMED_TABLES])
    return f"; most often {named}" if named else ""


def _without_database(table: str) -> str:
    return table.partition(".")[2] or table
