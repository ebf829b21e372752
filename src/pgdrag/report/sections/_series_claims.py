"""Do the published rates over time hold here, rung by rung, and does their order?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pgdrag.english import as_sentence, counted, listed
from pgdrag.findings.decay.findings import share_words
from pgdrag.findings.series_claims import OrderingFinding, SeriesClaimFinding
from pgdrag.findings.values import Answer, Findings
from pgdrag.report.cells import NOTHING, answer_tone, answer_words
from pgdrag.report.document import Block, Cell, Note, Table, Tone, header
from pgdrag.units import format_duration, format_number


def series_note(findings: Findings, source: Cell | None) -> list[Block]:
    """Return the box of the published rates: each variant with its answers, and their order."""
    claims = findings.by_rung(SeriesClaimFinding)
    if not claims:
        return []
    texts = []
    for name, claim in claims.items():
        answers = ", ".join(dict.fromkeys(answer_words(one) for one in _answers(claim)))
        texts.append(as_sentence(f"{name}: {answers}: {claim.why}"))
    counts = Counter(answer for claim in claims.values() for answer in _answers(claim))
    if ordering := findings.get(OrderingFinding):
        counts[ordering.answer] += 1
        texts.append(ordering_words(ordering))
    parts = [f"{counts[answer]} {answer.value}" for answer in Answer if counts[answer]]
    title = f"Published rates over time: of {counted(counts.total(), 'claim')}, {listed(parts)}"
    is_all = counts[Answer.REPRODUCED] == counts.total()
    tone = Tone.GOOD if is_all else Tone.WARNING if counts[Answer.REPRODUCED] else Tone.BAD
    return [Note(title, tuple(texts), tone, source)]


def claims_table(findings: Findings) -> list[Block]:
    """Return the published trend and ratio of each variant with their answers."""
    claims = findings.by_rung(SeriesClaimFinding)
    if not claims:
        return []
    columns = header("Rung", "Published", "Trend", "Ratio of rates")
    rows = tuple(
        (
            Cell(name, is_strong=True),
            Cell(claim.published_trend or "rates over time", _published_note(claim)),
            _answer_cell(claim.trend, claim.found_trend or "no fit"),
            _answer_cell(
                claim.ratio,
                "" if claim.found_ratio is None else f"found {share_words(claim.found_ratio)}",
            ),
        )
        for name, claim in claims.items()
    )
    return [Table("Published rates over time", columns, rows)]


def ordering_words(found: OrderingFinding) -> str:
    """Return whether the rungs stand in the published order, and which pairs do not."""
    pairs = len(found.same) + len(found.opposite) + len(found.undecided)
    center, low, high = (
        format_number(x, significant=2) for x in (found.tau.center, found.tau.low, found.tau.high)
    )
    parts = [
        f"Order at {format_duration(round(found.at_s))}: {answer_words(found.answer)}: of {counted(pairs, 'pair')} with "
        f"different published rates, {len(found.same)} are in the published order here, {len(found.opposite)} in the "
        f"opposite one, and {len(found.undecided)} do not differ significantly",
        f"Kendall's tau {center} (95 % CI {low} to {high})",
    ]
    if found.opposite:
        pair_words = listed([f"{slow} is faster than {fast}" for fast, slow in found.opposite])
        parts.append(f"contrary to what was published, {pair_words}")
    if found.left_out:
        parts.append(f"left out: {listed(found.left_out)}")
    return as_sentence("; ".join(parts))


def _answers(claim: SeriesClaimFinding) -> Sequence[Answer]:
    return [answer for answer in (claim.trend, claim.ratio) if answer is not None]


def _published_note(claim: SeriesClaimFinding) -> str:
    if claim.published_ratio is None or claim.to_s is None or claim.from_s is None:
        return ""
    change = f"{(claim.published_ratio - 1) * 100:+.0f} %"
    return f"{change} from second {claim.from_s:g} to {claim.to_s:g}"


def _answer_cell(answer: Answer | None, note: str) -> Cell:
    return NOTHING if answer is None else Cell(answer_words(answer), note, answer_tone(answer))
