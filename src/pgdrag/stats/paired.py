"""What do pairs say of a ratio, when the order within each pair was random?

The two trials of a pair ran next to each other. Where the treatments do not differ, the random order
alone decides the sign of the pair's log ratio, however the machine drifts and however autocorrelated
its trials are: flipping signs at random shows what chance makes of these very numbers, and needs no
other assumption. With few pairs there are too few flips for any significance, and Student's t is used
instead, guarded as `_few_pairs` says.

What the second trial of a pair differs by from the first, whichever treatment it ran, is an order effect
and not one of the treatment. It is estimated by least squares, and subtracted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pgdrag.stats.distributions import (
    POWER,
    noncentral_student_beyond,
    noncentrality,
    student_beyond,
    t_multiplier,
)
from pgdrag.stats.interval import LOG_MAX, Interval

ORDER_PAIRS = 4  # from which on the order effect can be separated from the treatment's
EXACT_PAIRS = 10  # from which on signs are flipped; fewer give too coarse a distribution
_ADJUSTED_PAIRS = 6  # from which on the order effect is always subtracted
_ORDER_LEVEL = 0.05  # of its significance at which it is subtracted with fewer
_ALL_SIGNS = 14  # up to this many pairs every combination of signs is tried, beyond that a sample
_SAMPLED_SIGNS = 2**14 - 1
_KEPT_PAIRS = (
    30  # those of more take more memory than making them again takes time: 100 MB for 800 pairs
)
# How much larger an effect must be where two intervals have to exclude 0; see simulations/compare.py.
_TWO_INTERVALS = 1.05


@dataclass(frozen=True)
class OrderFit:
    """log = center - order * sign, by least squares.

    Attributes:
        order: log of the ratio of a pair's second trial to its first; negative: the second was slower.
        se: standard error of both.
        p: of a t test that there is no order effect.
    """

    center: float
    order: float
    se: float
    p: float


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
    def fit(self) -> OrderFit | None:
        """The mean and the order effect; None with too few pairs, or with pairs of one order only."""
        if len(self) < ORDER_PAIRS or len(set(self.signs)) < 2:
            return None
        signs = np.array(self.signs, dtype=float)
        design = np.column_stack([np.ones(len(self)), signs])
        (center, slope), *_ = np.linalg.lstsq(design, self.values, rcond=None)
        rest = self.values - design @ (center, slope)
        variance = float(rest @ rest) / (len(self) - 2)
        se = math.sqrt(variance / (len(self) * (1 - float(signs.mean()) ** 2)))
        return OrderFit(float(center), -float(slope), se, _t_p(slope, se, len(self) - 2))

    @property
    def is_order_subtracted(self) -> bool:
        """Tell whether the order effect is to be subtracted from an estimate.

        With few pairs only where it is significant: it costs much precision then.
        """
        is_enough = len(self) >= _ADJUSTED_PAIRS
        return self.fit is not None and (is_enough or self.fit.p < _ORDER_LEVEL)

    @cached_property
    def judged(self) -> NDArray[np.float64]:
        """The logs, with the order effect subtracted where `is_order_subtracted`."""
        fit = self.fit
        if fit is None or not self.is_order_subtracted:
            return self.values
        signs = np.array(self.signs)
        rest = self.values + fit.order * signs - fit.center
        # Rescaled for the degree of freedom that the order effect took.
        lost = (len(self) - 1) / (len(self) - 2) / (1 - float(signs.mean()) ** 2)
        return np.asarray(fit.center + rest * math.sqrt(lost))

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
        return np.sort(_subset_means(self.judged))


@dataclass(frozen=True)
class LogInterval:
    """An estimate of the mean log ratio with its bounds, all logarithms.

    Attributes:
        se, dof: that an effect of a given size is held against, see `detectable`.
        method: in a few words.
    """

    low: float
    center: float
    high: float
    se: float
    dof: float
    confidence: float
    method: str

    @property
    def ratio(self) -> Interval:
        """The same as a ratio; without bounds from 0 to infinity."""
        return Interval.of_logs(self.low, self.center, self.high, self.confidence, self.method)


def interval(pairs: PairedLogs, *, confidence: float) -> LogInterval:
    """Estimate the mean log ratio.

    Args:
        pairs: two or more.
        confidence: coverage wanted, in (0, 1).

    Returns:
        From `EXACT_PAIRS` on the interval of all log ratios that flipping signs does not reject,
        after the order effect was subtracted (by least squares). With fewer pairs t intervals, see
        `_few_pairs`: they cover more than the confidence asks for. Never narrower than what is known within the trials.

    Source: randomization tests, Fisher 1935; their intervals, Hartigan 1969 (a bound is a quantile
    of the means of all subsets).
    """
    assert len(pairs) >= 2, f"{len(pairs)} pairs"
    if len(pairs) >= EXACT_PAIRS:
        found = _flipped(pairs, confidence)
    else:
        found = _few_pairs(pairs, confidence)
    half = t_multiplier(confidence, math.inf) * pairs.floor_se
    return replace(
        found,
        low=min(found.low, found.center - half),
        high=max(found.high, found.center + half),
        se=max(found.se, pairs.floor_se),
    )


def detectable(pairs: PairedLogs, *, confidence: float) -> float:
    """Return the smallest ratio (over 1) that these pairs would have detected with a power of 80 %."""
    found = interval(pairs, confidence=confidence)
    both = _TWO_INTERVALS if len(pairs) < EXACT_PAIRS else 1.0
    log = both * noncentrality(found.dof, confidence) * found.se
    return math.exp(log) if log < LOG_MAX else math.inf


def p_value(pairs: PairedLogs) -> float:
    """Return the two-sided p-value of "no difference", by the test that `interval` rests on."""
    return _flip_p(pairs) if len(pairs) >= EXACT_PAIRS else t_p_value(pairs)


def t_p_value(pairs: PairedLogs) -> float:
    """Return the two-sided p-value of a t test, with the order effect subtracted.

    Unlike that of sign flips it can be small enough where many quantities are compared at once.
    With few pairs the larger of two: with the order effect subtracted, and without (see `_few_pairs`).
    """
    plain = _t_p(float(pairs.values.mean()), _mean_se(pairs.values), len(pairs) - 1)
    if len(pairs) < ORDER_PAIRS:
        return plain
    fit = pairs.fit
    if fit is None:
        return 1.0
    adjusted = _t_p(fit.center, fit.se, len(pairs) - 2)
    return adjusted if len(pairs) >= EXACT_PAIRS else max(plain, adjusted)


def smallest_effect(log_sd: float, pairs: int, *, confidence: float) -> float:
    """Return the log ratio that this many pairs detect with a probability of `POWER`.

    Args:
        log_sd: standard deviation of the log ratio from pair to pair.
        confidence: of the interval that has to exclude 0.
    """
    if pairs < ORDER_PAIRS:
        return math.inf
    wanted = POWER / _chance_of_both_orders(pairs)
    return noncentrality(pairs - 2, confidence, wanted) * _effective_se(log_sd, pairs)


def power(effect: float, log_sd: float, pairs: int, *, confidence: float) -> float:
    """Return how often this many pairs detect a log ratio: the inverse of `smallest_effect`."""
    if pairs < ORDER_PAIRS or effect <= 0:
        return 0.0
    quantile, se = t_multiplier(confidence, pairs - 2), _effective_se(log_sd, pairs)
    # Far beyond the quantile the noncentral t distribution is certain, and its sum does not converge.
    is_certain = effect >= (3 * quantile + 10) * se
    detected = 1.0 if is_certain else noncentral_student_beyond(quantile, pairs - 2, effect / se)
    return detected * _chance_of_both_orders(pairs)


def _chance_of_both_orders(pairs: int) -> float:
    """Return the probability that pairs have both orders: with one alone nothing is significant."""
    return 1 - 2.0 ** (1 - pairs)


def _effective_se(log_sd: float, pairs: int) -> float:
    """Return the standard error that an effect is held against, before the pairs are run."""
    both = _TWO_INTERVALS if pairs < EXACT_PAIRS else 1.0
    # The two orders are not equally frequent, which costs what one pair in `pairs` would bring.
    return both * log_sd * math.sqrt((1 + 1 / pairs) / pairs)


def _few_pairs(pairs: PairedLogs, confidence: float) -> LogInterval:
    """Return the t interval on the pairs and that with their order effect subtracted, both together.

    With a steady drift and little noise, pairs differ by nothing but who ran first: if the first four
    orders are the same (one time in eight), t on the pairs finds a significant effect that is none. A
    single disturbed trial does the same where the order effect is subtracted. Each interval is safe where
    the other is not, so both must exclude what is excluded.
    """
    count, values, fit = len(pairs), pairs.values, pairs.fit
    center = float(values.mean())
    if fit is None and count >= ORDER_PAIRS:
        method = "pairs of one order only"
        return LogInterval(-math.inf, center, math.inf, math.inf, 1, confidence, method)
    method = f"t interval on log ratios of {count} pairs"
    plain = _t_interval(center, _mean_se(values), count - 1, confidence, method)
    if fit is None:
        return plain
    method += ", order effect subtracted"
    adjusted = _t_interval(fit.center, fit.se, count - 2, confidence, method)
    return LogInterval(
        min(plain.low, adjusted.low),
        fit.center,
        max(plain.high, adjusted.high),
        max(fit.se, plain.se),
        count - 2,
        confidence,
        f"t intervals on log ratios of {count} pairs, with and without their order effect",
    )


def _flipped(pairs: PairedLogs, confidence: float) -> LogInterval:
    count, means = len(pairs), pairs.typical_values
    # As a test: a value is rejected where at most this share of the flips lies as far out.
    skipped = math.floor((1 - confidence) / 2 * (len(means) + 1) + 1e-9) - 1
    low, high = (
        (float(means[skipped]), float(means[-1 - skipped]))
        if skipped >= 0
        else (-math.inf, math.inf)
    )
    how = "all" if count <= _ALL_SIGNS else f"{_SAMPLED_SIGNS:,} random"
    order = ", order effect subtracted" if pairs.is_order_subtracted else ""
    method = f"{how} sign flips of {count} pairs{order}"
    values = pairs.judged
    center, se = float(values.mean()), _mean_se(values)
    return LogInterval(low, center, high, se, count - 1, confidence, method)


def _flip_p(pairs: PairedLogs) -> float:
    """Return the p-value of a randomization test, which is exact whatever the noise is like.

    Without a difference the random order does not change first minus second, nor its mean: flipped
    around that mean, the sums show what the order alone would have made of it.
    """
    signs = np.array(pairs.signs)
    first_less_second = pairs.values * signs
    centred = (first_less_second - first_less_second.mean()) * signs
    # The sum of a subset against half of the whole: flipping it takes the sum as far, or further.
    chosen = _subset_means(centred)
    below, above = int((chosen <= 0).sum()), int((chosen >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (len(chosen) + 1))


def _t_interval(
    center: float, se: float, dof: float, confidence: float, method: str
) -> LogInterval:
    half = t_multiplier(confidence, dof) * se
    return LogInterval(center - half, center, center + half, se, dof, confidence, method)


def _mean_se(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _t_p(center: float, se: float, dof: float) -> float:
    """Return the two-sided p-value of an estimate, by Student's t."""
    if se == 0:
        return 1.0 if center == 0 else 0.0
    return 2 * student_beyond(abs(center) / se, dof)


def _subset_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each subset of some values, the empty one left out; of many values, of a sample of subsets."""
    subsets = _subsets if len(values) <= _KEPT_PAIRS else _subsets.__wrapped__
    return np.asarray(subsets(len(values)) @ values)


@lru_cache(maxsize=8)
def _subsets(count: int) -> NDArray[np.float64]:
    """Return one row a subset, each element weighing one by their number; the empty one left out."""
    if count <= _ALL_SIGNS:
        rows = np.arange(1, 2**count)
        chosen = (rows[:, None] >> np.arange(count)) & 1
    else:
        chosen = np.random.default_rng(count).integers(0, 2, (_SAMPLED_SIGNS, count))
        chosen[chosen.sum(axis=1) == 0, 0] = 1
    return np.asarray(chosen / chosen.sum(axis=1, keepdims=True))
