"""What do pairs say of a ratio, when the order within each pair was drawn by lot?

The two trials of a pair ran next to each other. Where the treatments do not differ, lots alone
decide the sign of the pair's log ratio, however the machine drifted and however much neighbouring
trials resemble each other: flipping signs at random shows what chance makes of these very numbers,
and needs no other assumption. With few pairs that has too few outcomes to tell anything, and
Student's t stands in, guarded as `_few_pairs` says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from pgdrag.stats.distributions import (
    POWER,
    noncentral_student_beyond,
    noncentrality,
    t_multiplier,
)
from pgdrag.stats.pair_logs import (
    ALL_SIGNS,
    ORDER_PAIRS,
    SAMPLED_SIGNS,
    PairedLogs,
    subsets,
    t_p_of,
)

EXACT_PAIRS = 10  # from which on signs are flipped; fewer have too coarse a distribution
# What an effect must be larger by where two intervals have to exclude none; see simulations/compare.py.
TWO_INTERVALS = 1.05
BOOTSTRAP_PAIRS = 20  # from which on BCa covers what it says; see simulations/compare.py
_BOOTSTRAPS = 4999


@dataclass(frozen=True)
class LogInterval:
    """An estimate of the mean log ratio with its bounds, all logarithms.

    Attributes:
        se, dof: that an effect of a given size is to be held against, for `smallest_effect`.
        method: in a few words.
    """

    low: float
    center: float
    high: float
    se: float
    dof: float
    method: str


def interval(pairs: PairedLogs, *, confidence: float, is_guarded: bool = True) -> LogInterval:
    """Estimate the mean log ratio.

    Args:
        pairs: two or more.
        confidence: coverage wanted, in (0, 1).
        is_guarded: with few pairs hold more than the confidence asks for, so that neither a drift
            nor a single disturbed trial becomes an effect: for verdicts, not for the width alone.

    Returns:
        From `EXACT_PAIRS` on the interval of all log ratios that flipping signs does not refuse,
        after the effect of the order was taken out (by least squares). With fewer pairs t
        intervals, see `_few_pairs`. Never narrower than what is known within the trials.

    Source: randomization tests, Fisher 1935; their intervals, Hartigan 1969 (a bound is a quantile
    of the means of all subsets).
    """
    assert len(pairs) >= 2, f"{len(pairs)} pairs"
    found = (
        _flipped(pairs, confidence)
        if len(pairs) >= EXACT_PAIRS
        else _few_pairs(pairs, confidence, is_guarded=is_guarded)
    )
    return _floored(found, pairs.floor_se, confidence)


def p_value(pairs: PairedLogs) -> float:
    """Return the two-sided p-value of "no difference", by the test that `interval` rests on."""
    return _flip_p(pairs) if len(pairs) >= EXACT_PAIRS else t_p_value(pairs)


def t_p_value(pairs: PairedLogs) -> float:
    """Return the p-value of a t test that there is no difference, with the order taken out.

    Unlike flipped signs it can be as small as it takes where many quantities are compared at once.
    With few pairs the larger of two: with the order taken out, and without (see `_few_pairs`).
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

    None with fewer than `BOOTSTRAP_PAIRS`: the bootstrap does not know how little it knows.

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
    method = f"BCa bootstrap on {len(values)} pairs"
    center = float(values.mean())
    return LogInterval(
        float(found.low), center, float(found.high), _mean_se(values), len(values) - 1, method
    )


def smallest_effect(log_sd: float, pairs: int, *, confidence: float) -> float:
    """Return the log ratio that so many pairs tell from none `POWER` of the time.

    Args:
        log_sd: standard deviation of the log ratio from pair to pair.
        confidence: of the interval that has to exclude none.
    """
    if pairs < ORDER_PAIRS:
        return math.inf
    wanted = POWER / _orders_unlike(pairs)
    return noncentrality(pairs - 2, confidence, wanted) * _effective_se(log_sd, pairs)


def power(effect: float, log_sd: float, pairs: int, *, confidence: float) -> float:
    """Return how often so many pairs tell a log ratio from none: `smallest_effect` turned round."""
    if pairs < ORDER_PAIRS or effect <= 0:
        return 0.0
    quantile, se = t_multiplier(confidence, pairs - 2), _effective_se(log_sd, pairs)
    # Far beyond the quantile the noncentral t distribution is certain, and its sum does not converge.
    is_certain = effect >= (3 * quantile + 10) * se
    told = 1.0 if is_certain else noncentral_student_beyond(quantile, pairs - 2, effect / se)
    return told * _orders_unlike(pairs)


