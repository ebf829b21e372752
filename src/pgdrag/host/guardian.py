"""Who clears up after kill -9 if pgdrag is not started again?

As soon as something is at stake that would outlive this process, a guardian is started: a small process
in a session of its own, which waits at a pipe for the end of this one. If that comes without a word, it
ends and undoes what was left, as the next pgdrag would, within seconds. It ends with this process.

What ends both at once (a container's end, the kernel's, a service manager that ends a whole control
group) is undone by the next pgdrag, as before.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pgdrag.host.interrupts import INTERRUPTS, uninterrupted
from pgdrag.host.process_alive import start_ticks, stat_fields, wait_until
from pgdrag.host.process_sight import seeing_as
from pgdrag.host.server_user import ServerUser

Kind = Literal["scratch", "undo", "session"]
_SCRIPT = Path(__file__).with_name("_guardian_process.py")
_END_TIMEOUT_S = 5.0

_lock = threading.Lock()
_process: subprocess.Popen[bytes] | None = None
_owner_pid = 0
_stakes: set[bytes] = set()
_secrets: dict[str, bytes] = {}


def guard(kind: Kind, place: str | Path) -> None:
    """Have a place cleared up if this process dies; again is fine, and costs nothing.

    Args:
        kind: "scratch": a scratch directory with clusters and devices; "undo": an undo journal.
    """
    _tell(_stake(kind, place), is_at_stake=True)


def entrust(key: str, line: str) -> None:
    """Give a line of text to the process that clears up after this one; it is on no disk and in no argument.

    Args:
        key: a later line of the same key replaces an earlier one.
    """
    with uninterrupted(), _lock:
        _forget_another()
        _secrets[key] = b"=" + line.encode()
        _say(_secrets[key])


@contextlib.contextmanager
def guarded_session(leader_pid: int, user: ServerUser | None = None) -> Iterator[None]:
    """Have all processes of a session ended if this process dies within the block.

    Args:
        leader_pid: a child that was started in a session of its own, and is not waited for within the block.
        user: the user that runs it; None: the user of this process.
    """
    with seeing_as(user):
        # Under hidepid a child of a process that has had other ids cannot be seen before it runs its program.
        wait_until(
            lambda: start_ticks(leader_pid) is not None or _has_ended(leader_pid), _END_TIMEOUT_S
        )
        started = start_ticks(leader_pid)
    if started is None:  # it has ended by itself; what it started is its caller's to end
        yield
        return
    whose = "" if user is None else f":{user.uid}:{user.gid}"
    stake = _stake("session", f"{leader_pid}:{started}{whose}")
    _tell(stake, is_at_stake=True)
    try:
        yield
    finally:
        _tell(stake, is_at_stake=False)


def end_session(place: str) -> int:
    """End what is left of a session that was guarded, and return how many processes that were.

    Args:
        place: "PID:STARTED" of its leader, and ":UID:GID" where that is another user's. A number is not used again
            while a process is in its session.
    """
    leader, started, *whose = map(int, place.split(":"))
    user = ServerUser("", whose[0], whose[1]) if whose else None
    killed: set[int] = set()

    def all_gone() -> bool:
        with seeing_as(user):
            is_another = start_ticks(leader) not in (None, started)
            left = [] if is_another else _members(leader)
        for pid in left:
            killed.add(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return not left

    wait_until(all_gone, _END_TIMEOUT_S)
    return len(killed)


def _has_ended(child_pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, child_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody has waited for it
        return True


def _members(session: int) -> list[int]:
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208
    found = ((pid, stat_fields(pid)) for pid in pids)
    return [pid for pid, fields in found if fields is not None and int(fields[3]) == session]


def _stake(kind: Kind, place: str | Path) -> bytes:
    return f"{kind}=".encode() + os.fsencode(place)


def _tell(stake: bytes, *, is_at_stake: bool) -> None:
    global _process
    if _owner_pid == os.getpid() and (stake in _stakes) is is_at_stake:
        return
    # An interruption in the middle would leave a stake that the guardian does not know.
    with uninterrupted(), _lock:
        _forget_another()
        (_stakes.add if is_at_stake else _stakes.discard)(stake)
        if _process is not None and _say((b"+" if is_at_stake else b"-") + stake):
            return
        # There was none, or it was ended.
        if _process is not None:
            _process.kill()
            _process.wait()
        _process = _start()
        for each in _stakes:
            _say(b"+" + each)
        for secret in _secrets.values():
            _say(secret)


def _forget_another() -> None:
    """Leave the guardian of another process alone: a forked copy has one of its own, or none."""
    global _process, _owner_pid
    if _owner_pid != os.getpid():
        _owner_pid, _process = os.getpid(), None
        _stakes.clear()
        _secrets.clear()


def _start() -> subprocess.Popen[bytes] | None:
    # It ignores what interrupts others, but takes a moment to say so; it lifts this block, which it inherits.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*INTERRUPTS, signal.SIGQUIT))
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", _SCRIPT, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        print(
            f"pgdrag: could not start the guardian ({error.strerror}): after kill -9, run pgdrag restore",
            file=sys.stderr,
        )
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _say(word: bytes) -> bool:
    """Send the guardian a word; False: it is gone."""
    if _process is None or _process.stdin is None:
        return False
    try:
        _process.stdin.write(word + b"\0")
    except OSError:
        return False
    return True


# Before any other handler of what uses it is registered, so that it runs after all of them.
@atexit.register
def _end() -> None:
    """Let the guardian go: all that could be cleared up has been."""
    global _process
    if _process is None or _owner_pid != os.getpid():
        return
    _say(b"end")
    assert _process.stdin is not None
    _process.stdin.close()
    try:
        _process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        _process.kill()
        _process.wait()
    _process = None
