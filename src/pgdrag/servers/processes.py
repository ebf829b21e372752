"""Which processes belong to a cluster, and are they still alive?

A name or a number in a file proves nothing: numbers are used again, and any program may call itself
postgres. A process belongs to a cluster when the kernel says that it runs the cluster's `postgres`
program inside the cluster's data directory, or descends from one that does.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pgdrag.errors import ServerError
from pgdrag.host.process_alive import stat_fields

_PROC = Path("/proc")
_POLL_S = 0.02
# What the kernel adds to the name of a file that was replaced, as by an upgrade.
_DELETED = " (deleted)"


@dataclass(frozen=True)
class ServerProcess:
    """One process of a cluster; `backend_type` is spelt as in pg_stat_activity."""

    pid: int
    backend_type: str


CLIENT_BACKEND = "client backend"
# Longest first, so that "autovacuum launcher" is not taken for something shorter. The logger, the
# archiver's predecessors and the postmaster do not appear in pg_stat_activity, but use CPU all the same.
_BACKEND_TYPES = (
    "logical replication launcher",
    "logical replication",
    "autovacuum launcher",
    "autovacuum worker",
    "background writer",
    "slotsync worker",
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


def server_processes(data_directory: Path, program: Path) -> list[ServerProcess]:
    """Every living process of the cluster at `data_directory` run by `program`, postmaster first."""
    parents: dict[int, int] = {}
    members: dict[int, bool] = {}
    for pid in _pids():
        parent = parent_pid(pid)
        if parent is None:
            continue
        parents[pid] = parent
        if _runs(pid, program) and _link(pid, "cwd") == str(data_directory):
            members[pid] = True
    servers = set(members)
    # What a server started in turn (archive_command, COPY … PROGRAM) runs another program.
    for pid in parents:
        if pid not in servers and any(a in servers for a in _ancestors(pid, parents)):
            members[pid] = False
    found = [
        ServerProcess(pid, _kind(pid, parents[pid] in servers) if is_server else "child program")
        for pid, is_server in members.items()
    ]
    return sorted(found, key=lambda each: (each.backend_type != "postmaster", each.pid))


def parent_pid(pid: int) -> int | None:
    """The parent of a living process; None for one that is gone or only waits to be reaped."""
    fields = stat_fields(pid)
    return None if fields is None else int(fields[1])


def backend_type(title: str) -> str | None:
    """The kind of server process that a title in /proc/PID/cmdline tells, None if it tells none.

    It is spelt as in pg_stat_activity; the postmaster and a child just forked have no title.
    """
    text = title.replace("\0", " ")
    if not text.startswith("postgres: "):
        return None
    known = _TITLE.match(text)
    return known[1] if known else CLIENT_BACKEND


def kill_processes(data_directory: Path, program: Path, *, timeout_s: float = 10.0) -> int:
    """End every process of the cluster with SIGKILL; the answer is how many there were.

    Raises:
        ServerError: one is still there after `timeout_s`, which only the kernel can explain.
    """
    killed: set[int] = set()

    def all_gone() -> bool:
        left = server_processes(data_directory, program)
        for each in left:
            killed.add(each.pid)
            send_signal(each.pid, signal.SIGKILL)
        return not left

    if not wait_until(all_gone, timeout_s):
        left = ", ".join(str(each.pid) for each in server_processes(data_directory, program))
        raise ServerError(
            f"server processes {left} did not end within {timeout_s:g} s of SIGKILL",
            detail="They wait inside the kernel, most likely for a disk that does not answer.",
        )
    return len(killed)


def pids_within(device_number: int, uid: int) -> list[int]:
    """Return a user's processes that work in a directory of a file system, whether it is in sight or not.

    Args:
        device_number: `st_dev` of its files.
        uid: the user.
    """
    found = []
    for pid in _pids():
        with contextlib.suppress(OSError):
            if (_PROC / str(pid)).stat().st_uid == uid and (
                (_PROC / str(pid) / "cwd").stat().st_dev == device_number
            ):
                found.append(pid)
    return found


def running_program(pid: int | None) -> Path | None:
    """The file of the program that `pid` runs, or None when it is gone."""
    target = "" if pid is None else _link(pid, "exe").removesuffix(_DELETED)
    return Path(target) if target else None


def send_signal(pid: int, number: signal.Signals) -> None:
    """Signal a process that may have ended in the meantime."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether `condition` came true within `timeout_s`; it is tried at least once."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _kind(pid: int, is_child: bool) -> str:
    try:
        title = (_PROC / str(pid) / "cmdline").read_text(errors="replace")
    except OSError:
        title = ""
    # A child has no title at first.
    return backend_type(title) or ("starting" if is_child else "postmaster")


def _pids() -> Iterator[int]:
    return (int(entry) for entry in os.listdir(_PROC) if entry.isdigit())  # noqa: PTH208


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    seen = {pid}
    while (pid := parents.get(pid, 0)) and pid not in seen:
        seen.add(pid)
        yield pid


def _runs(pid: int, program: Path) -> bool:
    # A process that exits has no program any more while its memory is still being unmapped.
    return running_program(pid) in (program, None)


def _link(pid: int, name: str) -> str:
    try:
        return str((_PROC / str(pid) / name).readlink())
    except OSError:
        return ""
