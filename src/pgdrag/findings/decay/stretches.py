"""Which part of a trial's window is to be fitted, and in which intervals?

Where something is held, only while it is: what comes after is a recovery, and has its own analysis.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pgdrag.findings.holds.spans import Span, held_span
from pgdrag.model import Result
from pgdrag.model.measurement import Measurement, Sample
from pgdrag.stats.batches import samples_within
from pgdrag.stats.curve_fit import INTERVALS_MIN, Stretch

_INTERVALS_MAX = 120
_COMMITS_MIN = 30  # in an interval on average: below, the logarithm of a count is not normal


def fitted_stretch(result: Result, measured: Measurement) -> Stretch | None:
    """Return the part of the trial's window that a decay is fitted to; None where it is too short."""
    span = held_span(result, measured) or Span(0.0, measured.elapsed_s, is_released=False)
    return stretch_of(measured.samples, span.begin_s, span.end_s)


def stretch_of(samples: Sequence[Sample], begin_s: float, end_s: float) -> Stretch | None:
    """Return the samples between two moments in at most 120 intervals, each with commits."""
    whole = _whole(samples_within(samples, begin_s, end_s))
    committed = sum(one.committed for one in whole)
    if len(whole) < INTERVALS_MIN or not committed:
        return None
    size = max(
        math.ceil(len(whole) / _INTERVALS_MAX), math.ceil(_COMMITS_MIN * len(whole) / committed)
    )
    while len(whole) // size >= INTERVALS_MIN:
        groups = _groups(whole, size)
        if all(sum(one.committed for one in group) for group in groups):
            return _stretch(groups)
        size *= 2
    return None


def _whole(samples: Sequence[Sample]) -> list[Sample]:
    """Leave out what is much shorter than the rest, as the last interval may be."""
    timed = [one for one in samples if one.duration_s > 0]
    if not timed:
        return []
    usual_s = statistics.median(one.duration_s for one in timed)
    return [one for one in timed if one.duration_s > usual_s / 2]


def _groups(samples: Sequence[Sample], size: int) -> list[Sequence[Sample]]:
    count = len(samples) // size
    ends = [*(at * size for at in range(count)), len(samples)]
    return [samples[ends[at] : ends[at + 1]] for at in range(count)]


def _stretch(groups: Sequence[Sequence[Sample]]) -> Stretch:
    times_s, rates = [], []
    for group in groups:
        lasted_s = sum(one.duration_s for one in group)
        begin_s = group[0].t_s - group[0].duration_s
        times_s.append((begin_s + group[-1].t_s) / 2)
        rates.append(sum(one.committed for one in group) / lasted_s)
    first, last = groups[0][0], groups[-1][-1]
    return Stretch(first.t_s - first.duration_s, last.t_s, tuple(times_s), tuple(rates))
