"""How is another program run instead of the load driver, and what did it do?

It runs in a process group of its own, bounded in time and in what it may print; whatever of the
group is left at the end is ended by its number. Its CPU time is that of the shell and of all that
the shell waited for.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pgdrag.errors import DriverError
from pgdrag.host.confinement import mark
from pgdrag.host.guardian import guarded_session
from pgdrag.host.spawn import clean_environment, spawn

if TYPE_CHECKING:
    from pgdrag.driver.process import Target
    from pgdrag.host.server_user import ServerUser

# Enough for any summary; a program that prints without end must not fill the disk.
LARGEST_OUTPUT_BYTES = 64 * 2**20
_READ_BYTES = 4 * 2**20
_GRACE_S = 5.0
_LOOK_S = 0.5
_TAIL_LINES = 5
_PASSWORD = "PGPASSWORD"


@dataclass(frozen=True)
class Ended:
    """A program that has ended.

    Attributes:
        status: of exit; negative: the signal that ended it.
        output: the last 4 MB of what it printed.
        said: the last lines of its standard error, or of its output.
    """

    status: int
    output: str
    said: str
    elapsed_s: float
    user_cpu_s: float
    system_cpu_s: float


def run_program(
    command: str,
    *,
    directory: str,
    environment: Mapping[str, str],
    timeout_s: float,
    purpose: str,
    user: ServerUser | None = None,
) -> Ended:
    """Run a shell command to its end.

    Args:
        command: what /bin/sh is given.
        directory: where it runs.
        environment: the whole environment; a password in it is hidden in what the program said.
        timeout_s: after that it is ended, with all of its process group.
        purpose: what it is to do, for messages: "the command", "its setup".
        user: who runs it; None: whoever runs pgdrag.

    Raises:
        DriverError: it cannot be started, ran too long or printed too much.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started_s = time.monotonic()
        try:
            _refuse_closed(Path(directory), purpose, user)
            process = spawn(
                ["/bin/sh", "-c", command],
                user=user,
                cwd=Path(directory),
                death_signal=signal.SIGKILL,
                output=output,
                errors=errors,
                environment=environment,
            )
        except OSError as error:
            raise DriverError(f"could not start {purpose}: {error.strerror}") from error

        def said() -> str:
            text = _tail(errors) or _tail(output)
            secret = environment.get(_PASSWORD)
            return text.replace(secret, "***") if secret else text

        try:
            with guarded_session(process.pid, user):
                while not _has_exited(process.pid, _LOOK_S):
                    if time.monotonic() > started_s + timeout_s:
                        message = f"{purpose} did not end within {timeout_s:.0f} s"
                        raise DriverError(message, detail=said() or None)
                    largest = max(os.fstat(file.fileno()).st_size for file in (errors, output))
                    if largest > LARGEST_OUTPUT_BYTES:
                        raise DriverError(
                            f"{purpose} printed more than {LARGEST_OUTPUT_BYTES >> 20} MB"
                        )
                elapsed_s = time.monotonic() - started_s
        finally:
            used = _end_group(process)
        return Ended(
            status=process.returncode,
            output=_last(output, _READ_BYTES),
            said=said(),
            elapsed_s=elapsed_s,
            user_cpu_s=used.ru_utime,
            system_cpu_s=used.ru_stime,
        )


def program_environment(
    target: Target, more: Mapping[str, str], also: Collection[str] = ()
) -> dict[str, str]:
    """Return the environment of a program: the server's address, `more`, and the variables of pgdrag's own that `also` names.

    The server's own programs (psql, pgbench), where they are known, come first on its PATH. One that runs as a user of
    pgdrag's own has its home beside the cluster.
    """
    # Here: reports need the workloads, and no server.
    from psycopg.conninfo import make_conninfo

    place = {"host": target.host, "port": str(target.port), "user": target.user}
    kept = clean_environment((*also, "HOME", "USER", "LOGNAME"))
    if target.run_as is not None:
        kept |= {"USER": target.run_as.name, "LOGNAME": target.run_as.name}
        kept["HOME"] = str(target.home or "/")
    if target.cluster is not None:
        kept |= mark(target.cluster)
    own = {
        "PGHOST": target.host,
        "PGPORT": str(target.port),
        "PGUSER": target.user,
        "PGDATABASE": target.database,
        "PGDRAG_DSN": make_conninfo(**place, dbname=target.database),
    }
    if target.bin_dir is not None:
        own["PATH"] = f"{target.bin_dir}:{os.environ.get('PATH', os.defpath)}"
    if not target.host.startswith("/"):
        own["PGDRAG_JDBC_URL"] = f"jdbc:postgresql://{target.host}:{target.port}/{target.database}"
    password = {} if target.password is None else {_PASSWORD: target.password}
    return {**kept, **own, **password, **more}


def _refuse_closed(directory: Path, purpose: str, user: ServerUser | None) -> None:
    if user is not None and not user.may_enter(directory.stat()):
        raise DriverError(
            f'user {user.name}, who runs {purpose} for root, cannot enter directory "{directory}"',
            hint=f'Run chmod o+x "{directory}", or name another directory in the experiment file.',
        )


def _end_group(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """End what is left of a process's group; the answer is what the process used."""
    if not _has_exited(process.pid, 0):
        os.killpg(process.pid, signal.SIGTERM)
        _has_exited(process.pid, _GRACE_S)
    # Before the leader is waited for: until then its process ID cannot be reused.
    with contextlib.suppress(PermissionError):  # of a member that changed its user
        os.killpg(process.pid, signal.SIGKILL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used


def _has_exited(pid: int, wait_s: float) -> bool:
    """Wait for the end of a child, for a limited time; it is not reaped."""
    fd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))
    finally:
        os.close(fd)


def _tail(file: IO[bytes]) -> str:
    lines = [line for line in _last(file, 4096).splitlines() if line.strip()]
    return "\n".join(lines[-_TAIL_LINES:])


def _last(file: IO[bytes], count: int) -> str:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), count, max(0, size - count)).decode(errors="replace")
