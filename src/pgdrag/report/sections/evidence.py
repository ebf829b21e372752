"""Why: what moved on each rung, and whether the claimed mechanism moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pgdrag.english import as_sentence, capital, counted, percent_words
from pgdrag.findings.levels import LevelsFinding
from pgdrag.findings.movement import Movement, Movements
from pgdrag.findings.plausibility import implausible
from pgdrag.findings.spent_time import SessionTime
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.findings.wording import slowdown_words, value_words
from pgdrag.model import Observation
from pgdrag.report.document import (
    NOTHING,
    Block,
    Cell,
    Details,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
    header,
    table_of,
)
from pgdrag.report.rung_words import cause_sentence, change_sentence, plan_sentence, size_sentence
from pgdrag.report.sections import Section
from pgdrag.units import format_duration

# Of all rungs together: what moved least is left to the table of all observations.
_MOST_MOVES = 45
_LEAST_MOVES = 4  # of each rung, however many there are
_MOST_ROWS = 24  # of all observations
_HARDLY_ANY = 0.005  # of a transaction's time: such parts have no row
_ARROWS = {"up": "▲", "down": "▼", "unmoved": ""}


class EvidenceSection(Section):
    name = "evidence"
    summary = "a sentence or two for each treatment, and the tables behind them"
    title = "Why"
    order = 40
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        return bool(_shown(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        most = max(_MOST_MOVES // len(findings.rungs), _LEAST_MOVES)
        each = [block for rung in _shown(findings) for block in _rung_blocks(rung, most)]
        return (*each, *_spent(findings), *_observations(findings))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return what moved, why and which plans changed, rung by rung."""
        blocks: list[Block] = []
        for rung in _shown(findings):
            plans = plan_sentence(rung)
            change = change_sentence(rung, has_size=findings.has_rungs)
            said = (cause_sentence(rung), change, plans, *_remarks(rung))
            if texts := tuple(filter(None, said)):
                blocks += [Heading(rung.rung.name, rung.rung.title), Items(texts)]
        return blocks


def _shown(findings: Findings) -> list[TreatmentFinding]:
    """Return all treatments but those that a complete run did not need: the answer and the table say so."""
    return [x for x in findings.rungs if x.trials or findings.run.status != "done"]


def _rung_blocks(rung: TreatmentFinding, most_moves: int) -> list[Block]:
    """Return why a rung is slower, in a sentence or two; what changed is folded."""
    change, cause = change_sentence(rung), cause_sentence(rung)
    # What changed is the reason where nothing says where the time went.
    texts = (size_sentence(rung), cause) if cause else (change,)
    body: list[Block] = [Paragraph(text) for text in texts if text]
    if remarks := _remarks(rung):
        body.append(Items(tuple(remarks)))
    folded: list[Block] = []
    if rung.rung.mechanism:
        folded.append(Paragraph(f"Claimed: {rung.rung.mechanism}", Tone.MUTED))
    if change not in texts:
        folded.append(Paragraph(change_sentence(rung, has_size=False)))
    if _moves(rung):
        folded += _movements(rung, most_moves)
    if folded and body:
        body.append(Details(f"What changed from {rung.previous or 'before'}", tuple(folded)))
    step, words = rung.to_previous, ""
    if step is not None:
        words = f"{slowdown_words(step.slowdown)} than {rung.previous}"
    return [Heading(rung.rung.heading, words), *body] if body else []


def _remarks(rung: TreatmentFinding) -> list[str]:
    """Return what a setting of this rung undid, could not do, or did not do."""
    levels = rung.get(LevelsFinding) or LevelsFinding()
    untested = [f"not tested here: {text}" for text in levels.untested]
    return [as_sentence(text) for text in (*levels.overrides, *untested, *levels.inert)]


def _moves(rung: TreatmentFinding) -> tuple[Movement, ...]:
    return (rung.get(Movements) or Movements()).moves


def _movements(rung: TreatmentFinding, most: int) -> list[Block]:
    """Return what moved most or was claimed to move, one row each; all else is in the table of all observations."""
    moves = _moves(rung)
    changed = [move for move in moves if move.expected or move.direction != "unmoved"]
    shown = [move for at, move in enumerate(changed) if at < most or move.expected]
    blocks: list[Block] = []
    if shown:
        table = table_of(
            f"Observations on {rung.previous} and {rung.rung.name}",
            shown,
            {
                "Observation": lambda move: Cell(
                    capital(move.after.label), is_strong=move.expected is not None
                ),
                f">{rung.previous}": lambda move: _value(move.before),
                f">{rung.rung.name}": lambda move: _value(move.after),
                "Moved": lambda move: (
                    Cell(f"{_ARROWS[move.direction]} {move.direction}".strip())
                    if not move.implausible
                    else Cell("implausible", tone=Tone.WARNING)
                ),
                ">Chance": _chance,
                "Claimed": _claimed,
            },
        )
        blocks.append(table)
    if rest := len(moves) - len(shown):
        text = f"{counted(rest, 'other')} changed less or not at all."
        blocks.append(Paragraph(text, Tone.MUTED))
    return blocks


