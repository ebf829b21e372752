"""How is a search through sets of changes drawn? One line a set, one place a change, from top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.report import svg
from pgdrag.report.document import Figure

_ROW, _HEAD = 19, 20  # heights
_LEFT, _RIGHT = 13.0, 72.0  # per cent of the width that the places span
_GAP = 0.15  # part of a place that is left blank


@dataclass(frozen=True)
class StripRow:
    """One set that was tried.

    Attributes:
        label: what the search was at; "" where that is the same as on the line before.
        places: of the changes in the set, from 0.
        words: what came of it.
        is_strong: it keeps what is wanted.
    """

    label: str
    places: frozenset[int]
    words: str
    is_strong: bool


def strips_figure(
    rows: Sequence[StripRow],
    count: int,
    title: str,
    description: str,
    caption: str,
    *,
    has_text: bool = True,
) -> Figure:
    """Return one strip of `count` places a row, filled where the set has the change.

    In characters `█` is in a set that keeps enough, and `▒` in one that does not.
    """
    parts, lines = [], []
    step = (_RIGHT - _LEFT) / max(count, 1)
    labels = max((len(row.label) for row in rows), default=0)
    for at, row in enumerate(rows):
        top = _HEAD + at * _ROW
        parts.append(svg.text(0, top + 11, row.label, "muted tick"))
        parts.append(svg.line(_LEFT, top + 7, _RIGHT, top + 7, "grid"))
        for place in sorted(row.places):
            left = _LEFT + place * step
            kind = "step" if row.is_strong else "earlier"
            parts.append(svg.bar(left, left + step * (1 - _GAP), top + 1, 12, kind))
        kind = "strong" if row.is_strong else "muted"
        parts.append(svg.text(_RIGHT + 2, top + 11, row.words, kind))
        mark = "█" if row.is_strong else "▒"
        cells = "".join(mark if place in row.places else "·" for place in range(count))
        lines.append(f"{row.label:{labels}}  {cells}  {row.words}")
    chart = svg.picture("strips-chart", title, description, _HEAD + _ROW * len(rows), parts)
    return Figure(chart, caption, "\n".join(lines) if has_text else "")
