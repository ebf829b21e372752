"""What does a value of a series read like? `1,187/s`, `1.5 MB/s`, `12 ms`."""

from __future__ import annotations

from pgdrag.model.recordings import SeriesUnit
from pgdrag.report.document import Panel, Trace
from pgdrag.report.sparks import SPARK_WIDTH, spark
from pgdrag.units import format_bytes, format_duration, format_number, format_rate


def value_words(value: float, unit: SeriesUnit) -> str:
    """Return a value with its unit."""
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


def highest_of(panel: Panel) -> float:
    """Return the highest value of all its lines; 0 where there is none."""
    return max(
        (value for trace in panel.traces for value in trace.values if value is not None),
        default=0.0,
    )


def span_words(trace: Trace, unit: SeriesUnit) -> str:
    """Return the lowest and the highest value: `12 to 1,187/s`."""
    known = [value for value in trace.values if value is not None]
    if not known:
        return "no value"
    low, high = value_words(min(known), unit), value_words(max(known), unit)
    return high if low == high else f"{low} to {high}"


def panels_text(panels: tuple[Panel, ...]) -> str:
    """Return each line in characters; the lines of one panel have one scale."""
    lines = []
    for panel in panels:
        top = highest_of(panel)
        lines.append(panel.title)
        width = max(len(trace.label) for trace in panel.traces)
        lines += [
            f"  {trace.label:{width}}  {spark(trace.values, highest=top)}  {span_words(trace, panel.unit)}"
            for trace in panel.traces
        ]
    if any(len(trace.times_s) > SPARK_WIDTH for panel in panels for trace in panel.traces):
        lines.append("(each character: the mean of its part of the window)")
    return "\n".join(lines)
