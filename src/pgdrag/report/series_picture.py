"""What do panels over one time axis look like where no script runs?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from pgdrag.report import svg
from pgdrag.report.document import Mark, Panel, Recording, Trace
from pgdrag.report.series_words import highest_of, value_words
from pgdrag.report.thinning import thinned
from pgdrag.units import format_duration

_PLOT, _TITLE, _KEYS, _GAP, _AXIS = 56, 18, 16, 14, 22  # heights
_KEYS_WIDTH = 52  # characters of one line of a legend: what a phone is wide
_LANE, _LANE_HEAD = 30, 14
_LEFT, _RIGHT = 1.5, 98.5  # per cent of the width that the time axis spans
_WIDE = 1000  # units across a panel
_FEW = 12  # events of one kind whose time is shaded in all panels
_THINNED = "Drawn: the lowest and highest interval of each of {} stretches of time."


def series_picture(
    here: Recording, beside: Recording | None, title: str, description: str, *, points: int
) -> str:
    """Return all panels, one below the other, with so many points a line; those of `beside` are broken."""
    length_s = max(here.length_s, beside.length_s if beside is not None else 0.0) or 1.0
    lanes = list(_lanes(here.marks))
    parts: list[str] = []
    for at, (kind, marks) in enumerate(lanes):
        parts += _lane(kind, marks, at * _LANE, length_s)
    top = len(lanes) * _LANE
    pairs = list(_pairs(here, beside))
    below = sum(_height(panel) for panel, _ in pairs) - _GAP
    for _, marks in lanes:
        if sum(mark.count for mark in marks) <= _FEW:  # more would only grey everything
            parts += [_box(mark, top, below, length_s) for mark in marks]
    for panel, other in pairs:
        parts += _panel(panel, other, top, length_s, points)
        top += _height(panel)
    parts += _time_axis(top - _GAP, length_s)
    height = top - _GAP + _AXIS
    if any(len(trace.times_s) > points for panel, _ in pairs for trace in panel.traces):
        parts.append(svg.text(0, height + 14, _THINNED.format(points // 2), "muted tick"))
        height += _AXIS
    name = f"recording-{_identifier(here.name)}"
    return svg.picture(name, title, description, height, parts)


def _identifier(name: str) -> str:
    """Return a name in which no blank tells two references apart."""
    return "".join(sign if sign.isalnum() else f"-{ord(sign):x}-" for sign in name)


def _pairs(here: Recording, beside: Recording | None) -> Iterator[tuple[Panel, Panel | None]]:
    """Yield the panels of both: what only the other has, has an empty one here."""
    others = {panel.title: panel for panel in (beside.panels if beside is not None else ())}
    for panel in here.panels:
        yield panel, others.pop(panel.title, None)
    for panel in others.values():
        yield Panel(panel.title, panel.unit, ()), panel


def _lanes(marks: Sequence[Mark]) -> Iterator[tuple[str, list[Mark]]]:
    for kind in dict.fromkeys(mark.kind for mark in marks):
        yield kind, [mark for mark in marks if mark.kind == kind]


def _lane(kind: str, marks: Sequence[Mark], top: float, length_s: float) -> list[str]:
    many = sum(mark.count for mark in marks)
    words = kind if many == 1 else f"{kind} × {many:,}"
    y = top + _LANE_HEAD
    path = "".join(_stroke(mark, length_s) for mark in marks)
    drawn = (
        f'<svg x="{_LEFT}%" y="{y:.0f}" width="{_RIGHT - _LEFT:.0f}%" height="8"'
        f' viewBox="0 0 {_WIDE} 8" preserveAspectRatio="none">'
        f'<path class="marks mark-{marks[0].colour}" d="{path}"/></svg>'
    )
    return [
        svg.text(0, top + 10, words, "muted tick"),
        svg.line(_LEFT, y + 4, _RIGHT, y + 4, "grid"),
        drawn,
    ]


def _stroke(mark: Mark, length_s: float) -> str:
    """Return a part of a path: a box as long as the mark, and never too short to be seen."""
    end_s = mark.start_s if mark.end_s is None else mark.end_s
    left, right = (min(max(at / length_s, 0.0), 1.0) * _WIDE for at in (mark.start_s, end_s))
    return f"M{round(left)} 0h{max(round(right - left), 2)}v8H{round(left)}"


def _box(mark: Mark, y: float, height: float, length_s: float) -> str:
    end_s = mark.start_s if mark.end_s is None else mark.end_s
    left, right = _across(mark.start_s, length_s), _across(end_s, length_s)
    return svg.bar(left, max(right, left + 0.2), y, height, f"shade mark-{mark.colour}")


def _across(t_s: float, length_s: float) -> float:
    inside = min(max(t_s / length_s, 0.0), 1.0)
    return _LEFT + (_RIGHT - _LEFT) * inside


def _panel(
    panel: Panel, other: Panel | None, top: float, length_s: float, points: int
) -> list[str]:
    keys = _keys(panel.traces)
    plot = top + _TITLE + len(keys) * _KEYS
    highest = max(highest_of(panel), highest_of(other) if other is not None else 0.0)
    parts = [
        svg.text(0, top + 12, panel.title, "strong"),
        svg.text(100, top + 12, f"to {value_words(highest, panel.unit)}", "muted tick", "end"),
        *(_legend(line, top + _TITLE + at * _KEYS + 10) for at, line in enumerate(keys)),
    ]
    parts.append(svg.line(_LEFT, plot + _PLOT, _RIGHT, plot + _PLOT, "grid"))
    lines = [(thinned(trace, points), "") for trace in panel.traces]
    lines += [
        (thinned(trace, points), " beside") for trace in (other.traces if other is not None else ())
    ]
    drawn = "".join(_steps(trace, length_s, highest or 1.0, kind) for trace, kind in lines)
    return [*parts, _plot(drawn, plot)]


def _height(panel: Panel) -> int:
    return _TITLE + len(_keys(panel.traces)) * _KEYS + _PLOT + _GAP


def _keys(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Return the lines of a legend that no narrow window cuts, unless one name alone is too long."""
    lines: list[list[Trace]] = []
    for trace in traces:
        if lines and sum(len(one.label) + 3 for one in (*lines[-1], trace)) <= _KEYS_WIDTH:
            lines[-1].append(trace)
        else:
            lines.append([trace])
    return lines


