"""The laboratory's loop: ask the design, run trials, record, tell the design; read this first.

A design says which treatments it wants next. The laboratory makes trials of them (replicates in
randomised blocks, from one seed), has each run on a bench, writes what came of it to the journal
before the next begins, and tells the design. A run that was cut off goes on from the journal: the
same seed gives the same trials, and those with a valid result are not run again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Protocol

from pgdrag.duration import PREPARE, Budget, Experience
from pgdrag.errors import Interrupted, StorageError
from pgdrag.factors import Problem
from pgdrag.host.clock import CLOCK
from pgdrag.journal import Journal
from pgdrag.model import (
    Applied,
    Block,
    Level,
    Outcome,
    Result,
    RunRecord,
    Study,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.design import make_design
from pgdrag.model.events import (
    BlockPlanned,
    BudgetSpent,
    Listener,
    RunStarted,
    TrialFinished,
    TrialStarted,
    ignore,
)


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
        """Run one trial; whatever the treatment does to the server is an outcome, not an error."""
        ...

    def close(self) -> None:
        """Give up what one trial left for the next; again is fine."""
        ...


def run_experiment(
    run_id: str, bench: TrialRunner, journal: Journal, listen: Listener = ignore
) -> RunRecord:
    """Run, or continue, a run that the journal knows, and return it with all its results.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; what was measured is in the journal.
        PgdragError: something that stops all trials; what was measured is in the journal.
    """
    status = "failed"
    try:
        journal.set_status(run_id, "running")
        _run_blocks(journal.run(run_id), bench, journal, listen)
        status = "done"
    except KeyboardInterrupt:
        status = "interrupted"
        raise Interrupted(
            f"run {run_id} was interrupted",
            detail="Every finished trial is in the journal.",
            hint=f'Run "pgdrag resume {run_id}" to go on.',
        ) from None
    finally:
        journal.set_status(run_id, status)  # type: ignore[arg-type]
        bench.close()
    return journal.run(run_id)


def expand(
    block: Block, study: Study, *, seed: int, block_number: int, first_number: int
) -> list[Trial]:
    """Return the trials of one block that a design asked for.

    Each replicate is a complete block of its own in random order, so that slow drift of the machine
    cannot favour a treatment; all its trials share one seed, so that all treatments are offered the
    same transactions. Short trials spend no time on the dataset's consistency: those of the whole
    length do.
    """
    load = study.load.shortened() if block.is_brief else study.load
    if not block.is_patient:
        load = replace(load, budget_s=load.measure_s)
    trials: list[Trial] = []
    for replicate in range(1, block.times(study.replicates) + 1):
        rng = random.Random(f"{seed}/{block_number}/{replicate}")
        trial_seed = rng.getrandbits(63)
        for treatment in rng.sample(block.treatments, k=len(block.treatments)):
            trials.append(
                Trial(
                    number=first_number + len(trials),
                    block=(block_number - 1) * study.replicates + replicate,
                    replicate=replicate,
                    treatment=treatment,
                    workload=study.workload,
                    load=load,
                    seed=trial_seed,
                    is_checked=study.is_checked and not block.is_brief,
                    is_brief=block.is_brief,
                    instrument=study.instrument,
                )
            )
    return trials


def _run_blocks(run: RunRecord, bench: TrialRunner, journal: Journal, listen: Listener) -> None:
    kept = journal.valid_results(run.run_id)
    listen(RunStarted(run.run_id, run.study, len(kept)))
    design = make_design(run.study)
    untestable = _Untestable(run.study, bench, design.levels)
    budget = Budget(
        run.study.budget_s, Experience.of(journal.newest_results(run.study.workload, run.host))
    )
    clock = _Clock(bench)
    bench.prepare(run.study, listen)
    clock.prepared()
    first_number = 1
    for block_number in count(1):
        block = design.ask()
        if not block.treatments:
            return
        trials = expand(
            block,
            run.study,
            seed=run.seed,
            block_number=block_number,
            first_number=first_number,
        )
        first_number += len(trials)
        journal.plan_trials(run.run_id, trials)
        finished = sum(trial.number in kept for trial in trials)
        left = design.trials_left()
        listen(budget.time_left(run.study, left, clock.since_s))
        listen(BlockPlanned(tuple(trials), finished, left))
        results: list[Result] = []
        for trial in trials:
            result = kept.get(trial.number)
            is_new = result is None
            if result is None:
                fitted = budget.fitted(trial, clock.since_s)
                if fitted is None:
                    listen(BudgetSpent(budget.spent_s + clock.since_s, trial))
                    return
                result = _run_and_record(fitted, run, bench, journal, untestable, clock, listen)
            budget.spend(result)
            left = left.without(is_brief=trial.is_brief)
            results.append(result)
            if is_new:
                listen(budget.time_left(run.study, left, clock.since_s))
                listen(TrialFinished(result, design.so_far(results)))
        design.tell(results)


class _Clock:
    """What time passes between the ends of trials, so that their sum is what the run takes."""

    def __init__(self, bench: TrialRunner) -> None:
        self._now_s = bench.now_s
        self._ended_s = bench.now_s()
        self._prepared_s = 0.0

    @property
    def since_s(self) -> float:
        """Seconds since the trial before ended, or since the run began or went on."""
        return self._now_s() - self._ended_s

    def prepared(self) -> None:
        """Note that what all trials share is ready: the first of them counts that, too."""
        self._prepared_s = self.since_s

    def timed(self, result: Result) -> Result:
        """Return the result of a trial that has just ended with what it took."""
        took_s, self._ended_s = self.since_s, self._now_s()
        prepared_s, self._prepared_s = self._prepared_s, 0.0
        phases_s = {PREPARE: round(prepared_s, 3)} if prepared_s else {}
        return replace(result, took_s=round(took_s, 3), phases_s={**phases_s, **result.phases_s})


def _run_and_record(
    trial: Trial,
    run: RunRecord,
    bench: TrialRunner,
    journal: Journal,
    untestable: _Untestable,
    clock: _Clock,
    listen: Listener,
) -> Result:
    attempt = journal.begin_attempt(run.run_id, trial.number)
    listen(TrialStarted(trial))
    try:
        if problems := untestable.problems(trial.treatment):
            result = _untestable_result(trial, problems)
        else:
            result = untestable.without_number(bench.run(trial, listen))
    except StorageError as error:
        # No other trial would fare better; recorded, and run again when the run is resumed.
        spoilt = Result(trial, Outcome.INVALID, CLOCK.unix_s(), reason=error.message)
        journal.end_attempt(run.run_id, attempt, spoilt)
        raise
    result = clock.timed(result)
    journal.end_attempt(run.run_id, attempt, result)
    return result


class _Untestable:
    """Which treatments cannot be had here, because nothing is left of what they change.

    Args:
        chosen: the levels that the design itself tries.
    """

    def __init__(self, study: Study, bench: TrialRunner, chosen: Iterable[Level]) -> None:
        self._problems: dict[str, list[Problem]] = {}
        self._lacking: dict[Level, Problem] = {}
        self._bench, self._study = bench, study
        self._baseline = set(study.rungs[0].treatment.levels)
        self._own = set(chosen).difference(*(x.added for x in study.rungs))
        for rung in study.rungs:
            problems = bench.check(rung.treatment.levels, study.workload)
            lacking = {problem.level: problem for problem in problems}
            self._lacking |= lacking
            if all(level in lacking for level in rung.added):
                self._problems[rung.treatment.name] = [lacking[level] for level in rung.added]
        self._rungs = {rung.treatment.name for rung in study.rungs}

    def problems(self, treatment: Treatment) -> list[Problem]:
        """Return why nothing of a treatment can be applied; empty if any level can.

        Of a rung that is what it adds, of a treatment that the design made all that the baseline has not. A
        level that the design itself chose is what the trial is for: without it there is no number.
        """
        if treatment.name in self._rungs:
            return self._problems.get(treatment.name, [])
        changed = [level for level in treatment.levels if level not in self._baseline]
        if chosen := self._own.intersection(changed):
            problems = self._bench.check(treatment.levels, self._study.workload)
            if own := [problem for problem in problems if problem.level in chosen]:
                return own
        lacking = [self._lacking[level] for level in changed if level in self._lacking]
        return lacking if len(lacking) == len(changed) else []

    def without_number(self, result: Result) -> Result:
        """Return a result; untestable if a level that the design itself chose did not read back."""
        if result.measurement is None:
            return result
        missing = [x for x in result.applied if x.effective is None and x.level in self._own]
        if not missing:
            return result
        reason = (
            f"{missing[0].level.name} = {missing[0].level.shown} is not in force: {missing[0].note}"
        )
        return replace(result, outcome=Outcome.UNTESTABLE, reason=reason, measurement=None)


def _untestable_result(trial: Trial, problems: Sequence[Problem]) -> Result:
    return Result(
        trial,
        Outcome.UNTESTABLE,
        CLOCK.unix_s(),
        reason="; ".join(problem.message for problem in problems),
        applied=tuple(Applied(problem.level, None, problem.message) for problem in problems),
    )
