"""Which processes are there, and may this one see them?

In a container, root usually lacks CAP_SYS_PTRACE. Then /proc says of other users' processes neither what they run nor
where, and mounted with hidepid=2 not even that they are there. What cannot be seen must not be taken for gone.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pgdrag.errors import ServerError
from pgdrag.host.process_alive import stat_fields

if TYPE_CHECKING:
    from pgdrag.host.server_user import ServerUser

_PROC = Path("/proc")
_CAP_SYS_PTRACE = 19  # linux/capability.h
_libc = ctypes.CDLL(None)


@contextmanager
def seeing_as(user: ServerUser | None) -> Iterator[None]:
    """See in /proc what a user sees of its own processes, where root may not look at others'."""
    if user is None or os.geteuid() != 0 or has_ptrace():
        yield
        return
    # Of this thread alone, and it takes no other right: ptrace(2), PTRACE_MODE_READ_FSCREDS.
    _libc.setfsgid(user.gid)
    _libc.setfsuid(user.uid)
    try:
        yield
    finally:
        _libc.setfsuid(0)
        _libc.setfsgid(os.getegid())


def all_pids() -> list[int]:
    """Return all processes in sight.

    Raises:
        ServerError: /proc does not show even this one.
    """
    try:
        pids = [int(entry) for entry in os.listdir(_PROC) if entry.isdigit()]  # noqa: PTH208
    except OSError:
        pids = []
    if os.getpid() not in pids:
        raise ServerError(
            f'cannot see which processes run: "{_PROC}" does not show them',
            hint="Mount it: mount -t proc proc /proc",
        )
    return pids


def pids_of(user: ServerUser) -> list[int]:
    """Return a user's living processes.

    Raises:
        ServerError: /proc does not show even this process.
    """
    with seeing_as(user):
        return [x for x in all_pids() if uid_of(x) == user.uid and stat_fields(x) is not None]


def link_of(pid: int, name: str) -> str:
    """Return where a link of /proc/PID leads, such as "exe" and "cwd"; "" where that cannot be known."""
    try:
        # Of each process, several times a trial: a Path of it would take longer than the kernel.
        return os.readlink(f"{_PROC}/{pid}/{name}")  # noqa: PTH115
    except OSError:
        return ""


def environment_of(pid: int) -> list[bytes]:
    """Return NAME=VALUE for each variable that a process was started with; none where that cannot be known."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def uid_of(pid: int) -> int | None:
    """Return the owner of a process; None if it is gone or cannot be seen."""
    try:
        return (_PROC / str(pid)).stat().st_uid
    except OSError:
        return None


def has_ptrace() -> bool:
    """Whether this thread may look at other users' processes: CAP_SYS_PTRACE."""
    return has_capability(_CAP_SYS_PTRACE)


def has_capability(number: int) -> bool:
    """Whether a capability is in force for this thread; False where /proc does not say."""
    try:
        lines = (_PROC / "thread-self" / "status").read_text().splitlines()
    except OSError:
        return False
    effective = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> number & 1)
