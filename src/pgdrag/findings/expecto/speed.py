"""What is a trial's operational speed, as pg_expecto has it?

Published, it is the median of calls a minute over a trailing hour, and the same of rows, added up. Calls and
rows are not counted over time here; committed transactions stand in for calls, and rows are left out. Of a
workload whose every transaction is one call with one row, both are the same multiple of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdrag.findings.expecto.published import trailing_medians
from pgdrag.model.measurement import Sample

WINDOW_SHARE = 1 / 3  # of a trial; published, an hour
LEAST_INTERVALS = 3
_WHOLE = 0.5  # of the usual length: a shorter interval is a rest, and its rate is mostly chance


@dataclass(frozen=True)
class OperationalSpeed:
    """Trailing medians of committed transactions a minute.

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


def operational_speeds(
    samples: Sequence[Sample], *, window_share: float = WINDOW_SHARE
) -> OperationalSpeed | None:
    """Return the speeds of a trial; None with fewer than three whole intervals."""
    whole = whole_intervals(samples)
    if len(whole) < LEAST_INTERVALS:
        return None
    window = max(round(window_share * len(whole)), 1)
    medians = trailing_medians(per_min(whole), window)
    interval_s = statistics.median(one.duration_s for one in whole)
    return OperationalSpeed(
        times_s=tuple(one.t_s for one in whole[window - 1 :]),
        per_min=tuple(float(one) for one in medians),
        interval_s=interval_s,
        window_s=window * interval_s,
    )


def whole_intervals(samples: Sequence[Sample]) -> list[Sample]:
    """Return the intervals but for rests at the ends, whose rate is mostly chance."""
    if not samples:
        return []
    usual_s = statistics.median(one.duration_s for one in samples)
    return [one for one in samples if one.duration_s > _WHOLE * usual_s]


def per_min(samples: Sequence[Sample]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return committed transactions a minute, interval by interval."""
    return np.array([60 * one.committed / one.duration_s for one in samples])
