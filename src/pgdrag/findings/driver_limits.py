"""Was the load driver, or its way to the server, the bottleneck? What it used, how late it was, and the warnings.

The rule: a trial in which the driver may have been the bottleneck keeps its number, as a bound, and
has a warning with the reason. It is not thrown away: the server was at least that fast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdrag.english import counted, percent_words
from pgdrag.findings.analysis import RunAnalysis, TreatmentAnalysis
from pgdrag.findings.compared import Treatments
from pgdrag.model import Result
from pgdrag.model.measurement import DriverCost, Generator, Latency, Measurement
from pgdrag.model.threads import ChosenThreads
from pgdrag.units import format_duration, format_number, format_rate

BUSY = 0.8  # share of a processor from which a worker thread may have been the bottleneck
LATE_US = 1_000.0  # p99 of the schedule's lateness from which arrivals are not on schedule
LATE_SHARE = 0.1  # of the median latency: lateness or send lag that is seen in it
CLOCK_SHARE = 0.05  # of an interval: windows that began so far apart are of different moments
FAR_US = 100.0  # of a round trip: below, it is the server that wakes up, and no network
FAR_SHARE = 0.5  # of the latency: round trips that take most of it


@dataclass(frozen=True)
class DriverFinding:
    """What the load driver used on one rung: whether it was the bottleneck.

    Attributes:
        trial: number of the trial that the values are of: the one in which it was busiest.
        cpu_share: CPU seconds per second of window, over all its threads.
        busiest_share: share of a processor that its busiest worker thread used.
        cpu_us_per_transaction: None where no transaction ended.
        is_suspect: in any trial of the rung.
        round_trips: per transaction, in words: "7.1 round trips of 0.5 ms"; None where that is unknown.
        warnings: why, each with the remedy still untried.
        generators: each of several load generators, in that trial; none: there was one driver.
    """

    trial: int
    cpu_share: float
    busiest_share: float
    cpu_us_per_transaction: float | None
    cost: DriverCost
    is_suspect: bool
    warnings: tuple[str, ...]
    round_trips: str | None = None
    generators: tuple[Generator, ...] = ()


def driver_finding(trials: Sequence[tuple[Result, Measurement]]) -> DriverFinding | None:
    """Return what the driver used on one rung: of the trial in which it was busiest.

    The warnings are those of all trials. None where no trial has a number.
    """
    if not trials:
        return None
    result, measured = max(trials, key=lambda trial: _busiest_share(trial[1]))
    limits = tuple(dict.fromkeys(text for _, one in trials for text in driver_warnings(one)))
    clocks = tuple(dict.fromkeys(text for _, one in trials for text in clock_warnings(one)))
    return DriverFinding(
        trial=result.trial.number,
        cpu_share=_cpu_s(measured) / measured.elapsed_s,
        busiest_share=_busiest_share(measured),
        cpu_us_per_transaction=cpu_us_per_transaction(measured),
        cost=measured.driver,
        is_suspect=bool(limits),
        warnings=(*limits, *clocks),
        round_trips=None if round_trip_share(measured) is None else _round_trip_words(measured),
        generators=measured.generators,
    )


def cpu_us_per_transaction(measured: Measurement) -> float | None:
    """Return the driver's CPU time per transaction that a client began and ended; None without any."""
    total = measured.total
    ended = total.committed + total.rolled_back + total.failed
    return 1e6 * _cpu_s(measured) / ended if ended else None


def driver_warnings(measured: Measurement) -> tuple[str, ...]:
    """Return why the driver may have been the bottleneck of a trial, or late: a clause each, with the remedy.

    Of several generators it is the worst in each respect: that the others had time to spare proves nothing of it.
    """
    median_us = median_latency_us(measured.latency)
    limit_us = math.inf if median_us is None else LATE_SHARE * median_us
    beside = "" if median_us is None else f" (median latency {_us(median_us)})"
    interval_s = max((one.duration_s for one in measured.samples), default=math.inf)
    busiest = max(_drivers(measured), key=lambda one: one.busiest_share)
    latest = max(_drivers(measured), key=lambda one: one.cost.lateness_us_p99 or 0.0)
    slowest = max(_drivers(measured), key=lambda one: one.cost.send_lag_us_p99 or 0.0)
    stalled = max(_drivers(measured), key=lambda one: one.cost.stall_us_max or 0.0)
    busiest_share, cost = busiest.busiest_share, busiest.cost
    late_us = latest.cost.lateness_us_p99 or 0.0
    lag_us, stall_us = slowest.cost.send_lag_us_p99 or 0.0, stalled.cost.stall_us_max or 0.0
    found = []
    if busiest_share > BUSY:
        found.append(
            f"{busiest.name} may be the bottleneck: its busiest thread used {percent_words(busiest_share)} of a "
            f"processor, so the server is at least this fast; give it more than {counted(cost.threads, 'thread')}, "
            "or a machine of its own"
        )
    if late_us > min(LATE_US, limit_us):
        found.append(
            f"{latest.name} was late: 1 % of arrivals began {_us(late_us)} or more behind schedule although a "
            f"client was free{beside}; offer less, or give the driver more threads or a machine of its own"
        )
    if lag_us > limit_us:
        found.append(
            f"the latency includes waits of {slowest.name}: 1 % of answers waited {_us(lag_us)} or more for its "
            f"processor{beside}; use fewer connections per thread, or a machine of its own"
        )
    cost, share = measured.driver, round_trip_share(measured)
    if share is not None and share > FAR_SHARE and (cost.round_trip_us or 0.0) >= FAR_US:
        committed_per_s = measured.total.committed / measured.elapsed_s
        found.append(
            f"the network may be the bottleneck: transactions spent {percent_words(share)} of their time in "
            f"{_round_trip_words(measured)}, so that these clients could commit at most "
            f"{format_rate(committed_per_s / share)} on a server that takes no time; run pgdrag nearer to the server, "
            "use more clients, or send statements together (\\startpipeline)"
        )
    if stall_us / 1e6 > interval_s:
        found.append(
            f"{stalled.name} stalled for {_us(stall_us)}, longer than an interval: something else used its "
            "processor; run on a quiet machine"
        )
    return tuple(found)


