"""A run chooses the driver's threads once, before its first trial, and all its trials have as many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.agenda import Agenda
from pgdrag.findings.driver_limits import DriverThreads
from pgdrag.findings.find import find
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Measurement, Outcome, Result, RunRecord, Study, Trial, WorkloadSpec
from pgdrag.model.events import Listener, PhaseStarted, ignore
from pgdrag.station import Station
from pgdrag.testing.simulated import (
    SimulatedKill,
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)


class Busy(SimulatedTrialRunner):
    """A server whose clients need so much of the driver's threads that each commits in proportion to them."""

    def __init__(self, work: float, *, truth: Truth | None = None, **given: object) -> None:
        super().__init__(truth or Truth(), **given)  # type: ignore[arg-type]
        self.work = work
        self.runs: list[tuple[str, int | None, float]] = []

    def run(self, trial: Trial, listen: Listener) -> Result:
        self.runs.append((trial.treatment.name, trial.load.threads, trial.load.measure_s))
        result = super().run(trial, listen)
        return replace(result, warnings=(f"{trial.load.measure_s:.0f} s window",))

    @property
    def probes(self) -> list[int | None]:
        return [threads for _, threads, measure_s in self.runs if measure_s == 2]

    def _measure(self, trial: Trial, tps: float) -> Measurement:
        threads = trial.load.threads or 1
        found = super()._measure(trial, tps * threads)
        busy_s = found.elapsed_s * min(1.0, self.work / threads)
        driver = replace(found.driver, threads=threads, busiest_thread_busy_s=busy_s, processors=64)
        return replace(found, driver=driver)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite")


def study_of(threads: int | None = None, *, kind: str = "pgbench", **parameters: object) -> Study:
    study = simulated_ladder("a", "b", "c")
    load = replace(study.load, threads=threads, measure_s=20)
    return replace(study, load=load, workload=WorkloadSpec(kind, parameters))


def threads_of(run: RunRecord) -> list[int]:
    return [x.measurement.driver.threads for x in run.results if x.measurement is not None]


def test_the_baseline_is_probed_once_and_all_trials_have_the_number(journal: Journal) -> None:
    bench = Busy(1.5)
    events: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, PhaseStarted):
            events.append(event.name)

    run = run_experiment(begin_simulated(journal, study_of(), seed=5), bench, journal, listen)
    assert bench.probes == [1, 2, 4]
    assert {name for name, _, _ in bench.runs[:3]} == {run.study.rungs[0].treatment.name}
    assert threads_of(run) == [4] * 4
    assert events[1:4] == ["try 1 driver thread", "try 2 driver threads", "try 4 driver threads"]
    found = find(run).get(DriverThreads)
    assert found is not None
    assert found.words == "4 threads, 38 % busy (tried: 1 thread, 100 % busy; 2 threads, 75 % busy)"
    assert run.results[0].phases_s["prepare"] >= 3 * 2, "probes are no part of the trial's own time"
    # What a probe could not undo is said once.
    warnings = [x.warnings for x in run.results]
    assert warnings == [("2 s window", "20 s window"), *[("20 s window",)] * 3]


def test_a_number_that_somebody_gave_stays(journal: Journal) -> None:
    bench = Busy(1.5)
    run = run_experiment(begin_simulated(journal, study_of(2), seed=5), bench, journal)
    assert (bench.probes, threads_of(run)) == ([], [2] * 4)
    assert find(run).get(DriverThreads) is None


def test_another_program_has_no_threads_to_choose(journal: Journal) -> None:
    bench = Busy(1.5)
    study = study_of(kind="command", command="true", pattern="(?P<tps>.)", directory="/")
    run_experiment(begin_simulated(journal, study, seed=5), bench, journal)
    assert bench.probes == []


def test_a_baseline_that_does_not_start_leaves_one_thread(journal: Journal) -> None:
    study = study_of()
    first, *others = study.rungs
    broken = replace(first, treatment=others[0].treatment)
    truth = Truth(outcomes={"a": Outcome.DID_NOT_START})
    bench = Busy(1.5, truth=truth)
    study = replace(study, rungs=(broken, *others))
    run = run_experiment(begin_simulated(journal, study, seed=5), bench, journal)
    found = find(run).get(DriverThreads)
    assert found is not None
    assert found.words == "1 thread, as the baseline could not be measured"


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_resumed_run_keeps_the_number(journal: Journal, at: int) -> None:
    run_id = begin_simulated(journal, study_of(), seed=5)
    killed = Busy(1.5)

    def listen(event: object) -> None:
        if len(killed.runs) - len(killed.probes) == at:
            raise SimulatedKill

    with pytest.raises(SimulatedKill):
        run_experiment(run_id, killed, journal, listen)
    assert killed.probes == [1, 2, 4]
    # The machine is less busy now, and would choose another number.
    again = Busy(0.1)
    run = run_experiment(run_id, again, journal)
    has_result = at > 1
    assert again.probes == ([] if has_result else [1])
    assert threads_of(run) == [4 if has_result else 1] * 4


def test_each_host_has_its_own_number_and_keeps_it_when_its_worker_is_replaced(
    journal: Journal,
) -> None:
    study = replace(study_of(), replicates=4).with_design("compare")
    agenda = Agenda(journal.run(begin_simulated(journal, study, seed=5)), journal, hosts=2)
    benches = {"small": Busy(0.1), "large": Busy(1.5)}
    asked: dict[str, list[int]] = {"small": [], "large": []}
    while not agenda.is_over:
        for host, bench in benches.items():
            turn = agenda.next(host)
            if turn is None:
                continue
            # A worker of its own for each trial, as if it had been killed after the last one.
            result = replace(Station(study, bench, ignore).run(turn.trial, ignore), host=host)
            assert result.trial == turn.trial
            assert agenda.record(turn, result)
            assert result.measurement is not None
            asked[host].append(result.measurement.driver.threads)
    assert {host: set(numbers) for host, numbers in asked.items()} == {"small": {1}, "large": {4}}
    assert [bench.probes for bench in benches.values()] == [[1], [1, 2, 4]]
    found = find(journal.run(agenda.run.run_id)).get(DriverThreads)
    assert found is not None
    assert "small: 1 thread, 10 % busy" in found.words
