"""Whatever the design, a run that was killed goes on to the result it would have had."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdrag.designs import all_designs
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Outcome, RunRecord, Study
from pgdrag.testing.simulated import (
    SimulatedKill,
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)

TRUTH = Truth(
    slowdowns={"a": 1.5, "c": 4.0},
    interactions={frozenset({"b", "d"}): 2.0},
    noise=0.03,
    outcomes={"e": Outcome.DID_NOT_START},
)


def study_of(design: str) -> Study:
    study = simulated_ladder("a", "b", "c", "d")
    return study.with_design(design)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite")


def run(journal: Journal, study: Study) -> RunRecord:
    return run_experiment(
        begin_simulated(journal, study, seed=5), SimulatedTrialRunner(TRUTH, seed=3), journal
    )


@pytest.mark.parametrize("design", all_designs())
def test_a_run_killed_anywhere_resumes_to_the_identical_result(
    journal: Journal, design: str
) -> None:
    study = study_of(design)
    uncut = run(journal, study)
    trials = len(uncut.results)
    for number in sorted({1, min(2, trials), trials // 2 + 1, trials}):
        run_id = begin_simulated(journal, study, seed=5)
        killed = SimulatedTrialRunner(TRUTH, seed=3, faults={number: SimulatedKill()})
        with pytest.raises(SimulatedKill):
            run_experiment(run_id, killed, journal)
        again = SimulatedTrialRunner(TRUTH, seed=3)
        resumed = run_experiment(run_id, again, journal)
        assert resumed.results == uncut.results
        assert again.trials_run == list(range(number, trials + 1))


@pytest.mark.parametrize("design", all_designs())
def test_no_more_trials_are_run_than_were_foretold(journal: Journal, design: str) -> None:
    study = study_of(design)
    made = all_designs()[design](study.rungs, all_designs()[design].Parameters())
    foretold = made.forecast()
    trials = len(run(journal, study).results)
    assert foretold.least + foretold.brief_least <= trials <= foretold.most + foretold.brief_most
