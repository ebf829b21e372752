"""How fast was each rung, against the baseline and the one before, and in each step of the load?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pgdrag.english import percent_words
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.steps import LoadSteps, StepFinding
from pgdrag.findings.values import Findings, NamedRate, TreatmentFinding
from pgdrag.model import Outcome
from pgdrag.report.cells import (
    NOTHING,
    bounds_words,
    brief_slowdown,
    claim_cell,
    name_cell,
    rate_cell,
    slowdown_cell,
)
from pgdrag.report.document import Block, Cell, Paragraph, Table, Tone, table_of
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section
from pgdrag.units import format_duration, format_number, format_rate


class LadderSection(Section):
    name = "ladder"
    summary = "one row a treatment"
    title = "Throughput and slowdown"
    order = 30
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """Some designs have a table of their own, which knows more."""
        return findings.has_rungs

    def blocks(self, findings: Findings) -> Sequence[Block]:
        return (_table(findings, has_details=True), Paragraph(_reading(findings), Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the table without shares and New-Orders, which the terminal has no room for."""
        return (_table(findings, has_details=False), Paragraph(_reading(findings), Tone.MUTED))


def _table(findings: Findings, *, has_details: bool) -> Table:
    def claims(rung: TreatmentFinding) -> ClaimsFinding:
        return rung.get(ClaimsFinding) or ClaimsFinding()

    columns: dict[str, Callable[[TreatmentFinding], Cell | str]] = {
        findings.noun_heading: name_cell,
        ">Committed": lambda rung: rate_cell(findings, rung),
        f">× slower than {findings.rungs[0].rung.name}": lambda rung: slowdown_cell(
            rung.to_baseline
        ),
        ">Published": lambda rung: claim_cell(claims(rung).total),
    }
    named = next(iter(findings.by_rung(NamedRate).values()), None)
    if has_details and named is not None:
        columns[f">{named.label}"] = _named_rate_cell
    # Outside a ladder every rung is compared with the baseline, and there is no step.
    if findings.is_cumulative:
        columns[">× slower than before"] = lambda rung: _step_cell(findings, rung)
        columns[">Published step"] = lambda rung: claim_cell(claims(rung).step)
        if has_details:
            columns[">Share"] = lambda rung: (
                NOTHING if rung.step_share is None else percent_words(rung.step_share)
            )
    return table_of(f"Throughput and slowdown of each {findings.noun}", findings.rungs, columns)


def _step_cell(findings: Findings, rung: TreatmentFinding) -> Cell:
    """Return the slowdown of the step; where a rung between was left out, say what it refers to."""
    cell = slowdown_cell(rung.to_previous)
    names = [one.rung.name for one in findings.rungs]
    at = names.index(rung.rung.name)
    if rung.to_previous is None:
        return cell
    notes = [cell.note]
    if names[at - 1] != rung.previous:
        notes.append(f"to {rung.previous}")
    if rung.outcome is Outcome.INERT:
        notes.append("inert")
    return Cell(cell.text, "; ".join(notes), cell.tone, cell.is_strong)


def _named_rate_cell(rung: TreatmentFinding) -> Cell:
    orders = rung.get(NamedRate)
    if orders is None:
        return NOTHING
    found = orders.per_min
    return Cell(format_number(found.center), bounds_words(found, format_number))


def _reading(findings: Findings) -> str:
    confidences = {rung.tps.confidence for rung in findings.rungs if rung.tps is not None}
    shown = f"{min(confidences) * 100:.3g} % " if confidences else ""
    return f"Committed transactions per second, with the {shown}interval below."


_TITLE = "How many times slower than the baseline"


class StepsSection(Section):
    name = "steps"
    summary = "a logarithmic chart of the slowdowns with their intervals"
    title = _TITLE
    order = 18
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        is_significant = any(rung.to_baseline is not None for rung in findings.rungs)
        return findings.has_rungs and is_significant

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the chart; the table of the rungs says the same in words."""
        rows = []
        slowdowns = {"": 1.0}  # where the part of a step starts: of the rung before
        for at, rung in enumerate(findings.rungs):
            step = rung.to_baseline
            found = step.slowdown if step else None
            claims = rung.get(ClaimsFinding)
            row = Row(
                name=rung.rung.name,
                aside=rung.rung.title,
                before_words=rate_cell(findings, rung).text,
                words=brief_slowdown(step.verdict, step.slowdown) if step else "",
                found=found,
                start=slowdowns.get(rung.previous, 1.0),
                published=claims.total.published if claims and claims.total else None,
                is_baseline=at == 0,
            )
            rows.append(row)
            if found is not None:
                bound = found.low if math.isinf(found.center) else found.center
                slowdowns[rung.rung.name] = bound
        description = "; ".join(f"{row.name} {row.words or row.before_words}" for row in rows)
        caption = "Logarithmic scale; further right is slower."
        if findings.is_cumulative:
            caption += " Strong colour: what the step adds. Outlined: what it takes back."
        return (rows_figure(rows, _TITLE, description, caption, name="steps-chart"),)


_OF_STEPS = (
    "Committed transactions per second, with the interval below, over the intervals that lie "
    "wholly within a step."
)
_OF_RATIOS = (
    "× slower than the same step on {}; what steps differ by is in no interval, and the noise is "
    "that of all trials together."
)


class LoadStepsSection(Section):
    name = "load-steps"
    summary = "throughput by treatment and step of the load"
    title = "Step by step of the load"
    order = 32

    def applies(self, findings: Findings) -> bool:
        return any(len(one.steps) > 1 for one in findings.by_rung(LoadSteps).values())

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return one row a step, one column a rung; and at which load each is slower than the baseline."""
        baseline = findings.rungs[0].rung.name
        blocks: list[Block] = [Paragraph(_OF_STEPS, Tone.MUTED), _rates_of_steps(findings)]
        if any(x.to_baseline for one in findings.by_rung(LoadSteps).values() for x in one.steps):
            caption = f"Slowdown of each step against {baseline}"
            ratios = _of_steps(findings, caption, lambda step: slowdown_cell(step.to_baseline))
            blocks += [Paragraph(_OF_RATIOS.format(baseline), Tone.MUTED), ratios]
        return blocks

    def brief(self, findings: Findings) -> Sequence[Block]:
        return (_rates_of_steps(findings),)


def _rates_of_steps(findings: Findings) -> Table:
    return _of_steps(findings, "Throughput of each step", _load_step_cell)


def _of_steps(findings: Findings, caption: str, cell: Callable[[StepFinding], Cell]) -> Table:
    """Return a row a step and a column a rung, without the rungs that have nothing there."""
    found = {name: one.steps for name, one in findings.by_rung(LoadSteps).items()}
    most = max(found.values(), key=len)

    def of_rung(steps: Sequence[StepFinding]) -> Callable[[int], Cell]:
        return lambda at: cell(steps[at]) if at < len(steps) else NOTHING

    return table_of(
        caption,
        range(len(most)),
        {
            "From second": lambda at: Cell(format_duration(most[at].at_s), is_strong=True),
            ">Sessions": lambda at: str(most[at].sessions),
            ">Offered": lambda at: format_rate(rate) if (rate := most[at].rate_per_s) else NOTHING,
            **{f">{name}": of_rung(steps) for name, steps in found.items()},
        },
    )


def _load_step_cell(step: StepFinding) -> Cell:
    if step.tps is None:
        return NOTHING
    if step.tps.center == 0:
        return Cell(f"< {format_rate(step.tps.high)}", "nothing committed", Tone.BAD)
    return Cell(format_rate(step.tps.center), bounds_words(step.tps, format_number))
