"""How are a table's pages drawn? One strip a moment, from the first page to the last, all on one scale.

A column is filled from below with the line pointers of its pages by state, always in the same order, so
that the order says what the colours say. The thin band below it is the room that is free on the page.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgdrag.english import counted
from pgdrag.model.recordings import PageStrip
from pgdrag.report import svg
from pgdrag.report.series_words import moment_words
from pgdrag.units import format_number

# From below: the class, what it stands for, and its sign where it is drawn in characters.
STATES = {
    "live": ("live: newest version", "█"),
    "old": ("old version", "▓"),
    "redirect": ("redirect", "▒"),
    "dead": ("dead", "░"),
    "unused": ("unused", "·"),
}
_TEXT_WIDTH = 40
_LEGEND, _ROW = 48, 66  # heights
_LABEL_Y, _STRIP_Y, _STRIP, _FREE_Y, _FREE = 13, 19, 30, 51, 7  # within a row
_LEAST_WIDTH = 0.5  # per cent: one page beside a thousand is still to be seen
_FINE = 100  # heights of a column within its strip
# From fine to coarse: columns first, then moments.
_DETAILS = ((200, 6), (100, 6), (50, 6), (25, 6), (25, 3), (25, 2))


def page_picture(
    strips: Sequence[PageStrip],
    *,
    name: str,
    title: str,
    room_bytes: float,
    has_legend: bool = True,
) -> str:
    """Return all moments of one table, one below the other.

    Args:
        name: unique in the document.
        room_bytes: what it may take: columns are drawn together until it does, then moments left out.
        has_legend: it brings the document's legend, which all others only show.
    """
    entries = [(f"page-{state}", words) for state, (words, _) in STATES.items()]
    legend = "".join(svg.legend([*entries, ("page-free", "bytes free")]))
    shown = f'<g id="page-legend">{legend}</g>' if has_legend else '<use href="#page-legend"/>'
    for columns, moments in _DETAILS:
        last = len(strips) - 1
        some = {round(at * last / (moments - 1)) for at in range(moments)}
        kept = [strip for at, strip in enumerate(strips) if last < moments or at in some]
        picture = svg.picture(
            name,
            title,
            "; ".join(": ".join(_words(one)) for one in kept),
            _LEGEND + _ROW * len(kept),
            [shown, *_drawn(kept, columns)],
        )
        if len(picture.encode()) <= room_bytes:
            break
    return picture


def pages_text(strips: Sequence[PageStrip]) -> str:
    """Return the same in characters: of each stretch of pages the state that most line pointers are in."""
    widest = max(one.pages for one in strips)
    lines = []
    for strip in strips:
        width = max(1, round(_TEXT_WIDTH * strip.pages / widest))
        means = _means(strip, width)
        counts = np.array([means[state] for state in STATES])
        signs = np.array([sign for _, sign in STATES.values()])
        cells = np.where(counts.max(axis=0) > 0, signs[counts.argmax(axis=0)], " ")
        places = np.arange(width) * counts.shape[1] // width
        lines.append(f"{''.join(cells[places]):{_TEXT_WIDTH}}  {': '.join(_words(strip))}")
    legend = "  ".join(f"{sign} {words}" for words, sign in STATES.values())
    return "\n".join([*lines, "", f"{legend}  (in most of the line pointers)"])


def _means(strip: PageStrip, columns: int) -> dict[str, list[float]]:
    """Return the line pointers of each state, and the bytes free, on a page of each column.

    Neighbouring pages are drawn together until the number of columns is within the limit.
    """
    pages = len(strip.free_bytes)
    count = min(columns, pages)
    widths = pages // count + (np.arange(count) < pages % count)  # of the columns, in pages
    names = (*STATES, "free_bytes")
    values = np.array([getattr(strip, name) for name in names], dtype=float)
    means = np.add.reduceat(values, np.cumsum(widths) - widths, axis=1) / widths
    return dict(zip(names, means.tolist(), strict=True))


def _drawn(strips: Sequence[PageStrip], columns: int) -> list[str]:
    widest = max(one.pages for one in strips)
    stacks = (sum(np.array(getattr(one, state)) for state in STATES) for one in strips)
    highest = max(float(np.max(stack)) for stack in stacks) or 1.0
    parts = []
    for at, strip in enumerate(strips):
        top = _LEGEND + at * _ROW
        width = max(_LEAST_WIDTH, 100 * strip.pages / widest)
        means = _means(strip, columns)
        size, content = _words(strip)
        # Each state's area reaches up to the top of what lies below it: the highest is drawn first.
        heights = np.cumsum([means[state] for state in STATES], axis=0) / highest
        areas = [
            _area(height, f"page-{state}")
            for state, height in zip(STATES, heights, strict=True)
            if any(means[state])
        ]
        free = _area(np.array(means["free_bytes"]) / strip.page_bytes, "page-free")
        parts += [
            svg.text(0, top + _LABEL_Y, size, "tick"),
            svg.text(100, top + _LABEL_Y, content, "muted tick", "end"),
            _frame(top + _STRIP_Y, _STRIP, width, len(means["live"]), "".join(reversed(areas))),
            _frame(top + _FREE_Y, _FREE, width, len(means["live"]), free),
        ]
    return parts


def _area(heights: np.typing.NDArray[np.float64], kind: str) -> str:
    """Draw what lies below steps, one a column; neighbours of one height are one step."""
    whole = [_FINE - round(float(height) * _FINE) for height in heights]
    steps = [f"M0 {_FINE}V{whole[0]}"]
    for at, y in enumerate(whole[1:], start=1):
        if y != whole[at - 1]:
            steps.append(f"H{at}V{y}")
    return f'<path class="{kind}" d="{"".join(steps)}H{len(whole)}V{_FINE}Z"/>'


def _frame(top: float, height: float, width: float, columns: int, inside: str) -> str:
    return (
        f'<svg y="{top:g}" width="{width:.2f}%" height="{height}" viewBox="0 0 {columns} {_FINE}"'
        ' preserveAspectRatio="none" shape-rendering="crispEdges">'
        f'<rect class="page-none" width="{columns}" height="{_FINE}"/>{inside}</svg>'
    )


def _words(strip: PageStrip) -> tuple[str, str]:
    """Say when and how much was read; and of a page its two most frequent states, and what is free."""
    read = "" if strip.pages_read == strip.pages else f"{strip.pages_read:,} of "
    means = {state: float(np.mean(getattr(strip, state))) for state in STATES}
    ranked = sorted(means, key=lambda state: -means[state])[:2]
    content = [f"{format_number(round(means[x], 1))} {x}" for x in ranked if means[x] >= 0.05]
    free = float(np.mean(strip.free_bytes)) / strip.page_bytes
    return (
        f"{moment_words(strip.at_s)}, {read}{counted(strip.pages, 'page')}",
        ", ".join([*content, f"{100 * free:.0f} % free"]),
    )
