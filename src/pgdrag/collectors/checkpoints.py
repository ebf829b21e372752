"""How often did checkpoints begin, what caused them, and how much did they write?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Unseen, Window, attempt
from pgdrag.collectors._log import LogCollector, in_groups, is_within
from pgdrag.english import counted
from pgdrag.model import Unit
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.log_formats import LogMessage, Wanted
from pgdrag.units import format_bytes, format_duration

_SINCE_18: LiteralString = (
    "SELECT num_done AS checkpoints, buffers_written AS buffers FROM pg_stat_checkpointer"
)
# Before 18 these count also the timed ones that were skipped because nothing had changed.
_SINCE_17: LiteralString = (
    "SELECT num_timed + num_requested AS checkpoints, buffers_written AS buffers"
    " FROM pg_stat_checkpointer"
)
_BEFORE_17: LiteralString = (
    "SELECT checkpoints_timed + checkpoints_req AS checkpoints, buffers_checkpoint AS buffers"
    " FROM pg_stat_bgwriter"
)

_LINE = re.compile(
    r"^(?:checkpoint|restartpoint)"
    r" (?:starting:(?P<flags>.*)|complete: wrote (?P<buffers>\d+) buffers)"
)
# The rest of the second line is alike in versions 14 to 18.
_WAL_FILES = re.compile(r"; (\d+) WAL file\(s\) added, (\d+) removed, (\d+) recycled;")
_TIMES = re.compile(r" write=([\d.]+) s, sync=([\d.]+) s, total=")
_SYNCS = re.compile(r" sync files=(\d+), longest=([\d.]+) s,")
_DISTANCES = re.compile(r" distance=(\d+) kB, estimate=(\d+) kB")
_CAUSES = {"wal": "WAL volume", "time": "time"}
_MS, _KB = 0.001, 1024  # what the log tells times and distances to
_MEAN = "The mean of {ended} that ended."
_NONE_ENDED = "no checkpoint ended in the window"


@dataclass(frozen=True)
class Completed:
    """What the server says of a checkpoint that it has completed.

    Attributes:
        buffers_written: to the relations' files.
        wal_files_added: made for the WAL to come, where none could be recycled.
        write_s: how long it wrote buffers, pauses included.
        sync_s: how long it waited for files to be synced.
        files_synced: how many.
        longest_sync_s: of one file.
        distance_bytes: of WAL from the checkpoint before to this one.
        estimate_bytes: of the distance to the next one, by those before.
    """

    buffers_written: int
    wal_files_added: int
    wal_files_removed: int
    wal_files_recycled: int
    write_s: float
    sync_s: float
    files_synced: int
    longest_sync_s: float
    distance_bytes: int
    estimate_bytes: int

    @property
    def words(self) -> str:
        """Describe it on one line."""
        wal_files = (
            f"{counted(self.wal_files_added, 'WAL file')} added, {self.wal_files_removed:,} removed,"
            f" {self.wal_files_recycled:,} recycled"
        )
        synced = f"{counted(self.files_synced, 'file')} synced in {format_duration(self.sync_s)}"
        if self.files_synced:
            synced += f", the slowest in {format_duration(self.longest_sync_s)}"
        distance, estimate = map(format_bytes, (self.distance_bytes, self.estimate_bytes))
        wrote = f"{self.buffers_written:,} buffers written in {format_duration(self.write_s)}"
        return f"{wrote}; {wal_files}; {synced}; distance {distance}, estimate {estimate}"


def parse_completed(message: str) -> Completed | None:
    """Read the log message of a checkpoint's end, as versions 14 to 18 write it; None: another, or torn."""
    found = [_LINE.match(message)]
    found += [one.search(message) for one in (_WAL_FILES, _TIMES, _SYNCS, _DISTANCES)]
    line, wal_files, times, syncs, distances = found
    if not (line and line["buffers"] and wal_files and times and syncs and distances):
        return None
    added, removed, recycled = map(int, wal_files.groups())
    write_s, sync_s = map(float, times.groups())
    distance_kb, estimate_kb = map(int, distances.groups())
    return Completed(
        buffers_written=int(line["buffers"]),
        wal_files_added=added,
        wal_files_removed=removed,
        wal_files_recycled=recycled,
        write_s=write_s,
        sync_s=sync_s,
        files_synced=int(syncs[1]),
        longest_sync_s=float(syncs[2]),
        distance_bytes=distance_kb * _KB,
        estimate_bytes=estimate_kb * _KB,
    )


