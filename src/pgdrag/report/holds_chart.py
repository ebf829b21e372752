"""The chart of replayed holds: two curves in steps over a logarithmic axis of time."""

from __future__ import annotations

from pgdrag.english import counted
from pgdrag.findings.holds.replay import ReplayFinding
from pgdrag.report import svg
from pgdrag.report.svg import LogScale
from pgdrag.stats.product_limit import LengthCurve
from pgdrag.units import format_duration

_TOP, _HEIGHT = 36.0, 150.0
_GRID = (0.0, 0.25, 0.5, 0.75, 1.0)


def holds_chart(name: str, found: ReplayFinding, description: str) -> str:
    """Return the chart of a captured and a replayed distribution; `name` is unique in the document."""
    scale = LogScale.around((*found.wanted.lengths_s, *found.held.lengths_s))
    bottom = _TOP + _HEIGHT
    parts = []
    for share in _GRID:
        y = bottom - share * _HEIGHT
        parts.append(svg.line(1.5, y, 98.5, y, "origin" if share == 0 else "grid"))
        if share:
            parts.append(svg.text(1.5, y - 3, f"{share:.0%}", "muted tick"))
    for tick in scale.ticks():
        x = scale.at(tick)
        parts.append(svg.line(x, _TOP, x, bottom, "grid"))
        anchor = "start" if x < 3 else "end" if x > 94 else "middle"
        parts.append(svg.text(x, bottom + 16, format_duration(tick), "muted tick", anchor))
    drawn = (
        svg.path_of(_places(found.wanted, scale), "line beside line-1"),
        svg.path_of(_places(found.held, scale), "line line-2"),
    )
    parts.append(svg.plot(_TOP, _HEIGHT, "".join(drawn)))
    parts.append(svg.text(98.5, 14, f"- - captured: {found.file}", "muted", "end"))
    parts.append(svg.text(1.5, 14, f"— replayed: {counted(found.distance.holds, 'hold')}"))
    title = "Share of holds that last longer than a time"
    return svg.picture(name, title, description, round(bottom + 24), parts)


def _places(curve: LengthCurve, scale: LogScale) -> list[tuple[float, float]]:
    """Return the corners of the steps, in shares of the plot's width and height."""
    places, above = [(0.0, 1.0)], 1.0
    for length_s, longer in zip(curve.lengths_s, curve.longer, strict=True):
        x = (scale.at(length_s) - 1.5) / 97
        places += [(x, above), (x, longer)]
        above = longer
    return [*places, (1.0, 0.0)]
