"""How steady was it? Throughput second by second, one small line a rung."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.measurement import Sample
from pgdrag.report.document import Block, Figure
from pgdrag.report.panels_chart import Line, Panel, panels_chart
from pgdrag.report.sections import Section
from pgdrag.report.series_words import spark
from pgdrag.report.thinning import points_of_each, thinned_points
from pgdrag.units import format_duration, format_rate

_TITLE = "Throughput over the measured window"


class TimelineSection(Section):
    """A sparkline a rung."""

    name = "timeline"
    summary = "a sparkline a rung"
    title = _TITLE
    order = 50

    def applies(self, findings: Findings) -> bool:
        """There is a picture once a window has two samples."""
        return any(len(rung.samples) > 1 for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the lines; a drift is said in words among the warnings about the rung."""
        rungs = [rung for rung in findings.rungs if len(rung.samples) > 1]
        most = points_of_each([len(one.samples) for one in rungs], most=400, least=40, in_all=1_100)
        panels = [_panel(rung, most) for rung in rungs]
        end_s = max(rung.samples[-1].t_s for rung in rungs)
        description = "; ".join(f"{panel.name}: {panel.words}" for panel in panels)
        caption = "Committed per second in the trial with the median throughput; each line has its own scale, from 0."
        texts = (
            f"{panel.name}  {spark([rate for _, rate in panel.lines[0].points])}  {panel.words}"
            for panel in panels
        )
        drawn = panels_chart("timeline-chart", panels, _TITLE, description, end=end_s, plot=32)
        return (Figure(drawn, caption, "\n".join(texts)),)


def _panel(rung: TreatmentFinding, most: int) -> Panel:
    points = tuple((one.t_s - one.duration_s / 2, _rate(one)) for one in rung.samples)
    rates = [rate for _, rate in points]
    span = f"{format_rate(min(rates))} to {format_rate(max(rates))}"
    words = f"{span if max(rates) else 'nothing committed'} over {format_duration(rung.samples[-1].t_s)}"
    line = Line(thinned_points(points, most), "trace")
    return Panel(rung.rung.name, rung.rung.title, words, (line,), max(rates), "")


def _rate(sample: Sample) -> float:
    return sample.committed / sample.duration_s if sample.duration_s else 0.0