def clock_warnings(measured: Measurement) -> tuple[str, ...]:
    """Return a clause on generators whose clocks are not known well enough, with what to do about it."""
    interval_s = max((one.duration_s for one in measured.samples), default=math.inf)
    worst = max(measured.generators, key=lambda one: one.clock_uncertainty_s, default=None)
    if worst is None or worst.clock_uncertainty_s <= CLOCK_SHARE * interval_s:
        return ()
    return (
        f"windows of load generators may have begun up to {format_duration(worst.clock_uncertainty_s)} apart "
        f"({worst.name}), as questions for its time took that long, so that samples of one interval are not quite of "
        "the same moments; use a host with a faster way to it, or one that is less busy",
    )


def round_trip_share(measured: Measurement) -> float | None:
    """Return the share of the latency that round trips take without any work; None where that is unknown."""
    cost = measured.driver
    latency_us = sum(one.count * one.mean_us for one in measured.latency.values())
    if cost.round_trips is None or cost.round_trip_us is None or not latency_us:
        return None
    return min(cost.round_trips * cost.round_trip_us / latency_us, 1.0)


def _round_trip_words(measured: Measurement) -> str:
    """Return `7.1 round trips of 0.5 ms each`."""
    cost, total = measured.driver, measured.total
    ended = total.committed + total.rolled_back + total.failed
    assert cost.round_trips is not None, "see round_trip_share"
    number = format_number(cost.round_trips / max(ended, 1), significant=2)
    noun = "round trip" if number == "1" else "round trips"
    return f"{number} {noun} of {_us(cost.round_trip_us or 0.0)}"


def median_latency_us(latency: Mapping[str, Latency]) -> float | None:
    """Return the median of the types' medians, each as often as it committed; None without any."""
    ranked = sorted((one.p50_us, one.count) for one in latency.values() if one.count)
    middle = sum(count for _, count in ranked) / 2
    for p50_us, count in ranked:
        middle -= count
        if middle <= 0:
            return p50_us
    return None


def driver_words(found: DriverFinding) -> str:
    """Return `12 % of a processor, 190 µs a transaction, send lag p99 40 µs`."""
    parts = [f"{percent_words(found.cpu_share)} of a processor"]
    if found.cpu_us_per_transaction is not None:
        parts.append(f"{_us(found.cpu_us_per_transaction)} a transaction")
    for what, value_us in (
        ("send lag p99", found.cost.send_lag_us_p99),
        ("schedule late by p99", found.cost.lateness_us_p99),
    ):
        if value_us is not None:
            parts.append(f"{what} {_us(value_us)}")
    if found.round_trips is not None:
        parts.append(f"{found.round_trips} a transaction")
    return ", ".join(parts)


@dataclass(frozen=True)
class _Driver:
    name: str
    cost: DriverCost
    busiest_share: float


def _drivers(measured: Measurement) -> list[_Driver]:
    """Return each driver that measured: the one, or those of several generators."""
    if not measured.generators:
        return [_Driver("the load driver", measured.driver, _busiest_share(measured))]
    return [
        _Driver(f"load {one.name}", one.driver, busiest_thread_share(one.driver, one.elapsed_s))
        for one in measured.generators
    ]


def _cpu_s(measured: Measurement) -> float:
    return measured.driver.user_cpu_s + measured.driver.system_cpu_s


def _busiest_share(measured: Measurement) -> float:
    return busiest_thread_share(measured.driver, measured.elapsed_s)


def busiest_thread_share(cost: DriverCost, elapsed_s: float) -> float:
    """Return the share of a processor that the busiest worker thread used; where unknown, their mean."""
    busiest_s = cost.busiest_thread_cpu_s
    if busiest_s is None:
        busiest_s = (cost.user_cpu_s + cost.system_cpu_s) / max(cost.threads, 1)
    return busiest_s / elapsed_s


def _us(value_us: float) -> str:
    return format_duration(value_us / 1e6)


@dataclass(frozen=True)
class DriverThreads:
    """How many worker threads each load driver has, chosen by measurement at the start of the run.

    Attributes:
        by_host: of a fleet; "" is this machine.
    """

    by_host: Mapping[str, ChosenThreads]

    @property
    def words(self) -> str:
        """Return `2 threads, 55 % busy (tried: 1 thread, 93 % busy)`, of each host."""
        return "; ".join(
            f"{host}: {one.words}" if host else one.words for host, one in self.by_host.items()
        )


def _threads(treatments: Treatments) -> DriverThreads | None:
    by_host = {
        result.host: one
        for result in treatments.run.results
        for one in result.recordings.of(ChosenThreads)
    }
    return DriverThreads(by_host) if by_host else None


DRIVER_THREADS = RunAnalysis("driver_threads", DriverThreads, _threads)

DRIVER = TreatmentAnalysis(
    "driver",
    DriverFinding,
    lambda one, _: driver_finding(one.trials.numbered),
    warnings=lambda found: found.warnings,
)
