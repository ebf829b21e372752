"""Which processes belong to a cluster, and how are all of them ended?

A name or a number in a file proves nothing: numbers are used again, and any program may call itself
postgres. A process belongs to a cluster when the kernel says that it runs the cluster's `postgres`
program inside the cluster's data directory, or descends from one that does.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal
from weakref import WeakSet

from pgdrag.host.confinement import KILL_TIMEOUT_S, end_user, marked_pids, stuck
from pgdrag.host.foreign_files import read_foreign
from pgdrag.host.process_alive import parent_pid, wait_until
from pgdrag.host.process_sight import all_pids, link_of, pids_of, seeing_as
from pgdrag.host.server_user import ServerUser
from pgdrag.servers.shared_memory import free_shared_memory

_PROC = Path("/proc")
_LOGGER_TIMEOUT_S = 5.0
_PID_FILE_BYTES = 4096  # its longest line is the data directory's path
# What the kernel adds to the name of a file that was replaced, as by an upgrade.
_DELETED = " (deleted)"


@dataclass(frozen=True)
class ServerProcess:
    """One process of a cluster; `backend_type` is spelt as in pg_stat_activity."""

    pid: int
    backend_type: str


StopMethod = Literal["fast", "immediate", "killed", "gone"]
CLIENT_BACKEND = "client backend"
_CLIENT_TYPES = frozenset({CLIENT_BACKEND, "starting"})
# Longest first, so that "autovacuum launcher" is not taken for something shorter. The logger, the statistics
# collector of PostgreSQL 14 and the postmaster do not appear in pg_stat_activity, but use CPU all the same.
_BACKEND_TYPES = (
    "logical replication launcher",
    "logical replication",
    "autovacuum launcher",
    "autovacuum worker",
    "background writer",
    "slotsync worker",
    "stats collector",
    "parallel worker",
    "walsummarizer",
    "checkpointer",
    "walreceiver",
    "io worker",
    "walsender",
    "walwriter",
    "archiver",
    "startup",
    "logger",
)
# "postgres: checkpointer", or with a cluster_name "postgres: NAME: checkpointer".
_TITLE = re.compile(r"^postgres: (?:.*?: )?(" + "|".join(_BACKEND_TYPES) + r")\b")


class Postmaster:
    """At most one server process tree in one data directory, which dies with this process.

    Attributes:
        program: the `postgres` that its processes run.
        user: the user that runs it; None: the user of this process.
    """

    _all: ClassVar[WeakSet[Postmaster]] = WeakSet()

    def __init__(self, data_directory: Path, program: Path, user: ServerUser | None = None) -> None:
        self.data_directory = data_directory
        self.program = program
        self.user = user
        self._process: subprocess.Popen[bytes] | None = None
        # Known from the start on, also if the file system under it vanishes.
        self._place: os.stat_result | None = None
        self._all.add(self)

    def is_running(self) -> bool:
        """Whether the postmaster is alive; it may still not respond."""
        return self._process is not None and self._process.poll() is None

    @property
    def postmaster_pid(self) -> int | None:
        """The server's first process, or None when it does not run."""
        return self._process.pid if self._process and self.is_running() else None

    def server_pids(self) -> list[ServerProcess]:
        """Every process of the server in sight now, postmaster first, with its kind."""
        found = server_processes(self.data_directory, self.program, self.user)
        pid = self.postmaster_pid
        # This process's own child is known also where /proc says nothing of it.
        if pid is not None and pid not in (each.pid for each in found):
            found.insert(0, ServerProcess(pid, "postmaster"))
        return found

    def life(self) -> tuple[int | None, int | None, str]:
        """A value that changes only when the server crashes and restarts by itself.

        Its postmaster and its checkpointer, if they are alive and visible, and its shared memory, which
        its lock file names.
        """
        checkpointer = next(
            (x.pid for x in self.server_pids() if x.backend_type == "checkpointer"), None
        )
        return self.postmaster_pid, checkpointer, next(iter(self.pid_file_lines()[6:7]), "")

    def stop(
        self, *, fast_timeout_s: float = 20.0, immediate_timeout_s: float = 10.0
    ) -> StopMethod:
        """Stop the server within the two times (and a moment), in whatever state it is.

        A time of 0 skips that way. The server itself kills children that ignore an immediate
        shutdown after 5 s.

        Returns:
            How it ended: "fast" (with a checkpoint; the only clean one), "immediate", "killed", or
            "gone" when it was not running. No process and no shared memory is left in any case.
        """
        method = self._end_process(fast_timeout_s, immediate_timeout_s)
        # The logger ends by itself, after all others, once it has written what they said.
        wait_until(lambda: not self.server_pids(), _LOGGER_TIMEOUT_S)
        self._clear_leftovers()
        self._process = None
        return method

    def end_everything(self) -> None:
        """End all processes that the stopped server and its clients forked."""
        assert not self.is_running(), "it is stopped first"
        if self._place is None:
            return  # it never ran
        kill_processes(self.data_directory, self.program, self.user)
        if self.user is not None and self.user.is_own and not self._has_company():
            end_user(self.user)

    def pid_file_lines(self) -> list[str]:
        """The lines of postmaster.pid, the first of them the number of the server's first process."""
        try:
            found = read_foreign(self.data_directory / "postmaster.pid", _PID_FILE_BYTES)
        except OSError:
            return []
        return found.decode(errors="replace").splitlines()

    def _says_ready(self) -> bool:
        # Line 8; the file may still be that of an earlier server.
        lines = self.pid_file_lines()
        if len(lines) < 8 or lines[0] != str(self.postmaster_pid):
            return False
        return lines[7].strip() in ("ready", "standby")

    def _notice_program(self) -> bool:
        """Look which program really runs; True if `postgres` was a script that runs another one."""
        with seeing_as(self.user):
            running = running_program(self.postmaster_pid)
        if running is None or running == self.program:
            return False
        self.program = running
        return True

    def _has_no_clients(self) -> bool:
        return all(each.backend_type not in _CLIENT_TYPES for each in self.server_pids())

    def _clear_leftovers(self) -> None:
        """End what is left of a server whose first process is dead, and free its shared memory."""
        assert not self.is_running(), "a cluster has at most one server"
        kill_servers(self.data_directory, self.program, self.user)
        free_shared_memory(self._place or self.data_directory.stat())

    def _has_company(self) -> bool:
        """Whether this process runs other servers as the same user."""
        return any(x.is_running() and x.user == self.user for x in self._all)

    def _end_process(self, fast_timeout_s: float, immediate_timeout_s: float) -> StopMethod:
        process = self._process
        if process is None or process.poll() is not None:
            return "gone"
        ways: list[tuple[StopMethod, signal.Signals, float]] = [
            ("fast", signal.SIGINT, fast_timeout_s),
            ("immediate", signal.SIGQUIT, immediate_timeout_s),
        ]
        for method, number, timeout_s in ways:
            if timeout_s <= 0:
                continue
            process.send_signal(number)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                continue
            return method
        # Together with its children, which might otherwise recover in the middle of this.
        kill_servers(self.data_directory, self.program, self.user)
        # By its number, too: a file system that has vanished takes the directory's name with it.
        process.kill()
        try:
            process.wait(KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise stuck(f"process {process.pid}") from error
        return "killed"


def server_processes(
    data_directory: Path, program: Path, user: ServerUser | None = None
) -> list[ServerProcess]:
    """Every living process of the cluster at `data_directory` run by `program`, postmaster first.

    Args:
        user: the user that runs it; None: the user of this process.

    Raises:
        ServerError: /proc does not show even this process.
    """
    with seeing_as(user):
        return _server_processes(data_directory, program)


def _server_processes(data_directory: Path, program: Path) -> list[ServerProcess]:
    pids = all_pids()
    # A process that exits has no program any more while its memory is still being unmapped.
    theirs, place = {str(program), f"{program}{_DELETED}", ""}, str(data_directory)
    working = [
        pid for pid in pids if link_of(pid, "exe") in theirs and link_of(pid, "cwd") == place
    ]
    if not working:
        return []
    parents = {pid: parent for pid in pids if (parent := parent_pid(pid)) is not None}
    servers = parents.keys() & working
    # What a server started in turn (archive_command, COPY … PROGRAM) runs another program.
    family = set(servers)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    found = [
        ServerProcess(
            pid, _kind(pid, parents[pid] in servers) if pid in servers else "child program"
        )
        for pid in family
    ]
    return sorted(found, key=lambda each: (each.backend_type != "postmaster", each.pid))


def backend_type(title: str) -> str | None:
    """The kind of server process that a title in /proc/PID/cmdline tells, None if it tells none.

    It is spelt as in pg_stat_activity; the postmaster and a child just forked have no title.
    """
    text = title.replace("\0", " ")
    if not text.startswith("postgres: "):
        return None
    known = _TITLE.match(text)
    return known[1] if known else CLIENT_BACKEND


def kill_servers(data_directory: Path, program: Path, user: ServerUser | None) -> None:
    """End every process of the cluster's server with SIGKILL; its clients may go on.

    Raises:
        ServerError: one is still there after 10 s, which only the kernel can explain; or /proc shows nothing.
    """
    _kill(lambda: {each.pid for each in server_processes(data_directory, program, user)})


def kill_processes(data_directory: Path, program: Path, user: ServerUser | None) -> int:
    """End every process of the cluster with SIGKILL, also clients and what was forked; the answer is how many there were.

    Raises:
        ServerError: one is still there after 10 s, which only the kernel can explain; or /proc shows nothing.
    """
    return _kill(
        lambda: {
            *(each.pid for each in server_processes(data_directory, program, user)),
            *marked_pids(data_directory, user),
        }
    )


def _kill(find: Callable[[], set[int]]) -> int:
    killed: set[int] = set()

    def all_gone() -> bool:
        left = find()
        killed.update(left)
        for pid in left:
            send_signal(pid, signal.SIGKILL)
        return not left

    if not wait_until(all_gone, KILL_TIMEOUT_S):
        raise stuck(f"server processes {', '.join(map(str, sorted(find())))}")
    return len(killed)


def pids_within(device_number: int, user: ServerUser) -> list[int]:
    """Return a user's processes that work in a directory of a file system (`st_dev`), in sight or not."""
    found, pids = [], pids_of(user)
    with seeing_as(user):
        for pid in pids:
            with contextlib.suppress(OSError):
                if (_PROC / str(pid) / "cwd").stat().st_dev == device_number:
                    found.append(pid)
    return found


def running_program(pid: int | None) -> Path | None:
    """The file of the program that `pid` runs, or None when it is gone."""
    target = "" if pid is None else link_of(pid, "exe").removesuffix(_DELETED)
    return Path(target) if target else None


def send_signal(pid: int, number: signal.Signals) -> None:
    """Signal a process that may have ended in the meantime."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _kind(pid: int, is_child: bool) -> str:
    title = ""
    with contextlib.suppress(OSError):
        title = (_PROC / str(pid) / "cmdline").read_text(errors="replace")
    # A child has no title at first.
    return backend_type(title) or ("starting" if is_child else "postmaster")
