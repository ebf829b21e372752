"""Does a process live, and is what it held free once it does not? How is either waited for?"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PROC = Path("/proc")
# Far more than a child needs from fork to exec, and less than a person's patience.
_FORKED_CHILD_S = 5.0
_POLL_S = 0.01
_DEAD = "ZX"
_EXITING = 0x4  # among the flags of a process: linux/sched.h, PF_EXITING
# The name (comm) of a process that clears up after a dead one, and holds for a moment what that held.
GUARDIAN = "pgdrag-guardian"


def stat_fields(pid: int) -> list[str] | None:
    """Return /proc/PID/stat from the state on (proc(5)); None: it is gone, only to be reaped, or not in sight."""
    try:
        fields = _fields(pid)
    except OSError:
        return None
    return None if fields[0] in _DEAD else fields


def has_ended(pid: int) -> bool:
    """Whether a process has ended or is about to; a process that /proc hides has not."""
    try:
        fields = _fields(pid)
    except (FileNotFoundError, ProcessLookupError):
        return not _exists(pid)
    except OSError:  # it is there, but not for this user
        return False
    return fields[0] in _DEAD or bool(int(fields[6]) & _EXITING)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether `condition` came true within `timeout_s`; it is tried at least once."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def take_over(take: Callable[[], bool], holder: Callable[[], int | None]) -> bool:
    """Whether `take` got what the kernel gives up when its holder dies.

    A child between fork and exec has a copy of all that its parent held, and keeps it for a moment
    when the parent is killed: where the holder (None: unknown) does not live, or is the guardian of one
    that does not, it is tried again.
    """
    deadline = time.monotonic() + _FORKED_CHILD_S
    while not take():
        pid = holder()
        is_held = pid is not None and stat_fields(pid) is not None and not _is_guardian(pid)
        if is_held or time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def start_ticks(pid: int) -> int | None:
    """Return when a process was started, in the kernel's ticks since it booted; None: it has ended."""
    fields = stat_fields(pid)
    return None if fields is None else int(fields[19])


def _fields(pid: int) -> list[str]:
    # Of each process, several times a trial: a Path of it, and text of all of it, would take longer than the kernel.
    with open(f"{_PROC}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
        stat = file.read()
    # The name in parentheses may itself contain blanks and parentheses, and no text: count from the last one.
    fields = stat.rpartition(b")")[2].decode().split()
    if not fields:
        raise ProcessLookupError(pid)
    return fields


def _exists(pid: int) -> bool:
    """Whether there is a process of this number, in sight or not, living or dead."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is_guardian(pid: int) -> bool:
    try:
        return (_PROC / str(pid) / "comm").read_bytes().strip() == GUARDIAN.encode()
    except OSError:
        return False


def try_lock(fd: int) -> bool:
    """Whether the lock (flock) of a file or directory is held now; it is not waited for."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take_lock(fd: int) -> bool:
    """Whether this process now holds the lock (flock) of a file, and stands in it as the holder."""
    if not take_over(lambda: try_lock(fd), lambda: lock_holder(fd)):
        return False
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return True


def open_lock(path: Path) -> int:
    """Open a file for its lock, and make it when missing; a link is refused."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextmanager
def locked(path: Path, operation: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a file's lock (flock) during the block, after waiting for it unless `operation` says otherwise."""
    fd = open_lock(path)
    try:
        fcntl.flock(fd, operation)
        yield
    finally:
        os.close(fd)


def parent_pid(pid: int) -> int | None:
    """The parent of a living process; None for one that is gone or only waits to be reaped."""
    fields = stat_fields(pid)
    return None if fields is None else int(fields[1])


def lock_holder(fd: int) -> int | None:
    """The process that `take_lock` last put into the file; None: none, or it cannot be read."""
    text = os.pread(fd, 32, 0).decode(errors="replace").strip()
    return int(text) if text.isdecimal() else None
