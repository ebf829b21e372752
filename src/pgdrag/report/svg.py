"""How is a picture drawn that fits any width, in light and dark, without a script?

Positions across are percentages of the picture's own width, so that text keeps its size on a phone;
colours are classes that the style sheet fills in. Everything is text: no clock, no randomness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pgdrag.units import format_ratio

_TITLE_LENGTH = 44  # a longer title would run into the numbers
_LEFT, _RIGHT = 1.5, 98.5  # per cent of the width that the scale spans


@dataclass(frozen=True)
class LogScale:
    """A logarithmic axis from `low` to `high`, both positive."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Sequence[float]) -> LogScale:
        """Return a scale that holds every finite positive value, with a little room."""
        finite = [value for value in values if 0 < value < math.inf] or [1.0]
        span = max(math.log10(max(finite) / min(finite)), 0.05)
        room = 10 ** (span * 0.04)
        return cls(min(finite) / room, max(finite) * room)

    def at(self, value: float) -> float:
        """Return where a value stands, in per cent of the width, held within the axis."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return _LEFT + (_RIGHT - _LEFT) * share

    def ticks(self) -> tuple[float, ...]:
        """Return 2 to 8 round numbers within the axis."""
        decades = math.log10(self.high / self.low)
        if decades < 0.7:
            return self._linear_ticks()
        stride = math.ceil(decades / 7)
        steps = (1, 2, 5) if decades < 2 else (1,)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        # Decades are counted from 1, so that "no change" always has its line.
        powers = [power for power in range(first, last + 1) if power % stride == 0]
        every = (step * 10.0**power for power in powers for step in steps)
        return tuple(value for value in every if self.low <= value <= self.high)

    def _linear_ticks(self) -> tuple[float, ...]:
        raw = (self.high - self.low) / 6
        base = 10.0 ** math.floor(math.log10(raw))
        step = next(size * base for size in (1, 2, 5, 10) if size * base >= raw)
        first = math.ceil(self.low / step)
        return tuple(i * step for i in range(first, math.floor(self.high / step) + 1))


def picture(name: str, title: str, description: str, height: int, parts: Sequence[str]) -> str:
    """Return a whole picture; `name` is unique in the document."""
    return (
        f'<svg class="chart" role="img" aria-labelledby="{escape(name)}-title {escape(name)}-desc"'
        f' width="100%" height="{height}">'
        f'<title id="{escape(name)}-title">{escape(title)}</title>'
        f'<desc id="{escape(name)}-desc">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return a text at x per cent."""
    return f'<text x="{_n(x)}%" y="{_n(y)}"{_class(kind)} text-anchor="{anchor}">{escape(words)}</text>'


def two_texts(
    x: float, y: float, first: str, second: str, *, kinds: tuple[str, str], anchor: str = "start"
) -> str:
    """Return two texts of different classes, one after the other."""
    spans = "".join(
        f"<tspan{_class(kind)}>{escape(words)}</tspan>"
        for words, kind in zip((first, second), kinds, strict=True)
        if words
    )
    return f'<text x="{_n(x)}%" y="{_n(y)}" text-anchor="{anchor}">{spans}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line; x in per cent."""
    return f'<line x1="{_n(x1)}%" y1="{_n(y1)}" x2="{_n(x2)}%" y2="{_n(y2)}"{_class(kind)}/>'


def bar(x1: float, x2: float, y: float, height: float, kind: str) -> str:
    """Return a horizontal bar between two places in per cent."""
    left, width = min(x1, x2), abs(x2 - x1)
    return (
        f'<rect x="{_n(left)}%" y="{_n(y)}" width="{_n(width)}%" height="{_n(height)}"'
        f"{_class(kind)}/>"
    )


def mark(x: float, y: float, shape: str, kind: str) -> str:
    """Return a small shape (a path around 0, 0) at x per cent."""
    return (
        f'<svg x="{_n(x)}%" y="{_n(y)}" width="1" height="1" overflow="visible">'
        f'<path d="{shape}"{_class(kind)}/></svg>'
    )


def path_of(points: Sequence[tuple[float, float]], kind: str, *, is_closed: bool = False) -> str:
    """Return a line, or an area, to stand in a `plot`; coordinates lie in 0…1, y upwards."""
    # A tenth of a coordinate is less than a pixel.
    places = "L".join(
        f"{_n(x * 1000, digits=1)} {_n((1 - up) * 100, digits=1)}" for x, up in points
    )
    return f'<path d="M{places}{"Z" if is_closed else ""}"{_class(kind)}/>' if points else ""


def plot(y: float, height: float, inner: str) -> str:
    """Return a field that spans the scale, with what `path_of` made in it."""
    return (
        f'<svg x="{_LEFT}%" y="{_n(y)}" width="{_n(_RIGHT - _LEFT)}%" height="{_n(height)}"'
        f' viewBox="0 0 1000 100" preserveAspectRatio="none" overflow="visible">{inner}</svg>'
    )


def legend(entries: Sequence[tuple[str, str]]) -> list[str]:
    """Return squares of these classes with their meanings, three in a row, as fits the width of a phone."""
    parts, left = [], 0.0
    for at, (kind, words) in enumerate(entries):
        left = left if at % 3 else 0.0
        parts.append(
            f'<g transform="translate({left:.0f},{at // 3 * 20})"><svg y="3" width="12" height="12">'
            f'<rect{_class(kind)} width="12" height="12"/></svg><g transform="translate(18,0)">'
            f"{text(0, 13, words, 'muted key')}</g></g>"
        )
        left += 36 + len(words) * 7.5
    return parts


def short_title(title: str) -> str:
    """Return a title cut to what leaves room for numbers beside it."""
    return title if len(title) <= _TITLE_LENGTH else title[: _TITLE_LENGTH - 1].rstrip() + "…"


def _class(kind: str) -> str:
    return f' class="{escape(kind)}"' if kind else ""


def _n(number: float, *, digits: int = 2) -> str:
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")


def tick_words(ratio: float) -> str:
    """Return what stands at a mark of an axis of ratios."""
    return "1×" if math.isclose(ratio, 1.0) else format_ratio(ratio)


def ratio_axis(scale: LogScale, top: float, bottom: float) -> list[str]:
    """Return the grid lines of a logarithmic axis of ratios, and the ratios below them."""
    parts = []
    for tick in scale.ticks():
        x = scale.at(tick)
        parts.append(line(x, top, x, bottom, "origin" if math.isclose(tick, 1.0) else "grid"))
        anchor = "start" if x < 3 else "end" if x > 94 else "middle"
        parts.append(text(x, bottom + 16, tick_words(tick), "muted tick", anchor))
    return parts
