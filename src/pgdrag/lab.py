"""The laboratory's loop: ask the design, run trials, record, tell the design; read this first.

A design says which treatments it wants next. The laboratory makes trials of them (replicates in
randomised blocks, from one seed), has each run on a bench, writes what came of it to the journal
before the next begins, and tells the design. A run that was cut off goes on from the journal: the
same seed gives the same trials, and those with a valid result are not run again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import count
from typing import Protocol

from pgdrag.designs import Design, all_designs
from pgdrag.errors import Interrupted, StorageError
from pgdrag.events import (
    BlockPlanned,
    Event,
    Listener,
    RunStarted,
    TrialFinished,
    TrialStarted,
    ignore,
)
from pgdrag.factors import Problem
from pgdrag.journal import Journal
from pgdrag.plan import Applied, Level, Outcome, Result, Rung, RunRecord, Study, Treatment, Trial


class Bench(Protocol):
    """Where trials are run: on real servers (`pgdrag.trial`) or simulated (`pgdrag.testing`)."""

    def check(self, levels: Sequence[Level]) -> list[Problem]:
        """Return which levels cannot be had here, and why."""
        ...

    def prepare(self, study: Study, listen: Listener) -> None:
        """Make ready what all trials share (the dataset); again is cheap."""
        ...

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Run one trial; whatever the treatment does to the server is an outcome, not an error."""
        ...


def run_experiment(
    run_id: str, bench: Bench, journal: Journal, listen: Listener = ignore
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
    return journal.run(run_id)


def make_design(study: Study) -> Design:
    """Return the study's design, from its name and parameters."""
    kind = all_designs()[study.design]
    return kind(study.rungs, kind.Parameters.model_validate(dict(study.design_parameters)))


def expand(
    block: Sequence[Treatment], study: Study, *, seed: int, block_number: int, first_number: int
) -> list[Trial]:
    """Return the trials of one block that a design asked for.

    Each replicate is a complete block of its own in random order, so that slow drift of the machine
    cannot favour a treatment; all its trials share one seed, so that all treatments are offered the
    same transactions.
    """
    trials: list[Trial] = []
    for replicate in range(1, study.replicates + 1):
        rng = random.Random(f"{seed}/{block_number}/{replicate}")
        trial_seed = rng.getrandbits(63)
        for treatment in rng.sample(block, k=len(block)):
            trials.append(
                Trial(
                    number=first_number + len(trials),
                    block=(block_number - 1) * study.replicates + replicate,
                    replicate=replicate,
                    treatment=treatment,
                    workload=study.workload,
                    load=study.load,
                    seed=trial_seed,
                    is_checked=study.is_checked,
                )
            )
    return trials


def _run_blocks(run: RunRecord, bench: Bench, journal: Journal, listen: Listener) -> None:
    kept = journal.valid_results(run.run_id)
    listen(RunStarted(run.run_id, run.study, len(kept)))
    design = make_design(run.study)
    untestable = _untestable_rungs(run.study, bench)
    bench.prepare(run.study, listen)
    first_number = 1
    for block_number in count(1):
        block = design.ask()
        if not block:
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
        listen(BlockPlanned(tuple(trials), sum(trial.number in kept for trial in trials)))
        design.tell(
            [
                kept[trial.number]
                if trial.number in kept
                else _run_and_record(trial, run, bench, journal, untestable, listen)
                for trial in trials
            ]
        )


def _run_and_record(
    trial: Trial,
    run: RunRecord,
    bench: Bench,
    journal: Journal,
    untestable: dict[str, list[Problem]],
    listen: Listener,
) -> Result:
    attempt = journal.begin_attempt(run.run_id, trial.number)
    listen(TrialStarted(trial))
    try:
        if problems := untestable.get(trial.treatment.name):
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


def _untestable_rungs(study: Study, bench: Bench) -> dict[str, list[Problem]]:
    """Return, by name, the rungs of which nothing is left here."""
    untestable = {}
    for rung in study.rungs:
        problems = bench.check(rung.added)
        if _is_all(rung, problems):
            untestable[rung.name] = problems
    return untestable


def _is_all(rung: Rung, problems: Sequence[Problem]) -> bool:
    lacking = {problem.level for problem in problems}
    return bool(rung.added) and all(level in lacking for level in rung.added)


def _untestable_result(trial: Trial, problems: Sequence[Problem]) -> Result:
    return Result(
        trial,
        Outcome.UNTESTABLE,
        time.time(),
        reason="; ".join(problem.message for problem in problems),
        applied=tuple(Applied(problem.level, None, problem.message) for problem in problems),
    )


__all__ = ["Bench", "Event", "expand", "make_design", "run_experiment"]
