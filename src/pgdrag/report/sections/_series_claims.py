"""What became of published courses over time, rung by rung, and of their order?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pgdrag.english import as_sentence, counted, listed
from pgdrag.findings.claim_findings import Answer, OrderingFinding, SeriesClaimFinding
from pgdrag.findings.values import Findings
from pgdrag.report.cells import NOTHING, answer_tone, answer_words
from pgdrag.report.document import Block, Cell, Column, Note, Table, Tone
from pgdrag.units import format_duration, format_number


def series_note(findings: Findings, source: Cell | None) -> list[Block]:
    """Return the box of the published courses: each variant with its answers, and their order."""
    claims = claims_of(findings)
    if not claims:
        return []
    texts = [as_sentence(f"{name}: {_answers(claim)}: {claim.why}") for name, claim in claims]
    told = Counter(answer for _, claim in claims for answer in _each(claim))
    if ordering := findings.get(OrderingFinding):
        told[ordering.answer] += 1
        texts.append(ordering_words(ordering))
    total = told.total()
    parts = [f"{told[answer]} {answer.value}" for answer in Answer if told[answer]]
    title = f"Published courses: of {counted(total, 'claim')}, {listed(parts)}"
    is_all = told[Answer.REPRODUCED] == total
    tone = Tone.GOOD if is_all else Tone.WARNING if told[Answer.REPRODUCED] else Tone.BAD
    return [Note(title, tuple(texts), tone, source)]


def claims_table(findings: Findings) -> list[Block]:
    """Return the published trend and ratio of each variant with what became of them."""
    claims = claims_of(findings)
    if not claims:
        return []
    columns = (Column("Rung"), Column("Published"), Column("Trend"), Column("Ratio of rates"))
    rows = tuple(
        (
            Cell(name, is_strong=True),
            Cell(claim.published_trend or "a course", _published_note(claim)),
            _answer_cell(claim.trend, claim.found_trend or "no fit"),
            _answer_cell(claim.ratio, _ratio_note(claim)),
        )
        for name, claim in claims
    )
    return [Table("Published courses and what became of them", columns, rows)]


def ordering_words(found: OrderingFinding) -> str:
    """Return what became of the published order, with the pairs that are told apart."""
    tau = found.tau
    parts = [
        f"Order at {format_duration(round(found.at_s))}: {answer_words(found.answer)}: {found.why}",
        f"Kendall's tau {format_number(tau.center, significant=2)} ({format_number(tau.low, significant=2)} to {format_number(tau.high, significant=2)})",
    ]
    if found.opposite:
        pairs = listed([f"{slow} is faster than {fast}" for fast, slow in found.opposite])
        parts.append(f"against what was published {pairs}")
    return as_sentence("; ".join(parts))


def claims_of(findings: Findings) -> list[tuple[str, SeriesClaimFinding]]:
    """Return the answered courses, by the name of the rung."""
    return list(findings.by_rung(SeriesClaimFinding).items())


def _each(claim: SeriesClaimFinding) -> Sequence[Answer]:
    return [answer for answer in (claim.trend, claim.ratio) if answer is not None]


def _answers(claim: SeriesClaimFinding) -> str:
    return ", ".join(dict.fromkeys(answer_words(answer) for answer in _each(claim)))


def _published_note(claim: SeriesClaimFinding) -> str:
    if claim.published_ratio is None or claim.to_s is None or claim.from_s is None:
        return ""
    change = f"{(claim.published_ratio - 1) * 100:+.0f} %"
    return f"{change} from second {claim.from_s:g} to {claim.to_s:g}"


def _ratio_note(claim: SeriesClaimFinding) -> str:
    if claim.found_ratio is None:
        return ""
    found = claim.found_ratio
    low, center, high = (f"{(x - 1) * 100:.0f}" for x in (found.low, found.center, found.high))
    return f"found {center} % ({low} to {high} %)"


def _answer_cell(answer: Answer | None, note: str) -> Cell:
    return NOTHING if answer is None else Cell(answer_words(answer), note, answer_tone(answer))
