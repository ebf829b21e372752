"""What did a bisection find? The course that the design took, played again, and what it came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pgdrag.designs.bisect.course import BisectCourse
from pgdrag.designs.bisect.findings import BisectFinding, GuiltyChange, SetTested
from pgdrag.designs.bisect.looks import Test
from pgdrag.designs.bisect.oracle import NOISE_WEIGHT, Estimate, Verdict
from pgdrag.designs.bisect.pieces import Subset
from pgdrag.designs.bisect.rules import Ending, Goal
from pgdrag.designs.bisect.words import answer_words, doubts
from pgdrag.findings.combine import rate_of
from pgdrag.findings.design_analysis import DesignAnalysis
from pgdrag.findings.values import Interval
from pgdrag.model import Level, RunRecord, Treatment
from pgdrag.stats.distributions import normal_quantile
from pgdrag.stats.noise import Noise
from pgdrag.stats.rates import TrialRate
from pgdrag.stats.ratios import slowdown

CONFIDENCE = 0.95
NOT_TESTED = "not tested"
METHOD = "normal on logarithms: commits of the trials, and the noise between them"


class BisectAnalysis(DesignAnalysis):
    """The bisection between a study's first treatment and its last."""

    name: ClassVar[str] = "bisect"

    def find(self, run: RunRecord) -> BisectFinding:
        """Return the set found so far, and all that was tried."""
        ends = [rung.treatment for rung in run.study.rungs] or [Treatment("reference")]
        parameters = run.study.design_parameters
        goal = goal_of(parameters)
        groups = groups_of(parameters)
        course = BisectCourse(ends[0], ends[-1], groups, goal)
        course.replay(run.results)
        return _Finder(run, course, groups).finding()


def goal_of(parameters: Mapping[str, object]) -> Goal:
    """Return what a study asks for; what it leaves out is as the design's parameters have it."""
    share, limit, confirm = (
        parameters.get(name, default)
        for name, default in (("share", 0.9), ("max_trials", 40), ("confirm_trials", 2))
    )
    assert isinstance(share, float | int)
    assert isinstance(limit, int)
    assert isinstance(confirm, int)
    return Goal(float(share), limit, confirm)


def groups_of(parameters: Mapping[str, object]) -> dict[str, str]:
    """Return the groups that a study names."""
    groups = parameters.get("groups", {})
    assert isinstance(groups, Mapping)
    return {str(name): str(group) for name, group in groups.items()}


class _Finder:
    def __init__(self, run: RunRecord, course: BisectCourse, groups: Mapping[str, str]) -> None:
        self._run = run
        self._course = course
        self._groups = groups
        self._bisection = course.bisection
        self._book = course.bisection.book

    def finding(self) -> BisectFinding:
        """Return all of it, put into words."""
        bisection, book = self._bisection, self._book
        has_set = bisection.found != book.all or bisection.ending is Ending.FOUND
        guilty = self._guilty() if has_set else ()
        share = self._share() if has_set else None
        full = sum(not shot.look.is_brief for shot in book.shots)
        found = BisectFinding(
            answer="",
            warnings=(),
            ending=bisection.ending.value,
            reference=self._course.reference.name,
            target=self._course.target.name,
            changes=self._course.names(book.all),
            inert=self._course.names(bisection.inert),
            outcome=bisection.outcome.value if bisection.outcome else "",
            guilty=guilty,
            share_wanted=bisection.goal.share,
            share=share,
            share_left=_rest(share),
            slowdown=self._slowdown(book.all),
            held=self._slowdown(bisection.found) if has_set else None,
            is_censored=self._is_censored(),
            is_confirmed=bisection.ending is Ending.FOUND
            or bool(has_set and book.readings(bisection.found, is_brief=False)),
            is_minimal=bool(guilty)
            and (len(guilty) == 1 or all(one.verdict == Verdict.LOSES for one in guilty)),
            tests=tuple(self._tested(test) for test in book.tests.values()),
            trials=len(book.shots),
            full_trials=full,
            trials_most=bisection.goal.limit,
        )
        answer, warnings = answer_words(found), doubts(found)
        return BisectFinding(**{**vars(found), "answer": answer, "warnings": warnings})

    def _guilty(self) -> tuple[GuiltyChange, ...]:
        book, found = self._book, self._bisection.found
        changes = []
        for at in sorted(found):
            change, rest = self._course.changes[at], found - {at}
            tested = book.tests.get(rest)
            changes.append(
                GuiltyChange(
                    name=change.name,
                    before=_value(change.before),
                    after=_value(change.after),
                    group=self._groups.get(change.name, ""),
                    alone=self._kept(frozenset([at])),
                    without=self._kept(rest) if rest else None,
                    verdict=tested.verdict.value if tested and rest else NOT_TESTED,
                )
            )
        return tuple(changes)

    def _tested(self, test: Test) -> SetTested:
        shots = self._book.of(test.subset)
        return SetTested(
            stage=test.stage,
            changes=self._course.names(test.subset),
            places=tuple(sorted(test.subset)),
            verdict=test.verdict.value,
            trials=len(shots),
            full_trials=sum(not shot.look.is_brief for shot in shots),
            share=self._kept(test.subset),
        )

    def _share(self) -> Interval | None:
        """Return the share that the set holds: by its full trials where it has them."""
        by_full = self._bisection.share_held()
        if by_full is not None:
            return _interval(by_full)
        return self._kept(self._bisection.found)

    def _kept(self, subset: Subset) -> Interval | None:
        threshold = self._book.threshold
        if threshold is None or not threshold.whole:
            return None
        effect = self._book.effect(subset)
        if effect is None:
            return None
        share = effect.log / threshold.whole
        se = max(effect.se, abs(share) * threshold.whole_se, threshold.reference.se)
        return _interval(Estimate(share, se / threshold.whole))

    def _slowdown(self, subset: Subset) -> Interval | None:
        """Return how many times slower a set makes the reference, of full trials where both have them."""
        for is_brief in (False, True):
            before, after = (self._rates(x, is_brief) for x in (frozenset[int](), subset))
            if before and after and any(x.committed for x in (*before, *after)):
                return slowdown(before, after, noise=self._noise(), confidence=CONFIDENCE).slowdown
        return None

    def _noise(self) -> Noise | None:
        """Return what the tests took for the noise between trials, with the repeats behind it."""
        if self._book.threshold is None:
            return None
        ends = (self._book.readings(x) for x in (self._book.none, self._book.all))
        dof = NOISE_WEIGHT + sum(max(len(readings) - 1, 0) for readings in ends)
        return Noise(self._book.threshold.noise_sd, dof)

    def _rates(self, subset: Subset, is_brief: bool) -> list[TrialRate]:
        identity = self._course.treatment(subset).identity
        return [
            rate_of(result, result.measurement)
            for result in self._run.results
            if result.trial.treatment.identity == identity
            and result.trial.is_brief == is_brief
            and result.measurement is not None
            and result.measurement.elapsed_s > 0
        ]

    def _is_censored(self) -> bool:
        readings = self._book.readings(self._book.all)
        return bool(readings) and all(one.is_bound for one in readings)


def _interval(share: Estimate) -> Interval:
    half = normal_quantile((1 + CONFIDENCE) / 2) * share.se
    return Interval(share.log - half, share.log, share.log + half, CONFIDENCE, METHOD)


def _rest(share: Interval | None) -> Interval | None:
    if share is None:
        return None
    return Interval(1 - share.high, 1 - share.center, 1 - share.low, share.confidence, share.method)


def _value(level: Level | None) -> str | None:
    return None if level is None else level.shown
