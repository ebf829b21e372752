"""How fast was each step, where sessions or rate change within the window?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.findings.steps import LoadSteps, StepFinding
from pgdrag.findings.values import Findings
from pgdrag.report.cells import NOTHING, bounds_words, slowdown_cell
from pgdrag.report.document import Align, Block, Cell, Column, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section
from pgdrag.units import format_duration, format_number, format_rate


class LoadStepsSection(Section):
    """Throughput by rung and step of the load."""

    name = "load-steps"
    summary = "throughput by rung and step of the load"
    title = "Step by step of the load"
    order = 32

    def applies(self, findings: Findings) -> bool:
        """The load changes within the window, and a window was measured."""
        return any(len(one.steps) > 1 for one in findings.by_rung(LoadSteps).values())

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one row a step, one column a rung."""
        reading = (
            "Committed transactions per second, with the interval below, over the intervals that lie "
            "wholly within a step."
        )
        ratios = _ratios(findings)
        return (Paragraph(reading, Tone.MUTED), _table(findings), *ratios)

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the same table: in a run with steps it is the answer."""
        return (_table(findings),)


def _table(findings: Findings) -> Table:
    found = {name: one.steps for name, one in findings.by_rung(LoadSteps).items()}
    most = max(found.values(), key=len)
    has_rate = any(step.rate_per_s is not None for step in most)
    columns = [Column("From second"), Column("Sessions", Align.RIGHT)]
    columns += [Column("Offered", Align.RIGHT)] if has_rate else []
    columns += [Column(name, Align.RIGHT) for name in found]
    rows = []
    for at, step in enumerate(most):
        row = [Cell(format_duration(step.at_s), is_strong=True), Cell(str(step.sessions))]
        if has_rate:
            row.append(Cell(format_rate(step.rate_per_s)) if step.rate_per_s else NOTHING)
        row += [_cell(steps[at] if at < len(steps) else None) for steps in found.values()]
        rows.append(tuple(row))
    return Table("Throughput of each step", tuple(columns), tuple(rows))


def _ratios(findings: Findings) -> list[Block]:
    """Return how each step compares with the same one on the baseline: at which load is it slower?"""
    baseline = findings.rungs[0].rung.name
    found = {
        name: one.steps
        for name, one in findings.by_rung(LoadSteps).items()
        if any(step.to_baseline for step in one.steps)
    }
    if not found:
        return []
    most = max(found.values(), key=len)
    columns = header("From second", ">Sessions", *(f">{name}" for name in found))
    rows = tuple(
        (
            Cell(format_duration(step.at_s), is_strong=True),
            Cell(str(step.sessions)),
            *(
                slowdown_cell(steps[at].to_baseline if at < len(steps) else None)
                for steps in found.values()
            ),
        )
        for at, step in enumerate(most)
    )
    reading = (
        f"× slower than the same step on {baseline}; what steps differ by is in no interval, and the noise is "
        "that of all rungs' trials together."
    )
    return [
        Paragraph(reading, Tone.MUTED),
        Table(f"Slowdown of each step against {baseline}", columns, rows),
    ]


def _cell(step: StepFinding | None) -> Cell:
    if step is None or step.tps is None:
        return NOTHING
    if step.tps.center == 0:
        return Cell(f"< {format_rate(step.tps.high)}", "nothing committed", Tone.BAD)
    return Cell(format_rate(step.tps.center), bounds_words(step.tps, format_number))
