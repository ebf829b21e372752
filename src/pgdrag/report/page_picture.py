"""How are a table's pages drawn? One strip a moment, from the first page to the last, all on one scale.

A column is filled from below with the line pointers of its pages by state, always in the same order, so
that the order says what the colours say. The thin band below it is the room that is free on the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdrag.model.recordings import PageStrip
from pgdrag.report import svg
from pgdrag.units import format_duration, format_number

# From below: the class, and what it stands for.
STATES = (
    ("live", "live: newest version"),
    ("old", "old version"),
    ("redirect", "redirect"),
    ("dead", "dead"),
    ("unused", "unused"),
)
_MARKS = {"live": "█", "old": "▓", "redirect": "▒", "dead": "░", "unused": "·"}
_TEXT_WIDTH = 40
_LEGEND_ROW, _ROW = 20, 66  # heights
_LEGEND = 2 * _LEGEND_ROW + 8
_IN_A_ROW = 3  # entries of the legend: what a phone is wide
_LABEL_Y, _STRIP_Y, _STRIP, _FREE_Y, _FREE = 13, 19, 30, 51, 7  # within a row
_LEAST_WIDTH = 0.5  # per cent: one page beside a thousand is still to be seen
_FINE = 100  # heights of a column within its strip
# From fine to coarse: columns first, then moments.
_DETAILS = ((200, 6), (100, 6), (50, 6), (25, 6), (25, 3), (25, 2))
_LETTER = 7.2
_LEGEND_NAME = "page-legend"


@dataclass(frozen=True)
class _Filled:
    """A strip with as many columns as are drawn."""

    strip: PageStrip
    heights: dict[str, list[float]]
    free: list[float]


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
    for columns, moments in _DETAILS:
        legend = _legend() if has_legend else f'<use href="#{_LEGEND_NAME}"/>'
        picture = _picture(_evenly(strips, moments), name, title, columns, legend)
        if len(picture.encode()) <= room_bytes:
            break
    return picture


def pages_text(strips: Sequence[PageStrip]) -> str:
    """Return the same in characters: of each stretch of pages the state that most line pointers are in."""
    widest = max(one.pages for one in strips)
    lines = []
    for strip in strips:
        width = max(1, round(_TEXT_WIDTH * strip.pages / widest))
        filled = _filled(strip, width)
        drawn = len(filled.free)
        cells = (_cell(filled, at * drawn // width) for at in range(width))
        lines.append(f"{''.join(cells):{_TEXT_WIDTH}}  {_words(strip)}")
    legend = "  ".join(f"{_MARKS[state]} {words}" for state, words in STATES)
    return "\n".join([*lines, "", f"{legend}  (in most of the line pointers)"])


def _picture(strips: Sequence[PageStrip], name: str, title: str, columns: int, legend: str) -> str:
    widest = max(one.pages for one in strips)
    highest = max(max(map(sum, _stacks(one)), default=0.0) for one in strips) or 1.0
    parts = [legend]
    for at, strip in enumerate(strips):
        top = _LEGEND + at * _ROW
        width = max(_LEAST_WIDTH, 100 * strip.pages / widest)
        filled = _filled(strip, columns)
        parts.append(svg.text(0, top + _LABEL_Y, _size_words(strip), "tick"))
        parts.append(svg.text(100, top + _LABEL_Y, _mean_words(strip), "muted tick", "end"))
        parts.append(_strip(filled, top + _STRIP_Y, width, highest))
        free = [value / strip.page_bytes * _FINE for value in filled.free]
        parts.append(
            _frame(top + _FREE_Y, _FREE, width, len(filled.free), _area(free, "page-free"))
        )
    description = "; ".join(_words(one) for one in strips)
    return svg.picture(name, title, description, _LEGEND + _ROW * len(strips), parts)


def _evenly(strips: Sequence[PageStrip], most: int) -> Sequence[PageStrip]:
    """Return so many of them, the first and the last among them."""
    if len(strips) <= most:
        return strips
    return [strips[round(at * (len(strips) - 1) / (most - 1))] for at in range(most)]


def _strip(filled: _Filled, top: float, width: float, highest: float) -> str:
    """Draw each state's area up to the top of what lies below it, the highest first."""
    columns = len(filled.free)
    height = [0.0] * columns
    areas = []
    for state, _ in STATES:
        height = [
            h + x / highest * _FINE for h, x in zip(height, filled.heights[state], strict=True)
        ]
        if any(filled.heights[state]):
            areas.append(_area(height, f"page-{state}"))
    return _frame(top, _STRIP, width, columns, "".join(reversed(areas)))


def _area(heights: Sequence[float], kind: str) -> str:
    """Draw what lies below steps, one a column; neighbours of one height are one step."""
    whole = [_FINE - round(height) for height in heights]
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


def _legend() -> str:
    return f'<g id="{_LEGEND_NAME}">{"".join(_legend_entries())}</g>'


def _legend_entries() -> Iterator[str]:
    entries = (*STATES, ("free", "bytes free"))
    left = 0.0
    for at, (state, words) in enumerate(entries):
        left = 0.0 if at % _IN_A_ROW == 0 else left
        top = at // _IN_A_ROW * _LEGEND_ROW
        yield (
            f'<g transform="translate({left:.0f},{top})">'
            f'<rect class="page-{state}" y="3" width="11" height="11"/>'
            f'<g transform="translate(16,0)">{svg.text(0, 13, words, "muted tick")}</g></g>'
        )
        left += 30 + len(words) * _LETTER


def _words(strip: PageStrip) -> str:
    return f"{_size_words(strip)}: {_mean_words(strip)}"


def _size_words(strip: PageStrip) -> str:
    read = "" if strip.pages_read == strip.pages else f"{strip.pages_read:,} of "
    pages = "1 page" if strip.pages == 1 else f"{strip.pages:,} pages"
    return f"{_moment(strip.at_s)}, {read}{pages}"


def _mean_words(strip: PageStrip) -> str:
    """Say how many line pointers a page has of the two most frequent states, and what is free of it."""
    means = {state: sum(x) / len(x) for state, _ in STATES if (x := getattr(strip, state))}
    ranked = sorted(means, key=lambda state: -means[state])[:2]
    means_words = [f"{format_number(round(means[x], 1))} {x}" for x in ranked if means[x] >= 0.05]
    free = sum(strip.free_bytes) / max(len(strip.free_bytes), 1) / strip.page_bytes
    return ", ".join([*means_words, f"{100 * free:.0f} % free"])


def _moment(at_s: float) -> str:
    return "before the window" if at_s < 0 else f"at {format_duration(at_s)}"


def _stacks(strip: PageStrip) -> Iterator[tuple[float, ...]]:
    return zip(*(getattr(strip, state) for state, _ in STATES), strict=True)


def _filled(strip: PageStrip, columns: int) -> _Filled:
    """Draw neighbouring columns together until there are no more than so many."""
    states = {state: list(getattr(strip, state)) for state, _ in STATES}
    free = [float(x) for x in strip.free_bytes]
    count = min(columns, len(free))
    ends = [(at + 1) * len(free) // count for at in range(count)]

    def means(values: Sequence[float]) -> list[float]:
        begins = [0, *ends[:-1]]
        return [sum(values[a:b]) / (b - a) for a, b in zip(begins, ends, strict=True)]

    return _Filled(strip, {state: means(x) for state, x in states.items()}, means(free))


def _cell(filled: _Filled, at: int) -> str:
    of = {state: heights[at] for state, heights in filled.heights.items()}
    most = max(of, key=lambda state: of[state])
    return _MARKS[most] if of[most] else " "
