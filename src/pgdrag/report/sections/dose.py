"""How does throughput depend on how long the horizon was held?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.english import counted
from pgdrag.findings.dose.findings import DOSES_MIN, DoseCurve, HorizonFinding
from pgdrag.findings.values import Findings
from pgdrag.report.cells import bounds_words
from pgdrag.report.document import Block, Cell, Figure, Items, Paragraph, Table, Tone, header
from pgdrag.report.panels_chart import Line, Panel, panels_chart, rounded_rate
from pgdrag.report.sections import Section
from pgdrag.units import format_duration, format_number, format_rate

_TITLE = "Throughput against the length of the hold"
_READING = (
    "Each point is a rung: the fitted rate at the end of its hold, with its 95 % interval. The line is "
    f"r0 / (1 + length / half-dose), by weighted least squares on logarithms, from {DOSES_MIN} lengths on. "
    "Rungs that lose updates are left out."
)
_SHORT = {
    "falls": "falls with the length",
    "does not fall": "does not fall",
    "inconclusive": "inconclusive",
    "too few doses": "too few lengths",
}


class DoseSection(Section):
    """Throughput at the end of each hold against its length, one panel a variant."""

    name = "dose"
    summary = "throughput against the length of the hold, one panel a variant"
    title = _TITLE
    order = 23
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """There are holds of two lengths or more, counting no hold as one."""
        return bool(_curves(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the panels, the verdicts and the numbers."""
        curves = _curves(findings)
        panels = [_panel(one) for one in curves]
        summary = "; ".join(f"{one.name}: {one.words}" for one in panels)
        longest_s = max(point.held_s for curve in curves for point in curve.points) or 1.0
        drawn = panels_chart("dose-chart", panels, _TITLE, summary, end=longest_s, plot=124)
        caption = "Committed per second at the end of the hold, against its length in the window."
        figure = Figure(drawn, caption, _text(curves))
        return (figure, _items(curves), _table(curves), Paragraph(_READING, Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return a sentence for each variant."""
        return (_items(_curves(findings)),)


def _curves(findings: Findings) -> tuple[DoseCurve, ...]:
    found = findings.get(HorizonFinding)
    return found.doses if found is not None else ()


def _items(curves: Sequence[DoseCurve]) -> Items:
    return Items(tuple(f"{one.variant}: {dose_sentence(one)}" for one in curves))


def dose_sentence(found: DoseCurve) -> str:
    """Return what the length of the hold does to throughput."""
    over = f"over {counted(found.doses, 'length')} up to {format_duration(round(found.longest_s))}"
    order = "" if found.monotone is None else f" (Kendall's tau {found.monotone:+.2f})"
    half = found.half_dose_s
    if half is None:
        lengths = counted(found.doses, "length")
        return f"{lengths} of hold are too few for a curve; hold for {DOSES_MIN} lengths or more."
    if found.verdict == "does not fall":
        return f"throughput does not fall with the length of the hold {over}: by less than 10 % at the longest."
    if found.verdict == "inconclusive":
        return (
            f"no significant effect of the length of the hold {over}{order}; run more replicates."
        )
    low = format_duration(round(half.low, 1))
    bounds = f"{low}–{format_duration(round(half.high, 1))}" if math.isfinite(half.high) else f"over {low}"  # fmt: skip
    beyond = ", longer than any hold here" if half.center > found.longest_s else ""
    center = format_duration(round(half.center, 1))
    return (
        f"throughput falls with the length of the hold {over}{order}. A hold of {center} (95 % CI {bounds}) halves "
        f"it{beyond}."
    )


def _panel(curve: DoseCurve) -> Panel:
    highest = max(one.per_s.center for one in curve.points) * 1.1
    top = f"to {format_rate(rounded_rate(highest))}"
    fit = Line(curve.curve, "fit")
    rates = tuple((one.held_s, one.per_s) for one in curve.points)
    return Panel(curve.variant, "", _SHORT[curve.verdict], (fit,), highest, top, estimates=rates)


def _text(curves: Sequence[DoseCurve], *, width: int = 40) -> str:
    """Return the points in characters: a line a dose, with a bar as long as its rate."""
    lines = []
    for curve in curves:
        highest = max(one.per_s.center for one in curve.points)
        lines.append(f"{curve.variant}: {_SHORT[curve.verdict]}")
        for one in curve.points:
            bar = "█" * max(round(one.per_s.center / highest * width), 1)
            held = format_duration(round(one.held_s, 1))
            rate = format_rate(rounded_rate(one.per_s.center))
            lines.append(f"{one.rung:>6}  {held:>10}  {bar} {rate}")
    return "\n".join(lines)


def _table(curves: Sequence[DoseCurve]) -> Table:
    columns = header("Rung", ">Held for", ">Rate at its end", "Variant")
    rows = tuple(
        (
            Cell(one.rung, is_strong=True),
            Cell(format_duration(round(one.held_s, 1)) if one.held_s else "not held"),
            Cell(format_rate(one.per_s.center), bounds_words(one.per_s, format_number)),
            Cell(curve.variant),
        )
        for curve in curves
        for one in curve.points
    )
    return Table("Throughput at the end of each hold", columns, rows)
