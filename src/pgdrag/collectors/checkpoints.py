"""How often did checkpoints begin, what caused them, and how much did they write?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import Counters, missing, per_second, per_transaction, pick
from pgdrag.collectors._jsonlog import LogCollector, LogExcerpt, LogLine
from pgdrag.plan import Observation

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


class Checkpoints(LogCollector):
    """Checkpoints, from the log; their number also from the server's counters."""

    name: ClassVar[str] = "checkpoints"
    summary: ClassVar[str] = "how often checkpoints began and how much they wrote"
    wanted: ClassVar[tuple[str, ...]] = ("point starting:", "point complete:")

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
        if isinstance(self.excerpt, Unseen):
            return (*self._without_log(self.excerpt), buffers)
        starts = [line for line in self.excerpt.within(window) if parse_start(line.message)]
        detail = f"{_causes(starts)}.{self._counted()}{self.excerpt.doubt}"
        return (
            per_second(*_RATE, len(starts), window.length_s, detail=detail),
            _distance(starts, window),
            _time_share(self.excerpt, window),
            buffers,
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


def _causes(starts: Sequence[LogLine]) -> str:
    causes = Counter(parse_start(line.message) for line in starts)
    named = ", ".join(f"{count} by {cause}" for cause, count in causes.most_common())
    return f"{len(starts)} began" + (f": {named}" if named else "")


def _distance(starts: Sequence[LogLine], window: Window) -> Observation:
    times = [line.unix_s for line in starts if line.unix_s is not None]
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


def _time_share(excerpt: LogExcerpt, window: Window) -> Observation:
    if any(line.unix_s is None for line in excerpt.lines):
        return missing(*_TIME_SHARE, "ratio", Unseen("the log's time zone is not known here"))
    if window.length_s <= 0:
        return missing(*_TIME_SHARE, "ratio", Unseen("the window has no length"))
    running = sum(
        max(0.0, min(end, window.finished_unix_s) - max(start, window.started_unix_s))
        for start, end in _runs(excerpt, window)
    )
    return Observation(
        *_TIME_SHARE, running / window.length_s, "ratio", min(1.0, 0.001 / window.length_s)
    )


def _runs(excerpt: LogExcerpt, window: Window) -> list[tuple[float, float]]:
    """Start and end of each checkpoint; one without the other ran from before or to the end."""
    runs: list[tuple[float, float]] = []
    began = window.started_unix_s
    is_running = False
    for line in excerpt.lines:
        moment = 0.0 if line.unix_s is None else line.unix_s
        if parse_start(line.message):
            began, is_running = moment, True
        elif parse_end(line.message) is not None and (is_running or not runs):
            runs.append((began, moment))
            is_running = False
    return [*runs, (began, window.finished_unix_s)] if is_running else runs
