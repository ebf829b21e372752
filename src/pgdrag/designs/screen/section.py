"""The picture of a screening: each change's own effect, the largest first."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.designs.screen import ScreenedChange, ScreenFinding
from pgdrag.english import counted
from pgdrag.findings.values import Findings
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.document import Block, Cell, Details, Paragraph, Table, Tone, header
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_number, format_ratio

_NOISE_SHOWN, _LEAST_SHOWN = 3, 8
_NO_EFFECT = 1e4  # that a setting has is so large


class ScreenSection(Section):
    name = "screen"
    summary = "a forest plot of each change's own effect, the largest first"
    title = "Each change's own effect"
    order = 14
    is_folded = False
    finding_type = ScreenFinding
    needs = "changes"

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, ScreenFinding)
        table = Details(f"All {counted(len(found.changes), 'change')}", (_table(found),))
        return (*self.brief(findings), table)

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the picture, which the terminal has in characters, and the reading."""
        found = found_of(findings, ScreenFinding)
        # Those that are not significant are many: a few of them show what noise looks like.
        significant = sum(one.is_significant for one in found.changes)
        shown = found.changes[: max(significant + _NOISE_SHOWN, _LEAST_SHOWN)]
        rows = [
            Row(one.name, _effect(one), slowdown_words(one.slowdown), found=one.slowdown)
            for one in shown
        ]
        caption = (
            "How many times slower each change makes it, averaged over all settings of the others, with its "
            "95 % interval; logarithmic scale, further right is slower."
        )
        if rest := len(found.changes) - len(shown):
            caption += f" {counted(rest, 'smaller effect')} that are not significant: in the table."
        description = "; ".join(f"{row.name} {row.words}" for row in rows)
        reading = f"{counted(found.trials, 'trial')}; {found.method}; significant at 5 %, adjusted for all changes (Holm)."
        if found.detectable is not None:
            reading += (
                f" An effect of {format_ratio(found.detectable)} or more would be significant."
                if found.detectable < _NO_EFFECT
                else " So few trials cannot call an effect of any size significant."
            )
        return (
            rows_figure(rows, self.title, description, caption, name="screen-chart"),
            Paragraph(reading, Tone.MUTED),
        )


def _table(found: ScreenFinding) -> Table:
    rows = tuple(
        (
            Cell(one.name, f"{_value(one.before)} → {_value(one.after)}", is_strong=True),
            Cell(
                format_ratio(one.slowdown.center),
                f"{format_ratio(one.slowdown.low)} to {format_ratio(one.slowdown.high)}",
            ),
            Cell(_effect(one), tone=Tone.PLAIN if one.is_significant else Tone.MUTED),
            Cell(_p(one.p)),
            Cell(_p(one.p_adjusted)),
        )
        for one in found.changes
    )
    columns = header("Change", ">× slower", "Effect", ">p", ">p of all")
    return Table("The effect of every change", columns, rows)


def _effect(one: ScreenedChange) -> str:
    if not one.is_significant:
        return "not significant"
    return "slower" if one.slowdown.center > 1 else "faster"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else format_number(p, significant=2)


def _value(value: str | None) -> str:
    return "not set" if value is None else value
