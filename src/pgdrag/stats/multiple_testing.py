"""Which of many p-values are significant together?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal


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
    # As scipy.stats.false_discovery_control, which takes nearly a second to import.
    count = len(p_values)
    tests = count * (1.0 if method == "bh" else sum(1 / rank for rank in range(1, count + 1)))
    adjusted, ceiling = [0.0] * count, 1.0
    order = sorted(range(count), key=lambda at: p_values[at])
    for rank, at in reversed(list(enumerate(order, start=1))):
        ceiling = min(ceiling, p_values[at] * tests / rank)
        adjusted[at] = ceiling
    return adjusted
