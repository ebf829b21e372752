"""How are parts of a whole drawn, several wholes one below the other? One bar a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.report import svg

_ROW, _GAP = 34, 10  # heights
_LABEL_Y, _BAR_Y, _BAR = 14, 20, 8  # within a row
_WIDTH = 30  # characters


@dataclass(frozen=True)
class ShareRow:
    """One part of a whole.

    Attributes:
        group: which whole.
        share: 0 to 1; more is drawn as 1.
        words: the share in words.
        is_rest: what no other part has.
    """

    group: str
    label: str
    share: float
    words: str
    is_rest: bool = False


def shares_chart(rows: Sequence[ShareRow], title: str, description: str) -> str:
    """Return the picture; rows of a group stand together, in the order given."""
    parts: list[str] = []
    top, group = 0, ""
    for row in rows:
        if row.group != group:
            top += _GAP if parts else 0
        shown = row.group if row.group != group else ""
        label = f"\u2002{row.label}" if shown else row.label
        group = row.group
        parts.append(svg.two_texts(0, top + _LABEL_Y, shown, label, kinds=("strong", "label")))
        parts.append(
            svg.text(100, top + _LABEL_Y, row.words, "muted" if row.is_rest else "", "end")
        )
        end = 100 * min(max(row.share, 0.0), 1.0)
        parts.append(svg.bar(0, 100, top + _BAR_Y, _BAR, "track"))
        parts.append(svg.bar(0, end, top + _BAR_Y, _BAR, "earlier" if row.is_rest else "step"))
        top += _ROW
    return svg.picture("shares-chart", title, description, top + _GAP, parts)


def shares_text(rows: Sequence[ShareRow]) -> str:
    """Return the same in characters."""
    groups = max((len(row.group) for row in rows), default=0)
    labels = max((len(row.label) for row in rows), default=0)
    lines, before = [], ""
    for row in rows:
        filled = round(min(max(row.share, 0.0), 1.0) * _WIDTH)
        bar = ("▒" if row.is_rest else "█") * filled + "·" * (_WIDTH - filled)
        group = row.group if row.group != before else ""
        lines.append(f"{group:{groups}}  {row.label:{labels}}  {bar}  {row.words}")
        before = row.group
    return "\n".join(lines)
