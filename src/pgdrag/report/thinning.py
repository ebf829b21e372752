"""Which points of a long series stand for all, so that a file stays small and no extreme is lost?

Nothing is smoothed, here or anywhere in the report: a trailing mean or median draws waves where there
is only noise, moves each peak to a later time, and lets two quantities that have nothing in common
appear to move together. What is left out is what a picture could not show beside the points kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pgdrag.report.document import Recording, Trace


def points_of_each(lengths: Sequence[int], *, most: int, least: int, in_all: int) -> int:
    """Return how many points each line may have, so that a document does not grow with its lines.

    Args:
        lengths: points of every line of the document.
        most, least: bounds of what is returned; the lower one is kept even if `in_all` is not.
        in_all: points of all lines together.
    """
    points = most
    while points > least and sum(min(length, points) for length in lengths) > in_all:
        points -= 2
    return max(points, least)


def thinned_recording(recording: Recording, points: int) -> Recording:
    """Return a recording with each of its lines thinned."""
    panels = tuple(
        replace(panel, traces=tuple(thinned(trace, points) for trace in panel.traces))
        for panel in recording.panels
    )
    return replace(recording, panels=panels)


def thinned(trace: Trace, points: int) -> Trace:
    """Return a trace of at most that many points: the lowest and the highest of each stretch of time.

    The two stand in the order seen, each for a half of the stretch, so that lines that were read at
    the same moments still share theirs. A trace that is short enough is returned as it is; a stretch
    in which no value is known stays a gap.
    """
    assert points >= 2, points
    if len(trace.times_s) <= points:
        return trace
    kept = list(_stretches(trace, points // 2))
    return replace(
        trace,
        times_s=tuple(t_s for t_s, _ in kept),
        values=tuple(value for _, value in kept),
    )


def thinned_points(
    points: Sequence[tuple[float, float]], most: int
) -> tuple[tuple[float, float], ...]:
    """Return (second, value) pairs thinned as a trace is."""
    times_s, values = zip(*points, strict=True)
    kept = thinned(Trace("", 0.0, times_s, values), most)
    return tuple(
        (t_s, value)
        for t_s, value in zip(kept.times_s, kept.values, strict=True)
        if value is not None
    )


def _stretches(trace: Trace, count: int) -> Iterator[tuple[float, float | None]]:
    step_s = (trace.times_s[-1] - trace.begin_s) / count

    def stretch(at: int) -> int:
        return min(max(math.ceil((trace.times_s[at] - trace.begin_s) / step_s), 1), count) - 1

    for number, places in groupby(range(len(trace.times_s)), stretch):
        first, second = _extremes([trace.values[at] for at in places])
        begin_s = trace.begin_s + number * step_s
        yield begin_s + step_s / 2, first
        yield begin_s + step_s, second


def _extremes(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    known = [(value, at) for at, value in enumerate(values) if value is not None]
    if not known:
        return None, None
    first, second = sorted((min(known), max(known)), key=lambda pair: pair[1])
    return first[0], second[0]
