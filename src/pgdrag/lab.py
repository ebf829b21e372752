"""The laboratory's loop: ask the design, run trials, record, tell the design; read this first.

A design says which treatments it wants next. The laboratory makes trials of them (replicates in
randomised blocks, from one seed), has each run on a bench, writes what came of it to the journal
before the next begins, and tells the design. A run that was cut off goes on from the journal: the
same seed gives the same trials, and those with a valid result are not run again.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from itertools import count
from typing import Protocol

from pgdrag.designs import Design, all_designs
from pgdrag.errors import Interrupted, StorageError
from pgdrag.factors import Problem
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
from pgdrag.model.events import (
    BlockPlanned,
    BudgetSpent,
    Event,
    Listener,
    RunStarted,
    TrialFinished,
    TrialStarted,
    ignore,
)


class TrialRunner(Protocol):
    """Where trials are run: on real servers (`pgdrag.trial`) or simulated (`pgdrag.testing`)."""

    def check(self, levels: Sequence[Level], workload: WorkloadSpec) -> list[Problem]:
        """Return which levels, of one treatment, cannot be had here under a workload, and why."""
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
    """Run, or go on with, a run that the journal knows, and return it with all its results.

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


def make_design(study: Study) -> Design:
    """Return the study's design, from its name and parameters."""
    return all_designs()[study.design](study.rungs, study.design_parameters)


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
    trials: list[Trial] = []
    for replicate in range(1, study.replicates + 1):
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
    untestable = _Untestable(run.study, bench)
    budget = _Budget(run.study.budget_s)
    bench.prepare(run.study, listen)
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
        listen(BlockPlanned(tuple(trials), finished, design.forecast(), run.study.replicates))
        results = []
        for trial in trials:
            if trial.number in kept:
                result = kept[trial.number]
            elif budget.allows(trial):
                result = _run_and_record(trial, run, bench, journal, untestable, listen)
            else:
                listen(BudgetSpent(budget.spent_s, trial))
                return
            budget.spend(result)
            results.append(result)
        design.tell(results)


def took_s(result: Result) -> float:
    """Return the seconds that a trial took, from restoring to removing: what a budget counts."""
    return sum(result.phases_s.values())


class _Budget:
    """What the trials of a run may take together: counted from their results, so that a resumed run agrees."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._overheads_s: list[float] = []
        self.spent_s = 0.0

    def allows(self, trial: Trial) -> bool:
        """Tell whether a trial of the usual length would end within the budget."""
        if self._limit_s is None:
            return True
        overhead_s = statistics.fmean(self._overheads_s) if self._overheads_s else 0.0
        expected_s = overhead_s + trial.load.warm_up_s + trial.load.measure_s
        return self.spent_s + expected_s <= self._limit_s

    def spend(self, result: Result) -> None:
        """Count what a trial took."""
        whole_s = took_s(result)
        window_s = result.measurement.elapsed_s if result.measurement else 0.0
        self.spent_s += whole_s
        self._overheads_s.append(max(0.0, whole_s - result.trial.load.warm_up_s - window_s))


def _run_and_record(
    trial: Trial,
    run: RunRecord,
    bench: TrialRunner,
    journal: Journal,
    untestable: _Untestable,
    listen: Listener,
) -> Result:
    attempt = journal.begin_attempt(run.run_id, trial.number)
    listen(TrialStarted(trial))
    try:
        if problems := untestable.problems(trial.treatment):
            result = _untestable_result(trial, problems)
        else:
            result = bench.run(trial, listen)
    except StorageError as error:
        # No other trial would fare better; recorded, and run again when the run is resumed.
        spoilt = Result(trial, Outcome.INVALID, time.time(), reason=error.message)
        journal.end_attempt(run.run_id, attempt, spoilt)
        raise
    journal.end_attempt(run.run_id, attempt, result)
    listen(TrialFinished(result))
    return result


class _Untestable:
    """Which treatments cannot be had here, because nothing is left of what they change."""

    def __init__(self, study: Study, bench: TrialRunner) -> None:
        self._problems: dict[str, list[Problem]] = {}
        self._lacking: dict[Level, Problem] = {}
        self._baseline = set(study.rungs[0].treatment.levels)
        for rung in study.rungs:
            problems = bench.check(rung.treatment.levels, study.workload)
            lacking = {problem.level: problem for problem in problems}
            self._lacking |= lacking
            if all(level in lacking for level in rung.added):
                self._problems[rung.treatment.name] = [lacking[level] for level in rung.added]
        self._rungs = {rung.treatment.name for rung in study.rungs}

    def problems(self, treatment: Treatment) -> list[Problem]:
        """Return why a treatment cannot be had at all; none where anything of it can.

        Of a rung that is what it adds, of a treatment that the design made all that the baseline has not.
        """
        if treatment.name in self._rungs:
            return self._problems.get(treatment.name, [])
        changed = [level for level in treatment.levels if level not in self._baseline]
        lacking = [self._lacking[level] for level in changed if level in self._lacking]
        return lacking if len(lacking) == len(changed) else []


def _untestable_result(trial: Trial, problems: Sequence[Problem]) -> Result:
    return Result(
        trial,
        Outcome.UNTESTABLE,
        time.time(),
        reason="; ".join(problem.message for problem in problems),
        applied=tuple(Applied(problem.level, None, problem.message) for problem in problems),
    )


__all__ = ["Event", "TrialRunner", "expand", "make_design", "run_experiment"]
