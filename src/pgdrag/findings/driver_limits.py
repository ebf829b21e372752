"""Was the load driver the bottleneck? What it used, how late it was, and the warnings that follow.

The rule: a trial in which the driver may have been the bottleneck keeps its number, as a bound, and
has a warning with the reason. It is not thrown away: the server was at least that fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.english import counted, percent_words
from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Treatments
from pgdrag.model import Result
from pgdrag.model.measurement import DriverCost, Latency, Measurement
from pgdrag.units import format_duration

BUSY = 0.8  # share of a processor from which a worker thread may have been the bottleneck
LATE_US = 1_000.0  # p99 of the schedule's lateness from which arrivals are not on schedule
LATE_SHARE = 0.1  # of the median latency: lateness or send lag that is seen in it


@dataclass(frozen=True)
class DriverFinding:
    """What the load driver used on one rung: whether it was the bottleneck.

    Attributes:
        trial: number of the trial that the values are of: the one in which it was busiest.
        cpu_share: CPU seconds per second of window, over all its threads.
        busiest_share: share of a processor that its busiest worker thread used.
        cpu_us_per_transaction: None where no transaction ended.
        is_suspect: in any trial of the rung.
        warnings: why, each with the remedy still untried.
    """

    trial: int
    cpu_share: float
    busiest_share: float
    cpu_us_per_transaction: float | None
    cost: DriverCost
    is_suspect: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Use:
    """What the driver used in one trial, in the terms that the rule is stated in."""

    result: Result
    measured: Measurement

    @property
    def cpu_share(self) -> float:
        """CPU seconds per second of window, over all threads."""
        return self._cpu_s / self.measured.elapsed_s

    @property
    def busiest_share(self) -> float:
        """Share of a processor that the busiest worker thread used; where unknown, their mean."""
        cost = self.measured.driver
        busiest_s = cost.busiest_thread_cpu_s
        if busiest_s is None:
            busiest_s = self._cpu_s / max(cost.threads, 1)
        return busiest_s / self.measured.elapsed_s

    @property
    def cpu_us_per_transaction(self) -> float | None:
        """CPU time per transaction that a client began and ended; None without any."""
        total = self.measured.total
        ended = total.committed + total.rolled_back + total.failed
        return 1e6 * self._cpu_s / ended if ended else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the driver may have been the bottleneck, or late: a clause each, with the remedy."""
        cost = self.measured.driver
        median_us = median_latency_us(self.measured.latency)
        interval_s = max((one.duration_s for one in self.measured.samples), default=None)
        found = [
            *_busy_warnings(self.busiest_share, cost),
            *_late_warnings(cost.lateness_us_p99, median_us),
            *_lag_warnings(cost.send_lag_us_p99, median_us),
            *_stall_warnings(cost.stall_us_max, interval_s),
        ]
        return tuple(found)

    @property
    def _cpu_s(self) -> float:
        return self.measured.driver.user_cpu_s + self.measured.driver.system_cpu_s


def driver_finding(trials: Sequence[tuple[Result, Measurement]]) -> DriverFinding | None:
    """Return what the driver used on one rung: of the trial in which it was busiest.

    The warnings are those of all trials. None where no trial has a number.
    """
    if not trials:
        return None
    uses = [Use(result, measured) for result, measured in trials]
    most = max(uses, key=lambda use: use.busiest_share)
    cost = most.measured.driver
    return DriverFinding(
        trial=most.result.trial.number,
        cpu_share=most.cpu_share,
        busiest_share=most.busiest_share,
        cpu_us_per_transaction=most.cpu_us_per_transaction,
        cost=cost,
        is_suspect=any(use.warnings for use in uses),
        warnings=tuple(dict.fromkeys(text for use in uses for text in use.warnings)),
    )


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
        parts.append(f"{format_duration(found.cpu_us_per_transaction / 1e6)} a transaction")
    for what, value_us in (
        ("send lag p99", found.cost.send_lag_us_p99),
        ("schedule late by p99", found.cost.lateness_us_p99),
    ):
        if value_us is not None:
            parts.append(f"{what} {format_duration(value_us / 1e6)}")
    return ", ".join(parts)


def _busy_warnings(busiest_share: float, cost: DriverCost) -> list[str]:
    if busiest_share <= BUSY:
        return []
    return [
        f"the load driver may be the bottleneck: its busiest thread used {percent_words(busiest_share)} of a "
        f"processor, so the server is at least this fast; give it more than {counted(cost.threads, 'thread')}, "
        "or a machine of its own"
    ]


def _late_warnings(lateness_us: float | None, median_us: float | None) -> list[str]:
    if lateness_us is None or not _matters(lateness_us, median_us, LATE_US):
        return []
    return [
        f"the load driver was late: 1 % of arrivals began {_us(lateness_us)} or more behind schedule although a "
        f"client was free{_beside(median_us)}; offer less, or give the driver more threads or a machine of its own"
    ]


def _lag_warnings(lag_us: float | None, median_us: float | None) -> list[str]:
    if lag_us is None or not _matters(lag_us, median_us, None):
        return []
    return [
        f"the latency includes waits of the load driver: 1 % of answers waited {_us(lag_us)} or more for its "
        f"processor{_beside(median_us)}; use fewer connections per thread, or a machine of its own"
    ]


def _stall_warnings(stall_us: float | None, interval_s: float | None) -> list[str]:
    if stall_us is None or interval_s is None or stall_us / 1e6 <= interval_s:
        return []
    return [
        f"the load driver stalled for {_us(stall_us)}, longer than an interval: something else used its "
        "processor; run on a quiet machine"
    ]


def _matters(value_us: float, median_us: float | None, always_us: float | None) -> bool:
    is_large = always_us is not None and value_us > always_us
    return is_large or (median_us is not None and value_us > LATE_SHARE * median_us)


def _beside(median_us: float | None) -> str:
    return "" if median_us is None else f" (median latency {_us(median_us)})"


def _us(value_us: float) -> str:
    return format_duration(value_us / 1e6)


class DriverAnalysis(TreatmentAnalysis[DriverFinding]):
    """Whether the load driver was the bottleneck."""

    name: ClassVar[str] = "driver"
    finds: ClassVar[type] = DriverFinding

    def find(self, treatments: Treatments) -> Mapping[str, DriverFinding]:
        """Return what the driver used on each treatment with a number."""
        found = ((one.rung.name, driver_finding(one.numbered)) for one in treatments.trials)
        return {name: one for name, one in found if one is not None}

    def warnings(self, found: DriverFinding) -> tuple[str, ...]:
        """Return why the driver may have been the bottleneck."""
        return found.warnings
