"""pg_expecto's formulas, as its own SQL functions compute them.

Medians are those of its `cluster_stat_median()`, the same at commit 7947b79 (2026-01-03, the study's) and since; the
weighted correlation, its gates and bands are those of its report on wait types since 7b2c664 (2026-02-19).
tests/golden/expecto holds what the functions themselves found on the same samples.

They are here for comparison only: medians over trailing windows are so autocorrelated that unrelated series
look correlated.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import groupby, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pgdrag.findings.expecto.findings import Band, SmoothedCorrelation
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import CALLS, ROWS, Recordings, Series
from pgdrag.stats.distributions import correlation_p_value

Values = NDArray[np.float64]

# pg_expecto's own names and limits, of weighted correlations rounded to hundredths.
BANDS: tuple[tuple[float, Band], ...] = (
    (-math.inf, "negligible"),
    (0.01, "low"),
    (0.04, "medium"),
    (0.1, "high"),
    (0.2, "critical"),
)
assert all(one[0] < other[0] for one, other in pairwise(BANDS))
# Its rules of thumb: with more than so many values, |r| is significant above so many times 1/√n.
_RULES_OF_THUMB = ((30, 2.0), (100, 1.65), (10, 3.0))
_T_LEAST = 1.645  # and r's t must be above this
# A trial so long is read as published: a value a minute, and medians of a minute and the hour before it.
AS_PUBLISHED_FROM_S = 7200.0
MINUTE_S = 60.0
HOUR_VALUES = 61  # its window includes both ends
WINDOW_SHARE = 1 / 3  # of a shorter trial
_SPEED_INTERVALS_MIN = 3
_ROUNDING = 1e-9  # a smaller relative difference is rounding


@dataclass(frozen=True)
class Counted:
    """What operational speed is made of, a minute, interval by interval; NaN where it is not known.

    Attributes:
        calls, rows: of all statements.
        source: "commits" where statements were not counted over time: then `calls` are committed
            transactions, and `rows` 0.
    """

    calls: Values
    rows: Values
    source: Literal["statements", "commits"]

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether both are, by interval."""
        return ~np.isnan(self.calls + self.rows)

    def speed(self, kept: NDArray[np.bool_], window: int) -> Values:
        """Return the operational speed over these intervals: medians of calls, plus those of rows."""
        return trailing_medians(self.calls[kept], window) + trailing_medians(
            self.rows[kept], window
        )


@dataclass(frozen=True)
class OperationalSpeed:
    """Trailing medians of calls a minute, plus those of rows.

    Attributes:
        times_s: the end of the interval that each trails from.
        interval_s: how long an interval is.
        window_s: over which each median trails.
        source: see `Counted`.
    """

    times_s: tuple[float, ...]
    per_min: tuple[float, ...]
    interval_s: float
    window_s: float
    source: Literal["statements", "commits"] = "commits"

    @property
    def mean_per_min(self) -> float:
        """The trial's operational speed."""
        return statistics.fmean(self.per_min)


def operational_speeds(
    samples: Sequence[Sample], recordings: Recordings
) -> OperationalSpeed | None:
    """Return the speeds of a trial; None with fewer than three whole intervals."""
    whole = whole_intervals(samples)
    counted = counted_over(whole, recordings)
    kept = counted.is_known
    if kept.sum() < _SPEED_INTERVALS_MIN:
        return None
    ends = [one.t_s for one, is_kept in zip(whole, kept, strict=True) if is_kept]
    window = window_of(ends)
    interval_s = statistics.median(one.duration_s for one in whole)
    return OperationalSpeed(
        times_s=tuple(ends[window - 1 :]),
        per_min=tuple(counted.speed(kept, window).tolist()),
        interval_s=interval_s,
        window_s=window * interval_s,
        source=counted.source,
    )


def whole_intervals(samples: Sequence[Sample]) -> list[Sample]:
    """Return the intervals, or minutes of a long trial, without the much shorter ones at the ends.

    The rate of those would be mostly chance.
    """
    if not samples:
        return []
    if samples[-1].t_s >= AS_PUBLISHED_FROM_S:
        samples = _minutes(samples)
    usual_s = statistics.median(one.duration_s for one in samples)
    return [one for one in samples if one.duration_s > usual_s / 2]


