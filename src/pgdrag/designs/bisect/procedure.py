"""How does a bisection go, from the two ends to a confirmed set?

A generator of the trials wanted next that reads their results from a `History`: the same results lead to
the same trials, so a design can be resumed, and its analysis sees what the design saw. It knows sets of
numbered changes, not treatments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pgdrag.designs import DesignParameters
from pgdrag.designs._subsets import Changes, Observed, Request
from pgdrag.designs.bisect.ddmin import smallest_set
from pgdrag.designs.bisect.groups import units
from pgdrag.designs.bisect.history import History, Steps
from pgdrag.designs.bisect.search import FEW_COMMITS, Search
from pgdrag.designs.bisect.sequential_test import (
    LogValue,
    SetVerdict,
    Threshold,
    estimate,
    noise_between,
)
from pgdrag.model import Outcome

REFERENCE_TRIALS, TARGET_TRIALS = 2, 3
SLOW_TARGET_TRIALS = 3  # full ones, where short ones commit next to nothing
OUTCOME_TRIALS = 2  # of a set before an outcome such as "did not start" is believed
DIFFERS = 3.0  # standard errors by which reference and target must differ
AIM = (
    -0.3
)  # of what may be lost, how much the search aims beyond the goal: sums of pieces are noisy
TRIALS_BETWEEN_ENDS = 10
SEVERAL = 4  # sets in a block, from which on the reference runs among them
DRIFT_MATTERS = (
    0.02  # noise between trials, relative to the whole, from which drift can decide a test
)
SURE = 1.0  # standard errors around the goal within which more full trials are run, if any are left
BACKED = (
    1.645  # standard errors by which the share may miss the goal, if all that is left out is small
)
SMALL = 0.1  # of what may be lost: a member that carries less may be left out of a slow set
BROKEN = (Outcome.DID_NOT_START, Outcome.CRASHED)


class Ending(StrEnum):
    """The state of a bisection, or how it ended."""

    UNDER_WAY = "under way"
    FOUND = "found"
    OUT_OF_TRIALS = "out of trials"
    NO_REFERENCE = "the reference has no number"
    NO_TARGET = "the target has no number"
    NO_DIFFERENCE = "no difference"


class BisectParameters(DesignParameters):
    """Parameters of a bisection."""

    share: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.9, description="The set must keep this share of the log slowdown"
    )
    max_trials: Annotated[int, Field(ge=12, le=1000)] = Field(
        default=40, description="Run at most this many trials, those of the confirmation included"
    )
    confirm_trials: Annotated[int, Field(ge=1, le=20)] = Field(
        default=2, description="Full trials of the set at the end"
    )
    groups: dict[str, str] = Field(
        default_factory=dict,
        description="By name of a setting, the group that is tried as a whole first; "
        '"A / B" is a group within A',
    )


class Procedure:
    """A bisection of changes.

    Args:
        names: of the changes; a set of changes holds places in it.
        goal: the design's parameters.

    Attributes:
        request: the trials to run next; None: it is over.
        inert: changes that read the same at both ends; left out after the first results.
        found: the set that the search has come to.
        outcome: what is bisected where the target has no throughput; None: its throughput is.
    """

    def __init__(self, names: Sequence[str], goal: BisectParameters) -> None:
        self.goal = goal
        self.inert: Changes = frozenset()
        self.history = History(len(names), goal.max_trials)
        self.found: Changes = self.history.all
        self.ending = Ending.UNDER_WAY
        self.outcome: Outcome | None = None
        self._names = names
        self._steps = self._run()
        self.request = next(self._steps, None)

    def tell(self, results: Sequence[Observed], inert: Changes = frozenset()) -> None:
        """Take the results of the trials asked for, all replicates of them."""
        assert self.request is not None, "no trial was asked for"
        self.inert |= inert
        self.history.replicates = max(1, len(results) // len(self.request.sets))
        self.history.add(results)
        self.request = next(self._steps, None)

    def _run(self) -> Steps[None]:
        history = self.history
        if not self._names:
            self.ending = Ending.NO_DIFFERENCE
            return
        yield Request((history.none,) * REFERENCE_TRIALS + (history.all,), is_brief=True)
        if not history.readings(history.none):
            self.ending = Ending.NO_REFERENCE
            return
        if not history.readings(history.all):
            yield Request((history.all,) * (OUTCOME_TRIALS - 1), is_brief=True)
        changes = {at: name for at, name in enumerate(self._names) if at not in self.inert}
        self._units = units(changes, self.goal.groups)
        if history.readings(history.all):
            yield from self._bisect_throughput()
        else:
            yield from self._bisect_outcome()

    # --- an outcome such as "did not start" ----------------------------------------------------

    def _bisect_outcome(self) -> Steps[None]:
        history = self.history
        outcomes = {one.outcome for one in history.of(history.all)}
        if len(outcomes) > 1 or not outcomes <= {*BROKEN}:
            self.ending = Ending.NO_TARGET
            return
        (self.outcome,) = outcomes
        groups = [part for node in self._units for part in node.parts or (node,)]
        search = smallest_set([node.members for node in groups])
        subset = next(search, None)
        while subset is not None:
            verdict = yield from self._test_outcome(subset)
            if verdict is SetVerdict.KEEPS:
                self.found = subset
            if history.left <= 0:
                self.ending = Ending.OUT_OF_TRIALS
                return
            try:
                subset = search.send(verdict)
            except StopIteration as done:
                self.found, subset = done.value, None
        yield from self._repeat_outcome()

    def _test_outcome(self, subset: Changes) -> Steps[SetVerdict]:
        history = self.history
        if history.all - self.inert <= subset:
            return SetVerdict.KEEPS  # it is the target
        history.stage = "parts"
        if not history.of(subset):
            yield Request((subset,), is_brief=True)
        return self._outcome_verdict(subset)

    def _repeat_outcome(self) -> Steps[None]:
        """Repeat the set that was found: one trial may be chance."""
        history = self.history
        history.stage = "confirm"
        missing = OUTCOME_TRIALS - len(history.of(self.found))
        if missing > 0:
            yield Request((self.found,) * min(missing, max(history.left, 1)), is_brief=True)
        is_same = self._outcome_verdict(self.found) is SetVerdict.KEEPS
        self.ending = Ending.FOUND if is_same else Ending.OUT_OF_TRIALS

    def _outcome_verdict(self, subset: Changes) -> SetVerdict:
        """A trial with a number loses the outcome; another outcome than the target's says nothing."""
        results = self.history.of(subset)
        if any(one.reading is not None for one in results):
            verdict = SetVerdict.LOSES
        elif results and all(one.outcome is self.outcome for one in results):
            verdict = SetVerdict.KEEPS
        else:
            verdict = SetVerdict.UNRESOLVED
        self.history.tests[subset].verdict = verdict
        return verdict

    # --- throughput ----------------------------------------------------------------------------

    def _bisect_throughput(self) -> Steps[None]:
        history, goal = self.history, self.goal
        history.has_slow_target = history.commits(history.all) < FEW_COMMITS
        more = SLOW_TARGET_TRIALS if history.has_slow_target else TARGET_TRIALS - 1
        yield Request((history.all,) * more, is_brief=not history.has_slow_target)
        self._set_threshold()
        if history.threshold.whole <= DIFFERS * history.threshold.whole_se:
            self.ending = Ending.NO_DIFFERENCE
            return
        history.reserved = goal.confirm_trials + 1  # of the set, and of the reference
        search = Search(history, self._units, goal.share + AIM * (1 - goal.share))
        yield from self._following_drift(search.run())
        self.found = search.candidate or history.all
        yield from self._leave_out_one_by_one(search)
        history.reserved = 0
        yield from self._confirm(search)

    def _following_drift(self, steps: Steps[None]) -> Steps[None]:
        """Run the reference again in every block of several sets, and now and then; the target where it matters.

        All effects are differences from the reference: a machine that became slower meanwhile would
        make each of them larger.
        """
        history, count = self.history, 0
        for request in steps:
            threshold, asked = history.threshold, len(request.sets)
            is_small = threshold.noise_sd > DRIFT_MATTERS * threshold.whole
            is_due = count >= TRIALS_BETWEEN_ENDS
            ends: tuple[Changes, ...] = ()
            if request.is_brief and (is_due or asked >= SEVERAL):
                ends = (history.none, *([history.all] if is_due and is_small else []))
            if history.left < asked + len(ends):
                ends = ()
            yield replace(request, sets=request.sets + ends)
            count = 0 if ends else count + asked
            if ends:
                self._set_threshold()

    def _set_threshold(self) -> None:
        """Estimate the threshold from all trials of both ends so far."""
        history = self.history
        ends = [history.judged(history.none), history.judged(history.all)]
        noise_sd = noise_between(ends).log_sd
        reference, target = (estimate(readings, noise_sd) for readings in ends)
        history.known_threshold = Threshold(reference, target, noise_sd, self.goal.share)

    def _leave_out_one_by_one(self, search: Search) -> Steps[None]:
        """Test the set without each member, the smallest first; leave out one that is not needed."""
        history, gain_of = self.history, search.pieces.gain_of
        history.stage = "without one"
        small = SMALL * (1 - self.goal.share) * history.threshold.whole
        for member in sorted(self.found, key=lambda one: (gain_of(one), one)):
            smaller = self.found - {member}
            if not smaller:
                continue
            if not history.of(smaller) and history.left > 0:
                yield Request((smaller,), is_brief=True)
            # One short trial of a slow set is a weak reason to leave out what was seen to carry something.
            is_likely = not history.has_slow_target or gain_of(member) < small
            is_tested = bool(history.of(smaller))
            if is_likely and is_tested and history.verdict(smaller) is SetVerdict.KEEPS:
                self.found = smaller

    def _confirm(self, search: Search) -> Steps[None]:
        history, goal = self.history, self.goal
        while True:
            history.stage = "confirm"
            if missing := self._missing():
                yield Request(missing, is_brief=False)
            self._set_threshold()
            share = self.share_held()
            if share is None:
                self.ending = Ending.OUT_OF_TRIALS
                return
            is_backed = search.backs(self.found)
            is_near = abs(share.log - goal.share) < share.se * SURE
            if is_near and history.left >= 2 and not (is_backed and share.log >= goal.share):
                yield Request((self.found, history.all), is_brief=False)
                continue
            reach = BACKED * share.se if is_backed else 0.0
            if share.log + reach >= goal.share:
                self.ending = Ending.FOUND
                return
            before = self.found
            if history.left >= goal.confirm_trials:
                search.candidate = self.found
                history.reserved = goal.confirm_trials
                yield from search.add_next()
                history.reserved = 0
                self.found = search.candidate
            if self.found == before:
                self.ending = Ending.OUT_OF_TRIALS
                return

    def _missing(self) -> tuple[Changes, ...]:
        """Return the full trials that the confirmation lacks, as far as there are trials left."""
        history, confirm = self.history, self.goal.confirm_trials
        wanted: list[Changes] = []
        for subset, count in ((self.found, confirm), (history.none, 1), (history.all, confirm)):
            missing = count - len(history.of(subset, is_brief=False)) // history.replicates
            wanted += [subset] * max(missing, 0)
        return tuple(wanted[: max(history.left, 0)])

    def share_held(self) -> LogValue | None:
        """Return the share of the log slowdown that the set keeps by its full trials; None without them."""
        history = self.history
        ends = [
            history.readings(x, is_brief=False) for x in (history.none, self.found, history.all)
        ]
        if not all(ends) or history.known_threshold is None:
            return None
        reference, held, target = (estimate(x, history.threshold.noise_sd) for x in ends)
        whole = reference.log - target.log
        if not whole:
            return None
        share = (reference.log - held.log) / whole
        # The delta method; the reference is on both sides of the fraction.
        se = math.hypot((1 - share) * reference.se, held.se, share * target.se) / abs(whole)
        return LogValue(share, se)
