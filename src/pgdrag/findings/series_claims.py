"""Does a published course over time hold here: its trend, its size, and the order of the rungs?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np

from pgdrag.english import counted, listed
from pgdrag.findings.claim_findings import (
    Answer,
    OrderedRung,
    OrderingFinding,
    SeriesClaimFinding,
)
from pgdrag.findings.claims import NO_CHANGE, judged
from pgdrag.findings.decay.findings import AT_S, STEADY_WITHIN, Direction
from pgdrag.findings.decay.together import RungDecay, as_ratio
from pgdrag.findings.decay.words import share_words
from pgdrag.findings.values import Comparison, Interval, Verdict
from pgdrag.model import Claim, Rung
from pgdrag.stats.curve_fit import CONFIDENCE, Estimate
from pgdrag.stats.distributions import normal_quantile
from pgdrag.units import format_duration

_ROUNDING_S = 1.0
_BEYOND = (
    1.2  # a published falling rate is not carried on further than to so many times its last moment
)
_DRAWS = 4000


def answer_series(claim: Claim, decay: RungDecay | None) -> SeriesClaimFinding | None:
    """Answer a published trend, and the ratio of its rates within 30 s; None where there are none."""
    if claim.trend is None and len(claim.series) < 2:
        return None
    if decay is None:
        trend = None if claim.trend is None else Answer.UNTESTABLE
        why = f"{_published(claim)}no window here is long enough to see a trend"
        return SeriesClaimFinding(trend, claim.trend, None, None, None, None, None, None, why)
    trend = None if claim.trend is None else _trend_answer(claim.trend, decay.direction)
    told = [f"{_published(claim)}found {_found_words(decay)}"]
    moments = _moments(claim, decay)
    ratio, published, found = None, None, None
    if moments is not None:
        published = _published_at(claim, moments[1]) / _published_at(claim, moments[0])
        begin_s = decay.begin_s
        logs = decay.log_ratio(begin_s + moments[0], begin_s + moments[1])
        found = as_ratio(logs, "ratio of two fitted rates")
        ratio, reason = judged(1 / published, _compared(logs))
        told.append(
            f"from second {moments[0]:g} to {moments[1]:g} published {_percent(published)}, found "
            f"{share_words(found)}: {reason}"
        )
    if decay.wrong:
        trend = None if trend is None else Answer.WRONG
        ratio = None if ratio is None else Answer.WRONG
        told.append(f"it {decay.wrong} here, so that its speed is of no matter")
    from_s, to_s = moments or (None, None)
    return SeriesClaimFinding(
        trend, claim.trend, decay.direction, ratio, published, found, from_s, to_s, "; ".join(told)
    )


def answer_ordering(
    rungs: Sequence[Rung], decays: Mapping[str, RungDecay]
) -> OrderingFinding | None:
    """Compare the rungs' published rates at one moment with those found, pair by pair.

    Args:
        decays: by the name of the rung; those without one are left out.

    Returns:
        None where fewer than two rungs have both. The moment is 30 s, or as long as the shortest fit.
    """
    claimed = [one for one in rungs if one.claim.series or one.claim.tps]
    if not any(one.claim.series for one in claimed):
        return None
    left_out = []
    usable = []
    for rung in claimed:
        decay = decays.get(rung.name)
        if decay is None:
            left_out.append(f"{rung.name} has no fit here")
        elif decay.wrong:
            left_out.append(f"{rung.name} {decay.wrong} here")
        else:
            usable.append((rung, decay))
    if len(usable) < 2:
        return None
    at_s = min(AT_S, *(decay.end_s - decay.begin_s for _, decay in usable))
    noise = _between_trials([decay for _, decay in usable], at_s)
    placed = []
    for rung, decay in usable:
        if not _reaches(rung.claim, at_s):
            left_out.append(f"{rung.name} has no published rate at {format_duration(at_s)}")
            continue
        found = decay.rate(decay.begin_s + at_s)
        if len(decay.trials) == 1:
            found = _widened(found, noise)
        placed.append((rung.name, _published_at(rung.claim, at_s), found))
    return _ordered(at_s, placed, left_out) if len(placed) > 1 else None


def _between_trials(decays: Sequence[RungDecay], at_s: float) -> float:
    """Return by how much trials of one rung differ, over all rungs that have several; 0 without such."""
    logs = [
        [one.center for one in decay.rates(decay.begin_s + at_s)]
        for decay in decays
        if len(decay.trials) > 1
    ]
    squares = sum(float(np.var(one)) * len(one) for one in logs)
    return math.sqrt(squares / sum(len(one) - 1 for one in logs)) if logs else 0.0


def _widened(found: Estimate, sd: float) -> Estimate:
    half = math.hypot(found.half, normal_quantile(0.975) * sd)
    return Estimate(found.center - half, found.center, found.center + half)


def _ordered(
    at_s: float, placed: list[tuple[str, float, Estimate]], left_out: Sequence[str]
) -> OrderingFinding:
    placed = sorted(placed, key=lambda one: -one[1])
    pairs = [
        (one, other)
        for one, other in combinations(placed, 2)
        if one[1] > other[1] * NO_CHANGE  # what was published alike has no order
    ]
    wider = _simultaneous(len(pairs))
    same: list[tuple[str, str]] = []
    opposite: list[tuple[str, str]] = []
    undecided: list[tuple[str, str]] = []
    for one, other in pairs:
        apart = one[2].center - other[2].center
        half = wider * math.hypot(one[2].half, other[2].half)
        where = undecided if abs(apart) <= half else same if apart > 0 else opposite
        where.append((one[0], other[0]))
    answer = _ordering_answer(len(same), len(opposite), len(undecided))
    why = (
        f"of {counted(len(pairs), 'pair')} that were published apart, {len(same)} stand in the published "
        f"order here, {len(opposite)} the other way round, and {len(undecided)} are not told apart"
    )
    return OrderingFinding(
        answer=answer,
        at_s=at_s,
        rungs=tuple(
            OrderedRung(name, published, as_ratio(found, "fitted rate at one moment"))
            for name, published, found in placed
        ),
        same=tuple(same),
        opposite=tuple(opposite),
        undecided=tuple(undecided),
        tau=_tau(placed),
        left_out=tuple(left_out),
        why=why + (f"; left out: {listed(left_out)}" if left_out else ""),
    )


def _ordering_answer(same: int, opposite: int, undecided: int) -> Answer:
    if not same + opposite:
        return Answer.INCONCLUSIVE
    if not opposite:
        return Answer.REPRODUCED if same >= undecided else Answer.INCONCLUSIVE
    return Answer.PARTLY if same > opposite else Answer.NOT_REPRODUCED


def _simultaneous(pairs: int) -> float:
    """Return by how much intervals are to be widened so that all of them hold at 95 % together."""
    one, every = (normal_quantile(1 - 0.025 / count) for count in (1, max(pairs, 1)))
    return float(every / one)


def _tau(placed: Sequence[tuple[str, float, Estimate]]) -> Interval:
    """Return Kendall's tau; its interval by drawing each rate anew within its own."""
    published = [one[1] for one in placed]
    centers = np.array([one[2].center for one in placed])
    spreads = np.array([one[2].half for one in placed]) / normal_quantile(0.975)
    rng = np.random.default_rng(len(placed))
    drawn = centers + spreads * rng.standard_normal((_DRAWS, len(placed)))
    signs = np.array([np.sign(a - b) for a, b in combinations(published, 2)])
    pairs = list(combinations(range(len(placed)), 2))
    taus = np.array([np.sign(drawn[:, i] - drawn[:, j]) for i, j in pairs]).T @ signs
    taus = taus / max(np.abs(signs).sum(), 1)
    own = np.sign([centers[i] - centers[j] for i, j in pairs]) @ signs
    center = float(own / max(np.abs(signs).sum(), 1))
    low, high = (float(x) for x in np.quantile(taus, [0.025, 0.975]))
    return Interval(
        min(low, center), center, max(high, center), CONFIDENCE, "Kendall's tau, rates redrawn"
    )


