"""Who ran on the processors, and how long did sessions wait for one?

A session without a wait event runs, or would like to: pg_stat_activity does not tell which. The kernel
does, in /proc/PID/schedstat: nanoseconds on a processor, and nanoseconds ready to run, but waiting for
one. It keeps no account of processes that have ended, so that all are looked at once a second; what
short-lived ones took unseen is in the postmaster's account of its ended children, and is shared out
among the kinds of those that were seen to end.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window
from pgdrag.collectors import _proc as proc
from pgdrag.collectors.counters import attempt
from pgdrag.collectors.cpu import ended_ticks
from pgdrag.model.recordings import SESSION_TYPES

_AUTOVACUUM = ("autovacuum worker", "autovacuum launcher")
_NS = 1e-9
_LOOKS_MIN = 2
_TOO_SHORT = Unseen("the window was too short for two looks")


@dataclass(frozen=True)
class Account:
    """A process's time since it began: on a processor, and waiting for one."""

    kind: str
    cpu_ns: int
    queue_ns: int


class Looks:
    """Processor time of all processes by kind, from the first look to the last.

    Attributes:
        count: of looks.
    """

    def __init__(self) -> None:
        self.count = 0
        self._began_s = self._last_s = 0.0
        self._last: Mapping[int, Account] = {}
        self._cpu_ns: Counter[str] = Counter()
        self._queue_ns: Counter[str] = Counter()
        self._ended_before_s = self._ended_s = 0.0
        # Whole lives of those that ended, as last seen: the postmaster's account has them, too.
        self._seen_of_ended_ns: Counter[str] = Counter()

    def add(self, at_s: float, accounts: Mapping[int, Account], ended_s: float) -> None:
        """Note a look: every living process by its pid, and the processor time of all that have ended."""
        if not self.count:
            self._began_s, self._ended_before_s, self._last = at_s, ended_s, accounts
        for pid, now in accounts.items():
            then = self._last.get(pid, Account(now.kind, 0, 0))
            if (
                then.cpu_ns > now.cpu_ns
            ):  # another process by now, with the number of one that ended
                then = Account(now.kind, 0, 0)
            self._cpu_ns[now.kind] += now.cpu_ns - then.cpu_ns
            self._queue_ns[now.kind] += max(now.queue_ns - then.queue_ns, 0)
        for pid in self._last.keys() - accounts.keys():
            self._seen_of_ended_ns[self._last[pid].kind] += self._last[pid].cpu_ns
        self.count += 1
        self._last, self._last_s, self._ended_s = accounts, at_s, ended_s

    @property
    def observed_s(self) -> float:
        """Seconds from the first look to the last."""
        return self._last_s - self._began_s

    def queue_s(self, *kinds: str) -> float:
        """Seconds in which processes of these kinds waited for a processor."""
        return sum(self._queue_ns[kind] for kind in kinds) * _NS

    def cpu_s(self, *kinds: str) -> float:
        """Seconds that processes of these kinds were on a processor."""
        return sum(self._cpu_ns[kind] * _NS + self._unseen_s(kind) for kind in kinds)

    def cpu_s_without(self, *kinds: str) -> float:
        """Seconds that processes of all other kinds were on a processor."""
        return self.cpu_s(*(kind for kind in self._cpu_ns if kind not in kinds))

    def _unseen_s(self, kind: str) -> float:
        """What processes of a kind took between the last look at them and their end."""
        whole_ns = self._seen_of_ended_ns.total()
        unseen_s = self._ended_s - self._ended_before_s - whole_ns * _NS
        return max(unseen_s, 0.0) * self._seen_of_ended_ns[kind] / whole_ns if whole_ns else 0.0


def _time(kind: str, label: str) -> Metric:
    return Metric(
        f"{kind}_s_per_transaction",
        label,
        f"{kind}_s in window",
        "s/transaction",
        step=_NS,
        detail=f"{{{kind}_s:.2f}} s in {{observed_s:.1f}} s, by {{looks}} looks.",
    )


def _share(kind: str, label: str) -> Metric:
    return Metric(
        f"{kind}_cpu_share",
        label,
        f"{kind}_cpu_s",
        "ratio",
        "all_s",
        step=0.01,
        detail=f"{{{kind}_cpu_s:.2f}} s.",
    )


class Schedule(Collector):
    """The kernel's scheduler on the server's processes, by kind."""

    name: ClassVar[str] = "schedule"
    summary: ClassVar[str] = "who ran on the processors, and how long sessions waited for one"
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        _time("session_cpu", "sessions' processor time per transaction"),
        _time("session_cpu_wait", "sessions' time ready to run, but waiting for a processor, per transaction"),
        _share("session", "sessions' share of all processors"),
        _share("autovacuum", "autovacuum's share of all processors"),
        _share("background", "the server's other processes' share of all processors"),
    )
    # fmt: on

    def __init__(self) -> None:
        self._looks = Looks()
        self._unseen: Unseen | None = None
        self._kinds: dict[int, str] = {}

    def before(self, observer: Observer) -> None:
        """Look at every process."""
        self.sample(observer)

    def sample(self, observer: Observer) -> None:
        """Look at every process."""
        if self._unseen is None:
            found = attempt(lambda: self._look(observer))
            self._unseen = found if isinstance(found, Unseen) else None

    def after(self, observer: Observer) -> None:
        """Take a look only if none was taken within the window: its sessions have ended by now."""
        if self._looks.count < _LOOKS_MIN:
            self.sample(observer)

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return sessions' time on a processor and waiting for one, and what others took."""
        looks = self._looks
        if self._unseen is not None or looks.observed_s <= 0:
            return self._unseen or _TOO_SHORT
        cpu_s, wait_s = looks.cpu_s(*SESSION_TYPES), looks.queue_s(*SESSION_TYPES)
        # The window's part of the seconds between the first look and the last.
        scale = window.elapsed_s / looks.observed_s
        return {
            "session_cpu_s": cpu_s,
            "session_cpu_s in window": cpu_s * scale,
            "session_cpu_wait_s": wait_s,
            "session_cpu_wait_s in window": wait_s * scale,
            "autovacuum_cpu_s": looks.cpu_s(*_AUTOVACUUM),
            "background_cpu_s": looks.cpu_s_without(*SESSION_TYPES, *_AUTOVACUUM),
            "all_s": looks.observed_s * (os.cpu_count() or 1),
            "observed_s": looks.observed_s,
            "looks": looks.count,
        }

    def _look(self, observer: Observer) -> None:
        postmaster = observer.postmaster()
        own = {observer.backend_pid} | observer.sessions_of_programs()
        accounts = {}
        for pid in proc.children(postmaster) - own:
            try:
                accounts[pid] = Account(self._kind(pid), *proc.scheduled_ns(pid))
            except proc.Gone:
                continue
        ended_s = ended_ticks(postmaster) / os.sysconf("SC_CLK_TCK")
        self._looks.add(time.monotonic(), accounts, ended_s)

    def _kind(self, pid: int) -> str:
        known = self._kinds.get(pid) or proc.type_of(pid)
        # Just forked, it may not have said yet what it is: it is asked again.
        self._kinds[pid] = known or ""
        return self._kinds[pid]
