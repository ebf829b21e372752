"""How does pgdrag start a program that must not outlive it, as a user that is not root?

The kernel ends a child when the *thread* that forked it ends (prctl(2), PR_SET_PDEATHSIG), not
the process. Callers may be on any thread, so one thread that lives as long as the process forks all.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pgdrag.errors import ServerError
from pgdrag.host.programs import Ran

# How a child ends that could not become the program, as a shell's does.
NOT_STARTED = 127
_PR_SET_PDEATHSIG = 1
# Loaded before any fork: the child of a threaded process must not load libraries.
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class ServerUser:
    """The unprivileged user that runs servers for root."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


def spawn(
    argv: Sequence[str | Path],
    *,
    user: ServerUser | None,
    cwd: Path,
    death_signal: signal.Signals,
    output: IO[bytes] | int,
    stdin: int = subprocess.DEVNULL,
    control_groups: Sequence[Path] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, which gets `death_signal` when this process dies.

    Args:
        user: who runs it; None: whoever runs this process.
        output: where both its streams go.
        control_groups: directories of groups that it is in from its first instruction on, so that all
            memory it touches is counted there. Where one refuses it, the program ends with
            `NOT_STARTED`, and says why where its output goes.

    Raises:
        OSError: there is no room for a process, or a group is not there or not this user's.
    """
    parent = os.getpid()

    def prepare(doors: Sequence[tuple[Path, int]]) -> None:
        # In the child, before the program: system calls, and nothing that takes a lock.
        for group, door in doors:
            try:
                os.write(door, b"0")  # whoever writes it: cgroups(7)
            except OSError as error:
                # The kernel's word for it means something else to whoever reads the server's log.
                is_empty = error.errno == errno.ENOSPC
                reason = "it has no processors or memory" if is_empty else error.strerror
                os.write(2, f'pgdrag: could not enter control group "{group}": {reason}\n'.encode())
                os._exit(NOT_STARTED)
        if user is not None:
            os.setgroups(user.groups)
            os.setgid(user.gid)
            os.setuid(user.uid)
        # After the change of user, which would clear the setting.
        _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above: no signal will come
            os._exit(NOT_STARTED)

    def start() -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as stack:
            doors = []
            for group in control_groups:
                # Opened as this user, and not as the server's.
                door = os.open(group / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
                stack.callback(os.close, door)
                doors.append((group, door))
            return subprocess.Popen(
                [str(part) for part in argv],
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=server_environment(),
                start_new_session=True,
                preexec_fn=lambda: prepare(doors),
                umask=0o077,
            )

    return _on_starter_thread(start)


def run(
    argv: Sequence[str | Path],
    *,
    user: ServerUser | None,
    cwd: Path = Path("/"),
    timeout_s: float,
    text: str = "",
) -> Ran:
    """Run a program to its end with `text` on its standard input.

    Raises:
        ServerError: it cannot be executed, or did not end within `timeout_s` (it is killed then).
    """
    program = Path(argv[0])
    try:
        process = spawn(
            argv,
            user=user,
            cwd=cwd,
            death_signal=signal.SIGKILL,
            output=subprocess.PIPE,
            stdin=subprocess.PIPE,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerError(f'cannot execute "{program}": {error}') from error
    with process:
        try:
            output, _ = process.communicate(text.encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ServerError(f"{program.name} did not end within {timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                # The whole session: a grandchild would keep the pipe open.
                os.killpg(process.pid, signal.SIGKILL)
    return Ran(process.returncode, output.decode(errors="replace"))


def server_environment() -> dict[str, str]:
    """The environment without what would change a server's or a client's behaviour.

    PG* variables name other servers and options; the locale changes the words of messages.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "LC_")) and name not in {"LANG", "LANGUAGE", "TZ"}
    }
    return {**kept, "LC_ALL": "C"}


_Requests = queue.SimpleQueue[
    tuple[Callable[[], "subprocess.Popen[bytes]"], "Future[subprocess.Popen[bytes]]"]
]
# The thread that forks is made again in a forked copy of this process, which has no threads.
_starter_pid = 0
_requests: _Requests
_starter_lock = threading.Lock()


def _on_starter_thread(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    global _starter_pid, _requests
    with _starter_lock:
        if _starter_pid != os.getpid():
            _starter_pid, _requests = os.getpid(), queue.SimpleQueue()
            # A daemon, so that it is still there while exit handlers stop their servers.
            threading.Thread(
                target=_serve, args=(_requests,), name="pgdrag-starter", daemon=True
            ).start()
    answer: Future[subprocess.Popen[bytes]] = Future()
    _requests.put((start, answer))
    return answer.result()


def _serve(requests: _Requests) -> None:
    while True:
        start, answer = requests.get()
        try:
            answer.set_result(start())
        except BaseException as error:
            answer.set_exception(error)
