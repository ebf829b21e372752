"""How fast was one trial, and how sure is that?

There are two sources of error: the chance in *counting* commits (exact Poisson, all that there
is when commits are few) and the unsteadiness of the *server* within the window (batch means, which
stay right when neighbouring seconds resemble each other). The wider of the two is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pgdrag.english import counted
from pgdrag.model.measurement import Sample
from pgdrag.stats.batches import Spread, batch_means, long_memory, spread_of_mean
from pgdrag.stats.counts import FEW_COMMITS, Tally, exact_rate, overdispersion, widened
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.interval import Interval, LogEstimate, bounded_exp
from pgdrag.stats.noise import Noise, pooled_noise
from pgdrag.units import format_duration

DRIFT_MATTERS = 0.05  # change of the rate over the window below which a trend is not worth a word

_SAMPLES_GOOD = 20
_STEP_SAMPLES_GOOD = 10
LONG_MEMORY = "throughput is autocorrelated"


@dataclass(frozen=True)
class Trend:
    """How throughput changed within a window.

    Attributes:
        slope_per_s_relative: change per second as a share of the mean rate; -0.01 is 1 % a second.
        change: over the whole window, as a share of the mean rate: -0.2 is a fall by 20 %.
        is_significant: the slope's interval excludes zero.
    """

    slope_per_s_relative: float
    change: float
    is_significant: bool

    @property
    def matters(self) -> bool:
        """The trend is significant, and large enough to spoil a mean."""
        return self.is_significant and abs(self.change) >= DRIFT_MATTERS


@dataclass(frozen=True)
class TrialRate:
    """The throughput of one trial.

    Attributes:
        block: which trials ran close together.
        is_inverse_sampled: the window went on until its last commit; see `counts.Tally`.
        changes_s: seconds of the window at which its load changed, or a hold of the horizon began or
            ended, ascending. What the parts between them differ by is design, and no error of the mean
            over all of them.
        has_trend: a fit over the window has one: neighbouring seconds resemble each other for that alone,
            and a longer window would not help.
    """

    block: int
    committed: int
    elapsed_s: float
    samples: tuple[Sample, ...] = ()
    is_inverse_sampled: bool = False
    changes_s: tuple[float, ...] = ()
    has_trend: bool = False

    @property
    def tally(self) -> Tally:
        """Its commits and its time."""
        return Tally(self.committed, self.elapsed_s, self.is_inverse_sampled)

    @property
    def per_s(self) -> float:
        """Committed transactions per second, without bias."""
        return self.tally.per_s

    @property
    def has_few_commits(self) -> bool:
        """So few commits that the chance in counting them is the whole error."""
        return self.committed < FEW_COMMITS + self.is_inverse_sampled


def rate_interval(trial: TrialRate, *, confidence: float = 0.95) -> Interval:
    """Estimate commits per second of one window.

    The confidence covers this one window on this one server: not what a second trial would give
    (see `combined_rate` for that).

    Args:
        trial: the window; its samples are used from 30 commits on.
        confidence: coverage wanted, in (0, 1).

    Returns:
        Under 30 commits, and where the window was extended up to its 30th, the exact interval, which
        covers at least what it promises. Else the interval of batch means, never narrower than the
        exact one; where the load changed, of batches within its steps. Nothing committed: a censored rate, `center` 0 and the exact one-sided bound in
        `high`. It does not include a trend within the window: see `trend`.

    Source: Garwood 1936 (exact Poisson); the method of batch means (Schmeiser 1982); the mean of a
    stratified sample (Cochran 1977, chapter 5).
    """
    assert trial.committed >= 0, f"{trial.committed} commits"
    assert trial.elapsed_s > 0, f"a window of {trial.elapsed_s} s"
    exact = exact_rate(trial.tally, confidence)
    if trial.has_few_commits:
        return exact
    spread = spread_of_mean(trial.samples, trial.changes_s)
    warnings = _sample_warnings(trial, is_seen=spread is not None)
    if spread is None:
        return replace(exact, warnings=warnings)
    center = exact.center
    half = t_multiplier(confidence, spread.dof) * spread.log_se
    return Interval(
        # The chance in counting is a floor: a lucky run of even batches does not mean more precision.
        low=min(exact.low, center * math.exp(-half)),
        center=center,
        high=max(exact.high, center * bounded_exp(half)),
        confidence=confidence,
        method=f"batch means, {spread.source}",
        warnings=warnings,
    )


def combined_rate(trials: Sequence[TrialRate], *, confidence: float = 0.95) -> Interval:
    """Estimate commits per second of a treatment from all its trials.

    One trial: its own `rate_interval`. Several: the geometric mean with a t interval on the
    logarithms, which covers what further trials in further blocks would average to. Under 30
    commits in all, or with an empty trial among them: the exact interval of the pooled counts.
    """
    assert trials, "no trial"
    if len(trials) == 1:
        return rate_interval(trials[0], confidence=confidence)
    if have_few_commits(trials):
        tally = pooled(trials)
        together = exact_rate(tally, confidence)
        if not tally.committed:
            return together
        kind = "gamma" if tally.is_inverse_sampled else "Poisson"
        together = replace(together, method=f"exact {kind}, {len(trials)} trials pooled")
        return widened(together, overdispersion([trial.tally for trial in trials]))
    own = repeat_noise([trials])
    assert own is not None
    method = f"t interval on logarithms, {len(trials)} trials"
    return mean_rate(trials, own, method).interval(confidence)


def have_few_commits(trials: Sequence[TrialRate]) -> bool:
    """Tell whether commits are so few, together or in one trial, that the chance in counting them is what matters."""
    return sum(x.committed for x in trials) < FEW_COMMITS or not all(x.committed for x in trials)


def mean_rate(trials: Sequence[TrialRate], noise: Noise, method: str) -> LogEstimate:
    """Estimate the mean log throughput of trials that all committed something."""
    count = len(trials)
    return LogEstimate(
        center=sum(math.log(trial.per_s) for trial in trials) / count,
        se=noise.log_sd / math.sqrt(count),
        dof=noise.dof,
        floor_se=math.sqrt(mean_variance(trials)),
        method=method,
    )


def mean_variance(trials: Sequence[TrialRate]) -> float:
    """Return the variance of the mean log throughput that comes from within the trials."""
    return sum(within_spread(trial).log_se ** 2 for trial in trials) / len(trials) ** 2


def pooled(trials: Sequence[TrialRate]) -> Tally:
    """Return the commits and times of trials of one treatment together.

    Where only some of the windows ended with their last commit, all count as of a fixed time: that
    bounds the rate from above a little more loosely than it must be, and from below alike.
    """
    return Tally(
        sum(trial.committed for trial in trials),
        sum(trial.elapsed_s for trial in trials),
        all(trial.is_inverse_sampled for trial in trials),
    )


def within_spread(trial: TrialRate) -> Spread:
    """Standard error of log throughput from within one trial that committed something.

    Source: the delta method: the relative error of a rate is the error of its logarithm.
    """
    assert trial.committed > 0, "the logarithm of a rate of zero"
    counting = 1 / math.sqrt(trial.committed)
    spread = None if trial.has_few_commits else spread_of_mean(trial.samples, trial.changes_s)
    if spread is None or spread.log_se <= counting:
        return Spread(counting, math.inf, "Poisson")
    return spread


def repeat_noise(treatments: Iterable[Sequence[TrialRate]]) -> Noise | None:
    """Estimate the noise between trials of one treatment, pooled over treatments; None where none was repeated.

    Trials that committed nothing are left out.
    """
    return pooled_noise(
        [[math.log(trial.per_s) for trial in trials if trial.per_s > 0] for trials in treatments]
    )


def trend(samples: Sequence[Sample]) -> Trend | None:
    """Estimate how throughput drifted within a window; None where the samples cannot tell.

    A straight line through the means of batches of ten samples or more: neighbouring seconds
    resemble each other, and a line through the seconds themselves would call that a trend too
    often. About 5 of 100 steady windows are called significant.
    """
    batches = batch_means(samples)
    if batches is None:
        return None
    times, rates = batches
    # Least squares by hand: scipy.stats.linregress takes a hundred times as long.
    x, y = times - times.mean(), rates / rates.mean()
    y -= y.mean()
    spread, dof = float(x @ x), len(x) - 2
    slope = float(x @ y) / spread
    rest = y - slope * x
    half = t_multiplier(0.95, dof) * math.sqrt(float(rest @ rest) / dof / spread)
    change = slope * sum(sample.duration_s for sample in samples)
    # A line through exactly equal batches has no error at all, and slope zero.
    return Trend(slope, change, abs(slope) > half and abs(change) > 1e-9)


def _sample_warnings(trial: TrialRate, *, is_seen: bool) -> tuple[str, ...]:
    """Warn where samples show how unsteady the rate was only roughly, or (`is_seen` is False) not at all."""
    count, parts = len(trial.samples), len(trial.changes_s) + 1
    if not is_seen and parts > 1:
        return (
            "the parts of the window (steps of the load, with and without a hold) are too short to see how "
            f"unsteady the rate was within them; make each {_STEP_SAMPLES_GOOD} s or longer",
        )
    if not is_seen:
        return (
            f"{counted(count, 'sample')} {'is' if count == 1 else 'are'} too few to see how unsteady the rate was; "
            f"measure for {_SAMPLES_GOOD} s or more",
        )
    if parts > 1 and count < _STEP_SAMPLES_GOOD * parts:
        return (
            f"{counted(count, 'sample')} in {parts} parts of the window show only roughly how unsteady the rate was; "
            f"make each {_STEP_SAMPLES_GOOD} s or longer",
        )
    if count < _SAMPLES_GOOD:
        return (
            f"{count} samples show only roughly how unsteady the rate was; "
            f"measure for {_SAMPLES_GOOD} s or more",
        )
    memory = None if parts > 1 or trial.has_trend else long_memory(trial.samples)
    drift = None if memory is None else trend(trial.samples)
    # A trend alone correlates neighbouring seconds, and has a warning of its own.
    if memory is None or (drift is not None and drift.matters):
        return ()
    correlation, enough_s = memory
    step_s = 10 if enough_s < 120 else 60  # a length that people would choose
    return (
        f"{LONG_MEMORY} (correlation {correlation:.2f}), so this interval may be too narrow; "
        f"measure for {format_duration(math.ceil(enough_s / step_s) * step_s)} or more",
    )
