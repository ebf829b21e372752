"""Do the factors of a grid act on each other? All combinations, and each interaction with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdrag.designs.grid import GridFinding, InteractionFinding
from pgdrag.findings.values import Comparison, Findings, Verdict
from pgdrag.report.cells import NOTHING, bare_ratio, bounds_words, slowdown_cell
from pgdrag.report.document import Block, Cell, Items, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_ratio

_MOST_SENTENCES = 8


class InteractionsSection(Section):
    name = "interactions"
    summary = "whether a grid's factors act on each other, with intervals"
    title = "How the factors combine"
    order = 26
    finding_type = GridFinding
    is_folded = False

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, GridFinding)
        method = f" Intervals: {found.method}." if found.method else ""
        reading = (
            "Product: the slowdown if the two changes did not interact. Interaction: the slowdown of both divided by "
            "that; 1 where they do not interact. It is significant if its interval, allowing for "
            f"{len(found.interactions)} of them, excludes 1.{method}"
        )
        titles = ("Changes", ">First alone", ">Second alone", ">Both", ">Product", ">Interaction")
        rows = tuple(map(_row, found.interactions))
        table = Table("Interactions, × slower", header(*titles, ">Detectable effect"), rows)
        return (*self.brief(findings), *([table] if rows else []), Paragraph(reading, Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, GridFinding)
        ranked = sorted(found.interactions, key=lambda one: not one.is_significant)
        sentences = tuple(
            one.sentence
            for one in ranked[:_MOST_SENTENCES]
            if one.sentence not in found.answer  # which stands above
        )
        return (*_combinations(found), *([Items(sentences)] if sentences else []))


def _combinations(found: GridFinding) -> Iterator[Block]:
    """Return two factors as a table of rows and columns; more have no such table."""
    if len(found.factors) != 2:
        return
    down, across = found.factors
    cells = {one.levels: slowdown_cell(one.to_first) for one in found.combinations}
    cells[down.levels[0], across.levels[0]] = Cell("1")
    yield Table(
        f"× slower than {down.name} = {down.levels[0]}, {across.name} = {across.levels[0]}",
        header(f"{down.name} ↓ {across.name} →", *(f">{level}" for level in across.levels)),
        tuple(
            (Cell(level, is_strong=True), *(cells[level, other] for other in across.levels))
            for level in down.levels
        ),
    )


def _row(one: InteractionFinding) -> tuple[Cell, ...]:
    first, second = (
        f"{name} {change}" for name, change in zip(one.factors, one.changes, strict=True)
    )
    way = Verdict.SLOWER if one.interaction.center > 1 else Verdict.FASTER
    verdict = way if one.is_significant else Verdict.INCONCLUSIVE
    return (
        Cell(first, f"and {second}", is_strong=True),
        *(
            Cell(format_ratio(each.center), bounds_words(each, bare_ratio))
            for each in (*one.alone, one.both)
        ),
        Cell(format_ratio(one.product)),
        slowdown_cell(Comparison(verdict, one.interaction, one.detectable)),
        Cell(f"{format_ratio(one.detectable)} or more") if one.detectable < 1e6 else NOTHING,
    )
