"""How does throughput depend on how long the horizon was held?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.english import as_sentence
from pgdrag.findings.dose.findings import DOSES_MIN, DoseCurve, HorizonFinding
from pgdrag.findings.values import Findings
from pgdrag.report.cells import bounds_words
from pgdrag.report.document import Align, Block, Cell, Column, Figure, Items, Paragraph, Table, Tone
from pgdrag.report.dose_chart import Dose, DosePanel, dose_chart, dose_text
from pgdrag.report.sections import Section
from pgdrag.units import format_duration, format_number, format_rate

_TITLE = "Throughput against the length of the hold"
_READING = (
    "Each point is a rung: the fitted rate at the end of its hold, with its 95 % interval. The line is "
    f"r0 / (1 + length / half-dose), by weighted least squares on logarithms; fewer than {DOSES_MIN} lengths make no line. "
    "Rungs that lose updates are left out."
)


class DoseSection(Section):
    """Throughput at the end of each hold against its length, one panel a variant."""

    name: ClassVar[str] = "dose"
    summary: ClassVar[str] = "throughput against the length of the hold, one panel a variant"
    title: ClassVar[str] = _TITLE
    order: ClassVar[int] = 23
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """The horizon was held for two lengths or more, none at all being one of them."""
        return bool(_curves(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the panels, and what they come to in words and numbers."""
        curves = _curves(findings)
        panels = [_panel(one) for one in curves]
        told = "; ".join(f"{one.name}: {one.words}" for one in panels)
        caption = "Committed per second at the end of the hold, against its length in the window."
        figure = Figure(dose_chart(panels, _TITLE, told), caption, dose_text(panels))
        return (figure, _items(curves), _table(curves), Paragraph(_READING, Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return a sentence for each variant."""
        return (_items(_curves(findings)),)


def _curves(findings: Findings) -> tuple[DoseCurve, ...]:
    found = findings.get(HorizonFinding)
    return found.doses if found is not None else ()


def _items(curves: Sequence[DoseCurve]) -> Items:
    return Items(tuple(as_sentence(f"{one.variant}: {one.sentence}") for one in curves))


def _panel(curve: DoseCurve) -> DosePanel:
    words = {
        "falls": "falls with the length",
        "does not fall": "does not fall",
        "inconclusive": "cannot be told",
        "too few doses": "too few lengths",
    }
    doses = (
        Dose(one.rung, one.held_s, one.per_s.low, one.per_s.center, one.per_s.high)
        for one in curve.points
    )
    return DosePanel(curve.variant, words[curve.verdict], tuple(doses), curve.curve)


def _table(curves: Sequence[DoseCurve]) -> Table:
    columns = (
        Column("Rung"),
        Column("Held for", Align.RIGHT),
        Column("Rate at its end", Align.RIGHT),
        Column("Variant"),
    )
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
