"""The table: every rung with its throughput, its slowdowns and the published ones."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import percent_words
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.values import Findings, NamedRate, TreatmentFinding
from pgdrag.model import Outcome
from pgdrag.report.cells import (
    NOTHING,
    bounds_words,
    claim_cell,
    name_cell,
    rate_cell,
    slowdown_cell,
)
from pgdrag.report.document import Align, Block, Cell, Column, Paragraph, Table, Tone
from pgdrag.report.sections import Section
from pgdrag.report.sections._warnings import rung_warnings
from pgdrag.units import format_number


class LadderSection(Section):
    """One row a rung."""

    name = "ladder"
    summary = "one row a rung"
    title = "Rung by rung"
    order = 30
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """Some designs have a table of their own, which knows more."""
        return findings.has_rungs

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table with every column that has something in it, and the warnings."""
        reading = Paragraph(_reading(findings), Tone.MUTED)
        return (_table(findings, has_details=True), reading, *rung_warnings(findings))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the table without shares and New-Orders, which the terminal has no room for."""
        return (_table(findings, has_details=False), Paragraph(_reading(findings), Tone.MUTED))


def _table(findings: Findings, *, has_details: bool) -> Table:
    baseline = findings.rungs[0].rung.name
    columns = [Column("Rung"), Column("Committed", Align.RIGHT)]
    rows = [[name_cell(rung), rate_cell(findings, rung)] for rung in findings.rungs]

    def add(title: str, cells: list[Cell]) -> None:
        if any(cell != NOTHING for cell in cells):
            columns.append(Column(title, Align.RIGHT))
            for row, cell in zip(rows, cells, strict=True):
                row.append(cell)

    add(f"× slower than {baseline}", [slowdown_cell(one.to_baseline) for one in findings.rungs])
    claims = [one.get(ClaimsFinding) or ClaimsFinding() for one in findings.rungs]
    add("Published", [claim_cell(one.total) for one in claims])
    if has_details:
        add(_named_rate_title(findings), [_named_rate_cell(one) for one in findings.rungs])
    # Outside a ladder every rung is compared with the baseline, and there is no step.
    if findings.is_cumulative:
        add("× slower than before", [_step_cell(findings, one) for one in findings.rungs])
        add("Published step", [claim_cell(one.step) for one in claims])
        if has_details:
            add("Share", [_share_cell(one) for one in findings.rungs])
    return Table("Throughput and slowdown of each rung", tuple(columns), tuple(map(tuple, rows)))


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


def _named_rate_title(findings: Findings) -> str:
    return next((one.label for one in findings.by_rung(NamedRate).values()), "")


def _named_rate_cell(rung: TreatmentFinding) -> Cell:
    orders = rung.get(NamedRate)
    if orders is None:
        return NOTHING
    found = orders.per_min
    return Cell(format_number(found.center), bounds_words(found, format_number))


def _share_cell(rung: TreatmentFinding) -> Cell:
    return NOTHING if rung.step_share is None else Cell(percent_words(rung.step_share))


def _reading(findings: Findings) -> str:
    confidences = {rung.tps.confidence for rung in findings.rungs if rung.tps is not None}
    shown = f"{min(confidences) * 100:.3g} % " if confidences else ""
    return f"Committed: transactions per second, with the {shown}interval below; rolled back and failed ones are counted apart."
