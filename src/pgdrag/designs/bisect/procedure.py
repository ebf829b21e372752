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
from pgdrag.designs._subsets import Changes, Observed, Request, Steps, few_that_keep
from pgdrag.designs.bisect.history import (
    History,
    LogValue,
    SetVerdict,
    Threshold,
    estimate,
    noise_between,
)
from pgdrag.designs.bisect.pieces import units
from pgdrag.designs.bisect.search import FEW_COMMITS, Search
from pgdrag.model import Outcome

_REFERENCE_TRIALS, _TARGET_TRIALS = 2, 3
_SLOW_TARGET_TRIALS = 3  # full ones, where short ones commit next to nothing
_OUTCOME_TRIALS = 2  # of a set before an outcome such as "did not start" is believed
_DIFFERS = 3.0  # standard errors by which reference and target must differ
_AIM = (
    -0.3
)  # of what may be lost, how much the search aims beyond the goal: sums of pieces are noisy
_TRIALS_BETWEEN_ENDS = 10
_SEVERAL = 4  # sets in a block, from which on the reference runs among them
_DRIFT_MATTERS = 0.02  # noise of trials, relative to the whole, from which drift can decide a test
_SURE = (
    1.0  # standard errors around the goal within which more full trials are run, if any are left
)
# Standard errors by which the share may miss the goal, if all that is left out is small.
_BACKED = 1.645
_REVERT_TRIALS = 1  # of the target without the set
_ALSO_MOST = 4  # changes of a set that does the same: more are no set, but many small effects
_SMALL = 0.1  # of what may be lost: a member that carries less may be left out of a slow set
_BROKEN = (Outcome.DID_NOT_START, Outcome.CRASHED)


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
        default=40, description="Run at most this many trials, including those of the confirmation"
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
        found: the set that the search has found.
        reverted: what was tried with the set reverted, in order: the changes that remained in the target.
        also: sets that do the same as the one found, each found where what was reverted before it was not enough.
        outcome: what is bisected where the target has no throughput; None: its throughput is.
    """

    def __init__(self, names: Sequence[str], goal: BisectParameters) -> None:
        self.goal = goal
        self.inert: Changes = frozenset()
        self.history = History(len(names), goal.max_trials)
        self.found: Changes = self.history.all
        self.ending = Ending.UNDER_WAY
        self.outcome: Outcome | None = None
        self.reverted: list[Changes] = []
        self.also: list[Changes] = []
        self._names = names
        self._remaining: Changes = frozenset()
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
        yield Request((history.none,) * _REFERENCE_TRIALS + (history.all,), is_brief=True)
        if not history.readings(history.none):
            self.ending = Ending.NO_REFERENCE
            return
        if not history.readings(history.all):
            yield Request((history.all,) * (_OUTCOME_TRIALS - 1), is_brief=True)
        changes = {at: name for at, name in enumerate(self._names) if at not in self.inert}
        self._units = units(changes, self.goal.groups)
        if history.readings(history.all):
            yield from self._bisect_throughput()
        else:
            yield from self._bisect_outcome()
        history.reserved = 0
        if self.ending is Ending.FOUND:
            yield from self._revert()

    # --- an outcome such as "did not start" ----------------------------------------------------

    def _bisect_outcome(self) -> Steps[None]:
        """Find a set with the target's outcome from which no single change can be left out.

        The members are lined up, those of a group side by side. Where the tests contradict each other, no
        prefix is found: then groups are left out of the target, and members next. An unresolved set counts as
        one that loses: nothing is left out unless it was shown not to be needed.
        """
        history = self.history
        outcomes = {one.outcome for one in history.of(history.all)}
        if len(outcomes) > 1 or not outcomes <= {*_BROKEN}:
            self.ending = Ending.NO_TARGET
            return
        (self.outcome,) = outcomes
        history.stage = "parts"
        groups = [part for node in self._units for part in node.parts or (node,)]
        line = [one for node in groups for one in sorted(node.members)]
        found, is_enough = yield from few_that_keep(line, self._keeps_outcome)
        parts = [frozenset([one]) for one in line]
        if not is_enough:
            found, parts = frozenset(line), [*(node.members for node in groups), *parts]
        before = history.none
        while found != before:
            before = found
            for part in parts:
                if part < found and (yield from self._keeps_outcome(found - part)):
                    found -= part
        if history.left <= 0:
            self.ending = Ending.OUT_OF_TRIALS
            return
        self.found = found
        history.stage = "confirm"  # one trial may be chance
        missing = _OUTCOME_TRIALS - len(history.of(found))
        if missing > 0:
            yield Request((found,) * min(missing, history.left), is_brief=True)
        is_same = self._outcome_verdict(found) is SetVerdict.KEEPS
        self.ending = Ending.FOUND if is_same else Ending.OUT_OF_TRIALS

    def _keeps_outcome(self, subset: Changes) -> Steps[bool]:
        """Try a set once, as long as there are trials left."""
        history = self.history
        if history.all - self.inert <= subset:
            return True  # it is the target
        if not history.of(subset):
            if history.left <= 0:
                return False
            yield Request((subset,), is_brief=True)
        is_kept = self._outcome_verdict(subset) is SetVerdict.KEEPS
        if is_kept and self.ending is Ending.UNDER_WAY:
            self.found = subset
        return is_kept

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
        history.has_slow_target = history.brief_commits(history.all) < FEW_COMMITS
        more = _SLOW_TARGET_TRIALS if history.has_slow_target else _TARGET_TRIALS - 1
        yield Request((history.all,) * more, is_brief=not history.has_slow_target)
        self._set_threshold()
        if history.threshold.whole <= _DIFFERS * history.threshold.whole_se:
            self.ending = Ending.NO_DIFFERENCE
            return
        history.reserved = goal.confirm_trials + 1 + _REVERT_TRIALS  # of the set and the reference
        search = Search(history, self._units, goal.share + _AIM * (1 - goal.share))
        yield from self._following_drift(search.run())
        self.found = search.candidate or history.all
        yield from self._leave_out_one_by_one(search)
        history.reserved = _REVERT_TRIALS
        yield from self._confirm(search)

    def _following_drift(self, steps: Steps[None]) -> Steps[None]:
        """Run the reference again in every block of several sets, and now and then; the target where it matters.

        All effects are differences from the reference: a machine that became slower meanwhile would
        make each of them larger.
        """
        history, count = self.history, 0
        for request in steps:
            threshold, asked = history.threshold, len(request.sets)
            is_small = threshold.noise_sd > _DRIFT_MATTERS * threshold.whole
            is_due = count >= _TRIALS_BETWEEN_ENDS
            ends: tuple[Changes, ...] = ()
            if request.is_brief and (is_due or asked >= _SEVERAL):
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
        noise_sd = noise_between(ends)
        reference, target = (estimate(readings, noise_sd) for readings in ends)
        history.known_threshold = Threshold(reference, target, noise_sd, self.goal.share)

    def _leave_out_one_by_one(self, search: Search) -> Steps[None]:
        """Test the set without each member, the smallest first; leave out one that is not needed."""
        history, gain_of = self.history, search.pieces.gain_of
        history.stage = "without one"
        small = _SMALL * (1 - self.goal.share) * history.threshold.whole
        for member in sorted(self.found, key=lambda one: (gain_of(one), one)):
            smaller = self.found - {member}
            if not smaller:
                continue
            if not history.of(smaller) and history.left > 0:
                yield Request((smaller,), is_brief=True)
            # One short trial of a slow set is a weak reason to leave out what was seen to carry something.
            is_likely = not history.has_slow_target or gain_of(member) < small
            if is_likely and history.verdict(smaller) is SetVerdict.KEEPS:
                self.found = smaller

    def _confirm(self, search: Search) -> Steps[None]:
        history, goal = self.history, self.goal
        while True:
            history.stage = "confirm"
            # The full trials that the confirmation lacks, within the trials left.
            missing: list[Changes] = []
            for subset, wanted in (
                (self.found, goal.confirm_trials),
                (history.none, 1),
                (history.all, goal.confirm_trials),
            ):
                run = len(history.of(subset, is_brief=False)) // history.replicates
                missing += [subset] * (wanted - run)
            if affordable := tuple(missing[: max(history.left, 0)]):
                yield Request(affordable, is_brief=False)
            self._set_threshold()
            share = self.share_held()
            if share is None:
                self.ending = Ending.OUT_OF_TRIALS
                return
            is_backed = search.backs(self.found)
            is_near = abs(share.log - goal.share) < share.se * _SURE
            if is_near and history.left >= 2 and not (is_backed and share.log >= goal.share):
                yield Request((self.found, history.all), is_brief=False)
                continue
            reach = _BACKED * share.se if is_backed else 0.0
            if share.log + reach >= goal.share:
                self.ending = Ending.FOUND
                return
            before = self.found
            if history.left >= goal.confirm_trials:
                search.candidate = self.found
                history.reserved = goal.confirm_trials + _REVERT_TRIALS
                yield from search.add_next()
                history.reserved = _REVERT_TRIALS
                self.found = search.candidate
            if self.found == before:
                self.ending = Ending.OUT_OF_TRIALS
                return

    # --- the target without the set ------------------------------------------------------------

    def _revert(self) -> Steps[None]:
        """Try the target without the set; as long as that is not enough, find what else does the same."""
        history = self.history
        rest = history.all - self.inert - self.found
        while rest and history.left > 0:
            history.stage = "reverted"
            if not history.of(rest):
                yield Request((rest,), is_brief=not history.has_slow_target)
            self.reverted.append(rest)
            if self.is_restored(rest):
                return
            history.stage = "something else"
            self._remaining = rest
            line = sorted(rest, key=lambda one: (-self._gain(one), one))
            keeps = self._closes if self.outcome is None else self._keeps_outcome
            also, is_enough = yield from few_that_keep(line, keeps)
            if not is_enough or len(also) > _ALSO_MOST:
                return
            self.also.append(also)
            rest -= also

    def is_restored(self, rest: Changes) -> bool:
        """Tell whether the rest of the target keeps no more than the set was allowed to lose."""
        if self.outcome is not None:
            return self._outcome_verdict(rest) is not SetVerdict.KEEPS
        effect, threshold = self.history.effect(rest), self.history.threshold
        if effect is None:
            return True
        return effect.log - _BACKED * effect.se <= (1 - threshold.share) * threshold.whole

    def _closes(self, subset: Changes) -> Steps[bool]:
        """Tell whether a set comes nearer to what is left of the target than to the reference."""
        history = self.history
        if not history.of(subset):
            if history.left <= 0:
                return False
            yield Request((subset,), is_brief=not history.has_slow_target)
        effect, whole = history.effect(subset), history.effect(self._remaining)
        return effect is not None and whole is not None and effect.log > whole.log / 2

    def _gain(self, change: int) -> float:
        """Return the largest effect of a set tried with this change and without the one found."""
        history = self.history
        tried = [one for one in history.tests if change in one and not one & self.found]
        if history.known_threshold is None:
            return 0.0
        effects = (history.effect(one) for one in tried if one <= self._remaining)
        return max((one.log for one in effects if one is not None), default=0.0)

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
