"""What pg_expecto's formulas and sounder ones find in a trial: the values handed to the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Band = Literal["negligible", "low", "medium", "high", "critical"]

# The wait types that pg_expecto adds up, with the series of sessions that are in them.
WAIT_SERIES: Mapping[str, str] = {
    "BufferPin": "buffer_pin_wait_sessions",
    "Extension": "extension_wait_sessions",
    "IO": "io_wait_sessions",
    "IPC": "ipc_wait_sessions",
    "Lock": "lock_wait_sessions",
    "LWLock": "lwlock_wait_sessions",
    "Timeout": "timeout_wait_sessions",
}


@dataclass(frozen=True)
class Correlation:
    """How two series go together, interval by interval.

    Attributes:
        r: Pearson's coefficient of the intervals as they were counted.
        low, high: its 95 % interval, by the effective number of intervals.
        p: probability of such an r or a larger one, either way, by chance alone.
        effective_n: how many independent intervals would tell as much.
    """

    r: float
    low: float
    high: float
    p: float
    effective_n: float


@dataclass(frozen=True)
class SmoothedCorrelation:
    """How two series of trailing medians go together.

    Attributes:
        r: Pearson's coefficient of the medians.
        p: as if each median were independent of its neighbours, which it is not: too small.
    """

    r: float
    p: float


@dataclass(frozen=True)
class WaitTypeFinding:
    """One wait type against throughput, as published and soundly.

    Attributes:
        wait_type: as pg_stat_activity has it: "IO".
        sessions: that waited so, on average over the intervals.
        share: of WAITINGS, as published.
        published: r of the trailing medians; None where one of the two never changes.
        weighted: `published.r` × `share`.
        band: of the size of `weighted`.
        sound: interval by interval; None where one of the two never changes.
        q: `sound.p` as a rate of false discovery among the wait types of this trial.
    """

    wait_type: str
    sessions: float
    share: float
    published: SmoothedCorrelation | None
    weighted: float | None
    band: Band | None
    sound: Correlation | None
    q: float | None


@dataclass(frozen=True)
class ExpectoFinding:
    """pg_expecto's view of one trial.

    Attributes:
        intervals: of the trial, in which both throughput and waits were seen.
        interval_s: how long one is.
        window: intervals that each trailing median is of.
        speed_per_min: operational speed, the mean of the trailing medians of committed transactions a
            minute, which stand in for calls.
        calls_per_min, rows_per_min: of all statements over the whole window; None where
            pg_stat_statements did not count them.
        waitings: sessions in one of the wait types, the mean of the sums of their trailing medians.
        speed_angle_deg, waitings_angle_deg: slope of the regression line of both on time, all in
            standard deviations, as an angle from -45 to 45.
        published: speed against waitings; None where one of the two never changes.
        wait_types: those that were seen, the largest share first.
    """

    intervals: int
    interval_s: float
    window: int
    speed_per_min: float
    calls_per_min: float | None
    rows_per_min: float | None
    waitings: float
    speed_angle_deg: float
    waitings_angle_deg: float
    published: SmoothedCorrelation | None
    wait_types: tuple[WaitTypeFinding, ...]
