"""What may the load driver say? Its lines (docs/reference/driver-contract.md), and the measurement they add up to.

A line that is not as agreed is a bug in pgdrag, never a result; so are counts that do not add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pgdrag.errors import DriverError
from pgdrag.model.measurement import (
    Arrivals,
    Counts,
    DriverCost,
    Example,
    Latency,
    Measurement,
    Sample,
    Statement,
    Sum,
)

CONTRACT = 2
# Nothing of in_flight is in an interval: it is what was left at the end of the last.
_IN_NO_INTERVAL = ("in_flight", "failed_by_sqlstate")
_SUMMED = tuple(one.name for one in fields(Counts) if one.name not in _IN_NO_INTERVAL)
# Seconds are written as binary fractions, and added up by both sides.
_ROUNDING_S = 1e-3


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


# Dataclasses within a line forbid unknown fields as the line does.
@dataclass(frozen=True)
class Transactions(Counts):
    """How the transactions of one type ended, and how long those took that committed."""

    latency: Latency | None = None

    def counts(self) -> Counts:
        """Return the counts alone."""
        return Counts(**{one.name: getattr(self, one.name) for one in fields(Counts)})


@dataclass(frozen=True)
class WaitedArrivals(Arrivals):
    """What came of a schedule's arrivals, with all their waits."""

    queue: Latency | None = None

    def arrivals(self) -> Arrivals:
        """Return it without the waits."""
        return Arrivals(**{one.name: getattr(self, one.name) for one in fields(Arrivals)})


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


class WarmingLine(_Line):
    """One interval of the warm-up, for progress only."""

    type: Literal["warming"]
    t_s: float
    duration_s: float
    committed: int
    failed: int


class WarmLine(_Line):
    """The warm-up is over; the load continues until the window is requested."""

    type: Literal["warm"]
    t_s: float


class ClockLine(_Line):
    """What time it is there, asked by a line `clock` that came at `received_s`."""

    type: Literal["clock"]
    id: int
    received_s: float
    t_s: float


class IntervalLine(_Line):
    """One interval of the window."""

    type: Literal["interval"]
    t_s: float
    duration_s: Annotated[float, Field(gt=0)]
    sessions: int
    transactions: dict[str, Transactions]

    @property
    def committed(self) -> int:
        """Transactions committed in this interval, over all types."""
        return sum(counts.committed for counts in self.transactions.values())


class WaitsLine(_Line):
    """What a watch saw in an interval: processes added up over looks, by type and by wait."""

    type: Literal["waits"]
    t_s: float
    duration_s: Annotated[float, Field(gt=0)]
    looks: Annotated[int, Field(gt=0)]
    processes: dict[str, dict[str, int]]


class ErrorCount(_Line):
    """How often transactions of a type failed with an SQLSTATE, and what the first said."""

    transaction: str
    sqlstate: str
    message: str
    count: int


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
    transactions: dict[str, Transactions] | None = None
    arrivals: WaitedArrivals | None = None
    connecting: Latency | None = None
    statements: tuple[Statement, ...] = ()
    sums: dict[str, Sum] = {}
    errors: list[ErrorCount] = []
    driver: DriverCost | None = None
    rows: int | None = None
    bytes: int | None = None
    phases: dict[str, float] = {}
    violations: list[_Violation] | None = None
    checked: list[str] = []
    looks: int | None = None
    cpu_s: float | None = None
    examples: tuple[Example, ...] | None = None


class ErrorLine(_Line):
    """The last line of a job that could not be done."""

    type: Literal["error"]
    message: str
    sqlstate: str | None = None
    phase: str | None = None
    t_s: float | None = None


Line = (
    HelloLine
    | PhaseLine
    | ProgressLine
    | WarmingLine
    | WarmLine
    | ClockLine
    | IntervalLine
    | WaitsLine
    | DoneLine
    | ErrorLine
)


@cache
def _line() -> TypeAdapter[Line]:
    return TypeAdapter(Annotated[Line, Field(discriminator="type")])


def parse_line(text: bytes) -> Line:
    """Return a line of the driver.

    Raises:
        DriverError: it is none of those agreed upon.
    """
    try:
        return _line().validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise breach(f"{where}: {first['msg']} in {text[:200]!r}") from None


def breach(what: str) -> DriverError:
    """Return the error for a driver that does not keep the contract."""
    return DriverError(
        "load driver broke its contract",
        detail=f"{what[0].upper()}{what[1:]}.",
        hint="This is a bug in pgdrag, or the driver has another version: reinstall both.",
    )


