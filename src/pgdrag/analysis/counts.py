"""How do two rates compare when one of them is only a handful of commits? Exactly, by their counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from pgdrag.analysis.findings import Interval
from pgdrag.analysis.wording import counted

FEW_COMMITS = 30  # DESIGN, numbers rule 4: below this a rate gets its exact interval
POWER = 0.8  # with which a detectable effect would have been told from noise


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
    tail = (1 - confidence) / 2
    warnings: tuple[str, ...] = ()
    if committed < FEW_COMMITS:
        warnings = (
            f"only {counted(committed, 'commit')}; a longer budget would narrow the interval",
        )
    return Interval(
        float(stats.chi2.ppf(tail, 2 * committed)) / 2 / elapsed_s,
        committed / elapsed_s,
        float(stats.chi2.ppf(1 - tail, 2 * committed + 2)) / 2 / elapsed_s,
        confidence,
        "exact Poisson",
        warnings,
    )


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
    if stats.chi2.sf(chi_squared, dof) > 0.01:
        return 1.0
    return max(chi_squared / dof, 1.0)


def widened(interval: Interval, dispersion: float) -> Interval:
    """Return an interval of counts widened, on its logarithm, for overdispersed trials."""
    if dispersion <= 1 or not 0 < interval.center < math.inf:
        return interval
    power = math.sqrt(dispersion)
    doubt = (
        f"trials of the same treatment differ {power:.1f} times more than chance in counting "
        "explains; the interval is widened by that, roughly; find what differs between them"
    )
    return replace(
        interval,
        low=interval.center * (interval.low / interval.center) ** power,
        high=_power(interval.high / interval.center, power) * interval.center,
        warnings=(*interval.warnings, doubt) if power >= 1.1 else interval.warnings,
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
    low = float(stats.beta.ppf(tail, before, after + 1)) if before else 0.0
    high = float(stats.beta.ppf(1 - tail, before + 1, after)) if after else 1.0
    center = math.inf if after == 0 else before / after * exposure
    method = "exact conditional" + (", one-sided bound" if is_censored else "")
    few = min(before, after)
    warnings: tuple[str, ...] = (
        f"{counted(few, 'commit')} on one side: the interval holds the chance in counting, not "
        "what differs from trial to trial",
    )
    if is_censored:
        side = "reference" if before == 0 else "treatment"
        warnings = (f"the {side} committed nothing: the slowdown is only bounded",)
    return Interval(
        _odds(low) * exposure, center, _odds(high) * exposure, confidence, method, warnings
    )


def detectable_ratio(before: int, exposure: float, confidence: float) -> float:
    """Estimate the smallest slowdown that a reference with `before` commits could have shown.

    Shown means significant with a probability of `POWER`, by the normal approximation: a slowdown r
    leaves before * exposure / r commits, and must exceed its own error. Infinite where even a treatment without a single commit would not have been significant.
    """
    if before == 0 or conditional_ratio(before, 0, exposure, confidence).low <= 1:
        return math.inf
    quantiles = float(stats.norm.ppf((1 + confidence) / 2)) + float(stats.norm.ppf(POWER))

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
