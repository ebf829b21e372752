"""What did each source claim, and what became of it here?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdrag.english import as_sentence, listed
from pgdrag.findings.claim_kinds.analysis import AnsweredClaim, StatedClaims
from pgdrag.findings.every_claim import counted_answers, every_claim
from pgdrag.findings.values import Answer, Findings
from pgdrag.report.cells import answer_tone, answer_words, found_cell
from pgdrag.report.document import Block, Cell, Paragraph, Table, Tone, table_of
from pgdrag.report.sections import Section

_UNANSWERED = (Answer.UNTESTABLE, Answer.NOT_RUN)


class ClaimsSection(Section):
    name = "claims"
    summary = "each published figure with its answer"
    title = "Published claims"
    order = 33

    def applies(self, findings: Findings) -> bool:
        return bool(every_claim(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return how many have which answer, and all of them."""
        claims = every_claim(findings)
        return (
            Paragraph(as_sentence(counted_answers(claims)), Tone.MUTED),
            _table(findings, claims),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return those that the experiment states; the rates of rungs stand in their own table."""
        return _stated(findings, is_ending=False)

    def ending(self, findings: Findings) -> Sequence[Block]:
        return _stated(findings, is_ending=True)


def _stated(findings: Findings, *, is_ending: bool) -> Sequence[Block]:
    stated = findings.get(StatedClaims)
    if stated is None:
        return ()
    words = as_sentence(counted_answers(every_claim(findings)))
    claims = [x for x in stated.claims if not (is_ending and x.answer in _UNANSWERED)]
    table = [_table(findings, claims, has_sources=not is_ending)] if claims else []
    return (Paragraph(words, Tone.MUTED), *table)


def _table(
    findings: Findings, claims: Sequence[AnsweredClaim], *, has_sources: bool = True
) -> Table:
    study = findings.run.study
    columns: dict[str, Callable[[AnsweredClaim], Cell | str]] = {
        findings.noun_heading: _of_rungs,
        "Published": lambda x: Cell(x.text, is_strong=x.is_headline),
        "Found": found_cell,
        "Answer": lambda x: Cell(answer_words(x.answer), tone=answer_tone(x.answer)),
    }
    if study.sources and has_sources:
        columns["Source"] = lambda x: study.sources.get(x.source, study.source).words
    return table_of("Every published figure and its answer", claims, columns)


def _of_rungs(claim: AnsweredClaim) -> str:
    # Of two rungs the second is compared with the first, as the words say.
    return listed(claim.rungs[-1:] if len(claim.rungs) == 2 else claim.rungs)
