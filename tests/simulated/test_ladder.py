"""The whole road without PostgreSQL: loop, journal and analysis against planted truth."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from analysis_runs import refused
from pgdrag.errors import Interrupted, StorageError, UsageError
from pgdrag.factors import Problem
from pgdrag.findings.decay.analysis import Drift
from pgdrag.findings.find import find
from pgdrag.findings.steps import LoadSteps
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Level, Outcome, Result, RunRecord, Study, Trial, WorkloadSpec
from pgdrag.model.events import Event, Listener, TrialFinished, TrialStarted
from pgdrag.model.load import LoadProfile, Step
from pgdrag.testing.simulated import (
    SimulatedKill,
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite")


def attempts(journal: Journal, run_id: str) -> list[tuple[int, int, str | None]]:
    query = "SELECT number, attempt, outcome FROM attempt WHERE run_id = ? ORDER BY 1, 2"
    with sqlite3.connect(journal.path) as db:
        return db.execute(query, (run_id,)).fetchall()


def run(journal: Journal, study: Study, truth: Truth, *, seed: int = 1) -> RunRecord:
    return run_experiment(
        begin_simulated(journal, study, seed=seed), SimulatedTrialRunner(truth, seed=7), journal
    )


def test_planted_slowdowns_are_found_rung_by_rung(journal: Journal) -> None:
    truth = Truth(slowdowns={"a": 2.0, "b": 1.0, "c": 50.0}, noise=0.01)
    found = find(run(journal, simulated_ladder("a", "b", "c", replicates=4), truth))
    to_baseline = [rung.to_baseline for rung in found.rungs[1:]]
    for comparison, planted in zip(to_baseline, (2.0, 2.0, 100.0), strict=True):
        assert comparison is not None
        assert comparison.slowdown.center == pytest.approx(planted, rel=0.05)
    step = found.rungs[2].to_previous
    assert step is not None
    assert step.slowdown.low < 1.05
    assert step.slowdown.high > 0.95


def test_drift_of_the_machine_does_not_become_an_effect(journal: Journal) -> None:
    study = simulated_ladder("a", replicates=6, baseline_repeats=2)
    found = find(run(journal, study, Truth(drift_per_hour=-0.5, noise=0.005)))
    step = found.rungs[1].to_baseline
    assert step is not None
    assert step.slowdown.low <= 1.0 <= step.slowdown.high


def test_a_run_killed_in_a_trial_resumes_to_the_identical_result(journal: Journal) -> None:
    study = simulated_ladder("a", "b", replicates=2)
    truth = Truth(slowdowns={"a": 3.0}, noise=0.05)
    uncut = run(journal, study, truth)
    run_id = begin_simulated(journal, study)
    killed = SimulatedTrialRunner(truth, seed=7, faults={4: SimulatedKill()})
    with pytest.raises(SimulatedKill):
        run_experiment(run_id, killed, journal)
    again = SimulatedTrialRunner(truth, seed=7)
    resumed = run_experiment(run_id, again, journal)
    assert killed.trials_run == [1, 2, 3]
    assert again.trials_run == [4, 5, 6]
    assert resumed.results == uncut.results
    assert [x for x in attempts(journal, run_id) if x[0] == 4] == [(4, 1, None), (4, 2, "measured")]


def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(journal: Journal) -> None:
    run_id = begin_simulated(journal, simulated_ladder("a"))
    with pytest.raises(Interrupted) as caught:
        run_experiment(
            run_id, SimulatedTrialRunner(Truth(), faults={2: KeyboardInterrupt()}), journal
        )
    assert caught.value.hint == f'Run "pgdrag resume {run_id}" to go on.'
    assert caught.value.exit_status == 130
    kept = journal.run(run_id)
    assert (kept.status, len(kept.results)) == ("interrupted", 1)


def test_a_full_disk_ends_the_run_and_its_trial_is_run_again(journal: Journal) -> None:
    run_id = begin_simulated(journal, simulated_ladder("a"))
    full = StorageError("no room")
    with pytest.raises(StorageError):
        run_experiment(run_id, SimulatedTrialRunner(Truth(), faults={1: full}), journal)
    assert journal.run(run_id).status == "failed"
    assert attempts(journal, run_id) == [(1, 1, "invalid")]
    resumed = run_experiment(run_id, SimulatedTrialRunner(Truth()), journal)
    assert [result.outcome for result in resumed.results] == [Outcome.MEASURED] * 2


class Refusing(SimulatedTrialRunner):
    """A server that refuses all transactions of one treatment with the same error."""

    def __init__(self, treatment: str, sqlstate: str) -> None:
        super().__init__(Truth())
        self.treatment, self.sqlstate = treatment, sqlstate

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Return the trial as simulated, with the error."""
        result = super().run(trial, listen)
        is_refused = trial.treatment.name == self.treatment
        return refused(result, self.sqlstate) if is_refused else result


