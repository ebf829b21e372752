"""How often did checkpoints begin, what caused them, and how much did they write?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import Counters, missing, per_second, per_transaction, pick
from pgdrag.collectors._log import LogCollector, LogLine, in_groups, is_within
from pgdrag.model import Observation
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.log_formats import Wanted

_SINCE_18 = "SELECT num_done, buffers_written FROM pg_stat_checkpointer"
# Before 18 these count also the timed ones that were skipped because nothing had changed.
_SINCE_17 = "SELECT num_timed + num_requested, buffers_written FROM pg_stat_checkpointer"
_BEFORE_17 = "SELECT checkpoints_timed + checkpoints_req, buffers_checkpoint FROM pg_stat_bgwriter"

_STARTING = re.compile(r"^(?:checkpoint|restartpoint) starting:(?P<flags>.*)")
_COMPLETE = re.compile(r"^(?:checkpoint|restartpoint) complete: wrote (?P<buffers>\d+) buffers")
_CAUSES = {"wal": "WAL volume", "time": "time"}


def parse_start(message: str) -> str | None:
    """Return the cause in a checkpoint's first log line: "WAL volume", "time" or "request"."""
    found = _STARTING.match(message)
    if not found:
        return None
    flags = found["flags"].split()
    return next((cause for flag, cause in _CAUSES.items() if flag in flags), "request")


def parse_end(message: str) -> int | None:
    """Return the buffers written in a checkpoint's last log line; None: another line."""
    found = _COMPLETE.match(message)
    return int(found["buffers"]) if found else None


@dataclass(frozen=True)
class Run:
    """One checkpoint, or what was seen of it.

    Attributes:
        start_s: None where it began before the log was looked at.
        end_s: None where it ended afterwards.
        cause: "" where its beginning was not seen.
        buffers: written; None where its end was not seen.
    """

    start_s: float | None
    end_s: float | None = None
    cause: str = ""
    buffers: int | None = None


class Checkpoints(LogCollector):
    """Checkpoints, from the log; their number also from the server's counters."""

    name: ClassVar[str] = "checkpoints"
    summary: ClassVar[str] = "how often checkpoints began and how much they wrote"
    wanted: ClassVar[Wanted] = Wanted(beginnings=("checkpoint ", "restartpoint "))

    def __init__(self) -> None:
        super().__init__()
        self._starts: list[tuple[float | None, str]] = []
        self._runs: list[Run] = []
        self._has_times = True

    def take(self, line: LogLine) -> None:
        """Keep when a checkpoint began and ended; one without the other ran from before or to the end."""
        cause, buffers = parse_start(line.message), parse_end(line.message)
        if cause is None and buffers is None:
            return
        self._has_times &= line.unix_s is not None
        is_running = bool(self._runs) and self._runs[-1].end_s is None
        if cause is not None:
            self._starts.append((line.unix_s, cause))
            self._runs.append(Run(line.unix_s, cause=cause))
        elif is_running:
            begun = self._runs.pop()
            self._runs.append(Run(begun.start_s, line.unix_s, begun.cause, buffers))
        elif not self._runs:
            self._runs.append(Run(None, line.unix_s, buffers=buffers))

    def read(self, observer: Observer) -> Counters:
        """Checkpoints and the buffers that they wrote so far."""
        version = observer.server_version_num
        sql = _BEFORE_17 if version < 170000 else _SINCE_17 if version < 180000 else _SINCE_18
        [(checkpoints, buffers)] = observer.query(sql)
        return {"checkpoints": checkpoints, "buffers": buffers}

    def observations(self, window: Window) -> Sequence[Observation]:
        """Their rate and distance, the share of time they ran, and the buffers they wrote."""
        # The counter has what a checkpoint wrote so far; the log says it only at its end.
        buffers = per_transaction(
            "checkpoint_buffers_per_transaction",
            "buffers written by checkpoints per transaction",
            pick(self.moved(), "buffers"),
            window,
        )
        if isinstance(self.reading, Unseen):
            return (*self._without_log(self.reading), buffers)
        starts = [start for start in self._starts if is_within(start[0], window)]
        detail = f"{_causes(starts)}.{self._counted()}{self.reading.doubt}"
        return (
            per_second(*_RATE, len(starts), window.length_s, detail=detail),
            _distance(starts, window),
            self._time_share(window),
            buffers,
        )

    def recordings(self, window: Window) -> Recordings:
        """Return each checkpoint that ran within the window."""
        if not self._has_times:
            return Recordings()
        events = (
            Event(
                "checkpoint",
                start_s - window.started_unix_s,
                None if run.end_s is None else run.end_s - window.started_unix_s,
                _words(run),
            )
            for run in self._runs
            for start_s, end_s in [_span(run, window)]
            if start_s <= window.finished_unix_s and end_s >= window.started_unix_s
        )
        return Recordings(in_groups(events, window))

    def _time_share(self, window: Window) -> Observation:
        if not self._has_times:
            return missing(*_TIME_SHARE, "ratio", Unseen("the log's times are not known here"))
        if window.length_s <= 0:
            return missing(*_TIME_SHARE, "ratio", Unseen("the window has no length"))
        running = sum(
            max(0.0, min(end, window.finished_unix_s) - max(start, window.started_unix_s))
            for start, end in (_span(run, window) for run in self._runs)
        )
        return Observation(
            *_TIME_SHARE, running / window.length_s, "ratio", min(1.0, 0.001 / window.length_s)
        )

    def _counted(self) -> str:
        counted = pick(self.moved(), "checkpoints")
        return "" if isinstance(counted, Unseen) else f" The server's own counter says {counted}."

    def _without_log(self, unseen: Unseen) -> Sequence[Observation]:
        source = f"By the server's counters, since {unseen.reason}."
        return (
            per_second(*_RATE, pick(self.moved(), "checkpoints"), self.observed_s, detail=source),
            missing(*_DISTANCE, "s", unseen),
            missing(*_TIME_SHARE, "ratio", unseen),
        )


_RATE = ("checkpoints_per_s", "checkpoints begun per second")
_DISTANCE = ("seconds_between_checkpoints", "time between checkpoints")
_TIME_SHARE = ("checkpoint_time_share", "share of the window with a checkpoint running")


def _causes(starts: Sequence[tuple[float | None, str]]) -> str:
    causes = Counter(cause for _, cause in starts)
    named = ", ".join(f"{count} by {cause}" for cause, count in causes.most_common())
    return f"{len(starts)} began" + (f": {named}" if named else "")


def _distance(starts: Sequence[tuple[float | None, str]], window: Window) -> Observation:
    times = [moment for moment, _ in starts if moment is not None]
    if len(times) < 2:
        found = f"{len(times)} began in the {window.length_s:.1f} s of the window; it takes two"
        return missing(*_DISTANCE, "s", Unseen(found))
    gaps = len(times) - 1
    # Times in the log have milliseconds.
    return Observation(
        *_DISTANCE,
        (times[-1] - times[0]) / gaps,
        "s",
        0.001 / gaps,
        detail=f"From the first to the last of {len(times)} that began.",
    )


def _span(run: Run, window: Window) -> tuple[float, float]:
    return (
        window.started_unix_s if run.start_s is None else run.start_s,
        window.finished_unix_s if run.end_s is None else run.end_s,
    )


def _words(run: Run) -> str:
    cause = f"by {run.cause}" if run.cause else ""
    buffers = "" if run.buffers is None else f"{run.buffers:,} buffers written"
    return ", ".join(part for part in (cause, buffers) if part)
