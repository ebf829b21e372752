"""What do pg_expecto's formulas say of one trial, and what do its raw intervals?

Published, a window is an hour of one value a minute. A trial is shorter: here an interval is one of
the load driver's (a second), and the window a third of the trial, unless the caller asks for another.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgdrag.findings.expecto.findings import WAIT_SERIES, ExpectoFinding, WaitTypeFinding
from pgdrag.findings.expecto.published import (
    Values,
    angle_deg,
    band,
    smoothed_correlation,
    trailing_medians,
)
from pgdrag.findings.expecto.sound import correlation
from pgdrag.findings.expecto.speed import WINDOW_SHARE, per_min, whole_intervals
from pgdrag.findings.mechanisms.signs import adjusted
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings, Series, StatementUse

LEAST_INTERVALS = 10
# Each look at the sessions tells of these; of the other types only where they were seen.
_ALWAYS_THERE = WAIT_SERIES["IO"]


def expecto_finding(
    samples: Sequence[Sample], recordings: Recordings, *, window_share: float = WINDOW_SHARE
) -> ExpectoFinding | None:
    """Return pg_expecto's view of a trial; None without waits over time, or with fewer than 10 intervals.

    Args:
        samples: what the driver counted, interval by interval.
        recordings: with series of sessions by what they wait for, and statements where they were counted.
        window_share: length of the trailing windows, in (0, 1) of the trial.
    """
    assert 0 < window_share < 1, window_share
    seen = _intervals(samples, {one.name: one for one in recordings.series})
    if seen is None:
        return None
    window = max(round(window_share * len(seen.per_min)), 1)
    speed = trailing_medians(seen.per_min, window)
    medians = {kind: trailing_medians(values, window) for kind, values in seen.waits.items()}
    waitings = sum(medians.values(), start=np.zeros(len(speed)))
    calls, rows = _per_min(recordings.of(StatementUse), samples)
    return ExpectoFinding(
        intervals=len(seen.per_min),
        interval_s=seen.interval_s,
        window=window,
        speed_per_min=float(speed.mean()),
        calls_per_min=calls,
        rows_per_min=rows,
        waitings=float(waitings.mean()),
        speed_angle_deg=angle_deg(speed),
        waitings_angle_deg=angle_deg(waitings),
        published=smoothed_correlation(speed, waitings),
        wait_types=_with_false_discoveries(_wait_types(seen, speed, medians)),
    )


@dataclass(frozen=True)
class _Intervals:
    """Commits a minute and waiting sessions by wait type, of the same intervals."""

    interval_s: float
    per_min: Values
    waits: Mapping[str, Values]


def _intervals(samples: Sequence[Sample], series: Mapping[str, Series]) -> _Intervals | None:
    if _ALWAYS_THERE not in series or not samples:
        return None
    usual_s = statistics.median(one.duration_s for one in samples)
    whole = whole_intervals(samples)
    waits = {
        kind: _by_interval(series[name], whole)
        for kind, name in WAIT_SERIES.items()
        if name in series
    }
    seen = ~np.isnan(np.array(list(waits.values()))).any(axis=0)
    if seen.sum() < LEAST_INTERVALS:
        return None
    known = {kind: values[seen] for kind, values in waits.items() if values[seen].any()}
    return _Intervals(usual_s, per_min(whole)[seen], known)


def _wait_types(
    seen: _Intervals, speed: Values, medians: Mapping[str, Values]
) -> Iterator[WaitTypeFinding]:
    whole = float(sum(values.sum() for values in medians.values()))
    for kind, values in seen.waits.items():
        share = float(medians[kind].sum()) / whole if whole else 0.0
        published = smoothed_correlation(speed, medians[kind])
        weighted = None if published is None else published.r * share
        yield WaitTypeFinding(
            wait_type=kind,
            sessions=float(values.mean()),
            share=share,
            published=published,
            weighted=weighted,
            band=None if weighted is None else band(weighted),
            sound=correlation(seen.per_min, values),
            q=None,
        )


def _with_false_discoveries(found: Iterable[WaitTypeFinding]) -> tuple[WaitTypeFinding, ...]:
    """Return wait types with their q, those with the largest share of WAITINGS first."""
    ranked = sorted(found, key=lambda one: (-one.share, -one.sessions, one.wait_type))
    q = adjusted({one.wait_type: one.sound.p for one in ranked if one.sound is not None})
    return tuple(replace(one, q=q.get(one.wait_type)) for one in ranked)


def _by_interval(series: Series, samples: Sequence[Sample]) -> Values:
    """Return the mean of a series over each sample's interval; NaN where it says nothing of it."""
    times, sums = np.array(series.times_s), np.concatenate(([0.0], np.cumsum(series.values)))
    begins = np.searchsorted(times, [one.t_s - one.duration_s for one in samples], side="right")
    ends = np.searchsorted(times, [one.t_s for one in samples], side="right")
    counts = ends - begins
    means = (sums[ends] - sums[begins]) / np.maximum(counts, 1)
    return np.where(counts > 0, means, np.nan)


def _per_min(
    statements: Sequence[StatementUse], samples: Sequence[Sample]
) -> tuple[float | None, float | None]:
    """Return calls and rows a minute over the whole window, which is all that is known of them."""
    elapsed_s = sum(one.duration_s for one in samples)
    if not statements or not elapsed_s:
        return None, None
    calls, rows = sum(one.calls for one in statements), sum(one.rows for one in statements)
    return 60 * calls / elapsed_s, 60 * rows / elapsed_s
