"""How many times slower is one treatment than another, and which slowdown could these trials detect?

All on logarithms of throughput: the range is five orders of magnitude, and a factor of two up is
as far as a factor of two down. Which of four intervals is used depends on what there is:

| trials | interval | what its confidence covers |
|---|---|---|
| several on both sides, same blocks | t on paired log ratios | further blocks on this machine |
| several on a side, other blocks | Welch's t on logarithms | further trials on this machine |
| one on each side | delta method, noise of repeats added | this pair, or repeats of it |
| under 30 commits on a side | exact, by `counts.count_ratio` | the chance in counting commits |
| one trial, extended up to its 30th commit | the wider of that and the rows above | as there |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgdrag.stats.counts import count_ratio, detectable_ratio, overdispersion, widened
from pgdrag.stats.interval import Comparison, LogEstimate, Verdict, verdict_of
from pgdrag.stats.noise import ONE_TRIAL, Noise
from pgdrag.stats.rates import (
    TrialRate,
    have_few_commits,
    mean_variance,
    pooled,
    repeat_noise,
    within_spread,
)


def slowdown(
    reference: Sequence[TrialRate],
    treatment: Sequence[TrialRate],
    *,
    noise: Noise | None = None,
    confidence: float = 0.95,
) -> Comparison:
    """Estimate how many times slower the treatment is than the reference.

    Args:
        reference: trials of the reference; those with the `block` of a treatment's trial ran
            close to it, and pair with it.
        treatment: trials of the treatment.
        noise: what repeats of one treatment differed by in this run; used where a treatment was
            not repeated itself.
        confidence: coverage of the interval. The verdict *equivalent* rests on two one-sided tests
            at that confidence, which is the interval at `2 * confidence - 1` (0.90 for 0.95).

    Returns:
        *slower* or *faster* where the interval excludes 1; *equivalent* where the 90 % interval
        lies within the margin (never from single trials whose repeats are unknown: they cannot
        show that nothing differs); else *inconclusive*. A treatment that committed nothing has a
        one-sided bound in `low`, and `center` and `high` are infinite; a reference that committed
        nothing has its bound in `high`, and `center` and `low` are 0.

    Source: two one-sided tests, Schuirmann 1987; Welch 1947 with Satterthwaite's degrees of freedom.
    """
    assert reference, "no reference trial"
    assert treatment, "no treatment trial"
    sides = (reference, treatment)
    if any(map(have_few_commits, sides)):
        return _compare_counts(reference, treatment, confidence)
    ratio = _paired(reference, treatment)
    if ratio is None and min(map(len, sides)) > 1:
        ratio = _welch(reference, treatment)
    by_logs = (ratio or _unrepeated(reference, treatment, noise)).comparison(confidence)
    if min(map(len, sides)) > 1 or not any(pooled(side).is_inverse_sampled for side in sides):
        return by_logs
    # The window of an unrepeated trial ended with its last commit: exact bounds, or those from the
    # noise of repeats, whichever knows less.
    by_counts = _compare_counts(reference, treatment, confidence)
    if by_counts.verdict is Verdict.EQUIVALENT:  # which counts alone, without repeats, cannot show
        by_counts = replace(by_counts, verdict=by_logs.verdict)
    return max(by_counts, by_logs, key=_log_width)


def _paired(reference: Sequence[TrialRate], treatment: Sequence[TrialRate]) -> LogEstimate | None:
    """Pair by block, several trials of a block as their mean; None where a block has no partner."""
    before, after = _by_block(reference), _by_block(treatment)
    if before.keys() != after.keys() or len(before) < 2:
        return None
    logs = np.array([_mean_log(before[block]) - _mean_log(after[block]) for block in before])
    within = sum(mean_variance(side[block]) for side in (before, after) for block in side)
    return LogEstimate(
        center=float(logs.mean()),
        se=float(logs.std(ddof=1)) / math.sqrt(len(logs)),
        dof=len(logs) - 1,
        floor_se=math.sqrt(within) / len(logs),
        method=f"t interval on log ratios of {len(logs)} pairs",
        warnings=_few_replicates(len(logs), "pairs"),
    )


def _by_block(trials: Sequence[TrialRate]) -> dict[int, list[TrialRate]]:
    blocks: dict[int, list[TrialRate]] = {}
    for trial in sorted(trials, key=lambda trial: trial.block):
        blocks.setdefault(trial.block, []).append(trial)
    return blocks


def _welch(reference: Sequence[TrialRate], treatment: Sequence[TrialRate]) -> LogEstimate:
    logs = [np.log([trial.per_s for trial in side]) for side in (reference, treatment)]
    variances = [float(side.var(ddof=1)) / len(side) for side in logs]
    dofs = [len(side) - 1 for side in logs]
    within = mean_variance(reference) + mean_variance(treatment)
    return LogEstimate(
        center=float(logs[0].mean() - logs[1].mean()),
        se=math.sqrt(sum(variances)),
        dof=_satterthwaite(variances, dofs),
        floor_se=math.sqrt(within),
        method=f"Welch's t on logarithms, {len(reference)} and {len(treatment)} trials",
        warnings=_few_replicates(min(len(reference), len(treatment)), "trials of a side"),
    )


def _unrepeated(
    reference: Sequence[TrialRate], treatment: Sequence[TrialRate], noise: Noise | None
) -> LogEstimate:
    sides = (reference, treatment)
    center = _mean_log(reference) - _mean_log(treatment)
    within = [(within_spread(trial), len(side)) for side in sides for trial in side]
    variances = [spread.log_se**2 / count**2 for spread, count in within]
    dof = _satterthwaite(variances, [spread.dof for spread, _ in within])
    inside = math.sqrt(sum(variances))
    # A side that was repeated tells the noise of the side that was not.
    noise = noise or repeat_noise([reference]) or repeat_noise([treatment])
    if noise is None:
        method = "delta method within single trials"
        return LogEstimate(center, inside, dof, 0.0, method, (ONE_TRIAL,), has_between=False)
    between = noise.log_sd * math.sqrt(sum(1 / len(side) for side in sides))
    warning = (
        f"one trial: trial-to-trial noise is taken from {noise.dof + 1} repeats of "
        "another treatment; run 3 or more replicates"
    )
    if between <= inside:
        method = "delta method, repeats differ less"
        return LogEstimate(center, inside, dof, 0.0, method, (warning,))
    method = f"t interval with the noise of {noise.dof + 1} repeats"
    return LogEstimate(center, between, noise.dof, inside, method, (warning,))


def _compare_counts(
    reference: Sequence[TrialRate], treatment: Sequence[TrialRate], confidence: float
) -> Comparison:
    """Compare pooled counts by the chance in counting alone."""
    before, after = pooled(reference), pooled(treatment)
    # Each side's overdispersion counts by its part in the variance of the log ratio, 1/commits.
    parts = [
        (overdispersion([x.tally for x in trials]), 1 / tally.committed)
        for trials, tally in ((reference, before), (treatment, after))
        if tally.committed
    ]
    total = sum(variance for _, variance in parts)
    dispersion = sum(x * variance for x, variance in parts) / total if parts else 1.0
    interval, narrow = (
        widened(count_ratio(before, after, level), dispersion)
        for level in (confidence, 2 * confidence - 1)
    )
    if min(len(reference), len(treatment)) == 1:
        interval = replace(interval, warnings=(*interval.warnings, ONE_TRIAL))
    exposure = after.elapsed_s / before.elapsed_s
    detectable = detectable_ratio(before.committed, exposure, confidence)
    return Comparison(verdict_of(interval, narrow), interval, detectable)


def _log_width(comparison: Comparison) -> float:
    found = comparison.slowdown
    # A bound that is too small for a float is as good as none.
    return math.log(found.high) - math.log(found.low) if found.low else math.inf


def _mean_log(trials: Sequence[TrialRate]) -> float:
    return sum(math.log(trial.per_s) for trial in trials) / len(trials)


def _satterthwaite(variances: Sequence[float], dofs: Sequence[float]) -> float:
    """Degrees of freedom of a sum of variances; those of the poorest part where all are zero."""
    total = sum(variances)
    parts = sum(v**2 / dof for v, dof in zip(variances, dofs, strict=True) if math.isfinite(dof))
    if total == 0:
        return min(dofs)
    return math.inf if parts == 0 else total**2 / parts


def _few_replicates(count: int, noun: str) -> tuple[str, ...]:
    if count >= 3:
        return ()
    return (f"{count} {noun} make a wide interval; run 3 or more replicates",)
