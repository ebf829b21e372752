"""The real driver tells how busy its threads are, and a run that chooses their number keeps it in all its trials.

How busy they are depends on what else this machine does: tests set from where on a thread is too busy.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from commands import dsn
from loads import PACED, READS

from in_process import pgdrag
from pgdrag.driver import choosing_threads
from pgdrag.findings.driver_limits import DriverThreads
from pgdrag.findings.find import find
from pgdrag.host.machine import this_host
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Level, LoadProfile, Rung, RunRecord, Source, Study, Treatment
from pgdrag.model.threads import ChosenThreads
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner

LOAD = LoadProfile(4, warm_up_s=0.1, measure_s=0.5, budget_s=0.5, min_commits=0, threads=None)
NEVER, ALWAYS = 1.1, -1.0


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing_threads, "SHORTEST_WINDOW_S", 0.1)
    monkeypatch.setattr(choosing_threads, "_PROBE_S", 0.4)


def run(bench: ServerTrialRunner, load: LoadProfile, directory: Path) -> RunRecord:
    baseline, other = Treatment("A"), Treatment("B", (Level("setting", "jit", "off"),))
    study = Study(
        name="threads",
        title="",
        question="",
        scale="test",
        design="ladder",
        rungs=(Rung("A", "", baseline), Rung("B", "", other, other.levels)),
        source=Source(),
        workload=READS,
        load=load,
        replicates=1,
        is_checked=False,
    )
    journal = Journal(directory / "journal.sqlite")
    run_id = journal.begin_run(
        study,
        this_host(bench.scratch.root),
        server_wanted=None,
        server_version=bench.version,
        pgdrag_version="0",
        seed=1,
    )
    return run_experiment(run_id, bench, journal)


def threads_of(record: RunRecord) -> set[int]:
    assert len(record.results) == 2
    return {x.measurement.driver.threads for x in record.results if x.measurement is not None}


@pytest.mark.parametrize("generators", [(), ("", "")])
def test_a_driver_that_is_too_busy_gets_as_many_threads_as_it_can_use(
    bench: ServerTrialRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    generators: tuple[str, ...],
) -> None:
    monkeypatch.setattr(choosing_threads, "BUSY", ALWAYS)
    # At a rate, so that it does not matter which number is faster.
    record = run(bench, replace(LOAD, pacing=PACED, generators=generators), tmp_path)
    found = find(record).get(DriverThreads)
    assert found is not None
    chosen = found.by_host[""]
    drivers = max(len(generators), 1)
    measured = record.results[0].measurement
    assert measured is not None
    processors = measured.driver.processors
    assert processors is not None
    assert chosen.threads == max(1, min(4, processors) // drivers)
    assert chosen.is_limited
    assert threads_of(record) == {drivers * chosen.threads}
    assert all(0 < one.busy_share <= 1 and one.committed_per_s > 0 for one in chosen.probes)
    busy_s, cpu_s = measured.driver.busiest_thread_busy_s, measured.driver.busiest_thread_cpu_s
    assert cpu_s is not None
    assert busy_s is None or busy_s >= cpu_s > 0


def test_a_driver_with_time_to_spare_keeps_one_thread(
    bench: ServerTrialRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing_threads, "BUSY", NEVER)
    record = run(bench, LOAD, tmp_path)
    assert threads_of(record) == {1}
    [chosen] = [y for x in record.results for y in x.recordings.of(ChosenThreads)]
    assert (len(chosen.probes), chosen.is_limited) == (1, False)


def test_bench_chooses_before_its_warm_up_and_says_so(
    server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing_threads, "BUSY", NEVER)
    assert pgdrag("bench", "-i", "-q", dsn(server))[0] == 0
    arguments = ("bench", "-S", "-c", "2", "-T", "0.5", "--warm-up", "0.1", dsn(server))
    status, out, err = pgdrag(*arguments)
    assert status == 0, err
    assert "chosen at the start: 1 thread, " in " ".join(out.split())
    status, out, err = pgdrag(*arguments, "--json")
    [probe] = json.loads(out)["driver_threads"]["by_host"][""]["probes"]
    assert probe["threads"] == 1
    for given in (("-j", "1"), ("--warm-up", "0")):
        status, out, err = pgdrag(*arguments, *given, "--json")
        assert status == 0, err
        assert json.loads(out)["driver_threads"] is None, given