@dataclass
class Run:
    """One checkpoint, or what was seen of it.

    Attributes:
        start_s: by the clock; None where it began before the log was looked at.
        end_s: None where it ended afterwards.
        cause: "WAL volume", "time" or "request"; "" where its beginning was not seen.
        completed: None where its end was not seen.
    """

    start_s: float | None
    end_s: float | None = None
    cause: str = ""
    completed: Completed | None = None

    def span(self, window: Window) -> tuple[float, float]:
        """Return its beginning and end by the clock; those of the window where they were not seen."""
        return (
            window.started_unix_s if self.start_s is None else self.start_s,
            window.finished_unix_s if self.end_s is None else self.end_s,
        )

    @property
    def words(self) -> str:
        """What caused it, and what it did."""
        cause = f"by {self.cause}" if self.cause else ""
        done = self.completed.words if self.completed else ""
        return ": ".join(part for part in (cause, done) if part)


# What only the log says: amounts of these names, added up over checkpoints.
_LOGGED = tuple(field.name for field in fields(Completed))


def _of_completed(ended: Sequence[Completed]) -> Amounts:
    """Return what checkpoints did together, and words on the last one."""
    last = ended[-1] if ended else None
    return {
        **{name: sum(getattr(one, name) for one in ended) for name in _LOGGED},
        "ended": len(ended),
        "longest": max(x.longest_sync_s for x in ended) if ended else Unseen(_NONE_ENDED),
        "last distance": format_bytes(last.distance_bytes) if last else "",
        "last estimate": format_bytes(last.estimate_bytes) if last else "",
    }


def _each(
    name: str, label: str, of: str, unit: Unit = "count", *, step: float = 1, detail: str = ""
) -> Metric:
    """Return a mean of the checkpoints that ended in the window."""
    words = detail or f"{{{of}:,}} in {{ended}}."
    return Metric(name, label, of, unit, "ended", step=step, nothing=_NONE_ENDED, detail=words)


