"""How often did autovacuum work, and did it find anything to do?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Unseen, Window
from pgdrag.collectors._log import LogCollector, LogLine, in_groups, is_within
from pgdrag.collectors.counters import ANY_VERSION
from pgdrag.english import counted
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.log_formats import Wanted
from pgdrag.units import format_bytes

_COUNTS = """
SELECT coalesce(sum(autovacuum_count), 0)::bigint AS vacuums,
       coalesce(sum(autoanalyze_count), 0)::bigint AS analyzes
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
_PAGES = re.compile(
    r"^pages: (?P<removed>\d+) removed, (?P<remain>\d+) remain,"
    r" (?:(?P<scanned>\d+) scanned"
    # Before 15.
    r"|(?P<pinned>\d+) skipped due to pins, (?P<frozen>\d+) skipped frozen)",
    re.MULTILINE,
)
_CUTOFF = re.compile(r"^removable cutoff: \d+, which was (?P<age>\d+) XIDs old", re.MULTILINE)
_BUFFERS = re.compile(
    # "misses" became "reads" in 18.
    r"^buffer usage: (?P<hit>\d+) hits, (?P<read>\d+) (?:misses|reads), (?P<dirtied>\d+) dirtied",
    re.MULTILINE,
)
_WAL = re.compile(
    r"^WAL usage: \d+ records, \d+ full page images, (?P<bytes>\d+) bytes",
    re.MULTILINE,
)
_ELAPSED = re.compile(r"elapsed: (?P<seconds>[\d.]+) s\b")
_NAMED_TABLES = 3
# Of the dead that a vacuum finds, those of transactions that rolled back may go under any horizon.
_HARDLY_ANY = 0.05
_NO_VACUUM = "no automatic vacuum ended in the window"


@dataclass(frozen=True)
class Work:
    """What a vacuum or an analyze cost.

    Attributes:
        elapsed_s: how long it took.
        blocks_hit: found in shared buffers; None where the server does not say.
        blocks_read: from outside of them.
        blocks_dirtied: that were clean before.
        wal_bytes: written to the WAL.
    """

    elapsed_s: float
    blocks_hit: int | None = None
    blocks_read: int | None = None
    blocks_dirtied: int | None = None
    wal_bytes: int | None = None

    @property
    def words(self) -> Iterator[str]:
        """What is known of it, in parts of a sentence."""
        if self.blocks_read is not None and self.blocks_dirtied is not None:
            yield f"{self.blocks_read:,} blocks read, {self.blocks_dirtied:,} dirtied"
        if self.wal_bytes is not None:
            yield f"{format_bytes(self.wal_bytes)} of WAL"


@dataclass(frozen=True)
class Vacuum:
    """One automatic vacuum of one table.

    Attributes:
        table: with its schema, without the database.
        pages_scanned: of the table.
        removed: dead tuples taken away.
        kept: dead tuples that some snapshot may still see.
        cutoff_age: how many transactions the oldest of those snapshots was behind at the end; None
            where the server does not say (before 15).
    """

    table: str
    pages_scanned: int
    removed: int
    kept: int
    work: Work
    cutoff_age: int | None = None

    @property
    def is_futile(self) -> bool:
        """Whether it found nothing to remove, or had to leave nearly all that it found."""
        return self.removed <= _HARDLY_ANY * (self.removed + self.kept)

    @property
    def is_held_back(self) -> bool:
        """Whether it was futile because of what some snapshot may still see."""
        return self.is_futile and self.kept > 0

    @property
    def words(self) -> str:
        """Describe it on one line."""
        age = (
            ""
            if self.cutoff_age is None
            else f", cutoff {counted(self.cutoff_age, 'transaction')} old"
        )
        tuples = f"{self.removed:,} tuples removed, {self.kept:,} dead but not removable{age}"
        parts = (f"{self.pages_scanned:,} pages scanned", tuples, *self.work.words)
        return f"{self.table}: {'; '.join(parts)}"


@dataclass(frozen=True)
class Analyze:
    """One automatic analyze of one table, named with its schema."""

    table: str
    work: Work

    @property
    def words(self) -> str:
        """Describe it on one line."""
        return ": ".join(part for part in (self.table, "; ".join(self.work.words)) if part)


