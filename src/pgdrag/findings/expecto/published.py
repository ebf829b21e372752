"""pg_expecto's formulas, as published.

They are here for comparison only: medians over trailing windows are so autocorrelated that unrelated series
look correlated.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from pgdrag.findings.expecto.findings import Band, SmoothedCorrelation
from pgdrag.model.measurement import Sample

Values = NDArray[np.float64]

# The least size of a weighted correlation of each band. That there are bands is published; these limits are
# pgdrag's own, since the source with the published ones was not available.
BANDS: tuple[tuple[float, Band], ...] = (
    (0.0, "negligible"),
    (0.01, "low"),
    (0.04, "medium"),
    (0.1, "high"),
    (0.2, "critical"),
)
assert all(one[0] < other[0] for one, other in pairwise(BANDS))
WINDOW_SHARE = 1 / 3  # of a trial; published, an hour
_SPEED_INTERVALS_MIN = 3
_ROUNDING = 1e-9  # a smaller relative difference is rounding


@dataclass(frozen=True)
class OperationalSpeed:
    """Trailing medians of committed transactions a minute, which stand in for calls.

    Published, operational speed is the median of calls a minute over a trailing hour plus that of rows. Neither
    is counted over time here; for a workload of transactions with one call and one row each, both are
    multiples of commits.

    Attributes:
        times_s: the end of the interval that each trails from.
        interval_s: how long an interval is.
        window_s: over which each median trails.
    """

    times_s: tuple[float, ...]
    per_min: tuple[float, ...]
    interval_s: float
    window_s: float

    @property
    def mean_per_min(self) -> float:
        """The trial's operational speed."""
        return statistics.fmean(self.per_min)


def operational_speeds(samples: Sequence[Sample]) -> OperationalSpeed | None:
    """Return the speeds of a trial; None with fewer than three whole intervals."""
    whole = whole_intervals(samples)
    if len(whole) < _SPEED_INTERVALS_MIN:
        return None
    window = window_of(len(whole))
    interval_s = statistics.median(one.duration_s for one in whole)
    return OperationalSpeed(
        times_s=tuple(one.t_s for one in whole[window - 1 :]),
        per_min=tuple(trailing_medians(per_min(whole), window).tolist()),
        interval_s=interval_s,
        window_s=window * interval_s,
    )


def whole_intervals(samples: Sequence[Sample]) -> list[Sample]:
    """Return the intervals without the much shorter ones at the ends, whose rate is mostly chance."""
    if not samples:
        return []
    usual_s = statistics.median(one.duration_s for one in samples)
    return [one for one in samples if one.duration_s > usual_s / 2]


def per_min(samples: Sequence[Sample]) -> Values:
    """Return committed transactions a minute, interval by interval."""
    return np.array([60 * one.committed / one.duration_s for one in samples])


def window_of(intervals: int) -> int:
    """Return how many intervals a trailing median is of."""
    return max(round(WINDOW_SHARE * intervals), 1)


def trailing_medians(values: Values, window: int) -> Values:
    """Return the median of each value and the ones before it, from the first whole window on."""
    assert 1 <= window <= len(values), f"a window of {window} over {len(values)} values"
    return np.median(np.lib.stride_tricks.sliding_window_view(values, window), axis=1)


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
    return SmoothedCorrelation(r, float(scipy.stats.pearsonr(one, other).pvalue))


def angle_deg(values: Values) -> float:
    """Return the trend: the angle of the regression line on time where both are z-scores.

    The slope of that line is r, so a series that only rises has 45° at most; a constant one has 0.
    """
    r = pearson(np.arange(len(values), dtype=float), values)
    return 0.0 if r is None else math.degrees(math.atan(r))


def band(weighted: float) -> Band:
    """Return the band of a weighted correlation, by its size alone."""
    return [name for least, name in BANDS if abs(weighted) >= least][-1]


def _is_constant(values: Values) -> bool:
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())
