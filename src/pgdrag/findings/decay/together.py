"""How did throughput change within the windows of one treatment, over all its trials?

Each trial has a fit of its own. The interval of their mean covers what the trials differ by, and is never
narrower than the uncertainty within each. How much trials differ beyond that is pooled over all
treatments. One family of curves is chosen for all trials of a treatment.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgdrag.findings.combine import RungTrials, rate_of
from pgdrag.findings.decay.findings import (
    AT_S,
    STEADY_WITHIN,
    CurvePoint,
    DecayFinding,
    DecayTrace,
    Direction,
    way_words,
)
from pgdrag.findings.holds.levels import Span, held_span
from pgdrag.model import Outcome, Result, Rung
from pgdrag.model.measurement import Measurement, Sample
from pgdrag.stats.batches import samples_within
from pgdrag.stats.curve_fit import (
    CONFIDENCE,
    FAMILIES,
    INTERVALS_MIN,
    LINE,
    Curves,
    Estimate,
    Stretch,
    TrialFit,
    Values,
    fit_stretch,
)
from pgdrag.stats.distributions import normal_quantile, t_multiplier
from pgdrag.stats.interval import Interval, bounded_exp
from pgdrag.stats.noise import pooled_noise
from pgdrag.units import format_rate

_INTERVALS_MAX = 120
_COMMITS_MIN = 30  # in an interval on average: below, the logarithm of a count is not normal
_CURVE_POINTS = 25
_ROUNDING_S = 1.0  # a window of 30 s may end a little earlier


@dataclass(frozen=True)
class FittedTrial:
    """One trial with its fit.

    Attributes:
        wrong: "loses updates" or "fails its check" where it does; else "".
        is_part: only a part of its window was fitted.
    """

    result: Result
    fit: TrialFit
    wrong: str
    is_part: bool


@dataclass(frozen=True)
class RungDecay:
    """The fits of one treatment's trials, which give the rate at any moment.

    Attributes:
        direction: see `DecayFinding`.
        shares: weight of each family, by its information criterion; sum to 1.
        chosen: the family with the largest share.
        margin: see `DecayFinding`.
        slope_scatter, level_scatter: see `scatter_of`, over all treatments; None: over this one alone.
    """

    trials: tuple[FittedTrial, ...]
    direction: Direction = "inconclusive"
    shares: tuple[float, ...] = (1.0,)
    chosen: int = 0
    margin: float = 0.0
    slope_scatter: float | None = None
    level_scatter: float | None = None

    @property
    def begin_s(self) -> float:
        """Where the latest of the fitted parts begins."""
        return max(one.fit.stretch.begin_s for one in self.trials)

    @property
    def end_s(self) -> float:
        """Where the earliest of the fitted parts ends."""
        return min(one.fit.stretch.end_s for one in self.trials)

    @property
    def wrong(self) -> str:
        """How the results of a trial are wrong; else ""."""
        return next((one.wrong for one in self.trials if one.wrong), "")

    @property
    def has_trend(self) -> bool:
        """Whether a mean over the window depends on its length."""
        return self.direction in ("falling", "rising")

    def rate(self, t_s: float) -> Estimate:
        """Return the logarithm of the fitted rate at a moment of the window."""
        return averaged(self.rates(t_s), self.level_scatter)

    def rates(self, t_s: float) -> list[Estimate]:
        """Return the logarithm of the fitted rate at a moment, of each trial."""
        return [one.fit.log_rate(t_s, self.shares, self.chosen) for one in self.trials]

    def log_ratio(self, from_s: float, to_s: float) -> Estimate:
        """Return the logarithm of the fitted rate at a moment over that at an earlier one."""

        def ratio(curves: Curves, fit: TrialFit) -> Values:
            places = np.array([fit.stretch.place(from_s), fit.stretch.place(to_s)])
            return np.diff(curves.at(places), axis=1)[:, 0]

        return averaged(self._each(ratio), self.slope_scatter)

    def slope(self) -> Estimate:
        """Return the change of the logarithm a minute, on average over the fitted part."""
        return averaged(self.slopes(), self.slope_scatter)

    def slopes(self) -> list[Estimate]:
        """Return the same of each trial."""
        return self._each(lambda curves, fit: curves.changes * 60 / fit.stretch.length_s)

    def halvings_per_s(self) -> Estimate:
        """Return the inverse of the half-life: 0 where half is never reached."""
        each = self._each(lambda curves, fit: 1 / (curves.half_lives() * fit.stretch.length_s))
        return averaged(each, self.slope_scatter)

    def _each(self, of: Callable[[Curves, TrialFit], Values]) -> list[Estimate]:
        fits = [one.fit for one in self.trials]
        return [fit.estimate(lambda x: of(x, fit), self.shares, self.chosen) for fit in fits]  # noqa: B023


def rung_decays(rungs: Sequence[RungTrials]) -> dict[str, RungDecay]:
    """Return the decay of each treatment that has one, by its name; see `rung_decay`.

    How much trials of one treatment differ beyond their own uncertainty is pooled over all: two or three
    trials of one hardly show it.
    """
    lines = {one.rung.name: line for one in rungs if (line := _line(one)) is not None}
    slopes = scatter_of([line.slopes() for line in lines.values()])
    levels = scatter_of([line.rates(line.begin_s) for line in lines.values()])
    return {
        name: _with_curve(replace(line, slope_scatter=slopes, level_scatter=levels))
        for name, line in lines.items()
    }


def rung_decay(trials: RungTrials) -> RungDecay | None:
    """Fit the trials of a treatment; None where the load changes by design, or every window is too short.

    Trials that are invalid only because their results failed a check are fitted too, and marked.
    """
    return rung_decays([trials]).get(trials.rung.name)


def fittable(trials: RungTrials) -> list[tuple[Result, Measurement]]:
    """Return the trials with a number, and those invalid only because their results failed a check."""
    wrong = [
        (result, result.measurement)
        for result in trials.results
        if result.outcome is Outcome.INVALID and result.violations
        # Where something else is wrong with it as well, it says nothing about throughput.
        if result.reason in ("", "; ".join(result.violations))
        if result.measurement is not None and result.measurement.elapsed_s > 0
    ]
    return [*trials.numbered, *wrong]


def _line(trials: RungTrials) -> RungDecay | None:
    """Fit a straight line to the logarithms of each trial's rates.

    Where the horizon is held, only to the hold: what comes after is a recovery, with an analysis of its own.
    """
    fitted = []
    for result, measured in fittable(trials):
        whole = Span(0.0, measured.elapsed_s, is_released=False)
        span = held_span(result, measured) or whole
        stretch = stretch_of(measured.samples, span.begin_s, span.end_s)
        if stretch is None or result.trial.load.steps:
            continue
        fit = fit_stretch(stretch, LINE)
        if fit is not None:
            is_part = measured.elapsed_s - stretch.length_s > 0.1 * measured.elapsed_s
            fitted.append(FittedTrial(result, fit, _wrong(result), is_part))
    return RungDecay(tuple(fitted)) if fitted else None


def stretch_of(samples: Sequence[Sample], begin_s: float, end_s: float) -> Stretch | None:
    """Return the samples between two moments in at most 120 intervals, each with commits."""
    timed = [one for one in samples_within(samples, begin_s, end_s) if one.duration_s > 0]
    usual_s = statistics.median([one.duration_s for one in timed] or [0.0])
    # The last interval may be much shorter than the rest.
    whole = [one for one in timed if one.duration_s > usual_s / 2]
    committed = np.array([one.committed for one in whole])
    if len(whole) < INTERVALS_MIN or not committed.any():
        return None
    ends_s = np.array([one.t_s for one in whole])
    durations_s = np.array([one.duration_s for one in whole])
    size = math.ceil(len(whole) * max(1 / _INTERVALS_MAX, _COMMITS_MIN / int(committed.sum())))
    while len(whole) // size >= INTERVALS_MIN:
        first = np.arange(0, len(whole) - size + 1, size)
        last = np.append(first[1:], len(whole)) - 1  # the last group has what is left over
        counts = np.add.reduceat(committed, first)
        if counts.all():
            middles = (ends_s[first] - durations_s[first] + ends_s[last]) / 2
            rates = counts / np.add.reduceat(durations_s, first)
            return Stretch(
                whole[0].t_s - whole[0].duration_s,
                whole[-1].t_s,
                tuple(middles.tolist()),
                tuple(rates.tolist()),
            )
        size *= 2
    return None


def _wrong(result: Result) -> str:
    if not result.violations:
        return ""
    return "loses updates" if "updates were lost" in result.violations[0] else "fails its check"


def _with_curve(line: RungDecay) -> RungDecay:
    """Name the direction; where the straight line shows a trend, choose among all families."""
    line = replace(line, direction=_direction(line))
    if not line.has_trend:
        return line
    fits = [fit_stretch(one.fit.stretch) for one in line.trials]
    fitted = tuple(replace(one, fit=fit) for one, fit in zip(line.trials, fits, strict=True) if fit)
    aicc = np.sum([[family.aicc for family in one.fit.families] for one in fitted], axis=0)
    shares = np.exp(-(aicc - aicc.min()) / 2)
    best, second = np.sort(aicc)[:2]
    curved = replace(
        line,
        trials=fitted,
        shares=tuple(float(x) for x in shares / shares.sum()),
        chosen=int(aicc.argmin()),
        margin=float(min(second - best, 1e6)),
    )
    slope = curved.slope()
    # A curve whose trend is all in its first seconds may be less certain than the line.
    return curved if slope.high < 0 or slope.low > 0 else line


def _direction(line: RungDecay) -> Direction:
    slope = line.slope()
    minutes = (line.end_s - line.begin_s) / 60
    bound = math.log1p(STEADY_WITHIN)
    if -bound <= slope.low * minutes and slope.high * minutes <= bound:
        return "steady"
    if slope.high < 0:
        return "falling"
    return "rising" if slope.low > 0 else "inconclusive"


def averaged(estimates: Sequence[Estimate], scatter: float | None = None) -> Estimate:
    """Return the mean over trials; its interval covers what they differ by and their own uncertainty.

    Args:
        scatter: see `scatter_of`, over all treatments; without it, over these trials alone.

    Source: the t interval of trials as the sample, their scatter pooled over treatments relative to each
    trial's uncertainty (Birge 1932); beside it the error of a mean of independent estimates. The wider of
    the two is taken.
    """
    count = len(estimates)
    if count == 1:
        return estimates[0]
    center = float(np.mean([one.center for one in estimates]))
    within = math.sqrt(sum(one.half**2 for one in estimates)) / count
    return Estimate.around(center, within * max(scatter or scatter_of([estimates]), 1.0))


def scatter_of(rungs: Sequence[Sequence[Estimate]]) -> float:
    """Return how many times wider an interval over trials must be than each trial's uncertainty makes it."""
    normal = normal_quantile((1 + CONFIDENCE) / 2)
    groups = []
    for estimates in rungs:
        sd = math.sqrt(float(np.mean([(one.half / normal) ** 2 for one in estimates]))) or 1e-9
        groups.append([one.center / sd for one in estimates])
    noise = pooled_noise(groups)
    if noise is None:
        return 1.0
    return noise.log_sd * t_multiplier(CONFIDENCE, noise.dof) / normal


