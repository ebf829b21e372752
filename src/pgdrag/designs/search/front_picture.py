"""Which trade-offs between two objectives exist? A picture with one objective on each axis."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.designs.search.findings import FrontFinding, SearchFinding
from pgdrag.findings.values import Interval
from pgdrag.report import svg
from pgdrag.report.document import Figure
from pgdrag.report.rows_chart import CIRCLE, DOT
from pgdrag.report.svg import LogScale
from pgdrag.units import format_ratio

_HEIGHT, _AXIS, _TITLE = 320, 24, 24
_FARTHEST = 3.0  # trials that lose more than this many times stand at the edge


def front_figure(found: SearchFinding) -> Figure:
    """Return the picture, with the same in a list; of a finding with two objectives.

    A cross is a configuration on fresh clusters with its 95 % intervals, a dot a short trial.
    """
    across, upwards = found.front[0].gains
    pairs = [(one.gains[across], one.gains[upwards]) for one in found.front]
    trials = [
        (max(x, 1 / _FARTHEST), max(y, 1 / _FARTHEST))
        for _, x, y in (one.gains for one in found.tried if one.gains)
    ]
    horizontal = _scale([x for x, _ in pairs], [x for x, _ in trials])
    vertical = _scale([y for _, y in pairs], [y for _, y in trials])

    def height(ratio: float) -> float:
        return _TITLE + _HEIGHT * (1 - vertical.at(ratio) / 100)

    bottom = _TITLE + _HEIGHT
    parts = [svg.text(0, 14, f"{upwards}: times {found.better}", "muted")]
    parts += svg.ratio_axis(horizontal, _TITLE, bottom)
    for tick in vertical.ticks():
        parts.append(svg.line(0, height(tick), 100, height(tick), "grid"))
        parts.append(svg.text(0, height(tick) - 3, svg.tick_words(tick), "muted tick"))
    parts.append(
        svg.text(100, bottom + _AXIS + 14, f"{across}: times {found.better}", "muted", "end")
    )
    parts += [svg.mark(horizontal.at(x), height(y), DOT, "trial") for x, y in trials]
    parts.append(svg.mark(horizontal.at(1.0), height(1.0), CIRCLE, "published"))
    for number, (one, (x, y)) in enumerate(zip(found.front, pairs, strict=True)):
        at, up = horizontal.at(x.center), height(y.center)
        parts.append(svg.line(horizontal.at(x.low), up, horizontal.at(x.high), up, "interval"))
        parts.append(svg.line(at, height(y.low), at, height(y.high), "interval"))
        parts.append(svg.mark(at, up, CIRCLE, "published" if one.is_beaten else "found"))
        anchor = "end" if at > 60 else "start"
        # Names of neighbours that are alike in both stand above and below.
        beside = -8 if number % 2 else 18
        parts.append(svg.text(at + (-1 if at > 60 else 1), up + beside, one.name, "strong", anchor))
    title = f"{across} and {upwards}: times {found.better} than the baseline"
    text = "\n".join(_line(one, across, upwards) for one in found.front)
    whole = round(bottom + _AXIS + _TITLE)
    chart = svg.picture("search-front", title, text.replace("\n", "; "), whole, parts)
    caption = (
        f"Each configuration by {found.proof_unit}s with its 95 % intervals; filled where nothing is better in both. A small "
        "dot is one short trial. Logarithmic scales."
    )
    return Figure(chart, caption, text)


def _scale(proved: Sequence[Interval], trials: Sequence[float]) -> LogScale:
    ends = [end for one in proved for end in (one.low, one.high)]
    return LogScale.around([1.0, *ends, *trials])


def _line(one: FrontFinding, across: str, upwards: str) -> str:
    x, y = (format_ratio(one.gains[name].center) for name in (across, upwards))
    return f"{'·' if one.is_beaten else '●'} {one.name}: {across} {x}, {upwards} {y}"
