"""What do holds of different lengths show: how does throughput at the end of a hold depend on its length?

Each treatment is one dose. The curve is r0 / (1 + length / half_dose), by weighted least squares on the
logarithms; the interval of 1 / half_dose is a profile interval, widened where the points lie further from
the curve than their own intervals allow.

Source: Bates and Watts 1988, chapter 6 (profile intervals); Birge 1932 (widening).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import scipy

from pgdrag.findings.analysis import RunAnalysis
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Treatments
from pgdrag.findings.decay.findings import STEADY_WITHIN
from pgdrag.findings.decay.together import RungDecay, as_ratio, averaged
from pgdrag.findings.dose.deciders import deciders
from pgdrag.findings.dose.findings import (
    DOSES_MIN,
    DoseCurve,
    DosePoint,
    DoseVerdict,
    HorizonFinding,
)
from pgdrag.findings.dose.recovery import recoveries
from pgdrag.findings.dose.variants import HeldRung, Variant, mean_log_rate, variants
from pgdrag.stats.curve_fit import CONFIDENCE, Estimate
from pgdrag.stats.distributions import f_quantile, normal_quantile
from pgdrag.stats.interval import Interval

_LAST_S = 5.0  # of a hold too short to be fitted
_SAME = 0.02  # lengths closer than this are one dose
# Of 1 / half_dose, in inverses of the longest hold: from a slight rise to a fall to a hundredth.
_COSTS = np.concatenate([np.linspace(-0.6, 3, 721)[:-1], np.geomspace(3, 100, 280)])
_CURVE_POINTS = 30


def horizon_finding(
    trials: Sequence[RungTrials], decays: Mapping[str, RungDecay]
) -> HorizonFinding | None:
    """Return doses, recoveries and what decides, by variant; None without any of them."""
    found = variants([HeldRung(one, decays.get(one.rung.name)) for one in trials])
    curves = tuple(curve for one in found if (curve := _dose_curve(one)) is not None)
    back = tuple(one for variant in found for one in recoveries(variant))
    decided = tuple(one for variant in found if (one := deciders(variant)) is not None)
    return HorizonFinding(curves, back, decided) if curves or back or decided else None


def _dose_curve(variant: Variant) -> DoseCurve | None:
    """Return the curve of a variant; None with fewer than two doses."""
    found = []
    for one in variant.rungs:
        held_s = float(np.median([0.0 if span is None else span.length_s for span in one.spans()]))
        if (logs := _logs(one)) is not None:
            found.append((held_s, one.name, logs))
    found.sort(key=lambda one: one[0])
    points = tuple(
        DosePoint(name, held_s, as_ratio(logs, "fitted rate at the end of the hold"))
        for held_s, name, logs in found
    )
    doses, last = 0, -math.inf
    for held_s, _, _ in found:
        if last < 0 or held_s > last * (1 + _SAME) + 1e-9:
            doses, last = doses + 1, held_s
    if doses < 2:
        return None
    curve = DoseCurve(variant.name, points, doses, "too few doses")
    return curve if doses < DOSES_MIN else _fitted(curve, [logs for _, _, logs in found])


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


def _fitted(curve: DoseCurve, logs: Sequence[Estimate]) -> DoseCurve:
    lengths = np.array([one.held_s for one in curve.points])
    centers = np.array([one.center for one in logs])
    longest_s = float(lengths.max())
    halves = np.array([one.half for one in logs])
    sds = np.maximum(halves, max(float(np.median(halves)) / 3, 1e-4)) / normal_quantile(0.975)
    # For each cost: the level that fits best, and the weighted sum of squares that is left.
    rest = centers + np.log1p(_COSTS[:, None] * lengths / longest_s)
    levels = np.average(rest, axis=1, weights=1 / sds**2)
    squares = (((rest - levels[:, None]) / sds) ** 2).sum(axis=1)
    best = int(squares.argmin())
    dof = len(logs) - 2
    bound = squares[best] + max(squares[best] / dof, 1.0) * f_quantile(CONFIDENCE, 1, dof)
    inside = _COSTS[squares <= bound]
    low, center, high = (float(x) for x in (inside[0], _COSTS[best], inside[-1]))
    half_doses = [math.inf if cost <= 0 else longest_s / cost for cost in (high, center, low)]
    tau = float(scipy.stats.kendalltau(lengths, centers).statistic)
    shares = np.linspace(0, 1, _CURVE_POINTS)
    rates = np.exp(levels[best] - np.log1p(center * shares))
    # What the longest hold costs, in inverses of its length.
    slight = math.log1p(STEADY_WITHIN)
    verdict: DoseVerdict = "falls" if low > 0 else "inconclusive"
    if math.log1p(low) >= -slight and math.log1p(high) <= slight:
        verdict = "does not fall"
    return replace(
        curve,
        verdict=verdict,
        half_dose_s=Interval(
            half_doses[0],
            half_doses[1],
            half_doses[2],
            CONFIDENCE,
            "profile of weighted least squares",
        ),
        monotone=None if math.isnan(tau) else tau,
        curve=tuple(zip((shares * longest_s).tolist(), rates.tolist(), strict=True)),
    )


@lru_cache(maxsize=1)
def horizon_of(treatments: Treatments) -> HorizonFinding | None:
    """Return the same of a run's treatments; made once for all that ask."""
    return horizon_finding(treatments.trials, treatments.decays)


HORIZON = RunAnalysis("horizon", HorizonFinding, horizon_of)