def as_ratio(found: Estimate, method: str) -> Interval:
    """Return an interval of logarithms as one of ratios, or rates."""
    low, center, high = (bounded_exp(x) for x in (found.low, found.center, found.high))
    return Interval(low, center, high, CONFIDENCE, method)


def finding_of(decay: RungDecay) -> DecayFinding:
    """Return what a report shows of it."""
    begin_s, end_s = decay.begin_s, decay.end_s
    minutes = (end_s - begin_s) / 60
    slope, halvings = decay.slope(), decay.halvings_per_s()
    method = f"{'curves' if decay.has_trend else 'line'} with autoregressive noise"
    if len(decay.trials) > 1:
        method += f", {len(decay.trials)} trials"
    per_min = as_ratio(slope, method)
    halves = [1 / x if x > 1e-12 else math.inf for x in (halvings.high, halvings.center)]
    half_life = Interval(halves[0], math.inf, math.inf, CONFIDENCE, method)
    if decay.direction == "falling":  # else only a lower bound is known
        longest = 1 / halvings.low if halvings.low > 1e-12 else math.inf
        half_life = replace(half_life, center=halves[1], high=longest)
    points = []
    for t_s in np.linspace(begin_s, end_s, _CURVE_POINTS if decay.has_trend else 2).tolist():
        rate = as_ratio(decay.rate(t_s), method)
        points.append(CurvePoint(t_s, rate.low, rate.center, rate.high))
    after_30_s = None
    if end_s - begin_s >= AT_S - _ROUNDING_S:
        after_30_s = as_ratio(decay.log_ratio(begin_s, begin_s + AT_S), method)
    return DecayFinding(
        direction=decay.direction,
        curve=tuple(FAMILIES)[decay.chosen] if decay.has_trend else "",
        margin=decay.margin,
        begin_s=begin_s,
        end_s=end_s,
        change=as_ratio(
            Estimate(slope.low * minutes, slope.center * minutes, slope.high * minutes), method
        ),
        slope_per_min=replace(
            per_min, low=per_min.low - 1, center=per_min.center - 1, high=per_min.high - 1
        ),
        half_life_s=half_life,
        begin_per_s=as_ratio(decay.rate(begin_s), method),
        end_per_s=as_ratio(decay.rate(end_s), method),
        ratio_at_30_s=after_30_s,
        points=tuple(points),
        traces=tuple(_trace(one) for one in decay.trials),
        trials=len(decay.trials),
        wrong=decay.wrong,
        is_whole_window=not any(one.is_part for one in decay.trials),
    )


def _trace(one: FittedTrial) -> DecayTrace:
    measured, number = one.result.measurement, one.result.trial.number
    assert measured is not None, number
    stretch = stretch_of(measured.samples, 0.0, measured.elapsed_s) or one.fit.stretch
    return DecayTrace(number, bool(one.wrong), stretch.times_s, stretch.rates_per_s)


def trial_rate_words(result: Result, measured: Measurement) -> str:
    """Return a trial's rate, `1,187/s`; with a trend that at both ends, `7,200 → 4,300/s`."""
    treatment = result.trial.treatment
    decay = rung_decay(RungTrials(Rung(treatment.name, "", treatment), (result,)))
    if decay is not None and decay.has_trend:
        return way_words(finding_of(decay))
    return format_rate(rate_of(result, measured).per_s)
