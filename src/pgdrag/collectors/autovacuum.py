"""How often did autovacuum work, and did it find anything to do?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Unseen, Window, attempt
from pgdrag.collectors._log import LogCollector, in_groups, is_within
from pgdrag.collectors.counters import ANY_VERSION
from pgdrag.english import counted
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.log_formats import LogMessage, Wanted
from pgdrag.units import format_bytes

_COUNTS = """
SELECT coalesce(sum(autovacuum_count), 0)::bigint AS vacuums,
       coalesce(sum(autoanalyze_count), 0)::bigint AS analyzes
  FROM pg_stat_all_tables
"""
_FIRST_LINE = re.compile(
    r"^automatic (?:aggressive )?(?P<kind>vacuum|analyze) (?:to prevent wraparound )?of table"
    r' "(?P<table>.+)"'
)
_NUMBERS = [
    re.compile(line, re.MULTILINE)
    for line in (
        r"^pages: (?P<pages_removed>\d+) removed, (?P<pages_remain>\d+) remain,"
        # The second form is that of before 15.
        r" (?:(?P<scanned>\d+) scanned|(?P<pinned>\d+) skipped due to pins, (?P<frozen>\d+) skipped frozen)",
        r"^tuples: (?P<removed>\d+) removed, \d+ remain, (?P<kept>\d+) are dead but not yet removable",
        r"^removable cutoff: \d+, which was (?P<cutoff_age>\d+) XIDs old",
        # "misses" became "reads" in 18.
        r"^buffer usage: \d+ hits, (?P<read>\d+) (?:misses|reads), (?P<dirtied>\d+) dirtied",
        r"^WAL usage: \d+ records, \d+ full page images, (?P<wal_bytes>\d+) bytes",
    )
]
_ELAPSED = re.compile(r"elapsed: ([\d.]+) s\b")
_NAMED_TABLES = 3
# Of the dead that a vacuum finds, those of transactions that rolled back may go under any horizon.
_HARDLY_ANY = 0.05
_NO_VACUUM = "no automatic vacuum ended in the window"


@dataclass(frozen=True)
class Work:
    """One automatic vacuum or analyze of one table.

    Attributes:
        kind: "vacuum" or "analyze".
        table: with its schema, without the database.
        removed: dead tuples taken away.
        kept: dead tuples that some snapshot may still see.
        cutoff_age: how many transactions the oldest of those snapshots was behind at the end; None
            where the server does not say (before 15).
        blocks_read: from outside of shared buffers; None where the server does not say.
        blocks_dirtied: that were clean before.
    """

    kind: str
    table: str
    elapsed_s: float = 0.0
    pages_scanned: int = 0
    removed: int = 0
    kept: int = 0
    cutoff_age: int | None = None
    blocks_read: int | None = None
    blocks_dirtied: int | None = None
    wal_bytes: int | None = None

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
        parts = []
        if self.kind == "vacuum":
            parts.append(f"{self.pages_scanned:,} pages scanned")
            tuples = f"{self.removed:,} tuples removed, {self.kept:,} dead but not removable"
            if self.cutoff_age is not None:
                tuples += f", cutoff {counted(self.cutoff_age, 'transaction')} old"
            parts.append(tuples)
        if self.blocks_read is not None:
            parts.append(f"{self.blocks_read:,} blocks read, {self.blocks_dirtied:,} dirtied")
        if self.wal_bytes is not None:
            parts.append(f"{format_bytes(self.wal_bytes)} of WAL")
        return ": ".join(part for part in (self.table, "; ".join(parts)) if part)


def parse_work(message: str) -> Work | None:
    """Read the log message of a vacuum or an analyze, as versions 14 to 18 write it; None: another."""
    first = _FIRST_LINE.match(message)
    if first is None:
        return None
    found = (line.search(message) for line in _NUMBERS)
    texts = {name: text for one in found if one for name, text in one.groupdict().items()}
    numbers = {name: int(text) for name, text in texts.items() if text is not None}
    if first["kind"] == "vacuum" and not {"removed", "pages_removed"} <= numbers.keys():
        return None
    skipped = numbers.get("pinned", 0) + numbers.get("frozen", 0)
    of_table = numbers.get("pages_removed", 0) + numbers.get("pages_remain", 0)
    elapsed = _ELAPSED.search(message)
    return Work(
        kind=first["kind"],
        table=first["table"].partition(".")[2] or first["table"],
        elapsed_s=float(elapsed[1]) if elapsed else 0.0,
        pages_scanned=numbers.get("scanned", max(0, of_table - skipped)),
        removed=numbers.get("removed", 0),
        kept=numbers.get("kept", 0),
        cutoff_age=numbers.get("cutoff_age"),
        blocks_read=numbers.get("read"),
        blocks_dirtied=numbers.get("dirtied"),
        wal_bytes=numbers.get("wal_bytes"),
    )


class Autovacuum(LogCollector):
    """Automatic vacuums and analyzes, from the log; their number also from pg_stat_all_tables."""

    name: ClassVar[str] = "autovacuum"
    summary: ClassVar[str] = "automatic vacuums and analyzes, and what they removed"
    wanted: ClassVar[Wanted] = Wanted(beginnings=("automatic ",))
    queries: ClassVar[Mapping[int, LiteralString]] = {0: _COUNTS}
    track_counts_before: ClassVar[int] = ANY_VERSION
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
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._done: list[tuple[float, Work]] = []

    def take(self, message: LogMessage) -> None:
        if work := parse_work(message.message):
            self._done.append((message.unix_s, work))

    def amounts(self, window: Window) -> Amounts:
        """Return what the log says; without a log, counts of vacuums and analyzes."""
        if isinstance(self.reading, Unseen):
            source = (
                f"By pg_stat_all_tables of the workload's database, since {self.reading.reason}."
            )
            moved = attempt(self.moved)
            counters = ("vacuums", "analyzes")
            counts = dict.fromkeys(counters, moved) if isinstance(moved, Unseen) else moved
            words = dict.fromkeys((f"{counter} words" for counter in counters), source)
            return {**dict.fromkeys(_LOGGED, self.reading), **counts, **words}
        within = [work for moment, work in self._done if is_within(moment, window)]
        vacuums = [work for work in within if work.kind == "vacuum"]
        analyzes = [work for work in within if work.kind == "analyze"]
        futile = sum(vacuum.is_futile for vacuum in vacuums)
        held_back = [vacuum for vacuum in vacuums if vacuum.is_held_back]
        busy_s, warning = sum(vacuum.elapsed_s for vacuum in vacuums), self.reading.warning
        return {
            "vacuums": len(vacuums),
            "vacuums words": f"{len(vacuums)} vacuums in {window.length_s:.1f} s took {busy_s:.1f} s together,"
            f" and {futile} of them removed nothing, or hardly any{_most_often(vacuums)}.{warning}",
            "analyzes": len(analyzes),
            "analyzes words": f"{len(analyzes)} tables were analyzed{_most_often(analyzes)}.{warning}",
            "pages scanned": sum(vacuum.pages_scanned for vacuum in vacuums),
            "ended": len(vacuums),
            "removed": sum(vacuum.removed for vacuum in vacuums),
            "most removed": max((vacuum.removed for vacuum in vacuums), default=0),
            "kept": sum(vacuum.kept for vacuum in vacuums),
            "most kept": max((vacuum.kept for vacuum in vacuums), default=0),
            "futile": futile,
            "held back": len(held_back),
            "held back s": sum(vacuum.elapsed_s for vacuum in held_back),
            "held back pages": sum(vacuum.pages_scanned for vacuum in held_back),
            "held back words": _held_back(held_back),
        }

    def recordings(self, window: Window) -> Recordings:
        kinds = ("vacuum", "analyze")
        return Recordings(
            event for kind in kinds for event in in_groups(self._events(kind, window), window)
        )

    def _events(self, kind: str, window: Window) -> Iterator[Event]:
        # What was running at the window's end is not known: the log has only what is done.
        for moment, work in self._done:
            end_s = moment - window.started_unix_s
            start_s = end_s - work.elapsed_s
            if work.kind == kind and end_s >= 0 and start_s <= window.length_s:
                yield Event(kind, start_s, end_s, work.words)


# What only the log says.
_LOGGED = (
    *("pages scanned", "removed", "kept", "futile", "ended"),
    *("held back", "held back s", "held back pages"),
)


def _held_back(vacuums: Sequence[Work]) -> str:
    """Say how much the vacuums that were futile because of a horizon left."""
    if not vacuums:
        return ""
    ages = [vacuum.cutoff_age for vacuum in vacuums if vacuum.cutoff_age is not None]
    cutoff = f"; the oldest cutoff was {counted(max(ages), 'transaction')} old" if ages else ""
    most = max(vacuum.kept for vacuum in vacuums)
    return f"At most {most:,} dead tuples were left by one{cutoff}{_most_often(vacuums)}."


def _most_often(works: Sequence[Work]) -> str:
    counts = Counter(work.table for work in works)
    # Among equals the workload's tables before the system's.
    ranked = sorted(counts, key=lambda table: (-counts[table], table.startswith("pg_"), table))
    named = ", ".join(f"{table} {counts[table]}" for table in ranked[:_NAMED_TABLES])
    return f"; most often {named}" if named else ""
