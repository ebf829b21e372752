"""How are latencies distributed on each treatment? One shape each, over one logarithmic axis, with its modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pgdrag.english import capital, counted, cut, listed, percent_words
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.measurement import Latency
from pgdrag.report.document import Figure
from pgdrag.report.panels_chart import Line, Panel, panels_chart
from pgdrag.report.series_words import spark
from pgdrag.report.svg import LogScale
from pgdrag.stats.hdr_histogram import Places, bounds_us, decoded
from pgdrag.stats.modes import Mode, Shape, modes_of, shape_of
from pgdrag.units import format_duration

_TITLE = "Distribution of latency"
_MAJORITY = 0.6  # of the transactions about a mode: it is named after their type
_MOST_NAMED = 2  # modes, as a phone has room for
_TYPE_LENGTH = 16  # characters
_TAIL = 0.0005  # of a distribution, at each end, may lie outside the picture


@dataclass(frozen=True)
class _Latencies:
    """All committed transactions of a treatment's trial: their shape, and how many are of which type."""

    rung: TreatmentFinding
    shape: Shape
    types: Mapping[str, Shape]

    @property
    def words(self) -> str:
        """Return `1.2 ms (80 %, payment) and 18 ms (20 %, new_order)`."""
        modes = modes_of(self.shape)
        if not modes:
            count = round(sum(self.shape.counts))
            return f"{counted(count, 'transaction')}: too few for modes"
        if len(modes) > _MOST_NAMED:
            ends = (_about(one.center) for one in (modes[0], modes[-1]))
            return f"{len(modes)} modes, {' to '.join(ends)}"
        if len(modes) == 1:
            return _about(modes[0].center)
        return listed([f"{_about(one.center)} ({self._of(one)})" for one in modes])

    def _of(self, mode: Mode) -> str:
        """Return which share of transactions is about a mode, and of which type most of them are."""
        about = {name: _between(one, mode.low, mode.high) for name, one in self.types.items()}
        name = max(about, key=lambda x: about[x])
        is_named = len(about) > 1 and about[name] >= _MAJORITY * sum(about.values())
        return f"{percent_words(mode.share)}{f', {cut(name, _TYPE_LENGTH)}' if is_named else ''}"


def latency_figure(findings: Findings) -> Figure | None:
    """Return the picture of all treatments whose histograms are known; None where there is none."""
    found = [one for rung in findings.rungs if (one := _latencies(rung)) is not None]
    if not found:
        return None
    scale = LogScale.around([x for one in found for x in _extent(one.shape)])
    panels = [_panel(one) for one in found]
    description = "; ".join(f"{panel.name}: {panel.words}" for panel in panels)
    caption = (
        "Height: transactions in steps of 10 %, not smoothed; each shape has its own scale. In words: its modes, "
        "with the share of transactions about each and the type that most of these have."
    )
    chart = panels_chart(
        "latency-chart",
        panels,
        _TITLE,
        description,
        scale=scale,
        plot=40,
        words=lambda us: format_duration(us / 1e6),
    )
    return Figure(chart, caption, _text(found, scale))


def _latencies(rung: TreatmentFinding) -> _Latencies | None:
    counts = {name: places for name, one in rung.latency.items() if (places := _places(one)).any()}
    if not counts:
        return None
    whole = np.zeros(max(map(len, counts.values())), np.int64)
    for places in counts.values():
        whole[: len(places)] += places
    return _Latencies(rung, _shape(whole), {name: _shape(x) for name, x in counts.items()})


def _places(latency: Latency) -> Places:
    """Return the places of a histogram; none where a run of an older version, or another program, has none."""
    try:
        return decoded(latency.encoded) if latency.encoded else np.zeros(0, np.int64)
    except ValueError:
        return np.zeros(0, np.int64)


def _shape(counts: Places) -> Shape:
    return shape_of(*bounds_us(len(counts)), counts)


def _panel(one: _Latencies) -> Panel:
    # A step is a horizontal line from its begin to its end.
    counts = one.shape.counts
    points = [
        (one.shape.edge(at + end), count) for at, count in enumerate(counts) for end in (0, 1)
    ]
    closed = [(points[0][0], 0.0), *points, (points[-1][0], 0.0)]
    lines = (Line(closed, "sure", is_area=True), Line(closed, "trace"))
    return Panel(one.rung.rung.name, one.rung.rung.title, one.words, lines, max(counts), "")


def _extent(shape: Shape) -> tuple[float, float]:
    """Return where a distribution begins and ends, without the invisible part of its tails."""
    below = np.cumsum(shape.counts) / sum(shape.counts)
    low = int(np.searchsorted(below, _TAIL))
    high = int(np.searchsorted(below, 1 - _TAIL))
    return shape.edge(low), shape.edge(min(high + 1, len(shape.counts)))


def _between(shape: Shape, low: float, high: float) -> float:
    edges = (shape.edge(at) * 1.0001 for at in range(len(shape.counts)))
    return sum(n for edge, n in zip(edges, shape.counts, strict=True) if low <= edge < high)


def _about(value_us: float) -> str:
    """Return a time in two digits: the steps are 10 % long."""
    return format_duration(float(f"{value_us:.2g}") / 1e6)


def _text(found: list[_Latencies], scale: LogScale) -> str:
    width = max(len(one.rung.rung.name) for one in found)
    edges = np.geomspace(scale.low, scale.high, 41)
    lines = []
    for one in found:
        counts = [_between(one.shape, low, high) for low, high in pairwise(edges)]
        lines.append(f"{one.rung.rung.name:{width}}  {spark(counts)}  {one.words}")
    ends = f"{_about(scale.low)} to {_about(scale.high)}, logarithmic"
    return "\n".join([*lines, f"{'':{width}}  {capital(ends)}"])
