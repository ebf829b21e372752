"""How often did checkpoints begin, what caused them, and how much did they write?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Unseen, Window
from pgdrag.collectors._log import LogCollector, LogLine, in_groups, is_within
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.log_formats import Wanted

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
    queries: ClassVar[Mapping[int, LiteralString]] = {
        0: _BEFORE_17,
        170000: _SINCE_17,
        180000: _SINCE_18,
    }
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("checkpoints_per_s", "checkpoints begun per second", "begun", "1/s", detail="{begun words}"),
        # Times in the log have milliseconds.
        Metric(
            "seconds_between_checkpoints", "time between checkpoints", "distance_s", "s", "gaps", step=0.001,
            detail="From the first to the last of {begun} that began.",
        ),
        Metric("checkpoint_time_share", "share of the window with a checkpoint running", "running_s", "ratio", "window_s", step=0.001),
        # The counter has what a checkpoint wrote so far; the log says it only at its end.
        Metric("checkpoint_buffers_per_transaction", "buffers written by checkpoints per transaction", "buffers"),
    )
    # fmt: on

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

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return what the log says; without a log, counts of checkpoints and buffers."""
        moved = self.moved()
        counters: dict[str, float | Unseen] = (
            dict.fromkeys(("checkpoints", "buffers"), moved)
            if isinstance(moved, Unseen)
            else {**moved}
        )
        if isinstance(self.reading, Unseen):
            unseen = dict.fromkeys(("distance_s", "running_s"), self.reading)
            return {**counters, **unseen, "begun": counters["checkpoints"]}
        begun = self._begun_within(window)
        times = [moment for moment, _ in begun if moment is not None]
        found = f"{len(times)} began in the {window.length_s:.1f} s of the window; it takes two"
        return {
            **counters,
            "begun": len(begun),
            "gaps": len(times) - 1,
            "distance_s": times[-1] - times[0] if len(times) > 1 else Unseen(found),
            "running_s": self._running_s(window)
            if self._has_times
            else Unseen("the log's times are not known here"),
            "window_s": window.length_s,
        }

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return what caused checkpoints, or where their number comes from."""
        if isinstance(self.reading, Unseen):
            return {"begun words": f"By the server's counters, since {self.reading.reason}."}
        counted = amounts["checkpoints"]
        counter = (
            "" if isinstance(counted, Unseen) else f" The server's own counter says {counted}."
        )
        causes = _causes(self._begun_within(window))
        return {"begun words": f"{causes}.{counter}{self.reading.warning}"}

    def _begun_within(self, window: Window) -> list[tuple[float | None, str]]:
        return [start for start in self._starts if is_within(start[0], window)]

    def _running_s(self, window: Window) -> float:
        return sum(
            max(0.0, min(end, window.finished_unix_s) - max(start, window.started_unix_s))
            for start, end in (_span(run, window) for run in self._runs)
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


def _causes(starts: Sequence[tuple[float | None, str]]) -> str:
    causes = Counter(cause for _, cause in starts)
    named = ", ".join(f"{count} by {cause}" for cause, count in causes.most_common())
    return f"{len(starts)} began" + (f": {named}" if named else "")


def _span(run: Run, window: Window) -> tuple[float, float]:
    return (
        window.started_unix_s if run.start_s is None else run.start_s,
        window.finished_unix_s if run.end_s is None else run.end_s,
    )


def _words(run: Run) -> str:
    cause = f"by {run.cause}" if run.cause else ""
    buffers = "" if run.buffers is None else f"{run.buffers:,} buffers written"
    return ", ".join(part for part in (cause, buffers) if part)
