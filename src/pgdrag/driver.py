"""How is the load driver told what to do, and what does it answer?

The only place that runs the driver and writes its jobs (docs/reference/driver-contract.md); what it
may answer is in `contract`.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from pgdrag.contract import (
    CONTRACT,
    DoneLine,
    ErrorLine,
    HelloLine,
    IntervalLine,
    Line,
    WarmLine,
    breach,
    measurement_of,
    parse_line,
)
from pgdrag.errors import DriverError
from pgdrag.load import LoadProfile
from pgdrag.measurement import Measurement

# For all connections together; and for the collectors, between the warm-up and the window.
CONNECT_TIMEOUT_S = 120.0
GRACE_S = 5.0
INTERVAL_S = 1.0
# How much longer than its job the driver may take before it is considered hung and killed.
SLACK_S = 30.0
# After its grace the driver gives threads that do not end this long, and then ends without them.
THREADS_GIVEN_UP_S = 10.0

L = TypeVar("L", bound=Line)
Listener = Callable[[Line], None]


def _ignore(line: Line) -> None:
    pass


@dataclass(frozen=True)
class Target:
    """Where the driver connects to; `host` is a socket directory or a host name.

    `bin_dir` has the server's own programs, for those who run them; None where it is unknown.
    """

    host: str
    port: int
    user: str
    database: str
    password: str | None = None
    bin_dir: Path | None = None


# A job names a server, also where none is needed.
_NOWHERE = Target("/nowhere", 5432, "nobody", "nothing")


@dataclass(frozen=True)
class Load:
    """What a dataset took: rows, bytes sent, and seconds by phase."""

    rows: int
    bytes: int
    elapsed_s: float
    phases_s: Mapping[str, float]


def find_driver() -> Path:
    """Return the driver's binary: $PGDRAG_DRIVER, or the one installed beside this Python.

    Raises:
        DriverError: there is none.
    """
    named = os.environ.get("PGDRAG_DRIVER")
    beside = Path(sysconfig.get_path("scripts")) / "pgdrag-driver"
    on_path = shutil.which("pgdrag-driver")
    for candidate in (named, beside, on_path):
        if candidate and Path(candidate).is_file() and os.access(candidate, os.X_OK):
            return Path(candidate)
        if candidate and candidate == named:
            raise DriverError(f'load driver "{named}", named by PGDRAG_DRIVER, cannot be executed')
    raise DriverError(
        "load driver is not installed",
        detail=f"There is no pgdrag-driver in {beside.parent} nor on the PATH.",
        hint="Install pgdrag with pip, which builds it with cargo, or name it in PGDRAG_DRIVER.",
    )


class Driver:
    """The load driver: one process a job."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary

    def load(
        self,
        target: Target,
        workload: Mapping[str, object],
        *,
        seed: int,
        parallelism: int,
        timeout_s: float,
        listen: Listener = _ignore,
    ) -> Load:
        """Make and fill the workload's tables.

        Raises:
            DriverError: the server refused, or the driver failed or took longer than `timeout_s`.
        """
        job = driver_job("load", target, workload, seed) | {"load": {"parallelism": parallelism}}
        with self._conversation(job, listen) as talk:
            done = talk.until(DoneLine, timeout_s)
        assert done.rows is not None, "a load's done line has rows"
        assert done.bytes is not None, "a load's done line has bytes"
        return Load(done.rows, done.bytes, done.elapsed_s or done.t_s, done.phases or {})

    @contextlib.contextmanager
    def driving(
        self,
        target: Target,
        workload: Mapping[str, object],
        load: LoadProfile,
        *,
        seed: int,
        listen: Listener = _ignore,
    ) -> Iterator[Driving]:
        """Start driving the workload; the caller lets it warm up, looks around, and measures.

        One process, and one stream of transactions, from the first to the last. Whoever leaves
        the block earlier ends it: what runs on the server is cancelled.
        """
        job = driver_job("run", target, workload, seed) | {"run": _run(load)}
        with self._conversation(job, listen) as talk:
            yield Driving(talk, load)

    def run(
        self,
        target: Target,
        workload: Mapping[str, object],
        load: LoadProfile,
        *,
        seed: int,
        listen: Listener = _ignore,
    ) -> Measurement:
        """Warm up, measure, and return what was counted in the window.

        Raises:
            DriverError: the driver could not connect, failed, or did not end in bounded time.
        """
        with self.driving(target, workload, load, seed=seed, listen=listen) as driving:
            driving.warm_up()
            return driving.measure()

    def compile(self, workload: Mapping[str, object]) -> None:
        """Return if the workload's scripts have no mistake; nothing is connected to.

        Raises:
            DriverError: one has, and is named with its line; or the driver failed.
        """
        with self._conversation(driver_job("compile", _NOWHERE, workload, 0), _ignore) as talk:
            talk.until(DoneLine, SLACK_S)

    def check(
        self, target: Target, workload: Mapping[str, object], *, timeout_s: float
    ) -> tuple[str, ...]:
        """Return a sentence for each consistency condition that the dataset violates.

        Raises:
            DriverError: the check could not be carried out.
        """
        found = self.conditions(target, workload, timeout_s=timeout_s)
        return tuple(f"{name}: {broken}" for name, broken in found.items() if broken)

    def conditions(
        self, target: Target, workload: Mapping[str, object], *, timeout_s: float
    ) -> dict[str, str]:
        """Return what violates each consistency condition, by its name; "" where it holds.

        Raises:
            DriverError: the check could not be carried out.
        """
        with self._conversation(driver_job("check", target, workload, 0), _ignore) as talk:
            done = talk.until(DoneLine, timeout_s)
        assert done.violations is not None, "a check's done line has violations"
        broken = {v.condition: f"{v.message} ({v.count})" for v in done.violations}
        return {name: broken.get(name, "") for name in [*(done.checked or ()), *broken]}

    @contextlib.contextmanager
    def _conversation(self, job: Mapping[str, Any], listen: Listener) -> Iterator[_Conversation]:
        with tempfile.TemporaryFile() as log, _process(self.binary, log) as process:
            talk = _Conversation(process, log, listen)
            try:
                talk.say(job)
                yield talk
            except BaseException:
                # Whoever leaves in the middle of it: the driver cancels its statements, then ends.
                process.terminate()
                talk.drain(GRACE_S + THREADS_GIVEN_UP_S + 1.0)
                raise


