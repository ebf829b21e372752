"""What did a bisection find? The design is replayed, and its history read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgdrag.designs._subsets import Changes
from pgdrag.designs.bisect.findings import NOT_TESTED, BisectFinding, GuiltyChange, SetTested
from pgdrag.designs.bisect.procedure import Ending
from pgdrag.designs.bisect.section import answer, warnings
from pgdrag.designs.bisect.sequential_test import USUAL_NOISE, LogValue, SetVerdict
from pgdrag.findings.readings import rates_of
from pgdrag.findings.values import Interval
from pgdrag.model import Level, Result, RunRecord
from pgdrag.stats.distributions import normal_quantile
from pgdrag.stats.noise import Noise
from pgdrag.stats.rates import TrialRate
from pgdrag.stats.ratios import slowdown

if TYPE_CHECKING:
    from pgdrag.designs.bisect import Bisect

CONFIDENCE = 0.95
METHOD = "normal on logarithms: commits of the trials, and the noise between them"


def finding_of(design: Bisect, run: RunRecord) -> BisectFinding:
    """Return the set found so far, and all that was tried."""
    found = _Finder(design, run.results).finding()
    return replace(found, answer=answer(found), warnings=tuple(warnings(found)))


class _Finder:
    def __init__(self, design: Bisect, results: tuple[Result, ...]) -> None:
        self._design, self._results = design, results
        self._history = design.procedure.history
        self._threshold = self._history.known_threshold

    def finding(self) -> BisectFinding:
        """Return all of it, without words."""
        design, history, procedure = self._design, self._history, self._design.procedure
        is_found = procedure.ending is Ending.FOUND
        has_set = is_found or procedure.found != history.all
        guilty = tuple(map(self._guilty, sorted(procedure.found))) if has_set else ()
        share = self._share() if has_set else None
        at_target = history.readings(history.all)
        needed = [one.verdict == SetVerdict.LOSES for one in guilty]
        return BisectFinding(
            answer="",
            warnings=(),
            ending=procedure.ending.value,
            reference=design.reference.name,
            target=design.target.name,
            changes=design.names(history.all),
            inert=design.names(procedure.inert),
            outcome=procedure.outcome.value if procedure.outcome else "",
            guilty=guilty,
            share_wanted=design.parameters.share,
            share=share,
            share_left=None if share is None else _rest(share),
            slowdown=self._slowdown(history.all),
            held=self._slowdown(procedure.found) if has_set else None,
            is_censored=bool(at_target) and all(one.is_bound for one in at_target),
            is_confirmed=is_found
            or bool(has_set and history.readings(procedure.found, is_brief=False)),
            is_minimal=bool(guilty) and (len(guilty) == 1 or all(needed)),
            tests=tuple(map(self._tested, history.tests)),
            trials=len(history.results),
            full_trials=sum(not one.is_brief for one in history.results),
            trials_most=design.parameters.max_trials,
        )

    def _guilty(self, at: int) -> GuiltyChange:
        change, rest = self._design.changes[at], self._design.procedure.found - {at}
        tested = self._history.tests.get(rest) if rest else None
        return GuiltyChange(
            name=change.name,
            before=_shown(change.before),
            after=_shown(change.after),
            group=self._design.parameters.groups.get(change.name, ""),
            alone=self._kept(frozenset([at])),
            without=self._kept(rest) if rest else None,
            verdict=tested.verdict.value if tested else NOT_TESTED,
        )

    def _tested(self, subset: Changes) -> SetTested:
        test, results = self._history.tests[subset], self._history.of(subset)
        return SetTested(
            stage=test.stage,
            changes=self._design.names(subset),
            places=tuple(sorted(subset)),
            verdict=test.verdict.value,
            trials=len(results),
            full_trials=sum(not one.is_brief for one in results),
            share=self._kept(subset),
        )

    def _share(self) -> Interval | None:
        """Return the share that the set keeps: by its full trials where it has them."""
        by_full = self._design.procedure.share_held()
        return self._kept(self._design.procedure.found) if by_full is None else _interval(by_full)

    def _kept(self, subset: Changes) -> Interval | None:
        """Return the share of the log slowdown that a set keeps, by all its trials."""
        threshold = self._threshold
        if threshold is None or not threshold.whole:
            return None
        effect = self._history.effect(subset)
        if effect is None:
            return None
        share = effect.log / threshold.whole
        se = max(effect.se, abs(share) * threshold.whole_se, threshold.reference.se)
        return _interval(LogValue(share, se / threshold.whole))

    def _slowdown(self, subset: Changes) -> Interval | None:
        """Return how many times slower than the reference a set is, by full trials where both have them."""
        for is_brief in (False, True):
            before, after = (self._rates(x, is_brief) for x in (self._history.none, subset))
            if before and after and any(x.committed for x in (*before, *after)):
                return slowdown(before, after, noise=self._noise(), confidence=CONFIDENCE).slowdown
        return None

    def _noise(self) -> Noise | None:
        """Return the noise between trials that the tests assumed, with the repeats behind it."""
        if self._threshold is None:
            return None
        ends = (self._history.readings(x) for x in (self._history.none, self._history.all))
        repeats = sum(max(len(readings) - 1, 0) for readings in ends)
        return Noise(self._threshold.noise_sd, USUAL_NOISE.dof + repeats)

    def _rates(self, subset: Changes, is_brief: bool) -> list[TrialRate]:
        identity = self._design.treatment(subset).identity
        return rates_of(
            x
            for x in self._results
            if x.trial.treatment.identity == identity and x.trial.is_brief == is_brief
        )


def _interval(share: LogValue) -> Interval:
    half = normal_quantile((1 + CONFIDENCE) / 2) * share.se
    return Interval(share.log - half, share.log, share.log + half, CONFIDENCE, METHOD)


def _rest(share: Interval) -> Interval:
    return Interval(1 - share.high, 1 - share.center, 1 - share.low, share.confidence, share.method)


def _shown(level: Level | None) -> str | None:
    return None if level is None else level.shown