def _legend(traces: Sequence[Trace], y: float) -> str:
    """Return the lines' names, each behind a stroke in its colour."""
    spans = "".join(
        f'<tspan class="key key-{trace.colour}">━</tspan><tspan> {escape(trace.label)}\u2002</tspan>'
        for trace in traces
    )
    return f'<text x="0" y="{y:.0f}" class="tick label">{spans}</text>'


def _plot(lines: str, y: float) -> str:
    return (
        f'<svg x="{_LEFT}%" y="{y:.0f}" width="{_RIGHT - _LEFT:.0f}%" height="{_PLOT}"'
        f' viewBox="0 0 {_WIDE} {_PLOT}" preserveAspectRatio="none" overflow="visible">{lines}</svg>'
    )


def _steps(trace: Trace, length_s: float, highest: float, kind: str) -> str:
    """Return a line that stays at each value for its whole interval; a gap where there is none."""
    path: list[str] = []
    x, y = round(trace.begin_s / length_s * _WIDE), -1
    is_drawn = False
    for t_s, value in zip(trace.times_s, trace.values, strict=True):
        end = round(t_s / length_s * _WIDE)
        if value is not None:
            level = round(_PLOT * (1 - value / highest))
            # Ways from the point before need fewer characters than places.
            path.append(f"v{level - y}" if is_drawn else f"M{x} {level}")
            path.append(f"h{end - x}")
            y = level
        is_drawn, x = value is not None, end
    return f'<path class="line line-{trace.colour}{kind}" d="{"".join(path)}"/>'


def _time_axis(top: float, length_s: float) -> list[str]:
    middle = (_LEFT + _RIGHT) / 2
    ends = ((_LEFT, 0.0, "start"), (middle, length_s / 2, "middle"), (_RIGHT, length_s, "end"))
    return [
        svg.text(x, top + 16, format_duration(t_s), "muted tick", anchor) for x, t_s, anchor in ends
    ]
