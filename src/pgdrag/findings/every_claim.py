"""Which published figures does a run answer? All of them as rows of one table.

The rates that rungs carry are answered as ratios to the baseline, as steps of a ladder, over time and by their order;
all other claims are stated by the experiment (`claim_kinds`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pgdrag.english import counted, listed
from pgdrag.findings.claim_kinds.analysis import AnsweredClaim, StatedClaims
from pgdrag.findings.claims import ClaimsFinding, published_ratio
from pgdrag.findings.decay.findings import AT_S, share_words
from pgdrag.findings.series_claims import (
    OrderingFinding,
    SeriesClaimFinding,
    published_change,
    published_order,
)
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
    """Yield the claims that follow from the published rates of rungs; their keys do not depend on what was run."""
    for at in range(len(findings.rungs)):
        yield from _of_rung(findings, at)
    if order := published_order([one.rung for one in findings.rungs]):
        yield _of_order(findings, order)


def _of_order(findings: Findings, order: tuple[str, ...]) -> AnsweredClaim:
    ordering = findings.get(OrderingFinding)
    rungs = {one.rung.name: one for one in findings.rungs}
    source = rungs[order[0]].rung.claim.source
    text = f"the order at {format_duration(AT_S)}: {listed(list(order))}"
    if ordering is None:
        unrun = [name for name in order if not rungs[name].trials]
        why = _not_run(unrun, rungs) if unrun else "fewer than two have a window long enough"
        answer = Answer.NOT_RUN if unrun else Answer.UNTESTABLE
        return AnsweredClaim("order", "order", text, order, source, False, answer, "", why)
    compared = listed([rung.name for rung in ordering.rungs])
    found = (
        f"{compared} at {format_duration(round(ordering.at_s))}: "
        f"{len(ordering.same)} pairs in this order, {len(ordering.opposite)} in the opposite one, "
        f"{len(ordering.undecided)} not significantly different"
    )
    return AnsweredClaim("order", "order", text, order, source, False, ordering.answer, found, "")


def _not_run(names: Sequence[str], rungs: Mapping[str, TreatmentFinding]) -> str:
    return f"{listed(list(names))}: {rungs[names[0]].state}"


def _of_rung(findings: Findings, at: int) -> Iterator[AnsweredClaim]:
    rung, baseline = findings.rungs[at], findings.rungs[0]
    name = rung.rung.name
    claims = rung.get(ClaimsFinding) or ClaimsFinding()
    if claims.total is not None:
        yield from _of_ratio(f"{name} against the baseline", baseline, rung, claims.total)
    if findings.is_cumulative and at > 1:  # the first step is the first total
        yield from _of_step(findings.rungs[at - 1], rung, claims.step)
    yield from _over_time(rung)


def _of_step(
    before: TreatmentFinding, rung: TreatmentFinding, found: ClaimFinding | None
) -> Iterator[AnsweredClaim]:
    """Yield the published step from one rung to the next; one across a rung without a number was not published."""
    published = published_ratio(before.rung.claim, rung.rung.claim)
    if published is None:
        return
    if rung.previous not in ("", before.rung.name):
        answer = Answer.UNTESTABLE if before.trials else Answer.NOT_RUN
        why = f"{before.rung.name}: {before.state}"
        found = ClaimFinding(answer, published, None, why, reason=why)
    if found is not None:
        yield from _of_ratio(f"{rung.rung.name} as a step", before, rung, found)


def _over_time(rung: TreatmentFinding) -> Iterator[AnsweredClaim]:
    name, published = rung.rung.name, rung.rung.claim
    series = rung.get(SeriesClaimFinding)
    answer = Answer.UNTESTABLE if rung.trials else Answer.NOT_RUN
    why = "no window is long enough" if rung.trials else rung.state
    if published.trend is not None:
        seen = (series and series.found_trend) or ""
        trend = series.trend if series and series.trend and seen else answer
        text, reason = _trend_words(published), "" if seen else why
        yield AnsweredClaim(
            f"{name}: trend", "course", text, (name,), published.source, False, trend, seen, reason
        )
    change = published_change(published, AT_S)
    found = ""
    if series is not None and series.ratio is not None and series.found_ratio is not None:
        assert series.from_s is not None
        assert series.to_s is not None
        assert series.published_ratio is not None
        change = series.from_s, series.to_s, series.published_ratio
        answer, found, why = series.ratio, share_words(series.found_ratio), ""
    if change is not None:
        from_s, to_s, ratio = change
        text = f"{(ratio - 1) * 100:+.0f} % from second {from_s:g} to {to_s:g}"
        yield AnsweredClaim(
            f"{name}: change", "course", text, (name,), published.source, False, answer, found, why
        )


def _trend_words(published: Claim) -> str:
    rates = [format_number(per_s, significant=5) for _, per_s in published.series]
    if not rates and published.tps is not None:
        rates = [format_number(published.tps, significant=5)]
    return f"{published.trend}: {listed(rates)}/s" if rates else f"{published.trend}"


def _of_ratio(
    key: str, reference: TreatmentFinding, rung: TreatmentFinding, claim: ClaimFinding
) -> Iterator[AnsweredClaim]:
    published = rung.rung.claim
    if claim.published is None:
        return
    rate = "" if published.tps is None else f"{format_rate(published.tps)}, "
    text = f"{rate}{published_words(claim.published)} than {reference.rung.name}"
    found = "" if claim.found is None else slowdown_words(claim.found)
    names = (reference.rung.name, rung.rung.name)
    yield AnsweredClaim(
        key, "slowdown", text, names, published.source, False, claim.answer, found, claim.reason
    )
