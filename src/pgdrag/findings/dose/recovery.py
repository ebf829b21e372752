"""How long after the horizon is free again is throughput back, and does a vacuum help?

A trial's throughput is back when five seconds on end come to 95 % of what they were: before the hold
where the window saw that, else by the fit at the hold's beginning, else on the rung that holds nothing.
What that reference is unsure of, and what five seconds are, widens the time to a range; and a rate is
that of an interval, so that throughput may have been back since any moment of the one before.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgdrag.english import counted
from pgdrag.findings.dose.findings import Recovery
from pgdrag.findings.dose.variants import HeldRung, Variant
from pgdrag.findings.holds.levels import AFTER, NOTHING
from pgdrag.findings.holds.spans import Span, held_span
from pgdrag.model.measurement import Measurement, Sample
from pgdrag.stats.batches import samples_within
from pgdrag.stats.curve_fit import CONFIDENCE, Estimate
from pgdrag.stats.interval import Interval
from pgdrag.units import format_duration

BACK_SHARE = 0.95
_STRETCH_S = 5.0
_WATCHED_MIN_S = 6.0  # after the release, or there is nothing to see


@dataclass(frozen=True)
class _Back:
    """When one trial was back, in seconds from the release; infinite: not within its window."""

    low: float
    center: float
    high: float
    watched_s: float


def recoveries(variant: Variant, share: float = BACK_SHARE) -> tuple[Recovery, ...]:
    """Return the recovery of each rung of the variant whose holds end within the window."""
    found = (_of_rung(one, variant.free, share) for one in variant.held)
    return tuple(one for one in found if one is not None)


def _of_rung(rung: HeldRung, free: HeldRung | None, share: float) -> Recovery | None:
    trials = []
    references: list[str] = []
    lengths = []
    for result, measured in rung.measured:
        span = held_span(result, measured)
        if span is None or not span.is_released:
            continue
        if measured.elapsed_s - span.end_s < _WATCHED_MIN_S:
            continue
        reference = _reference(rung, free, result.trial.number, measured, span)
        if reference is None:
            continue
        references.append(reference[0])
        lengths.append(span.length_s)
        trials.append(_back(measured, span, reference[1], share))
    if not trials:
        return None
    back_s = Interval(
        min(one.low for one in trials),
        # Of an even number the later one: who was not back within the window must count.
        statistics.median_high([one.center for one in trials]),
        max(one.high for one in trials),
        CONFIDENCE,
        f"range of {counted(len(trials), 'trial')}",
    )
    watched_s = min(one.watched_s for one in trials)
    if math.isinf(back_s.center):
        back_s = Interval(watched_s, math.inf, math.inf, CONFIDENCE, back_s.method)
    found = Recovery(
        rung=rung.name,
        held_s=statistics.median(lengths),
        after_release=rung.levels.get(AFTER, NOTHING),
        reference=references[0],
        share=share,
        back_s=back_s,
        watched_s=watched_s,
        trials=len(trials),
        censored=sum(math.isinf(one.center) for one in trials),
        sentence="",
    )
    return Recovery(**{**vars(found), "sentence": _sentence(found)})


def _reference(
    rung: HeldRung, free: HeldRung | None, number: int, measured: Measurement, span: Span
) -> tuple[str, Estimate] | None:
    before = samples_within(measured.samples, 0.0, span.begin_s)
    if sum(one.duration_s for one in before) >= _STRETCH_S:
        found = _mean_log(before)
        if found is not None:
            return "before the hold", found
    if rung.decay is not None and rung.decay.direction == "falling":
        fit = next(x.fit for x in rung.decay.trials if x.result.trial.number == number)
        return "the hold's beginning", fit.log_rate(
            fit.stretch.begin_s, rung.decay.shares, rung.decay.chosen
        )
    if free is not None and free.decay is not None:
        middle_s = (free.decay.begin_s + free.decay.end_s) / 2
        return free.name, free.decay.rate(middle_s)
    return None


def _mean_log(samples: Sequence[Sample]) -> Estimate | None:
    logs = [math.log(one.committed / one.duration_s) for one in samples if one.committed]
    if len(logs) < 3:
        return None
    center = float(np.mean(logs))
    half = 2 * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    return Estimate(center - half, center, center + half)


def _back(measured: Measurement, span: Span, reference: Estimate, share: float) -> _Back:
    after = samples_within(measured.samples, span.end_s, measured.elapsed_s)
    stretches = _stretches(after, span.end_s)
    # How far five seconds lie from the next five that overlap with them hardly: their own noise.
    noise = _noise(after)
    wanted = [
        bound + math.log(share) + way * noise
        for bound, way in ((reference.low, -1), (reference.center, 0), (reference.high, 1))
    ]
    low, center, high = (_first(stretches, level) for level in wanted)
    resolution_s = max((one.duration_s for one in after), default=0.0)
    low = max(low - resolution_s, 0.0)
    return _Back(low, center, high, measured.elapsed_s - span.end_s)


def _stretches(samples: Sequence[Sample], release_s: float) -> list[tuple[float, float]]:
    """Return for each sample when it begins after the release, and the log rate of five seconds from it."""
    found = []
    end = 0
    for at, first in enumerate(samples):
        begin_s = first.t_s - first.duration_s
        while end < len(samples) and samples[end].t_s <= begin_s + _STRETCH_S + 1e-6:
            end += 1
        within = samples[at:end]
        lasted_s = sum(one.duration_s for one in within)
        committed = sum(one.committed for one in within)
        if lasted_s >= _STRETCH_S * 0.9 and committed:
            found.append((max(begin_s - release_s, 0.0), math.log(committed / lasted_s)))
    return found


def _noise(samples: Sequence[Sample]) -> float:
    """Return the 95 % half-width of a mean over five seconds, from what neighbours differ by."""
    logs = np.array([math.log(one.committed / one.duration_s) for one in samples if one.committed])
    if len(logs) < 3:
        return 0.0
    sd = float(np.std(np.diff(logs))) / math.sqrt(2)
    usual_s = statistics.median(one.duration_s for one in samples)
    return 2 * sd / math.sqrt(max(_STRETCH_S / usual_s, 1.0))


def _first(stretches: Sequence[tuple[float, float]], level: float) -> float:
    return next((after_s for after_s, log in stretches if log >= level), math.inf)


def _sentence(found: Recovery) -> str:
    after = "" if found.after_release == NOTHING else f" and {found.after_release}"
    what = f"after a hold of {format_duration(round(found.held_s))}{after}"
    level = f"{found.share * 100:.0f} % of {_reference_words(found)}"
    if math.isinf(found.back_s.center):
        return f"{what} not back to {level} within {format_duration(round(found.watched_s))}"
    upper = (
        format_duration(round(found.back_s.high, 1))
        if math.isfinite(found.back_s.high)
        else "beyond the window"
    )
    return (
        f"{what} back to {level} in {format_duration(round(found.back_s.center, 1))} "
        f"({format_duration(round(found.back_s.low, 1))} to {upper})"
    )


def _reference_words(found: Recovery) -> str:
    if found.reference in ("before the hold", "the hold's beginning"):
        what = "the rate " + ("" if found.reference == "before the hold" else "at ")
        return what + found.reference
    return f"{found.reference}'s rate"
