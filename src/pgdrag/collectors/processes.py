"""What did the server's processes read, write and take of the processors, by the kernel's account?

Everything between two readings counts, so also what it costs the driver's clients to connect, and the
session from which `waits` looks: it connects only after the first reading.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from pgdrag.collectors import (
    Amounts,
    Collector,
    Metric,
    Observer,
    Unseen,
    Window,
    attempt,
    detailed,
)
from pgdrag.collectors import _proc as proc
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors.counters import CounterCollector, Counters
from pgdrag.model.recordings import SESSION_TYPES, ProcessIoUse, Recordings
from pgdrag.servers.processes import CLIENT_BACKEND

_NS = 1e-9
SAMPLE_INTERVAL_S = 0.5
# Kinds that read or write enough to be shown; all others share one name.
_OTHERS = "others"
_KINDS = {
    "": "postmaster",  # just forked, a process has not yet said what it is
    CLIENT_BACKEND: "sessions",
    "autovacuum worker": "autovacuum workers",
    "parallel worker": "parallel workers",
    "io worker": "I/O workers",
    "checkpointer": "checkpointer",
    "background writer": "background writer",
    "walwriter": "WAL writer",
    "logger": "logger",
}
_AUTOVACUUM = ("autovacuum worker", "autovacuum launcher")
_MIN_LOOKS = 2


def _processors() -> int:
    return os.cpu_count() or 1


def _server_total(
    observer: Observer, read: Callable[[int], proc.Account]
) -> tuple[proc.Account, int]:
    """Return the account of the server without the collectors' own session, and how many processes live."""
    postmaster = observer.postmaster()
    with observer.seeing():
        return proc.server_total(postmaster, observer.backend_pid, read)


