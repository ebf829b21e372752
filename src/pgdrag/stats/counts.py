"""How do two rates compare when one of them is only a handful of commits? Exactly, by their counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgdrag.english import counted
from pgdrag.stats.distributions import (
    POWER,
    beta_quantile,
    chi_squared_beyond,
    chi_squared_quantile,
    f_quantile,
    normal_quantile,
)
from pgdrag.stats.interval import Interval

FEW_COMMITS = 30  # DESIGN, numbers rule 4: below this a rate gets its exact interval

# Of the error that a ratio of two unlike tallies may make, the part given to the one whose time was
# fixed. It has mostly thousands of commits, and an interval that hardly widens by it.
_FIXED_PART = 0.1


@dataclass(frozen=True)
class Tally:
    """Commits and the time that they took.

    Attributes:
        is_inverse_sampled: the commits were fixed beforehand and the time ended with the last of
            them; else the time was fixed, and the commits are what it held.
    """

    committed: int
    elapsed_s: float
    is_inverse_sampled: bool = False

    @property
    def per_s(self) -> float:
        """The unbiased rate: a window that ends with a commit has one that nothing was waited for."""
        return (self.committed - self.is_inverse_sampled) / self.elapsed_s


def exact_rate(tally: Tally, confidence: float) -> Interval:
    """Estimate a rate from a count, exactly; arguments and censoring as `rates.rate_interval`.

    Under the driver's own rule (a fixed time; with fewer commits than wanted on until they are
    there, or until the budget is used up) the two kinds of tally together have the exact interval
    of that rule: each bound is the rate at which an outcome as far out, or further, is as likely as
    the tail allows, where the outcomes are ordered by how fast they look.

    Source: for the time of the n-th event, 2 * rate * time is chi-squared with 2n degrees of freedom.
    """
    if not tally.is_inverse_sampled:
        return poisson_rate(tally.committed, tally.elapsed_s, confidence)
    low, high = _rate_bounds(tally, (1 - confidence) / 2)
    return Interval(
        low,
        tally.per_s,
        high,
        confidence,
        "exact gamma, window ended by its last commit",
        _few_commits(tally.committed),
    )


def poisson_rate(committed: int, elapsed_s: float, confidence: float) -> Interval:
    """Estimate a rate from a count, exactly; arguments and censoring as `rates.rate_interval`.

    The interval and the one-sided bound each cover what they promise. Because the count itself
    decides between them, the two taken together can fall to 92.5 % where about 3 commits are to be
    expected, and nowhere else.

    Source: Garwood 1936; on deciding by the count, Feldman and Cousins 1998.
    """
    if committed == 0:
        # All of alpha stands on one side: P(no commit | rate = high) = 1 - confidence.
        high = -math.log(1 - confidence) / elapsed_s
        return Interval(
            0.0,
            0.0,
            high,
            confidence,
            "exact Poisson, one-sided bound",
            ("nothing committed: the rate is known only to lie below the bound",),
        )
    low, high = _rate_bounds(Tally(committed, elapsed_s), (1 - confidence) / 2)
    return Interval(
        low, committed / elapsed_s, high, confidence, "exact Poisson", _few_commits(committed)
    )


def _rate_bounds(tally: Tally, tail: float) -> tuple[float, float]:
    """Return the bounds of a rate, each exceeded with a probability of `tail` at most."""
    twice = 2 * tally.committed
    low = chi_squared_quantile(tail, twice) if tally.committed else 0.0
    # In a fixed time one more commit might have been about to come; not where the last one ended it.
    high = chi_squared_quantile(1 - tail, twice if tally.is_inverse_sampled else twice + 2)
    return low / 2 / tally.elapsed_s, high / 2 / tally.elapsed_s


def _few_commits(committed: int) -> tuple[str, ...]:
    if committed >= FEW_COMMITS:
        return ()
    return (f"only {counted(committed, 'commit')}; a longer budget would narrow the interval",)


def overdispersion(counts: Sequence[int], times: Sequence[float]) -> float:
    """Return how many times more the counts of repeated trials vary than Poisson counts would.

    1 where chance explains it (tested at 1 %), or where nothing was repeated or committed.

    Source: Pearson's chi-squared over its degrees of freedom, as in quasi-Poisson regression.
    """
    rate = sum(counts) / sum(times)
    dof = len(counts) - 1
    if rate == 0 or dof == 0:
        return 1.0
    expected = [rate * time for time in times]
    chi_squared = sum((n - mean) ** 2 / mean for n, mean in zip(counts, expected, strict=True))
    if chi_squared_beyond(chi_squared, dof) > 0.01:
        return 1.0
    return max(chi_squared / dof, 1.0)


def widened(interval: Interval, dispersion: float) -> Interval:
    """Return an interval of counts widened, on its logarithm, for overdispersed trials."""
    if dispersion <= 1 or not 0 < interval.center < math.inf:
        return interval
    power = math.sqrt(dispersion)
    warning = (
        f"trials of the same treatment differ {power:.1f} times more than chance in counting "
        "explains; the interval is widened by that, roughly; find what differs between them"
    )
    return replace(
        interval,
        low=interval.center * (interval.low / interval.center) ** power,
        high=_power(interval.high / interval.center, power) * interval.center,
        warnings=(*interval.warnings, warning) if power >= 1.1 else interval.warnings,
    )


def _power(base: float, power: float) -> float:
    try:
        return float(base**power)
    except OverflowError:  # a bound too far away for a float is as good as none
        return math.inf


def conditional_ratio(before: int, after: int, exposure: float, confidence: float) -> Interval:
    """Estimate rate(before) / rate(after) from two Poisson counts.

    Given their sum, the share of `before` is binomial with a probability that depends on the ratio
    of the rates alone, so its exact bounds are exact bounds for the ratio. The confidence covers
    the chance in counting, and is never below the one asked for.

    Args:
        before: commits of the reference.
        after: commits of the treatment.
        exposure: time that `after` was counted in, divided by that of `before`.
        confidence: coverage wanted, in (0, 1).

    Returns:
        With no commit on one side a one-sided bound at `confidence`; the other end is 0 or infinite.

    Source: Przyborowski and Wilenski 1940; bounds of Clopper and Pearson 1934.
    """
    if before == 0 and after == 0:
        return Interval(
            0.0,
            1.0,
            math.inf,
            confidence,
            "nothing to compare",
            ("nothing committed on either side; a longer budget might tell",),
        )
    is_censored = before == 0 or after == 0
    tail = 1 - confidence if is_censored else (1 - confidence) / 2
    # Clopper-Pearson for the share p of `before`; the rate ratio is p / (1 - p) * exposure.
    low = beta_quantile(tail, before, after + 1) if before else 0.0
    high = beta_quantile(1 - tail, before + 1, after) if after else 1.0
    center = math.inf if after == 0 else before / after * exposure
    method = "exact conditional" + (", one-sided bound" if is_censored else "")
    warnings = _one_side_empty(before) if is_censored else _counting_only(min(before, after))
    return Interval(
        _odds(low) * exposure, center, _odds(high) * exposure, confidence, method, warnings
    )


def count_ratio(before: Tally, after: Tally, confidence: float) -> Interval:
    """Estimate rate(before) / rate(after) from two tallies, each of its own kind.

    Two of a fixed time: `conditional_ratio`. Two that ended with their last commit: exact, as the
    ratio of two gamma variables is an F variable. One of each: no exact interval is known; the
    bounds of the two rates are divided, the error shared out beforehand, one tenth to the side of
    the fixed time (Bonferroni): at least as sure as asked for, and wider than it must be.
    """
    if before.is_inverse_sampled and after.is_inverse_sampled:
        return _gamma_ratio(before, after, confidence)
    if before.is_inverse_sampled or after.is_inverse_sampled:
        return _unlike_ratio(before, after, confidence)
    exposure = after.elapsed_s / before.elapsed_s
    return conditional_ratio(before.committed, after.committed, exposure, confidence)


def _gamma_ratio(before: Tally, after: Tally, confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    # rate * time / commits is a mean square: that of one side over that of the other is F.
    scale = before.committed * after.elapsed_s / (after.committed * before.elapsed_s)
    low, high = (
        scale * f_quantile(at, 2 * before.committed, 2 * after.committed) for at in (tail, 1 - tail)
    )
    warnings = _counting_only(min(before.committed, after.committed))
    method = "exact F, both windows ended by their last commit"
    return Interval(low, before.per_s / after.per_s, high, confidence, method, warnings)


def _unlike_ratio(before: Tally, after: Tally, confidence: float) -> Interval:
    is_censored = not (before.committed and after.committed)
    tail = (1 - confidence) / (1 if is_censored else 2)
    (slow_before, fast_before), (slow_after, fast_after) = (
        _rate_bounds(side, tail * (1 - _FIXED_PART if side.is_inverse_sampled else _FIXED_PART))
        for side in (before, after)
    )
    method = "exact bounds of both rates, divided"
    warnings = _counting_only(min(before.committed, after.committed))
    if is_censored:
        method += ", one-sided bound"
        warnings = _one_side_empty(before.committed)
    return Interval(
        slow_before / fast_after,
        before.per_s / after.per_s if after.committed else math.inf,
        fast_before / slow_after if after.committed else math.inf,
        confidence,
        method,
        warnings,
    )


def _counting_only(few: int) -> tuple[str, ...]:
    return (
        f"{counted(few, 'commit')} on one side: the interval holds the chance in counting, not "
        "what differs from trial to trial",
    )


def _one_side_empty(before: int) -> tuple[str, ...]:
    side = "reference" if before == 0 else "treatment"
    return (f"the {side} committed nothing: the slowdown is only bounded",)


def detectable_ratio(before: int, exposure: float, confidence: float) -> float:
    """Estimate the smallest slowdown that a reference with `before` commits could have shown.

    Shown means significant with a probability of `POWER`, by the normal approximation: a slowdown r
    leaves before * exposure / r commits, and must exceed its own error. Infinite where even a treatment without a single commit would not have been significant.
    """
    if before == 0 or conditional_ratio(before, 0, exposure, confidence).low <= 1:
        return math.inf
    quantiles = normal_quantile((1 + confidence) / 2) + normal_quantile(POWER)

    def missing(log_r: float) -> float:
        after = before * exposure * math.exp(-log_r)
        return log_r - quantiles * math.sqrt(1 / before + 1 / after)

    grid = np.linspace(1e-6, math.log(before * exposure + 1) + 1, 400)
    for log_r in grid:
        if missing(float(log_r)) >= 0:
            return math.exp(float(log_r))
    # The normal approximation sees nothing; no commit at all would have been significant.
    return math.exp(float(grid[-1]))


def _odds(share: float) -> float:
    return math.inf if share >= 1 else share / (1 - share)
