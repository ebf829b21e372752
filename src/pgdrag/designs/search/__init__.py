"""How fast, or how slow, can it go? Which configuration does that, and with how few settings?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.search.aims import aims_of
from pgdrag.designs.search.find import directions, find
from pgdrag.designs.search.findings import SearchFinding
from pgdrag.designs.search.limits import is_beyond, kept_limits
from pgdrag.designs.search.objectives import OBJECTIVES
from pgdrag.designs.search.parameters import Dimension, SearchParameters
from pgdrag.designs.search.procedure import Procedure
from pgdrag.designs.search.space import Point, Space
from pgdrag.designs.search.trials import Observed, Request
from pgdrag.english import counted
from pgdrag.errors import UsageError
from pgdrag.model import Block, Forecast, Level, Outcome, Result, Rung, RunRecord, Treatment, Trial
from pgdrag.stats.interval import bounded_exp
from pgdrag.units import format_ratio

_FAILURES = (Outcome.DID_NOT_START, Outcome.CRASHED, Outcome.STALLED, Outcome.UNTESTABLE)
# Where the baseline commits so often in a short window, what commits too little in it is hopelessly slow.
_MANY_COMMITS = 300


class Search(Design):
    """Short trials of many settings at once, a model of what each does, and a proof on fresh clusters."""

    name = "search"
    summary = "the fastest or the slowest configuration of a space, with the fewest settings"
    noun = "configuration"
    Parameters = SearchParameters
    parameters: SearchParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        for name in self.parameters.objectives:
            if name not in OBJECTIVES:
                known = ", ".join(OBJECTIVES)
                raise UsageError(f'there is no objective "{name}"', hint=f"Objectives: {known}.")
        self.objectives = [OBJECTIVES[name] for name in self.parameters.objectives]
        dimensions = self.parameters.dimensions or _named_by(rungs)
        self.space = Space(dimensions, rungs[0].treatment)
        others = rungs[1:] if self.parameters.dimensions else ()
        self._rivals = {rung.name: rung.treatment for rung in others}
        near = {name: self.space.near(one) for name, one in self._rivals.items()}
        self._is_hopeless_soon = False
        aims = aims_of(self.parameters.objectives)
        self.procedure = Procedure(self.space, self.parameters, near, aims)
        self._names = {one.identity: name for name, one in self._rivals.items()}
        self._points = {rungs[0].treatment.identity: self.space.start}

    @property
    def levels(self) -> tuple[Level, ...]:
        """Every value of every dimension but the baseline's own."""
        return tuple(
            self.space.level(at, value)
            for at, one in enumerate(self.space.dimensions)
            for value in range(len(one.values))
            if value != self.space.start[at]
        )

    def ask_ahead(self, most: int) -> Sequence[Block]:
        """Return the blocks of the proof: no result changes what is proved."""
        request = self.procedure.request
        return [self.ask()] * min(most, request.more) if request is not None else []

    def ask(self) -> Block:
        request = self.procedure.request
        if request is None:
            return Block()
        return Block(
            self._treatments(request),
            is_brief=request.is_brief,
            is_patient=not (request.is_brief and self._is_hopeless_soon),
        )

    def tell(self, results: Sequence[Result]) -> None:
        commits = [
            one.measurement.total.committed
            for one in results
            if one.measurement is not None and self._point(one.trial) == self.space.start
        ]
        if self.parameters.goal == "maximize" and commits:
            self._is_hopeless_soon = min(commits) >= _MANY_COMMITS
        self.procedure.tell(self.observed(results))

    def forecast(self) -> Forecast:
        """Return how many trials remain: of the exploration exactly, of the rest at most."""
        least, most, whole = self.procedure.trials_left()
        asked = self.procedure.request
        if asked is not None and not asked.is_brief:
            return Forecast(whole, whole, 0, most)
        return Forecast(0, whole, least, most)

    def plan(self) -> str:
        return (
            f"Up to {self.parameters.max_trials} short trials explore {len(self.space.dimensions)} settings; the best "
            f"compete; then {counted(self.parameters.redeployments, self._unit)} prove what was found."
        )

    def so_far(self, results: Sequence[Result]) -> str:
        """Return the stage and the best gain by all blocks that are complete."""
        course = self.procedure.main.course
        if not course or not self.space.changed(course[-1].point):
            return str(self.procedure.stage)
        ratio = format_ratio(bounded_exp(course[-1].gain))
        better, _ = directions(self.objectives, self.parameters.goal)
        return f"{self.procedure.stage}, {ratio} {better} by now"

    def observed(self, results: Iterable[Result]) -> list[Observed]:
        """Return results by their points, with the value of the objective."""
        sign = 1 if self.parameters.goal == "maximize" else -1
        found = []
        for one in results:
            point = self._point(one.trial)
            is_measured = one.outcome is Outcome.MEASURED
            # The baseline's number stands, whatever it needs: all others are compared with it.
            is_refused = (
                is_measured
                and one.trial.is_brief
                and point != self.space.start
                and is_beyond(one, self.parameters.limits)
            )
            read = (
                [objective.value(one) for objective in self.objectives]
                if is_measured and not is_refused
                else []
            )
            values = [x for x in read if x is not None]
            is_known = len(values) == len(self.objectives)
            found.append(
                Observed(
                    point,
                    tuple(sign * x.log for x in values) if is_known else None,
                    tuple(x.variance for x in values),
                    one.trial.block,
                    one.trial.is_brief,
                    is_refused or one.outcome in _FAILURES,
                    one.host,
                )
            )
        return found

    def find(self, run: RunRecord) -> SearchFinding:
        self.ask()
        in_order = sorted(run.results, key=lambda result: result.trial.number)
        rest = in_order[len(self.procedure.history) :]
        if self.procedure.main.found is None:
            proof = [
                (x.trial.treatment.name, self._point(x.trial)) for x in rest if not x.trial.is_brief
            ]
            named = {name: point for name, point in proof if not isinstance(point, str)}
            self.procedure.follow(self.observed(rest), named)
        else:
            self.procedure.adopt(self.observed(rest))
        times_s = tuple(accumulate(result.took_s for result in in_order))
        found = self.procedure.main.found
        of_found = [
            one for one in in_order if not one.trial.is_brief and self._point(one.trial) == found
        ]
        limits = kept_limits(of_found, self.parameters.limits)
        return find(self.procedure, self.objectives, times_s, limits, proof_unit=self._unit)

    @property
    def _unit(self) -> str:
        """What each trial of the proof is: a server that exists is never a fresh one."""
        return "fresh cluster" if self.has_fresh_servers else "full-length trial"

    def _point(self, trial: Trial) -> Point | str:
        """Return what was tried; a rival is one in the proof alone, also where it is a point of the space itself."""
        identity = trial.treatment.identity
        if not trial.is_brief and identity in self._names:
            return self._names[identity]
        known = self._points.get(identity)
        # Otherwise an older pgdrag asked for it.
        return self.space.near(trial.treatment) if known is None else known

    def _treatments(self, request: Request) -> tuple[Treatment, ...]:
        names = self.procedure.names()
        found = []
        for point in request.points:
            if isinstance(point, str):
                found.append(self._rivals[point])
                continue
            treatment = self.space.treatment(point, names.get(point, ""))
            self._points[treatment.identity] = point
            found.append(treatment)
        return tuple(found)


def _named_by(rungs: Sequence[Rung]) -> tuple[Dimension, ...]:
    """Return the space that rungs span: each factor with the values that they name."""
    base = {level.factor: level.value for level in rungs[0].treatment.levels}
    values: dict[tuple[str, str], dict[str, None]] = {}
    for rung in rungs[1:]:
        for level in rung.added:
            of_factor = values.setdefault(level.factor, {base.get(level.factor, ""): None})
            of_factor[level.value] = None
    return tuple(
        Dimension(
            kind=kind,
            name=name,
            values=tuple(named),
            is_ordered=False,
            start=next(iter(named)),
            is_expected=True,
        )
        for (kind, name), named in values.items()
        if len(named) > 1
    )
