"""Why: what moved on each rung, and whether the claimed mechanism moved."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import as_sentence, capital, in_sentence, listed, percent_words
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.levels import LevelsFinding
from pgdrag.findings.mechanisms.analysis import MechanismsFinding
from pgdrag.findings.movement import Movement, Movements
from pgdrag.findings.spent_time import SessionTime, SpentTime
from pgdrag.findings.values import Findings, TreatmentFinding, Verdict
from pgdrag.findings.wording import slowdown_words, value_words
from pgdrag.report.cells import answer_words
from pgdrag.report.document import (
    Align,
    Block,
    Cell,
    Column,
    Details,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
    header,
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
_MOST_UNMOVED = 12  # by their names
_HARDLY_ANY = 0.005  # of a transaction's time: such parts have no row
_UNSEEN = Cell("–", tone=Tone.MUTED)
_ARROWS = {"up": "▲", "down": "▼", "unmoved": ""}


class EvidenceSection(Section):
    """A paragraph for each rung, and the table of all observations."""

    name = "evidence"
    summary = "a paragraph for each rung, and the table of all observations"
    title = "Why"
    order = 40
    is_folded = False

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the rungs one by one, then all observations side by side."""
        most = max(_MOST_MOVES // len(findings.rungs), _LEAST_MOVES)
        each = [block for rung in findings.rungs for block in _rung_blocks(rung, most)]
        return (*each, *_observations(findings))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return what moved, why and which plans changed, rung by rung."""
        blocks: list[Block] = []
        for rung in findings.rungs:
            plans = plan_sentence(rung)
            said = (cause_sentence(rung), change_sentence(rung), plans, *_remarks(rung))
            if texts := tuple(filter(None, said)):
                blocks += [Heading(rung.rung.name, rung.rung.title), Items(texts)]
        return blocks


def _rung_blocks(rung: TreatmentFinding, most_moves: int) -> list[Block]:
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
        body.append(Details("Where a transaction's time went", _spent(rung, spent)))
    if _moves(rung):
        body.append(Details(f"What changed from {rung.previous}", _movements(rung, most_moves)))
    if claims := _claims(rung):
        body.append(Details("Published against found", (Items(claims),)))
    if not body:
        return []
    return [Heading(rung.rung.heading, _step_words(rung)), *body]


def _step_words(rung: TreatmentFinding) -> str:
    """Return `7.2× slower (6.9× to 7.5×) than A0`, and whether that is any difference at all."""
    if rung.to_previous is None:
        return ""
    note = {Verdict.INCONCLUSIVE: ", not significant", Verdict.EQUIVALENT: ", no change"}
    words = f"{slowdown_words(rung.to_previous.slowdown)} than {rung.previous}"
    return words + note.get(rung.to_previous.verdict, "")


def _claims(rung: TreatmentFinding) -> tuple[str, ...]:
    """Say what became of the rung's published ratios, and why."""
    claims = rung.get(ClaimsFinding) or ClaimsFinding()
    kinds = (("This step", claims.step), ("Up to this rung", claims.total))
    return tuple(
        f"{what}: {answer_words(claim.answer)}: {claim.why}."
        for what, claim in kinds
        if claim is not None
    )


def _remarks(rung: TreatmentFinding) -> list[str]:
    """Return what a setting of this rung undid, could not do, or did not do."""
    levels = rung.get(LevelsFinding) or LevelsFinding()
    untested = [f"not tested here: {text}" for text in levels.untested]
    return [as_sentence(text) for text in (*levels.overrides, *untested, *levels.inert)]


def _moves(rung: TreatmentFinding) -> tuple[Movement, ...]:
    found = rung.get(Movements)
    return () if found is None else found.moves


def _movements(rung: TreatmentFinding, most: int) -> tuple[Block, ...]:
    """Return what moved most or was claimed to move, one row each, and what did not in a sentence."""
    changed = [move for move in _moves(rung) if move.expected or move.direction != "unmoved"]
    rest = [in_sentence(move.after.label) for move in _moves(rung) if move not in changed]
    shown = [move for at, move in enumerate(changed) if at < most or move.expected]
    blocks: list[Block] = [_movement_table(rung, shown)] if shown else []
    if len(shown) < len(changed):
        more = f"{len(changed) - len(shown)} smaller changes are in the table of all observations below."
        blocks.append(Paragraph(more, Tone.MUTED))
    if len(rest) > _MOST_UNMOVED:
        text = f"{len(rest)} others did not change: see the table of all observations below."
        blocks.append(Paragraph(text, Tone.MUTED))
    elif rest:
        blocks.append(Paragraph(f"Unchanged: {listed(rest)}.", Tone.MUTED))
    return tuple(blocks)


def _movement_table(rung: TreatmentFinding, moves: Sequence[Movement]) -> Table:
    columns = header(
        "Observation", f">{rung.previous}", f">{rung.rung.name}", "Moved", ">Chance", "Claimed"
    )
    rows = tuple(
        (
            Cell(capital(move.after.label), is_strong=move.expected is not None),
            Cell(_value(move.before.value, move)),
            Cell(_value(move.after.value, move)),
            Cell(f"{_ARROWS[move.direction]} {move.direction}".strip()),
            _chance(move),
            _claimed(move),
        )
        for move in moves
    )
    return Table(f"Observations on {rung.previous} and {rung.rung.name}", columns, rows)


def _spent(rung: TreatmentFinding, spent: SessionTime) -> tuple[Block, ...]:
    """Return the parts of the sessions' time per transaction, beside the rung before."""
    befores_s = [part.before_s or 0.0 for part in spent.parts]
    least_s = _HARDLY_ANY * max(sum(befores_s), sum(part.now_s for part in spent.parts))
    named = [
        part
        for part, before_s in zip(spent.parts, befores_s, strict=True)
        if max(before_s, part.now_s) >= least_s
    ]
    rest = [part.place for part in spent.parts if part not in named]
    blocks: list[Block] = [_spent_table(rung, named)]
    if rest:
        least = f"{100 * _HARDLY_ANY:g} %"
        blocks.append(Paragraph(f"Less than {least} each: {listed(rest)}.", Tone.MUTED))
    return tuple(blocks)


def _spent_table(rung: TreatmentFinding, parts: Sequence[SpentTime]) -> Table:
    details = {one.name: one.detail for one in rung.evidence}
    columns = (
        Column("Sessions' time per transaction"),
        Column(rung.previous or "before", Align.RIGHT),
        Column(rung.rung.name, Align.RIGHT),
        Column("Share of the difference", Align.RIGHT),
        Column("What it is"),
    )
    rows = tuple(
        (
            Cell(capital(part.place)),
            Cell("–" if part.before_s is None else format_duration(part.before_s)),
            Cell(format_duration(part.now_s)),
            Cell("–" if part.share is None else percent_words(part.share)),
            Cell(details.get(part.name, ""), tone=Tone.MUTED),
        )
        for part in parts
    )
    return Table(f"Where sessions' time went on {rung.rung.name}", columns, rows)


def _value(value: float | None, move: Movement) -> str:
    return "–" if value is None else value_words(move.after, value)


def _chance(move: Movement) -> Cell:
    """Return the rate of false discoveries that calling it moved comes with."""
    if move.chance is None or move.direction == "unmoved":
        return Cell("–", tone=Tone.MUTED)
    shown = "< 0.001" if move.chance < 0.001 else f"{move.chance:.2g}"
    return Cell(shown, tone=Tone.WARNING if move.could_be_chance else Tone.PLAIN)


def _claimed(move: Movement) -> Cell:
    if move.expected is None:
        return Cell("")
    if move.direction == move.expected and move.could_be_chance:
        return Cell(f"? {move.expected}, as claimed, but could be chance", tone=Tone.WARNING)
    if move.direction == move.expected:
        return Cell(f"✓ {move.expected}, as claimed", tone=Tone.GOOD)
    return Cell(f"✗ claimed {move.expected}", tone=Tone.BAD)


def _observations(findings: Findings) -> list[Block]:
    """Return the table of every observation on every rung that has evidence."""
    seen = [rung for rung in findings.rungs if rung.evidence]
    labels = {one.name: capital(one.label) for rung in seen for one in rung.evidence}
    if not labels:
        return []
    cells = {name: tuple(_observation(rung, name) for rung in seen) for name in labels}
    alike = {x for x, found in cells.items() if len(seen) > 1 and len({*found}) == 1}
    rows = tuple((Cell(labels[name]), *found) for name, found in cells.items() if name not in alike)
    columns = header("Observation", *(f">{rung.rung.name}" for rung in seen))
    reading = (
        "▲ and ▼: moved against the rung before by more than 10 % and more than its resolution. "
        "✓: moved as the mechanism claims. ✗: the mechanism claims something else."
    )
    blocks: list[Block] = [Table("All observations", columns, rows), Paragraph(reading, Tone.MUTED)]
    if alike:
        # What could not be seen anywhere stands below, with the reason.
        same = [
            f"{in_sentence(labels[x])} {cells[x][0].text}"
            for x in labels
            if x in alike and cells[x][0] != _UNSEEN
        ]
        if same:
            blocks.append(Paragraph(f"The same on all rungs: {listed(same)}.", Tone.MUTED))
    if missing := _missing(seen):
        blocks.append(Items(missing))
    return [Details("All observations on all rungs", tuple(blocks))]


def _observation(rung: TreatmentFinding, name: str) -> Cell:
    found = next((one for one in rung.evidence if one.name == name), None)
    if found is None or found.value is None:
        return _UNSEEN
    move = next((one for one in _moves(rung) if one.name == name), None)
    text = value_words(found, found.value)
    if move is None:
        return Cell(text)
    shown = f"{_ARROWS[move.direction]} {text}".strip()
    if move.expected is None:
        return Cell(shown)
    is_kept = move.direction == move.expected
    sign, tone = ("✓", Tone.GOOD) if is_kept else ("✗", Tone.BAD)
    return Cell(f"{sign} {shown}", tone=tone, is_strong=True)


def _missing(rungs: Sequence[TreatmentFinding]) -> tuple[str, ...]:
    """Say once for each observation and reason on which rungs it could not be seen."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for rung in rungs:
        for one in rung.evidence:
            if one.value is None:
                reasons.setdefault((capital(one.label), one.missing), []).append(rung.rung.name)
    return tuple(
        f"{label}: not observed on {', '.join(names)} ({why})."
        for (label, why), names in reasons.items()
    )
