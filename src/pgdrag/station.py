"""How does one bench run the trials of a study, one after the other?"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from pgdrag.driver.choosing_threads import choose_threads, is_to_choose
from pgdrag.duration import PREPARE
from pgdrag.english import counted
from pgdrag.factors import Problem
from pgdrag.factors.treated_workload import workload_of
from pgdrag.host.clock import CLOCK
from pgdrag.model import (
    Applied,
    Instrument,
    Level,
    LoadProfile,
    Measurement,
    Outcome,
    Result,
    Study,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.design import make_design
from pgdrag.model.events import Listener, PhaseStarted, ignore
from pgdrag.model.recordings import Recordings, together
from pgdrag.model.threads import ChosenThreads


class TrialRunner(Protocol):
    """Where trials are run: on real servers (`pgdrag.trial`) or simulated (`pgdrag.testing`)."""

    def now_s(self) -> float:
        """Return the time there, in seconds since some moment; only differences mean anything."""
        ...

    def check(self, levels: Sequence[Level], workload: WorkloadSpec) -> list[Problem]:
        """Return which levels of one treatment cannot be applied here under a workload, and why."""
        ...

    def prepare(self, study: Study, listen: Listener) -> None:
        """Make ready what all trials share (the dataset); again is cheap."""
        ...

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Run one trial; anything that the treatment does to the server is an outcome, not an error."""
        ...

    def close(self) -> None:
        """Give up what one trial left for the next; again is fine."""
        ...


class Station:
    """One bench at work on a study: runs its trials one after the other, and says how long each took.

    Raises:
        PgdragError: what all trials share cannot be made ready there.
    """

    def __init__(self, study: Study, bench: TrialRunner, listen: Listener) -> None:
        self._bench, self._study = bench, study
        self._chosen: ChosenThreads | None = None
        self._probe_warnings: list[str] = []
        self._untestable = _Untestable(study, bench, make_design(study).levels)
        self._ended_s = bench.now_s()
        bench.prepare(study, listen)
        self._prepared_s = self.since_s

    @property
    def since_s(self) -> float:
        """Seconds since the trial before ended, or since the station began."""
        return self._bench.now_s() - self._ended_s

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Run one trial; the first of them counts what all trials share, too.

        Where nobody has said how many threads the load driver has, probes before the first trial choose, and its
        result records it. All trials of this station then have as many.

        Raises:
            StorageError: the disk is full or cannot be written.
        """
        if problems := self._untestable.problems(trial.treatment):
            result = _untestable_result(trial, problems)
        else:
            result = self._untestable.without_number(self._run(trial, listen))
        took_s, self._ended_s = self.since_s, self._bench.now_s()
        prepared_s, self._prepared_s = self._prepared_s, 0.0
        phases_s = {PREPARE: round(prepared_s, 3)} if prepared_s else {}
        return replace(result, took_s=round(took_s, 3), phases_s={**phases_s, **result.phases_s})

    def _run(self, trial: Trial, listen: Listener) -> Result:
        if trial.load.threads is not None:
            return self._bench.run(trial, listen)
        found = Recordings()
        if self._chosen is None and is_to_choose(self._study.load) and self._uses_load_driver:
            began_s = self._bench.now_s()
            self._chosen = choose_threads(self._study.load, partial(self._probe, trial, listen))
            self._prepared_s += self._bench.now_s() - began_s
            found = Recordings([self._chosen])
        load = replace(trial.load, threads=self._chosen.threads if self._chosen else 1)
        result = self._bench.run(replace(trial, load=load), listen)
        warnings = tuple(dict.fromkeys((*self._probe_warnings, *result.warnings)))
        self._probe_warnings.clear()
        return replace(
            result,
            trial=trial,  # as it was asked for: whoever asked compares it
            recordings=together((result.recordings, found)),
            warnings=warnings,
        )

    @property
    def _uses_load_driver(self) -> bool:
        return workload_of(self._study.workload, self._baseline).uses_load_driver

    @property
    def _baseline(self) -> Treatment:
        return self._study.rungs[0].treatment

    def _probe(self, trial: Trial, listen: Listener, load: LoadProfile) -> Measurement | None:
        """Return what the baseline does under a short load, in a trial whose result nobody keeps."""
        length_s = load.warm_up_s + load.measure_s
        listen(PhaseStarted(f"try {counted(load.threads or 1, 'driver thread')}", length_s))
        probe = replace(
            trial,
            treatment=self._baseline,
            load=load,
            is_checked=False,
            instrument=Instrument(collectors="off"),
        )
        result = self._bench.run(probe, ignore)
        self._probe_warnings.extend(
            result.warnings
        )  # of what could not be undone, which nobody else tells
        return result.measurement


class _Untestable:
    """Which treatments cannot be had here, because nothing is left of what they change.

    Args:
        chosen: the levels that the design itself tries.
    """

    def __init__(self, study: Study, bench: TrialRunner, chosen: Iterable[Level]) -> None:
        self._lacking: dict[Level, Problem] = {}
        self._of_rung: dict[str, dict[Level, Problem]] = {}
        self._bench, self._study = bench, study
        self._baseline = set(study.rungs[0].treatment.levels)
        self._added = {rung.treatment.name: rung.added for rung in study.rungs}
        self._own = set(chosen).difference(*self._added.values())
        for rung in study.rungs:
            problems = bench.check(rung.treatment.levels, study.workload)
            lacking = {problem.level: problem for problem in problems}
            self._lacking |= lacking
            self._of_rung[rung.treatment.name] = lacking

    def problems(self, treatment: Treatment) -> list[Problem]:
        """Return why nothing of a treatment can be applied; empty if any level can.

        A level that the design itself chose is the purpose of the trial: without it the trial has no number.
        """
        if self._own.intersection(self._changed(treatment)):
            problems = self._bench.check(treatment.levels, self._study.workload)
            if own := [problem for problem in problems if problem.level in self._own]:
                return own
        lacking = self._of_rung.get(treatment.name, self._lacking)
        return [lacking[level] for level in self._all_if_in(treatment, lacking)]

    def without_number(self, result: Result) -> Result:
        """Return a result; untestable if nothing of its treatment could be set, or not what the design itself chose."""
        if result.measurement is None:
            return result
        lacking = {x.level: x for x in result.applied if x.effective is None}
        own = [level for level in lacking if level in self._own]
        missing = own or self._all_if_in(result.trial.treatment, lacking)
        if not missing:
            return result
        first = missing[0]
        reason = f"{first.name} = {first.shown} is not in force: {lacking[first].note}"
        return replace(result, outcome=Outcome.UNTESTABLE, reason=reason, measurement=None)

    def _changed(self, treatment: Treatment) -> Sequence[Level]:
        """Return what a rung adds; of a treatment that the design made, all that the baseline has not."""
        if treatment.name in self._added:
            return self._added[treatment.name]
        return [level for level in treatment.levels if level not in self._baseline]

    def _all_if_in(self, treatment: Treatment, lacking: Container[Level]) -> Sequence[Level]:
        """Return all that a treatment changes if all of it is lacking, else nothing."""
        changed = self._changed(treatment)
        return changed if all(level in lacking for level in changed) else ()


def _untestable_result(trial: Trial, problems: Sequence[Problem]) -> Result:
    return Result(
        trial,
        Outcome.UNTESTABLE,
        CLOCK.unix_s(),
        reason="; ".join(problem.message for problem in problems),
        applied=tuple(Applied(problem.level, None, problem.message) for problem in problems),
    )
