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
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pgdrag.analysis.counts import POWER
from pgdrag.analysis.ratios import noncentrality

EXACT_PAIRS = 10  # from which on signs are flipped; fewer have too coarse a distribution
ORDER_PAIRS = 4  # from which on the order of a pair can be told from the treatment
ADJUSTED_PAIRS = 6  # from which on the effect of the order is always taken out
# What an effect must be larger by where two intervals have to exclude none; see simulations/compare.py.
TWO_INTERVALS = 1.05
BOOTSTRAP_PAIRS = 20  # from which on BCa covers what it says; see simulations/compare.py
GATE_LEVEL = 0.05  # at which an effect of the order is told from noise
_ALL_SIGNS = 14  # up to so many pairs every combination of signs is tried, beyond that a sample
_SAMPLED_SIGNS = 2**14 - 1
_BOOTSTRAPS = 4999


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
    def is_told(self) -> bool:
        """It is told from noise."""
        return self.p < GATE_LEVEL


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

    @property
    def half_width(self) -> float:
        """Half of the distance between the bounds."""
        return (self.high - self.low) / 2


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
        """The effect of the order; None where too few pairs, or pairs of one order, cannot tell."""
        fit = self._fit
        if fit is None:
            return None
        return OrderEffect(-fit.order, _t_p(fit.order, fit.se, len(self) - 2))

    @cached_property
    def typical_values(self) -> NDArray[np.float64]:
        """The means of all subsets, in order (Hartigan's typical values), the order's effect apart.

        Flipping a subset around a supposed mean takes the sum as far as it was, or further, just
        where the subset's own mean lies on the other side of it.
        """
        return np.sort(_subsets(len(self)) @ _judged(self))

    @cached_property
    def _fit(self) -> _Fit | None:
        if len(self) < ORDER_PAIRS or len(set(self.signs)) < 2:
            return None
        signs = np.array(self.signs, dtype=float)
        design = np.column_stack([np.ones(len(self)), signs])
        (center, order), *_ = np.linalg.lstsq(design, self.values, rcond=None)
        rest = self.values - design @ (center, order)
        variance = float(rest @ rest) / (len(self) - 2)
        se = math.sqrt(variance / (len(self) * (1 - float(signs.mean()) ** 2)))
        return _Fit(float(center), float(order), se)

    @cached_property
    def _without_order(self) -> NDArray[np.float64]:
        """The logs with the order's effect taken out, spread again by what that took from them."""
        fit = self._fit
        assert fit is not None, "no effect of the order"
        signs = np.array(self.signs)
        rest = self.values - fit.order * signs - fit.center
        lost = (len(self) - 1) / (len(self) - 2) / (1 - float(signs.mean()) ** 2)
        return np.asarray(fit.center + rest * math.sqrt(lost))


@dataclass(frozen=True)
class _Fit:
    """log = center + order * sign, by least squares; `se` is of both alike."""

    center: float
    order: float
    se: float


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
    plain = _t_p(float(pairs.values.mean()), _mean_se(pairs.values), len(pairs) - 1)
    if len(pairs) < ORDER_PAIRS:
        return plain
    fit = pairs._fit
    if fit is None:
        return 1.0
    adjusted = _t_p(fit.center, fit.se, len(pairs) - 2)
    return adjusted if len(pairs) >= EXACT_PAIRS else max(plain, adjusted)


def bootstrap(pairs: PairedLogs, *, confidence: float) -> LogInterval | None:
    """Estimate the mean log ratio by the bias-corrected, accelerated bootstrap on pairs.

    None with fewer than `BOOTSTRAP_PAIRS`: the bootstrap does not know how little it knows.

    Source: Efron 1987; the seed is fixed, so that the same pairs give the same bounds.
    """
    values = _judged(pairs)
    if len(values) < BOOTSTRAP_PAIRS or np.ptp(values) == 0:
        return None
    # A resample varies by (n-1)/n less than it should: spread the values by that beforehand.
    spread = values.mean() + (values - values.mean()) * math.sqrt(len(values) / (len(values) - 1))
    found = stats.bootstrap(
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
    # Lots fall all alike now and then, and then nothing is told.
    power = POWER / (1 - 2.0 ** (1 - pairs))
    # Else they leave the orders a little unlike, which costs what one pair in `pairs` would bring.
    se = log_sd * math.sqrt((1 + 1 / pairs) / pairs)
    both = TWO_INTERVALS if pairs < EXACT_PAIRS else 1.0
    return both * noncentrality(pairs - 2, confidence, power) * se


def pair_sd(pairs: PairedLogs) -> float:
    """Return the standard deviation of the log ratio from pair to pair, the order's effect apart."""
    fit = pairs._fit
    if fit is None or not is_order_taken_out(pairs):
        return float(pairs.values.std(ddof=1))
    return fit.se * math.sqrt(len(pairs) * (1 - float(np.mean(pairs.signs)) ** 2))


def is_order_taken_out(pairs: PairedLogs) -> bool:
    """Tell whether an unguarded interval has the effect of the order taken out.

    With fewer than `ADJUSTED_PAIRS` only where it is told from noise: taking it out costs much then.
    """
    if pairs.order is None:
        return False
    return len(pairs) >= ADJUSTED_PAIRS or pairs.order.is_told


def _judged(pairs: PairedLogs) -> NDArray[np.float64]:
    return pairs._without_order if is_order_taken_out(pairs) else pairs.values


def _few_pairs(pairs: PairedLogs, confidence: float, *, is_guarded: bool) -> LogInterval:
    """Return a t interval on the pairs, or with their order taken out; guarded: all that lies in either.

    One steady drift and little noise, and the pairs differ by nothing but who ran first: if the
    lots fall alike four times (one in eight), t on the pairs is sure of an effect that is none. One
    trial that was disturbed, and taking out the order does the same. Each is on its guard where the
    other is not, so that guarded both must exclude what is excluded.
    """
    count = len(pairs)
    values = pairs.values
    fit = pairs._fit
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
        return adjusted if is_order_taken_out(pairs) else plain
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
    how = "all" if count <= _ALL_SIGNS else f"{_SAMPLED_SIGNS:,} random"
    order = ", their order taken out" if is_order_taken_out(pairs) else ""
    method = f"{how} sign flips of {count} pairs{order}"
    values = _judged(pairs)
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
    chosen = _subsets(len(pairs)) @ centred
    below, above = int((chosen <= 0).sum()), int((chosen >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (len(chosen) + 1))


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


def _floored(found: LogInterval, floor_se: float, confidence: float) -> LogInterval:
    half = _t_quantile(confidence, math.inf) * floor_se
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
    half = _t_quantile(confidence, dof) * se
    return LogInterval(center - half, center, center + half, se, dof, method)


@lru_cache(maxsize=1024)  # the same few looks come again and again
def _t_quantile(confidence: float, dof: float) -> float:
    return float(stats.t.ppf((1 + confidence) / 2, dof))


def _t_p(center: float, se: float, dof: float) -> float:
    if se == 0:
        return 1.0 if center == 0 else 0.0
    return 2 * float(stats.t.sf(abs(center) / se, dof))


def _mean_se(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))