def measurement_of(done: DoneLine, intervals: Sequence[IntervalLine]) -> Measurement:
    """Return what a run measured; the identities that the driver asserts are asserted again.

    Raises:
        DriverError: the numbers contradict each other, or no window was opened.
    """
    if done.transactions is None or done.driver is None or done.elapsed_s is None:
        raise breach("a run's done line lacks transactions, driver or elapsed_s")
    if not done.elapsed_s:
        raise _no_window(done)
    totals = {name: found.counts() for name, found in done.transactions.items()}
    _check_totals(totals, done.transactions, done.arrivals)
    _check_intervals(done.elapsed_s, totals, intervals)
    start_s = intervals[0].t_s - intervals[0].duration_s if intervals else 0.0
    return Measurement(
        elapsed_s=done.elapsed_s,
        stopped_by=done.stopped_by or "",
        transactions=totals,
        latency={
            name: found.latency
            for name, found in done.transactions.items()
            if found.latency is not None
        },
        samples=tuple(sample_of(line, start_s) for line in intervals),
        driver=done.driver,
        errors=tuple((e.transaction, e.sqlstate, e.message, e.count) for e in done.errors),
        arrivals=done.arrivals and done.arrivals.arrivals(),
        warm_up_s=done.warm_up_s,
        connecting=done.connecting,
        statements=done.statements,
        sums=done.sums,
    )


def _no_window(done: DoneLine) -> DriverError:
    if done.stopped_by != "clients":
        return DriverError("load driver was stopped by a signal before its window began")
    first = next(iter(done.errors), None)
    return DriverError(
        "no client could go on in the warm-up",
        detail=f"The first error was: {first.message} (SQLSTATE {first.sqlstate})."
        if first
        else None,
        sqlstate=first.sqlstate if first else None,
    )


def _check_totals(
    totals: Mapping[str, Counts],
    transactions: Mapping[str, Transactions],
    arrivals: Arrivals | None,
) -> None:
    for name, counts in totals.items():
        if not counts.is_balanced:
            raise breach(f"the counts of {name} do not add up: {counts}")
        latency = transactions[name].latency
        measured = latency.count if latency else 0
        if measured != counts.committed:
            raise breach(f"{name} has {counts.committed} commits and {measured} latencies")
    if arrivals is None:
        return
    total = sum(totals.values(), Counts())
    for key in ("scheduled", "dropped", "skipped"):
        if getattr(arrivals, key) != getattr(total, key):
            raise breach(
                f"its arrivals have {getattr(arrivals, key)} {key}, its types {getattr(total, key)}"
            )


def _check_intervals(
    elapsed_s: float, totals: Mapping[str, Counts], intervals: Sequence[IntervalLine]
) -> None:
    ends_s = [line.t_s for line in intervals]
    if ends_s != sorted(set(ends_s)):
        raise breach(f"its intervals do not follow each other: {ends_s}")
    length_s = math.fsum(line.duration_s for line in intervals)
    if abs(length_s - elapsed_s) > _ROUNDING_S:
        raise breach(f"its intervals last {length_s} s, its window {elapsed_s} s")
    for name, total in totals.items():
        lines = [line.transactions[name] for line in intervals if name in line.transactions]
        summed = sum((one.counts() for one in lines), Counts())
        for key in _SUMMED:
            if getattr(summed, key) != getattr(total, key):
                raise breach(
                    f"its intervals sum to {getattr(summed, key)} {name} {key}, "
                    f"its total is {getattr(total, key)}"
                )
    if strangers := {name for line in intervals for name in line.transactions} - totals.keys():
        raise breach(f"its intervals count {', '.join(sorted(strangers))}, its total does not")


def sample_of(line: IntervalLine, start_s: float = 0.0) -> Sample:
    """Return an interval as a sample of a window that began at `start_s`, by the driver's time."""
    seen = [t.latency for t in line.transactions.values() if t.latency is not None]
    return Sample(
        t_s=round(line.t_s - start_s, 6),
        duration_s=line.duration_s,
        committed=line.committed,
        failed=sum(t.failed for t in line.transactions.values()),
        p99_us=max((one.p99_us for one in seen), default=None),
        sessions=line.sessions,
        p50_us=max((one.p50_us for one in seen), default=None),
        p95_us=max((one.p95_us for one in seen), default=None),
    )
