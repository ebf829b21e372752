"""How do the lines of several drivers that share a load become those of one driver with the whole load?

Counts add up, and histograms do. What a driver tells of itself adds up where it is a cost, and is the worst of all where
it shows whether a driver was the bottleneck.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from pgdrag.driver.contract import (
    DoneLine,
    ErrorCount,
    IntervalLine,
    Transactions,
    WaitedArrivals,
    breach,
)
from pgdrag.driver.histogram import merged
from pgdrag.model.measurement import Counts, DriverCost, Latency, Statement, Sum


def merged_interval(lines: Sequence[IntervalLine], *, t_s: float, sessions: int) -> IntervalLine:
    """Return the interval that several drivers' lines tell of, which ends at `t_s`; the longest is its length."""
    return IntervalLine(
        type="interval",
        t_s=t_s,
        duration_s=max(line.duration_s for line in lines),
        sessions=sessions,
        transactions=_transactions([line.transactions for line in lines], is_encoded=False),
    )


def merged_done(lines: Sequence[DoneLine], *, t_s: float, stopped_by: str) -> DoneLine:
    """Return the last line of one driver that had done what several did.

    Raises:
        DriverError: a line lacks what a run has.
    """
    elapsed_s = [line.elapsed_s for line in lines if line.elapsed_s is not None]
    transactions = [line.transactions for line in lines if line.transactions is not None]
    costs = [line.driver for line in lines if line.driver is not None]
    if not len(lines) == len(elapsed_s) == len(transactions) == len(costs):
        raise breach("a run's done line lacks transactions, driver or elapsed_s")
    connecting = [line.connecting for line in lines if line.connecting is not None]
    return DoneLine(
        type="done",
        t_s=t_s,
        elapsed_s=max(elapsed_s),
        # Only from when the last of them began was it the whole load.
        warm_up_s=min(
            (line.warm_up_s for line in lines if line.warm_up_s is not None), default=None
        ),
        stopped_by=stopped_by,
        transactions=_transactions(transactions, is_encoded=True),
        arrivals=_arrivals([line.arrivals for line in lines if line.arrivals is not None]),
        connecting=_latency(connecting),
        statements=_statements(one for line in lines for one in line.statements),
        sums=_sums([line.sums for line in lines]),
        errors=_errors(one for line in lines for one in line.errors),
        driver=merged_cost(costs),
    )


def merged_cost(costs: Sequence[DriverCost]) -> DriverCost:
    """Return what several drivers used together, and the worst that any of them tells of itself."""

    def worst(name: str) -> float | None:
        return max((x for one in costs if (x := getattr(one, name)) is not None), default=None)

    trips = [one for one in costs if one.round_trips is not None and one.round_trip_us is not None]
    round_trips = sum(one.round_trips or 0 for one in trips)
    trips_us = sum((one.round_trips or 0) * (one.round_trip_us or 0.0) for one in trips)
    rss_bytes = [one.max_rss_bytes for one in costs if one.max_rss_bytes is not None]
    return DriverCost(
        user_cpu_s=sum(one.user_cpu_s for one in costs),
        system_cpu_s=sum(one.system_cpu_s for one in costs),
        threads=sum(one.threads for one in costs),
        busiest_thread_cpu_s=worst("busiest_thread_cpu_s"),
        max_rss_bytes=sum(rss_bytes) if rss_bytes else None,
        send_lag_us_p99=worst("send_lag_us_p99"),
        send_lag_us_max=worst("send_lag_us_max"),
        lateness_us_p99=worst("lateness_us_p99"),
        lateness_us_max=worst("lateness_us_max"),
        stall_us_p99=worst("stall_us_p99"),
        stall_us_max=worst("stall_us_max"),
        round_trips=round_trips if trips else None,
        # A mean, so that with the number it is the time that all of them took.
        round_trip_us=trips_us / round_trips if round_trips else worst("round_trip_us"),
        busiest_thread_busy_s=worst("busiest_thread_busy_s"),
        processors=min((x for one in costs if (x := one.processors) is not None), default=None),
    )


def _transactions(
    parts: Sequence[dict[str, Transactions]], *, is_encoded: bool
) -> dict[str, Transactions]:
    found = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        ended = [part[name] for part in parts if name in part]
        counts = sum((one.counts() for one in ended), Counts())
        latency = _latency(
            [one.latency for one in ended if one.latency is not None], is_encoded=is_encoded
        )
        found[name] = Transactions(**_values(counts), latency=latency)
    return found


def _latency(latencies: Sequence[Latency], *, is_encoded: bool = True) -> Latency | None:
    return merged([one for one in latencies if one.count], is_encoded=is_encoded)


def _arrivals(parts: Sequence[WaitedArrivals]) -> WaitedArrivals | None:
    if not parts:
        return None
    queue = _latency([one.queue for one in parts if one.queue is not None])
    return WaitedArrivals(
        scheduled=sum(one.scheduled for one in parts),
        dropped=sum(one.dropped for one in parts),
        skipped=sum(one.skipped for one in parts),
        late=sum(one.late for one in parts),
        # Each has a queue of its own; they need not have been longest at the same moment.
        max_queue=sum(one.max_queue for one in parts),
        carried=sum(one.carried for one in parts),
        queue_us_p50=queue.p50_us if queue else None,
        queue_us_p99=queue.p99_us if queue else None,
        queue_us_max=queue.max_us if queue else None,
        queue=queue,
    )


def _statements(parts: Iterable[Statement]) -> tuple[Statement, ...]:
    found: dict[tuple[str, int, str], Statement] = {}
    for one in parts:
        key = (one.transaction, one.line, one.text)
        before = found.get(key)
        found[key] = one if before is None else _both(before, one)
    return tuple(found.values())


def _both(one: Statement, other: Statement) -> Statement:
    succeeded = one.succeeded + other.succeeded
    total_us = sum(x.succeeded * (x.mean_us or 0.0) for x in (one, other))
    return Statement(
        one.transaction,
        one.line,
        one.text,
        succeeded,
        total_us / succeeded if succeeded else None,
        one.failed + other.failed,
        one.retried + other.retried,
    )


def _sums(parts: Sequence[dict[str, Sum]]) -> dict[str, Sum]:
    return {
        name: Sum(
            **{
                one.name: sum(getattr(part[name], one.name) for part in parts if name in part)
                for one in fields(Sum)
            }
        )
        for name in dict.fromkeys(name for part in parts for name in part)
    }


def _errors(parts: Iterable[ErrorCount]) -> list[ErrorCount]:
    found: dict[tuple[str, str], ErrorCount] = {}
    for one in parts:
        key = (one.transaction, one.sqlstate)
        before = found.get(key)
        count = one.count + (before.count if before else 0)
        found[key] = (before or one).model_copy(update={"count": count})
    return list(found.values())


def _values(counts: Counts) -> dict[str, Any]:
    return {one.name: getattr(counts, one.name) for one in fields(Counts)}
