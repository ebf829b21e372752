"""How is the load driver told what to do, and what does it answer?

The only place that knows the driver's JSON contract (docs/reference/driver-contract.md). What comes
back is checked line by line: a breach is a defect of pgdrag, never a result.
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pgdrag.errors import DriverError
from pgdrag.plan import Counts, DriverCost, Latency, LoadProfile, Measurement, Sample

CONTRACT = 2
CONNECT_TIMEOUT_S = 60.0
GRACE_S = 5.0
INTERVAL_S = 1.0
# How much longer than its job the driver may take before it is considered hung and killed.
SLACK_S = 30.0


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Latency(_Line):
    count: int
    mean_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    max_us: float
    encoded: str


class _Transactions(_Line):
    scheduled: int = 0
    committed: int = 0
    rolled_back: int = 0
    failed: int = 0
    failed_by_sqlstate: dict[str, int] = {}
    in_flight: int = 0
    dropped: int = 0
    skipped: int = 0
    retried: int = 0
    tried: int = 0
    over_limit: int = 0
    latency: _Latency | None = None

    def counts(self) -> Counts:
        return Counts(**self.model_dump(exclude={"latency", "skipped", "tried", "over_limit"}))


class HelloLine(_Line):
    """The first line."""

    type: Literal["hello"]
    contract: int
    driver_version: str
    pid: int
    action: str
    started_unix_s: float


class PhaseLine(_Line):
    """The driver enters a phase."""

    type: Literal["phase"]
    name: str
    t_s: float


class ProgressLine(_Line):
    """How far a load has come."""

    type: Literal["progress"]
    phase: str
    done: int
    total: int
    t_s: float


class IntervalLine(_Line):
    """One interval of a run."""

    type: Literal["interval"]
    t_s: float
    duration_s: Annotated[float, Field(gt=0)]
    sessions: int = 0
    transactions: dict[str, _Transactions]

    @property
    def committed(self) -> int:
        """Transactions committed in this interval, over all types."""
        return sum(counts.committed for counts in self.transactions.values())


class _Arrivals(_Line):
    scheduled: int
    carried: int = 0
    dropped: int
    skipped: int = 0
    late: int = 0
    max_queue: int
    queue_us_p50: float | None = None
    queue_us_p99: float | None = None
    queue_us_max: float | None = None


class _ErrorCount(_Line):
    transaction: str
    sqlstate: str
    message: str
    count: int


class _DriverUse(_Line):
    user_cpu_s: float
    system_cpu_s: float
    busiest_thread_cpu_s: float
    threads: int
    max_rss_bytes: int
    send_lag_us_p99: float
    send_lag_us_max: float
    lateness_us_p99: float | None
    lateness_us_max: float | None
    stall_us_p99: float
    stall_us_max: float

    def cost(self) -> DriverCost:
        return DriverCost(
            user_cpu_s=self.user_cpu_s,
            system_cpu_s=self.system_cpu_s,
            loop_lag_us_p99=self.stall_us_p99,
            loop_lag_us_max=self.stall_us_max,
            threads=self.threads,
        )


class _Violation(_Line):
    condition: str
    message: str
    count: int


class DoneLine(_Line):
    """The last line of a job that was done; which fields are set depends on the action."""

    type: Literal["done"]
    t_s: float
    elapsed_s: float | None = None
    warm_up_s: float | None = None
    stopped_by: str | None = None
    transactions: dict[str, _Transactions] | None = None
    arrivals: _Arrivals | None = None
    errors: list[_ErrorCount] | None = None
    driver: _DriverUse | None = None
    rows: int | None = None
    bytes: int | None = None
    phases: dict[str, float] | None = None
    violations: list[_Violation] | None = None
    checked: list[str] | None = None


class ErrorLine(_Line):
    """The last line of a job that could not be done."""

    type: Literal["error"]
    message: str
    sqlstate: str | None = None
    phase: str | None = None
    t_s: float | None = None


Line = HelloLine | PhaseLine | ProgressLine | IntervalLine | DoneLine | ErrorLine
_line: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])

Listener = Callable[[Line], None]


def _ignore(line: Line) -> None:
    pass


@dataclass(frozen=True)
class Target:
    """Where the driver connects to; `host` is a socket directory or a host name."""

    host: str
    port: int
    user: str
    database: str
    password: str | None = None


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
        job = self._job("load", target, workload, seed) | {"load": {"parallelism": parallelism}}
        done = self._do(job, timeout_s, listen)
        assert done.rows is not None, "a load's done line has rows"
        assert done.bytes is not None, "a load's done line has bytes"
        return Load(done.rows, done.bytes, done.elapsed_s or done.t_s, done.phases or {})

    def run(
        self,
        target: Target,
        workload: Mapping[str, object],
        load: LoadProfile,
        *,
        seed: int,
        listen: Listener = _ignore,
    ) -> Measurement:
        """Drive the workload for the profile's measured window and return what was counted.

        Raises:
            DriverError: the driver could not connect, failed, or did not end in bounded time.
        """
        job = self._job("run", target, workload, seed) | {
            "run": {
                "connections": load.connections,
                "threads": 1,
                "warm_up_s": 0,
                "handshake": False,
                "duration_s": load.measure_s,
                "min_commits": load.min_commits,
                "budget_s": load.budget_s,
                "interval_s": INTERVAL_S,
                "grace_s": GRACE_S,
                "pacing": _pacing(load),
                "steps": [],
                "latency_limit_us": None,
            }
        }
        intervals: list[IntervalLine] = []

        def note(line: Line) -> None:
            if isinstance(line, IntervalLine):
                intervals.append(line)
            listen(line)

        timeout_s = CONNECT_TIMEOUT_S + load.budget_s + GRACE_S + SLACK_S
        return _measurement(self._do(job, timeout_s, note), intervals)

    def check(
        self, target: Target, workload: Mapping[str, object], *, timeout_s: float
    ) -> tuple[str, ...]:
        """Return a sentence for each consistency condition that the dataset violates.

        Raises:
            DriverError: the check could not be carried out.
        """
        done = self._do(self._job("check", target, workload, 0), timeout_s, _ignore)
        assert done.violations is not None, "a check's done line has violations"
        return tuple(f"{v.condition}: {v.message} ({v.count})" for v in done.violations)

    def _job(
        self, action: str, target: Target, workload: Mapping[str, object], seed: int
    ) -> dict[str, Any]:
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
                "connect_timeout_s": CONNECT_TIMEOUT_S,
            },
            "die_with_parent": True,
            "seed": seed,
            "workload": dict(workload),
            "run": None,
            "load": None,
        }

    def _do(self, job: dict[str, Any], timeout_s: float, listen: Listener) -> DoneLine:
        last: Line | None = None
        with tempfile.TemporaryFile() as log, _process(self.binary, log) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            # A driver that has died already says why on its standard error.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(job).encode() + b"\n")
                process.stdin.close()
            for text in _lines(process.stdout, timeout_s):
                line = _parse(text)
                if last is None and not isinstance(line, HelloLine | ErrorLine):
                    raise _breach(f"its first line is of type {line.type}")
                if isinstance(line, HelloLine) and line.contract != CONTRACT:
                    raise _breach(f"it speaks version {line.contract}, not {CONTRACT}")
                last = line
                listen(line)
            if isinstance(last, DoneLine):
                return last
            if isinstance(last, ErrorLine):
                raise DriverError(
                    last.message,
                    sqlstate=last.sqlstate,
                    detail=f"The load driver was in its phase {last.phase}."
                    if last.phase
                    else None,
                )
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
            raise DriverError(
                f"load driver ended without a result, exit status {process.poll()}",
                detail=_tail(log) or "It wrote nothing to its standard error.",
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
    except BaseException:
        # Whoever leaves in the middle of it: the driver cancels its statements and then ends.
        process.terminate()
        assert process.stdout is not None
        with contextlib.suppress(DriverError):
            for _ in _lines(process.stdout, GRACE_S + 1.0):
                pass
        raise
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for wait_s, number in ((1.0, signal.SIGTERM), (GRACE_S + 1.0, signal.SIGKILL)):
        try:
            process.wait(timeout=wait_s)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        else:
            return
    process.wait(timeout=10)


def _lines(pipe: IO[bytes], timeout_s: float) -> Iterator[bytes]:
    """Yield whole lines until end of file.

    Raises:
        DriverError: the deadline passed.
    """
    deadline = time.monotonic() + timeout_s
    held = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise DriverError(f"load driver did not end within {timeout_s:.0f} s")
            chunk = os.read(pipe.fileno(), 1 << 16)
            if not chunk:
                return
            *whole, held = (held + chunk).split(b"\n")
            yield from whole


def _parse(text: bytes) -> Line:
    try:
        return _line.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _breach(f"{where}: {first['msg']} in {text[:200]!r}") from None


def _breach(what: str) -> DriverError:
    return DriverError(
        "load driver broke its contract",
        detail=f"{what[0].upper()}{what[1:]}.",
        hint="This is a defect of pgdrag, or the driver is of another version: reinstall both.",
    )


def _pacing(load: LoadProfile) -> dict[str, object]:
    if load.rate_per_s is None:
        return {"kind": "closed"}
    queue_limit = 10_000  # BenchBase's
    return {"kind": "benchbase", "rate_per_s": load.rate_per_s, "queue_limit": queue_limit}


def _measurement(done: DoneLine, intervals: list[IntervalLine]) -> Measurement:
    """Make the measurement of a run and assert the identities that the driver asserts, too."""
    if done.transactions is None or done.driver is None or done.elapsed_s is None:
        raise _breach("a run's done line lacks transactions, driver or elapsed_s")
    if not done.elapsed_s:
        raise DriverError("load driver was stopped by a signal before its window began")
    ends_s = [line.t_s for line in intervals]
    if ends_s != sorted(set(ends_s)):
        raise _breach(f"its intervals do not follow each other: {ends_s}")
    for name, transactions in done.transactions.items():
        if not transactions.counts().is_balanced:
            raise _breach(f"the counts of {name} do not add up: {transactions.counts()}")
    committed = sum(line.committed for line in intervals)
    total = sum(counts.committed for counts in done.transactions.values())
    if committed != total:
        raise _breach(f"its intervals sum to {committed} commits, its total is {total}")
    start_s = intervals[0].t_s - intervals[0].duration_s if intervals else 0.0
    return Measurement(
        elapsed_s=done.elapsed_s,
        stopped_by=done.stopped_by or "",
        transactions={name: t.counts() for name, t in done.transactions.items()},
        latency={
            name: Latency(**t.latency.model_dump())
            for name, t in done.transactions.items()
            if t.latency is not None
        },
        samples=tuple(_sample(line, start_s) for line in intervals),
        driver=done.driver.cost(),
        errors=tuple((e.transaction, e.sqlstate, e.message, e.count) for e in done.errors or ()),
        queue_us_p99=done.arrivals.queue_us_p99 if done.arrivals else None,
        max_queue=done.arrivals.max_queue if done.arrivals else None,
    )


def _sample(line: IntervalLine, start_s: float) -> Sample:
    p99s = [t.latency.p99_us for t in line.transactions.values() if t.latency is not None]
    return Sample(
        t_s=round(line.t_s - start_s, 6),
        duration_s=line.duration_s,
        committed=line.committed,
        failed=sum(t.failed for t in line.transactions.values()),
        p99_us=max(p99s) if p99s else None,
    )


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read()[-2000:].decode(errors="replace").strip()
