"""Which plans does a treatment change? The same blocks for a page and a terminal, and JSON."""

from __future__ import annotations

from collections.abc import Iterator

import pgdrag
from pgdrag.english import as_sentence, counted, cut, listed_some, percent_words
from pgdrag.findings.plan_flips import PlanFlip, PlannedChange, TwinPlans
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Heading,
    Items,
    Lines,
    Paragraph,
    Tone,
    table_of,
)
from pgdrag.report.html import PageHead, PagePart, render_page
from pgdrag.report.json import json_of
from pgdrag.report.plan_text import plan_text
from pgdrag.units import format_duration

FORMAT = 1  # changes when a key of the JSON changes its meaning or goes away
_BRIEF, _MOST_NAMES, _STATEMENT_WIDTH, _FORM_WIDTH = 10, 8, 160, 300
_MEANING = (
    "A different plan is not a slower one. Costs are the planner's own estimates, in units of each side's own cost "
    "settings. To measure what a change costs or gains, run it on a copy of the database: pgdrag compare A B --dsn DSN "
    "with the statements as scripts (-f), or pgdrag ablate for each line's share."
)


def plans_blocks(found: TwinPlans) -> Iterator[Block]:
    """Yield what a terminal shows."""
    yield Paragraph(_verdict(found), is_lead=True)
    yield from _changes(found)
    yield from _brief_statements(found)
    yield from _missing(found)
    if found.flips.flips:
        yield Paragraph(_MEANING, Tone.MUTED)


def render_plans_html(found: TwinPlans) -> str:
    """Return a self-contained HTML page."""
    head = PageHead(
        eyebrow=f"pgdrag plans · {found.twin} · captured {found.captured_on} from PostgreSQL {found.source_version}",
        title=f"{found.after} against {found.before}",
        question="Which statements are planned in another way, and which changes are guilty?",
        footer=f"Made from {found.twin} by pgdrag {pgdrag.__version__}.",
    )
    parts = [
        PagePart(
            "summary", "Summary", [Paragraph(_verdict(found), is_lead=True), *_changes(found)]
        ),
        PagePart("statements", "Statements", [*_statements(found)]),
        PagePart("plans", "Plans", [*_plans(found)]),
        PagePart("limits", "What this does not tell", [Paragraph(_MEANING), *_missing(found)]),
    ]
    return render_page(head, parts)


def render_plans_json(found: TwinPlans) -> str:
    """Return all of it for programs."""
    more = {"pgdrag_plans": FORMAT, "flipped_share": found.flips.flipped_share}
    return json_of({**more, **vars(found)})


def _verdict(found: TwinPlans) -> str:
    flips = found.flips
    planned = len(flips.flips) + flips.unchanged
    if not flips.changes:
        return "Nothing that the planner reads differs from the original."
    lost, others = len(flips.lost), len(flips.unplanned) - len(flips.lost)
    if flips.flips:
        sentences = [
            f"{len(flips.flips)} of {counted(planned, 'statement')}, {percent_words(flips.flipped_share)} of the load, "
            f"are planned in another way with {found.after} than with {found.before}."
        ]
    elif lost:
        sentences = [f"{counted(planned, 'statement')} with a plan of the same form."]
    else:
        sentences = [
            f"No plan changes: all {counted(planned, 'statement')} keep the form of their plan."
        ]
    if lost:
        sentences.append(f"{counted(lost, 'statement')} {_have(lost)} no plan with {found.after}.")
    if others:
        sentences.append(f"{counted(others, 'statement')} {_have(others)} no plan here.")
    return " ".join(sentences)


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _changes(found: TwinPlans) -> Iterator[Block]:
    """Yield the changes, those first that change the plans of most of the load."""
    flips = found.flips

    def of(change: PlannedChange) -> list[PlanFlip]:
        return [x for x in flips.flips if change in (y.change for y in x.guilty)]

    def alone(change: PlannedChange) -> int:
        return sum(x.is_enough for flip in of(change) for x in flip.guilty if x.change == change)

    def share(change: PlannedChange) -> float:
        return sum(x.statement.share for x in of(change))

    guilty = sorted((x for x in flips.changes if of(x)), key=lambda x: -share(x))
    if guilty:
        yield table_of(
            "Changes that alter plans",
            guilty,
            {
                "Change": lambda x: Cell(x.name, x.place, is_strong=True),
                "From": lambda x: x.before,
                "To": lambda x: x.after,
                ">Statements": lambda x: f"{len(of(x))}",
                ">By it alone": lambda x: f"{alone(x)}",
                ">Load": lambda x: percent_words(share(x)),
            },
        )
    innocent = [x.name for x in flips.changes if x not in guilty]
    if innocent:
        names = listed_some(innocent, _MOST_NAMES)
        yield Paragraph(
            f"Read by the planner, but no plan changes because of: {names}.", Tone.MUTED
        )
    if found.same:
        yield Paragraph(f"As in the original: {listed_some(found.same, _MOST_NAMES)}.", Tone.MUTED)
    if found.not_read:
        names = listed_some(found.not_read, _MOST_NAMES)
        yield Paragraph(f"Not read by the planner: {names}.", Tone.MUTED)


