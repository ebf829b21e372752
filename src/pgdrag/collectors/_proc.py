"""What did all processes of the server read and write, by the kernel's account?

/proc/PID/io counts a process's calls and bytes, and also those of its children that have ended and
been waited for. The postmaster waits for every child, so the sum over the postmaster and its living
children never loses a process, however short its life: the total is exact without sampling. What is
sampled is only the split by kind of process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from pgdrag.collectors import Unseen
from pgdrag.servers.processes import CLIENT_BACKEND, backend_type

T = TypeVar("T")
V = TypeVar("V")
PROC = Path("/proc")
SAMPLE_INTERVAL_S = 0.25

# The account is read until no process started or ended meanwhile, but at most this often.
_READINGS = 20
_POSTMASTER = "postmaster"
_PROCESSOR_TIME = ("stat", "schedstat")
_CHUNK = 1 << 16
# Kinds that read or write enough to be shown; all others share one name.
_OTHERS = "others"
_KINDS = {
    CLIENT_BACKEND: "sessions",
    "autovacuum worker": "autovacuum workers",
    "parallel worker": "parallel workers",
    "io worker": "I/O workers",
    "checkpointer": "checkpointer",
    "background writer": "background writer",
    "walwriter": "WAL writer",
    "logger": "logger",
}


@dataclass(frozen=True)
class ProcessIo:
    """Calls and bytes as in /proc/PID/io, which proc(5) explains."""

    read_calls: int = 0
    write_calls: int = 0
    read_bytes: int = 0  # through read calls, from the page cache as well
    written_bytes: int = 0
    storage_read_bytes: int = 0  # that a device had to deliver
    storage_written_bytes: int = 0  # that were handed to a file system to be written

    def __add__(self, other: ProcessIo) -> ProcessIo:
        return ProcessIo(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def __sub__(self, other: ProcessIo) -> ProcessIo:
        return ProcessIo(*(a - b for a, b in zip(_values(self), _values(other), strict=True)))

    def is_at_least(self, other: ProcessIo) -> bool:
        """Tell whether this may be a later account of the same process: none of it ever falls."""
        return all(a >= b for a, b in zip(_values(self), _values(other), strict=True))


_values = attrgetter(*(one.name for one in fields(ProcessIo)))


@dataclass(frozen=True)
class ServerIo:
    """One reading of all processes of a server but one: that of the observer's own session.

    Attributes:
        ended: the postmaster's own account, with that of all processes that have ended.
        living: account of each living child.
    """

    ended: ProcessIo
    living: Mapping[int, ProcessIo] = field(default_factory=dict)

    @property
    def total(self) -> ProcessIo:
        """The account of the whole server since it started."""
        return sum(self.living.values(), self.ended)


def read_server_io(postmaster: int, *, without: int) -> ServerIo:
    """Read the account of a server's processes but the child `without`.

    Raises:
        Unseen: this host or these rights do not show it, or the server is gone.
    """
    return ServerIo(*settled(postmaster, without, lambda: read_io(postmaster), read_io))


def settled(
    postmaster: int, without: int, of_ended: Callable[[], T], of_child: Callable[[int], V]
) -> tuple[T, dict[int, V]]:
    """Return the account of ended children, and those of living ones but `without`, at one moment.

    A child that ended between the two would be lost or counted twice: both are read again then.

    Raises:
        Unseen: this host or these rights do not show it, or the server is gone.
    """
    for _ in range(_READINGS):
        ended, living = of_ended(), of_children(postmaster, without, of_child)
        if children(postmaster) - {without} == living.keys() and of_ended() == ended:
            break
    return ended, living


def of_children(postmaster: int, without: int, of_child: Callable[[int], V]) -> dict[int, V]:
    """Return something of each living child of a server but `without`.

    Raises:
        Unseen: see `children`.
    """
    found: dict[int, V] = {}
    for pid in children(postmaster) - {without}:
        try:
            found[pid] = of_child(pid)
        except Gone:
            continue
    return found


def read_io(pid: int) -> ProcessIo:
    """Read one process's account.

    Raises:
        Unseen: the process is gone, or its account is not for this user.
    """
    text = read_text(PROC / str(pid) / "io")
    values = dict(line.split(": ", 1) for line in text.splitlines())
    names = ("syscr", "syscw", "rchar", "wchar", "read_bytes", "write_bytes")
    return ProcessIo(*(int(values[name]) for name in names))


class ShareSampler:
    """Looks now and then at which kind of process does the reading and writing, on a thread of its own.

    Attributes:
        is_resting: set from outside: looks at nothing meanwhile.
    """

    def __init__(self, postmaster: int, *, without: int) -> None:
        """Begin to look, four times a second.  Raises Unseen where that is impossible."""
        self._postmaster = postmaster
        self._without = without
        self._start = of_children(postmaster, without, read_io)
        self._kinds: dict[int, str] = {}
        self._last: dict[int, ProcessIo] = {}
        self._gone: dict[str, ProcessIo] = {}
        self.is_resting = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgdrag-proc", daemon=True)
        self._thread.start()

    def stop(self) -> Mapping[str, ProcessIo]:
        """End, and return the calls and bytes seen of each kind of process."""
        self._end.set()
        self._thread.join(timeout=5)
        for pid in list(self._last):
            self._bank(pid)
        return dict(self._gone)

    def _run(self) -> None:
        try:
            while True:
                if not self.is_resting:
                    self._look()
                if self._end.wait(SAMPLE_INTERVAL_S):
                    # Once more, so that those who live to the end are complete.
                    self._look()
                    return
        except Unseen:
            # The server is gone. What was seen so far stands; the total says what it lacks.
            return

    def _look(self) -> None:
        living = of_children(self._postmaster, self._without, read_io)
        for pid in self._last.keys() - living.keys():
            self._bank(pid)
        for pid, io in living.items():
            last = self._last.get(pid)
            if last is not None and not io.is_at_least(last):
                self._bank(pid)  # another process by now, with the number of one that ended
            if self._kinds.get(pid, _POSTMASTER) == _POSTMASTER:
                self._kinds[pid] = _kind(pid)
            self._last[pid] = io

    def _bank(self, pid: int) -> None:
        last, before = self._last.pop(pid), self._start.get(pid, ProcessIo())
        kind = self._kinds.pop(pid)
        own = last - before if last.is_at_least(before) else last
        self._gone[kind] = self._gone.get(kind, ProcessIo()) + own


def children(postmaster: int) -> set[int]:
    """Return the living children of a server.

    Raises:
        Unseen: the server is gone, or not for this user.
    """
    # Only of the main thread, but the postmaster has no other.
    text = read_text(PROC / str(postmaster) / "task" / str(postmaster) / "children")
    return {int(pid) for pid in text.split()}


def _kind(pid: int) -> str:
    try:
        known = type_of(pid)
    except Unseen:
        return _POSTMASTER
    # Just forked, it has not yet said what it is.
    return _POSTMASTER if known is None else _KINDS.get(known, _OTHERS)


def type_of(pid: int) -> str | None:
    """Return what kind of server process it is; None of a child just forked, which has not said it yet.

    Raises:
        Unseen: it is gone, or not for this user.
    """
    return backend_type(read_text(PROC / str(pid) / "cmdline"))


def scheduled_ns(pid: int) -> tuple[int, int]:
    """Return nanoseconds on a processor, and ready to run but waiting for one, of a process's first thread.

    Raises:
        Unseen: it is gone, or this host or these rights do not show it.
    """
    cpu_ns, queue_ns, *_ = read_text(PROC / str(pid) / "schedstat").split()
    return int(cpu_ns), int(queue_ns)


class Gone(Unseen):
    """The process has ended."""


def read_text(path: Path) -> str:
    """Return what a file of a process holds.

    Raises:
        Unseen: the process is gone, or this host or these rights do not show it.
    """
    account = "io" if path.name not in _PROCESSOR_TIME else path.name
    try:
        return _read(path)
    except (FileNotFoundError, ProcessLookupError) as error:
        if not (PROC / "self" / account).exists():
            what = "I/O" if account == "io" else "processor time"
            text = f"this host does not account {what} by process in /proc/PID/{account}"
            raise Unseen(text) from error
        raise Gone("the server's process is gone") from error
    except PermissionError as error:
        text = f"this user may not read /proc/PID/{account} of the server's processes"
        raise Unseen(text) from error


def _read(path: Path) -> str:
    # A look reads one file of each of the server's processes: this takes a third of what pathlib does.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, _CHUNK):
            parts.append(part)
    finally:
        os.close(fd)
    return b"".join(parts).decode(errors="replace")
