"""pg_expecto's formulas and sound ones applied to a trial: the values handed to the report."""

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
    """The correlation of two series, interval by interval.

    Attributes:
        r: Pearson's coefficient of the intervals as counted.
        low, high: its 95 % interval, by the effective number of intervals.
        p: two-sided, of no correlation.
        effective_n: how many independent intervals carry as much information.
    """

    r: float
    low: float
    high: float
    p: float
    effective_n: float


@dataclass(frozen=True)
class SmoothedCorrelation:
    """The correlation of two series of trailing medians.

    Attributes:
        r: Pearson's coefficient of the medians.
        p: takes the medians as independent, which they are not: too small.
    """

    r: float
    p: float


@dataclass(frozen=True)
class WaitTypeFinding:
    """One wait type: correlated with all waits, as in pg_expecto, and with throughput, by sound statistics.

    Attributes:
        wait_type: as pg_stat_activity has it: "IO".
        sessions: in that wait, on average over the intervals.
        share: of WAITINGS, as published: the middle of the range of its medians by that of all waits.
        published: of its trailing medians and those of all waits; None where one of the two is constant.
        weighted: `published.r` × `share`, rounded to hundredths.
        band: pg_expecto's, of `weighted`; None for what its tests call insignificant, which it gives none.
        sound: with throughput, interval by interval; None where one of the two is constant.
        q: `sound.p` as a false discovery rate over the wait types of this trial.
        r2: `published.r` squared, rounded to hundredths; pg_expecto goes no further below 0.2.
    """

    wait_type: str
    sessions: float
    share: float
    published: SmoothedCorrelation | None
    weighted: float | None
    band: Band | None
    sound: Correlation | None
    q: float | None
    r2: float | None


@dataclass(frozen=True)
class ExpectoFinding:
    """pg_expecto's view of one trial.

    Attributes:
        intervals: of the trial, with speed and waits; minutes in a trial of two hours or more.
        interval_s: how long one is.
        window: number of intervals in a trailing median.
        speed_per_min: operational speed: the mean of the trailing medians of calls a minute, plus those of rows.
        counted: what its calls and rows are: of "statements", or "commits" and no rows where statements were
            not counted over time.
        calls_per_min, rows_per_min: of all statements over the whole window; None where
            pg_stat_statements did not count them.
        waitings: sessions in one of the wait types, the mean of the sums of their trailing medians.
        speed_angle_deg, waitings_angle_deg: slope of the regression line of both on time, all in
            standard deviations, as an angle from -45 to 45.
        speed_r2, waitings_r2: how much of their variance that line explains.
        published: speed against waitings; None where one of the two is constant.
        wait_types: those that were seen, the largest share first.
    """

    intervals: int
    interval_s: float
    window: int
    speed_per_min: float
    counted: Literal["statements", "commits"]
    calls_per_min: float | None
    rows_per_min: float | None
    waitings: float
    speed_angle_deg: float
    waitings_angle_deg: float
    speed_r2: float
    waitings_r2: float
    published: SmoothedCorrelation | None
    wait_types: tuple[WaitTypeFinding, ...]
