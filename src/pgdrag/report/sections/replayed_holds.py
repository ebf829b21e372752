"""Were the holds of the horizon in the laboratory as long as those on the server that they repeat?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.findings.holds.replay import ReplayFinding
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.report.document import (
    Align,
    Block,
    Cell,
    Column,
    Figure,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
)
from pgdrag.report.holds_chart import holds_chart
from pgdrag.report.sections import Section
from pgdrag.units import format_duration

_HOW_TO_READ = (
    "How many of the holds last longer than so long: in the captured file, and as they were made in all trials "
    "of the rung together. A hold that the window's end cuts off counts as one that lasts at least so long."
)


class ReplayedHoldsSection(Section):
    """For each rung that replays a capture: both curves, and how far they are apart."""

    name: ClassVar[str] = "replayed-holds"
    summary: ClassVar[str] = "lengths of replayed holds against the captured ones"
    title: ClassVar[str] = "Replayed holds"
    order: ClassVar[int] = 49

    def applies(self, findings: Findings) -> bool:
        """Some rung replayed a captured distribution."""
        return bool(findings.by_rung(ReplayFinding))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return, rung by rung, how well it was replayed, the picture, and both in numbers."""
        body: list[Block] = [Paragraph(_HOW_TO_READ, Tone.MUTED)]
        for at, rung in enumerate(findings.rungs):
            if replay := rung.get(ReplayFinding):
                body += _of_rung(rung, replay, at)
        return body

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return a sentence a rung."""
        told = tuple(
            f"{name}: {one.sentence}" for name, one in findings.by_rung(ReplayFinding).items()
        )
        return (Heading(self.title), Items(told)) if told else ()


def _of_rung(rung: TreatmentFinding, found: ReplayFinding, at: int) -> list[Block]:
    is_well = found.distance.is_alike
    caption = (
        f"Share of holds that last longer: captured (dashed) and replayed by {rung.rung.name}."
    )
    blocks: list[Block] = [
        Heading(rung.rung.heading, found.file),
        Paragraph(found.sentence, Tone.PLAIN if is_well else Tone.WARNING),
        Figure(holds_chart(f"replayed-{at}", found), caption),
        _lengths(found),
        _kinds(found),
    ]
    if found.warnings:
        blocks.append(Items(found.warnings))
    return blocks


def _lengths(found: ReplayFinding) -> Table:
    columns = (Column("So many are over by"), Column("Captured", Align.RIGHT), Column("Replayed", Align.RIGHT))  # fmt: skip
    rows = [
        (Cell(f"{share:.0%}"), Cell(format_duration(wanted)), Cell(format_duration(held)))
        for share, wanted, held in found.distance.quantiles
    ]
    gap = f"{found.distance.largest_gap:.0%}"
    rows.append((Cell("Largest distance of the curves"), Cell(""), Cell(gap)))
    return Table("Lengths of holds", columns, tuple(rows))


def _kinds(found: ReplayFinding) -> Table:
    total = sum(kind.holds for kind in found.kinds)
    columns = (Column("Holder"), Column("Captured", Align.RIGHT), Column("Replayed", Align.RIGHT))
    rows = tuple(
        (
            Cell(kind.holder),
            Cell(f"{kind.wanted:.0%}"),
            Cell(f"{kind.holds / total:.0%}", f"{kind.holds:,} of {total:,}"),
        )
        for kind in found.kinds
    )
    return Table("Kinds of holders", columns, rows)
