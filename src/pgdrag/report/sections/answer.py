"""The verdict in a sentence, what was published, and the warnings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pgdrag.english import as_sentence, capital, counted, listed
from pgdrag.findings.claim_kinds.analysis import StatedClaims
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.decay.findings import share_words
from pgdrag.findings.every_claim import counted_answers, every_claim, numbers_of
from pgdrag.findings.series_claims import OrderingFinding, SeriesClaimFinding
from pgdrag.findings.values import Answer, Findings, Interval, TreatmentFinding
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.cells import NOTHING, answer_tone, answer_words
from pgdrag.report.document import Block, Cell, Details, Items, Note, Paragraph, Tone, table_of
from pgdrag.report.sections import Section
from pgdrag.report.story import noise_words
from pgdrag.units import format_duration, format_number

_MOST_AT_END = 2  # warnings
_MOST_SHOWN = 3  # of them in the report; the others are folded


class AnswerSection(Section):
    name = "answer"
    summary = "the headline, the noise floor and the published claim"
    title = "Verdict"
    order = 10
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """There is always an answer, even if it is that there is none yet."""
        return True

    def blocks(self, findings: Findings) -> Sequence[Block]:
        given = findings.run.study.source
        source = Cell(given.words, url=given.url) if given.words else None
        return (
            *self.brief(findings),
            *_claim_note(findings, source),
            *_series_note(findings, source),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the answer and the noise floor; the warnings stand at the end."""
        return (
            Paragraph(findings.answer, is_lead=True),
            *(Paragraph(text, Tone.MUTED) for text in noise_words(findings)),
        )

    def ending(self, findings: Findings) -> Sequence[Block]:
        warnings = every_warning(findings)
        shown, rest = warnings[:_MOST_AT_END], len(warnings) - _MOST_AT_END
        if rest > 0:
            shown.append(f"{counted(rest, 'more warning')} in the report.")
        answer = Paragraph(findings.answer)
        return (answer, Items(tuple(shown))) if shown else (answer,)


