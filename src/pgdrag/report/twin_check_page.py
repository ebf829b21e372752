"""How far may a twin be trusted? The same blocks for a page and a terminal, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pgdrag
from pgdrag.english import as_sentence, counted, cut, percent_words
from pgdrag.report.document import (
    NOTHING,
    Block,
    Cell,
    Details,
    Items,
    Paragraph,
    Table,
    Tone,
    table_of,
)
from pgdrag.report.html import PageHead, PagePart, render_page
from pgdrag.report.json import json_of
from pgdrag.twins.fidelity import (
    MIX_WITHIN,
    WITHIN,
    Fidelity,
    StatementFidelity,
    TwinCheck,
    Verdict,
)
from pgdrag.units import format_bytes, format_duration, format_number, format_ratio

FORMAT = 1  # changes when a key of the JSON changes its meaning or goes away
_BRIEF, _BRIEF_WIDTH, _STATEMENT_WIDTH, _LISTED = 10, 44, 120, 12
_LARGE = 10.0  # a ratio of which two decimals say nothing
_TITLES = {
    "rows": ">Rows",
    "blocks": ">Blocks",
    "blocks read": ">Read",
    "WAL bytes": ">WAL",
    "temporary bytes": ">Temp",
    "ms": ">Time",
}
_TONES = {Verdict.FAITHFUL: Tone.GOOD, Verdict.EXCEPT: Tone.WARNING, Verdict.NOT: Tone.BAD}
_MEANING = (
    f"Per call, twin / original. A statement is like the original if its share of the calls is within {MIX_WITHIN:.0%} of all calls, "
    f"its rows, blocks, WAL and temporary bytes per call within {WITHIN:.0%}, and its plan has the same form; what is not is marked !. "
    "Read blocks depend on caches and times on the machine: they decide nothing."
)
_LIMITS = (
    "A twin does not know which transactions wait for each other's locks beyond what its rows and statements bring about, what an application "
    "decides between statements, combinations of columns' values that no statistics tell, or texts' words. Findings on it are about the "
    "database's work, not about the application's."
)


def check_blocks(found: TwinCheck) -> Iterator[Block]:
    """Yield what a terminal shows."""
    fidelity = found.fidelity
    yield from _verdict(found)
    if fidelity.statements:
        yield _brief_statements(fidelity.statements[:_BRIEF])
    more = fidelity.statements[_BRIEF:]
    if more:
        share = percent_words(sum(x.share for x in more))
        off = sum(bool(x.off) for x in more)
        yield Paragraph(
            f"and {len(more)} more with {share} of the time, {off} of them not like the original: see --json or -o FILE.html"
        )
    yield Paragraph(_MEANING, Tone.MUTED)
    yield from _rest(fidelity)
    yield from _notes(found)


def render_check_html(found: TwinCheck) -> str:
    """Return a self-contained HTML page."""
    fidelity = found.fidelity
    head = PageHead(
        eyebrow=f"pgdrag twin check · {found.twin} · captured {found.captured_on} from PostgreSQL {found.source_version}",
        title=f"{found.twin} at scale {found.scale:g} on PostgreSQL {found.server_version}",
        question="How far is this twin like its original?",
        footer=f"Its load was watched for {format_duration(found.for_s)}. Made by pgdrag {pgdrag.__version__}.",
    )
    statements: list[Block] = [_statements(fidelity.statements)] if fidelity.statements else []
    parts = [
        PagePart("summary", "Summary", [*_verdict(found), Paragraph(_MEANING, Tone.MUTED)]),
        PagePart("statements", "Statements", statements),
        PagePart("data", "Data", [*_rest(fidelity)]),
        PagePart("limits", "What a twin cannot tell", [Paragraph(_LIMITS), *_notes(found)]),
    ]
    return render_page(head, parts)


def render_check_json(found: TwinCheck) -> str:
    """Return all of it for programs."""
    fidelity = found.fidelity
    more = ("verdict", "sentence", "faithful_share", "warnings")
    return json_of(
        {
            "pgdrag_twin_check": FORMAT,
            **{name: getattr(fidelity, name) for name in more},
            "off": {x.number: x.off for x in fidelity.off},
            **vars(found),
        }
    )


def _verdict(found: TwinCheck) -> Iterator[Block]:
    fidelity = found.fidelity
    yield Paragraph(fidelity.sentence, _TONES[fidelity.verdict], is_lead=True)
    for clause in found.hurried:
        yield Paragraph(as_sentence(clause), Tone.WARNING)
    for one in fidelity.off:
        if one.why:
            yield Paragraph(
                as_sentence(f"statement {one.number} does not read as many blocks: {one.why}")
            )


def _statements(statements: Sequence[StatementFidelity]) -> Table:
    return table_of(
        "Statements, by their share of the original's time",
        statements,
        {
            ">Load": lambda x: Cell(percent_words(x.share), f"twin {percent_words(x.twin_share)}"),
            "Statement": lambda x: cut(" ".join(x.text.split()), _STATEMENT_WIDTH),
            ">Calls": _calls,
            **{title: _amount(name) for name, title in _TITLES.items()},
            "Plan": lambda x: Cell("! other", x.plan, Tone.WARNING)
            if x.plan
            else Cell("same")
            if x.is_planned
            else NOTHING,
        },
    )  # fmt: skip


def _brief_statements(statements: Sequence[StatementFidelity]) -> Table:
    """Return what fits on a terminal: ratios alone."""
    bound = {title: name for name, title in _TITLES.items() if name not in ("blocks read", "ms")}
    return table_of(
        "Statements, by their share of the original's time",
        statements,
        {
            ">Load": lambda x: percent_words(x.share),
            "Statement": lambda x: cut(" ".join(x.text.split()), _BRIEF_WIDTH),
            ">Calls": _calls,
            **{title: _ratio(name) for title, name in bound.items()},
            "Plan": lambda x: "! other" if x.plan else "same" if x.is_planned else NOTHING,
        },
    )


def _ratio(name: str) -> Callable[[StatementFidelity], Cell]:
    cell = _amount(name)
    return lambda one: replace(cell(one), note="")


def _ratio_words(ratio: float) -> str:
    return f"{ratio:.2f}×" if ratio < _LARGE else format_ratio(ratio)


def _calls(one: StatementFidelity) -> Cell:
    before, after = (percent_words(x) for x in (one.calls_share, one.twin_calls_share))
    words = before if before == after else f"{before.removesuffix(' %')}→{after}"
    return Cell(words) if one.is_mix_within else Cell(f"! {words}", tone=Tone.WARNING)


def _amount(name: str) -> Callable[[StatementFidelity], Cell]:
    def cell(one: StatementFidelity) -> Cell:
        [*found] = (x for x in one.amounts if x.name == name)
        if not found or not (found[0].original or found[0].twin):
            return NOTHING
        amount = found[0]
        text = "from 0" if amount.ratio is None else _ratio_words(amount.ratio)
        note = f"{format_number(amount.original)} → {format_number(amount.twin)}"
        if amount.is_within or not amount.is_bound:
            return Cell(text, note, Tone.PLAIN if amount.is_within else Tone.MUTED)
        return Cell(f"! {text}", note, Tone.WARNING)

    return cell


def _rest(fidelity: Fidelity) -> Iterator[Block]:
    """Yield what is said of statements that only one side has, of sizes and of statistics."""
    if fidelity.invented:
        texts = tuple(
            f"{percent_words(share, 1)} of the calls: {cut(' '.join(text.split()), _STATEMENT_WIDTH)}"
            for text, share in fidelity.invented[:_LISTED]
        )
        yield Details("Statements that only the twin runs", (Items(texts),))
    if fidelity.relations_compared:
        off = fidelity.relations
        yield Paragraph(
            f"Sizes: of {fidelity.relations_compared} tables and indexes larger than 1 MB, {len(off)} differ by more than "
            f"{WITHIN:.0%} from what is to be expected at this scale."
        )
        if off:
            texts = tuple(
                f"{x.name}: {format_bytes(round(x.twin_bytes))} instead of {format_bytes(round(x.expected_bytes))} ({x.ratio:.2f}×)"
                for x in off[:_LISTED]
            )
            yield Details("Tables and indexes of another size", (Items(texts),))
    if fidelity.columns_compared:
        yield Paragraph(
            f"Statistics: {len(fidelity.columns)} of {counted(fidelity.columns_compared, 'column')} differ after ANALYZE."
        )
        if fidelity.columns:
            yield Details("Columns with other statistics", (Items(fidelity.columns[:_LISTED]),))


def _notes(found: TwinCheck) -> Iterator[Block]:
    if found.notes:
        notes = tuple(as_sentence(x) for x in found.notes)
        yield Details("What the twin's server has not of the original", (Items(notes),))
