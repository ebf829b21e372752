"""What the laboratory makes of a design's blocks: short trials, and a budget that ends a run."""

from __future__ import annotations

from dataclasses import replace

from pgdrag.agenda import expand
from pgdrag.findings.find import find
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Block, Outcome, RunRecord, Study
from pgdrag.model.events import BudgetSpent
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, begin_simulated, simulated_ladder

STUDY = simulated_ladder("a", "b", "c", replicates=2)


# Of which each takes a minute.
TRUTH = Truth(overheads_s=(35.0,))


def run(study: Study, tmp_path, events: list[object]) -> RunRecord:
    journal = Journal(tmp_path / "journal.sqlite")
    run_id = begin_simulated(journal, study)
    return run_experiment(run_id, SimulatedTrialRunner(TRUTH), journal, events.append)


def test_a_brief_block_is_run_by_a_third_of_the_load():
    block = Block(tuple(rung.treatment for rung in STUDY.rungs), is_brief=True)
    trials = expand(block, STUDY, seed=1, block_number=1, first_number=1)
    assert {trial.is_brief for trial in trials} == {True}
    (load,) = {trial.load for trial in trials}
    assert (load.warm_up_s, load.measure_s, load.budget_s) == (3.0, 6.7, 20.0)
    assert load == STUDY.load.shortened()


def test_a_brief_window_waits_as_long_as_a_whole_one_for_very_few_commits():
    assert replace(STUDY.load, min_commits=4).shortened().budget_s == STUDY.load.budget_s
    assert replace(STUDY.load, min_commits=5).shortened().budget_s < STUDY.load.budget_s


def test_a_run_ends_before_the_trial_that_would_pass_its_budget(tmp_path):
    events: list[object] = []
    record = run(replace(STUDY, budget_s=200.0), tmp_path, events)
    assert [one.outcome for one in record.results] == [Outcome.MEASURED] * 3
    assert record.status == "done"
    (warning, *_) = find(record).warnings
    assert warning.startswith(
        "the time budget of 3 min 20 s ended the run after 3 of 8 trials; continue with"
    )
    (spent,) = [event for event in events if isinstance(event, BudgetSpent)]
    assert (spent.spent_s, spent.trial.number) == (180.0, 4)


def test_more_time_lets_a_run_go_on_where_it_ended(tmp_path):
    record = run(replace(STUDY, budget_s=200.0), tmp_path, [])
    journal = Journal(tmp_path / "journal.sqlite")
    journal.set_budget(record.run_id, 1000.0)
    assert len(run_experiment(record.run_id, SimulatedTrialRunner(TRUTH), journal).results) == 8


def test_a_run_within_its_budget_runs_every_trial(tmp_path):
    assert len(run(replace(STUDY, budget_s=1000.0), tmp_path, []).results) == 8
