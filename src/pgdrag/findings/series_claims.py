"""Do published rates over time hold here: their trend, their size, and the order of the rungs?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal

import numpy as np

from pgdrag.findings.analysis import RunAnalysis, TreatmentAnalysis
from pgdrag.findings.claims import NO_CHANGE, judged
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.decay.findings import AT_S, STEADY_WITHIN, Direction, share_words
from pgdrag.findings.decay.together import RungDecay, as_ratio
from pgdrag.findings.values import Answer, Comparison, Interval, Verdict
from pgdrag.model import Claim, Rung
from pgdrag.stats.curve_fit import CONFIDENCE, Estimate
from pgdrag.stats.distributions import normal_quantile
from pgdrag.stats.noise import pooled_noise
from pgdrag.units import format_duration

_ROUNDING_S = 1.0
_BEYOND = 1.2  # a published falling rate is extrapolated to this many times its last moment
_DRAWS = 4000
_RATIO_METHOD = "ratio of two fitted rates"
_Placed = tuple[str, float, Estimate]  # a rung, its published rate, and the log of the one found


@dataclass(frozen=True)
class SeriesClaimFinding:
    """Published rates over time beside those found here.

    Attributes:
        trend: answer to the published trend; None where none was published.
        found_trend: None where no window was long enough.
        ratio: answer to the published ratio of a later rate to the first; None without one.
        published_ratio, found_ratio: the rate at `to_s` divided by that at `from_s`; the fitted
            one counts from the beginning of the hold.
        from_s, to_s: the middles of the first and the last published interval within 30 s, or within what
            was fitted here, whichever is shorter; None without a ratio.
        why: the reasons, in words.
    """

    trend: Answer | None
    published_trend: Literal["steady", "falling"] | None
    found_trend: Direction | None
    ratio: Answer | None
    published_ratio: float | None
    found_ratio: Interval | None
    from_s: float | None
    to_s: float | None
    why: str


@dataclass(frozen=True)
class OrderedRung:
    """One rung in the order of published rates: what was published, and the fitted rate, at one moment."""

    name: str
    published_per_s: float
    found_per_s: Interval


@dataclass(frozen=True)
class OrderingFinding:
    """Whether the rungs stand in the published order of their rates.

    Attributes:
        at_s: from the beginning, or since the horizon has been held.
        rungs: by their published rates, the fastest first.
        same, opposite, undecided: pairs of names, the one published faster first: found in that order,
            found in the opposite order, and not significantly different; 95 % for all pairs together.
        tau: Kendall's, of published and found rates: 1 is the same order, -1 the opposite one.
        left_out: rungs with published rates that are not among them, and why.
    """

    answer: Answer
    at_s: float
    rungs: tuple[OrderedRung, ...]
    same: tuple[tuple[str, str], ...]
    opposite: tuple[tuple[str, str], ...]
    undecided: tuple[tuple[str, str], ...]
    tau: Interval
    left_out: tuple[str, ...]


def answer_series(claim: Claim, decay: RungDecay | None) -> SeriesClaimFinding | None:
    """Answer a published trend, and the ratio of its rates within 30 s; None without either."""
    if claim.trend is None and len(claim.series) < 2:
        return None
    published = f"published {claim.trend}, " if claim.trend else ""
    trend = None if claim.trend is None else trend_answer(claim.trend, decay)
    if decay is None:
        why = f"{published}no window here is long enough to show a trend"
        return SeriesClaimFinding(trend, claim.trend, None, None, None, None, None, None, why)
    shown = "no significant trend" if decay.direction == "inconclusive" else decay.direction
    reasons = [f"{published}found {shown}"]
    from_s, to_s, ratio, published_ratio, found = None, None, None, None, None
    if change := published_change(claim, decay.end_s - decay.begin_s):
        from_s, to_s, published_ratio = change
        logs = decay.log_ratio(decay.begin_s + from_s, decay.begin_s + to_s)
        found = as_ratio(logs, _RATIO_METHOD)
        ratio, reason = judged(1 / published_ratio, as_comparison(logs))
        reasons.append(
            f"from second {from_s:g} to {to_s:g} published {(published_ratio - 1) * 100:+.0f} %, found "
            f"{share_words(found)}: {reason}"
        )
    if decay.wrong:
        ratio = None if ratio is None else Answer.WRONG
        reasons.append(f"it {decay.wrong} here, so its speed does not count")
    why = "; ".join(reasons)
    return SeriesClaimFinding(
        trend, claim.trend, decay.direction, ratio, published_ratio, found, from_s, to_s, why
    )


def published_change(claim: Claim, length_s: float) -> tuple[float, float, float] | None:
    """Return the middles of the first and the last published interval that end within 30 s, and the later rate
    divided by the earlier.

    Args:
        length_s: of what was measured: where it is shorter than 30 s, it counts.

    Returns:
        None with fewer than two intervals.
    """
    length_s = min(length_s, AT_S) + _ROUNDING_S
    within = _middles(claim)[: sum(end_s <= length_s for end_s, _ in claim.series)]
    if len(within) < 2:
        return None
    from_s, to_s = within[0], within[-1]
    return from_s, to_s, _published_at(claim, to_s) / _published_at(claim, from_s)


def published_order(rungs: Sequence[Rung]) -> tuple[str, ...]:
    """Return the rungs whose published rates have an order at 30 s, the fastest first; none without two."""
    first = _first_series(rungs)
    rates = {
        one.name: _published_at(one.claim, AT_S)
        for one in rungs
        if first is not None
        and (one.claim.series or one.claim.tps)
        and one.claim.source == first.source
        and _is_published_at(one.claim, AT_S)
    }
    return tuple(sorted(rates, key=lambda name: -rates[name])) if len(rates) > 1 else ()


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
    first = _first_series(claimed)
    if first is None:
        return None
    left_out, usable = [], []
    for rung in claimed:
        if rung.claim.source != first.source:  # rates of two machines have no order
            left_out.append(f"the rate of {rung.name} is from another source")
            continue
        decay = decays.get(rung.name)
        if decay is None:
            left_out.append(f"{rung.name} has no fit here")
        elif decay.wrong:
            left_out.append(f"{rung.name} {decay.wrong} here")
        else:
            usable.append((rung, decay))
    at_s = min([AT_S, *(decay.end_s - decay.begin_s for _, decay in usable)])
    noise = pooled_noise(
        [one.center for one in decay.rates(decay.begin_s + at_s)] for _, decay in usable
    )
    between = 0.0 if noise is None else normal_quantile(0.975) * noise.log_sd
    placed: list[_Placed] = []
    for rung, decay in usable:
        if not _is_published_at(rung.claim, at_s):
            left_out.append(f"{rung.name} has no published rate at {format_duration(at_s)}")
            continue
        found = decay.rate(decay.begin_s + at_s)
        if len(decay.trials) == 1:
            found = Estimate.around(found.center, math.hypot(found.half, between))
        placed.append((rung.name, _published_at(rung.claim, at_s), found))
    placed.sort(key=lambda one: -one[1])
    return _ordered(at_s, placed, left_out) if len(placed) > 1 else None


def _ordered(at_s: float, placed: Sequence[_Placed], left_out: Sequence[str]) -> OrderingFinding:
    pairs = [
        (one, other)
        for one, other in combinations(placed, 2)
        if one[1] > other[1] * NO_CHANGE  # equal published rates have no order
    ]
    # All intervals hold at 95 % together (Bonferroni).
    wider = normal_quantile(1 - 0.025 / max(len(pairs), 1)) / normal_quantile(0.975)
    same: list[tuple[str, str]] = []
    opposite: list[tuple[str, str]] = []
    undecided: list[tuple[str, str]] = []
    for (name, _, one), (other_name, _, other) in pairs:
        apart = one.center - other.center
        half = wider * math.hypot(one.half, other.half)
        where = undecided if abs(apart) <= half else same if apart > 0 else opposite
        where.append((name, other_name))
    answer = Answer.INCONCLUSIVE
    if opposite:
        answer = Answer.PARTLY if len(same) > len(opposite) else Answer.NOT_REPRODUCED
    elif same and len(same) >= len(undecided):
        answer = Answer.REPRODUCED
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
    )


def _tau(placed: Sequence[_Placed]) -> Interval:
    """Return Kendall's tau; its interval by drawing each rate from its own."""
    centers = np.array([one.center for _, _, one in placed])
    spreads = np.array([one.half for _, _, one in placed]) / normal_quantile(0.975)
    rng = np.random.default_rng(len(placed))
    drawn = centers + spreads * rng.standard_normal((_DRAWS, len(placed)))
    i, j = np.triu_indices(len(placed), k=1)
    published = np.array([one[1] for one in placed])
    signs = np.sign(published[i] - published[j])
    pairs = max(np.abs(signs).sum(), 1)
    center = float(np.sign(centers[i] - centers[j]) @ signs / pairs)
    taus = np.sign(drawn[:, i] - drawn[:, j]) @ signs / pairs
    low, high = (float(x) for x in np.quantile(taus, [0.025, 0.975]))
    return Interval(
        min(low, center), center, max(high, center), CONFIDENCE, "Kendall's tau, rates redrawn"
    )


