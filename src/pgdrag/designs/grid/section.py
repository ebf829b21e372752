"""Do the factors of a grid act on each other? All combinations, and each interaction with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.designs.grid.findings import GridFinding, InteractionFinding
from pgdrag.findings.values import Comparison, Findings, Interval, Verdict
from pgdrag.report.cells import NOTHING, bare_ratio, bounds_words, slowdown_cell
from pgdrag.report.document import Align, Block, Cell, Column, Items, Paragraph, Table, Tone
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_ratio

_MOST_SENTENCES = 8


class InteractionsSection(Section):
    """A table of all combinations of two factors, and of each interaction."""

    name: ClassVar[str] = "interactions"
    summary: ClassVar[str] = "whether a grid's factors act on each other, with intervals"
    title: ClassVar[str] = "What the factors make together"
    order: ClassVar[int] = 26
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """Two factors or more were crossed."""
        return isinstance(findings.found, GridFinding)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the combinations, the interactions in words and numbers, and how to read them."""
        found = found_of(findings, GridFinding)
        return (*_combinations(found), *_sentences(found), *_interactions(found), _reading(found))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the combinations and the sentences."""
        found = found_of(findings, GridFinding)
        return (*_combinations(found), *_sentences(found))


def _combinations(found: GridFinding) -> list[Block]:
    """Return two factors as a table of rows and columns; more have no such table."""
    if len(found.factors) != 2:
        return []
    down, across = found.factors
    cells = {one.levels: one.to_first for one in found.combinations}
    first = (down.levels[0], across.levels[0])
    columns = (
        Column(f"{down.name} ↓ {across.name} →"),
        *(Column(level, Align.RIGHT) for level in across.levels),
    )
    rows = tuple(
        (
            Cell(level, is_strong=True),
            *(
                Cell("1") if (level, other) == first else slowdown_cell(cells[level, other])
                for other in across.levels
            ),
        )
        for level in down.levels
    )
    caption = f"× slower than {down.name} = {first[0]}, {across.name} = {first[1]}"
    return [Table(caption, columns, rows)]


def _sentences(found: GridFinding) -> list[Block]:
    ranked = sorted(found.interactions, key=lambda one: not one.is_significant)
    return [Items(tuple(one.sentence for one in ranked[:_MOST_SENTENCES]))] if ranked else []


def _interactions(found: GridFinding) -> list[Block]:
    if not found.interactions:
        return []
    columns = (
        Column("Changes"),
        Column("First alone", Align.RIGHT),
        Column("Second alone", Align.RIGHT),
        Column("Both", Align.RIGHT),
        Column("Product", Align.RIGHT),
        Column("Interaction", Align.RIGHT),
        Column("Detectable effect", Align.RIGHT),
    )
    rows = tuple(_row(one) for one in found.interactions)
    return [Table("Interactions, × slower", columns, rows)]


def _row(one: InteractionFinding) -> tuple[Cell, ...]:
    first, second = (
        f"{name} {change}" for name, change in zip(one.factors, one.changes, strict=True)
    )
    way = Verdict.SLOWER if one.interaction.center > 1 else Verdict.FASTER
    verdict = way if one.is_significant else Verdict.INCONCLUSIVE
    return (
        Cell(first, f"and {second}", is_strong=True),
        *(_ratio_cell(each) for each in (*one.alone, one.both)),
        Cell(format_ratio(one.product)),
        slowdown_cell(Comparison(verdict, one.interaction, one.detectable)),
        Cell(f"{format_ratio(one.detectable)} or more") if one.detectable < 1e6 else NOTHING,
    )


def _ratio_cell(found: Interval) -> Cell:
    return Cell(format_ratio(found.center), bounds_words(found, bare_ratio))


def _reading(found: GridFinding) -> Paragraph:
    method = f" Intervals: {found.method}." if found.method else ""
    return Paragraph(
        "Product: the slowdown if the two changes did not interact. Interaction: the slowdown of both divided by "
        "that; 1 where they do not interact. It is significant if its interval, allowing for "
        f"{len(found.interactions)} of them, excludes 1.{method}",
        Tone.MUTED,
    )
