"""Which few of many changes are guilty? Groups first, members next, and the set confirmed at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgdrag.designs import DesignParameters
from pgdrag.designs._subsets import Changes, SubsetDesign
from pgdrag.designs.bisect.findings import (
    NOT_TESTED,
    BisectFinding,
    GuiltyChange,
    Reverted,
    SetTested,
)
from pgdrag.designs.bisect.history import USUAL_NOISE, LogValue, SetVerdict
from pgdrag.designs.bisect.procedure import BisectParameters, Ending, Procedure
from pgdrag.designs.bisect.section import answer, warnings
from pgdrag.findings.readings import rates_of
from pgdrag.findings.values import Interval
from pgdrag.model import Forecast, Result, Rung, RunRecord
from pgdrag.model.changes import Change
from pgdrag.stats.distributions import normal_quantile
from pgdrag.stats.noise import Noise
from pgdrag.stats.ratios import slowdown

_CONFIDENCE = 0.95
_METHOD = "normal on logarithms: commits of the trials, and the noise between them"
_LEAST_AHEAD = 3  # trials that even the shortest way to a confirmed set still takes


class Bisect(SubsetDesign):
    """Adaptive: what is asked for next depends on what the sets before it kept."""

    name = "bisect"
    summary = "the few changes that keep most of a slowdown: groups first, then their members"
    Parameters = BisectParameters
    parameters: BisectParameters
    procedure: Procedure

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self.procedure = Procedure([one.name for one in self.changes], self.parameters)

    def tell(self, results: Sequence[Result]) -> None:
        is_first = not self.procedure.history.results
        inert = self._inert(results) if is_first else frozenset()
        self.procedure.tell(self.observed(results), inert)

    def so_far(self, results: Sequence[Result]) -> str:
        return self.suspects_so_far(self.procedure.history.stage, self.procedure.found)

    def forecast(self) -> Forecast:
        """Return how many trials are still to come: never more than `max_trials` allows."""
        request = self.procedure.request
        if request is None:
            return Forecast(0, 0)
        history, now, is_brief = self.procedure.history, len(request.sets), request.is_brief
        left = max(now, (history.limit - len(history.results)) // history.replicates)
        # Whole sets of a slow target, and the confirmation, take full trials.
        full = min(left, max(2 * self.parameters.confirm_trials + 4, 0 if is_brief else now))
        if is_brief:
            full = min(full, left - now)
            return Forecast(min(_LEAST_AHEAD, full), full, now, left - full, most_in_all=left)
        return Forecast(now, full, 0, left - full, most_in_all=left)

    def _inert(self, results: Sequence[Result]) -> Changes:
        """Return the changes that read the same at both ends; none of them, where all do."""
        before, after = (
            [x for x in results if x.trial.treatment.identity == end.identity]
            for end in (self.reference, self.target)
        )
        same = frozenset(
            at
            for at, change in enumerate(self.changes)
            if (was := _effective(change, before, after)) is not None
            and was == _effective(change, after, before)
        )
        return same if len(same) < len(self.changes) else frozenset()

    # --- what was found ------------------------------------------------------------------------

    def find(self, run: RunRecord) -> BisectFinding:
        procedure, history = self.procedure, self.procedure.history
        is_found = procedure.ending is Ending.FOUND
        has_set = is_found or procedure.found != history.all
        guilty = tuple(map(self._guilty, sorted(procedure.found))) if has_set else ()
        share = None
        if has_set:  # by its full trials where it has them
            by_full = procedure.share_held()
            share = _interval(by_full) if by_full else self._kept(procedure.found)
        at_target = history.readings(history.all)
        is_needed = [one.verdict == SetVerdict.LOSES for one in guilty]
        found = BisectFinding(
            answer="",
            warnings=(),
            ending=procedure.ending.value,
            reference=self.reference.name,
            target=self.target.name,
            changes=self.names(history.all),
            inert=self.names(procedure.inert),
            outcome=procedure.outcome.value if procedure.outcome else "",
            guilty=guilty,
            share_wanted=self.parameters.share,
            share=share,
            share_left=share and _one_less(share),
            slowdown=self._slowdown(run, history.all),
            held=self._slowdown(run, procedure.found) if has_set else None,
            is_censored=bool(at_target) and all(one.is_bound for one in at_target),
            is_confirmed=is_found
            or bool(has_set and history.readings(procedure.found, is_brief=False)),
            reverted=tuple(self._reverted(run, rest) for rest in procedure.reverted),
            also=tuple(map(self.names, procedure.also)),
            is_minimal=bool(guilty) and (len(guilty) == 1 or all(is_needed)),
            tests=tuple(map(self._tested, history.tests)),
            trials=len(history.results),
            full_trials=sum(not one.is_brief for one in history.results),
            trials_most=self.parameters.max_trials,
        )
        return replace(found, answer=answer(found), warnings=tuple(warnings(found)))

    def _reverted(self, run: RunRecord, rest: Changes) -> Reverted:
        procedure = self.procedure
        left = self._kept(rest)
        return Reverted(
            changes=self.names(procedure.history.all - procedure.inert - rest),
            slowdown=self._slowdown(run, rest),
            restored=left and _one_less(left),
            is_enough=procedure.is_restored(rest),
        )

    def _guilty(self, at: int) -> GuiltyChange:
        change, rest = self.changes[at], self.procedure.found - {at}
        tested = self.procedure.history.tests.get(rest) if rest else None
        return GuiltyChange(
            name=change.name,
            before=change.before.shown if change.before else None,
            after=change.after.shown if change.after else None,
            group=self.parameters.groups.get(change.name, ""),
            alone=self._kept(frozenset([at])),
            without=self._kept(rest) if rest else None,
            verdict=tested.verdict.value if tested else NOT_TESTED,
        )

    def _tested(self, subset: Changes) -> SetTested:
        history = self.procedure.history
        test, results = history.tests[subset], history.of(subset)
        return SetTested(
            stage=test.stage,
            changes=self.names(subset),
            places=tuple(sorted(subset)),
            verdict=test.verdict.value,
            trials=len(results),
            full_trials=sum(not one.is_brief for one in results),
            share=self._kept(subset),
        )

    def _kept(self, subset: Changes) -> Interval | None:
        """Return the share of the log slowdown that a set keeps, by all its trials."""
        threshold = self.procedure.history.known_threshold
        if threshold is None or not threshold.whole:
            return None
        effect = self.procedure.history.effect(subset)
        if effect is None:
            return None
        share = effect.log / threshold.whole
        se = max(effect.se, abs(share) * threshold.whole_se, threshold.reference.se)
        return _interval(LogValue(share, se / threshold.whole))

    def _slowdown(self, run: RunRecord, subset: Changes) -> Interval | None:
        """Return how many times slower than the reference a set is, by full trials where both have them."""
        history, noise = self.procedure.history, None
        if history.known_threshold is not None:
            ends = (history.readings(x) for x in (history.none, history.all))
            repeats = sum(max(len(readings) - 1, 0) for readings in ends)
            noise = Noise(history.known_threshold.noise_sd, USUAL_NOISE.dof + repeats)
        for is_brief in (False, True):
            before, after = (
                rates_of(
                    x
                    for x in run.results
                    if x.trial.treatment.identity == treatment.identity
                    and x.trial.is_brief == is_brief
                )
                for treatment in (self.reference, self.treatment(subset))
            )
            if before and after and any(x.committed for x in (*before, *after)):
                return slowdown(before, after, noise=noise, confidence=_CONFIDENCE).slowdown
        return None


def _effective(change: Change, results: Sequence[Result], others: Sequence[Result]) -> str | None:
    """Return what the factor read; where it was not set, the default that the other side saw."""
    applied, there = (
        [x for result in side for x in result.applied if x.level.factor == change.factor]
        for side in (results, others)
    )
    if applied:
        return applied[0].effective
    return there[0].default if there else None


def _one_less(share: Interval) -> Interval:
    return replace(share, low=1 - share.high, center=1 - share.center, high=1 - share.low)


def _interval(share: LogValue) -> Interval:
    half = normal_quantile((1 + _CONFIDENCE) / 2) * share.se
    return Interval(share.log - half, share.log, share.log + half, _CONFIDENCE, _METHOD)