class Driving:
    """A load under way: first `warm_up`, then `measure`, each once."""

    def __init__(self, talk: _Conversation, load: LoadProfile) -> None:
        self._talk = talk
        self._load = load

    def warm_up(self) -> None:
        """Return when the warm-up is over; the load goes on.

        Raises:
            DriverError: the driver could not connect, failed, or did not warm up in bounded time.
        """
        self._talk.until(WarmLine, CONNECT_TIMEOUT_S + self._load.warm_up_s + SLACK_S)

    def measure(self) -> Measurement:
        """Open the measured window, and return what was counted in it when it has ended.

        Raises:
            DriverError: the driver failed, broke its contract, or did not end in bounded time.
        """
        intervals: list[IntervalLine] = []

        def note(line: Line) -> None:
            if isinstance(line, IntervalLine):
                intervals.append(line)

        self._talk.say({"type": "measure"})
        timeout_s = self._load.budget_s + GRACE_S + THREADS_GIVEN_UP_S + SLACK_S
        return measurement_of(self._talk.until(DoneLine, timeout_s, note), intervals)


def driver_job(
    action: str,
    target: Target,
    workload: Mapping[str, object],
    seed: int,
    *,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
) -> dict[str, Any]:
    """Return a job of the contract, which lacks only what `run` or `load` needs of its own."""
    return {
        "contract": CONTRACT,
        "action": action,
        "server": {
            "host": target.host,
            "port": target.port,
            "user": target.user,
            "database": target.database,
            "password": target.password,
            "application_name": "pgdrag",
            "connect_timeout_s": connect_timeout_s,
        },
        "die_with_parent": True,
        "seed": seed,
        "workload": dict(workload),
        "run": None,
        "load": None,
    }