class Checkpoints(LogCollector):
    """Checkpoints, from the log; their number also from the server's counters."""

    name: ClassVar[str] = "checkpoints"
    summary: ClassVar[str] = "how often checkpoints began, and what they wrote and synced"
    wanted: ClassVar[Wanted] = Wanted(beginnings=("checkpoint ", "restartpoint "))
    queries: ClassVar[Mapping[int, LiteralString]] = {
        0: _BEFORE_17,
        170000: _SINCE_17,
        180000: _SINCE_18,
    }
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("checkpoints_per_s", "checkpoints begun per second", "begun", "1/s", detail="{begun words}"),
        Metric(
            "seconds_between_checkpoints", "time between checkpoints", "distance_s", "s", "gaps", step=_MS,
            detail="From the first to the last of {begun} that began.",
        ),
        Metric("checkpoint_time_share", "share of the window with a checkpoint running", "running_s", "ratio", "window_s", step=_MS),
        # The counter has what a checkpoint wrote so far; the log says it only at its end.
        Metric("checkpoint_buffers_per_transaction", "buffers written by checkpoints per transaction", "buffers"),
        _each("buffers_per_checkpoint", "buffers written per checkpoint", "buffers_written"),
        _each("wal_files_added_per_checkpoint", "WAL files added per checkpoint", "wal_files_added"),
        _each("wal_files_removed_per_checkpoint", "WAL files removed per checkpoint", "wal_files_removed"),
        _each("wal_files_recycled_per_checkpoint", "WAL files recycled per checkpoint", "wal_files_recycled"),
        _each("checkpoint_write_s", "time that a checkpoint took to write buffers", "write_s", "s", step=_MS, detail=_MEAN),
        _each("checkpoint_sync_s", "time that a checkpoint took to sync files", "sync_s", "s", step=_MS, detail=_MEAN),
        _each("files_synced_per_checkpoint", "files synced per checkpoint", "files_synced"),
        Metric("checkpoint_longest_sync_s", "longest sync of one file by a checkpoint", "longest", "s", step=_MS),
        _each(
            "checkpoint_distance_bytes", "WAL from one checkpoint to the next", "distance_bytes", "bytes", step=_KB,
            detail="{last distance} before the last of {ended}.",
        ),
        _each(
            "checkpoint_estimate_bytes", "WAL to the next checkpoint as the server estimates it", "estimate_bytes", "bytes", step=_KB,
            detail="{last estimate} at the last of {ended}.",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._runs: list[Run] = []

    def take(self, message: LogMessage) -> None:
        """Keep when a checkpoint began and ended; one without the other ran from before or to the end."""
        found = _LINE.match(message.message)
        if found is None:
            return
        if found["flags"] is not None:
            flags = found["flags"].split()
            cause = next((words for flag, words in _CAUSES.items() if flag in flags), "request")
            self._runs.append(Run(message.unix_s, cause=cause))
            return
        if not self._runs:
            self._runs.append(Run(None))
        if self._runs[-1].end_s is None:
            self._runs[-1].end_s = message.unix_s
            self._runs[-1].completed = parse_completed(message.message)

    def amounts(self, window: Window) -> Amounts:
        """Return what the log says; without a log, counts of checkpoints and buffers."""
        moved = attempt(self.moved)
        counters: Mapping[str, float | Unseen] = (
            dict.fromkeys(("checkpoints", "buffers"), moved) if isinstance(moved, Unseen) else moved
        )
        if isinstance(self.reading, Unseen):
            return {
                **counters,
                **dict.fromkeys((*_LOGGED, "longest", "distance_s", "running_s"), self.reading),
                "begun": counters["checkpoints"],
                "begun words": f"By the server's counters, since {self.reading.reason}.",
            }
        begun = [
            (run.start_s, run.cause)
            for run in self._runs
            if run.start_s is not None and is_within(run.start_s, window)
        ]
        distance_s = begun[-1][0] - begun[0][0] if len(begun) > 1 else None
        too_few = f"{len(begun)} began in the {window.length_s:.1f} s of the window; it takes two"
        spans = [run.span(window) for run in self._runs]
        ended = [x.completed for x in self._runs if x.completed and is_within(x.end_s or 0, window)]
        causes = Counter(cause for _, cause in begun).most_common()
        named = ", ".join(f"{count} by {cause}" for cause, count in causes)
        counter = (
            ""
            if isinstance(moved, Unseen)
            else f" The server's own counter says {moved['checkpoints']}."
        )
        return {
            **counters,
            "begun": len(begun),
            "begun words": f"{len(begun)} began{f': {named}' if named else ''}.{counter}{self.reading.warning}",
            "gaps": len(begun) - 1,
            "distance_s": Unseen(too_few) if distance_s is None else distance_s,
            "running_s": sum(
                max(0.0, min(end, window.finished_unix_s) - max(start, window.started_unix_s))
                for start, end in spans
            ),
            "window_s": window.length_s,
            **_of_completed(ended),
        }

    def recordings(self, window: Window) -> Recordings:
        events = (
            Event(
                "checkpoint",
                start_s - window.started_unix_s,
                None if run.end_s is None else run.end_s - window.started_unix_s,
                run.words,
            )
            for run in self._runs
            for start_s, end_s in [run.span(window)]
            if start_s <= window.finished_unix_s and end_s >= window.started_unix_s
        )
        return Recordings(in_groups(events, window))
