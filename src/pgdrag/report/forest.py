"""What does a forest plot show? One row an estimate, each with its interval, on one logarithmic axis.

Equal lengths are equal parts: shares of a slowdown, laid one after the other, reach as far as the whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.findings.values import Interval
from pgdrag.report import svg
from pgdrag.report.charts import ARROW, CIRCLE, DIAMOND

_ROW, _AXIS, _GAP = 40, 24, 6
_LABEL_Y, _TRACK_Y = 14, 26
_ENDS = {"low": "├", "high": "┤"}


@dataclass(frozen=True)
class ForestRow:
    """One estimate: a ratio over 1 lies to the right.

    Attributes:
        aside: stands beside the name in smaller type: what the row is.
        words: the estimate in words, on the right.
        found: None where there is none yet.
        is_whole: a sum of the others, drawn as a diamond.
    """

    name: str
    aside: str
    words: str
    found: Interval | None
    is_whole: bool = False


def forest_chart(rows: Sequence[ForestRow], title: str, description: str) -> str:
    """Return the picture; rows stand in the order given."""
    scale = _scale(rows)
    bottom = _ROW * len(rows) + _GAP
    parts = svg.ratio_axis(scale, 0, bottom)
    for at, row in enumerate(rows):
        parts += _drawn(scale, row, at * _ROW)
    return svg.picture("forest-chart", title, description, bottom + _AXIS, parts)


def forest_text(rows: Sequence[ForestRow], *, width: int = 24) -> str:
    """Return the same picture in characters, one line a row: `├─●─┤`, `◆` the whole, `│` no change."""
    scale = _scale(rows)
    names = max(len(row.name) for row in rows)
    lines = [
        f"{row.name:{names}}  {_track(scale, row, width)}  {row.words}".rstrip() for row in rows
    ]
    return "\n".join(lines)


def _scale(rows: Sequence[ForestRow]) -> svg.LogScale:
    return svg.LogScale.around([1.0, *(x for row in rows for x in _extent(row))])


def _extent(row: ForestRow) -> list[float]:
    """What must be on the scale: no more of an interval than is known on both sides."""
    found = row.found
    if found is None:
        return []
    if not 0 < found.center < math.inf:
        return [found.low if math.isinf(found.center) else found.high]
    reach = 20.0  # a whisker longer than that says no more than that it is long
    return [
        found.center,
        max(found.low, found.center / reach),
        min(found.high, found.center * reach),
    ]


def _drawn(scale: svg.LogScale, row: ForestRow, top: float) -> list[str]:
    y = top + _TRACK_Y
    parts = [
        svg.two_texts(0, top + _LABEL_Y, row.name, f"\u2002{row.aside}", kinds=("strong", "aside")),
        svg.text(100, top + _LABEL_Y, row.words, "strong" if row.is_whole else "", "end"),
    ]
    found = row.found
    if found is None:
        return parts
    one = scale.at(1.0)
    if not 0 < found.center < math.inf:
        here = scale.at(found.low if math.isinf(found.center) else found.high)
        return [*parts, svg.bar(one, here, y - 3, 6, "step"), svg.mark(here, y, ARROW, "found")]
    here, low, high = (scale.at(x) for x in (found.center, found.low, found.high))
    parts.append(svg.bar(one, here, y - 3, 6, "earlier" if row.is_whole else "step"))
    parts.append(svg.line(low, y, high, y, "interval"))
    parts += [svg.line(x, y - 5, x, y + 5, "interval") for x in (low, high)]
    return [*parts, svg.mark(here, y, DIAMOND if row.is_whole else CIRCLE, "found")]


def _track(scale: svg.LogScale, row: ForestRow, width: int) -> str:
    cells = [" "] * width

    def at(ratio: float) -> int:
        return min(int(scale.at(ratio) / 100 * width), width - 1)

    cells[at(1.0)] = "│"
    found = row.found
    if found is None:
        return "".join(cells)
    if not 0 < found.center < math.inf:
        cells[at(found.low if math.isinf(found.center) else found.high)] = "►"
        return "".join(cells)
    low, high = at(found.low), at(found.high)
    for place in range(low, high + 1):
        cells[place] = "─"
    if high > low:
        cells[low], cells[high] = _ENDS["low"], _ENDS["high"]
    cells[at(found.center)] = "◆" if row.is_whole else "●"
    return "".join(cells)