def test_statements_that_are_wrong_end_the_run_after_the_first_trial(journal: Journal) -> None:
    run_id = begin_simulated(journal, simulated_ladder("a"))
    with pytest.raises(UsageError, match=r'relation "orders" does not exist \(SQLSTATE 42P01\)'):
        run_experiment(run_id, Refusing("R0", "42P01"), journal)
    # To go on would be no use.
    with pytest.raises(UsageError, match="the workload cannot run"):
        run_experiment(run_id, SimulatedTrialRunner(Truth()), journal)
    assert attempts(journal, run_id) == [(1, 1, "stalled")]
    assert journal.run(run_id).status == "failed"


@pytest.mark.parametrize(("treatment", "sqlstate"), [("R1", "42P01"), ("R0", "55P03")])
def test_what_a_treatment_or_another_session_refuses_ends_nothing(
    journal: Journal, treatment: str, sqlstate: str
) -> None:
    run_id = begin_simulated(journal, simulated_ladder("a"))
    ended = run_experiment(run_id, Refusing(treatment, sqlstate), journal)
    assert len(ended.results) == 2


@pytest.mark.parametrize(
    "outcome", [Outcome.DID_NOT_START, Outcome.CRASHED, Outcome.STALLED, Outcome.INVALID]
)
def test_a_rung_that_breaks_the_server_is_an_outcome_and_the_ladder_goes_on(
    journal: Journal, outcome: Outcome
) -> None:
    ended = run(journal, simulated_ladder("a", "b"), Truth(outcomes={"b": outcome}))
    assert {r.trial.treatment.name: r.outcome for r in ended.results} == {
        "R0": Outcome.MEASURED,
        "R1": Outcome.MEASURED,
        "R2": outcome,
    }
    assert find(ended).rungs[2].outcome is outcome


class NoticesLate(SimulatedTrialRunner):
    """A server that says only in a trial which settings it does not take."""

    def check(self, levels: Sequence[Level], workload: WorkloadSpec) -> list[Problem]:
        """Return nothing."""
        return []


@pytest.mark.parametrize("runner", [SimulatedTrialRunner, NoticesLate])
def test_a_rung_of_settings_that_are_lacking_is_untestable_and_the_ladder_goes_on(
    journal: Journal, runner: type[SimulatedTrialRunner]
) -> None:
    truth = Truth(slowdowns={"a": 2.0, "c": 2.0}, lacking=frozenset({"b"}))
    run_id = begin_simulated(journal, simulated_ladder("a", "b", "c"), seed=1)
    found = find(run_experiment(run_id, runner(truth, seed=7), journal))
    assert found.rungs[2].outcome is Outcome.UNTESTABLE
    last = found.rungs[3].to_baseline
    assert last is not None
    assert last.slowdown.center == pytest.approx(4.0, rel=0.05)


def test_few_commits_extend_the_window_up_to_the_budget(journal: Journal) -> None:
    truth = Truth(slowdowns={"a": 1000.0, "b": 100.0})
    ended = run(journal, simulated_ladder("a", "b", budget_s=60), truth)
    windows = {r.trial.treatment.name: r.measurement for r in ended.results}
    elapsed_s = {name: m.elapsed_s for name, m in windows.items() if m is not None}
    assert elapsed_s == {"R0": 20, "R1": 30, "R2": 60}


def test_a_ramp_of_sessions_is_found_step_by_step_and_kept_by_the_journal(
    journal: Journal,
) -> None:
    steps = tuple(Step(20.0 * at, 2 * (at + 1)) for at in range(4))
    load = LoadProfile(connections=8, warm_up_s=0, measure_s=80, budget_s=80, steps=steps)
    study = replace(simulated_ladder("a", replicates=2), load=load)
    found = find(run(journal, study, Truth(slowdowns={"a": 2.0}, noise=0.01)))
    for rung, factor in zip(found.rungs, (1, 2), strict=True):
        centers = [step.tps.center for step in rung.get(LoadSteps).steps if step.tps is not None]
        assert centers == pytest.approx([x / factor for x in (250, 500, 750, 1000)], rel=0.05)
        assert rung.get(Drift) is None


def test_every_finished_trial_is_in_the_journal_before_the_next_begins(journal: Journal) -> None:
    run_id = begin_simulated(journal, simulated_ladder("a", "b"))
    on_disk: list[int] = []

    def listen(event: Event) -> None:
        if isinstance(event, TrialStarted):
            reader = Journal(journal.path)
            on_disk.append(len(reader.results(run_id)))
            reader.close()
        elif isinstance(event, TrialFinished):
            assert event.result.trial.number in journal.results(run_id)

    run_experiment(run_id, SimulatedTrialRunner(Truth()), journal, listen)
    assert on_disk == [0, 1, 2]
