"""pg_expecto's formulas, as they were published.

They are here for comparison, and nothing else in pgdrag rests on them: medians over trailing windows
resemble their neighbours, so that series which have nothing to do with each other look correlated.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pgdrag.findings.expecto.findings import Band, SmoothedCorrelation
from pgdrag.stats.distributions import student_beyond

Values = NDArray[np.float64]

# The least size of a weighted correlation of each band. That there are bands is published; these limits are
# pgdrag's own, since the source that has the published ones was not at hand. They stand here alone.
BANDS: tuple[tuple[float, Band], ...] = (
    (0.0, "negligible"),
    (0.01, "low"),
    (0.04, "medium"),
    (0.1, "high"),
    (0.2, "critical"),
)
assert all(one[0] < other[0] for one, other in pairwise(BANDS))
_ROUNDING = 1e-9  # what differs by less, relative to its size, does not differ


def trailing_medians(values: Values, window: int) -> Values:
    """Return the median of each value and the ones before it, from the first whole window on."""
    assert 1 <= window <= len(values), f"a window of {window} over {len(values)} values"
    return np.median(np.lib.stride_tricks.sliding_window_view(values, window), axis=1)


def is_level(values: Values) -> bool:
    """Tell whether a series never changes, so that nothing can go with it."""
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


def pearson(one: Values, other: Values) -> float | None:
    """Return Pearson's r; None where a side never changes."""
    if len(one) < 2 or is_level(one) or is_level(other):
        return None
    return float(np.clip(np.corrcoef(one, other)[0, 1], -1.0, 1.0))


def smoothed_correlation(one: Values, other: Values) -> SmoothedCorrelation | None:
    """Return r of two series of trailing medians, with the p of those who take them as independent."""
    r = pearson(one, other)
    if r is None or len(one) < 3:
        return None
    dof = len(one) - 2
    t = math.inf if abs(r) == 1 else abs(r) * math.sqrt(dof / (1 - r * r))
    return SmoothedCorrelation(r, 2 * student_beyond(t, dof))


def angle_deg(values: Values) -> float:
    """Return the trend: the angle of the regression line on time where both are z-scores.

    The slope of such a line is r itself, so that a series that only rises has 45 at the most; a level one 0.
    """
    r = pearson(np.arange(len(values), dtype=float), values)
    return 0.0 if r is None else math.degrees(math.atan(r))


def band(weighted: float) -> Band:
    """Return the band of a weighted correlation, by its size alone."""
    return [name for least, name in BANDS if abs(weighted) >= least][-1]
