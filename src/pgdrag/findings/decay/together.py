"""How did throughput go within the windows of one rung, its trials taken together?

Each trial has a fit of its own; what the fits differ by from trial to trial is in the interval, and
it is never narrower than what each trial is unsure of. By how much trials differ beyond that is taken
from all rungs together. One family of curves is chosen for all trials of a rung.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgdrag.findings.combine import RungTrials
from pgdrag.findings.decay.findings import (
    AT_S,
    STEADY_WITHIN,
    CurvePoint,
    DecayFinding,
    DecayTrace,
    Direction,
)
from pgdrag.findings.decay.stretches import fitted_stretch, stretch_of
from pgdrag.findings.decay.words import decay_sentence
from pgdrag.model import Outcome, Result
from pgdrag.model.measurement import Measurement
from pgdrag.stats.curve_fit import CONFIDENCE, Estimate, TrialFit, fit_stretch
from pgdrag.stats.curve_shapes import FAMILIES, Model, Shapes, Values
from pgdrag.stats.distributions import normal_quantile, student_quantile
from pgdrag.stats.interval import Interval

_LINE = FAMILIES[:1]
_CURVE_POINTS = 25
_ROUNDING_S = 1.0  # a window of 30 s may end a little earlier
_MOST = 700.0  # exp() of more is no float


@dataclass(frozen=True)
class FittedTrial:
    """One trial with its fit."""

    result: Result
    fit: TrialFit
    wrong: str
    is_part: bool


@dataclass(frozen=True)
class Scatter:
    """How many times wider than what each trial is unsure of an interval over trials must be."""

    times: float


@dataclass(frozen=True)
class RungDecay:
    """The fits of one rung, to be asked for rates at any moment.

    Attributes:
        of_slopes, of_levels: scatter over trials of all rungs; None where only this rung's are known.
        shares: what each family counts, by its information criterion; sum to 1.
    """

    trials: tuple[FittedTrial, ...]
    direction: Direction
    shares: tuple[float, ...]
    chosen: Model
    margin: float
    of_slopes: Scatter | None = None
    of_levels: Scatter | None = None

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
        """How its results are wrong, where those of a trial are: "loses updates"; else ""."""
        return next((one.wrong for one in self.trials if one.wrong), "")

    @property
    def has_trend(self) -> bool:
        """A mean over the window would be of no moment of it."""
        return self.direction in ("falling", "rising")

    def rate(self, t_s: float) -> Estimate:
        """Return the logarithm of the fitted rate at a moment of the window."""
        return averaged(self.rates(t_s), self.of_levels)

    def rates(self, t_s: float) -> list[Estimate]:
        """Return the logarithm of the fitted rate at a moment, of each trial."""
        return [one.fit.log_rate(t_s, self.shares, self.chosen) for one in self.trials]

    def log_ratio(self, from_s: float, to_s: float) -> Estimate:
        """Return the logarithm of the fitted rate at a moment over that at an earlier one."""

        def between(fit: TrialFit) -> Callable[[Shapes], Values]:
            places = np.array([fit.stretch.place(from_s), fit.stretch.place(to_s)])
            return lambda shapes: np.diff(shapes.at(places), axis=1)[:, 0]

        return self._averaged(between)

    def slope(self) -> Estimate:
        """Return the logarithm that is gained each minute, on average over the fitted part."""
        return averaged(self.slopes(), self.of_slopes)

    def slopes(self) -> list[Estimate]:
        """Return the same of each trial."""

        def per_min(fit: TrialFit) -> Callable[[Shapes], Values]:
            return lambda shapes: shapes.changes * 60 / fit.stretch.length_s

        return self._each(per_min)

    def halvings_per_s(self) -> Estimate:
        """Return the inverse of the half-life: 0 where half is never reached."""

        def inverse(fit: TrialFit) -> Callable[[Shapes], Values]:
            return lambda shapes: 1 / (shapes.half_lives() * fit.stretch.length_s)

        return self._averaged(inverse)

    def _averaged(self, of: Callable[[TrialFit], Callable[[Shapes], Values]]) -> Estimate:
        return averaged(self._each(of), self.of_slopes)

    def _each(self, of: Callable[[TrialFit], Callable[[Shapes], Values]]) -> list[Estimate]:
        return [one.fit.estimate(of(one.fit), self.shares, self.chosen) for one in self.trials]


def rung_decays(rungs: Sequence[RungTrials]) -> dict[str, RungDecay]:
    """Return the decay of each rung that has one, by its name; see `rung_decay`.

    How much more trials of one rung differ than each is unsure of is taken from all rungs together:
    two or three trials of one would hardly tell.
    """
    fitted = {one.rung.name: _line(one) for one in rungs}
    lines = {name: line for name, line in fitted.items() if line is not None}
    of_slopes = scatter_of([line.slopes() for line in lines.values()])
    of_levels = scatter_of([line.rates(line.begin_s) for line in lines.values()])
    return {
        name: _finished(replace(line, of_slopes=of_slopes, of_levels=of_levels))
        for name, line in lines.items()
    }


def rung_decay(trials: RungTrials) -> RungDecay | None:
    """Fit the trials of a rung; None where the load changes by design, or no window is long enough.

    Trials that are invalid for nothing but lost updates are fitted as well, and marked.
    """
    return rung_decays([trials]).get(trials.rung.name)


def _line(trials: RungTrials) -> RungDecay | None:
    taken = [
        (result, measured, _wrong(result))
        for result, measured in fittable(trials)
        if not result.trial.load.steps
    ]
    stretches = [(one, fitted_stretch(one[0], one[1])) for one in taken]
    long_enough = [(one, stretch) for one, stretch in stretches if stretch is not None]
    lines = [(one, fit_stretch(stretch, _LINE)) for one, stretch in long_enough]
    fitted = tuple(
        FittedTrial(result, fit, wrong, _is_part(measured, fit))
        for (result, measured, wrong), fit in lines
        if fit is not None
    )
    if not fitted:
        return None
    return RungDecay(fitted, "cannot be told", (1.0,), "exponential", 0.0)


def _finished(line: RungDecay) -> RungDecay:
    directed = replace(line, direction=_direction(line))
    return _with_curve(directed) if directed.has_trend else directed


def fittable(trials: RungTrials) -> list[tuple[Result, Measurement]]:
    """Return the trials with a number, and those that would have one but for what they did to their data."""
    wrong = [
        (result, result.measurement)
        for result in trials.results
        if result.outcome is Outcome.INVALID and result.violations
        # Where something else has spoilt it as well, it says nothing of throughput.
        if result.reason in ("", "; ".join(result.violations))
        if result.measurement is not None and result.measurement.elapsed_s > 0
    ]
    return [*trials.numbered, *wrong]


def _wrong(result: Result) -> str:
    if not result.violations:
        return ""
    return "loses updates" if "updates were lost" in result.violations[0] else "fails its check"


def finding_of(decay: RungDecay) -> DecayFinding:
    """Return what a report has of it."""
    begin_s, end_s = decay.begin_s, decay.end_s
    ends = [begin_s, end_s]
    if decay.has_trend:
        step_s = (end_s - begin_s) / (_CURVE_POINTS - 1)
        ends = [begin_s + at * step_s for at in range(_CURVE_POINTS)]
    has_at = end_s - begin_s >= AT_S - _ROUNDING_S
    minutes = (end_s - begin_s) / 60
    slope = decay.slope()
    change = Estimate(slope.low * minutes, slope.center * minutes, slope.high * minutes)
    method = _method(decay)
    finding = DecayFinding(
        direction=decay.direction,
        curve=decay.chosen if decay.has_trend else "",
        margin=decay.margin,
        begin_s=begin_s,
        end_s=end_s,
        change=as_ratio(change, method),
        slope_per_min=_less_one(as_ratio(slope, method)),
        half_life_s=_half_life(decay, method),
        begin_per_s=as_ratio(decay.rate(begin_s), method),
        end_per_s=as_ratio(decay.rate(end_s), method),
        ratio_at_30_s=as_ratio(decay.log_ratio(begin_s, begin_s + AT_S), method)
        if has_at
        else None,
        points=tuple(_point(decay, t_s) for t_s in ends),
        traces=tuple(_trace(one) for one in decay.trials),
        trials=len(decay.trials),
        wrong=decay.wrong,
        sentence="",
        is_whole_window=not any(one.is_part for one in decay.trials),
    )
    return replace(finding, sentence=decay_sentence(finding))


def averaged(estimates: Sequence[Estimate], scatter: Scatter | None = None) -> Estimate:
    """Return the mean over trials: what they differ by, and at least what each is unsure of.

    Args:
        scatter: of all rungs' trials; without it, these alone tell what they differ by.

    Source: the t interval of trials as the sample, their scatter pooled over rungs relative to what each
    trial is unsure of (Birge 1932); beside it the error of a mean of independent estimates. The wider of the
    two is taken.
    """
    count = len(estimates)
    if count == 1:
        return estimates[0]
    center = float(np.mean([one.center for one in estimates]))
    within = math.sqrt(sum(one.half**2 for one in estimates)) / count
    scatter = scatter or scatter_of([estimates])
    half = max(within, scatter.times * within)
    return Estimate(center - half, center, center + half)


def scatter_of(rungs: Sequence[Sequence[Estimate]]) -> Scatter:
    """Return by how much more trials of one rung differ than each is unsure of, over all rungs."""
    dof = sum(len(one) - 1 for one in rungs)
    if not dof:
        return Scatter(1.0)
    normal = normal_quantile((1 + CONFIDENCE) / 2)
    squares = 0.0
    for estimates in rungs:
        mean = float(np.mean([one.center for one in estimates]))
        variance = float(np.mean([(one.half / normal) ** 2 for one in estimates])) or 1e-18
        squares += sum((one.center - mean) ** 2 for one in estimates) / variance
    quantile = student_quantile((1 + CONFIDENCE) / 2, dof)
    return Scatter(math.sqrt(squares / dof) * quantile / normal)


def as_ratio(found: Estimate, method: str) -> Interval:
    """Return an interval of logarithms as one of ratios, or rates."""
    low, center, high = (math.exp(min(x, _MOST)) for x in (found.low, found.center, found.high))
    return Interval(low, center, high, CONFIDENCE, method)


def _is_part(measured: Measurement, fit: TrialFit) -> bool:
    left_out_s = measured.elapsed_s - fit.stretch.length_s
    return left_out_s > 0.1 * measured.elapsed_s


def _direction(line: RungDecay) -> Direction:
    slope = line.slope()
    minutes = (line.end_s - line.begin_s) / 60
    bound = math.log1p(STEADY_WITHIN)
    if -bound <= slope.low * minutes and slope.high * minutes <= bound:
        return "steady"
    if slope.high < 0:
        return "falling"
    return "rising" if slope.low > 0 else "cannot be told"


def _with_curve(line: RungDecay) -> RungDecay:
    """Choose among all families, where a straight line has told that there is a trend."""
    fits = [fit_stretch(one.fit.stretch) for one in line.trials]
    fitted = tuple(replace(one, fit=fit) for one, fit in zip(line.trials, fits, strict=True) if fit)
    sums = np.array(
        [sum(one.fit.families[at].aicc for one in fitted) for at in range(len(FAMILIES))]
    )
    shares = np.exp(-(sums - sums.min()) / 2)
    ranked = np.sort(sums)
    curved = replace(
        line,
        trials=fitted,
        shares=tuple(float(x) for x in shares / shares.sum()),
        chosen=FAMILIES[int(sums.argmin())].name,
        margin=float(min(ranked[1] - ranked[0], 1e6)),
    )
    slope = curved.slope()
    # A bend that only ends in a trend by its beginning is less sure than the line says.
    is_significant = slope.high < 0 or slope.low > 0
    return curved if is_significant else line


def _less_one(ratio: Interval) -> Interval:
    return replace(ratio, low=ratio.low - 1, center=ratio.center - 1, high=ratio.high - 1)


def _half_life(decay: RungDecay, method: str) -> Interval:
    found = decay.halvings_per_s()
    low, center, high = (
        math.inf if x <= 1e-12 else 1 / x for x in (found.high, found.center, found.low)
    )
    if decay.direction != "falling":  # how long it takes at the least is all that can be said
        center = high = math.inf
    return Interval(low, center, high, CONFIDENCE, method)


def _point(decay: RungDecay, t_s: float) -> CurvePoint:
    found = as_ratio(decay.rate(t_s), "")
    return CurvePoint(t_s, found.low, found.center, found.high)


def _trace(one: FittedTrial) -> DecayTrace:
    measured = one.result.measurement
    assert measured is not None, one.result.trial.number
    whole = stretch_of(measured.samples, 0.0, measured.elapsed_s)
    stretch = one.fit.stretch if whole is None else whole
    return DecayTrace(
        one.result.trial.number, bool(one.wrong), stretch.times_s, stretch.rates_per_s
    )


def _method(decay: RungDecay) -> str:
    count = len(decay.trials)
    curve = "line" if not decay.has_trend else "curves"
    fitted = f"{curve} with autoregressive noise"
    return fitted if count == 1 else f"{fitted}, {count} trials"
