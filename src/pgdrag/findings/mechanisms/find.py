"""Which mechanisms made one rung slower than another, and how much of the added time is each one's?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from pgdrag.english import in_sentence
from pgdrag.findings.mechanisms.catalogue import CATALOGUE, Claim, Mechanism, Sign
from pgdrag.findings.mechanisms.findings import MechanismFinding, MechanismsFinding, SignFinding
from pgdrag.findings.mechanisms.ledger import Part, added, pooled
from pgdrag.findings.mechanisms.signs import Test, adjusted
from pgdrag.findings.mechanisms.trials import Trials
from pgdrag.findings.movement import moved
from pgdrag.findings.values import FALSE_DISCOVERIES, Comparison, Verdict
from pgdrag.findings.wording import value_words
from pgdrag.model import Observation


@dataclass(frozen=True)
class Step:
    """From the faster of two rungs to the slower one, whichever came first in the study."""

    trials: Trials
    before: str
    after: str
    is_gain: bool

    @property
    def fast(self) -> str:
        """The rung with the higher throughput."""
        return self.after if self.is_gain else self.before

    @property
    def slow(self) -> str:
        """The rung with the lower throughput."""
        return self.before if self.is_gain else self.after

    def test(self, sign: Sign) -> Test | None:
        """Test whether the slower rung has more (or less) of it, as the sign says."""
        return self.trials.test(sign, self.fast, self.slow)


def find_mechanisms(
    trials: Trials, before: str, after: str, comparison: Comparison | None
) -> MechanismsFinding:
    """Return the mechanisms of the step from one rung to another, those shown first by their share.

    Only of a significant step. A speedup is read backwards: as what the slower side has more of.
    """
    if comparison is None:
        return MechanismsFinding(why_none="there is no step to explain", reference=before)
    if comparison.verdict is Verdict.INCONCLUSIVE:
        return MechanismsFinding(why_none="the step is not significant", reference=before)
    if comparison.verdict is Verdict.EQUIVALENT:
        return MechanismsFinding(why_none="the step changed nothing", reference=before)
    step = Step(trials, before, after, comparison.verdict is Verdict.FASTER)
    judged = _judged(step)
    shown = [one for one in CATALOGUE if judged[one.name].is_shown]
    found = replace(_with_shares(step, shown, judged), reference=before)
    if found.named:
        return found
    return replace(found, why_none=_why_none(found, is_repeated=trials.are_repeated))


def _judged(step: Step) -> dict[str, MechanismFinding]:
    """Return each mechanism with its signs tested; those of all mechanisms together keep the error."""
    tests = {one.name: {sign: step.test(sign) for sign in one.signs} for one in CATALOGUE}
    # All signs of a mechanism must move, so that the weakest of them is what counts.
    weakest = {
        name: max(test.p for test in of.values() if test is not None and test.p is not None)
        for name, of in tests.items()
        if all(test is not None and test.p is not None for test in of.values())
    }
    rates = adjusted(weakest)
    found = {}
    for one in CATALOGUE:
        q, of = rates.get(one.name), tests[one.name]
        has_moved = all(test is not None and test.has_moved for test in of.values())
        is_shown = has_moved and q is not None and q <= FALSE_DISCOVERIES
        signs = tuple(_sign_finding(step, sign, test) for sign, test in of.items())
        found[one.name] = MechanismFinding(one.name, one.summary, signs, q, is_shown)
    return found


def _sign_finding(step: Step, sign: Sign, test: Test | None) -> SignFinding:
    name = sign.observation
    rungs = (step.slow,) if sign.direction == "is" else (step.before, step.after)
    seen = [step.trials.observation(rung, name) for rung in rungs]
    found = [one for one in seen if one is not None]
    if test is None or len(found) < len(rungs):
        rung = next((rung for rung, one in zip(rungs, seen, strict=True) if one is None), rungs[-1])
        why = f"{name.replace('_', ' ')}: {step.trials.missing(rung, name)}"
        return SignFinding(name, sign.direction, None, False, why)
    words = moved(found[0], found[-1]).sentence if len(found) > 1 else _level_words(found[0])
    return SignFinding(name, sign.direction, test.p, test.has_moved, words)


def _level_words(seen: Observation) -> str:
    assert seen.value is not None, seen.name
    return f"{in_sentence(seen.label)}: {value_words(seen, seen.value)}"


def _with_shares(
    step: Step, shown: Sequence[Mechanism], judged: Mapping[str, MechanismFinding]
) -> MechanismsFinding:
    fast, slow = step.trials.ledgers(step.fast), step.trials.ledgers(step.slow)
    if not fast or not slow:
        return MechanismsFinding(_ranked(judged.values()), step.is_gain)
    whole = added(pooled(fast), pooled(slow))
    whole_s = _sum_s(whole)
    if whole_s <= 0:
        return MechanismsFinding(_ranked(judged.values()), step.is_gain, 0.0)
    accounts = Accounts(step, shown)
    pairs = [parts for a, b in product(fast, slow) if (parts := added(a, b))]
    by_name = dict(judged)
    for name, mine in accounts.of(whole).items():
        shares = [_sum_s(accounts.of(pair)[name]) / _sum_s(pair) for pair in pairs]
        by_name[name] = replace(
            judged[name],
            share=_sum_s(mine) / whole_s,
            share_low=min(shares) if len(shares) > 1 else None,
            share_high=max(shares) if len(shares) > 1 else None,
            added_s=_sum_s(mine),
            places=_places(mine),
        )
    explained = sum(one.share or 0.0 for one in by_name.values())
    return MechanismsFinding(_ranked(by_name.values()), step.is_gain, whole_s, 1 - explained)


class Accounts:
    """Which of the mechanisms shown is charged with which part of the added time."""

    def __init__(self, step: Step, shown: Sequence[Mechanism]) -> None:
        self._shown = tuple(one.name for one in shown)
        self._claims = [
            (one.name, claim, self._weight(step, one))
            for one in shown
            for claim in one.claims
            if claim.given is None or _is_sure(step.test(claim.given))
        ]

    def of(self, parts: Sequence[Part]) -> dict[str, list[Part]]:
        """Return the parts of the added time that each mechanism is charged with."""
        charged: dict[str, list[Part]] = {name: [] for name in self._shown}
        for part in parts:
            for name, share in self._charged(part).items():
                charged[name].append(replace(part, added_s=part.added_s * share))
        return charged

    def _charged(self, part: Part) -> dict[str, float]:
        """Return who is charged with a part, and with which share of it."""
        mine = [x for x in self._claims if _is_of(x[1], part)]
        lowest = min((claim.rank for _, claim, _ in mine), default=0)
        weights = {name: weight for name, claim, weight in mine if claim.rank == lowest}
        whole = sum(weights.values())
        return {name: weight / whole for name, weight in weights.items()}

    @staticmethod
    def _weight(step: Step, one: Mechanism) -> float:
        test = step.test(one.signs[0])
        assert test is not None, f"{one.name} is shown, so that its signs were tested"
        return test.distance


def _is_of(claim: Claim, part: Part) -> bool:
    return (claim.component, claim.factor) == (part.component, part.factor)


def _is_sure(test: Test | None) -> bool:
    return (
        test is not None and test.has_moved and test.p is not None and test.p <= FALSE_DISCOVERIES
    )


def _sum_s(parts: Iterable[Part]) -> float:
    return sum(part.added_s for part in parts)


def _places(parts: Sequence[Part]) -> tuple[str, ...]:
    by_place: dict[str, float] = {}
    for part in parts:
        by_place[part.place] = by_place.get(part.place, 0.0) + part.added_s
    return tuple(sorted(by_place, key=lambda place: -by_place[place]))


def _ranked(found: Iterable[MechanismFinding]) -> tuple[MechanismFinding, ...]:
    return tuple(
        sorted(
            found,
            key=lambda one: (
                not one.is_shown,
                -(one.share or 0.0),
                1.0 if one.q is None else one.q,
            ),
        )
    )


def _why_none(found: MechanismsFinding, *, is_repeated: bool) -> str:
    if not is_repeated:
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
