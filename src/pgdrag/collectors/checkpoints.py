"""How often did checkpoints begin, what caused them, and how much did they write?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Metric, Unseen, Window, attempt
from pgdrag.collectors._log import LogCollector, in_groups, is_within
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.log_formats import LogMessage, Wanted

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
_CAUSES = {"wal": "WAL volume", "time": "time"}


@dataclass
class Run:
    """One checkpoint, or what was seen of it.

    Attributes:
        start_s: by the clock; None where it began before the log was looked at.
        end_s: None where it ended afterwards.
        cause: "WAL volume", "time" or "request"; "" where its beginning was not seen.
        buffers: written; None where its end was not seen.
    """

    start_s: float | None
    end_s: float | None = None
    cause: str = ""
    buffers: int | None = None

    def span(self, window: Window) -> tuple[float, float]:
        """Return its beginning and end by the clock; those of the window where they were not seen."""
        return (
            window.started_unix_s if self.start_s is None else self.start_s,
            window.finished_unix_s if self.end_s is None else self.end_s,
        )

    @property
    def words(self) -> str:
        """What caused it, and what it wrote."""
        cause = f"by {self.cause}" if self.cause else ""
        buffers = "" if self.buffers is None else f"{self.buffers:,} buffers written"
        return ", ".join(part for part in (cause, buffers) if part)


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
        Metric("buffers_per_checkpoint", "buffers written per checkpoint", "written", "count", "ended", nothing="no checkpoint ended in the window"),
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
            self._runs[-1].end_s, self._runs[-1].buffers = message.unix_s, int(found["buffers"])

    def amounts(self, window: Window) -> Amounts:
        """Return what the log says; without a log, counts of checkpoints and buffers."""
        moved = attempt(self.moved)
        counters: Mapping[str, float | Unseen] = (
            dict.fromkeys(("checkpoints", "buffers"), moved) if isinstance(moved, Unseen) else moved
        )
        if isinstance(self.reading, Unseen):
            return {
                **counters,
                **dict.fromkeys(("distance_s", "running_s", "written", "ended"), self.reading),
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
        written = [
            run.buffers
            for run in self._runs
            if run.buffers is not None and run.end_s is not None and is_within(run.end_s, window)
        ]
        spans = [run.span(window) for run in self._runs]
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
            "written": sum(written),
            "ended": len(written),
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
