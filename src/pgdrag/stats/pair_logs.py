"""What are pairs, as numbers: a log ratio each, and who ran first?

What the second trial of a pair differs by from the first, whichever treatment it ran, is an order
effect and not one of the treatment. It is estimated by least squares, and subtracted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pgdrag.stats.distributions import student_beyond

ORDER_PAIRS = 4  # from which on the order effect can be separated from the treatment's
ADJUSTED_PAIRS = 6  # from which on it is always subtracted
ORDER_LEVEL = 0.05  # of its significance at which it is subtracted with fewer
ALL_SIGNS = 14  # up to this many pairs every combination of signs is tried, beyond that a sample
SAMPLED_SIGNS = 2**14 - 1


@dataclass(frozen=True)
class OrderEffect:
    """By how much the trial that ran second in a pair differed, whichever treatment it was.

    Attributes:
        log: of the ratio of the second to the first; negative: the second was slower.
        p: of a t test that there is none.
    """

    log: float
    p: float

    @property
    def is_significant(self) -> bool:
        """It is significant at `ORDER_LEVEL`."""
        return self.p < ORDER_LEVEL


@dataclass(frozen=True)
class Fit:
    """log = center + order * sign, by least squares; `se` is that of both."""

    center: float
    order: float
    se: float


@dataclass(frozen=True)
class PairedLogs:
    """Log ratios, one a pair, in the order run.

    Attributes:
        logs: log of the ratio, reference and treatment always the same way round.
        signs: 1 where the reference ran first, else -1.
        floor_se: standard error of their mean from within the trials: no interval is narrower.
    """

    logs: tuple[float, ...]
    signs: tuple[int, ...]
    floor_se: float = 0.0

    def __post_init__(self) -> None:
        assert len(self.logs) == len(self.signs), f"{len(self.logs)} logs, {len(self.signs)} signs"

    def __len__(self) -> int:
        return len(self.logs)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The logs as an array."""
        return np.array(self.logs)

    @cached_property
    def order(self) -> OrderEffect | None:
        """The order effect; None with too few pairs, or with pairs of one order only."""
        fit = self.fit
        if fit is None:
            return None
        return OrderEffect(-fit.order, t_p_of(fit.order, fit.se, len(self) - 2))

    @property
    def is_order_subtracted(self) -> bool:
        """Tell whether the order effect is to be subtracted from an estimate.

        With fewer than `ADJUSTED_PAIRS` only where it is significant: it costs much precision then.
        """
        if self.order is None:
            return False
        return len(self) >= ADJUSTED_PAIRS or self.order.is_significant

    @cached_property
    def judged(self) -> NDArray[np.float64]:
        """The logs, with the order effect subtracted where `is_order_subtracted`."""
        return self._without_order if self.is_order_subtracted else self.values

    @property
    def sd(self) -> float:
        """Their standard deviation, without the order effect."""
        if self.fit is None or not self.is_order_subtracted:
            return float(self.values.std(ddof=1))
        return self.fit.se * math.sqrt(len(self) * (1 - float(np.mean(self.signs)) ** 2))

    @cached_property
    def typical_values(self) -> NDArray[np.float64]:
        """The means of all subsets, sorted (Hartigan's typical values), without the order effect.

        Flipping a subset around a supposed mean takes the sum at least as far out exactly where the
        subset's own mean lies on the other side of it.
        """
        return np.sort(subsets(len(self)) @ self.judged)

    @cached_property
    def fit(self) -> Fit | None:
        """The mean and the order effect by least squares; None where `order` is."""
        if len(self) < ORDER_PAIRS or len(set(self.signs)) < 2:
            return None
        signs = np.array(self.signs, dtype=float)
        design = np.column_stack([np.ones(len(self)), signs])
        (center, order), *_ = np.linalg.lstsq(design, self.values, rcond=None)
        rest = self.values - design @ (center, order)
        variance = float(rest @ rest) / (len(self) - 2)
        se = math.sqrt(variance / (len(self) * (1 - float(signs.mean()) ** 2)))
        return Fit(float(center), float(order), se)

    @cached_property
    def _without_order(self) -> NDArray[np.float64]:
        """The logs with the order effect subtracted, rescaled for the degree of freedom that it took."""
        fit = self.fit
        assert fit is not None, "no order effect"
        signs = np.array(self.signs)
        rest = self.values - fit.order * signs - fit.center
        lost = (len(self) - 1) / (len(self) - 2) / (1 - float(signs.mean()) ** 2)
        return np.asarray(fit.center + rest * math.sqrt(lost))


@lru_cache(maxsize=8)
def subsets(count: int) -> NDArray[np.float64]:
    """Return one row a subset, each element weighing one by their number; the empty one left out."""
    if count <= ALL_SIGNS:
        rows = np.arange(1, 2**count)
        chosen = (rows[:, None] >> np.arange(count)) & 1
    else:
        chosen = np.random.default_rng(count).integers(0, 2, (SAMPLED_SIGNS, count))
        chosen[chosen.sum(axis=1) == 0, 0] = 1
    return np.asarray(chosen / chosen.sum(axis=1, keepdims=True))


def t_p_of(center: float, se: float, dof: float) -> float:
    """Return the two-sided p-value of an estimate, by Student's t."""
    if se == 0:
        return 1.0 if center == 0 else 0.0
    return 2 * student_beyond(abs(center) / se, dof)