def parse_vacuum(message: str) -> Vacuum | None:
    """Read the log message of an automatic vacuum, as versions 14 to 18 write it; None: another."""
    start, tuples, pages = _VACUUM.match(message), _TUPLES.search(message), _PAGES.search(message)
    if not start or not tuples or not pages:
        return None
    cutoff = _CUTOFF.search(message)
    return Vacuum(
        _without_database(start["table"]),
        _scanned(pages),
        int(tuples["removed"]),
        int(tuples["kept"]),
        _work(message),
        int(cutoff["age"]) if cutoff else None,
    )


def parse_analyze(message: str) -> Analyze | None:
    """Read the log message of an automatic analyze; None: another message."""
    found = _ANALYZE.match(message)
    return Analyze(_without_database(found["table"]), _work(message)) if found else None


def _scanned(pages: re.Match[str]) -> int:
    if pages["scanned"] is not None:
        return int(pages["scanned"])
    of_table = int(pages["removed"]) + int(pages["remain"])
    return max(0, of_table - int(pages["pinned"]) - int(pages["frozen"]))


def _work(message: str) -> Work:
    elapsed, buffers, wal = (x.search(message) for x in (_ELAPSED, _BUFFERS, _WAL))
    return Work(
        elapsed_s=float(elapsed["seconds"]) if elapsed else 0.0,
        blocks_hit=int(buffers["hit"]) if buffers else None,
        blocks_read=int(buffers["read"]) if buffers else None,
        blocks_dirtied=int(buffers["dirtied"]) if buffers else None,
        wal_bytes=int(wal["bytes"]) if wal else None,
    )


class Autovacuum(LogCollector):
    """Automatic vacuums and analyzes, from the log; their number also from pg_stat_all_tables."""

    name: ClassVar[str] = "autovacuum"
    summary: ClassVar[str] = "automatic vacuums and analyzes, and what they removed"
    wanted: ClassVar[Wanted] = Wanted(beginnings=("automatic ",))
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _COUNTS}
    track_counts_before: ClassVar[int] = ANY_VERSION
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("vacuums_per_s", "automatic vacuums per second", "vacuums", "1/s", detail="{vacuums words}"),
        Metric("analyzes_per_s", "automatic analyzes per second", "analyzes", "1/s", detail="{analyzes words}"),
        Metric("vacuum_pages_scanned_per_s", "pages scanned by automatic vacuums per second", "pages scanned", "1/s"),
        Metric(
            "tuples_removed_per_vacuum", "dead tuples removed per automatic vacuum", "removed", "count", "ended", nothing=_NO_VACUUM,
            detail="{removed:,} in {ended} vacuums; at most {most removed:,} in one.",
        ),
        Metric(
            "dead_tuples_kept_per_vacuum", "dead tuples not yet removable per automatic vacuum", "kept", "count", "ended", nothing=_NO_VACUUM,
            detail="{kept:,} in {ended} vacuums; at most {most kept:,} in one.",
        ),
        Metric(
            "futile_vacuum_share", "share of automatic vacuums that removed nothing, or hardly any", "futile", "ratio", "ended", nothing=_NO_VACUUM,
        ),
        Metric(
            "futile_vacuums", "automatic vacuums that had to leave nearly all dead tuples they found", "held back", "count",
            detail="{held back words}",
        ),
        Metric("futile_vacuum_s", "time that these vacuums took", "held back s", "s", step=0.01),
        Metric("futile_vacuum_pages", "pages that these vacuums scanned", "held back pages", "count"),
    )
    # fmt: on

    def __init__(self) -> None:
        super().__init__()
        self._vacuums: list[tuple[float | None, Vacuum]] = []
        self._analyzes: list[tuple[float | None, Analyze]] = []

    def take(self, line: LogLine) -> None:
        """Keep a vacuum or an analyze, with the moment of its end."""
        if vacuum := parse_vacuum(line.message):
            self._vacuums.append((line.unix_s, vacuum))
        elif analyze := parse_analyze(line.message):
            self._analyzes.append((line.unix_s, analyze))

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return what the log says; without a log, counts of vacuums and analyzes."""
        if isinstance(self.reading, Unseen):
            unseen: dict[str, float | Unseen] = dict.fromkeys(_LOGGED, self.reading)
            moved = self.moved()
            counts = (
                dict.fromkeys(("vacuums", "analyzes"), moved)
                if isinstance(moved, Unseen)
                else moved
            )
            return {**unseen, **counts}
        vacuums, analyzed = self._vacuums_within(window), self._analyzed_within(window)
        held_back = [vacuum for vacuum in vacuums if vacuum.is_held_back]
        return {
            "vacuums": len(vacuums),
            "analyzes": len(analyzed),
            "pages scanned": sum(vacuum.pages_scanned for vacuum in vacuums),
            "ended": len(vacuums),
            "removed": sum(vacuum.removed for vacuum in vacuums),
            "most removed": max((vacuum.removed for vacuum in vacuums), default=0),
            "kept": sum(vacuum.kept for vacuum in vacuums),
            "most kept": max((vacuum.kept for vacuum in vacuums), default=0),
            "futile": sum(vacuum.is_futile for vacuum in vacuums),
            "held back": len(held_back),
            "held back s": sum(vacuum.work.elapsed_s for vacuum in held_back),
            "held back pages": sum(vacuum.pages_scanned for vacuum in held_back),
        }

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return which tables were vacuumed and analyzed most often, or where the counts come from."""
        if isinstance(self.reading, Unseen):
            source = (
                f"By pg_stat_all_tables of the workload's database, since {self.reading.reason}."
            )
            return dict.fromkeys(("vacuums words", "analyzes words"), source)
        vacuums, analyzed = self._vacuums_within(window), self._analyzed_within(window)
        warning = self.reading.warning
        analyzes = f"{len(analyzed)} tables were analyzed{_most_often(analyzed)}.{warning}"
        return {
            "vacuums words": _detail(vacuums, window) + warning,
            "analyzes words": analyzes,
            "held back words": _held_back([vacuum for vacuum in vacuums if vacuum.is_held_back]),
        }

    def _vacuums_within(self, window: Window) -> list[Vacuum]:
        return [vacuum for moment, vacuum in self._vacuums if is_within(moment, window)]

    def _analyzed_within(self, window: Window) -> list[str]:
        return [done.table for moment, done in self._analyzes if is_within(moment, window)]

    def recordings(self, window: Window) -> Recordings:
        """Return each vacuum and each analyze that ran within the window."""
        vacuums = _events("vacuum", self._vacuums, window)
        return Recordings((*vacuums, *_events("analyze", self._analyzes, window)))


