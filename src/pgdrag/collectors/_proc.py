"""What did all processes of the server use, by the kernel's account?

/proc/PID/io counts a process's calls and bytes, and also those of its children that have ended and
been waited for; so does /proc/PID/stat for processor time. The postmaster waits for every child, so the
sum over the postmaster and its living children never loses a process, however short its life: the total
is exact without sampling. What is sampled is only the split by kind of process.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from pgdrag.collectors import Unseen
from pgdrag.host.process_alive import has_ended
from pgdrag.servers.processes import backend_type

PROC = Path("/proc")
# The account is read until no process started or ended meanwhile, but at most this often.
_READINGS = 20
_CPU = "this host does not report processor time per process in /proc/PID/"
# What a kernel may be built without, by the file that would show it.
_NOT_KEPT = {
    "io": "this host does not report I/O per process in /proc/PID/io",
    "stat": f"{_CPU}stat",
    "schedstat": f"{_CPU}schedstat",
    "cgroup": "this kernel has no control groups",
}
_CHUNK = 1 << 16
_ANONYMOUS = re.compile(r"^RssAnon:\s*(\d+) kB$", re.MULTILINE)

Account: TypeAlias = Mapping[str, int]  # counters that only grow, of one process


def server_total(
    postmaster: int, without: int, read: Callable[[int], Account]
) -> tuple[Account, int]:
    """Return the account of a server since it started, without the child `without`, and how many processes live.

    A child that ended while it is read would be lost or counted twice: all are read again then.

    Args:
        read: returns the account of a process with that of its children that have ended.

    Raises:
        Unseen: this host or these rights do not show it, or the server is gone.
    """
    for _ in range(_READINGS):
        first, living = read(postmaster), accounts_of(children(postmaster) - {without}, read)
        if children(postmaster) - {without} == living.keys() and read(postmaster) == first:
            break
    total = Counter(first)
    for account in living.values():
        total.update(account)
    return total, len(living) + 1


def accounts_of(pids: Iterable[int], read: Callable[[int], Account]) -> dict[int, Account]:
    """Return the account of each process, but of those that have ended.

    Raises:
        Unseen: this host or these rights do not show it.
    """
    found: dict[int, Account] = {}
    for pid in pids:
        try:
            found[pid] = read(pid)
        except Gone:
            continue
    return found


class ByKind:
    """What processes of each kind were seen to use between the first and the last look.

    Attributes:
        times_s: of the looks.
        ended: whole lives of those that ended, as last seen, by kind.
    """

    def __init__(self) -> None:
        self.times_s: list[float] = []
        self.ended: dict[str, Counter[str]] = defaultdict(Counter)
        self._used: dict[str, Counter[str]] = defaultdict(Counter)
        self._first: dict[int, Account] = {}
        self._last: dict[int, Account] = {}
        self._kinds: dict[int, str] = {}

    @property
    def length_s(self) -> float:
        """Seconds from the first look to the last."""
        return self.times_s[-1] - self.times_s[0] if self.times_s else 0.0

    def add(
        self, at_s: float, accounts: Mapping[int, Account], kind: Callable[[int], str | None]
    ) -> None:
        """Record a sample of every living process; `kind` returns None for one whose kind is not known yet."""
        if not self.times_s:
            self._first = dict(accounts)
        self.times_s.append(at_s)
        for pid, last in list(self._last.items()):
            now = accounts.get(pid)
            # Where an account fell it is that of another process, with the number of one that ended.
            if now is None or any(now[name] < count for name, count in last.items()):
                whole = self._kinds.pop(pid, "")
                self.ended[whole].update(last)
                self._used[whole].update(self._own(pid))
                self._first.pop(pid, None)
        self._last = dict(accounts)
        for pid in accounts:
            if pid not in self._kinds and (known := kind(pid)) is not None:
                self._kinds[pid] = known

    def _own(self, pid: int) -> Account:
        first = self._first.get(pid, {})
        return {name: count - first.get(name, 0) for name, count in self._last[pid].items()}

    def used(self) -> dict[str, Counter[str]]:
        """Return what each kind used; "" is of those that ended before they said what they were."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for kind, used in self._used.items():
            found[kind].update(used)
        for pid in self._last:
            found[self._kinds.get(pid, "")].update(self._own(pid))
        return found


