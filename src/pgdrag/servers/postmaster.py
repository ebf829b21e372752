"""How is a server's first process started, known, and ended with all that descends from it?"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Literal

from pgdrag.errors import ServerError
from pgdrag.servers.processes import (
    CLIENT_BACKEND,
    ServerProcess,
    kill_processes,
    running_program,
    server_processes,
)
from pgdrag.servers.shared_memory import free_shared_memory
from pgdrag.servers.spawn import ServerUser, spawn

StopMethod = Literal["fast", "immediate", "killed", "gone"]

_KILL_TIMEOUT_S = 10.0
_CLIENT_TYPES = frozenset({CLIENT_BACKEND, "starting"})


class Postmaster:
    """At most one server process tree in one data directory, which dies with this process.

    Attributes:
        program: the `postgres` that its processes run.
    """

    def __init__(self, data_directory: Path, program: Path) -> None:
        self.program = program
        self._data_directory = data_directory
        self._process: subprocess.Popen[bytes] | None = None
        self._place: os.stat_result | None = None

    def spawn(
        self,
        command: Sequence[str | Path],
        *,
        user: ServerUser | None,
        output: IO[bytes],
        control_groups: Sequence[Path] = (),
    ) -> None:
        """Start the process, without waiting for anything; `clear_leftovers` comes first.

        Raises:
            OSError: there is no room for a process.
        """
        # Known from now on, also if the file system under it vanishes.
        self._place = self._data_directory.stat()
        self._process = spawn(
            command,
            user=user,
            cwd=self._data_directory,  # by which its processes are known, from the first on
            # Immediate shutdown: the server still frees its shared memory.
            death_signal=signal.SIGQUIT,
            output=output,
            control_groups=control_groups,
        )

    def is_running(self) -> bool:
        """Whether the process lives; it may be mute all the same."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process's number, or None when it does not run."""
        return self._process.pid if self._process and self.is_running() else None

    @property
    def exit_status(self) -> int | None:
        """How the process ended by itself, negative for a signal; None while it runs or was stopped."""
        return None if self._process is None else self._process.poll()

    def says_ready(self) -> bool:
        """Whether the process has written that it accepts connections."""
        # Line 8 of postmaster.pid; the file may still be that of an earlier server.
        try:
            lines = (self._data_directory / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        if len(lines) < 8 or lines[0] != str(self.pid):
            return False
        return lines[7].strip() in ("ready", "standby")

    def notice_program(self) -> bool:
        """Look which program really runs; True if `postgres` was a script that runs another one."""
        running = running_program(self.pid)
        if running is None or running == self.program:
            return False
        self.program = running
        return True

    def processes(self) -> list[ServerProcess]:
        """Every process of the server now, postmaster first, with its kind."""
        return server_processes(self._data_directory, self.program)

    def has_no_clients(self) -> bool:
        """Whether no session is there, and none about to be."""
        return all(each.backend_type not in _CLIENT_TYPES for each in self.processes())

    def end(self, *, fast_timeout_s: float, immediate_timeout_s: float) -> StopMethod:
        """End the process and all that descends from it; see `Cluster.stop`."""
        method = self._end_process(fast_timeout_s, immediate_timeout_s)
        self.clear_leftovers()
        self._process = None
        return method

    def clear_leftovers(self) -> None:
        """End what is left of a server whose first process is dead, and free its shared memory."""
        assert not self.is_running(), "a cluster has at most one server"
        kill_processes(self._data_directory, self.program)
        free_shared_memory(self._place or self._data_directory.stat())

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
        kill_processes(self._data_directory, self.program)
        # By its number, too: a file system that has vanished takes the directory's name with it.
        process.kill()
        try:
            process.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise ServerError(
                f"process {process.pid} did not end within {_KILL_TIMEOUT_S:g} s of SIGKILL",
                detail="It waits inside the kernel, most likely for a disk that does not answer.",
            ) from error
        return "killed"