def _statements(found: TwinPlans) -> Iterator[Block]:
    if found.flips.flips:
        yield table_of(
            "Statements that are planned in another way, by their share of the load",
            found.flips.flips,
            {
                ">Load": lambda x: Cell(percent_words(x.statement.share), _calls(x)),
                "Statement": lambda x: _line(x.statement.text),
                "Plan": lambda x: x.words,
                "Guilty": lambda x: _guilty(x).removeprefix("guilty: "),
            },
        )


def _brief_statements(found: TwinPlans) -> Iterator[Block]:
    flips = found.flips.flips
    for flip in flips[:_BRIEF]:
        yield Heading(f"{percent_words(flip.statement.share)} of the load", _calls(flip))
        yield Paragraph(_line(flip.statement.text))
        form, _, cost = flip.words.rpartition("; cost ")
        yield Items((cut(form, _FORM_WIDTH), f"expected cost {cost}", _guilty(flip)))
    if len(flips) > _BRIEF:
        yield Paragraph(f"{len(flips) - _BRIEF} more are in the JSON and in the HTML page.")


def _calls(flip: PlanFlip) -> str:
    mean = format_duration(flip.statement.mean_ms / 1000)
    return f"{counted(flip.statement.calls, 'call')} of {mean}"


def _guilty(flip: PlanFlip) -> str:
    return "guilty: " + "; ".join(f"{x.change.name} ({x.words})" for x in flip.guilty)


def _plans(found: TwinPlans) -> Iterator[Block]:
    for flip in found.flips.flips:
        yield Details(
            f"{percent_words(flip.statement.share)}: {_line(flip.statement.text)}",
            (
                Lines(flip.statement.text),
                Paragraph(f"With {found.before}:"),
                Lines(plan_text(flip.before)),
                Paragraph(f"With {found.after}:"),
                Lines(plan_text(flip.after)),
            ),
        )


def _missing(found: TwinPlans) -> Iterator[Block]:
    """Yield what has no plan here, and what the twin lacks."""
    unplanned = found.flips.unplanned
    if unplanned:
        share = percent_words(sum(x.statement.share for x in unplanned))
        reasons = tuple(f"{_line(x.statement.text)}: {x.reason}" for x in unplanned)
        summary = f"{counted(len(unplanned), 'statement')} without a plan, {share} of the load"
        yield Details(summary, (Items(reasons),))
    if found.utilities:
        words = f"{counted(found.utilities, 'statement')} of a kind that has no plan"
        share = percent_words(found.not_planned_share)
        yield Paragraph(
            f"Left out: {words}; with what the twin does not list, {share} of the load.", Tone.MUTED
        )
    if found.notes:
        notes = tuple(as_sentence(x) for x in found.notes)
        yield Details("What the plan twin lacks", (Items(notes),))


def _line(text: str) -> str:
    return cut(" ".join(text.split()), _STATEMENT_WIDTH)
