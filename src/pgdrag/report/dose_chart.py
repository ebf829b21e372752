"""The chart of doses: one panel a variant, with throughput against the length of the hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.findings.dose.findings import DosePoint
from pgdrag.report import svg
from pgdrag.report.charts import CIRCLE
from pgdrag.units import format_duration, format_rate

_PANEL, _PLOT_Y, _PLOT = 200, 40, 124  # heights
_LEFT, _RIGHT = 1.5, 98.5
_ROOM = 0.03  # of the width, to either side of the outermost doses


@dataclass(frozen=True)
class DosePanel:
    """One variant.

    Attributes:
        curve: (length, rate), growing in length; empty with too few doses.
    """

    name: str
    words: str
    doses: tuple[DosePoint, ...]
    curve: tuple[tuple[float, float], ...]


def dose_chart(panels: Sequence[DosePanel], title: str, description: str) -> str:
    """Return all panels, one below the other, each with its own scales from 0."""
    parts: list[str] = []
    for at, panel in enumerate(panels):
        parts += _panel(panel, at * _PANEL)
    return svg.picture("dose-chart", title, description, len(panels) * _PANEL, parts)


def dose_text(panels: Sequence[DosePanel], *, width: int = 40) -> str:
    """Return the same in characters: a line a dose, with a bar as long as its rate."""
    lines = []
    for panel in panels:
        highest = max(one.per_s.center for one in panel.doses)
        lines.append(f"{panel.name}: {panel.words}")
        for one in panel.doses:
            bar = "█" * max(round(one.per_s.center / highest * width), 1)
            held = format_duration(round(one.held_s, 1))
            lines.append(
                f"{one.rung:>6}  {held:>10}  {bar} {format_rate(_rounded(one.per_s.center))}"
            )
    return "\n".join(lines)


def _panel(panel: DosePanel, top: float) -> list[str]:
    longest_s = max(one.held_s for one in panel.doses) or 1.0
    highest = max(one.per_s.center for one in panel.doses) * 1.1
    base = top + _PLOT_Y + _PLOT

    def place(held_s: float, rate: float) -> tuple[float, float]:
        """Return a point in shares of the plot's width and height."""
        return _ROOM + held_s / longest_s * (1 - 2 * _ROOM), min(max(rate / highest, 0.0), 1.05)

    def at(held_s: float, rate: float) -> tuple[float, float]:
        x, y = place(held_s, rate)
        return _LEFT + (_RIGHT - _LEFT) * x, base - _PLOT * y

    curve = svg.path_of([place(*one) for one in panel.curve], "fit")
    parts = [
        svg.two_texts(0, top + 12, svg.short_title(panel.name), "", kinds=("strong", "")),
        svg.text(100, top + 30, panel.words, "strong", "end"),
        svg.text(_LEFT, top + _PLOT_Y - 8, f"to {format_rate(_rounded(highest))}", "muted tick"),
        svg.line(_LEFT, base, _RIGHT, base, "grid"),
        svg.plot(top + _PLOT_Y, _PLOT, curve),
    ]
    for one in panel.doses:
        x, y = at(one.held_s, one.per_s.center)
        ends = [at(one.held_s, rate)[1] for rate in (one.per_s.low, one.per_s.high)]
        parts += [svg.line(x, ends[0], x, ends[1], "interval"), svg.mark(x, y, CIRCLE, "found")]
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        words = format_duration(round(longest_s * share, 1))
        parts.append(svg.text(at(longest_s * share, 0)[0], base + 16, words, "muted tick", anchor))
    return parts


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")
