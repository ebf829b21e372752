"""How much processor time did the collectors themselves use?

It adds up pgdrag's own process (collectors, reading from the driver, display), the programs that sample
for it, and the server processes that serve them, from the first to the last sample within the window.
`pgdrag calibrate --collectors` measures what all this costs in throughput.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window
from pgdrag.collectors import _proc as proc
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors.counters import attempt

_NS = 1e-9
_OWN, _PROGRAMS, _SESSIONS = "pgdrag itself", "its programs", "their sessions"


@dataclass(frozen=True)
class _Look:
    """Processor time at one moment, in seconds: of each process, by its kind and number."""

    moment_s: float
    used_s: Mapping[tuple[str, int], float]


class Overhead(Collector):
    """Processor time of pgdrag's own process and of those that look for it."""

    name: ClassVar[str] = "overhead"
    summary: ClassVar[str] = "what the collectors themselves take of the processors"
    is_of_machine: ClassVar[bool] = True
    # Of all collectors together: it holds for no single one of them.
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "collectors_cpu_share", "processors' time that looking took, of all there was", "used_s", "ratio", "all_s", step=1e-3, detail="{parts}",
        ),
    )
    # fmt: on

    def __init__(self) -> None:
        self._ends: list[_Look | Unseen] = []
        self._within: list[_Look] = []

    def before(self, observer: Observer) -> None:
        """Look, for a window that ends before there were two looks in it."""
        self._ends = [attempt(lambda: self._look(observer))]

    def sample(self, observer: Observer) -> None:
        """Look."""
        look = attempt(lambda: self._look(observer))
        if isinstance(look, _Look):
            self._within = [*self._within[:1], look]

    def after(self, observer: Observer) -> None:
        """Look once more, where there was no time for it in the window."""
        self._ends.append(attempt(lambda: self._look(observer)))

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return processor time used, and what all processors had."""
        found = self._used()
        if isinstance(found, Unseen):
            return found
        used_s, length_s = found
        return {"used_s": sum(used_s.values()), "all_s": length_s * (os.cpu_count() or 1)}

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return whose time it was."""
        found = self._used()
        if isinstance(found, Unseen) or not found[1]:
            return {}
        return {"parts": _words(*found, os.cpu_count() or 1)}

    def _used(self) -> tuple[Mapping[tuple[str, int], float], float] | Unseen:
        """Return processor time by process, and the seconds in which it was used."""
        looks = self._within if len(self._within) > 1 else self._ends
        unseen = next((x for x in looks if isinstance(x, Unseen)), None)
        if unseen is not None or len(looks) < 2:
            return unseen or NO_READING
        first, last = (x for x in looks if isinstance(x, _Look))
        used_s = {
            # A process that was not there at first has begun meanwhile.
            process: max(0.0, now_s - first.used_s.get(process, 0.0))
            for process, now_s in last.used_s.items()
        }
        return used_s, last.moment_s - first.moment_s

    def _look(self, observer: Observer) -> _Look:
        observer.postmaster()  # refuses a server that does not run here
        used_s = {(_OWN, os.getpid()): time.process_time()}
        own = {observer.backend_pid} | observer.own_sessions
        for kind, pids in (
            (_PROGRAMS, observer.programs),
            (_SESSIONS, own | observer.sessions_of_programs()),
        ):
            for pid in pids:
                try:
                    used_s[kind, pid] = _used_s(pid)
                except proc.Gone:
                    continue
        return _Look(time.monotonic(), used_s)


def _used_s(pid: int) -> float:
    """Return the processor time of a process's first thread, to the nanosecond.

    Raises:
        Unseen: it has ended, or this host or these rights do not show it.
    """
    return proc.scheduled_ns(pid)[0] * _NS


def _words(used_s: Mapping[tuple[str, int], float], length_s: float, processors: int) -> str:
    parts = []
    for kind in (_OWN, _PROGRAMS, _SESSIONS):
        of_kind = sum(value for (name, _), value in used_s.items() if name == kind)
        parts.append(f"{kind} {1000 * of_kind / length_s:.1f}")
    return f"Milliseconds a second: {', '.join(parts)}; of {processors} processors."
