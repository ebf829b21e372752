"""What did an ablation find? Labels, shares that add up to the whole, and pairs that act together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import ClassVar

from pgdrag.designs.ablate.book import AblationOptions
from pgdrag.designs.ablate.checks import Check
from pgdrag.designs.ablate.factorial import Corner, Factorial
from pgdrag.designs.ablate.findings import (
    AblateFinding,
    ChangeFinding,
    CheckFinding,
    PairFinding,
    ShareFinding,
)
from pgdrag.designs.ablate.game import Game
from pgdrag.designs.ablate.labels import Effect, effect
from pgdrag.designs.ablate.run import AblationRun
from pgdrag.designs.ablate.search import Screened
from pgdrag.designs.ablate.shapley import Share, Shares
from pgdrag.designs.ablate.words import answer, pair_sentence, shares_method, warnings
from pgdrag.findings.design_analysis import DesignAnalysis
from pgdrag.findings.values import Interval
from pgdrag.model import RunRecord

_CONFIDENCE = 0.95
_MASKED = " Neither look shows that: other changes stand in for it; a check brought it to light."
_LOG_MAX = 700.0  # exp() of more is not a float


class AblateAnalysis(DesignAnalysis):
    """Replays the run, and puts what the search then knows into findings."""

    name: ClassVar[str] = "ablate"

    def find(self, run: RunRecord) -> AblateFinding:
        """Return what is known by now; changes without a trial are undecided."""
        replayed = AblationRun.replayed(run, options_of(run.study.design_parameters))
        return _Finder(replayed).find()


def options_of(parameters: Mapping[str, object]) -> AblationOptions:
    """Return the options that a study's design parameters stand for; the design has checked them."""
    known = {field.name for field in fields(AblationOptions)}
    return AblationOptions(**{key: value for key, value in parameters.items() if key in known})  # type: ignore[arg-type]