def _orders_unlike(pairs: int) -> float:
    """Return the probability that lots do not fall all alike: where they do, nothing is told."""
    return 1 - 2.0 ** (1 - pairs)


def _effective_se(log_sd: float, pairs: int) -> float:
    """Return the standard error that an effect is held against, before the pairs are run."""
    both = TWO_INTERVALS if pairs < EXACT_PAIRS else 1.0
    # Lots leave the orders a little unlike, which costs what one pair in `pairs` would bring.
    return both * log_sd * math.sqrt((1 + 1 / pairs) / pairs)


def _few_pairs(pairs: PairedLogs, confidence: float, *, is_guarded: bool) -> LogInterval:
    """Return a t interval on the pairs, or with their order taken out; guarded: all that lies in either.

    One steady drift and little noise, and the pairs differ by nothing but who ran first: if the
    lots fall alike four times (one in eight), t on the pairs is sure of an effect that is none. One
    trial that was disturbed, and taking out the order does the same. Each is on its guard where the
    other is not, so that guarded both must exclude what is excluded.
    """
    count = len(pairs)
    values = pairs.values
    fit = pairs.fit
    if fit is None and count >= ORDER_PAIRS:
        center = float(values.mean())
        return LogInterval(-math.inf, center, math.inf, math.inf, 1, "pairs of one order only")
    plain = _t_interval(
        float(values.mean()),
        _mean_se(values),
        count - 1,
        confidence,
        f"t interval on log ratios of {count} pairs",
    )
    if fit is None:
        return plain
    method = f"t interval on log ratios of {count} pairs, their order taken out"
    adjusted = _t_interval(fit.center, fit.se, count - 2, confidence, method)
    if not is_guarded:
        return adjusted if pairs.is_order_taken_out else plain
    method = f"t intervals on log ratios of {count} pairs, with their order and without"
    low, high = min(plain.low, adjusted.low), max(plain.high, adjusted.high)
    return LogInterval(low, fit.center, high, max(fit.se, plain.se), count - 2, method)


def _flipped(pairs: PairedLogs, confidence: float) -> LogInterval:
    count, means = len(pairs), pairs.typical_values
    # As a test: a value is refused where at most this share of the flips lies as far out.
    skipped = math.floor((1 - confidence) / 2 * (len(means) + 1) + 1e-9) - 1
    low, high = (
        (float(means[skipped]), float(means[-1 - skipped]))
        if skipped >= 0
        else (-math.inf, math.inf)
    )
    how = "all" if count <= ALL_SIGNS else f"{SAMPLED_SIGNS:,} random"
    order = ", their order taken out" if pairs.is_order_taken_out else ""
    method = f"{how} sign flips of {count} pairs{order}"
    values = pairs.judged
    return LogInterval(low, float(values.mean()), high, _mean_se(values), count - 1, method)


def _flip_p(pairs: PairedLogs) -> float:
    """Return the p-value of a randomization test, which is exact whatever the noise is like.

    Without a difference the lots decide nothing of first minus second, nor of its mean: flipped
    around that mean, the sums show what the lots alone would have made of it.
    """
    signs = np.array(pairs.signs)
    first_less_second = pairs.values * signs
    centred = (first_less_second - first_less_second.mean()) * signs
    # The sum of a subset against half of the whole: flipping it takes the sum as far, or further.
    chosen = subsets(len(pairs)) @ centred
    below, above = int((chosen <= 0).sum()), int((chosen >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (len(chosen) + 1))


def _floored(found: LogInterval, floor_se: float, confidence: float) -> LogInterval:
    half = t_multiplier(confidence, math.inf) * floor_se
    return LogInterval(
        min(found.low, found.center - half),
        found.center,
        max(found.high, found.center + half),
        max(found.se, floor_se),
        found.dof,
        found.method,
    )


def _t_interval(
    center: float, se: float, dof: float, confidence: float, method: str
) -> LogInterval:
    half = t_multiplier(confidence, dof) * se
    return LogInterval(center - half, center, center + half, se, dof, method)


def _mean_se(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))
