"""Which published figures does a run answer? All of them as rows of one table.

The rates that rungs carry are answered as ratios to the baseline, as steps of a ladder, over time and by their order;
all other claims are stated by the experiment (`claim_kinds`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pgdrag.english import counted, listed
from pgdrag.findings.claim_kinds.analysis import AnsweredClaim, StatedClaims
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.decay.findings import share_words
from pgdrag.findings.series_claims import OrderingFinding, SeriesClaimFinding
from pgdrag.findings.values import Answer, ClaimFinding, Findings, TreatmentFinding
from pgdrag.findings.wording import published_words, slowdown_words
from pgdrag.model import Claim
from pgdrag.units import format_duration, format_number, format_rate


def every_claim(findings: Findings) -> tuple[AnsweredClaim, ...]:
    """Return every published figure of a run's study with its answer, the headline first."""
    stated = findings.get(StatedClaims)
    claims = [*(stated.claims if stated else ()), *_of_rates(findings)]
    return tuple(sorted(claims, key=lambda one: not one.is_headline))


def counted_answers(claims: Sequence[AnsweredClaim]) -> str:
    """Return `of 26 published claims, 4 reproduced, 3 partly and 19 untestable here`."""
    counts = Counter(one.answer for one in claims)
    return f"of {counted(len(claims), 'published claim')}, {numbers_of(counts)}"


def numbers_of(counts: Counter[Answer]) -> str:
    """Return how many have each answer, as `4 reproduced and 3 partly`."""
    return listed([f"{counts[answer]} {answer.value}" for answer in Answer if counts[answer]])


def _of_rates(findings: Findings) -> Iterator[AnsweredClaim]:
    for rung in findings.rungs:
        yield from _of_rung(findings, rung)
    if ordering := findings.get(OrderingFinding):
        names = tuple(rung.name for rung in ordering.rungs)
        found = (
            f"{len(ordering.same)} pairs in this order, {len(ordering.opposite)} in the opposite one, "
            f"{len(ordering.undecided)} not significantly different"
        )
        text = f"the order at {format_duration(round(ordering.at_s))}: {listed(list(names))}"
        source = next((x.rung.claim.source for x in findings.rungs if x.rung.name in names), "")
        yield AnsweredClaim("order", text, names, source, False, ordering.answer, found, "")


def _of_rung(findings: Findings, rung: TreatmentFinding) -> Iterator[AnsweredClaim]:
    name, baseline = rung.rung.name, findings.rungs[0].rung.name
    published = rung.rung.claim
    rate = "" if published.tps is None else f"{format_rate(published.tps)}, "
    claims = rung.get(ClaimsFinding) or ClaimsFinding()
    steps = [(baseline, claims.total)]
    before = _rung_before(findings, rung)
    if findings.is_cumulative and before != baseline:  # the first step is the first total
        steps.append((before, claims.step))
    for reference, claim in steps:
        if claim is None or claim.published is None:
            continue
        text = f"{rate}{published_words(claim.published)} than {reference}"
        yield _row("slowdown", text, (reference, name), published.source, claim)
    series = rung.get(SeriesClaimFinding)
    if published.trend is not None:
        answer = Answer.UNTESTABLE if series is None or series.trend is None else series.trend
        seen = "" if series is None or series.found_trend is None else series.found_trend
        why = "" if seen else rung.state if series is None else "no window is long enough"
        yield AnsweredClaim(
            "course", _trend_words(published), (name,), published.source, False, answer, seen, why
        )
    if series is not None and series.ratio is not None and series.published_ratio is not None:
        change = f"{(series.published_ratio - 1) * 100:+.0f} %"
        text = f"{change} from second {series.from_s:g} to {series.to_s:g}"
        found = "" if series.found_ratio is None else share_words(series.found_ratio)
        yield AnsweredClaim(
            "course", text, (name,), published.source, False, series.ratio, found, ""
        )


def _trend_words(published: Claim) -> str:
    rates = [format_number(per_s, significant=5) for _, per_s in published.series]
    if not rates and published.tps is not None:
        rates = [format_number(published.tps, significant=5)]
    return f"{published.trend}: {listed(rates)}/s" if rates else f"{published.trend}"


def _rung_before(findings: Findings, rung: TreatmentFinding) -> str:
    at = findings.rungs.index(rung)
    return rung.previous or (findings.rungs[at - 1].rung.name if at else "")


def _row(
    kind: str, text: str, rungs: tuple[str, ...], source: str, claim: ClaimFinding
) -> AnsweredClaim:
    found = "" if claim.found is None else slowdown_words(claim.found)
    return AnsweredClaim(kind, text, rungs, source, False, claim.answer, found, claim.reason)
