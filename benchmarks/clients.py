"""What did a client program commit, in how long, and what CPU time did it take for it?

Two ways to measure. Both count what the *server* committed, and take the CPU time (user + system) of the client's
process and its descendants:

- whole run: from the start of the program to its end; for programs that need no warm-up, and
  counts that a server only publishes when a session ends;
- window: looked at from outside at two moments while it runs; for programs that first have to
  compile themselves, and counts that are a query away.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from pgdrag.errors import PgdragError
from pgdrag.host.spawn import clean_environment, spawn

STOP_TIMEOUT_S = 20.0
# What a client's own count may differ by from the server's, beside what is under way at the ends.
COUNT_TOLERANCE = 0.01

Counter = Callable[[], int]


class BenchmarkError(PgdragError):
    """A benchmark could not be carried out, or its figures contradict each other."""


@dataclass(frozen=True)
class Command:
    """A client program to run.

    Attributes:
        argv: program and arguments.
        text: for its standard input.
        cwd: its working directory.
        own_count: reads the transactions that it says it committed from its output; None where
            it does not say, or where that counts something else.
    """

    argv: Sequence[str | Path]
    text: str = ""
    cwd: Path = Path("/")
    own_count: Callable[[str], int] | None = None


@dataclass(frozen=True)
class Measured:
    """What one run of a client came to."""

    transactions: int
    seconds: float
    cpu_s: float

    @property
    def tps(self) -> float:
        """Committed transactions a second."""
        return self.transactions / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU time of the client for each committed transaction, in microseconds."""
        return self.cpu_s / self.transactions * 1e6


def measure_whole(command: Command, count: Counter, *, duration_s: float) -> Measured:
    """Run a client that ends by itself after `duration_s`, and count before and after.

    Raises:
        BenchmarkError: it failed, took much too long, committed nothing, or counts otherwise than
            the server does.
    """
    before = count()
    with running(command) as client:
        usage = client.wait(duration_s + 60)
        output = client.output()
    transactions = count() - before
    if transactions <= 0:
        raise BenchmarkError(f"{client.name} committed nothing", detail=_tail(output))
    _check_own_count(command, client.name, output, transactions)
    return Measured(transactions, duration_s, usage.ru_utime + usage.ru_stime)


def measure_window(
    command: Command, count: Counter, *, warm_up_s: float, window_s: float
) -> Measured:
    """Run a client, look at it after `warm_up_s` of work and again after `window_s`, and stop it.

    The warm-up begins with the first transaction that the server commits.

    Raises:
        BenchmarkError: the client ended early, or committed nothing.
    """
    before = count()
    with running(command) as client:
        deadline = time.monotonic() + 60 + warm_up_s
        while count() <= before:
            client.sleep(0.2)
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{client.name} did not begin", detail=_tail(client.output()))
        client.sleep(warm_up_s)
        first, cpu_first, at_first = count(), client.cpu_s(), time.monotonic()
        client.sleep(window_s)
        last, cpu_last, at_last = count(), client.cpu_s(), time.monotonic()
        if last <= first:
            raise BenchmarkError(f"{client.name} committed nothing", detail=_tail(client.output()))
    return Measured(last - first, at_last - at_first, cpu_last - cpu_first)


def measure_peak(command: Command, *, timeout_s: float) -> int:
    """Run a client to its end and return its largest resident set in bytes.

    Not by the resource usage that the kernel reports for a child: that counts what the process
    was before it became the program, a copy of this one.

    Raises:
        BenchmarkError: it failed or took longer.
    """
    with running(command) as client:
        client.wait(timeout_s)
        return client.peak_bytes


def run_to_end(command: Command, *, timeout_s: float) -> tuple[float, str]:
    """Run a program and return the seconds that it took, and its output.

    Raises:
        BenchmarkError: it failed or took longer.
    """
    started = time.monotonic()
    with running(command) as client:
        client.wait(timeout_s)
        return time.monotonic() - started, client.output()


class Client:
    """A client program that runs."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, log: IO[bytes]) -> None:
        self.process = process
        self.name = name
        self._log = log
        self.peak_bytes = 0

    def output(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def cpu_s(self) -> float:
        """CPU seconds of the process and its descendants so far, to the nanosecond."""
        pids = [self.process.pid]
        pids += [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]
        # The kernel's CPU clock of another process: clock_getcpuclockid(3) makes its number so.
        return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)

    def sleep(self, seconds: float) -> None:
        """Wait; a client that ends in the meantime is an error."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self.process.wait(timeout=seconds)
            raise self.failed(status)

    def wait(self, timeout_s: float) -> resource.struct_rusage:
        """Wait for its end and return what it used, with the descendants that it waited for."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.peak_bytes = max(self.peak_bytes, _peak_bytes(self.process.pid))
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"{self.name} did not end within {timeout_s:.0f} s", detail=_tail(self.output())
                )
            time.sleep(0.05)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode:
            raise self.failed(self.process.returncode)
        return usage

    def failed(self, status: int) -> BenchmarkError:
        return BenchmarkError(f"{self.name} ended with {status}", detail=_tail(self.output()))


@contextlib.contextmanager
def running(command: Command) -> Iterator[Client]:
    """Run a program in a session of its own, which is ended whatever happens."""
    name = Path(command.argv[0]).name
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as text:
        text.write(command.text.encode())
        text.seek(0)
        try:
            process = spawn(
                command.argv,
                user=None,
                cwd=command.cwd,
                death_signal=signal.SIGKILL,
                output=log,
                stdin=text.fileno(),
                environment=clean_environment(("HOME", "JAVA_HOME", "PYTHONPATH")),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise BenchmarkError(f'could not execute "{command.argv[0]}": {error}') from error
        try:
            yield Client(process, name, log)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=STOP_TIMEOUT_S)


def _check_own_count(command: Command, name: str, output: str, counted: int) -> None:
    if command.own_count is None:
        return
    own = command.own_count(output)
    if abs(own - counted) > COUNT_TOLERANCE * counted + 100:
        raise BenchmarkError(
            f"{name} says that it committed {own} transactions, the server counted {counted}",
            detail=_tail(output),
        )


def _peak_bytes(pid: int) -> int:
    """The high-water mark of a process; 0 once it has ended, or before it became its program."""
    directory = Path("/proc") / str(pid)
    try:
        if (directory / "cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes():
            return 0
        status = (directory / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, flags=re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _tail(output: str) -> str | None:
    return output.strip()[-1500:] or None