def _trend_answer(published: str, found: Direction) -> Answer:
    if found == "inconclusive":
        return Answer.INCONCLUSIVE
    return Answer.REPRODUCED if found == published else Answer.NOT_REPRODUCED


def _moments(claim: Claim, decay: RungDecay) -> tuple[float, float] | None:
    """Return the middles of the first and the last interval that both sides have within 30 s."""
    length_s = min(decay.end_s - decay.begin_s, AT_S) + _ROUNDING_S
    within = [
        middle
        for (end_s, _), middle in zip(claim.series, _middles(claim), strict=True)
        if end_s <= length_s
    ]
    return (within[0], within[-1]) if len(within) > 1 else None


def _middles(claim: Claim) -> list[float]:
    ends = [0.0, *(t_s for t_s, _ in claim.series)]
    return [(before + after) / 2 for before, after in pairwise(ends)]


def _reaches(claim: Claim, t_s: float) -> bool:
    if claim.trend == "falling" or (claim.trend is None and claim.series):
        return bool(claim.series) and t_s <= claim.series[-1][0] * _BEYOND
    return True


def _published_at(claim: Claim, t_s: float) -> float:
    """Return the published rate at a moment: on straight lines between logarithms."""
    if not claim.series:
        assert claim.tps is not None, "no published rate"
        return claim.tps
    logs = [math.log(per_s) for _, per_s in claim.series]
    if claim.trend == "steady":
        return math.exp(sum(logs) / len(logs))
    return math.exp(float(np.interp(t_s, _middles(claim), logs)))


def _compared(logs: Estimate) -> Comparison:
    """Return a change over time as the slowdown that it is."""
    slowdown = as_ratio(Estimate(-logs.high, -logs.center, -logs.low), "ratio of two fitted rates")
    bound = 1 + STEADY_WITHIN
    verdict = Verdict.INCONCLUSIVE
    if 1 / bound <= slowdown.low and slowdown.high <= bound:
        verdict = Verdict.EQUIVALENT
    elif slowdown.low > 1:
        verdict = Verdict.SLOWER
    elif slowdown.high < 1:
        verdict = Verdict.FASTER
    return Comparison(verdict, slowdown, math.exp(2 * logs.half))


def _published(claim: Claim) -> str:
    return f"published {claim.trend}, " if claim.trend else ""


def _found_words(decay: RungDecay) -> str:
    if decay.direction == "inconclusive":
        return "neither a trend nor the lack of one"
    return decay.direction


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %"
