"""How does throughput at the end of a hold depend on its length?

Each treatment is one dose. The curve is r0 / (1 + length / half_dose), by weighted least squares on the
logarithms; the interval of 1 / half_dose is a profile interval, widened where the points lie further from
the curve than their own intervals allow.

Source: Bates and Watts 1988, chapter 6 (profile intervals); Birge 1932 (widening).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from pgdrag.findings.decay.findings import STEADY_WITHIN
from pgdrag.findings.decay.together import as_ratio, averaged
from pgdrag.findings.dose.findings import DOSES_MIN, DoseCurve, DosePoint, DoseVerdict
from pgdrag.findings.dose.variants import HeldRung, Variant, mean_log_rate
from pgdrag.stats.curve_fit import CONFIDENCE, Estimate
from pgdrag.stats.distributions import f_quantile, normal_quantile
from pgdrag.stats.interval import Interval

_LAST_S = 5.0  # of a hold too short to be fitted
_SAME = 0.02  # lengths closer than this are one dose
# Of 1 / half_dose, in inverses of the longest hold: from a slight rise to a fall to a hundredth.
_COSTS = np.concatenate([np.linspace(-0.6, 3, 721)[:-1], np.geomspace(3, 100, 280)])
_CURVE_POINTS = 30


def dose_curve(variant: Variant) -> DoseCurve | None:
    """Return the curve of a variant; None with fewer than two doses."""
    rungs = [*([variant.free] if variant.free is not None else []), *variant.held]
    found = [(_held_s(one), one.name, logs) for one in rungs if (logs := _logs(one)) is not None]
    found.sort(key=lambda one: one[0])
    points = tuple(
        DosePoint(name, held_s, as_ratio(logs, "fitted rate at the end of the hold"))
        for held_s, name, logs in found
    )
    doses = _distinct([one.held_s for one in points])
    if doses < 2:
        return None
    if doses < DOSES_MIN:
        return DoseCurve(variant.name, points, doses, "too few doses")
    return _fitted(variant.name, points, doses, [logs for _, _, logs in found])


def _held_s(rung: HeldRung) -> float:
    return float(np.median([0.0 if span is None else span.length_s for span in rung.spans()]))


def _logs(rung: HeldRung) -> Estimate | None:
    """Return the log rate at the end of the hold; without a hold, over the window."""
    spans = rung.spans()
    if rung.decay is not None and spans[0] is None:
        return rung.middle_rate()
    if rung.decay is not None and rung.decay.has_trend:
        return rung.decay.rate(rung.decay.end_s)
    each = []
    for (_, measured), span in zip(rung.measured, spans, strict=True):
        end_s = measured.elapsed_s if span is None else span.end_s
        logs = mean_log_rate(measured.samples, end_s - _LAST_S, end_s)
        each += [logs] if logs is not None else []
    return averaged(each) if each else None


def _distinct(doses: Sequence[float]) -> int:
    count, last = 0, -math.inf
    for dose in doses:
        if last < 0 or dose > last * (1 + _SAME) + 1e-9:
            count, last = count + 1, dose
    return count


def _fitted(
    name: str, points: tuple[DosePoint, ...], doses: int, logs: Sequence[Estimate]
) -> DoseCurve:
    lengths = np.array([one.held_s for one in points])
    centers = np.array([one.center for one in logs])
    longest_s = float(lengths.max())
    halves = np.array([one.half for one in logs])
    sds = np.maximum(halves, max(float(np.median(halves)) / 3, 1e-4)) / normal_quantile(0.975)
    # For each cost: the level that fits best, and the weighted sum of squares that is left.
    rest = centers + np.log1p(_COSTS[:, None] * lengths / longest_s)
    levels = np.average(rest, axis=1, weights=1 / sds**2)
    squares = (((rest - levels[:, None]) / sds) ** 2).sum(axis=1)
    best = int(squares.argmin())
    dof = len(points) - 2
    bound = squares[best] + max(squares[best] / dof, 1.0) * f_quantile(CONFIDENCE, 1, dof)
    inside = _COSTS[squares <= bound]
    low, center, high = (float(x) for x in (inside[0], _COSTS[best], inside[-1]))
    half_doses = [math.inf if cost <= 0 else longest_s / cost for cost in (high, center, low)]
    tau = float(scipy.stats.kendalltau(lengths, centers).statistic)
    shares = np.linspace(0, 1, _CURVE_POINTS)
    rates = np.exp(levels[best] - np.log1p(center * shares))
    return DoseCurve(
        name,
        points,
        doses,
        _verdict(low, high),
        Interval(
            half_doses[0],
            half_doses[1],
            half_doses[2],
            CONFIDENCE,
            "profile of weighted least squares",
        ),
        None if math.isnan(tau) else tau,
        tuple(zip((shares * longest_s).tolist(), rates.tolist(), strict=True)),
    )


def _verdict(low: float, high: float) -> DoseVerdict:
    """Return what the longest hold does; costs in inverses of its length."""
    bound = math.log1p(STEADY_WITHIN)
    if math.log1p(low) >= -bound and math.log1p(high) <= bound:
        return "does not fall"
    return "falls" if low > 0 else "inconclusive"
