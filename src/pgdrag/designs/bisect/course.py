"""Which treatments does a bisection want, and what do their results tell it?

Between treatments and results on one side, and sets of numbered changes on the other. The design and
the analysis both stand on it: what the report says was tested is what the design had tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdrag.designs.bisect.looks import Look, Shot
from pgdrag.designs.bisect.pieces import Subset
from pgdrag.designs.bisect.rules import Bisection, Goal
from pgdrag.findings.readings import reading
from pgdrag.model import Block, Forecast, Result, Treatment
from pgdrag.model.changes import Change, changes_between, subset_treatment

_LEAST_AHEAD = 3  # trials that even the shortest way to a confirmed set still takes


class BisectCourse:
    """A bisection between two treatments.

    Args:
        groups: by name of a factor, the group that it is tried with first.
        goal: what is asked for.
    """

    def __init__(
        self, reference: Treatment, target: Treatment, groups: Mapping[str, str], goal: Goal
    ) -> None:
        self.reference = reference
        self.target = target
        self.changes: tuple[Change, ...] = changes_between(reference, target)
        self.bisection = Bisection([change.name for change in self.changes], groups, goal)

    def ask(self) -> Block:
        """Return the next block; an empty one: it is over."""
        wanted = self.bisection.wanted()
        return Block(
            tuple(self.treatment(look.subset) for look in wanted),
            is_brief=bool(wanted) and wanted[0].is_brief,
        )

    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of the block asked for last, all replicates of it."""
        wanted = self.bisection.wanted()
        assert wanted, "nothing was asked for"
        by_identity = {self.treatment(look.subset).identity: look.subset for look in wanted}
        self.bisection.book.replicates = max(1, len(results) // len(wanted))
        shots = [
            Shot(
                Look(by_identity[result.trial.treatment.identity], result.trial.is_brief),
                reading(result),
                result.outcome,
            )
            for result in results
        ]
        self.bisection.tell(shots, self._inert(results))

    def replay(self, results: Sequence[Result]) -> None:
        """Tell all whole blocks of a run, as they were told to the design."""
        rest = list(results)
        while wanted := self.bisection.wanted():
            first = rest[0].trial.block if rest else 0
            replicates = self._replicates(rest, len(wanted), first)
            size = len(wanted) * replicates
            asked = {self.treatment(look.subset).identity for look in wanted}
            told = {result.trial.treatment.identity for result in rest[:size]}
            # A block under way is not told yet, and what was not asked for is another design's.
            if len(rest) < size or not rest or told != asked:
                return
            self.tell(rest[:size])
            rest = rest[size:]

    def forecast(self) -> Forecast:
        """Return how many trials are still to come: never more than the limit allows."""
        wanted = self.bisection.wanted()
        if not wanted:
            return Forecast(0, 0)
        book, goal = self.bisection.book, self.bisection.goal
        left = max(len(wanted), (book.limit - len(book.shots)) // book.replicates)
        is_brief = wanted[0].is_brief
        # Whole sets of a slow target, and the confirmation, take full trials.
        full = min(left, max(2 * goal.confirm_trials + 4, 0 if is_brief else len(wanted)))
        brief = left - full
        if is_brief and brief < len(wanted):
            full, brief = left - len(wanted), len(wanted)
        now = len(wanted)
        least = min(_LEAST_AHEAD, full) if is_brief else max(now, 1)
        return Forecast(least, full, now if is_brief else 0, brief)

    def treatment(self, subset: Subset) -> Treatment:
        """Return the reference with some of the changes, named for people."""
        return subset_treatment(self.reference, self.target, self.changes, subset)

    def names(self, subset: Subset) -> tuple[str, ...]:
        """Return the names of the changes in a set, in their order."""
        return tuple(self.changes[at].name for at in sorted(subset))

    def _inert(self, results: Sequence[Result]) -> Subset:
        """Return the changes that read the same in the reference and in the target; known once both ran."""
        if self.bisection.book.shots:
            return frozenset()
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

    @staticmethod
    def _replicates(results: Sequence[Result], size: int, first: int) -> int:
        """Return how many blocks of the run belong to one that was asked for: those of its replicates."""
        count = 0
        for at in range(0, len(results), size):
            trial = results[at].trial
            if trial.block != first + count or trial.replicate != count + 1:
                break
            count += 1
        return max(count, 1)


def _effective(change: Change, results: Sequence[Result], others: Sequence[Result]) -> str | None:
    """Return what the factor read; where it was not set, the default that the other side saw."""
    read = [x for result in results for x in result.applied if x.level.factor == change.factor]
    if read:
        return read[0].effective
    there = [x for result in others for x in result.applied if x.level.factor == change.factor]
    return there[0].default if there else None
