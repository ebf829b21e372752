"""What do pairs say of a ratio, when the order within each pair was random?

The two trials of a pair ran next to each other. Where the treatments do not differ, the random order
alone decides the sign of the pair's log ratio, however the machine drifts and however autocorrelated
its trials are: flipping signs at random shows what chance makes of these very numbers, and needs no
other assumption. With few pairs there are too few flips for any significance, and Student's t is used
instead, guarded as `_few_pairs` says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from pgdrag.stats.distributions import (
    POWER,
    noncentral_student_beyond,
    noncentrality,
    t_multiplier,
)
from pgdrag.stats.estimate import LOG_MAX, bounded_exp
from pgdrag.stats.interval import Interval
from pgdrag.stats.pair_logs import (
    ALL_SIGNS,
    ORDER_PAIRS,
    SAMPLED_SIGNS,
    PairedLogs,
    subsets,
    t_p_of,
)

EXACT_PAIRS = 10  # from which on signs are flipped; fewer give too coarse a distribution
# How much larger an effect must be where two intervals have to exclude 0; see simulations/compare.py.
TWO_INTERVALS = 1.05
BOOTSTRAP_PAIRS = 20  # from which on BCa covers what it promises; see simulations/compare.py
_BOOTSTRAPS = 4999


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
        low, high = (
            bounded_exp(log) if math.isfinite(log) else bound
            for log, bound in ((self.low, 0.0), (self.high, math.inf))
        )
        return Interval(low, bounded_exp(self.center), high, self.confidence, self.method)


def interval(pairs: PairedLogs, *, confidence: float, is_guarded: bool = True) -> LogInterval:
    """Estimate the mean log ratio.

    Args:
        pairs: two or more.
        confidence: coverage wanted, in (0, 1).
        is_guarded: with few pairs cover more than the confidence asks for, so that neither a drift
            nor a single disturbed trial becomes an effect: for verdicts, not for the width alone.

    Returns:
        From `EXACT_PAIRS` on the interval of all log ratios that flipping signs does not reject,
        after the order effect was subtracted (by least squares). With fewer pairs t intervals, see
        `_few_pairs`. Never narrower than what is known within the trials.

    Source: randomization tests, Fisher 1935; their intervals, Hartigan 1969 (a bound is a quantile
    of the means of all subsets).
    """
    assert len(pairs) >= 2, f"{len(pairs)} pairs"
    found = (
        _flipped(pairs, confidence)
        if len(pairs) >= EXACT_PAIRS
        else _few_pairs(pairs, confidence, is_guarded=is_guarded)
    )
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
    both = TWO_INTERVALS if len(pairs) < EXACT_PAIRS else 1.0
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
    plain = t_p_of(float(pairs.values.mean()), _mean_se(pairs.values), len(pairs) - 1)
    if len(pairs) < ORDER_PAIRS:
        return plain
    fit = pairs.fit
    if fit is None:
        return 1.0
    adjusted = t_p_of(fit.center, fit.se, len(pairs) - 2)
    return adjusted if len(pairs) >= EXACT_PAIRS else max(plain, adjusted)


def bootstrap(pairs: PairedLogs, *, confidence: float) -> LogInterval | None:
    """Estimate the mean log ratio by the bias-corrected, accelerated bootstrap on pairs.

    None with fewer than `BOOTSTRAP_PAIRS`: its intervals are too narrow then.

    Source: Efron 1987; the seed is fixed, so that the same pairs give the same bounds.
    """
    values = pairs.judged
    if len(values) < BOOTSTRAP_PAIRS or np.ptp(values) == 0:
        return None
    # A resample varies by (n-1)/n less than it should, and its quantiles are a normal's where they
    # should be Student's: the values are spread by both beforehand.
    count = len(values)
    student = t_multiplier(confidence, count - 1) / t_multiplier(confidence, math.inf)
    spread = values.mean() + (values - values.mean()) * student * math.sqrt(count / (count - 1))
    found = scipy.stats.bootstrap(
        (spread,),
        np.mean,
        confidence_level=confidence,
        n_resamples=_BOOTSTRAPS,
        method="BCa",
        random_state=np.random.default_rng(len(values)),
    ).confidence_interval
    method = f"BCa bootstrap on {count} pairs"
    low, high = float(found.low), float(found.high)
    se = _mean_se(values)
    return LogInterval(low, float(values.mean()), high, se, count - 1, confidence, method)


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
    both = TWO_INTERVALS if pairs < EXACT_PAIRS else 1.0
    # The two orders are not equally frequent, which costs what one pair in `pairs` would bring.
    return both * log_sd * math.sqrt((1 + 1 / pairs) / pairs)


def _few_pairs(pairs: PairedLogs, confidence: float, *, is_guarded: bool) -> LogInterval:
    """Return a t interval on the pairs, or with their order effect subtracted; guarded: both together.

    With a steady drift and little noise, pairs differ by nothing but who ran first: if the first four
    orders are the same (one time in eight), t on the pairs finds a significant effect that is none. A
    single disturbed trial does the same where the order effect is subtracted. Each interval is safe where
    the other is not, so guarded both must exclude what is excluded.
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
    if not is_guarded:
        return adjusted if pairs.is_order_subtracted else plain
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
    how = "all" if count <= ALL_SIGNS else f"{SAMPLED_SIGNS:,} random"
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
    chosen = subsets(len(pairs)) @ centred
    below, above = int((chosen <= 0).sum()), int((chosen >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (len(chosen) + 1))


def _t_interval(
    center: float, se: float, dof: float, confidence: float, method: str
) -> LogInterval:
    half = t_multiplier(confidence, dof) * se
    return LogInterval(center - half, center, center + half, se, dof, confidence, method)


def _mean_se(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))
