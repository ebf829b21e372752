"""How does the page start and stop a run? As a separate command, which outlives the web server."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from pgdrag.english import without_controls
from pgdrag.errors import EXIT_INTERRUPTED, UsageError
from pgdrag.model.program import Program
from pgdrag.passwords import without_passwords

_PGDRAG = (sys.executable, "-m", "pgdrag")
_PLANNED_WITHIN_S = 120.0
_MOST_SAID_BYTES = 20_000


@dataclass(frozen=True)
class Wanted:
    """An experiment to run, and what it is allowed to do.

    Attributes:
        experiment: the name of a shipped one, or an experiment file.
        scale: "": the experiment's first.
        changes: names for `--allow-change`.
    """

    experiment: str
    scale: str = ""
    changes: tuple[str, ...] = ()
    allows_programs: bool = False

    def arguments(self) -> list[str]:
        """Return the command's arguments: options with their values in one word, and the name behind all of them."""
        return [
            "run",
            *([f"--scale={self.scale}"] if self.scale else []),
            *(f"--allow-change={name}" for name in self.changes),
            *(["--allow-run"] if self.allows_programs else []),
            "--",
            self.experiment,
        ]

    @property
    def command(self) -> str:
        """The command as a person would write it."""
        *options, _, name = self.arguments()[1:]
        return shlex.join(["pgdrag", "run", name, *options])


@dataclass(frozen=True)
class Planned:
    """What a run would do, as `--dry-run` says it.

    Attributes:
        text: that; or why it would not run.
        is_refused: it would not run.
        programs: what it would start, by consent; none where it would not run.
    """

    text: str
    is_refused: bool
    programs: tuple[Program, ...]


def planned(wanted: Wanted) -> Planned:
    """Return what a run would do; nothing is run.

    Raises:
        UsageError: nothing was said in time.
    """
    with ThreadPoolExecutor() as pool:  # side by side: each takes about a second
        programs = pool.submit(needed_programs, wanted)
        text, status = _said(wanted, "--dry-run")
        return Planned(text, bool(status), programs.result())


def needed_programs(wanted: Wanted) -> tuple[Program, ...]:
    """Return what a run would start, by consent; nothing where it would not run.

    Raises:
        UsageError: nothing was said in time.
    """
    data, status = _said(wanted, "--dry-run", "--json", is_data=True)
    return () if status else tuple(Program(**one) for one in json.loads(data)["programs"])


def _said(wanted: Wanted, *options: str, is_data: bool = False) -> tuple[str, int]:
    try:
        done = subprocess.run(
            [*_PGDRAG, "run", *options, *wanted.arguments()[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if is_data else subprocess.STDOUT,
            env=os.environ | {"COLUMNS": "100"},
            timeout=_PLANNED_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"what the run would do was not known within {_PLANNED_WITHIN_S:.0f} s",
            hint=f"Try in a terminal: {wanted.command} --dry-run",
        ) from None
    return done.stdout.decode("utf-8", "replace"), done.returncode


@dataclass
class Started:
    """A command that the page started."""

    wanted: Wanted
    process: subprocess.Popen[bytes]
    said: IO[bytes] = field(repr=False)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def words(self) -> str:
        """Return the last that it has said."""
        size = os.fstat(self.said.fileno()).st_size
        end = os.pread(self.said.fileno(), _MOST_SAID_BYTES, max(size - _MOST_SAID_BYTES, 0))
        return without_passwords(without_controls(end.decode("utf-8", "replace"))).strip()

    @property
    def has_failed(self) -> bool:
        """Whether it has ended without being asked to, and without an answer."""
        status = self.process.poll()
        return status not in (None, 0, EXIT_INTERRUPTED)


def start(wanted: Wanted) -> Started:
    """Start a run in a session of its own: no terminal's end and no Ctrl-C of the server reaches it."""
    # Without a name, so that it need not be removed.
    said = tempfile.TemporaryFile()  # noqa: SIM115 (it lasts as long as the command)
    process = subprocess.Popen(
        [*_PGDRAG, *wanted.arguments()],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return Started(wanted, process, said)


def stop(pid: int, is_still: Callable[[], bool]) -> bool:
    """Interrupt a run as Ctrl-C does, and return whether it was there.

    Args:
        is_still: tells whether the process is still that of the run: its number may have become another's.
    """
    with suppress(ProcessLookupError):
        fd = os.pidfd_open(pid)
        try:
            if is_still():
                signal.pidfd_send_signal(fd, signal.SIGTERM)
                return True
        finally:
            os.close(fd)
    return False