def _minutes(samples: Sequence[Sample]) -> list[Sample]:
    found = []
    for minute, group in groupby(samples, lambda x: (x.t_s - x.duration_s / 2) // MINUTE_S):
        of_it = list(group)
        length_s = math.fsum(one.duration_s for one in of_it)
        committed = sum(one.committed for one in of_it)
        found.append(Sample((minute + 1) * MINUTE_S, length_s, committed))
    return found


def per_min(samples: Sequence[Sample]) -> Values:
    """Return committed transactions a minute, interval by interval."""
    return np.array([60 * one.committed / one.duration_s for one in samples])


def counted_over(whole: Sequence[Sample], recordings: Recordings) -> Counted:
    """Return calls and rows of the intervals, or commits where most of them are not known."""
    series = {one.name: one for one in recordings.series if len(one.times_s) > 1}
    if CALLS in series and ROWS in series:
        calls, rows = (60 * _rates(series[name], whole) for name in (CALLS, ROWS))
        found = Counted(calls, rows, "statements")
        if found.is_known.mean() > 0.5:
            return found
    commits = per_min(whole)
    return Counted(commits, np.zeros(len(commits)), "commits")


def _rates(series: Series, whole: Sequence[Sample]) -> Values:
    """Return the mean rate over each interval; NaN where less than half of it was counted."""
    ends = np.array(series.times_s)
    lengths = np.diff(ends, prepend=2 * ends[0] - ends[1])
    moments = np.concatenate(([ends[0] - lengths[0]], ends))
    totals = np.concatenate(([0.0], np.cumsum(lengths * np.array(series.values))))
    until = np.array([one.t_s for one in whole])
    lasted = np.array([one.duration_s for one in whole])
    since, until = (np.clip(at, moments[0], moments[-1]) for at in (until - lasted, until))
    covered = until - since
    moved = np.interp(until, moments, totals) - np.interp(since, moments, totals)
    return np.where(covered >= lasted / 2, moved / np.maximum(covered, 1e-9), np.nan)


def window_of(ends_s: Sequence[float]) -> int:
    """Return over how many intervals a trailing median is taken, from the times at which they end."""
    if len(ends_s) > HOUR_VALUES and ends_s[-1] >= AS_PUBLISHED_FROM_S:
        return HOUR_VALUES
    return max(round(WINDOW_SHARE * len(ends_s)), 1)


def trailing_medians(values: Values, window: int) -> Values:
    """Return the median of each value and the ones before it, from the first whole window on.

    NaNs are left out; the median of a window that has nothing else is 0.
    """
    assert 1 <= window <= len(values), f"a window of {window} over {len(values)} values"
    windows = np.lib.stride_tricks.sliding_window_view(values, window)
    is_empty = np.all(np.isnan(windows), axis=1, keepdims=True)
    return np.asarray(np.nanmedian(np.where(is_empty, 0.0, windows), axis=1))


def pearson(one: Values, other: Values) -> float | None:
    """Return Pearson's r; None where a side is constant."""
    if len(one) < 2 or _is_constant(one) or _is_constant(other):
        return None
    return float(np.clip(np.corrcoef(one, other)[0, 1], -1.0, 1.0))


def smoothed_correlation(one: Values, other: Values) -> SmoothedCorrelation | None:
    """Return r of two series of trailing medians, with the p that takes them as independent."""
    r = pearson(one, other)
    if r is None or len(one) < 3:
        return None
    return SmoothedCorrelation(r, correlation_p_value(r, len(one)))


def angle_deg(values: Values) -> float:
    """Return the trend: the angle of the regression line on time where both are z-scores.

    The slope of that line is r, so a series that only rises has 45° at most; a constant one has 0.
    """
    return math.degrees(math.atan(_r_with_time(values)))


def trend_r2(values: Values) -> float:
    """Return which share of the variance that line explains."""
    return _r_with_time(values) ** 2


def _r_with_time(values: Values) -> float:
    return pearson(np.arange(len(values), dtype=float), values) or 0.0


def mid_range(values: Values) -> float:
    """Return the middle between the least and the greatest."""
    return float(values.min() + values.max()) / 2


def rounded(value: float) -> float:
    """Return hundredths as SQL rounds a number: half of one away from 0."""
    # A double precision number has 15 digits as `numeric`.
    return float(Decimal(f"{value:.15g}").quantize(Decimal("0.01"), ROUND_HALF_UP))


def is_significant(r: float, n: int) -> bool:
    """Tell whether r of n values passes both of pg_expecto's tests, and is above 0.

    Both take the values as independent.
    """
    if n < 3 or r <= 0:
        return False
    by_rule = any(n > least and r > times / math.sqrt(n) for least, times in _RULES_OF_THUMB)
    if r >= 1 - 1e-12:
        return by_rule
    return by_rule and r * math.sqrt((n - 2) / (1 - r * r)) > _T_LEAST


def band(weighted: float) -> Band:
    """Return the band of a weighted correlation; of one that is below 0 the lowest."""
    return [name for least, name in BANDS if weighted >= least][-1]


def _is_constant(values: Values) -> bool:
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())
