"""How long after the release of the horizon does throughput take to recover, and does a vacuum help?

A trial has recovered when five consecutive seconds reach 95 % of the reference: the rate before the hold
where the window shows it, else the fit at the beginning of the hold, else the treatment without a hold.
The range covers the uncertainty of that reference and of five seconds, and the interval before, in which
throughput may have recovered at any moment.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from pgdrag.english import counted
from pgdrag.findings.dose.findings import Recovery
from pgdrag.findings.dose.variants import HeldRung, Variant, mean_log_rate
from pgdrag.findings.holds.levels import AFTER, NOTHING, Span, held_span
from pgdrag.model.measurement import Measurement, Sample
from pgdrag.stats.batches import samples_within
from pgdrag.stats.curve_fit import CONFIDENCE, Estimate
from pgdrag.stats.interval import Interval

BEFORE, BEGINNING = "before the hold", "the hold's beginning"

_BACK_SHARE = 0.95
_STRETCH_S = 5.0
_WATCHED_MIN_S = 6.0  # after the release, or there is nothing to see


def recoveries(variant: Variant) -> tuple[Recovery, ...]:
    """Return the recovery of each treatment of the variant whose holds end within the window."""
    found = (_of_rung(one, variant.free) for one in variant.held)
    return tuple(one for one in found if one is not None)


def _of_rung(rung: HeldRung, free: HeldRung | None) -> Recovery | None:
    spans, references, backs, watched = [], [], [], []
    for result, measured in rung.measured:
        span = held_span(result, measured)
        if span is None or not span.is_released:
            continue
        reference = _reference(rung, free, result.trial.number, measured, span)
        watched_s = measured.elapsed_s - span.end_s
        if reference is not None and watched_s >= _WATCHED_MIN_S:
            spans.append(span)
            references.append(reference[0])
            backs.append(_back(measured, span, reference[1]))
            watched.append(watched_s)
    if not backs:
        return None
    centers = [center for _, center, _ in backs]
    # Of an even number the later one: a trial that did not recover within the window must count.
    center = statistics.median_high(centers)
    low, high = min(low for low, _, _ in backs), max(high for _, _, high in backs)
    if math.isinf(center):
        low, high = min(watched), math.inf
    method = f"range of {counted(len(backs), 'trial')}"
    return Recovery(
        rung=rung.name,
        held_s=statistics.median(span.length_s for span in spans),
        after_release=rung.levels.get(AFTER, NOTHING),
        reference=references[0],
        share=_BACK_SHARE,
        back_s=Interval(low, center, high, CONFIDENCE, method),
        watched_s=min(watched),
        trials=len(backs),
        censored=sum(math.isinf(one) for one in centers),
    )


def _reference(
    rung: HeldRung, free: HeldRung | None, number: int, measured: Measurement, span: Span
) -> tuple[str, Estimate] | None:
    before = samples_within(measured.samples, 0.0, span.begin_s)
    if sum(one.duration_s for one in before) >= _STRETCH_S:
        found = mean_log_rate(measured.samples, 0.0, span.begin_s)
        if found is not None:
            return BEFORE, found
    decay = rung.decay
    if decay is not None and decay.direction == "falling":
        fit = next(x.fit for x in decay.trials if x.result.trial.number == number)
        return BEGINNING, fit.log_rate(fit.stretch.begin_s, decay.shares, decay.chosen)
    rate = free.middle_rate() if free is not None else None
    return (free.name, rate) if free is not None and rate is not None else None


def _back(measured: Measurement, span: Span, reference: Estimate) -> tuple[float, float, float]:
    """Return when a trial had recovered, in seconds from the release, with bounds; infinite: not within its window."""
    after = samples_within(measured.samples, span.end_s, measured.elapsed_s)
    stretches = _stretches(after, span.end_s)
    noise = _noise(after)
    low, center, high = (
        next((at_s for at_s, log in stretches if log >= level + math.log(_BACK_SHARE)), math.inf)
        for level in (reference.low - noise, reference.center, reference.high + noise)
    )
    resolution_s = max((one.duration_s for one in after), default=0.0)
    return max(low - resolution_s, 0.0), center, high


def _stretches(samples: Sequence[Sample], release_s: float) -> list[tuple[float, float]]:
    """Return for each sample when it begins after the release, and the log rate of five seconds from it."""
    found = []
    ends = [one.t_s for one in samples]
    for at, first in enumerate(samples):
        begin_s = first.t_s - first.duration_s
        within = samples[at : bisect_right(ends, begin_s + _STRETCH_S + 1e-6)]
        lasted_s = sum(one.duration_s for one in within)
        committed = sum(one.committed for one in within)
        if lasted_s >= _STRETCH_S * 0.9 and committed:
            found.append((max(begin_s - release_s, 0.0), math.log(committed / lasted_s)))
    return found


def _noise(samples: Sequence[Sample]) -> float:
    """Return the 95 % half-width of a mean over five seconds, from the differences of neighbours."""
    logs = np.array([math.log(one.committed / one.duration_s) for one in samples if one.committed])
    if len(logs) < 3:
        return 0.0
    sd = float(np.std(np.diff(logs))) / math.sqrt(2)
    usual_s = statistics.median(one.duration_s for one in samples)
    return 2 * sd / math.sqrt(max(_STRETCH_S / usual_s, 1.0))
