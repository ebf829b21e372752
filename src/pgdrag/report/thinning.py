"""Which points of a long series are kept, so that a file stays small and no extreme is lost?

Nothing is smoothed, here or anywhere in the report: a trailing mean or median draws waves where there
is only noise, moves each peak to a later time, and lets two quantities that have nothing in common
appear to move together. What is left out is what a picture could not show beside the points kept.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pgdrag.english import listed
from pgdrag.report.document import Block, Details, Paragraph, Recording, TimeSeries, Tone, Trace
from pgdrag.report.series_script import series_of


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


def fitted(
    blocks: Sequence[Block], points: int, left_out: Collection[str] = ()
) -> tuple[Block, ...]:
    """Return blocks with the lines of their time series thinned, and without the pictures of some recordings.

    Args:
        points: of each line, at most.
        left_out: the names of the recordings whose details are left out; said at the end.
    """
    whole = {x.name: x for one in series_of(blocks) for x in (one.recording, *one.others)}
    thin = {
        name: _thinned_recording(x, points) for name, x in whole.items() if name not in left_out
    }

    def each(block: Block) -> Block:
        if isinstance(block, Details):
            return replace(block, blocks=tuple(each(inner) for inner in block.blocks))
        if not isinstance(block, TimeSeries):
            return block
        lengths = (len(trace.times_s) for trace in _traces(block))
        how = (
            f" Of lines of more than {points} intervals the lowest and the highest of each of {points // 2} stretches "
            "of time are drawn."
        )
        return replace(
            block,
            recording=thin[block.recording.name],
            others=tuple(thin[one.name] for one in block.others if one.name in thin),
            caption=block.caption + how if max(lengths, default=0) > points else block.caption,
        )

    names = [one.recording.name for one in series_of(blocks) if one.recording.name in left_out]
    kept = (x for x in blocks if not any(one.recording.name in names for one in series_of([x])))
    if not names:
        return tuple(each(block) for block in kept)
    note = (
        f"To keep this file small, the series of {listed(names)} are left out: throughput changed least there, "
        "against what each is compared with. JSON has all of them."
    )
    return (*(each(block) for block in kept), Paragraph(note, Tone.MUTED))


def _traces(figure: TimeSeries) -> Iterator[Trace]:
    for recording in (figure.recording, *figure.others):
        for panel in recording.panels:
            yield from panel.traces


def _thinned_recording(recording: Recording, points: int) -> Recording:
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
        trace, times_s=tuple(t_s for t_s, _ in kept), values=tuple(value for _, value in kept)
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
