"""What does the picture of a comparison show? The verdict's interval, and every pair below it.

The band around "no change" is what counts as equal: an interval inside of it is *equivalent*, one
that does not touch 1× is told from none, and one that does both is told to be too small to count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.findings.values import Interval
from pgdrag.report import svg
from pgdrag.report.charts import ARROW, CIRCLE

_VERDICT, _PAIRS, _AXIS = 40, 420, 24  # heights
_LABEL_Y, _TRACK_Y, _ROW_MOST = 14, 28, 14
_DOT = "M-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0"
_WIDTH = 48
_MANY = 10


@dataclass(frozen=True)
class PairsPicture:
    """A comparison, ready to draw; ratios say how many times slower.

    Attributes:
        found: the interval that the verdict rests on.
        words: the verdict in words.
        pairs: the slowdown of each pair, in the order run; infinite where the treatment committed
            nothing.
        equal: ratio up to which, and down to whose reciprocal, differences count as equal.
        limit: the largest slowdown that passes a gate; None without one.
    """

    found: Interval
    words: str
    pairs: tuple[float, ...]
    equal: float
    limit: float | None = None


def pairs_chart(shown: PairsPicture, title: str, description: str) -> str:
    """Return the picture on a logarithmic axis."""
    scale = _scale(shown)
    row = min(_ROW_MOST, _PAIRS / max(len(shown.pairs), 1))
    bottom = _VERDICT + row * len(shown.pairs) + row
    parts = [svg.bar(scale.at(1 / shown.equal), scale.at(shown.equal), 0, bottom, "band")]
    parts += svg.ratio_axis(scale, 0, bottom)
    if shown.limit is not None:
        at = scale.at(shown.limit)
        parts.append(svg.line(at, 0, at, bottom, "limit"))
    count = len(shown.pairs)
    label = f"all {count} pairs" if count > 1 else "the pair"
    parts.append(svg.two_texts(0, _LABEL_Y, label, "", kinds=("strong", "")))
    parts.append(svg.text(100, _LABEL_Y, shown.words, "strong", "end"))
    parts += _interval(scale, shown.found)
    for at_pair, ratio in enumerate(shown.pairs):
        y = _VERDICT + row * (at_pair + 1)
        shape = _DOT if 0 < ratio < math.inf else ARROW
        parts.append(svg.mark(scale.at(ratio), y, shape, "found"))
    return svg.picture("pairs-chart", title, description, math.ceil(bottom + _AXIS), parts)


def pairs_text(shown: PairsPicture) -> str:
    """Return the same in three lines: the interval, how many pairs lie where, and the axis."""
    scale = _scale(shown)
    tracks = [
        ("", _track(scale, shown), shown.words),
        ("pairs", _strip(scale, shown.pairs), "how many lie where"),
        ("", _ticks(scale), ""),
    ]
    return "\n".join(f"{name:5}  {track}  {words}".rstrip() for name, track, words in tracks)


def _scale(shown: PairsPicture) -> svg.LogScale:
    found = shown.found
    sizes = [x for x in shown.pairs if 0 < x < math.inf]
    # A bound far beyond all pairs says no more than that it is far.
    reach = 4 * max([max(x, 1 / x) for x in sizes] or [2.0])
    bounds = [max(found.low, 1 / reach), found.center, min(found.high, reach)]
    if not 0 < found.center < math.inf:
        bounds = [found.low if math.isinf(found.center) else found.high]
    limit = [shown.limit] if shown.limit is not None else []
    return svg.LogScale.around([1.0, shown.equal, 1 / shown.equal, *bounds, *sizes, *limit])


def _interval(scale: svg.LogScale, found: Interval) -> list[str]:
    y = _TRACK_Y
    if not 0 < found.center < math.inf:
        here = scale.at(found.low if math.isinf(found.center) else found.high)
        end = 100.0 if math.isinf(found.center) else 0.0
        return [svg.line(here, y, end, y, "interval"), svg.mark(here, y, ARROW, "found")]
    low = scale.at(found.low) if found.low > 0 else 0.0
    high = scale.at(found.high) if math.isfinite(found.high) else 100.0
    parts = [svg.line(low, y, high, y, "interval")]
    parts += [svg.line(x, y - 5, x, y + 5, "interval") for x in (low, high) if 0 < x < 100]
    return [*parts, svg.mark(scale.at(found.center), y, CIRCLE, "found")]


def _track(scale: svg.LogScale, shown: PairsPicture) -> str:
    """Draw `░` for what counts as equal, `│` at no change, `!` for the gate and `├─●─┤` on it."""
    cells = [" "] * _WIDTH
    for place in range(_place(scale, 1 / shown.equal), _place(scale, shown.equal) + 1):
        cells[place] = "░"
    cells[_place(scale, 1.0)] = "│"
    if shown.limit is not None:
        cells[_place(scale, shown.limit)] = "!"
    found = shown.found
    if not 0 < found.center < math.inf:
        bound = found.low if math.isinf(found.center) else found.high
        cells[_place(scale, bound)] = "►" if math.isinf(found.center) else "◄"
        return "".join(cells)
    low, high = _place(scale, found.low), _place(scale, found.high)
    cells[low : high + 1] = "─" * (high + 1 - low)
    cells[low], cells[high] = "├", "┤"
    cells[_place(scale, found.center)] = "●"
    return "".join(cells)


def _strip(scale: svg.LogScale, pairs: Sequence[float]) -> str:
    counted = Counter(_place(scale, ratio) for ratio in pairs)
    return "".join(
        " " if not (found := counted[place]) else str(found) if found < _MANY else "+"
        for place in range(_WIDTH)
    )


def _ticks(scale: svg.LogScale) -> str:
    cells = [" "] * (_WIDTH + 8)
    free = 0
    for tick in scale.ticks():
        word = svg.tick_words(tick)
        start = max(_place(scale, tick) - len(word) // 2, 0)
        if start >= free:
            cells[start : start + len(word)] = word
            free = start + len(word) + 1
    return "".join(cells).rstrip()


def _place(scale: svg.LogScale, ratio: float) -> int:
    return min(int(scale.at(ratio) / 100 * _WIDTH), _WIDTH - 1)
