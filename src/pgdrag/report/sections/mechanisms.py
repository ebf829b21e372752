"""Which mechanisms slowed each rung down, and how much of the added time is each one's?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdrag.english import listed, percent_words
from pgdrag.findings.mechanisms.analysis import (
    NAMED_SHARE,
    MechanismFinding,
    MechanismsFinding,
    SignFinding,
)
from pgdrag.findings.values import Findings
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Figure,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.rung_words import share_words
from pgdrag.report.sections import Section
from pgdrag.report.shares import ShareRow, shares_chart, shares_text
from pgdrag.units import format_duration

_TITLE = "Mechanisms"
_READING = (
    "A mechanism is named if every counter that it affects changed significantly (false discovery rate under 5 %, "
    "Benjamini–Yekutieli) and if it accounts for at least 5 % of the time that a transaction takes longer. In "
    "brackets: the range over pairs of trials. A share is where the time went, not what removing the cause would save."
)


class MechanismsSection(Section):
    """A bar for each mechanism and rung, and its evidence."""

    name = "mechanisms"
    summary = "which mechanisms account for how much of each rung's slowdown"
    title = _TITLE
    order = 35
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """There is something to say as soon as a mechanism could be tested on some step."""
        found = findings.by_rung(MechanismsFinding).values()
        return findings.has_rungs and any(x.q is not None for one in found for x in one.found)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the picture, the table of what is named, and all that was tested."""
        found = findings.by_rung(MechanismsFinding)
        named = {name: one for name, one in found.items() if one.named}
        rows = [row for name, one in named.items() for row in _rows(name, one)]
        blocks: list[Block] = []
        if rows:
            description = "; ".join(f"{row.group} {row.label} {row.words}" for row in rows)
            caption = (
                "Shares of the time that each transaction takes longer than on the rung before, or than on the "
                "baseline if the step from the rung before is not significant."
            )
            blocks += [
                Figure(shares_chart(rows, _TITLE, description), caption, shares_text(rows)),
                _named_table(named),
            ]
        steps = {rung.rung.name for rung in findings.rungs if rung.previous}
        none = {
            name: f"no mechanism is named: {one.why_none}."
            for name, one in found.items()
            if one.why_none and name in steps
        }
        if none:
            blocks.append(Items(_grouped(none)))
        blocks.append(Paragraph(_READING, Tone.MUTED))
        explained: set[str] = set()
        tested = [
            x for name, one in found.items() if one.found for x in _tested(name, one, explained)
        ]
        return (*blocks, Details("All mechanisms tested", tuple(tested)))


def _rows(rung: str, found: MechanismsFinding) -> list[ShareRow]:
    rows = [ShareRow(rung, one.name, one.share or 0.0, share_words(one)) for one in found.named]
    rest = found.unexplained or 0.0
    if rest >= NAMED_SHARE:
        rows.append(ShareRow(rung, "unexplained", rest, percent_words(rest), is_rest=True))
    return rows


def _named_table(named: Mapping[str, MechanismsFinding]) -> Table:
    columns = header("Rung", "Mechanism", ">Share", ">Seconds per transaction", "Evidence")
    rows = tuple(
        (
            Cell(name, f"against {found.reference}", is_strong=True),
            Cell(one.name, _where(one), is_strong=True),
            Cell(share_words(one)),
            Cell(_signed(one.added_s, is_gain=found.is_gain)),
            Cell("; ".join(sign.sentence for sign in one.signs)),
        )
        for name, found in named.items()
        for one in found.named
    )
    return Table("Mechanisms named on each rung", columns, rows)


def _where(one: MechanismFinding) -> str:
    return listed(list(one.places))


def _signed(added_s: float | None, *, is_gain: bool) -> str:
    if added_s is None:
        return "–"
    return f"{'−' if is_gain else '+'}{format_duration(added_s)}"


def _grouped(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Return each text once, behind the names of its rungs."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(name)
    return tuple(f"{listed(of)}: {text}" for text, of in names.items() if text)


def _tested(rung: str, found: MechanismsFinding, explained: set[str]) -> tuple[Block, ...]:
    """Return what became of each mechanism; what one is, is said where it stands first."""
    columns = header("Mechanism", "Signs", ">Chance", ">Share")
    rows = tuple(
        (
            Cell(one.name, "" if one.name in explained else one.summary, is_strong=one.is_shown),
            Cell("; ".join(_sign_words(sign) for sign in one.signs)),
            Cell("–" if one.q is None else f"{one.q:.2g}"),
            Cell("–" if one.share is None else percent_words(one.share)),
        )
        for one in found.found
        if _has_a_sign(one)
    )
    explained |= {one.name for one in found.found if _has_a_sign(one)}
    none = [one.name for one in found.found if not _has_a_sign(one)]
    blocks: list[Block] = [Heading(rung, f"against {found.reference}")]
    if rows:
        blocks.append(Table(f"Mechanisms tested on {rung}", columns, rows))
    if none:
        blocks.append(Paragraph(f"No sign changed as expected: {listed(none)}.", Tone.MUTED))
    return tuple(blocks)


def _has_a_sign(one: MechanismFinding) -> bool:
    return one.is_shown or any(sign.has_moved and sign.wanted != "is" for sign in one.signs)


def _sign_words(sign: SignFinding) -> str:
    if sign.p is None and not sign.has_moved:
        return f"? {sign.sentence}"
    return f"{'✓' if sign.has_moved else '✗'} {sign.sentence}"