# What only the log says.
_LOGGED = (
    *("pages scanned", "removed", "kept", "futile", "ended"),
    *("held back", "held back s", "held back pages"),
)


def _events(
    kind: str, works: Iterable[tuple[float | None, Vacuum | Analyze]], window: Window
) -> tuple[Event, ...]:
    # What was running at the window's end is not known: the log has only what is done.
    events = (
        Event(kind, end_s - done.work.elapsed_s, end_s, done.words)
        for moment, done in works
        if moment is not None
        for end_s in [moment - window.started_unix_s]
        if end_s >= 0 and end_s - done.work.elapsed_s <= window.length_s
    )
    return in_groups(events, window)


def _detail(vacuums: Sequence[Vacuum], window: Window) -> str:
    busy_s = sum(vacuum.work.elapsed_s for vacuum in vacuums)
    idle = sum(vacuum.is_futile for vacuum in vacuums)
    tables = _most_often(vacuum.table for vacuum in vacuums)
    return (
        f"{len(vacuums)} vacuums in {window.length_s:.1f} s took {busy_s:.1f} s together,"
        f" and {idle} of them removed nothing, or hardly any{tables}."
    )


def _held_back(vacuums: Sequence[Vacuum]) -> str:
    """Say how much the vacuums that were futile because of a horizon left."""
    if not vacuums:
        return ""
    ages = [vacuum.cutoff_age for vacuum in vacuums if vacuum.cutoff_age is not None]
    cutoff = f"; the oldest cutoff was {counted(max(ages), 'transaction')} old" if ages else ""
    most = max(vacuum.kept for vacuum in vacuums)
    tables = _most_often(vacuum.table for vacuum in vacuums)
    return f"At most {most:,} dead tuples were left by one{cutoff}{tables}."


def _most_often(tables: Iterable[str]) -> str:
    counts = Counter(tables)
    # Among equals the workload's tables before the system's.
    ranked = sorted(counts, key=lambda table: (-counts[table], table.startswith("pg_"), table))
    named = ", ".join(f"{table} {counts[table]}" for table in ranked[:_NAMED_TABLES])
    return f"; most often {named}" if named else ""


def _without_database(table: str) -> str:
    return table.partition(".")[2] or table
