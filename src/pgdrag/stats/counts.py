"""How do two rates compare when one of them is only a handful of commits? Exactly, by their counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from pgdrag.english import counted
from pgdrag.stats.distributions import POWER, f_quantile, normal_quantile
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

    In a fixed time the interval and the one-sided bound each cover what they promise. Because the count
    itself decides between them, the two taken together can fall to 92.5 % where about 3 commits are to be
    expected, and nowhere else. Under the driver's own rule (a fixed time; with fewer commits than wanted on
    until they are there, or until the budget is used up) the two kinds of tally together have the exact
    interval of that rule: each bound is the rate at which an outcome as far out, or further, is as likely
    as the tail allows, where the outcomes are ordered by how fast they look.

    Source: Garwood 1936; on deciding by the count, Feldman and Cousins 1998.
    """
    committed = tally.committed
    if committed == 0:
        # All of alpha stands on one side: P(no commit | rate = high) = 1 - confidence.
        high = -math.log(1 - confidence) / tally.elapsed_s
        warning = "nothing committed: the rate is known only to lie below the bound"
        return Interval(0.0, 0.0, high, confidence, "exact Poisson, one-sided bound", (warning,))
    low, high = _rate_bounds(tally, (1 - confidence) / 2)
    warning = f"only {counted(committed, 'commit')}; a longer budget would narrow the interval"
    return Interval(
        low,
        tally.per_s,
        high,
        confidence,
        "exact gamma, window ended by its last commit"
        if tally.is_inverse_sampled
        else "exact Poisson",
        (warning,) if committed < FEW_COMMITS else (),
    )


def _rate_bounds(tally: Tally, tail: float) -> tuple[float, float]:
    """Return the bounds of a rate, each exceeded with a probability of `tail` at most.

    Source: for the time of the n-th event, rate * time has a gamma distribution of shape n.
    """
    low = float(scipy.special.gammaincinv(tally.committed, tail)) if tally.committed else 0.0
    # In a fixed time one more commit might have been about to come; not where the last one ended it.
    shape = tally.committed + (not tally.is_inverse_sampled)
    high = float(scipy.special.gammaincinv(shape, 1 - tail))
    return low / tally.elapsed_s, high / tally.elapsed_s


def overdispersion(trials: Sequence[Tally]) -> float:
    """Return how many times more the counts of repeated trials vary than Poisson counts would.

    1 where chance explains it (tested at 1 %), or where nothing was repeated or committed.

    Source: Pearson's chi-squared over its degrees of freedom, as in quasi-Poisson regression.
    """
    rate = sum(x.committed for x in trials) / sum(x.elapsed_s for x in trials)
    dof = len(trials) - 1
    if rate == 0 or dof == 0:
        return 1.0
    expected = [(x.committed, rate * x.elapsed_s) for x in trials]
    chi_squared = sum((count - mean) ** 2 / mean for count, mean in expected)
    is_chance = scipy.special.chdtrc(dof, chi_squared) > 0.01
    return 1.0 if is_chance else max(chi_squared / dof, 1.0)


def widened(interval: Interval, dispersion: float) -> Interval:
    """Return an interval of counts widened, on its logarithm, for overdispersed trials."""
    if dispersion <= 1 or not 0 < interval.center < math.inf:
        return interval
    power = math.sqrt(dispersion)
    try:
        high = interval.center * (interval.high / interval.center) ** power
    except OverflowError:  # a bound too far away for a float is as good as none
        high = math.inf
    low = interval.center * (interval.low / interval.center) ** power
    warning = (
        f"trials of the same treatment differ {power:.1f} times more than chance in counting "
        "explains; the interval is widened by that, roughly; find what differs between them"
    )
    warnings = (*interval.warnings, warning) if power >= 1.1 else interval.warnings
    return replace(interval, low=low, high=high, warnings=warnings)


