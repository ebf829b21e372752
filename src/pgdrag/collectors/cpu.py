"""How much processor time did the server take?

/proc/PID/stat counts a process's time, and also that of its children that have ended and been waited
for. The postmaster waits for every child, so that nobody's time is lost, however short its life (see
`_proc`). Everything between the two readings counts, so also what it costs the clients to connect,
and the session from which `waits` looks: it connects only after the first reading.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors import _proc as proc
from pgdrag.collectors._counters import CounterCollector, Counters, missing, pick
from pgdrag.model import Observation

_PER_TRANSACTION = ("server_cpu_s_per_transaction", "server's processor time per transaction")
_SHARE = ("server_cpu_share", "server's share of all processors")
# The account is read until nobody came or went meanwhile; past this many times it is taken as is.
_READINGS = 20
# utime and stime, then those of waited-for children: fields 14 to 17 of proc(5). The first two fields
# are cut off at the last parenthesis: a program's name may hold one, and spaces.
_OWN = slice(11, 13)
_CHILDREN = slice(13, 15)


class Cpu(CounterCollector):
    """The kernel's account of all server processes but the collectors' own session."""

    name: ClassVar[str] = "cpu"
    summary: ClassVar[str] = "processor time of the server's processes"

    def __init__(self) -> None:
        super().__init__()
        self._processes = 0

    def read(self, observer: Observer) -> Counters:
        """Clock ticks of the processes that live and of those that have ended."""
        ticks, self._processes = server_ticks(observer.postmaster(), without=observer.backend_pid)
        return {"ticks": ticks}

    def observations(self, window: Window) -> Sequence[Observation]:
        """Processor time per transaction, and as a share of what the machine has."""
        ticks = pick(self.moved(), "ticks")
        if isinstance(ticks, Unseen):
            return (
                missing(*_PER_TRANSACTION, "s/transaction", ticks),
                missing(*_SHARE, "ratio", ticks),
            )
        per_s = os.sysconf("SC_CLK_TCK")
        # The kernel shows whole ticks: each process may have had one more, or less.
        doubt_s = max(self._processes, 1) / per_s
        return (
            _per_transaction(ticks / per_s, doubt_s, window),
            _share(ticks / per_s, doubt_s, self.observed_s),
        )


def _per_transaction(cpu_s: float, doubt_s: float, window: Window) -> Observation:
    if window.committed == 0:
        return missing(
            *_PER_TRANSACTION, "s/transaction", Unseen("nothing committed in the window")
        )
    return Observation(
        *_PER_TRANSACTION,
        cpu_s / window.committed,
        "s/transaction",
        doubt_s / window.committed,
        detail=f"{cpu_s:.2f} s in user and system mode, of all processes of the server.",
    )


def _share(cpu_s: float, doubt_s: float, observed_s: float) -> Observation:
    if observed_s <= 0:
        return missing(*_SHARE, "ratio", Unseen("the window has no length"))
    processors = os.cpu_count() or 1
    whole_s = observed_s * processors
    return Observation(
        *_SHARE,
        min(cpu_s / whole_s, 1.0),
        "ratio",
        min(doubt_s / whole_s, 1.0),
        detail=f"{cpu_s / observed_s:.2f} of {processors} processors.",
    )


def server_ticks(postmaster: int, *, without: int) -> tuple[int, int]:
    """Return the clock ticks of a server's processes but the child `without`, and how many live.

    Raises:
        Unseen: this host or these rights do not show it, or the server is gone.
    """
    total, living = 0, {}
    for _ in range(_READINGS):
        # A child that ends between the readings would be lost or counted twice.
        ended = _ticks(postmaster, _CHILDREN)
        living = _living(postmaster, without)
        total = ended + _ticks(postmaster, _OWN) + sum(living.values())
        is_still = proc.children(postmaster) - {without} == living.keys()
        if is_still and _ticks(postmaster, _CHILDREN) == ended:
            break
    return total, len(living) + 1


def ended_ticks(postmaster: int) -> int:
    """Return the clock ticks of all children of a server that have ended.

    Raises:
        Unseen: this host or these rights do not show it, or the server is gone.
    """
    return _ticks(postmaster, _CHILDREN)


def _living(postmaster: int, without: int) -> dict[int, int]:
    found = {}
    for pid in proc.children(postmaster) - {without}:
        try:
            found[pid] = _ticks(pid, _OWN) + _ticks(pid, _CHILDREN)
        except proc.Gone:
            continue
    return found


def _ticks(pid: int, fields: slice) -> int:
    text = proc.read_text(proc.PROC / str(pid) / "stat")
    return sum(int(field) for field in text.rpartition(")")[2].split()[fields])
