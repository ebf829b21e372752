"""Which of many p-values are significant together?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import scipy


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for a family-wise error: any of them is wrong as rarely as one alone.

    Source: Holm 1979.
    """
    adjusted, floor = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=lambda at: p_values[at])):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = floor
    return adjusted


def false_discovery_rates(
    p_values: Sequence[float], method: Literal["bh", "by"] = "bh"
) -> list[float]:
    """Return p-values adjusted for the share of false ones among those called significant.

    Args:
        method: "bh" (Benjamini and Hochberg 1995) for tests that are independent or depend on each other
            positively; "by" (Benjamini and Yekutieli 2001) for any dependence.
    """
    if not p_values:
        return []
    return [float(p) for p in scipy.stats.false_discovery_control(p_values, method=method)]
