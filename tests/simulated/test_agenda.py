"""Whoever runs the trials, and in whatever order they end: the design decides as on one machine, each trial counts once."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.agenda import MOST_LOSSES, Agenda, Turn
from pgdrag.designs import all_designs
from pgdrag.findings.find import find
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Outcome, Result, RunRecord, Study
from pgdrag.model.events import ignore
from pgdrag.station import Station
from pgdrag.testing.simulated import (
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
HOSTS = ("one", "two", "three")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite")


def study_of(design: str, replicates: int = 1) -> Study:
    return simulated_ladder("a", "b", "c", "d", replicates=replicates).with_design(design)


def alone(journal: Journal, study: Study) -> RunRecord:
    run_id = begin_simulated(journal, study, seed=5)
    return run_experiment(run_id, SimulatedTrialRunner(TRUTH, seed=3), journal)


class Hosts:
    """Hosts that run trials by lot: which of them ends next, and which is lost, is the seed's."""

    def __init__(self, journal: Journal, run_id: str, *, seed: int, losses: float = 0.0) -> None:
        self.journal, self.losses, self.rng = journal, losses, random.Random(seed)
        self.agenda = Agenda(journal.run(run_id), journal, hosts=len(HOSTS))
        study = self.agenda.run.study
        self.stations = {
            x: Station(study, SimulatedTrialRunner(TRUTH, seed=3), ignore) for x in HOSTS
        }
        self.turns: dict[str, Turn] = {}
        self.late: list[tuple[Turn, Result]] = []

    def result(self, turn: Turn) -> Result:
        return replace(self.stations[turn.host].run(turn.trial, ignore), host=turn.host)

    def step(self) -> bool:
        """Let one thing happen; False: the run is over."""
        if self.agenda.is_over:
            return False
        for is_its_own in (True, False):
            for host in HOSTS:
                if host not in self.turns:
                    turn = self.agenda.next(host, is_its_own=is_its_own)
                    if turn is not None:
                        self.turns[host] = turn
        assert self.turns, "nobody has a trial, and the run is not over"
        host = self.rng.choice(sorted(self.turns))
        turn = self.turns.pop(host)
        result = self.result(turn)
        # Not so often that the trial itself seems to be the reason.
        if turn.attempt < MOST_LOSSES and self.rng.random() < self.losses:
            self.agenda.lost(turn, "by lot")
            self.agenda.release(host)
            self.late.append((turn, result))
            return True
        self.agenda.record(turn, result)
        assert not self.agenda.record(turn, result), "twice"
        return True


def without_hosts(record: RunRecord) -> list[Result]:
    return [replace(x, host="", took_s=0.0, phases_s={}) for x in record.results]


@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("design", all_designs())
def test_any_order_of_completion_gives_the_results_of_one_machine(
    journal: Journal, design: str, replicates: int
) -> None:
    study = study_of(design, replicates)
    expected = alone(journal, study)
    for seed in range(3):
        run_id = begin_simulated(journal, study, seed=5)
        hosts = Hosts(journal, run_id, seed=seed)
        while hosts.step():
            pass
        found = journal.run(run_id)
        assert without_hosts(found) == without_hosts(expected)
        assert found.planned_trials == expected.planned_trials
        of_block: dict[int, set[str]] = {}
        for one in found.results:
            of_block.setdefault(one.trial.block, set()).add(one.host)
        assert {len(x) for x in of_block.values()} == {1}, "a block is of one host"
        assert find(found).found == find(expected).found


@pytest.mark.parametrize("design", ["compare", "ablate", "ladder"])
def test_lost_hosts_and_late_results_change_nothing(journal: Journal, design: str) -> None:
    study = study_of(design, 2)
    expected = alone(journal, study)
    for seed in range(3):
        run_id = begin_simulated(journal, study, seed=5)
        hosts = Hosts(journal, run_id, seed=seed, losses=0.1)
        while hosts.step():
            for turn, result in hosts.late:
                assert not hosts.agenda.record(turn, result)
        found = journal.run(run_id)
        number = Counter(x.trial.number for x in found.results)
        assert set(number.values()) == {1}
        assert without_hosts(found) == without_hosts(expected)
        assert all(
            len({y.host for y in found.results if y.trial.block == x.trial.block}) == 1
            for x in found.results
        )


@pytest.mark.parametrize("design", ["compare", "ablate", "bisect", "search"])
def test_a_coordinator_that_is_killed_anywhere_resumes_to_the_same_result(
    journal: Journal, design: str
) -> None:
    study = study_of(design, 2)
    expected = alone(journal, study)
    run_id = begin_simulated(journal, study, seed=5)
    rng, late = random.Random(7), list[tuple[Turn, Result]]()
    for seed in range(1000):
        hosts = Hosts(journal, run_id, seed=seed)
        for host in hosts.agenda.hosts_with_work:
            if rng.random() < 0.5:  # it has not come back
                hosts.agenda.release(host)
        is_over = not all(hosts.step() for _ in range(rng.randint(1, 12)))
        for turn, result in late:
            hosts.agenda.record(
                turn, result
            )  # of whoever was killed before: it may come as late as it likes
        if is_over:
            break
        late = [(turn, hosts.result(turn)) for turn in hosts.turns.values()]
    assert without_hosts(journal.run(run_id)) == without_hosts(expected)


def test_a_trial_that_takes_every_host_with_it_is_invalid_in_the_end(journal: Journal) -> None:
    run_id = begin_simulated(journal, study_of("ladder"))
    hosts = Hosts(journal, run_id, seed=1)
    for _ in range(MOST_LOSSES):
        turn = hosts.agenda.next("one")
        assert turn is not None
        assert turn.trial.number == 1
        hosts.agenda.lost(turn, "the host crashed")
        hosts.agenda.release("one")
    turn = hosts.agenda.next("one")
    assert turn is not None
    assert turn.trial.number == 2
    (invalid,) = journal.run(run_id).results
    assert (invalid.outcome, invalid.reason) == (Outcome.INVALID, "the host crashed")
