"""How steady was it? Throughput second by second, one small line a rung."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.measurement import Sample
from pgdrag.report.charts import TraceRow, timeline_chart
from pgdrag.report.document import Block, Figure
from pgdrag.report.sections import Section
from pgdrag.report.sparks import spark
from pgdrag.report.thinning import points_of_each, thinned_points
from pgdrag.units import format_duration, format_rate

_TITLE = "Throughput over the measured window"


class TimelineSection(Section):
    """A sparkline a rung."""

    name: ClassVar[str] = "timeline"
    summary: ClassVar[str] = "a sparkline a rung"
    title: ClassVar[str] = _TITLE
    order: ClassVar[int] = 50

    def applies(self, findings: Findings) -> bool:
        """There is a picture once a window has two samples."""
        return any(len(rung.samples) > 1 for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the lines; a drift is said in words among the warnings about the rung."""
        rows = [_row(rung) for rung in findings.rungs if len(rung.samples) > 1]
        most = points_of_each([len(row.points) for row in rows], most=400, least=40, in_all=1_100)
        drawn = [replace(row, points=thinned_points(row.points, most)) for row in rows]
        told = "; ".join(f"{row.name}: {row.words}" for row in rows)
        return (
            Figure(
                timeline_chart(drawn, _TITLE, told),
                "Committed per second, in the trial in the middle by throughput; each line has its "
                "own scale, from 0 to its highest sample.",
                text="\n".join(
                    f"{row.name}  {spark([rate for _, rate in row.points])}  {row.words}"
                    for row in rows
                ),
            ),
        )


def _row(rung: TreatmentFinding) -> TraceRow:
    points = tuple((one.t_s - one.duration_s / 2, _rate(one)) for one in rung.samples)
    rates = [rate for _, rate in points]
    end_s = rung.samples[-1].t_s
    span = f"{format_rate(min(rates))} to {format_rate(max(rates))}"
    words = f"{span if max(rates) else 'nothing committed'} over {format_duration(end_s)}"
    return TraceRow(rung.rung.name, rung.rung.title, words, points, end_s)


def _rate(sample: Sample) -> float:
    return sample.committed / sample.duration_s if sample.duration_s else 0.0
