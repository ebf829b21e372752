"""What do the words and numbers of this report mean?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pgdrag.findings.claim_findings import SeriesClaimFinding
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.values import Answer, Findings, TreatmentFinding
from pgdrag.model import Outcome
from pgdrag.report.cells import answer_words
from pgdrag.report.document import Block, Cell, KeyValues
from pgdrag.report.sections import Section

_NUMBERS = (
    (
        "× slower",
        "Throughput of the reference divided by throughput of this rung: 7× slower is one seventh "
        "of the speed. What is faster says so.",
    ),
    (
        "Interval",
        "The range that holds the true value at the confidence stated, if the run were made again "
        "here, on this machine. It says nothing of other machines.",
    ),
    (
        "< and >",
        "A rung that committed nothing in its whole budget has no rate, only an upper bound, and so "
        "only a lower bound for its slowdown.",
    ),
    (
        "Could be noise",
        "The interval includes no change at all. That is not the same as no change: that is said "
        "only where the interval excludes any effect that matters.",
    ),
)
_INERT = (
    (
        "Inert",
        "Everything that this rung sets reads as it did before, so it is the same server once more: "
        "what its number differs by is noise.",
    ),
)
_LADDER = (
    (
        "Share",
        "Part of the logarithm of the whole slowdown, so that the shares of all rungs sum to 100 %. "
        "It depends on the order of the rungs: a rung can look harmless because an earlier one "
        "already did its damage.",
    ),
)
_CLAIMS = {
    Answer.REPRODUCED: "The same direction, and the published ratio lies within a factor of two of our interval (under 4×, of its logarithm).",
    Answer.PARTLY: "The same direction, but another size.",
    Answer.NOT_REPRODUCED: "The opposite direction, or no effect where the published one would have been seen.",
    Answer.INCONCLUSIVE: "These trials cannot tell; more or longer ones might.",
    Answer.UNTESTABLE: "This server or machine lacks what the rung needs, or a side of the comparison has no number.",
}
_WRONG = "Its trials lose updates, or leave a dataset that fails its check: it is fast or slow at something else than what was asked."


class HowToReadSection(Section):
    """The words, explained."""

    name: ClassVar[str] = "how-to-read"
    summary: ClassVar[str] = "the words, explained"
    title: ClassVar[str] = "How to read this report"
    order: ClassVar[int] = 100

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return each word that this report uses with its meaning."""
        told = list(_NUMBERS)
        if any(rung.outcome is Outcome.INERT for rung in findings.rungs):
            told += _INERT
        if findings.is_cumulative:
            told += _LADDER
        if any(_has_claim(rung) for rung in findings.rungs):
            told += [(answer_words(answer), meaning) for answer, meaning in _CLAIMS.items()]
        if any(one.wrong for one in findings.by_rung(DecayFinding).values()):
            told.append((answer_words(Answer.WRONG), _WRONG))
        return (KeyValues(tuple((word, Cell(meaning)) for word, meaning in told)),)


def _has_claim(rung: TreatmentFinding) -> bool:
    return bool(rung.total_claim or rung.step_claim or rung.get(SeriesClaimFinding))
