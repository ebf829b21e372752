"""The answer in a sentence, what was published, and the warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pgdrag.english import counted, listed
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.values import Answer, ClaimFinding, Findings
from pgdrag.findings.wording import slowdown_words
from pgdrag.model import Source
from pgdrag.report.cells import answer_tone, answer_words
from pgdrag.report.document import Block, Cell, Note, Paragraph, Tone
from pgdrag.report.sections import Section
from pgdrag.report.sections._series_claims import series_note
from pgdrag.report.sections._warnings import run_warnings
from pgdrag.units import format_ratio

AGREED = 0.005  # a difference of repeats below this would read as 1.00×


class AnswerSection(Section):
    """The headline, the claim beside it, the noise floor and the warnings."""

    name = "answer"
    summary = "the headline, the claim beside it, the noise floor and the warnings"
    title = "Answer"
    order = 10
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """There is always an answer, if only that there is none yet."""
        return True

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the answer, the claim and the warnings."""
        return (
            Paragraph(findings.answer, is_lead=True),
            *(Paragraph(text, Tone.MUTED) for text in noise_words(findings)),
            *_claim_note(findings),
            *series_note(findings, _source(findings.run.study.source)),
            *run_warnings(findings),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the answer and the noise floor; the warnings stand at the end."""
        return (
            Paragraph(findings.answer, is_lead=True),
            *(Paragraph(text, Tone.MUTED) for text in noise_words(findings)),
        )


def noise_words(findings: Findings) -> tuple[str, ...]:
    """Say how far two trials of the same treatment lay apart, unless the design has its own words for it."""
    if findings.found is not None and not findings.found.completes_answer:
        return ()
    if findings.noise_floor is None:
        return ("The baseline ran once: the noise between trials is unknown.",)
    if findings.noise_floor < 1 + AGREED:
        return (f"Noise: repeats of the baseline agree within {AGREED * 100:.1f} %.",)
    return (
        f"Noise: repeats of the baseline differ by up to {format_ratio(findings.noise_floor)}.",
    )


def _claim_note(findings: Findings) -> list[Block]:
    """Answer the claim of all rungs together, and count the answers to the single steps."""
    total = _last_claim(findings)
    if total is None:
        return []
    rung, claim = total
    texts = [f"Up to {rung}: {claim.why}."]
    if claim.in_kind is not None:
        texts.append(
            f"By operational speed as pg_expecto defines it (trailing medians, of commits instead of calls): "
            f"{slowdown_words(claim.in_kind)}."
        )
    claims = findings.by_rung(ClaimsFinding).values()
    steps = Counter(one.step.answer for one in claims if one.step)
    if steps:
        answers = [f"{steps[answer]} {answer.value}" for answer in Answer if steps[answer]]
        texts.append(f"Of {counted(steps.total(), 'published step')}: {listed(answers)}.")
    if findings.found is not None:
        texts += findings.found.claim_notes()
    if limits := findings.run.study.source.limits:
        texts.append(limits)
    title = f"Published claim: {answer_words(claim.answer)}"
    source = _source(findings.run.study.source)
    return [Note(title, tuple(texts), answer_tone(claim.answer), source)]


def _last_claim(findings: Findings) -> tuple[str, ClaimFinding] | None:
    """Return the claim on the last rung that has one; one with a number here goes before."""
    every = findings.by_rung(ClaimsFinding)
    claims = [(name, one.total) for name, one in every.items() if one.total]
    found = [(name, claim) for name, claim in claims if claim.found is not None]
    return (found or claims)[-1] if claims else None


def _source(source: Source) -> Cell | None:
    words = ", ".join(word for word in (source.title or source.url, source.author) if word)
    return Cell(words, url=source.url) if words else None
