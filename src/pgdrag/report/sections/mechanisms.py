"""Which mechanisms slowed each rung down, and how much of the added time is each one's?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdrag.english import capital, counted, listed, percent_words
from pgdrag.findings.mechanisms.analysis import (
    NAMED_SHARE,
    MechanismFinding,
    MechanismsFinding,
    SignFinding,
)
from pgdrag.findings.values import Findings
from pgdrag.report import svg
from pgdrag.report.document import (
    NOTHING,
    Block,
    Cell,
    Details,
    Figure,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
    table_of,
)
from pgdrag.report.rung_words import share_words
from pgdrag.report.sections import Section
from pgdrag.units import format_duration

_TITLE = "Mechanisms"
_ROW, _GAP = 34, 10  # heights in the picture
_WIDTH = 30  # of a bar, in characters
_MOST_UNNAMED = 2  # of each rung
_READING = (
    "A mechanism is named if every counter that it affects changed significantly (false discovery rate under 5 %, "
    "Benjamini–Yekutieli) and if it accounts for at least 5 % of the added time. In brackets: the range over single "
    "pairs of trials and all of them. A share is where the time went, not what removing the cause would save."
)


class MechanismsSection(Section):
    name = "mechanisms"
    summary = "which mechanisms account for how much of each treatment's slowdown"
    title = _TITLE
    order = 35
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        found = findings.by_rung(MechanismsFinding).values()
        return findings.has_rungs and any(x.q is not None for one in found for x in one.found)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the picture; folded, the evidence of what is named, and what else was tested."""
        found = findings.by_rung(MechanismsFinding)
        named = {name: one for name, one in found.items() if one.named}
        reference = "the baseline"
        if findings.is_cumulative:
            reference = "the rung before, or than on the baseline where the step is not significant"
        blocks: list[Block] = [_picture(named, reference)] if named else []
        steps = {rung.rung.name for rung in findings.rungs if rung.previous}
        why_none: dict[str, list[str]] = {}
        for name, one in found.items():
            if one.why_none and name in steps:
                why_none.setdefault(one.why_none, []).append(name)
        if why_none:
            texts = (f"{listed(of)}: no mechanism is named: {why}." for why, of in why_none.items())
            blocks.append(Items(tuple(texts)))
        if named:
            reading = Paragraph(_READING, Tone.MUTED)
            table = _named_table(named, findings.noun)
            blocks.append(Details("The evidence of each mechanism", (reading, table)))
        explained: set[str] = set()
        tested = [x for name, one in found.items() for x in _tested(name, one, explained)]
        return (*blocks, Details("Mechanisms that are not named", tuple(tested)))


def _picture(named: Mapping[str, MechanismsFinding], reference: str) -> Figure:
    """Return a bar for each share, in SVG and in characters."""
    rows = []
    for rung, found in named.items():
        parts = [(one.name, one.share or 0.0, share_words(one)) for one in found.named]
        rest = found.unexplained or 0.0
        if rest >= NAMED_SHARE:
            parts.append(("unexplained", rest, percent_words(rest)))
        rows += [(rung if not at else "", *part) for at, part in enumerate(parts)]
    drawn, lines = [], []
    names, labels = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    top = -_GAP
    for name, label, share, words in rows:
        top += _GAP if name else 0
        shown, is_rest = min(max(share, 0.0), 1.0), label == "unexplained"
        title = f"\u2002{label}" if name else label
        drawn += [
            svg.two_texts(0, top + 14, name, title, kinds=("strong", "label")),
            svg.text(100, top + 14, words, "muted" if is_rest else "", "end"),
            svg.bar(0, 100, top + 20, 8, "track"),
            svg.bar(0, 100 * shown, top + 20, 8, "earlier" if is_rest else "step"),
        ]
        top += _ROW
        bar = ("▒" if is_rest else "█") * round(shown * _WIDTH)
        lines.append(f"{name:{names}}  {label:{labels}}  {bar:·<{_WIDTH}}  {words}")
    description = "; ".join(f"{name} {label} {words}".strip() for name, label, _, words in rows)
    caption = f"Shares of the time that a transaction takes longer than on {reference}."
    chart = svg.picture("shares-chart", _TITLE, description, top + _GAP, drawn)
    return Figure(chart, caption, "\n".join(lines))


def _named_table(named: Mapping[str, MechanismsFinding], noun: str) -> Table:
    def added(found: MechanismsFinding, one: MechanismFinding) -> Cell | str:
        if one.added_s is None:
            return NOTHING
        return f"{'−' if found.is_gain else '+'}{format_duration(one.added_s)}"

    return table_of(
        f"Mechanisms named on each {noun}",
        [(name, found, one) for name, found in named.items() for one in found.named],
        {
            capital(noun): lambda x: Cell(x[0], f"against {x[1].reference}", is_strong=True),
            "Mechanism": lambda x: Cell(x[2].name, listed(list(x[2].places)), is_strong=True),
            ">Share": lambda x: share_words(x[2]),
            ">Per transaction": lambda x: added(x[1], x[2]),
            ">Chance": lambda x: _chance(x[2]),
            "Evidence": lambda x: "; ".join(sign.sentence for sign in x[2].signs),
        },
    )


def _tested(rung: str, found: MechanismsFinding, explained: set[str]) -> list[Block]:
    """Return why each other mechanism is not named; what one is, is said where it stands first."""
    unnamed = [one for one in found.found if one not in found.named]
    seen = [one for one in unnamed if _has_a_sign(one)][:_MOST_UNNAMED]
    rest = len(unnamed) - len(seen)
    new = {one.name for one in seen} - explained
    explained |= new
    blocks: list[Block] = [Heading(rung, f"against {found.reference}")] if found.found else []
    if seen:
        table = table_of(
            f"Mechanisms tested on {rung}",
            seen,
            {
                "Mechanism": lambda one: Cell(
                    one.name, one.summary if one.name in new else "", is_strong=one.is_shown
                ),
                "Signs": _signs_words,
                ">Chance": _chance,
                ">Share": lambda one: NOTHING if one.share is None else percent_words(one.share),
            },
        )
        blocks.append(table)
    if rest:
        text = (
            f"Less speaks for {counted(rest, 'other mechanism')}: the JSON report has all of them."
        )
        blocks.append(Paragraph(text, Tone.MUTED))
    return blocks


def _chance(one: MechanismFinding) -> Cell | str:
    return NOTHING if one.q is None else f"{one.q:.2g}"


def _has_a_sign(one: MechanismFinding) -> bool:
    return one.is_shown or any(sign.has_moved and sign.wanted != "is" for sign in one.signs)


def _signs_words(one: MechanismFinding) -> str:
    """Return the signs that speak against it; where all changed as expected, these."""
    against = [sign for sign in one.signs if not sign.has_moved]
    return "; ".join(_sign_words(sign) for sign in against or one.signs)


def _sign_words(sign: SignFinding) -> str:
    if sign.p is None and not sign.has_moved:
        return f"? {sign.sentence}"
    return f"{'✓' if sign.has_moved else '✗'} {sign.sentence}"
