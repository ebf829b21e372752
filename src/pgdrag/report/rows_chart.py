"""A picture of intervals, one row an estimate, on a logarithmic axis of ratios; right is slower.

Equal lengths are equal ratios, so shares of a slowdown laid end to end reach as far as the whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from pgdrag.findings.values import Interval
from pgdrag.report import svg
from pgdrag.report.cells import published_ratio
from pgdrag.report.document import Figure
from pgdrag.report.svg import LogScale

_ROW, _AXIS, _LEGEND, _GAP = 42, 24, 26, 6  # heights
_LABEL_Y, _TRACK_Y = 14, 28  # within a row
_LINE, _LINE_CHARACTERS = 16, 51  # height of a line of text, and what a phone has room for
_THIN = 0.9  # width of a character that is not bold
_DOTS, _DOT_ROW = 420, 14  # heights: of all dots at most, of one
_REACH = 20.0  # whiskers that are longer only squeeze the rest
_WIDTH, _MANY = 40, 10

CIRCLE = "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0"
_DIAMOND = "M0,-6L6,0L0,6L-6,0Z"
_RIGHT, _LEFT = "M-5,-6L7,0L-5,6Z", "M5,-6L-7,0L5,6Z"
DOT = "M-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0"


@dataclass(frozen=True)
class Row:
    """One estimate: how many times slower something is.

    Attributes:
        aside: beside the name in smaller type.
        words: the estimate in words, on the right.
        before_words: what stands before them, in smaller type.
        found: an infinite center is a lower bound in `low`, a center of 0 an upper bound in `high`;
            None: no estimate.
        start: where the row's own part of the bar begins; what lies before it is drawn lighter.
        published: the published ratio.
        is_whole: the sum of the other rows, drawn as a diamond.
        dots: single trials of the row.
    """

    name: str
    aside: str = ""
    words: str = ""
    before_words: str = ""
    found: Interval | None = None
    start: float = 1.0
    published: float | None = None
    is_whole: bool = False
    is_baseline: bool = False
    dots: Sequence[float] = ()

    @property
    def second_line(self) -> int:
        """Where the words stand below the name, because a phone has no room for both side by side; else 0."""
        length = len(self.name) + _THIN * len(svg.short_title(self.aside)) + len(self.words)
        return _LINE if length > _LINE_CHARACTERS else 0


@dataclass(frozen=True)
class RowsFigure(Figure):
    """The picture, with what is drawn in it."""

    rows: tuple[Row, ...] = ()


def rows_figure(
    rows: Sequence[Row],
    title: str,
    description: str,
    caption: str,
    *,
    name: str = "rows-chart",
    band: float = 1.0,
    limit: float | None = None,
    dots: Sequence[float] = (),
) -> RowsFigure:
    """Return the picture, with the same in characters.

    There `├─●─┤` is an estimate, `◆` the whole, `◇` published, `│` no change.

    Args:
        name: unique in the document.
        band: ratio up to which, and down to whose reciprocal, differences count as equal.
        limit: a ratio to mark on the axis: the largest slowdown that passes.
        dots: single ratios below the rows, in the order run; infinite where nothing was committed.
    """
    marks = [1.0, band, 1 / band, *([limit] if limit is not None else []), *dots]
    scale = LogScale.around([*marks, *(ratio for row in rows for ratio in extent(row))])
    has_published = any(row.published is not None for row in rows)

    top = _LEGEND if has_published else 0
    dot_row = min(_DOT_ROW, _DOTS / max(len(dots), 1))
    tops = [*accumulate((_ROW + row.second_line for row in rows), initial=top)]
    dots_top = tops[-1]
    bottom = dots_top + (dot_row * (len(dots) + 1) if dots else _GAP)
    parts = _legend() if has_published else []
    if band > 1:
        parts.append(svg.bar(scale.at(1 / band), scale.at(band), top, bottom - top, "band"))
    parts += svg.ratio_axis(scale, top, bottom)
    if limit is not None:
        parts.append(svg.line(scale.at(limit), top, scale.at(limit), bottom, "limit"))
    for row, row_top in zip(rows, tops[:-1], strict=True):
        parts += _drawn(scale, row, row_top)
    for at, ratio in enumerate(dots, start=1):
        shape = DOT if 0 < ratio < math.inf else _RIGHT
        parts.append(svg.mark(scale.at(ratio), dots_top + dot_row * at, shape, "found"))
    chart = svg.picture(name, title, description, math.ceil(bottom + _AXIS), parts)

    empty = [" "] * _WIDTH
    if band > 1:
        for place in range(_place(scale, 1 / band), _place(scale, band) + 1):
            empty[place] = "░"
    empty[_place(scale, 1.0)] = "│"
    if limit is not None:
        empty[_place(scale, limit)] = "!"
    lines = [(row.name, f"{_track(scale, row, empty)}  {_row_words(row)}") for row in rows]
    if dots:
        counts = Counter(_place(scale, ratio) for ratio in dots)
        strip = (counts[place] for place in range(_WIDTH))
        signs = "".join("+" if n >= _MANY else str(n) if n else " " for n in strip)
        lines.append(("", f"{signs}  pairs at each place"))
    lines.append(("", _ticks(scale)))
    if has_published:
        lines.append(("", "● measured  ◇ published"))
    width = max(len(row.name) for row in rows)
    text = "\n".join(f"{label:{width}}  {line}".rstrip() for label, line in lines)
    return RowsFigure(chart, caption, text, tuple(rows))


def _track(scale: LogScale, row: Row, empty: Sequence[str]) -> str:
    cells = list(empty)
    for ratio in row.dots:
        cells[_place(scale, ratio)] = "·"
    if row.published is not None:
        cells[_place(scale, row.published)] = "◇"
    found = row.found
    if found is not None and is_bound(found):
        cells[_place(scale, shown_ratio(found))] = "►" if math.isinf(found.center) else "◄"
    elif found is not None:
        low, high = _place(scale, found.low), _place(scale, found.high)
        for place in range(low, high + 1):
            cells[place] = cells[place] if cells[place] == "◇" else "─"
        if high > low:
            cells[low], cells[high] = "├", "┤"
        cells[_place(scale, found.center)] = "◆" if row.is_whole else "●"
    return "".join(cells)


def is_bound(found: Interval) -> bool:
    """Tell whether only one end of a ratio is known."""
    return not 0 < found.center < math.inf


def shown_ratio(found: Interval) -> float:
    """Return the ratio at which an estimate stands; of a bound, the bound."""
    if not is_bound(found):
        return found.center
    return found.low if math.isinf(found.center) else found.high


def extent(row: Row) -> list[float]:
    """Return the ratios that an axis has to reach, so that a row can be drawn on it."""
    found = row.found
    values = [*row.dots, *([row.published] if row.published is not None else [])]
    if found is None:
        return values
    center = shown_ratio(found)
    if is_bound(found):
        return [*values, center]
    return [*values, center, max(found.low, center / _REACH), min(found.high, center * _REACH)]


def _legend() -> list[str]:
    def entry(left: int, shape: str, kind: str, words: str) -> str:
        label = f'<g transform="translate(12,0)">{svg.text(1.5, 13, words, "muted")}</g>'
        return f'<g transform="translate({left},0)">{svg.mark(1.5, 9, shape, kind)}{label}</g>'

    return [
        entry(0, CIRCLE, "found", "measured, with its interval"),
        entry(210, _DIAMOND, "published", "published"),
    ]


def _drawn(scale: LogScale, row: Row, top: float) -> list[str]:
    y = top + row.second_line + _TRACK_Y
    aside = f"\u2002{svg.short_title(row.aside)}" if row.aside else ""
    before = f"{row.before_words} · " if row.before_words and row.words else row.before_words
    kinds = ("aside" if row.words else "muted", "strong")
    parts = [
        svg.two_texts(0, top + _LABEL_Y, row.name, aside, kinds=("strong", "label")),
        svg.two_texts(
            100, top + row.second_line + _LABEL_Y, before, row.words, kinds=kinds, anchor="end"
        ),
    ]
    parts += [svg.mark(scale.at(ratio), y, DOT, "trial") for ratio in row.dots]
    if row.found is not None:
        parts += _estimate(scale, row, row.found, y)
    elif row.is_baseline:
        parts.append(svg.mark(scale.at(1.0), y, CIRCLE, "found"))
    if row.published is not None:
        parts.append(svg.mark(scale.at(row.published), y, _DIAMOND, "published"))
    return parts


def _estimate(scale: LogScale, row: Row, found: Interval, y: float) -> list[str]:
    """Draw the bar from no change: light what came before, strong what this row adds."""
    one, start, here = (scale.at(ratio) for ratio in (1.0, row.start, shown_ratio(found)))
    # What goes back on the part before it is outlined.
    own = "earlier" if row.is_whole else "undone" if (here - start) * (start - one) < 0 else "step"
    parts = [svg.bar(one, start, y - 4, 8, "earlier"), svg.bar(start, here, y - 4, 8, own)]
    if is_bound(found):
        end, shape = (100.0, _RIGHT) if math.isinf(found.center) else (0.0, _LEFT)
        return [*parts, svg.line(here, y, end, y, "interval"), svg.mark(here, y, shape, "found")]
    low = scale.at(found.low) if found.low > 0 else 0.0
    high = scale.at(found.high) if math.isfinite(found.high) else 100.0
    parts.append(svg.line(low, y, high, y, "interval"))
    parts += [svg.line(x, y - 5, x, y + 5, "interval") for x in (low, high) if 0 < x < 100]
    return [*parts, svg.mark(here, y, _DIAMOND if row.is_whole else CIRCLE, "found")]


def _row_words(row: Row) -> str:
    words = ", ".join(filter(None, (row.before_words, row.words)))
    return words if row.published is None else f"{words} (◇ {published_ratio(row.published)})"


def _ticks(scale: LogScale) -> str:
    cells = [" "] * (_WIDTH + 8)
    free = 0
    for tick in scale.ticks():
        word = svg.tick_words(tick)
        start = max(_place(scale, tick) - len(word) // 2, 0)
        if start >= free:
            cells[start : start + len(word)] = word
            free = start + len(word) + 1
    return "".join(cells).rstrip()


def _place(scale: LogScale, ratio: float) -> int:
    return min(int(scale.at(ratio) / 100 * _WIDTH), _WIDTH - 1)
