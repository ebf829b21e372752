"""How many values has a column of which ANALYZE says so many?

ANALYZE looks at a sample, and where some values are common and the others rare, its estimate can be a tenth of the truth. A
column is to have so many values that ANALYZE comes to the same estimate again.
"""

from __future__ import annotations

import math

ROWS_PER_TARGET = 300  # that ANALYZE looks at, for each unit of the statistics target
_NEARLY_ALL = 0.98


def distinct_behind(
    estimate: float, *, rows: int, sample: int, common: int, common_share: float
) -> int:
    """Return a number of values that makes ANALYZE estimate this one.

    Args:
        estimate: values, as pg_stats says, as a number and not as a share.
        rows: of the table that have a value.
        sample: how many of them ANALYZE looks at.
        common, common_share: values that are listed, and their share of `rows`.
    """
    others = rows * (1 - common_share)
    if sample >= rows or estimate <= common or estimate >= _NEARLY_ALL * rows or others < 1:
        return round(estimate)
    low, high = 1.0, others
    for _ in range(60):
        middle = math.sqrt(low * high)
        if expected_estimate(middle, rows=rows, sample=sample, common=common, others=others) < estimate:  # fmt: skip
            low = middle
        else:
            high = middle
    return max(round(common + low), common)


def expected_estimate(
    distinct: float, *, rows: int, sample: int, common: int, others: float
) -> float:
    """Return what ANALYZE estimates, on average.

    Args:
        distinct: values that are not listed, which share `others` rows by lot.

    Source: the estimator Duj1 of Haas and Stokes, as in PostgreSQL's analyze.c; numbers of rows of a value by a Poisson
    distribution without 0.
    """
    seen = sample / rows
    rate = _rate(others / distinct)
    some = -math.expm1(-rate)
    unseen = (math.exp(-rate * seen) - math.exp(-rate)) / some
    found = common + distinct * (1 - unseen)
    once = distinct * rate * seen * math.exp(-rate * seen) / some
    return sample * found / (sample - once + once * seen)


def _rate(mean: float) -> float:
    """Return the rate of a Poisson distribution that without its 0 has this mean."""
    if mean <= 1.0001:
        return 2 * (max(mean, 1.00005) - 1)
    rate = mean
    for _ in range(200):
        rate = mean * -math.expm1(-rate)
    return rate
