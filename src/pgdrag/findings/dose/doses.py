"""How does throughput at the end of a hold depend on how long the horizon was held?

Each rung is one dose. The curve is r0 / (1 + length / half_dose), by weighted least squares on the
logarithms; the interval of 1 / half_dose holds all values whose fit is not worse by more than chance,
and is widened where the points lie further from the curve than their own intervals say.

Source: Bates and Watts 1988, chapter 6 (profile intervals); Birge 1932 (widening).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from pgdrag.english import counted
from pgdrag.findings.decay.findings import STEADY_WITHIN
from pgdrag.findings.decay.together import as_ratio, averaged
from pgdrag.findings.dose.findings import DOSES_MIN, DoseCurve, DosePoint, DoseVerdict
from pgdrag.findings.dose.variants import HeldRung, Variant
from pgdrag.model.measurement import Measurement
from pgdrag.stats.batches import samples_within
from pgdrag.stats.curve_fit import CONFIDENCE, Estimate
from pgdrag.stats.distributions import f_quantile, normal_quantile, student_quantile
from pgdrag.stats.interval import Interval
from pgdrag.units import format_duration

_LAST_S = 5.0  # of a hold too short to be fitted
_SAME = 0.02  # doses nearer to each other than so are one
# Of 1 / half_dose, in inverses of the longest hold: from a slight rise to a fall to a hundredth.
_COSTS = np.concatenate([np.linspace(-0.6, 3, 721)[:-1], np.geomspace(3, 100, 280)])
_CURVE_POINTS = 30
Values = NDArray[np.float64]


def dose_curve(variant: Variant) -> DoseCurve | None:
    """Return the curve of a variant; None with fewer than two doses."""
    rungs = [*([variant.free] if variant.free is not None else []), *variant.held]
    found = [(point, logs) for one in rungs if (point := _point(one)) and (logs := _logs(one))]
    found = sorted(found, key=lambda pair: pair[0].held_s)
    points = tuple(point for point, _ in found)
    doses = _distinct([one.held_s for one in points])
    if doses < 2:
        return None
    if doses < DOSES_MIN:
        told = f"{counted(doses, 'dose')} make no curve: add holds of other lengths, five doses or more"
        return DoseCurve(variant.name, points, "too few doses", None, None, (), told)
    return _fitted(variant.name, points, [logs for _, logs in found])


def _point(rung: HeldRung) -> DosePoint | None:
    logs = _logs(rung)
    if logs is None:
        return None
    lengths = [0.0 if span is None else span.length_s for span in rung.spans()]
    held_s = float(np.median(lengths))
    return DosePoint(rung.name, held_s, as_ratio(logs, "fitted rate at the end of the hold"))


def _logs(rung: HeldRung) -> Estimate | None:
    """Return the log rate at the end of the hold; without a hold, over the window."""
    spans = rung.spans()
    if rung.decay is not None and (rung.decay.has_trend or spans[0] is None):
        if spans[0] is None:
            middle_s = (rung.decay.begin_s + rung.decay.end_s) / 2
            return rung.decay.rate(middle_s)
        return rung.decay.rate(rung.decay.end_s)
    each = [
        _last_logs(measured, span.end_s if span is not None else measured.elapsed_s)
        for (_, measured), span in zip(rung.measured, spans, strict=True)
    ]
    usable = [one for one in each if one is not None]
    return averaged(usable) if usable else None


def _last_logs(measured: Measurement, end_s: float) -> Estimate | None:
    """Return the mean log rate of a window's seconds just before a moment."""
    last = samples_within(measured.samples, end_s - _LAST_S, end_s)
    rates = [math.log(one.committed / one.duration_s) for one in last if one.committed]
    if len(rates) < 3:
        return None
    center = float(np.mean(rates))
    quantile = student_quantile((1 + CONFIDENCE) / 2, len(rates) - 1)
    half = quantile * float(np.std(rates, ddof=1)) / math.sqrt(len(rates))
    return Estimate(center - half, center, center + half)


def _distinct(doses: Sequence[float]) -> int:
    count, last = 0, -math.inf
    for dose in doses:
        if dose > last * (1 + _SAME) + 1e-9 or last < 0:
            count, last = count + 1, dose
    return count


def _fitted(name: str, points: tuple[DosePoint, ...], logs: Sequence[Estimate]) -> DoseCurve:
    doses = np.array([one.held_s for one in points])
    centers = np.array([one.center for one in logs])
    longest_s = float(doses.max())
    least = max(float(np.median([one.half for one in logs])) / 3, 1e-4)
    sds = np.array([max(one.half, least) for one in logs]) / normal_quantile(0.975)
    squares, levels = _profile(doses / longest_s, centers, sds)
    best = int(squares.argmin())
    dof = len(points) - 2
    scale = max(squares[best] / dof, 1.0)
    bound = squares[best] + scale * f_quantile(CONFIDENCE, 1, dof)
    inside = _COSTS[squares <= bound]
    low, center, high = (float(x) / longest_s for x in (inside[0], _COSTS[best], inside[-1]))
    tau = scipy.stats.kendalltau(doses, centers).statistic
    monotone = None if math.isnan(tau) else float(tau)
    verdict = _verdict(low * longest_s, high * longest_s)
    half_dose = _half_dose(low, center, high)
    lengths = np.linspace(0, longest_s, _CURVE_POINTS)
    curve = tuple(
        (float(x), math.exp(levels[best] - math.log1p(center * float(x)))) for x in lengths
    )
    sentence = _sentence(verdict, half_dose, _distinct(list(doses)), longest_s, monotone)
    return DoseCurve(name, points, verdict, half_dose, monotone, curve, sentence)


def _profile(shares: Values, centers: Values, sds: Values) -> tuple[Values, Values]:
    """Return the weighted squares of each cost, and the level that goes with it."""
    weights = 1 / sds**2
    rest = centers[None, :] + np.log1p(_COSTS[:, None] * shares[None, :])
    levels = rest @ weights / weights.sum()
    return ((rest - levels[:, None]) ** 2) @ weights, levels


def _verdict(low: float, high: float) -> DoseVerdict:
    """Return what the longest hold does; costs in inverses of its length."""
    bound = math.log1p(STEADY_WITHIN)
    if math.log1p(low) >= -bound and math.log1p(high) <= bound:
        return "does not fall"
    return "falls" if low > 0 else "inconclusive"


def _half_dose(low: float, center: float, high: float) -> Interval:
    of = [math.inf if cost <= 0 else 1 / cost for cost in (high, center, low)]
    return Interval(of[0], of[1], of[2], CONFIDENCE, "profile of weighted least squares")


def _sentence(
    verdict: DoseVerdict, half: Interval, doses: int, longest_s: float, tau: float | None
) -> str:
    over = f"over {counted(doses, 'dose')} up to {format_duration(round(longest_s))}"
    order = "" if tau is None else f" (Kendall's tau {tau:+.2f})"
    if verdict == "falls":
        upper = (
            f"{format_duration(round(half.low, 1))} to {format_duration(round(half.high, 1))}"
            if math.isfinite(half.high)
            else f"over {format_duration(round(half.low, 1))}"
        )
        beyond = ", longer than any hold here" if half.center > longest_s else ""
        return (
            f"throughput falls with the length of the hold {over}{order}: it is halved by "
            f"{format_duration(round(half.center, 1))} ({upper}){beyond}"
        )
    if verdict == "does not fall":
        return f"throughput does not fall with the length of the hold {over}: by less than 10 % at the longest"
    return f"whether throughput falls with the length of the hold cannot be told {over}{order}; run more replicates"
