"""Which few of many changes are guilty? Groups first, members next, and the set confirmed at the end."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.designs import DesignParameters
from pgdrag.designs._subsets import Changes, Request, SubsetDesign
from pgdrag.designs.bisect.analysis import finding_of
from pgdrag.designs.bisect.findings import BisectFinding
from pgdrag.designs.bisect.procedure import BisectParameters, Procedure
from pgdrag.model import Forecast, Result, Rung, RunRecord
from pgdrag.model.changes import Change

_LEAST_AHEAD = 3  # trials that even the shortest way to a confirmed set still takes


class Bisect(SubsetDesign):
    """Adaptive: what is asked for next depends on what the sets before it kept."""

    name = "bisect"
    summary = "the few changes that keep most of a slowdown: groups first, then their members"
    Parameters = BisectParameters
    parameters: BisectParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self.procedure = Procedure([one.name for one in self.changes], self.parameters)

    @property
    def request(self) -> Request | None:
        """The sets to try next; None once one was confirmed, or where there is nothing to bisect."""
        return self.procedure.request

    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of those sets."""
        is_first = not self.procedure.history.results
        inert = self._inert(results) if is_first else frozenset()
        self.procedure.tell(self.observed(results), inert)

    def forecast(self) -> Forecast:
        """Return how many trials are still to come: never more than `max_trials` allows."""
        request = self.request
        if request is None:
            return Forecast(0, 0)
        history, now, is_brief = self.procedure.history, len(request.sets), request.is_brief
        left = max(now, (history.limit - len(history.results)) // history.replicates)
        # Whole sets of a slow target, and the confirmation, take full trials.
        full = min(left, max(2 * self.parameters.confirm_trials + 4, 0 if is_brief else now))
        if is_brief:
            full = min(full, left - now)
            return Forecast(min(_LEAST_AHEAD, full), full, now, left - full)
        return Forecast(now, full, 0, left - full)

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

    def find(self, run: RunRecord) -> BisectFinding:
        """Return the set found so far, and all that was tried."""
        return finding_of(self, run)


def _effective(change: Change, results: Sequence[Result], others: Sequence[Result]) -> str | None:
    """Return what the factor read; where it was not set, the default that the other side saw."""
    applied, there = (
        [x for result in side for x in result.applied if x.level.factor == change.factor]
        for side in (results, others)
    )
    if applied:
        return applied[0].effective
    return there[0].default if there else None
