"""What do the two pictures show: the steps, and throughput over time?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.findings.values import Interval
from pgdrag.report import svg
from pgdrag.report.cells import published_ratio

CIRCLE = "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0"
DIAMOND = "M0,-6L6,0L0,6L-6,0Z"
ARROW = "M-5,-6L7,0L-5,6Z"

_LEGEND, _ROW, _AXIS = 26, 46, 24  # heights
_LABEL_Y, _TRACK_Y = 14, 29  # within a row
_SPARK_ROW, _SPARK_Y, _SPARK_HEIGHT = 66, 22, 32


@dataclass(frozen=True)
class StepRow:
    """One rung in the picture of the steps; ratios say how many times slower than the baseline.

    Attributes:
        speed: its throughput in words, or why it has none.
        slowdown: None for the baseline and where there is no number.
        words: the slowdown in words, or "".
        reference: where the step starts: the slowdown of the rung before.
        published: the published slowdown, or None.
    """

    name: str
    title: str
    speed: str
    slowdown: Interval | None
    words: str
    reference: float
    published: float | None
    is_baseline: bool = False


@dataclass(frozen=True)
class TraceRow:
    """One rung in the picture over time: rates per second in the middle of each sample."""

    name: str
    title: str
    words: str
    points: tuple[tuple[float, float], ...]
    end_s: float


def steps_chart(rows: Sequence[StepRow], title: str, description: str) -> str:
    """Return the slowdown of each rung on a logarithmic scale, ours and the published one."""
    scale = _scale(rows)
    bottom = _LEGEND + _ROW * len(rows)
    parts = [*_legend(has_published=any(row.published is not None for row in rows))]
    parts += svg.ratio_axis(scale, _LEGEND, bottom)
    for at, row in enumerate(rows):
        parts += _step(scale, row, _LEGEND + at * _ROW)
    return svg.picture("steps-chart", title, description, bottom + _AXIS, parts)


def steps_text(rows: Sequence[StepRow], *, width: int = 40) -> str:
    """Return the same picture in characters, one line a rung."""
    scale = _scale(rows)
    names = max(len(row.name) for row in rows)
    lines = [f"{row.name:{names}}  {_text_bar(scale, row, width)}  {_text(row)}" for row in rows]
    return "\n".join([*lines, "", "█ this rung  ▒ the rungs before  ◇ published"])


def timeline_chart(rows: Sequence[TraceRow], title: str, description: str) -> str:
    """Return one small line per rung, each on its own scale from 0 to its maximum."""
    parts = []
    for at, row in enumerate(rows):
        top = at * _SPARK_ROW
        base = top + _SPARK_Y + _SPARK_HEIGHT
        parts.append(_label(top, row.name, row.title))
        parts.append(svg.text(100, top + _LABEL_Y, row.words, "muted", "end"))
        parts.append(svg.line(1.5, base, 98.5, base, "grid"))
        highest = max((rate for _, rate in row.points), default=0.0) or 1.0
        points = [(t_s / row.end_s, rate / highest) for t_s, rate in row.points]
        parts.append(svg.trace(top + _SPARK_Y, _SPARK_HEIGHT, points, "trace"))
    return svg.picture("timeline-chart", title, description, _SPARK_ROW * len(rows), parts)


def _scale(rows: Sequence[StepRow]) -> svg.LogScale:
    return svg.LogScale.around([1.0, *(x for row in rows for x in _extent(row))])


def _extent(row: StepRow) -> list[float]:
    """Return every ratio that must be on the scale; a bound near 0 or infinity becomes an arrow."""
    values = [row.published or 1.0]
    if row.slowdown is not None:
        values += [row.slowdown.low, row.slowdown.center, row.slowdown.high]
    return values


def _legend(*, has_published: bool) -> list[str]:
    parts = [
        svg.mark(1.5, 9, CIRCLE, "found"),
        '<g transform="translate(12,0)">'
        + svg.text(1.5, 13, "found here, with its interval", "muted")
        + "</g>",
    ]
    if has_published:
        parts.append(
            '<g transform="translate(210,0)">'
            + svg.mark(1.5, 9, DIAMOND, "published")
            + '<g transform="translate(12,0)">'
            + svg.text(1.5, 13, "published", "muted")
            + "</g></g>"
        )
    return parts


def _step(scale: svg.LogScale, row: StepRow, top: float) -> list[str]:
    y = top + _TRACK_Y
    parts = [_label(top, row.name, row.title)]
    aside = f"{row.speed} · " if row.words else row.speed
    kinds = ("aside" if row.words else "muted", "strong")
    parts.append(svg.two_texts(100, top + _LABEL_Y, aside, row.words, kinds=kinds, anchor="end"))
    if row.slowdown is not None:
        parts += _found(scale, row.slowdown, row.reference, y)
    elif row.is_baseline:
        parts.append(svg.mark(scale.at(1.0), y, CIRCLE, "found"))
    if row.published is not None:
        parts.append(svg.mark(scale.at(row.published), y, DIAMOND, "published"))
    return parts


def _found(scale: svg.LogScale, found: Interval, reference: float, y: float) -> list[str]:
    """Draw the way from the baseline: light what earlier rungs did, strong what this one does."""
    is_bound = math.isinf(found.center)
    shown = found.low if is_bound else found.center
    one, before, here = (scale.at(ratio) for ratio in (1.0, reference, shown))
    # A rung that is faster than the one before takes a part of the way back.
    step = "step" if shown >= reference else "undone"
    parts = [svg.bar(one, before, y - 4, 8, "earlier"), svg.bar(before, here, y - 4, 8, step)]
    if is_bound:
        return [*parts, svg.line(here, y, 100, y, "interval"), svg.mark(here, y, ARROW, "found")]
    low, high = scale.at(found.low), 100.0 if math.isinf(found.high) else scale.at(found.high)
    parts.append(svg.line(low, y, high, y, "interval"))
    parts += [svg.line(x, y - 5, x, y + 5, "interval") for x in (low, high) if x < 100]
    return [*parts, svg.mark(here, y, CIRCLE, "found")]


def _label(top: float, name: str, title: str) -> str:
    short = svg.short_title(title)
    return svg.two_texts(0, top + _LABEL_Y, name, f"\u2002{short}", kinds=("strong", "label"))


def _text(row: StepRow) -> str:
    ours = f"{row.speed}, {row.words}" if row.words else row.speed
    return ours if row.published is None else f"{ours} (◇ {published_ratio(row.published)})"


def _text_bar(scale: svg.LogScale, row: StepRow, width: int) -> str:
    """Draw `│` at no change, `▒` for what earlier rungs did, `█` for this one, `◇` as published."""
    cells = [" "] * width

    def at(ratio: float) -> int:
        return min(int(scale.at(ratio) / 100 * width), width - 1)

    if row.slowdown is not None:
        found = row.slowdown
        here = at(found.low if math.isinf(found.center) else found.center)
        one, before = at(1.0), at(row.reference)
        for place in range(min(one, here), max(one, here) + 1):
            cells[place] = "█" if place >= before or here < one else "▒"
    if row.published is not None:
        cells[at(row.published)] = "◇"
    if cells[at(1.0)] == " " or row.is_baseline:
        cells[at(1.0)] = "│"
    return "".join(cells)
