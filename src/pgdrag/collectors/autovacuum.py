"""How often did autovacuum work, and did it find anything to do?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Unseen, Window, attempt
from pgdrag.collectors._log import LogCollector, in_groups, is_within
from pgdrag.collectors._vacuum_log import CUT_S, RATE_STEP_BYTES_PER_S, Work, parse_work
from pgdrag.collectors.counters import ANY_VERSION
from pgdrag.english import counted
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.log_formats import LogMessage, Wanted

_COUNTS = """
SELECT coalesce(sum(autovacuum_count), 0)::bigint AS vacuums,
       coalesce(sum(autoanalyze_count), 0)::bigint AS analyzes
  FROM pg_stat_all_tables
"""
_NAMED_TABLES = 3
_NO_VACUUM = "no automatic vacuum ended in the window"


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
        Metric("futile_vacuum_s", "time that futile automatic vacuums took", "held back s", "s", step=0.01),
        Metric("futile_vacuum_pages", "pages that futile automatic vacuums scanned", "held back pages", "count"),
        Metric(
            "vacuum_pages_frozen_per_s", "pages in which automatic vacuums froze tuples per second", "pages frozen", "1/s",
            detail="{tuples frozen:,} tuples in {pages frozen:,} pages.",
        ),
        Metric("vacuum_pages_set_all_visible_per_s", "pages that automatic vacuums set all-visible per second", "pages set all-visible", "1/s"),
        Metric("vacuum_pages_set_all_frozen_per_s", "pages that automatic vacuums set all-frozen per second", "pages set all-frozen", "1/s"),
        Metric("vacuum_cpu_s", "processor time of automatic vacuums", "cpu s", "s", step="cpu step s", detail="{cpu words}"),
        Metric(
            "vacuum_read_bytes_per_s", "rate at which automatic vacuums read blocks", "bytes read", "bytes/s", "time s", step="rate step", nothing=_NO_VACUUM,
            detail="While they ran.",
        ),
        Metric(
            "vacuum_write_bytes_per_s", "rate at which automatic vacuums dirtied blocks", "bytes written", "bytes/s", "time s", step="rate step", nothing=_NO_VACUUM,
            detail="While they ran; the log calls it the write rate.",
        ),
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
            **_work_done(vacuums),
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
    *("pages frozen", "pages set all-visible", "pages set all-frozen"),
    *("cpu s", "bytes read", "bytes written"),
)


def _work_done(vacuums: Sequence[Work]) -> Amounts:
    """Return the work and the time of vacuums that this server's log has."""
    user_s = sum(vacuum.user_cpu_s for vacuum in vacuums)
    system_s = sum(vacuum.system_cpu_s for vacuum in vacuums)
    # What was cut off is half of the last digit, in the mean: so the shortest counts for something, too.
    time_s = [vacuum.elapsed_s + CUT_S / 2 for vacuum in vacuums]
    return {
        "pages frozen": _total((x.pages_frozen for x in vacuums), since=16),
        "tuples frozen": sum(vacuum.tuples_frozen or 0 for vacuum in vacuums),
        "pages set all-visible": _total((x.pages_set_all_visible for x in vacuums), since=18),
        "pages set all-frozen": _total((x.pages_set_all_frozen for x in vacuums), since=18),
        "cpu s": user_s + system_s,
        "cpu step s": 2 * CUT_S * max(len(vacuums), 1),
        "cpu words": f"{user_s:.2f} s in user mode and {system_s:.2f} s in the kernel; the log truncates each vacuum's times to hundredths.",
        "bytes read": sum(
            (x.read_bytes_per_s or 0.0) * s for x, s in zip(vacuums, time_s, strict=True)
        ),
        "bytes written": sum(
            (x.write_bytes_per_s or 0.0) * s for x, s in zip(vacuums, time_s, strict=True)
        ),
        "time s": sum(time_s),
        "rate step": RATE_STEP_BYTES_PER_S * sum(time_s),
    }


def _total(each: Iterable[int | None], *, since: int) -> int | Unseen:
    found = list(each)
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return Unseen(f"PostgreSQL before {since} does not log it")
    return sum(known)


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
