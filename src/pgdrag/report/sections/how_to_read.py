"""What do the words and numbers of this report mean?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.series_claims import SeriesClaimFinding
from pgdrag.findings.values import Answer, Findings, TreatmentFinding
from pgdrag.model import Outcome
from pgdrag.report.cells import answer_words
from pgdrag.report.document import Block, Cell, KeyValues
from pgdrag.report.sections import Section

_NUMBERS = (
    (
        "× slower",
        "Throughput of the reference divided by that of this rung: 7× slower is one seventh of the speed.",
    ),
    (
        "Interval",
        "Confidence interval for repeating the run on this machine. It says nothing about other machines.",
    ),
    (
        "< and >",
        "A rung that committed nothing has only an upper bound for its rate, and a lower bound for its slowdown.",
    ),
    (
        "Not significant",
        "The interval includes no change. “No change” is stronger: the interval excludes any effect that matters.",
    ),
)
_INERT = (
    (
        "Inert",
        "Every setting of this rung reads as before, so it is the same server again: any difference is noise.",
    ),
)
_LADDER = (
    (
        "Share",
        "Part of the logarithm of the whole slowdown, so that all shares sum to 100 %. It depends on the order of "
        "the rungs: a rung can look harmless because an earlier one already did the damage.",
    ),
)
_CLAIMS = {
    Answer.REPRODUCED: "Same direction, and the published ratio is within a factor of two of our interval (under 4×, of its logarithm).",
    Answer.PARTLY: "Same direction, different size.",
    Answer.NOT_REPRODUCED: "Opposite direction, or no effect although these trials can detect the published one.",
    Answer.INCONCLUSIVE: "More or longer trials are needed.",
    Answer.UNTESTABLE: "This server or machine lacks what the rung needs, or one side has no number.",
}
_WRONG = (
    "Its trials lose updates or leave a dataset that fails its check, so its speed means nothing."
)


class HowToReadSection(Section):
    """The words, explained."""

    name = "how-to-read"
    summary = "the words, explained"
    title = "How to read this report"
    order = 100

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return each word that this report uses with its meaning."""
        meanings = list(_NUMBERS)
        if any(rung.outcome is Outcome.INERT for rung in findings.rungs):
            meanings += _INERT
        if findings.is_cumulative:
            meanings += _LADDER
        if any(_has_claim(rung) for rung in findings.rungs):
            meanings += [(answer_words(answer), meaning) for answer, meaning in _CLAIMS.items()]
        if any(one.wrong for one in findings.by_rung(DecayFinding).values()):
            meanings.append((answer_words(Answer.WRONG), _WRONG))
        return (KeyValues(tuple((word, Cell(meaning)) for word, meaning in meanings)),)


def _has_claim(rung: TreatmentFinding) -> bool:
    return bool(rung.get(ClaimsFinding) or rung.get(SeriesClaimFinding))
