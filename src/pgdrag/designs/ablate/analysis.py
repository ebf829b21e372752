"""What did an ablation find? Labels, shares that add up to the whole, and pairs that interact."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pgdrag.designs.ablate.findings import (
    AblateFinding,
    ChangeFinding,
    CheckFinding,
    PairFinding,
    ShareFinding,
)
from pgdrag.designs.ablate.history import REFERENCE
from pgdrag.designs.ablate.labels import Effect, effect
from pgdrag.designs.ablate.pairs import Crossed, Pair
from pgdrag.designs.ablate.screening import Screened
from pgdrag.designs.ablate.section import answer, warnings
from pgdrag.designs.ablate.shapley import Share, Shares
from pgdrag.findings.values import Interval
from pgdrag.model import RunRecord
from pgdrag.stats.estimate import bounded_exp

if TYPE_CHECKING:
    from pgdrag.designs.ablate import Ablate

_CONFIDENCE = 0.95


def finding_of(design: Ablate, run: RunRecord) -> AblateFinding:
    """Return what is known so far; changes without a trial are undecided."""
    in_order = sorted(run.results, key=lambda result: result.trial.number)
    design.note(in_order[design.procedure.history.trials :])  # of a block that is not complete
    found = _Finder(design).find()
    return replace(found, answer=answer(found), warnings=warnings(found))


class _Finder:
    """Returns the state of a procedure as a finding."""

    def __init__(self, design: Ablate) -> None:
        self._design = design
        self._procedure = design.procedure
        self._screening = design.procedure.screening
        self._long = design.procedure.long_trials
        self._shares: Shares | None = self._long.shares() if self._long else None
        self._method = _method(self._shares)

    def find(self) -> AblateFinding:
        """Return all of it but the answer and the warnings."""
        screening, history, long = self._screening, self._procedure.history, self._long
        target = screening.trials.value(screening.whole)
        end = {"reference": REFERENCE, "target": screening.whole}.get(screening.problem)
        failure = screening.trials.failure(end) if end is not None else None
        alone, with_others = screening.detectable()
        masking, shares = screening.masking, self._shares
        return AblateFinding(
            answer="",
            warnings=(),
            reference=self._design.reference.name,
            target=self._design.target.name,
            stage=self._procedure.stage,
            problem=screening.problem,
            failure=failure.value if failure is not None else "",
            whole=self._whole(),
            is_bounded=shares is not None and shares.is_bounded,
            is_target_bounded=target is not None and target.is_bound,
            changes=self._changes(),
            others=self._share(-1) if long is not None and long.has_others else None,
            others_count=len(long.players[-1]) if long is not None and long.has_others else 0,
            left_out=tuple(self._name(change) for change in sorted(screening.left_out)),
            merged=tuple(self._name(change) for change in long.merged) if long else (),
            pairs=tuple(self._pair(*one) for one in long.crossed().items()) if long else (),
            checks=tuple(
                CheckFinding(one.of_others, _if_known(one.found, "t interval"), one.is_passed)
                for one in (masking.checks if masking else ())
            ),
            is_diffuse=masking is not None and masking.is_diffuse,
            detectable_alone=_ratio(alone),
            detectable_with_others=_ratio(with_others),
            method=self._method,
            draws=shares.draws if shares else 0,
            draws_left_out=len(long.draws) - (shares.draws if shares else 0) if long else 0,
            is_precise=long is not None and long.is_precise,
            share_precision=self._procedure.parameters.share_precision,
            brief_trials=history.brief_trials,
            full_trials=history.trials - history.brief_trials,
            max_trials=history.limit,
            is_budget_spent=not history.left,
        )

    def _name(self, change: int) -> str:
        return self._design.changes[change].name

    def _whole(self) -> Interval | None:
        history = self._procedure.history
        for trials, noun in ((history.full, "trials"), (history.brief, "short trials")):
            before, after = (trials.value(end) for end in (REFERENCE, self._screening.whole))
            found = effect(before, after, trials.noise)
            if found is not None and before is not None and after is not None:
                count = before.trials + after.trials
                return _interval(found, f"t interval, {count} {noun} of both ends")
        return None

    def _changes(self) -> tuple[ChangeFinding, ...]:
        found = [self._change(*one) for one in self._screening.screened().items()]
        return tuple(sorted(found, key=_largest_first))

    def _change(self, change: int, screened: Screened) -> ChangeFinding:
        what, player = self._design.changes[change], frozenset({change})
        is_survivor = change in self._screening.survivors
        players = self._long.players if self._long else ()
        is_player = is_survivor and player in players
        return ChangeFinding(
            name=what.name,
            before=what.before.value if what.before else None,
            after=what.after.value if what.after else None,
            label=screened.label,
            alone=_if_known(screened.alone, "reference with it against reference"),
            with_others=_if_known(screened.with_others, "target against target without it"),
            share=self._share(players.index(player)) if is_player else None,
            is_survivor=is_survivor,
            is_hidden=screened.is_hidden,
        )

    def _share(self, player: int) -> ShareFinding | None:
        if self._shares is None:
            return None
        share, whole = self._shares.players[player], self._shares.whole
        slowdown = _interval(share, self._method)
        if whole.low <= 0 <= whole.high:
            return ShareFinding(slowdown, None, None, None)
        low, high = sorted((share.low / whole.center, share.high / whole.center))
        return ShareFinding(slowdown, share.center / whole.center, low, high)

    def _pair(self, pair: Pair, found: Crossed) -> PairFinding:
        of, method = found.effects, "t interval, two-by-two factorial"
        return PairFinding(
            names=(self._name(pair[0]), self._name(pair[1])),
            together=found.together,
            alone=(_interval(of.first, method), _interval(of.second, method)),
            both=_interval(of.both, method),
            interaction=_interval(of.interaction, method),
            is_bounded=found.is_bounded,
        )


def _largest_first(found: ChangeFinding) -> tuple[float, bool]:
    if found.share is None:
        return (0.0, not found.is_survivor)
    return (-abs(math.log(found.share.slowdown.center)) - 1, False)


def _method(shares: Shares | None) -> str:
    if shares is None:
        return "no shares yet"
    if shares.is_exact:
        return "Shapley share over all orders"
    return f"Shapley share over {2 * shares.draws} orders drawn with their reverses"


def _interval(found: Effect | Share, method: str) -> Interval:
    low, center, high = (_ratio(log) for log in (found.low, found.center, found.high))
    return Interval(low, center, high, _CONFIDENCE, method)


def _if_known(found: Effect | None, method: str) -> Interval | None:
    return None if found is None else _interval(found, method)


def _ratio(log: float) -> float:
    return math.exp(log) if math.isinf(log) else bounded_exp(log)
