"""The whole comparison on the simulated laboratory: design, loop, journal and verdict agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdrag.agenda import expand
from pgdrag.designs.compare.findings import CompareFinding
from pgdrag.designs.compare.rules import End
from pgdrag.findings.find import find
from pgdrag.findings.values import Verdict
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Outcome
from pgdrag.model.design import make_design
from pgdrag.model.events import ignore
from pgdrag.testing.simulated import (
    SimulatedKill,
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)
from simulations.compare import simulate


class Comparison:
    """One run of a comparison of "R0" with "R1"."""

    def __init__(self, directory: Path, *, seed: int = 1, **parameters: object) -> None:
        study = simulated_ladder("a").with_design("compare", **parameters)
        self.journal = Journal(directory / f"{seed}.sqlite")
        self.run_id = begin_simulated(self.journal, study, seed=seed)

    def run(self, bench: SimulatedTrialRunner) -> CompareFinding:
        found = find(run_experiment(self.run_id, bench, self.journal)).found
        assert isinstance(found, CompareFinding)
        return found


@pytest.mark.parametrize(
    ("slowdown", "verdict"),
    [(1.15, Verdict.SLOWER), (0.8, Verdict.FASTER), (1.0, Verdict.EQUIVALENT)],
)
def test_what_was_planted_is_found_under_drift_and_noise_that_lasts(
    tmp_path: Path, slowdown: float, verdict: Verdict
) -> None:
    truth = Truth(slowdowns={"a": slowdown}, noise=0.008, autocorrelation=0.7, drift_per_hour=-0.5)
    found = Comparison(tmp_path).run(SimulatedTrialRunner(truth, seed=3))
    assert (found.verdict, found.end) == (verdict, End.DECIDED)
    assert found.slowdown is not None
    assert found.slowdown.low <= slowdown <= found.slowdown.high


def test_no_more_trials_are_foretold_than_pairs_are_allowed() -> None:
    study = simulated_ladder("a").with_design("compare", max_pairs=4)
    design, bench, done = make_design(study), SimulatedTrialRunner(Truth(noise=0.05)), 0
    for number in range(1, 10):
        block, foretold = design.ask(), design.forecast()
        assert foretold.fewest <= foretold.greatest <= 8 - done
        trials = expand(block, study, seed=1, block_number=number, first_number=done + 1)
        if not trials:
            break
        design.tell([bench.run(trial, ignore) for trial in trials])
        done += len(trials)
    assert done == 8


def test_a_comparison_cut_off_goes_on_to_the_identical_finding(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"a": 1.04}, noise=0.01)
    uncut = Comparison(tmp_path, seed=1).run(SimulatedTrialRunner(truth, seed=5))
    (tmp_path / "cut").mkdir()
    cut = Comparison(tmp_path / "cut", seed=1)
    with pytest.raises(SimulatedKill):
        cut.run(SimulatedTrialRunner(truth, seed=5, faults={6: SimulatedKill()}))
    again = SimulatedTrialRunner(truth, seed=5)
    assert cut.run(again) == uncut
    assert again.trials_run[0] == 6


def test_a_treatment_that_does_not_start_ends_it_after_one_more_try(tmp_path: Path) -> None:
    bench = SimulatedTrialRunner(Truth(outcomes={"a": Outcome.DID_NOT_START}))
    found = Comparison(tmp_path).run(bench)
    assert found.answer.startswith("R1 did not start: simulated")
    assert len(bench.trials_run) == 4


def test_a_comparison_of_a_thing_with_itself_hardly_ever_finds_a_difference(
    tmp_path: Path,
) -> None:
    verdicts = [
        Comparison(tmp_path, seed=seed, max_pairs=10)
        .run(SimulatedTrialRunner(Truth(noise=0.02, drift_per_hour=1.0), seed=seed))
        .verdict
        for seed in range(1, 21)
    ]
    assert sum(one in (Verdict.SLOWER, Verdict.FASTER) for one in verdicts) <= 1


def test_no_promise_is_broken_in_a_short_simulation() -> None:
    """The whole one is `make simulate`; this one finds what is badly wrong."""
    rows = simulate(0.01)
    assert [row.name for row in rows if row.met is False] == []
    assert len(rows) > 40