def trend_answer(published: Direction, decay: RungDecay | None) -> Answer:
    """Answer a published trend by the one found; None: no window is long enough."""
    if decay is None:
        return Answer.UNTESTABLE
    if decay.wrong:
        return Answer.WRONG
    if decay.direction == "inconclusive":
        return Answer.INCONCLUSIVE
    return Answer.REPRODUCED if decay.direction == published else Answer.NOT_REPRODUCED


def _first_series(rungs: Sequence[Rung]) -> Claim | None:
    return next((one.claim for one in rungs if one.claim.series), None)


def _middles(claim: Claim) -> list[float]:
    ends = [0.0, *(t_s for t_s, _ in claim.series)]
    return [(before + after) / 2 for before, after in pairwise(ends)]


def _is_published_at(claim: Claim, t_s: float) -> bool:
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


def as_comparison(logs: Estimate) -> Comparison:
    """Return a change over time, as a logarithm, as a slowdown."""
    slowdown = as_ratio(Estimate(-logs.high, -logs.center, -logs.low), _RATIO_METHOD)
    bound = 1 + STEADY_WITHIN
    verdict = Verdict.INCONCLUSIVE
    if 1 / bound <= slowdown.low and slowdown.high <= bound:
        verdict = Verdict.EQUIVALENT
    elif slowdown.low > 1 or slowdown.high < 1:
        verdict = Verdict.SLOWER if slowdown.low > 1 else Verdict.FASTER
    return Comparison(verdict, slowdown, math.exp(2 * logs.half))


def _series_claim(one: Compared, treatments: Treatments) -> SeriesClaimFinding | None:
    if not one.trials.results:
        return None
    return answer_series(one.trials.rung.claim, treatments.decays.get(one.name))


SERIES_CLAIM = TreatmentAnalysis("series_claim", SeriesClaimFinding, _series_claim)
ORDERING = RunAnalysis(
    "ordering",
    OrderingFinding,
    lambda treatments: answer_ordering([x.rung for x in treatments.trials], treatments.decays),
)
