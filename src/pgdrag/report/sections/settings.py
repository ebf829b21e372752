"""What was set, and what did the running server say it was?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.findings.levels import LevelsFinding
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model import Applied, Level
from pgdrag.report.document import Block, Cell, Items, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section


class SettingsSection(Section):
    """Each level that a rung adds, asked for and read back."""

    name = "settings"
    summary = "each level that a rung adds, asked for and read back"
    title = "Settings, as set and as read back"
    order = 80

    def applies(self, findings: Findings) -> bool:
        """Some rung sets something."""
        return any(_levels(rung, at) for at, rung in enumerate(findings.rungs))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table, and what was undone, impossible or without effect."""
        rows = tuple(row for at, rung in enumerate(findings.rungs) for row in _rows(rung, at))
        columns = header("Rung", "Factor", "Set to", "Read back")
        reading = "Each rung keeps the settings of the rungs before it. Values are read back from the running server."
        remarks = tuple(text for rung in findings.rungs for text in _remarks(rung))
        table = Table("Levels that each rung adds", columns, rows)
        blocks: tuple[Block, ...] = (Paragraph(reading, Tone.MUTED), table)
        return (*blocks, Items(remarks)) if remarks else blocks


def _levels(rung: TreatmentFinding, at: int) -> tuple[Level, ...]:
    """Return the levels that a rung adds; the baseline adds all of its own."""
    return rung.rung.added or (rung.rung.treatment.levels if at == 0 else ())


def _rows(rung: TreatmentFinding, at: int) -> list[tuple[Cell, ...]]:
    applied = {one.level.factor: one for one in rung.applied}
    return [
        (
            Cell(rung.rung.name, is_strong=True),
            Cell(level.name if level.kind == "setting" else f"{level.name} ({level.kind})"),
            Cell(level.shown),
            _read_back(applied.get(level.factor)),
        )
        for level in _levels(rung, at)
    ]


def _remarks(rung: TreatmentFinding) -> list[str]:
    levels = rung.get(LevelsFinding) or LevelsFinding()
    overrides = [f"{text}." for text in levels.overrides]  # they name the rung themselves
    return overrides + [f"{rung.rung.name}: {text}." for text in levels.inert]


def _read_back(applied: Applied | None) -> Cell:
    if applied is None:
        return Cell("not read back", tone=Tone.MUTED)
    if applied.effective is None:
        return Cell("– untestable here", applied.note, Tone.WARNING)
    note = "; ".join(filter(None, (applied.note, applied.how)))
    return Cell(applied.effective, note, Tone.WARNING if applied.note else Tone.PLAIN)
