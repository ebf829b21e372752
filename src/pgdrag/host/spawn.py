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
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO

from pgdrag.errors import ServerError
from pgdrag.host.programs import Ran
from pgdrag.host.server_user import ServerUser

# How a child ends that could not become the program, as a shell's does.
NOT_STARTED = 127
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
# What servers and their clients may know of the environment: where programs and libraries are, and how memory is
# allocated. Whatever SQL can read there must not be a secret.
_KEPT = frozenset({"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "GLIBC_TUNABLES", "TMPDIR"})
_KEPT_PREFIX = "MALLOC_"
# Loaded before any fork: the child of a threaded process must not load libraries.
_libc = ctypes.CDLL(None, use_errno=True)


def spawn(
    argv: Sequence[str | Path],
    *,
    user: ServerUser | None,
    cwd: Path,
    death_signal: signal.Signals,
    output: IO[bytes] | int,
    stdin: int = subprocess.DEVNULL,
    errors: IO[bytes] | int = subprocess.STDOUT,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    control_groups: Sequence[Path] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, which gets `death_signal` when this process dies.

    No set-user-ID program gives it, or what it starts, more rights than it has.

    Args:
        user: the user that runs it; None: the user of this process.
        output: where both its streams go, its errors unless `errors` names another place.
        environment: all of it; None: `clean_environment`.
        control_groups: directories of groups that it is in from its first instruction on, so that all
            memory it touches is counted there. Where one refuses it, the program ends with
            `NOT_STARTED`, and says why where its output goes.

    Raises:
        OSError: no process can be created, or a group does not exist or is not this user's.
    """
    parent = os.getpid()

    def prepare(doors: Sequence[tuple[Path, int]]) -> None:
        # In the child, before the program: system calls, and nothing that takes a lock.
        for group, door in doors:
            try:
                os.write(door, b"0")  # whoever writes it: cgroups(7)
            except OSError as error:
                # The kernel's word for it would be misleading in the server's log.
                is_empty = error.errno == errno.ENOSPC
                reason = "it has no processors or memory" if is_empty else error.strerror
                os.write(2, f'pgdrag: could not enter control group "{group}": {reason}\n'.encode())
                os._exit(NOT_STARTED)
        if user is not None:
            _become(user)
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
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
                stderr=errors,
                cwd=cwd,
                env=clean_environment() if environment is None else dict(environment),
                start_new_session=True,
                pass_fds=pass_fds,
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
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """Run a program to its end with `text` on its standard input; for `environment` see `spawn`.

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
            environment=environment,
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


def end_all(user: ServerUser) -> None:
    """End all processes of a user of pgdrag's own at once, in sight or not.

    Raises:
        ServerError: this process may not become that user.
    """
    assert user.is_own, f"others may run processes as {user.name}"

    def end() -> None:
        _become(user)
        # Whoever may signal more than this user's processes would end all of this machine's.
        if os.getresuid() == (user.uid,) * 3 and user.uid > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            os._exit(0)
        os._exit(NOT_STARTED)

    # It never becomes a program.
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["/nowhere"], preexec_fn=end, start_new_session=True)

    try:
        status = _on_starter_thread(start).wait()
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerError(f"cannot run as user {user.name}: {error}") from error
    assert status == 0, f"did not become user {user.name}"


def clean_environment(also: Collection[str] = ()) -> dict[str, str]:
    """What programs of an experiment may know of the environment, with variables named; messages are in English."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name in also or name.startswith(_KEPT_PREFIX)
    }
    return {**kept, "LC_ALL": "C"}


def _become(user: ServerUser) -> None:
    os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)


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
