"""How much processor time did the server take?

/proc/PID/stat counts a process's time, and also that of its children that have ended and been waited
for. The postmaster waits for every child, so no process's time is lost, however short its life (see
`_proc`). Everything between the two readings counts, so also what it costs the clients to connect,
and the session from which `waits` looks: it connects only after the first reading.
"""

from __future__ import annotations

import os
from typing import ClassVar

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window
from pgdrag.collectors import _proc as proc
from pgdrag.collectors.counters import CounterCollector, Counters

# utime and stime, then those of waited-for children: fields 14 to 17 of proc(5). The first two fields
# are cut off at the last parenthesis: a program's name may hold one, and spaces.
_OWN = slice(11, 13)
_CHILDREN = slice(13, 15)


class Cpu(CounterCollector):
    """The kernel's account of all server processes but the collectors' own session."""

    name: ClassVar[str] = "cpu"
    summary: ClassVar[str] = "processor time of the server's processes"

    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "server_cpu_s_per_transaction", "server's processor time per transaction", "cpu_s", "s/transaction", step="step_s",
            detail="{cpu_s:.2f} s in user and system mode, of all processes of the server.",
        ),
        Metric(
            "server_cpu_share", "server's share of all processors", "cpu_s", "ratio", "all_s", step="step_s",
            detail="{used:.2f} of {processors} processors.",
        ),
    )
    # fmt: on

    def __init__(self) -> None:
        super().__init__()
        self._processes = 0

    def read(self, observer: Observer) -> Counters:
        """Clock ticks of the processes that live and of those that have ended."""
        ticks, self._processes = server_ticks(observer.postmaster(), without=observer.backend_pid)
        return {"ticks": ticks}

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return seconds that the server used, and that all processors had."""
        moved = self.moved()
        if isinstance(moved, Unseen):
            return moved
        per_s, processors = os.sysconf("SC_CLK_TCK"), os.cpu_count() or 1
        cpu_s = moved["ticks"] / per_s
        return {
            "cpu_s": cpu_s,
            # The kernel shows whole ticks: each process may have had one more, or less.
            "step_s": max(self._processes, 1) / per_s,
            "all_s": self.observed_s * processors,
            "used": cpu_s / self.observed_s if self.observed_s else 0.0,
            "processors": processors,
        }


def server_ticks(postmaster: int, *, without: int) -> tuple[int, int]:
    """Return the clock ticks of a server's processes but the child `without`, and how many live.

    Raises:
        Unseen: this host or these rights do not show it, or the server is gone.
    """
    ended, living = proc.settled(
        postmaster,
        without,
        lambda: ended_ticks(postmaster),
        lambda pid: _ticks(pid, _OWN) + _ticks(pid, _CHILDREN),
    )
    return ended + _ticks(postmaster, _OWN) + sum(living.values()), len(living) + 1


def ended_ticks(postmaster: int) -> int:
    """Return the clock ticks of all children of a server that have ended.

    Raises:
        Unseen: this host or these rights do not show it, or the server is gone.
    """
    return _ticks(postmaster, _CHILDREN)


def _ticks(pid: int, fields: slice) -> int:
    text = proc.read_text(proc.PROC / str(pid) / "stat")
    return sum(int(field) for field in text.rpartition(")")[2].split()[fields])