class Cpu(CounterCollector):
    """The kernel's account of all server processes but the collectors' own session."""

    name: ClassVar[str] = "cpu"
    summary: ClassVar[str] = "processor time of the server's processes"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "server_cpu_s_per_transaction", "server's processor time per transaction", "cpu_s", "s/transaction", step="step_s",
            detail="{cpu_s:.2f} s in user and system mode, of all processes of the server.",
        ),
        Metric(
            "server_cpu_share", "server's share of all processors", "cpu_s", "ratio", "all_s", step="step_s",
            detail="{used:.2f} of {processors} processors.",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._processes = 0

    def read(self, observer: Observer) -> Counters:
        found, self._processes = _server_total(observer, proc.read_ticks)
        return {"ticks": sum(found.values())}

    def amounts(self, window: Window) -> Amounts:
        per_s = os.sysconf("SC_CLK_TCK")
        cpu_s = self.moved()["ticks"] / per_s
        return {
            "cpu_s": cpu_s,
            # The kernel shows whole ticks: each process may have had one more, or less.
            "step_s": max(self._processes, 1) / per_s,
            "all_s": self.observed_s * _processors(),
            "used": cpu_s / self.observed_s if self.observed_s else 0.0,
            "processors": _processors(),
        }


class Reads(CounterCollector):
    """The kernel's account of all server processes but the collectors' own session."""

    name: ClassVar[str] = "reads"
    summary: ClassVar[str] = "read and write system calls and bytes of the server's processes"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *detailed(
            "{split}",
            Metric("read_syscalls_per_transaction", "read system calls per transaction", "read_calls"),
            Metric("read_syscalls_per_s", "read system calls per second", "read_calls", "1/s"),
        ),
        Metric("write_syscalls_per_transaction", "write system calls per transaction", "write_calls"),
        Metric(
            "read_bytes_per_transaction", "bytes read by system calls per transaction", "read_bytes", "bytes/transaction",
            detail="From the kernel's page cache or a device.",
        ),
        Metric(
            "storage_read_bytes_per_transaction", "bytes read from storage per transaction", "storage_read_bytes", "bytes/transaction",
            detail="Only what a device had to deliver.",
        ),
        Metric(
            "written_bytes_per_transaction", "bytes written by system calls per transaction", "written_bytes", "bytes/transaction",
            detail="Into the kernel's page cache or to a device; the server's log is included.",
        ),
        Metric(
            "storage_written_bytes_per_transaction", "bytes to be written to storage per transaction", "storage_written_bytes", "bytes/transaction",
            # Of ext4 since Linux 6.16, of XFS since 5.18: `findings.plausibility` finds out where.
            detail="Counted when a page becomes dirty, not when a device has it; a large folio counts with all its pages.",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._sampler: ShareSampler | Unseen = NO_READING
        self._by_kind: Mapping[str, proc.Account] = {}
        self._io_method = ""

    def read(self, observer: Observer) -> Counters:
        return _server_total(observer, proc.read_io)[0]

    def before(self, observer: Observer) -> None:
        io_method = attempt(lambda: observer.query("SELECT current_setting('io_method', true)"))
        self._io_method = "" if isinstance(io_method, Unseen) else io_method[0][0] or ""
        super().before(observer)
        self._sampler = attempt(
            lambda: ShareSampler(
                observer.postmaster(), observer.seeing, without=observer.backend_pid
            )
        )

    def pause(self) -> None:
        if isinstance(self._sampler, ShareSampler):
            self._sampler.is_resting = True

    def resume(self) -> None:
        if isinstance(self._sampler, ShareSampler):
            self._sampler.is_resting = False

    def after(self, observer: Observer) -> None:
        if isinstance(self._sampler, ShareSampler):
            self._by_kind = self._sampler.stop()
        super().after(observer)

    def amounts(self, window: Window) -> Amounts:
        moved = self.moved()
        return {**moved, "split": self._split(moved["read_calls"])}

    def _split(self, read_calls: int) -> str:
        """Who made the calls: the total is exact, the split misses the end of each short life."""
        if read_calls == 0:
            return "No read calls."
        calls = {kind: used["read_calls"] for kind, used in self._by_kind.items()}
        calls = dict(sorted(calls.items(), key=lambda each: -each[1]))
        named = [f"{x} {n / read_calls:.0%}" for x, n in calls.items() if n / read_calls >= 0.005]
        named.append(f"not attributed {max(0.0, 1 - sum(calls.values()) / read_calls):.0%}")
        # The kernel carries those reads out itself.
        ring = (
            " Reads through io_uring are not among them." if self._io_method == "io_uring" else ""
        )
        return (
            f"{read_calls:,} read calls: {', '.join(named)} (the last {SAMPLE_INTERVAL_S:g} s of"
            f" each process that ended).{ring}"
        )

    def recordings(self, window: Window) -> Recordings:
        """Return the calls and bytes of each kind of process, the busiest first, and what cannot be attributed.

        What a process did between the last look at it and its end is in the total alone.
        """
        moved = attempt(self.moved)
        if isinstance(moved, Unseen):
            return Recordings()
        named = sum(map(Counter, self._by_kind.values()), Counter[str]())
        left = {name: max(0, count - named[name]) for name, count in moved.items()}
        columns = ("read_calls", "write_calls", "read_bytes", "written_bytes")
        uses = [
            ProcessIoUse(kind, *(account[name] for name in columns))
            for kind, account in (*self._by_kind.items(), ("not attributed", left))
        ]
        uses[:-1] = sorted(uses[:-1], key=lambda use: -use.read_calls - use.write_calls)
        return Recordings(use for use in uses if use.read_calls or use.write_calls)


class ShareSampler:
    """Looks now and then at which kind of process does the reading and writing, on a thread of its own.

    Attributes:
        is_resting: set from outside: looks at nothing meanwhile.
    """

    def __init__(
        self, postmaster: int, seeing: Callable[[], AbstractContextManager[None]], *, without: int
    ) -> None:
        """Begin to look, twice a second.  Raises Unseen where that is impossible."""
        self._postmaster = postmaster
        self._seeing = seeing
        self._without = without
        self._by_kind = proc.ByKind()
        self._look()
        self.is_resting = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgdrag-proc", daemon=True)
        self._thread.start()

    def stop(self) -> Mapping[str, proc.Account]:
        """End, and return the calls and bytes seen of each kind of process."""
        self._end.set()
        self._thread.join(timeout=5)
        found: dict[str, Counter[str]] = {}
        for kind, used in self._by_kind.used().items():
            found.setdefault(_KINDS.get(kind, _OTHERS), Counter()).update(used)
        return found

    def _run(self) -> None:
        try:
            while not self._end.wait(SAMPLE_INTERVAL_S):
                if not self.is_resting:
                    self._look()
            # Once more, so that those who live to the end are complete.
            self._look()
        except Unseen:
            # The server is gone. What was seen so far stands; the total says what it lacks.
            return

    def _look(self) -> None:
        with self._seeing():
            pids = proc.children(self._postmaster) - {self._without}
            self._by_kind.add(time.monotonic(), proc.accounts_of(pids, proc.read_io), proc.type_of)


class Schedule(Collector):
    """The kernel's scheduler on the server's processes, by kind.

    A session without a wait event runs, or would like to: pg_stat_activity does not tell which. The kernel
    does, in /proc/PID/schedstat. It keeps no such account of processes that have ended, so that all are
    looked at once a second; what short-lived ones took unseen is in the postmaster's account of its ended
    children, and is shared out among the kinds of those that were seen to end.
    """

    name: ClassVar[str] = "schedule"
    summary: ClassVar[str] = "who ran on the processors, and how long sessions waited for one"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(
            Metric(
                f"{kind}_s_per_transaction", label, f"{kind}_s in window", "s/transaction", step=_NS,
                detail=f"{{{kind}_s:.2f}} s in {{observed_s:.1f}} s, by {{looks}} samples.",
            )
            for kind, label in (
                ("session_cpu", "sessions' processor time per transaction"),
                ("session_cpu_wait", "sessions' time ready to run, but waiting for a processor, per transaction"),
            )
        ),
        *(
            Metric(f"{kind}_cpu_share", f"{whose} share of all processors", f"{kind}_cpu_s", "ratio", "all_s", step=0.01, detail=f"{{{kind}_cpu_s:.2f}} s.")
            for kind, whose in (
                ("session", "sessions'"), ("autovacuum", "autovacuum's"), ("background", "the server's other processes'")
            )
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        self._by_kind = proc.ByKind()
        self._unseen: Unseen | None = None
        self._ended_s: list[float] = []  # processor time of all that had ended

    def before(self, observer: Observer) -> None:
        self.sample(observer)

    def sample(self, observer: Observer) -> None:
        if self._unseen is None:
            found = attempt(lambda: self._look(observer))
            self._unseen = found if isinstance(found, Unseen) else None

    def after(self, observer: Observer) -> None:
        """Take a look only if none was taken within the window: its sessions have ended by now."""
        if len(self._by_kind.times_s) < _MIN_LOOKS:
            self.sample(observer)

    def _look(self, observer: Observer) -> None:
        postmaster = observer.postmaster()
        own = {observer.backend_pid} | observer.sessions_of_programs()
        with observer.seeing():
            accounts = proc.accounts_of(proc.children(postmaster) - own, proc.scheduled_ns)
            ended_s = proc.read_ticks(postmaster)["ended"] / os.sysconf("SC_CLK_TCK")
            self.note(time.monotonic(), accounts, ended_s, proc.type_of)

    def note(
        self,
        at_s: float,
        accounts: Mapping[int, proc.Account],
        ended_s: float,
        kind: Callable[[int], str | None],
    ) -> None:
        """Note a look: every living process by its pid, and the processor time of all that have ended."""
        self._by_kind.add(at_s, accounts, kind)
        self._ended_s.append(ended_s)

    def amounts(self, window: Window) -> Amounts:
        observed_s = self._by_kind.length_s
        if self._unseen is not None or observed_s <= 0:
            raise self._unseen or Unseen("the window was too short for two samples")
        used = self._by_kind.used()
        cpu_s = {kind: used[kind]["cpu_ns"] * _NS + self._unseen_s(kind) for kind in list(used)}
        session_s = sum(cpu_s.pop(kind, 0.0) for kind in SESSION_TYPES)
        wait_s = sum(used[kind]["queue_ns"] for kind in SESSION_TYPES) * _NS
        autovacuum_s = sum(cpu_s.pop(kind, 0.0) for kind in _AUTOVACUUM)
        # The window's part of the seconds between the first look and the last.
        scale = window.elapsed_s / observed_s
        return {
            "session_cpu_s": session_s,
            "session_cpu_s in window": session_s * scale,
            "session_cpu_wait_s": wait_s,
            "session_cpu_wait_s in window": wait_s * scale,
            "autovacuum_cpu_s": autovacuum_s,
            "background_cpu_s": sum(cpu_s.values()),
            "all_s": observed_s * _processors(),
            "observed_s": observed_s,
            "looks": len(self._by_kind.times_s),
        }

    def _unseen_s(self, kind: str) -> float:
        """What processes of a kind used between their last sample and their end."""
        whole_ns = {one: life["cpu_ns"] for one, life in self._by_kind.ended.items()}
        all_ns = sum(whole_ns.values())
        unseen_s = max(self._ended_s[-1] - self._ended_s[0] - all_ns * _NS, 0.0)
        return unseen_s * whole_ns.get(kind, 0) / all_ns if all_ns else 0.0


_OWN, _PROGRAMS, _SESSIONS = "pgdrag itself", "its programs", "their sessions"


class Overhead(Collector):
    """Processor time of pgdrag's own process and of those that look for it.

    It adds up pgdrag's own process (collectors, reading from the driver, display), the programs that
    sample for it, and the server processes that serve them, from the first to the last sample within the
    window. `pgdrag calibrate --collectors` measures what all this costs in throughput.
    """

    name: ClassVar[str] = "overhead"
    summary: ClassVar[str] = "processor time that the collectors themselves use"
    is_of_machine: ClassVar[bool] = True
    # Of all collectors together: it holds for no single one of them.
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "collectors_cpu_share", "share of processor time that collecting took", "used_s", "ratio", "all_s", step=1e-3, detail="{parts}",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        # From before the window to after it, for a window in which there are not two looks.
        self._around, self._within = proc.ByKind(), proc.ByKind()
        self._unseen = NO_READING

    def before(self, observer: Observer) -> None:
        self._look(observer, self._around)

    def sample(self, observer: Observer) -> None:
        self._look(observer, self._within)

    def after(self, observer: Observer) -> None:
        self._look(observer, self._around)

    def _look(self, observer: Observer, looks: proc.ByKind) -> None:
        own = os.getpid()
        try:
            observer.postmaster()  # refuses a server that does not run here
            sessions = {observer.backend_pid} | observer.own_sessions
            sessions |= observer.sessions_of_programs()
            accounts = proc.accounts_of(observer.programs, proc.scheduled_ns)
            with observer.seeing():
                accounts |= proc.accounts_of(sessions, proc.scheduled_ns)
        except Unseen as unseen:
            self._unseen = unseen
            return
        kinds = {own: _OWN, **dict.fromkeys(observer.programs, _PROGRAMS)}
        kinds |= dict.fromkeys(sessions, _SESSIONS)
        # Of this process all threads.
        accounts[own] = {"cpu_ns": time.process_time_ns(), "queue_ns": 0}
        looks.add(time.monotonic(), accounts, kinds.get)

    def amounts(self, window: Window) -> Amounts:
        looks = self._within if len(self._within.times_s) > 1 else self._around
        if looks.length_s <= 0:
            raise Unseen(self._unseen.reason)
        used = looks.used()
        used_s = {kind: used[kind]["cpu_ns"] * _NS for kind in (_OWN, _PROGRAMS, _SESSIONS)}
        parts = [f"{kind} {1000 * x / looks.length_s:.1f}" for kind, x in used_s.items()]
        return {
            "used_s": sum(used_s.values()),
            "all_s": looks.length_s * _processors(),
            "parts": f"Milliseconds a second: {', '.join(parts)}; of {_processors()} processors.",
        }
