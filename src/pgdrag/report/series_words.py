"""What does a series read like? A value with its unit, and a line in characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.english import counted
from pgdrag.model.recordings import SeriesUnit
from pgdrag.report.document import Panel
from pgdrag.units import format_bytes, format_duration, format_number, format_rate

_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 40
_MOST_PANELS = 4


def value_words(value: float, unit: SeriesUnit) -> str:
    """Return a value with its unit: `1,187/s`, `1.5 MB/s`, `12 ms`."""
    match unit:
        case "ratio":
            return f"{format_number(value * 100)} %"
        case "1/s":
            return format_rate(value)
        case "bytes/s":
            return f"{format_bytes(value)}/s"
        case "bytes":
            return format_bytes(value)
        case "s":
            return format_duration(value)
        case "count":
            return format_number(value)


def moment_words(at_s: float) -> str:
    """Say when of the window something was read: `at 2.5 s`."""
    return "before the window" if at_s < 0 else f"at {format_duration(at_s)}"


def spark(values: Sequence[float | None], *, highest: float | None = None) -> str:
    """Return values in at most 40 characters, the mean of neighbours in each; a blank where there is none, and the lowest below 0.

    Args:
        highest: the value of the highest of the eight levels; by default the highest of the characters.
    """
    size = -(-len(values) // _WIDTH) or 1
    parts = [_known(values[at : at + size]) for at in range(0, len(values), size)]
    means = [sum(part) / len(part) if part else None for part in parts]
    top = highest or max(_known(means), default=0.0) or 1.0
    return "".join(
        " " if mean is None else _LEVELS[round(min(max(mean / top, 0.0), 1.0) * (len(_LEVELS) - 1))]
        for mean in means
    )


def panels_text(panels: tuple[Panel, ...]) -> str:
    """Return each line of the first panels in characters, with its lowest and highest value.

    The lines of one panel have one scale.
    """
    lines = []
    for panel in panels[:_MOST_PANELS]:
        known = [_known(trace.values) for trace in panel.traces]
        top = max((max(values, default=0.0) for values in known), default=0.0)
        lines.append(panel.title)
        width = max(len(trace.label) for trace in panel.traces)
        for trace, values in zip(panel.traces, known, strict=True):
            ends = (value_words(end(values), panel.unit) for end in (min, max)) if values else ()
            span = " to ".join(dict.fromkeys(ends)) or "no value"
            lines.append(f"  {trace.label:{width}}  {spark(trace.values, highest=top)}  {span}")
    if (rest := len(panels) - _MOST_PANELS) > 0:
        lines.append(f"({counted(rest, 'more panel')}: in the HTML report, and as numbers in JSON)")
    if any(len(trace.times_s) > _WIDTH for panel in panels for trace in panel.traces):
        lines.append("(each character: the mean of its part of the window)")
    return "\n".join(lines)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