def _spent(findings: Findings) -> list[Block]:
    """Return the parts of the sessions' time per transaction, a column a rung, in which any is worth a row."""
    spent = {
        name: {part.place: part for part in one.finest}
        for name, one in findings.by_rung(SessionTime).items()
    }
    least_s = {
        name: _HARDLY_ANY * sum(part.now_s for part in parts.values())
        for name, parts in spent.items()
    }
    places = [
        place
        for place in dict.fromkeys(place for parts in spent.values() for place in parts)
        if any(
            place in parts and parts[place].now_s >= least_s[name] for name, parts in spent.items()
        )
    ]

    def on(name: str) -> Callable[[str], Cell]:
        def cell(place: str) -> Cell:
            part = spent[name].get(place)
            if part is None or part.now_s < least_s[name]:
                return NOTHING
            share = "" if part.share is None else f"{percent_words(part.share)} of the difference"
            return Cell(format_duration(part.now_s), share)

        return cell

    table = table_of(
        f"Where sessions' time went on each {findings.noun}, per transaction",
        places,
        {"Sessions' time per transaction": capital, **{f">{name}": on(name) for name in spent}},
    )
    reading = f"“–”: less than {100 * _HARDLY_ANY:g} % of the {findings.noun}'s time."
    blocks = (table, Paragraph(reading, Tone.MUTED))
    return [Details("Where a transaction's time went", blocks)] if places else []


def _value(found: Observation) -> Cell:
    return NOTHING if found.value is None else Cell(value_words(found, found.value))


def _chance(move: Movement) -> Cell:
    """Return the rate of false discoveries that calling it moved comes with."""
    if move.chance is None or move.direction == "unmoved":
        return NOTHING
    shown = "< 0.001" if move.chance < 0.001 else f"{move.chance:.2g}"
    return Cell(shown, tone=Tone.WARNING if move.could_be_chance else Tone.PLAIN)


def _claimed(move: Movement) -> Cell:
    if move.expected is None or move.implausible:
        return Cell("")
    if move.direction != move.expected:
        return Cell(f"✗ claimed {move.expected}", tone=Tone.BAD)
    if move.could_be_chance:
        return Cell(f"? {move.expected}, as claimed, but could be chance", tone=Tone.WARNING)
    return Cell(f"✓ {move.expected}, as claimed", tone=Tone.GOOD)


def _observations(findings: Findings) -> list[Block]:
    """Return the observations that moved most, with their values on every rung that has evidence."""
    seen = [rung for rung in findings.rungs if rung.evidence]
    labels = {one.name: capital(one.label) for rung in seen for one in rung.evidence}
    if not labels:
        return []
    sizes: dict[str, float] = {}  # how far each moved at most; what is claimed stands in any case
    for move in (move for rung in seen for move in _moves(rung)):
        if move.expected or (move.direction != "unmoved" and not move.could_be_chance):
            size = math.inf if move.expected else move.size
            sizes[move.name] = max(size, sizes.get(move.name, 0.0))
    shown = sorted(sizes, key=lambda name: -sizes[name])[:_MOST_ROWS] if len(seen) > 1 else labels
    rows = tuple(
        (Cell(label), *(_observation(rung, name) for rung in seen))
        for name, label in labels.items()
        if name in shown
    )
    columns = header("Observation", *(f">{rung.rung.name}" for rung in seen))
    reading = (
        "▲ and ▼: moved from before by more than 10 % and more than its resolution. "
        "✓: moved as the mechanism claims. ✗: the mechanism claims something else."
    )
    blocks: list[Block] = [Table("Observations", columns, rows), Paragraph(reading, Tone.MUTED)]
    if rest := len(labels) - len(rows):
        text = f"{counted(rest, 'other')} moved less or not at all: the JSON report has them."
        blocks.append(Paragraph(text, Tone.MUTED))
    reasons: dict[tuple[str, str], list[str]] = {}
    for rung in seen:
        for one in rung.evidence:
            if one.value is None:
                reasons.setdefault((capital(one.label), one.missing), []).append(rung.rung.name)
    doubted = tuple(
        f"{capital(labels[name])}: implausible on {rung.rung.name}: {why}."
        for rung in seen
        for name, why in implausible(rung.evidence).items()
    )
    missing = tuple(
        f"{label}: not observed on {', '.join(names)} ({why})."
        for (label, why), names in reasons.items()
    )
    if missing or doubted:
        blocks.append(Items((*doubted, *missing)))
    return [Details(f"Observations on all {findings.noun}s", tuple(blocks))]


def _observation(rung: TreatmentFinding, name: str) -> Cell:
    found = next((one for one in rung.evidence if one.name == name), None)
    if found is None or found.value is None:
        return NOTHING
    move = next((one for one in _moves(rung) if one.name == name), None)
    text = value_words(found, found.value)
    if name in implausible(rung.evidence):
        return Cell(text, "implausible", Tone.WARNING)
    if move is None:
        return Cell(text)
    shown = f"{_ARROWS[move.direction]} {text}".strip()
    if move.expected is None:
        return Cell(shown)
    is_kept = move.direction == move.expected
    sign, tone = ("✓", Tone.GOOD) if is_kept else ("✗", Tone.BAD)
    return Cell(f"{sign} {shown}", tone=tone, is_strong=True)
