"""Which mechanisms made each step slower or faster, and how much of the added time is each one's?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from pgdrag.english import in_sentence
from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.mechanisms.catalogue import CATALOGUE, Direction, Sign
from pgdrag.findings.mechanisms.ledger import Part, added, pooled
from pgdrag.findings.mechanisms.signs import UNSEEN, Test, Trials, adjusted, observed
from pgdrag.findings.movement import moved
from pgdrag.findings.values import FALSE_DISCOVERIES, Comparison, Verdict
from pgdrag.findings.wording import value_words

NAMED_SHARE = 0.05  # of the added time: who accounts for less is not named
_UNEXPLAINED = {
    None: "there is no step to explain",
    Verdict.INCONCLUSIVE: "the step is not significant",
    Verdict.EQUIVALENT: "the step changed nothing",
}


@dataclass(frozen=True)
class SignFinding:
    """Whether an observation moved as a mechanism says.

    Attributes:
        observation: its name.
        wanted: "up" or "down"; "is": it need not move, but be within bounds on the slower side.
        p: probability of such a movement or a larger one by chance alone; None: unknown.
        has_moved: by 10 % or more the wanted way; or is within the bounds.
        sentence: "buffer hit ratio fell from 99.9 % to 70.5 %"; where it was not tested, why.
    """

    observation: str
    wanted: Direction
    p: float | None
    has_moved: bool
    sentence: str


@dataclass(frozen=True)
class MechanismFinding:
    """What became of one mechanism on one rung.

    Attributes:
        name, summary: as in the catalogue.
        signs: all that it must move.
        q: rate of false discoveries if this mechanism is believed in, and all that are as sure; None
            where its signs could not be tested.
        is_shown: all of its signs moved, and that is no chance.
        share: part of the added (or saved) time that it accounts for; None where it is not shown, or
            where nobody watched where time went.
        share_low, share_high: the lowest and the highest by any pair of trials alone, and by all of them; None
            where there is only one pair.
        added_s: seconds of all sessions per transaction that are that share.
        places: where they were spent, the most first: "in reads of blocks".
    """

    name: str
    summary: str
    signs: tuple[SignFinding, ...]
    q: float | None
    is_shown: bool
    share: float | None = None
    share_low: float | None = None
    share_high: float | None = None
    added_s: float | None = None
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class MechanismsFinding:
    """Which mechanisms a step's slowdown (or speedup) is made of.

    Attributes:
        found: those shown first, by the share of time that they account for; then the others.
        is_gain: the step made the server faster: each mechanism is one that fell away, or weighs less.
        added_s: seconds of all sessions that the step added to (or took from) each transaction; None
            where that was not watched.
        unexplained: part of it that no mechanism shown accounts for; None as for `added_s`.
        why_none: why none is named, or "".
        reference: the rung that it was compared with: the one before, or, where the step from that may be
            noise and the whole way from the baseline is not, the baseline.
    """

    found: tuple[MechanismFinding, ...] = ()
    is_gain: bool = False
    added_s: float | None = None
    unexplained: float | None = None
    why_none: str = ""
    reference: str = ""

    @property
    def named(self) -> tuple[MechanismFinding, ...]:
        """Those that are shown and account for a part worth a word."""
        return tuple(
            one for one in self.found if one.is_shown and (one.share or 0.0) >= NAMED_SHARE
        )


def _mechanisms(one: Compared, treatments: Treatments) -> MechanismsFinding:
    """Explain the last step; where only the whole way from the baseline is significant, that."""
    trials = observed(treatments)
    step, whole = one.to_previous, one.to_baseline
    is_noise = step is not None and step.verdict is Verdict.INCONCLUSIVE
    if is_noise and whole is not None and whole.verdict is not Verdict.INCONCLUSIVE:
        return _of_step(trials, one.baseline.rung.name, one.name, whole)
    return _of_step(trials, one.reference.rung.name, one.name, step)


MECHANISMS = TreatmentAnalysis("mechanisms", MechanismsFinding, _mechanisms)


@dataclass(frozen=True)
class _Step:
    """From one rung to another, one of which is the faster one."""

    trials: Trials
    before: str
    after: str
    fast: str
    slow: str

    def test(self, sign: Sign) -> Test:
        """Test whether the slower rung has more (or less) of it, as the sign says."""
        return self.trials.test(sign, self.fast, self.slow)


def _of_step(
    trials: Trials, before: str, after: str, comparison: Comparison | None
) -> MechanismsFinding:
    """Return the mechanisms of a significant step; a speedup is read backwards, as what the slower side has more of."""
    verdict = None if comparison is None else comparison.verdict
    if verdict in _UNEXPLAINED:
        return MechanismsFinding(why_none=_UNEXPLAINED[verdict], reference=before)
    is_gain = verdict is Verdict.FASTER
    step = _Step(trials, before, after, *((after, before) if is_gain else (before, after)))
    judged = _judged(step)
    fast, slow = trials.ledgers(step.fast), trials.ledgers(step.slow)
    whole = added(pooled(fast), pooled(slow)) if fast and slow else ()
    added_s = max(_sum_s(whole), 0.0) if fast and slow else None
    unexplained = None
    if added_s:
        pairs = [parts for a, b in product(fast, slow) if (parts := added(a, b))]
        judged = _with_shares(step, judged, whole, pairs)
        unexplained = 1 - sum(one.share or 0.0 for one in judged)
    ranked = sorted(
        judged,
        key=lambda one: (not one.is_shown, -(one.share or 0.0), 1.0 if one.q is None else one.q),
    )
    found = MechanismsFinding(tuple(ranked), is_gain, added_s, unexplained, reference=before)
    return found if found.named else replace(found, why_none=_why_none(found, trials))


def _judged(step: _Step) -> list[MechanismFinding]:
    """Return each mechanism with its signs tested; the error rate holds over all mechanisms together."""
    tests = {one.name: [step.test(sign) for sign in one.signs] for one in CATALOGUE}
    # All signs of a mechanism must move, so that the weakest of them is what counts.
    weakest = {}
    for name, of in tests.items():
        chances = [test.p for test in of if test.p is not None]
        if len(chances) == len(of):
            weakest[name] = max(chances)
    rates = adjusted(weakest)
    found = []
    for one in CATALOGUE:
        q, of = rates.get(one.name), tests[one.name]
        is_shown = all(test.has_moved for test in of) and q is not None and q <= FALSE_DISCOVERIES
        signs = tuple(
            _sign_finding(step, sign, test) for sign, test in zip(one.signs, of, strict=True)
        )
        found.append(MechanismFinding(one.name, one.summary, signs, q, is_shown))
    return found


def _sign_finding(step: _Step, sign: Sign, test: Test) -> SignFinding:
    name = sign.observation
    rungs = (step.slow,) if sign.direction == "is" else (step.before, step.after)
    seen = {rung: step.trials.observation(rung, name) for rung in rungs}
    found = [one for one in seen.values() if one is not None]
    if test is UNSEEN or len(found) < len(rungs):
        rung = next((rung for rung, one in seen.items() if one is None), rungs[-1])
        why = f"{name.replace('_', ' ')}: {step.trials.missing(rung, name)}"
        return SignFinding(name, sign.direction, None, False, why)
    if len(found) > 1:
        words = moved(found[0], found[-1]).sentence
    else:
        words = f"{in_sentence(found[0].label)}: {value_words(found[0], found[0].value or 0.0)}"
    return SignFinding(name, sign.direction, test.p, test.has_moved, words)


def _with_shares(
    step: _Step,
    judged: Sequence[MechanismFinding],
    whole: Sequence[Part],
    pairs: Sequence[Sequence[Part]],
) -> list[MechanismFinding]:
    """Add to each mechanism that is shown the part of the added time that it accounts for.

    Args:
        whole: what was added, over all trials together.
        pairs: the same from each trial of the one rung to each of the other.
    """
    shown = {one.name for one in judged if one.is_shown}
    claims = [
        (one.name, claim.rank, step.test(one.signs[0]).distance, (claim.component, claim.factor))
        for one in CATALOGUE
        if one.name in shown
        for claim in one.claims
        if claim.given is None or _is_sure(step.test(claim.given))
    ]

    def charged(parts: Sequence[Part]) -> Mapping[str, list[Part]]:
        found = defaultdict(list)
        for part in parts:
            mine = [x for x in claims if x[-1] == (part.component, part.factor)]
            lowest = min((rank for _, rank, _, _ in mine), default=0)
            weights = {name: weight for name, rank, weight, _ in mine if rank == lowest}
            for name, weight in weights.items():
                share = weight / sum(weights.values())
                found[name].append(replace(part, added_s=part.added_s * share))
        return found

    of_whole = charged(whole)
    of_pairs = [(_sum_s(pair), charged(pair)) for pair in pairs]
    found = list(judged)
    for at, one in enumerate(judged):
        if one.is_shown:
            mine = of_whole[one.name]
            share = _sum_s(mine) / _sum_s(whole)
            shares = [_sum_s(of[one.name]) / all_s for all_s, of in of_pairs]
            found[at] = replace(
                one,
                share=share,
                # What a pair added is all the more uncertain the less it is: no pair need have the share of all.
                share_low=min(*shares, share) if len(shares) > 1 else None,
                share_high=max(*shares, share) if len(shares) > 1 else None,
                added_s=_sum_s(mine),
                places=_places(mine),
            )
    return found


def _is_sure(test: Test) -> bool:
    return test.has_moved and test.p is not None and test.p <= FALSE_DISCOVERIES


def _sum_s(parts: Iterable[Part]) -> float:
    return sum(part.added_s for part in parts)


def _places(parts: Sequence[Part]) -> tuple[str, ...]:
    by_place: dict[str, float] = defaultdict(float)
    for part in parts:
        by_place[part.place] += part.added_s
    return tuple(sorted(by_place, key=lambda place: -by_place[place]))


def _why_none(found: MechanismsFinding, trials: Trials) -> str:
    if not trials.are_repeated:
        return "without repeated trials, chance cannot be ruled out; run 3 or more replicates"
    if all(one.q is None for one in found.found):
        return "its counters were not observed"
    if not any(one.is_shown for one in found.found):
        return "no known mechanism shows all of its signs"
    if found.added_s is None:
        return "the sessions' time was not observed"
    if not found.added_s:
        return "sessions spent no more time on a transaction"
    return "those with all of their signs account for little of the added time"
