"""Does the server run the same statements another way? Plans that changed, and wrong estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdrag.findings.plan_diff import PlanChange, PlanChanges
from pgdrag.findings.plan_nodes import Misestimate, misestimate
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.recordings import StatementPlan
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Heading,
    Items,
    Lines,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.plan_text import plan_text
from pgdrag.report.sections import Section
from pgdrag.units import format_ratio

MOST_SHOWN = 6  # statements of a rung with both plans
MOST_MISESTIMATES = 10
TELLING_FACTOR = 10.0
_STATEMENT_LENGTH = 160


class PlansSection(Section):
    """What changed in the statements' plans, rung by rung, with the plans themselves."""

    name = "plans"
    summary = "statements whose plan changed, and wrong row estimates"
    title = "Plans"
    order = 44

    def applies(self, findings: Findings) -> bool:
        """Some statement was explained."""
        return any(rung.recordings.of(StatementPlan) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the rungs with other plans, then estimates, then what could not be explained."""
        by_name = {rung.rung.name: rung for rung in findings.rungs}
        changed = [rung for rung in findings.rungs if rung.get(PlanChanges)]
        body = [x for rung in changed for x in _rung_blocks(rung, by_name[rung.previous])]
        if not changed:
            body.append(Paragraph("No plan changed on any rung."))
        intro = Paragraph(
            "Each statement was explained after the window of the trial of median throughput, under that trial's "
            "settings. A different cost alone is not a different plan.",
            Tone.MUTED,
        )
        return (intro, *body, *_estimates(findings), *_unexplained(findings))


def statement_words(query: str) -> str:
    """Return a statement on one line, cut where it is long."""
    line = " ".join(query.split())
    return line if len(line) <= _STATEMENT_LENGTH else f"{line[: _STATEMENT_LENGTH - 1]}…"


def _rung_blocks(rung: TreatmentFinding, previous: TreatmentFinding) -> Iterator[Block]:
    changes = (rung.get(PlanChanges) or PlanChanges()).changes
    yield Heading(rung.rung.heading, f"against {rung.previous}")
    columns = header("Statement", "Plan", "Change")
    rows = tuple(
        (
            Cell(statement_words(change.query), change.transaction),
            Cell(change.kind),
            Cell(change.words),
        )
        for change in changes
    )
    yield Table(f"Statements with another plan than on {rung.previous}", columns, rows)
    for change in changes[:MOST_SHOWN]:
        yield _both(change, previous, rung)
    if (rest := len(changes) - MOST_SHOWN) > 0:
        yield Paragraph(f"{rest} more plans are in the JSON report.", Tone.MUTED)


def _both(change: PlanChange, previous: TreatmentFinding, rung: TreatmentFinding) -> Details:
    """Return a statement's plans on both rungs, as they ran where they were run."""
    blocks: list[Block] = []
    for side in (previous, rung):
        plan = next(x for x in side.recordings.of(StatementPlan) if x.query == change.query)
        shown = plan.generic if change.kind == "generic" else plan.analyzed or plan.custom
        if shown is not None:
            blocks += [Paragraph(f"On {side.rung.name}:"), Lines(plan_text(shown))]
    return Details(f"Both plans of: {statement_words(change.query)}", tuple(blocks))


def _estimates(findings: Findings) -> tuple[Block, ...]:
    """Return where far more or fewer rows came than the server expected, the worst first."""
    found = sorted(
        (
            (worst, rung, plan)
            for rung in findings.rungs
            for plan in rung.recordings.of(StatementPlan)
            if (worst := _worst(plan)) is not None and worst.factor >= TELLING_FACTOR
        ),
        key=lambda each: -each[0].factor,
    )[:MOST_MISESTIMATES]
    if not found:
        return ()
    columns = header("Rung", "Statement", "Where", ">Estimated", ">Actual", ">Factor")
    rows = tuple(
        (
            Cell(rung.rung.name, is_strong=True),
            Cell(statement_words(plan.query), plan.transaction),
            Cell(worst.node),
            Cell(f"{worst.estimated:,.0f}"),
            Cell(f"{worst.actual:,.0f}"),
            Cell(format_ratio(worst.factor)),
        )
        for worst, rung, plan in found
    )
    table = Table("Estimated and actual rows", columns, rows)
    return (Heading("Wrong estimates"), table)


def _worst(plan: StatementPlan) -> Misestimate | None:
    return misestimate(plan.analyzed) if plan.analyzed is not None else None


def _unexplained(findings: Findings) -> tuple[Block, ...]:
    reasons = {
        f"{rung.rung.name}: {statement_words(plan.query)}: {plan.missing}"
        for rung in findings.rungs
        for plan in rung.recordings.of(StatementPlan)
        if plan.missing
    }
    reasons |= {
        f"{rung.rung.name}: {rung.recordings.missing['plans']}"
        for rung in findings.rungs
        if "plans" in rung.recordings.missing
    }
    if not reasons:
        return ()
    return (Details("What could not be explained", (Items(tuple(sorted(reasons))),)),)
