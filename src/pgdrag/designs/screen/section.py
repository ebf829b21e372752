"""The picture of a screening: each change's own effect, the largest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.designs.screen.findings import ScreenedChange, ScreenFinding
from pgdrag.english import counted
from pgdrag.findings.values import Findings
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.document import (
    Align,
    Block,
    Cell,
    Column,
    Details,
    Paragraph,
    Table,
    Tone,
)
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_number, format_ratio

_TITLE = "Each change's own effect"
_NOISE_SHOWN, _LEAST_SHOWN = 3, 8


class ScreenSection(Section):
    """A forest plot of the effects and a table of them."""

    name: ClassVar[str] = "screen"
    summary: ClassVar[str] = "a forest plot of each change's own effect, the largest first"
    title: ClassVar[str] = _TITLE
    order: ClassVar[int] = 14
    is_folded: ClassVar[bool] = False

    def applies(self, findings: Findings) -> bool:
        """There is a picture as soon as the trials tell the changes apart."""
        return isinstance(findings.found, ScreenFinding) and bool(findings.found.changes)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the picture, the reading and the table."""
        found = found_of(findings, ScreenFinding)
        table = Details(f"All {counted(len(found.changes), 'change')}", (_table(found),))
        return (*_picture(found), _reading(found), table)

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the picture in characters."""
        found = found_of(findings, ScreenFinding)
        return (*_picture(found), _reading(found))


def _picture(found: ScreenFinding) -> list[Block]:
    # Those that are not significant are many: a few of them show what noise looks like.
    significant = sum(one.is_significant for one in found.changes)
    shown = found.changes[: max(significant + _NOISE_SHOWN, _LEAST_SHOWN)]
    rows = [
        Row(one.name, _effect(one), slowdown_words(one.slowdown), found=one.slowdown)
        for one in shown
    ]
    rest = len(found.changes) - len(shown)
    others = (
        f" {counted(rest, 'smaller effect')} that are not significant: in the table."
        if rest
        else ""
    )
    words = "; ".join(f"{row.name} {row.words}" for row in rows)
    caption = (
        "How many times slower each change makes it, averaged over all settings of the others, with its "
        f"95 % interval; logarithmic scale, further right is slower.{others}"
    )
    return [rows_figure(rows, _TITLE, words, caption, name="screen-chart")]


def _reading(found: ScreenFinding) -> Paragraph:
    seen = (
        f" An effect of {format_ratio(found.detectable)} or more would be significant."
        if found.detectable is not None
        else ""
    )
    text = f"{counted(found.trials, 'trial')}; {found.method}; significant at 5 %, adjusted for all changes (Holm).{seen}"
    return Paragraph(text, Tone.MUTED)


def _table(found: ScreenFinding) -> Table:
    columns = (
        Column("Change"),
        Column("× slower", Align.RIGHT),
        Column("Effect"),
        Column("p", Align.RIGHT),
        Column("p of all", Align.RIGHT),
    )
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
    return Table("The effect of every change", columns, rows)


def _effect(one: ScreenedChange) -> str:
    if not one.is_significant:
        return "not significant"
    return "slower" if one.slowdown.center > 1 else "faster"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else format_number(p, significant=2)


def _value(value: str | None) -> str:
    return "not set" if value is None else value
