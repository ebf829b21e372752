"""Which part of a trial's window is fitted, and in which intervals?

Where the horizon is held, only the hold: what comes after is a recovery, with an analysis of its own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

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