class WarningsSection(Section):
    name = "warnings"
    summary = "what may be wrong with the numbers"
    title = "Warnings"
    order = 31
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        return bool(every_warning(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        texts = every_warning(findings)
        shown, more = texts[:_MOST_SHOWN], texts[_MOST_SHOWN:]
        if len(more) == 1:
            shown, more = texts, []
        folded = [Details(counted(len(more), "more warning"), (Items(tuple(more)),))]
        return (Items(tuple(shown)), *(folded if more else []))


def _claim_note(findings: Findings, source: Cell | None) -> list[Block]:
    """Answer the headline, or else what was claimed of all rungs together, and count all answers."""
    stated, found = findings.get(StatedClaims), findings.by_rung(ClaimsFinding)
    totals = [(name, one.total) for name, one in found.items() if one.total]
    if not totals and stated is None:
        return []
    answers: list[Answer] = []
    texts: list[str] = []
    if stated is not None and (headline := stated.headline) is not None:
        words = f" found {headline.found}:" if headline.found else ""
        texts.append(f"{capital(headline.text)}:{words} {headline.why}.")
        answers.append(headline.answer)
    # Of rungs that build upon each other the last; where each stands alone, none is more than another.
    if totals and (findings.is_cumulative or len(totals) == 1):
        # One with a number here goes before.
        rung, total = ([x for x in totals if x[1].found is not None] or totals)[-1]
        if not answers:
            texts.append(f"{f'Up to {rung}' if findings.is_cumulative else rung}: {total.why}.")
        if total.in_kind is not None:
            texts.append(
                f"By operational speed as pg_expecto defines it (trailing medians of calls and rows, or else of "
                f"commits): {slowdown_words(total.in_kind)}."
            )
        answers.append(total.answer)
    claims = every_claim(findings)
    if len(claims) > len(answers):
        texts.append(as_sentence(counted_answers(claims)))
    texts += findings.found.claim_notes() if findings.found is not None else ()
    texts += filter(None, [findings.run.study.source.limits])
    if answers:
        title = f"Published claim: {answer_words(answers[0])}"
        return [Note(title, tuple(texts), answer_tone(answers[0]), source)]
    counts = Counter(one.answer for one in claims)
    return [Note(f"Published claims: {numbers_of(counts)}", tuple(texts), Tone.MUTED, source)]


def _series_note(findings: Findings, source: Cell | None) -> list[Block]:
    """Return the box of the published rates over time: each variant with its answers, and their order."""
    counts: Counter[Answer] = Counter()
    texts = []
    for name, claim in findings.by_rung(SeriesClaimFinding).items():
        answers = [answer for answer in (claim.trend, claim.ratio) if answer is not None]
        counts.update(answers)
        words = ", ".join(dict.fromkeys(answer_words(one) for one in answers))
        texts.append(as_sentence(f"{name}: {words}: {claim.why}"))
    if not texts:
        return []
    if ordering := findings.get(OrderingFinding):
        counts[ordering.answer] += 1
        texts.append(ordering_words(ordering))
    claims = counted(counts.total(), "claim")
    title = f"Published rates over time: of {claims}, {numbers_of(counts)}"
    is_all = counts[Answer.REPRODUCED] == counts.total()
    tone = Tone.GOOD if is_all else Tone.WARNING if counts[Answer.REPRODUCED] else Tone.BAD
    return [Note(title, tuple(texts), tone, source)]


def claims_table(findings: Findings) -> list[Block]:
    """Return the published trend and ratio over time of each variant with their answers."""
    claims = findings.by_rung(SeriesClaimFinding)

    def published(claim: SeriesClaimFinding) -> Cell:
        note = ""
        if claim.published_ratio is not None and claim.from_s is not None:
            change = f"{(claim.published_ratio - 1) * 100:+.0f} %"
            note = f"{change} from second {claim.from_s:g} to {claim.to_s:g}"
        return Cell(claim.published_trend or "rates over time", note)

    def answer(answer: Answer | None, note: str) -> Cell:
        return NOTHING if answer is None else Cell(answer_words(answer), note, answer_tone(answer))

    def ratio(claim: SeriesClaimFinding) -> Cell:
        found = claim.found_ratio
        return answer(claim.ratio, "" if found is None else f"found {share_words(found)}")

    table = table_of(
        "Published rates over time",
        claims.items(),
        {
            findings.noun_heading: lambda x: Cell(x[0], is_strong=True),
            "Published": lambda x: published(x[1]),
            "Trend": lambda x: answer(x[1].trend, x[1].found_trend or "no fit"),
            "Ratio of rates": lambda x: ratio(x[1]),
        },
    )
    return [table] if claims else []


def ordering_words(found: OrderingFinding) -> str:
    """Return whether the rungs are in the published order, and which pairs are not."""
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


# A number that stands for itself: not the 40 of SQLSTATE 40P01, nor the 1 of rung A1.
_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


def every_warning(findings: Findings) -> list[str]:
    """Return all warnings, each once and as a sentence, the most important first.

    Failures come first, then what concerns the whole run; what is true of every ladder comes last.
    """
    return sorted(
        dict.fromkeys((*map(as_sentence, findings.warnings), *_of_rungs(findings))),
        key=lambda one: ("failed" not in one, "depends on the order" in one),
    )


def note(title: str, texts: Sequence[str]) -> tuple[Note, ...]:
    """Return warnings under a title; nothing where there are none."""
    return (Note(title, tuple(texts), Tone.WARNING),) if texts else ()


def _of_rungs(findings: Findings) -> list[str]:
    """Return one line for warnings that differ in numbers alone; the line gives their range."""
    similar: dict[str, dict[str, list[str]]] = {}
    for rung in findings.rungs:
        intervals = (
            _intervals(rung) if findings.has_rungs else []
        )  # else the design warns of its own
        for text in dict.fromkeys(
            (*rung.warnings, *(x for one in intervals for x in one.warnings))
        ):
            by_rung = similar.setdefault(_NUMBER.sub("\0", text), {})
            by_rung.setdefault(rung.rung.name, []).append(text)
    lines = []
    for by_rung in similar.values():
        texts = [text for of_one in by_rung.values() for text in of_one]
        lines.append(f"{listed(list(by_rung))}: {_merged(texts)}.")
    return lines


def _intervals(rung: TreatmentFinding) -> list[Interval]:
    found = [x.slowdown for x in (rung.to_baseline, rung.to_previous) if x is not None]
    return found if rung.tps is None else [*found, rung.tps]


def _merged(texts: Sequence[str]) -> str:
    """Return texts that differ in numbers alone as one, with ranges where they differ."""
    numbers = zip(*map(_NUMBER.findall, texts), strict=True)
    return _NUMBER.sub(lambda _: _range(next(numbers)), texts[0])


def _range(numbers: Sequence[str]) -> str:
    ranked = sorted(set(numbers), key=lambda text: float(text.replace(",", "")))
    return ranked[0] if len(ranked) == 1 else f"{ranked[0]} to {ranked[-1]}"