class _Finder:
    """Puts one replayed run into findings."""

    def __init__(self, run: AblationRun) -> None:
        self._run = run
        self._ablation = run.ablation
        self._game: Game | None = run.ablation.game
        self._shares: Shares | None = self._game.shares() if self._game else None

    def find(self) -> AblateFinding:
        """Return all of it, its answer in words last."""
        search, book, game = self._ablation.search, self._ablation.book, self._game
        detectable = [_finite_exp(log) for log in search.detectable()]
        found = AblateFinding(
            answer="",
            warnings=(),
            reference=self._run.reference.name,
            target=self._run.target.name,
            stage=self._ablation.stage,
            whole=self._whole(),
            is_bounded=self._shares is not None and self._shares.is_bounded,
            changes=self._changes(),
            others=self._others(),
            others_count=len(game.players[-1]) if game is not None and game.has_others else 0,
            left_out=tuple(self._name(change) for change in sorted(search.fatal)),
            merged=tuple(self._name(change) for change in game.merged) if game else (),
            pairs=self._pairs(),
            checks=tuple(_check(one) for one in search.inquest.checks) if search.inquest else (),
            detectable_alone=detectable[0],
            detectable_company=detectable[1],
            method=shares_method(self._shares),
            brief_trials=book.told_brief,
            full_trials=book.told - book.told_brief,
            max_trials=book.limit,
        )
        return replace(
            found,
            answer=answer(found, self._ablation),
            warnings=warnings(found, self._ablation),
        )

    def _name(self, change: int) -> str:
        return self._run.changes[change].name

    def _whole(self) -> Interval | None:
        book, search = self._ablation.book, self._ablation.search
        both = [(book.full, "trials"), (book.brief, "short trials")]
        for values, noun in both:
            ends = values.value(frozenset()), values.value(search.whole)
            found = effect(*ends, values.noise)
            if found is not None and ends[0] is not None and ends[1] is not None:
                count = ends[0].trials + ends[1].trials
                return _effect_interval(found, f"t interval, {count} {noun} of both ends")
        return None

    def _changes(self) -> tuple[ChangeFinding, ...]:
        screened = self._ablation.search.screened()
        found = [self._change(change, one) for change, one in screened.items()]
        return tuple(sorted(found, key=_largest_first))

    def _change(self, change: int, screened: Screened) -> ChangeFinding:
        what, label = self._run.changes[change], screened.label
        return ChangeFinding(
            name=what.name,
            before=what.before.value if what.before else None,
            after=what.after.value if what.after else None,
            label=label,
            meaning=label.meaning + (_MASKED if screened.is_hidden else ""),
            is_hidden=screened.is_hidden,
            is_sufficient=label.is_sufficient,
            is_necessary=label.is_necessary,
            alone=_effect_interval(screened.alone, "reference with it against reference"),
            company=_effect_interval(screened.company, "target against target without it"),
            share=self._share_of(change),
            is_survivor=change in self._ablation.search.survivors,
        )

    def _share_of(self, change: int) -> ShareFinding | None:
        if self._game is None or self._shares is None:
            return None
        alone = frozenset({change})
        players = list(self._game.players)
        is_named = change in self._ablation.search.survivors and alone in players
        return self._share(players.index(alone)) if is_named else None

    def _others(self) -> ShareFinding | None:
        if self._game is None or self._shares is None or not self._game.has_others:
            return None
        return self._share(len(self._game.players) - 1)

    def _share(self, player: int) -> ShareFinding:
        assert self._shares is not None, player
        share, whole = self._shares.players[player], self._shares.whole
        slowdown = _share_interval(share, shares_method(self._shares))
        if whole.low <= 0 <= whole.high:
            return ShareFinding(slowdown, None, None, None)
        ends = sorted((share.low / whole.center, share.high / whole.center))
        return ShareFinding(slowdown, share.center / whole.center, ends[0], ends[1])

    def _pairs(self) -> tuple[PairFinding, ...]:
        if self._game is None:
            return ()
        return tuple(self._pair(pair, found) for pair, found in self._game.factorials())

    def _pair(self, pair: tuple[int, int], found: Factorial) -> PairFinding:
        names = (self._name(pair[0]), self._name(pair[1]))
        first, second, both, interaction = (
            _corner_interval(one)
            for one in (found.first, found.second, found.both, found.interaction)
        )
        alone = (first, second)
        pair_found = PairFinding(names, found.together, alone, both, interaction, found.is_bounded)
        return replace(pair_found, sentence=pair_sentence(pair_found))


def _largest_first(found: ChangeFinding) -> tuple[float, bool]:
    if found.share is None:
        return (0.0, not found.is_survivor)
    return (-abs(math.log(found.share.slowdown.center)) - 1, False)


def _check(check: Check) -> CheckFinding:
    question = (
        "all other changes together against the reference"
        if check.is_alone
        else "the target against the survivors alone"
    )
    return CheckFinding(question, _effect_interval(check.found, question), check.is_passed)


def _effect_interval(found: Effect | None, method: str) -> Interval | None:
    if found is None:
        return None
    low = 0.0 if math.isinf(found.low) else _exp(found.low)
    high = math.inf if math.isinf(found.high) else _exp(found.high)
    center = _exp(found.center)
    if math.isinf(found.se):
        center = math.inf if math.isinf(found.high) else 0.0
    return Interval(low, center, high, _CONFIDENCE, method)


def _share_interval(share: Share, method: str) -> Interval:
    if math.isinf(share.low):  # of a single draw
        return Interval(0.0, _exp(share.center), math.inf, _CONFIDENCE, method)
    return Interval(_exp(share.low), _exp(share.center), _exp(share.high), _CONFIDENCE, method)


def _corner_interval(corner: Corner) -> Interval:
    low, center, high = (_exp(log) for log in (corner.low, corner.center, corner.high))
    return Interval(low, center, high, _CONFIDENCE, "t interval, two-by-two factorial")


def _finite_exp(log: float) -> float:
    return log if math.isinf(log) else _exp(log)


def _exp(log: float) -> float:
    return math.exp(min(max(log, -_LOG_MAX), _LOG_MAX))
