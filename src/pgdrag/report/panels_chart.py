"""A picture of panels, one below the other, over one axis across: rates over time, doses, distributions.

Each panel has its own scale upwards, from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pgdrag.findings.values import Interval
from pgdrag.report import svg
from pgdrag.report.rows_chart import CIRCLE
from pgdrag.report.svg import LogScale
from pgdrag.units import format_duration

_TITLE, _WORDS, _GAP, _AXIS = 16, 18, 22, 22  # heights
_LEFT, _RIGHT = 1.5, 98.5
_OVER = 1.05  # how far a line may rise above its panel

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One line through (x, y), or the outline of an area; `kind` is its class in the style sheet."""

    points: Sequence[Point]
    kind: str
    is_area: bool = False


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        words: the finding in a few words, on a line of its own: a phone has no room beside the title.
        highest: the y that the panel reaches up to.
        top_words: what `highest` is, in words.
        estimates: of y at some x, with their intervals.
        levels: (y, words) of lines across.
    """

    name: str
    title: str
    words: str
    lines: Sequence[Line]
    highest: float
    top_words: str
    estimates: Sequence[tuple[float, Interval]] = ()
    levels: Sequence[tuple[float, str]] = ()
    is_bad: bool = False


def panels_chart(
    name: str,
    panels: Sequence[Panel],
    title: str,
    description: str,
    *,
    end: float | None = None,
    scale: LogScale | None = None,
    plot: float = 68,
    words: Callable[[float], str] = format_duration,
) -> str:
    """Return the picture; `name` is unique in the document.

    Args:
        end: the end of a linear axis across, which begins at 0.
        scale: a logarithmic axis across, in its place.
        plot: height of a panel's plot.
        words: how a place on the axis reads.
    """
    assert (end is None) != (scale is None), "one axis across"

    def share(x: float) -> float:
        if scale is not None:
            return (scale.at(x) - _LEFT) / (_RIGHT - _LEFT)
        return x / (end or 1.0)

    parts: list[str] = []
    height = _TITLE + _WORDS + plot + _GAP
    for at, panel in enumerate(panels):
        parts += _panel(panel, at * height, plot, share)
    bottom = len(panels) * height
    ticks = scale.ticks() if scale is not None else [(end or 0.0) * part for part in (0, 0.5, 1)]
    for tick in ticks:
        x = _LEFT + (_RIGHT - _LEFT) * share(tick)
        anchor = "start" if x < 3 else "end" if x > 94 else "middle"
        parts.append(svg.text(x, bottom, words(tick), "muted tick", anchor))
    return svg.picture(name, title, description, round(bottom + _AXIS), parts)


def _panel(panel: Panel, top: float, plot: float, share: Callable[[float], float]) -> list[str]:
    def place(x: float, y: float) -> Point:
        return share(x), min(max(y / (panel.highest or 1.0), 0.0), _OVER)

    begin = top + _TITLE + _WORDS
    base = begin + plot
    label = f"\u2002{svg.short_title(panel.title)}" if panel.title else ""
    parts = [
        svg.two_texts(0, top + 12, panel.name, label, kinds=("strong", "label")),
        svg.text(100, top + 28, panel.words, "bad" if panel.is_bad else "strong", "end"),
        svg.text(_LEFT, begin - 4, panel.top_words, "muted tick"),
        svg.line(_LEFT, base, _RIGHT, base, "grid"),
    ]
    for level, level_words in panel.levels:
        y = base - plot * place(0, level)[1] if panel.highest else base
        parts.append(svg.line(_LEFT, y, _RIGHT, y, "grid"))
        parts.append(svg.text(_LEFT, y - 3, level_words, "muted tick"))
    drawn = (
        svg.path_of([place(*one) for one in line.points], line.kind, is_closed=line.is_area)
        for line in panel.lines
    )
    parts.append(svg.plot(begin, plot, "".join(drawn)))
    for at, found in panel.estimates:
        x = _LEFT + (_RIGHT - _LEFT) * share(at)
        low, center, high = (
            base - plot * place(at, y)[1] for y in (found.low, found.center, found.high)
        )
        parts += [svg.line(x, low, x, high, "interval"), svg.mark(x, center, CIRCLE, "found")]
    return parts