def _run(load: LoadProfile) -> dict[str, Any]:
    return {
        "connections": load.connections,
        "threads": load.threads,
        "warm_up_s": load.warm_up_s,
        "handshake": True,
        "duration_s": load.measure_s,
        "min_commits": load.min_commits,
        "budget_s": load.budget_s,
        "interval_s": INTERVAL_S,
        "grace_s": GRACE_S,
        "pacing": asdict(load.pacing),
        "steps": [asdict(step) for step in load.steps],
        "latency_limit_us": load.latency_limit_us,
    }


class _Conversation:
    """What is said to a driver's process, and what it answers; every wait is bounded."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes], listen: Listener) -> None:
        assert process.stdout is not None
        self._process = process
        self._log = log
        self._listen = listen
        self._pipe = process.stdout
        self._held = b""
        self._has_greeted = False

    def say(self, line: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        # A driver that has died already says why on its standard error.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()

    def until(self, kind: type[L], timeout_s: float, note: Listener = _ignore) -> L:
        """Return the next line of a kind; the lines up to it are told to those who listen.

        Raises:
            DriverError: the driver ended before it, with its own error or without a word, broke
                the contract, or took longer than `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while (text := self._line(deadline)) is not None:
                line = parse_line(text)
                self._check_greeting(line)
                note(line)
                self._listen(line)
                if isinstance(line, kind):
                    return line
                _check_goes_on(line)
        except TimeoutError:
            raise DriverError(f"load driver did not end within {timeout_s:.0f} s") from None
        raise self._silent_end()

    def drain(self, timeout_s: float) -> None:
        """Wait for the end of what the driver says, so that it is not kept from saying it."""
        deadline = time.monotonic() + timeout_s
        with contextlib.suppress(TimeoutError):
            while self._line(deadline) is not None:
                pass

    def _line(self, deadline: float) -> bytes | None:
        """Return the next line; None at end of file.

        Raises:
            TimeoutError: it is too late for one.
        """
        while b"\n" not in self._held:
            chunk = self._chunk(deadline)
            if not chunk:
                return None
            self._held += chunk
        line, _, self._held = self._held.partition(b"\n")
        return line

    def _chunk(self, deadline: float) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            left_s = deadline - time.monotonic()
            # A driver that talks without end is late as well.
            if left_s < 0 or not selector.select(left_s):
                raise TimeoutError
        return os.read(self._pipe.fileno(), 1 << 16)

    def _check_greeting(self, line: Line) -> None:
        if not self._has_greeted and not isinstance(line, HelloLine | ErrorLine):
            raise breach(f"its first line is of type {line.type}")
        if isinstance(line, HelloLine) and line.contract != CONTRACT:
            raise breach(f"it speaks version {line.contract}, not {CONTRACT}")
        self._has_greeted = True

    def _silent_end(self) -> DriverError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        return DriverError(
            f"load driver ended without a result, exit status {self._process.poll()}",
            detail=_tail(self._log) or "It wrote nothing to its standard error.",
        )


@contextlib.contextmanager
def _process(binary: Path, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the driver in a session of its own, so that Ctrl-C reaches pgdrag alone; end it."""
    try:
        process = subprocess.Popen(
            [binary],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    except OSError as error:
        raise DriverError(f'could not execute load driver "{binary}": {error.strerror}') from error
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    patience_s = GRACE_S + THREADS_GIVEN_UP_S + 1.0
    for wait_s, number in ((1.0, signal.SIGTERM), (patience_s, signal.SIGKILL)):
        try:
            process.wait(timeout=wait_s)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        else:
            return
    process.wait(timeout=10)


def _check_goes_on(line: Line) -> None:
    """Raise where a line that was not waited for is a driver's last."""
    if isinstance(line, ErrorLine):
        where = f"The load driver was in its phase {line.phase}." if line.phase else None
        raise DriverError(line.message, sqlstate=line.sqlstate, detail=where)
    if isinstance(line, DoneLine):
        # Before the window was asked for: `measurement_of` says why, if it was stopped.
        measurement_of(line, ())
        raise breach("it was done before it was asked to measure")


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read()[-2000:].decode(errors="replace").strip()
