"""What do pg_expecto's formulas show of one trial, and what do its raw intervals?

Published, a window is an hour of one value a minute, and so it is in a trial of two hours or more. Of a shorter
one an interval is one of the load driver's (a second), and the window a third of the trial.

A second resembles the one before it, so sixty of them carry less information than sixty independent ones. The
effective number of intervals follows from the autocorrelation of both series; with it Fisher's interval
for r has its nominal coverage. tests/simulated shows it, on white and on autocorrelated noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.expecto.findings import (
    WAIT_SERIES,
    Correlation,
    ExpectoFinding,
    WaitTypeFinding,
)
from pgdrag.findings.expecto.published import (
    Values,
    angle_deg,
    band,
    counted_over,
    is_significant,
    mid_range,
    pearson,
    per_min,
    rounded,
    smoothed_correlation,
    trailing_medians,
    trend_r2,
    whole_intervals,
    window_of,
)
from pgdrag.findings.mechanisms.signs import adjusted
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings, Series, StatementUse
from pgdrag.stats.distributions import normal_beyond, normal_quantile

_INTERVALS_MIN = 10
# In every sample of the sessions; the other types are only where they were seen.
_ALWAYS_THERE = WAIT_SERIES["IO"]
CONFIDENCE = 0.95
_LAGS_SHARE = 5  # autocorrelations are used up to a fifth of the length
_MOST_R = 1 - 1e-12  # Fisher's transformation of 1 is infinite


def expecto_finding(samples: Sequence[Sample], recordings: Recordings) -> ExpectoFinding | None:
    """Return pg_expecto's view of a trial; None without waits over time, or with fewer than 10 intervals.

    Args:
        samples: what the driver counted, interval by interval.
        recordings: with series of sessions by what they wait for, and statements where they were counted.
    """
    series = {one.name: one for one in recordings.series}
    whole = whole_intervals(samples)
    if _ALWAYS_THERE not in series or not whole:
        return None
    waits = {
        kind: _by_interval(series[name], whole)
        for kind, name in WAIT_SERIES.items()
        if name in series
    }
    seen = ~np.isnan(np.array(list(waits.values()))).any(axis=0)
    counted = counted_over(whole, recordings)
    kept = seen & counted.is_known
    if kept.sum() < _INTERVALS_MIN:
        return None
    rates = per_min(whole)[kept]
    waits = {kind: values[kept] for kind, values in waits.items() if values[kept].any()}
    window = window_of([one.t_s for one, is_kept in zip(whole, kept, strict=True) if is_kept])
    speed = counted.speed(kept, window)
    # A type that was not seen in an interval has no count there, rather than one of 0.
    medians = {
        kind: trailing_medians(np.where(values > 0, values, np.nan), window)
        for kind, values in waits.items()
    }
    waitings = sum(medians.values(), start=np.zeros(len(speed)))
    found = [
        _wait_type(kind, rates, waits[kind], smooth, waitings) for kind, smooth in medians.items()
    ]
    found.sort(key=lambda one: (-one.share, -one.sessions, one.wait_type))
    q = adjusted({one.wait_type: one.sound.p for one in found if one.sound is not None})
    elapsed_s = sum(one.duration_s for one in samples)
    statements = recordings.of(StatementUse)
    return ExpectoFinding(
        intervals=len(rates),
        interval_s=float(np.median([one.duration_s for one in whole])),
        window=window,
        speed_per_min=float(speed.mean()),
        counted=counted.source,
        calls_per_min=60 * sum(x.calls for x in statements) / elapsed_s if statements else None,
        rows_per_min=60 * sum(x.rows for x in statements) / elapsed_s if statements else None,
        waitings=float(waitings.mean()),
        speed_angle_deg=angle_deg(speed),
        waitings_angle_deg=angle_deg(waitings),
        speed_r2=trend_r2(speed),
        waitings_r2=trend_r2(waitings),
        published=smoothed_correlation(speed, waitings),
        wait_types=tuple(replace(one, q=q.get(one.wait_type)) for one in found),
    )


def _wait_type(
    kind: str, rates: Values, sessions: Values, smooth: Values, waitings: Values
) -> WaitTypeFinding:
    total = mid_range(waitings)
    share = mid_range(smooth) / total if total else 0.0
    published = smoothed_correlation(waitings, smooth)
    r = None if published is None else published.r
    weighted = None if r is None else rounded(r * share)
    is_shown = r is not None and is_significant(r, len(smooth))
    return WaitTypeFinding(
        wait_type=kind,
        sessions=float(sessions.mean()),
        share=share,
        published=published,
        weighted=weighted,
        band=band(weighted) if weighted is not None and is_shown else None,
        sound=correlation(rates, sessions),
        q=None,
        r2=None if r is None else rounded(r**2),
    )


def _by_interval(series: Series, samples: Sequence[Sample]) -> Values:
    """Return the mean of a series over each sample's interval; NaN where it has no value."""
    times, sums = np.array(series.times_s), np.concatenate(([0.0], np.cumsum(series.values)))
    begins = np.searchsorted(times, [one.t_s - one.duration_s for one in samples], side="right")
    ends = np.searchsorted(times, [one.t_s for one in samples], side="right")
    counts = ends - begins
    means = (sums[ends] - sums[begins]) / np.maximum(counts, 1)
    return np.where(counts > 0, means, np.nan)


def correlation(one: Values, other: Values) -> Correlation | None:
    """Return r of the intervals as counted; None where a side is constant.

    With three effective intervals or fewer, the interval is all of -1 to 1, and p is 1.
    """
    r = pearson(one, other)
    if r is None:
        return None
    n = effective_n(one, other)
    if n <= 3:
        return Correlation(r, -1.0, 1.0, 1.0, n)
    z = math.atanh(max(min(r, _MOST_R), -_MOST_R))
    se = 1 / math.sqrt(n - 3)
    half = normal_quantile((1 + CONFIDENCE) / 2) * se
    p = 2 * normal_beyond(abs(z) / se)
    return Correlation(r, math.tanh(z - half), math.tanh(z + half), p, n)


def effective_n(one: Values, other: Values) -> float:
    """Return how many independent pairs carry as much information on r as these; never more than there are.

    Source: Pyper and Peterman 1998, equation 1, with autocorrelations by their equation 7 (Box and
    Jenkins' estimate without its bias toward 0) and products summed up to a fifth of the length.
    """
    n = len(one)
    kept = n - np.arange(1.0, n // _LAGS_SHARE + 1)  # pairs at each lag
    products = _autocorrelations(one, kept) * _autocorrelations(other, kept)
    return n / max(1 + 2 * float((kept / n * products).sum()), 1.0)


def _autocorrelations(values: Values, kept: Values) -> Values:
    n, centred = len(values), values - values.mean()
    sums = np.correlate(centred, centred, "full")[n - 1 :]
    return np.asarray(sums[1 : len(kept) + 1] / sums[0] * n / kept)


EXPECTO = TreatmentAnalysis(
    "expecto",
    ExpectoFinding,
    lambda one, _: expecto_finding(one.trials.samples, one.trials.recordings),
)
