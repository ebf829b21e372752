"""Why: what moved on each rung, and whether the claimed mechanism moved."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import as_sentence, capital, counted, in_sentence, listed, percent_words
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.levels import LevelsFinding
from pgdrag.findings.mechanisms.analysis import MechanismsFinding
from pgdrag.findings.movement import Movement, Movements
from pgdrag.findings.plausibility import implausible
from pgdrag.findings.spent_time import SessionTime
from pgdrag.findings.values import Findings, TreatmentFinding, Verdict
from pgdrag.findings.wording import slowdown_words, value_words
from pgdrag.model import Observation
from pgdrag.report.cells import answer_words
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
from pgdrag.report.rung_words import (
    cause_sentence,
    change_sentence,
    mechanisms_sentence,
    plan_sentence,
    time_sentence,
)
from pgdrag.report.sections import Section
from pgdrag.units import format_duration

# Of all rungs together: what moved least is left to the table of all observations.
_MOST_MOVES = 120
_LEAST_MOVES = 6  # of each rung, however many there are
_HARDLY_ANY = 0.005  # of a transaction's time: such parts have no row
_ARROWS = {"up": "▲", "down": "▼", "unmoved": ""}


class EvidenceSection(Section):
    """A paragraph for each rung, and the table of all observations."""

    name = "evidence"
    summary = "a paragraph for each treatment, and the table of all observations"
    title = "Why"
    order = 40
    is_folded = False

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the rungs one by one, then all observations side by side."""
        most = max(_MOST_MOVES // len(findings.rungs), _LEAST_MOVES)
        total = "Up to this rung" if findings.is_cumulative else "Against the baseline"
        each = [block for rung in findings.rungs for block in _rung_blocks(rung, most, total)]
        return (*each, *_observations(findings))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return what moved, why and which plans changed, rung by rung."""
        blocks: list[Block] = []
        for rung in findings.rungs:
            if not rung.trials and findings.run.status == "done":
                continue  # the answer and the table say so
            plans = plan_sentence(rung)
            change = change_sentence(rung, has_size=findings.has_rungs)
            said = (cause_sentence(rung), change, plans, *_remarks(rung))
            if texts := tuple(filter(None, said)):
                blocks += [Heading(rung.rung.name, rung.rung.title), Items(texts)]
        return blocks


def _rung_blocks(rung: TreatmentFinding, most_moves: int, total: str) -> list[Block]:
    body: list[Block] = []
    if rung.rung.mechanism:
        body.append(Paragraph(f"Claimed: {rung.rung.mechanism}", Tone.MUTED))
    if rung.rung.claim.text:
        body.append(Paragraph(f"Published: {as_sentence(rung.rung.claim.text)}", Tone.MUTED))
    texts = (
        mechanisms_sentence(rung.get(MechanismsFinding)),
        change_sentence(rung),
        time_sentence(rung),
    )
    body += [Paragraph(text) for text in texts if text]
    if remarks := _remarks(rung):
        body.append(Items(tuple(remarks)))
    if spent := rung.get(SessionTime):
        body.append(Details("Where a transaction's time went", tuple(_spent(rung, spent))))
    if _moves(rung):
        body.append(
            Details(f"What changed from {rung.previous}", tuple(_movements(rung, most_moves)))
        )
    claims = rung.get(ClaimsFinding) or ClaimsFinding()
    answers = tuple(
        f"{what}: {answer_words(claim.answer)}: {claim.why}."
        for what, claim in (("This step", claims.step), (total, claims.total))
        if claim is not None
    )
    if answers:
        body.append(Details("Published against found", (Items(answers),)))
    if not body:
        return []
    step, words = rung.to_previous, ""
    if step is not None:
        note = {Verdict.INCONCLUSIVE: ", not significant", Verdict.EQUIVALENT: ", no change"}
        words = f"{slowdown_words(step.slowdown)} than {rung.previous}{note.get(step.verdict, '')}"
    return [Heading(rung.rung.heading, words), *body]


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
        text = f"{counted(rest, 'other')} changed less or not at all: see the table of all observations below."
        blocks.append(Paragraph(text, Tone.MUTED))
    return blocks


def _spent(rung: TreatmentFinding, spent: SessionTime) -> list[Block]:
    """Return the parts of the sessions' time per transaction, beside the rung before."""
    whole_s = max(
        sum(part.before_s or 0.0 for part in spent.finest), sum(part.now_s for part in spent.finest)
    )
    named = [x for x in spent.finest if max(x.before_s or 0.0, x.now_s) >= _HARDLY_ANY * whole_s]
    details = {one.name: one.detail for one in rung.evidence}
    table = table_of(
        f"Where sessions' time went on {rung.rung.name}",
        named,
        {
            "Sessions' time per transaction": lambda part: capital(part.place),
            f">{rung.previous or 'before'}": lambda part: (
                NOTHING if part.before_s is None else format_duration(part.before_s)
            ),
            f">{rung.rung.name}": lambda part: format_duration(part.now_s),
            ">Share of the difference": lambda part: (
                NOTHING if part.share is None else percent_words(part.share)
            ),
            "What it is": lambda part: Cell(
                part.detail or details.get(part.name, ""), tone=Tone.MUTED
            ),
        },
    )
    rest = listed([part.place for part in spent.finest if part not in named])
    text = f"Less than {100 * _HARDLY_ANY:g} % each: {rest}."
    return [table, Paragraph(text, Tone.MUTED)] if rest else [table]


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
    """Return the table of every observation on every rung that has evidence."""
    seen = [rung for rung in findings.rungs if rung.evidence]
    labels = {one.name: capital(one.label) for rung in seen for one in rung.evidence}
    if not labels:
        return []
    cells = {name: tuple(_observation(rung, name) for rung in seen) for name in labels}
    alike = {x: found[0] for x, found in cells.items() if len(seen) > 1 and len({*found}) == 1}
    rows = tuple((Cell(labels[name]), *found) for name, found in cells.items() if name not in alike)
    columns = header("Observation", *(f">{rung.rung.name}" for rung in seen))
    reading = (
        "▲ and ▼: moved from before by more than 10 % and more than its resolution. "
        "✓: moved as the mechanism claims. ✗: the mechanism claims something else."
    )
    blocks: list[Block] = [Table("All observations", columns, rows), Paragraph(reading, Tone.MUTED)]
    # What could not be seen anywhere stands below, with the reason.
    same = [f"{in_sentence(labels[x])} {one.text}" for x, one in alike.items() if one != NOTHING]
    if same:
        blocks.append(Paragraph(f"The same on all {findings.noun}s: {listed(same)}.", Tone.MUTED))
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
    return [Details(f"All observations on all {findings.noun}s", tuple(blocks))]


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