def count_ratio(before: Tally, after: Tally, confidence: float) -> Interval:
    """Estimate rate(before) / rate(after) from two tallies, each of its own kind.

    The confidence covers the chance in counting, and is never below the one asked for.

    Two of a fixed time: given their sum, the share of `before` is binomial with a probability that depends
    on the ratio of the rates alone, so its exact bounds are exact bounds for the ratio. Two that ended with
    their last commit: exact, as the ratio of two gamma variables is an F variable. One of each: no exact
    interval is known; the bounds of the two rates are divided, the error shared out beforehand, one tenth
    to the side of the fixed time (Bonferroni): at least as sure as asked for, and wider than it must be.

    Returns:
        With no commit on one side a one-sided bound at `confidence`; the other end is 0 or infinite.

    Source: Przyborowski and Wilenski 1940; bounds of Clopper and Pearson 1934.
    """
    sides = (before, after)
    few = min(side.committed for side in sides)
    if not any(side.committed for side in sides):
        warning = "nothing committed on either side; a longer budget might tell"
        return Interval(0.0, 1.0, math.inf, confidence, "nothing to compare", (warning,))
    tail = (1 - confidence) / (2 if few else 1)
    exposure = after.elapsed_s / before.elapsed_s
    match sum(side.is_inverse_sampled for side in sides):
        case 0:
            method = "exact conditional"
            low, high = _conditional_bounds(before.committed, after.committed, exposure, tail)
        case 1:
            method = "exact bounds of both rates, divided"
            (slow_before, fast_before), (slow_after, fast_after) = (
                _rate_bounds(
                    side, tail * (1 - _FIXED_PART if side.is_inverse_sampled else _FIXED_PART)
                )
                for side in sides
            )
            low = slow_before / fast_after
            high = fast_before / slow_after if after.committed else math.inf
        case _:
            method = "exact F, both windows ended by their last commit"
            # rate * time / commits is a mean square: that of one side over that of the other is F.
            scale = before.committed * after.elapsed_s / (after.committed * before.elapsed_s)
            low, high = (
                scale * f_quantile(at, 2 * before.committed, 2 * after.committed)
                for at in (tail, 1 - tail)
            )
    center = before.per_s / after.per_s if after.committed else math.inf
    if few:
        warning = (
            f"{counted(few, 'commit')} on one side: the interval covers the chance in counting, "
            "not trial-to-trial noise"
        )
        return Interval(low, center, high, confidence, method, (warning,))
    side = "treatment" if before.committed else "reference"
    warning = f"the {side} committed nothing: the slowdown is only bounded"
    return Interval(low, center, high, confidence, f"{method}, one-sided bound", (warning,))


def _conditional_bounds(
    before: int, after: int, exposure: float, tail: float
) -> tuple[float, float]:
    """Return the bounds of a ratio of two Poisson rates by Clopper and Pearson's for the share of `before`."""
    low = scipy.special.betaincinv(before, after + 1, tail) if before else 0.0
    high = scipy.special.betaincinv(before + 1, after, 1 - tail) if after else 1.0
    # The share is p of the ratio p / (1 - p) * exposure.
    below, above = (math.inf if p >= 1 else float(p / (1 - p)) * exposure for p in (low, high))
    return below, above


def detectable_ratio(before: int, exposure: float, confidence: float) -> float:
    """Estimate the smallest slowdown that a reference with `before` commits could have shown.

    Shown means significant with a probability of `POWER`, by the normal approximation: a slowdown r
    leaves before * exposure / r commits, and must exceed its own error. Infinite where even a treatment without a single commit would not have been significant.
    """
    if before == 0 or _conditional_bounds(before, 0, exposure, 1 - confidence)[0] <= 1:
        return math.inf
    quantiles = normal_quantile((1 + confidence) / 2) + normal_quantile(POWER)

    log_r = np.linspace(1e-6, math.log(before * exposure + 1) + 1, 400)
    after = before * exposure * np.exp(-log_r)
    is_seen = log_r >= quantiles * np.sqrt(1 / before + 1 / after)
    # Where the normal approximation sees nothing, no commit at all would have been significant.
    return math.exp(log_r[is_seen.argmax() if is_seen.any() else -1])


def exact_share(count: int, tries: int, confidence: float = 0.95) -> Interval:
    """Estimate a probability from the number of successes in one or more tries.

    Source: Clopper and Pearson 1934.
    """
    assert 0 <= count <= tries, f"{count} of {tries}"
    tail = (1 - confidence) / 2
    low = float(scipy.special.betaincinv(count, tries - count + 1, tail)) if count else 0.0
    high = 1.0
    if count < tries:
        high = float(scipy.special.betaincinv(count + 1, tries - count, 1 - tail))
    return Interval(low, count / tries, high, confidence, "exact binomial")