def read_io(pid: int) -> Account:
    """Read calls and bytes of one process: /proc/PID/io, which proc(5) explains.

    "read_bytes" are through calls, from the page cache as well, "storage_read_bytes" what a device had to
    deliver, "storage_written_bytes" what was handed to a file system to be written.

    Raises:
        Unseen: the process is gone, or its account is not for this user.
    """
    text = read_text(pid, "io")
    values = dict(line.split(": ", 1) for line in text.splitlines())
    return {name: int(values[key]) for name, key in _IO.items()}


_IO = {
    "read_calls": "syscr",
    "write_calls": "syscw",
    "read_bytes": "rchar",
    "written_bytes": "wchar",
    "storage_read_bytes": "read_bytes",
    "storage_written_bytes": "write_bytes",
}


def read_ticks(pid: int) -> Account:
    """Read clock ticks in user and system mode: "own" ones, and those of "ended" children.

    Raises:
        Unseen: the process is gone, or its account is not for this user.
    """
    text = read_text(pid, "stat")
    # Fields 14 to 17 of proc(5). The first two are cut off at the last parenthesis: a program's name may
    # hold one, and spaces.
    user, system, ended_user, ended_system = map(int, text.rpartition(")")[2].split()[11:15])
    return {"own": user + system, "ended": ended_user + ended_system}


def scheduled_ns(pid: int) -> Account:
    """Return nanoseconds on a processor, and ready to run but waiting for one, of a process's first thread.

    Raises:
        Unseen: it is gone, or this host or these rights do not show it.
    """
    cpu_ns, queue_ns, *_ = read_text(pid, "schedstat").split()
    return {"cpu_ns": int(cpu_ns), "queue_ns": int(queue_ns)}


def private_bytes(pid: int) -> Account:
    """Return the memory that a process has for itself, as "private": no file's, and shared with no other process.

    Raises:
        Unseen: it is gone, or this host or these rights do not show it.
    """
    found = _ANONYMOUS.search(read_text(pid, "status"))
    # A process that is ending has no memory any more.
    return {"private": int(found[1]) * 1024 if found else 0}


def children(postmaster: int) -> set[int]:
    """Return the living children of a server.

    Raises:
        Unseen: the server is gone, or not for this user.
    """
    # Only of the main thread, but the postmaster has no other.
    text = read_text(postmaster, f"task/{postmaster}/children")
    return {int(pid) for pid in text.split()}


def type_of(pid: int) -> str | None:
    """Return the kind of a server process; None if it is gone, or has just been forked and has no title yet."""
    try:
        return backend_type(read_text(pid, "cmdline"))
    except Unseen:
        return None


class Gone(Unseen):
    """The process has ended."""


def read_text(pid: int, name: str) -> str:
    """Return what a file of a process holds.

    Raises:
        Gone: the process has ended.
        Unseen: this host or these rights do not show it.
    """
    try:
        # A look reads one file of each of the server's processes: this takes a third of what pathlib does.
        fd = os.open(f"{PROC}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(fd, _CHUNK):
                parts.append(part)
        finally:
            os.close(fd)
        return b"".join(parts).decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError) as error:
        raise _unread(pid, name, error) from error


def _unread(pid: int, name: str, error: OSError) -> Unseen:
    """Return why a file of a process could not be read: a hidden process is not a process that is gone."""
    if name in _NOT_KEPT and not (PROC / "self" / name).exists():
        return Unseen(_NOT_KEPT[name])
    # While a process ends, its account is root's: its own user may not read it.
    if has_ended(pid):
        return Gone("the server's process is gone")
    if isinstance(error, PermissionError):
        return Unseen(
            f"this user may not read /proc/PID/{name} of the server's processes; it takes CAP_SYS_PTRACE"
        )
    return Unseen(
        "/proc hides the server's processes from this user (hidepid); it takes CAP_SYS_PTRACE"
    )
