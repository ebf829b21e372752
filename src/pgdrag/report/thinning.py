"""Which points of a long series stand for all, so that a file stays small and no extreme is lost?

Nothing is smoothed, here or anywhere in the report: a trailing mean or median draws waves where there
is only noise, moves each peak to a later time, and lets two quantities that have nothing in common
appear to move together. What is left out is what a picture could not show beside the points kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pgdrag.report.document import Trace

_MOST = 600  # points of one line: about two for each pixel of a phone
_IN_ALL = 4_200  # points of the same line in all recordings of a document
_LEAST = 60


def points_of_each(recordings: int) -> int:
    """Return how many points a line may have so that a document of so many recordings stays small."""
    return max(_LEAST, min(_MOST, _IN_ALL // max(recordings, 1)))


def thinned(trace: Trace, points: int) -> Trace:
    """Return a trace of at most that many points: the lowest and the highest of each stretch of time.

    A trace that is short enough is returned as it is; a stretch without any value stays a gap.
    """
    assert points >= 2, points
    if len(trace.times_s) <= points:
        return trace
    kept = list(_kept(trace, points // 2))
    return replace(
        trace,
        times_s=tuple(trace.times_s[at] for at in kept),
        values=tuple(trace.values[at] for at in kept),
    )


def _kept(trace: Trace, stretches: int) -> Iterator[int]:
    first_s, last_s = trace.times_s[0], trace.times_s[-1]
    step_s = (last_s - first_s) / stretches

    def stretch(at: int) -> int:
        return min(int((trace.times_s[at] - first_s) / step_s), stretches - 1)

    for _, places in groupby(range(len(trace.times_s)), stretch):
        yield from _extremes(trace.values, tuple(places))


def _extremes(values: Sequence[float | None], places: Sequence[int]) -> list[int]:
    known = [(value, at) for at in places if (value := values[at]) is not None]
    if not known:
        return [places[0]]
    return sorted({min(known)[1], max(known)[1]})
