"""The chart of throughput within the trials: one panel a rung, with each trial's rates and the fit.

All panels share the time axis, so that what fell faster looks steeper; each has its own scale of
rates, from 0 up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.findings.decay.findings import CurvePoint
from pgdrag.report import svg
from pgdrag.units import format_duration, format_rate

_PANEL, _PLOT_Y, _PLOT, _AXIS = 122, 38, 68, 22  # heights
_LEFT, _RIGHT = 1.5, 98.5


@dataclass(frozen=True)
class DecayPanel:
    """One rung.

    Attributes:
        words: the verdict in a few words.
        trials: of each, (second, rate) of each interval.
        fit: growing in time; its band is what the bounds enclose.
        is_wrong: the rates are those of wrong results; the words say so, too.
    """

    name: str
    title: str
    words: str
    trials: tuple[tuple[tuple[float, float], ...], ...]
    fit: tuple[CurvePoint, ...]
    is_wrong: bool = False


def decay_chart(panels: Sequence[DecayPanel], title: str, description: str) -> str:
    """Return all panels, one below the other, over one time axis."""
    end_s = _end_s(panels)
    parts: list[str] = []
    for at, panel in enumerate(panels):
        parts += _panel(panel, at * _PANEL, end_s)
    bottom = len(panels) * _PANEL
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = _LEFT + (_RIGHT - _LEFT) * share
        parts.append(svg.text(x, bottom + 6, format_duration(end_s * share), "muted tick", anchor))
    return svg.picture("decay-chart", title, description, bottom + _AXIS, parts)


def _end_s(panels: Sequence[DecayPanel]) -> float:
    seen = [t_s for panel in panels for points in panel.trials for t_s, _ in points]
    return max([*seen, *(one.t_s for panel in panels for one in panel.fit)], default=1.0)


def _panel(panel: DecayPanel, top: float, end_s: float) -> list[str]:
    highest = max(
        [rate for points in panel.trials for _, rate in points] + [one.center for one in panel.fit]
    )
    words, label = panel.words, svg.short_title(panel.title)
    kinds = ("strong", "label")
    base = top + _PLOT_Y + _PLOT
    parts = [
        svg.two_texts(0, top + 12, panel.name, f"\u2002{label}", kinds=kinds),
        # On a line of its own: beside a title there is no room on a phone.
        svg.text(100, top + 28, words, "bad" if panel.is_wrong else "strong", "end"),
        svg.line(_LEFT, base, _RIGHT, base, "grid"),
    ]

    def place(t_s: float, rate: float) -> tuple[float, float]:
        return t_s / end_s, min(max(rate / highest, 0.0), 1.05)

    trial_kind = "rates wrong" if panel.is_wrong else "rates"
    drawn = [svg.path_of([place(*one) for one in points], trial_kind) for points in panel.trials]
    upper = [place(one.t_s, one.high) for one in panel.fit]
    lower = [place(one.t_s, one.low) for one in reversed(panel.fit)]
    drawn.append(svg.path_of([*upper, *lower], "sure", is_closed=True))
    drawn.append(svg.path_of([place(one.t_s, one.center) for one in panel.fit], "fit"))
    parts.append(svg.plot(top + _PLOT_Y, _PLOT, "".join(drawn)))
    parts.append(
        svg.text(_LEFT, top + _PLOT_Y - 6, f"to {format_rate(_rounded(highest))}", "muted tick")
    )
    return parts


def _rounded(rate: float) -> float:
    digits = 2 - math.floor(math.log10(rate)) if rate > 0 else 0
    return round(rate, digits)
