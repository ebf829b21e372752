"""One trial on a real server: whatever the treatment breaks is an outcome with a reason."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from living import connected
from loads import PACED, SHORT

from pgdrag.errors import ServerError
from pgdrag.factors.treated_workload import workload_of
from pgdrag.findings.mechanisms.ledger import ledger
from pgdrag.host.process_alive import wait_until
from pgdrag.host.process_sight import seeing_as
from pgdrag.model import Instrument, Level, Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import Event, PhaseStarted, Throughput, ignore
from pgdrag.model.load import Closed, LoadProfile, Open, Step
from pgdrag.model.recordings import StatementPlan, WaitTime
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep
from pgdrag.trial import ServerTrialRunner, run_trial

# Restored, driven and checked at a fraction of what TPC-C takes.
CHEAP = WorkloadSpec("pgbench", {"scale": 1})
# The same, and no two sessions wait for the same row.
APART = WorkloadSpec("pgbench", {"scripts": ["simple-update"]})
TPCC = WorkloadSpec("tpcc", {"warehouses": 1})


def trial_of(load: LoadProfile = SHORT, workload: WorkloadSpec = CHEAP, **settings: str) -> Trial:
    levels = tuple(Level("setting", name, value) for name, value in settings.items())
    return Trial(1, 1, 1, Treatment("T", levels), workload, load, seed=1)


def no_cluster_is_left(bench: ServerTrialRunner) -> bool:
    return not list(bench.scratch.clusters.iterdir())


def test_a_trial_is_measured_and_its_evidence_and_settings_read_back(
    bench: ServerTrialRunner,
) -> None:
    trial = trial_of(workload=TPCC, shared_buffers="64MB", checkpoint_timeout="30")
    result = run_trial(trial, bench)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert result.measurement is not None
    assert result.measurement.total.is_balanced
    assert result.measurement.total.committed > 10
    assert {x.level.name: (x.effective, x.note) for x in result.applied} == {
        "shared_buffers": ("65536kB", ""),
        "checkpoint_timeout": ("30s", ""),
    }
    seen = {x.name: x.value for x in result.evidence}
    assert (seen["wal_bytes_per_transaction"] or 0) > 100
    assert (seen["index_scans_per_transaction"] or 0) > 1
    assert {"restore", "start", "warm up", "measure", "collect", "check"} <= set(result.phases_s)
    plans = {
        plan.transaction
        for plan in result.recordings.of(StatementPlan)
        if plan.generic and plan.custom
    }
    assert plans == set(result.measurement.transactions)
    assert result.restored is not None
    assert result.restored.bytes > 50_000_000  # the least that a dataset of TPC-C takes
    assert 0 < result.restored.seconds <= result.phases_s["restore"] + 0.001
    assert no_cluster_is_left(bench)


def test_a_trial_that_collectors_are_kept_from_is_measured_without_evidence(
    bench: ServerTrialRunner,
) -> None:
    result = run_trial(replace(trial_of(), instrument=Instrument("off")), bench)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert (result.evidence, result.recordings.series) == ((), ())


def test_commits_wait_for_wal_in_the_ledger_and_asynchronous_ones_do_not(
    bench: ServerTrialRunner,
) -> None:
    shares = {}
    syncs = {}
    for name, settings in (
        ("delayed", {"commit_delay": "20000", "commit_siblings": "0"}),
        ("asynchronous", {"synchronous_commit": "off"}),
    ):
        # Sessions that are idle between transactions are hardly ever seen in one.
        load = replace(SHORT, connections=4, pacing=Closed())
        trial = trial_of(load, APART, **settings)
        result = run_trial(replace(trial, is_checked=False), bench)
        assert result.measurement is not None, result.reason
        committed = result.measurement.total.committed
        book = ledger(result.recordings.of(WaitTime), result.evidence, committed)
        assert book is not None
        shares[name] = book.seconds["wal"] / book.whole_s
        syncs[name] = {x.name: x.value for x in result.evidence}["wal_syncs_per_transaction"]
    assert shares["delayed"] > 5 * shares["asynchronous"], shares
    assert syncs["delayed"] > 5 * syncs["asynchronous"], syncs


def test_a_server_that_refuses_to_start_is_an_outcome(bench: ServerTrialRunner) -> None:
    result = run_trial(trial_of(wal_level="minimal"), bench)  # and max_wal_senders stays at 10
    assert result.outcome is Outcome.DID_NOT_START
    assert "wal_level" in result.reason
    assert no_cluster_is_left(bench)


def test_transactions_that_the_server_refuses_are_counted_with_their_message(
    bench: ServerTrialRunner,
) -> None:
    result = run_trial(trial_of(workload=TPCC, default_transaction_read_only="on"), bench)
    assert result.measurement is not None
    counts = result.measurement.transactions
    assert counts["payment"].failed_by_sqlstate["25006"] > 0
    assert counts["payment"].committed == 0
    assert counts["order_status"].failed == 0
    messages = {error[2] for error in result.measurement.errors}
    assert "cannot execute UPDATE in a read-only transaction" in messages


def test_a_setting_of_the_observation_channel_is_noted_as_not_the_treatments(
    bench: ServerTrialRunner,
) -> None:
    result = run_trial(trial_of(log_autovacuum_min_duration="-1"), bench)
    (applied,) = result.applied
    assert applied.effective == "0ms"
    assert "observation channel" in applied.note


def test_the_window_goes_on_with_the_sessions_of_the_warm_up(bench: ServerTrialRunner) -> None:
    sessions: dict[str, set[int]] = {}

    def note(phase: str) -> Callable[[], None]:
        return lambda: sessions.update({phase: set(backends(bench))})

    in_warm_up, in_window = when("warm up", note("before")), when("measure", note("after"))

    def listen(event: Event) -> None:
        in_warm_up(event)
        in_window(event)

    # As long as it takes to hear of both.
    result = run_trial(trial_of(replace(SHORT, warm_up_s=1.5, measure_s=1.5)), bench, listen)
    assert len(sessions["before"]) == SHORT.connections
    assert sessions["before"] == sessions["after"]
    assert result.measurement is not None
    assert (result.measurement.warm_up_s or 0) >= 1.5


def test_sessions_follow_the_steps_and_every_step_commits(bench: ServerTrialRunner) -> None:
    steps = tuple(Step(at_s, sessions, PACED.rate_per_s) for at_s, sessions in enumerate((1, 2, 4)))
    load = replace(SHORT, connections=4, measure_s=3, steps=steps)
    result = run_trial(trial_of(load), bench)
    assert result.measurement is not None
    # At the very end of an interval the next step has begun, or not yet.
    seen = [sample.sessions or 0 for sample in result.measurement.samples]
    assert all(step.sessions <= found for step, found in zip(steps, seen, strict=True))
    assert seen[-1] == 4
    assert all(sample.committed for sample in result.measurement.samples)


def test_an_open_loop_counts_what_arrived_and_what_was_lost(bench: ServerTrialRunner) -> None:
    pacing = Open(rate_per_s=5000, arrivals="uniform", backlog_limit=10)
    load = replace(SHORT, warm_up_s=0.5, measure_s=2, pacing=pacing)
    # Each commit waits for 20 ms, so that the clients are far behind.
    result = run_trial(trial_of(load, commit_delay="20000", commit_siblings="0"), bench)
    assert result.measurement is not None
    arrivals, total = result.measurement.arrivals, result.measurement.total
    assert arrivals is not None
    # None of the schedule is lost, however far the clients are behind it.
    assert arrivals.scheduled - arrivals.carried == pytest.approx(10_000, abs=2)
    assert 0 < arrivals.max_queue <= 10
    assert total.dropped > total.committed > 0


def test_a_workloads_own_keys_reach_the_driver(bench: ServerTrialRunner) -> None:
    keys = {"statements": "pipelined", "terminals": "specification", "wait_scale": 0.01}
    workload = WorkloadSpec("tpcc", {"warehouses": 1, "max_tries": 2, **keys})
    load = replace(SHORT, pacing=Closed())
    result = run_trial(trial_of(load, workload), bench)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert not result.violations
    # Four terminals that wait 0.1 s and more each time: without waits it is hundreds.
    assert result.measurement is not None
    assert result.measurement.total.tried < 200


def test_a_trial_that_is_not_to_be_checked_is_not(bench: ServerTrialRunner) -> None:
    result = run_trial(replace(trial_of(), is_checked=False), bench)
    assert result.outcome is Outcome.MEASURED
    assert "check" not in result.phases_s


@pytest.mark.parametrize("victim", ["postmaster", "backend"])
def test_a_server_that_dies_under_load_is_a_crash_and_leaves_nothing(
    bench: ServerTrialRunner, victim: str
) -> None:
    listen = when_measuring(lambda: os.kill(victim_pid(bench, victim), signal.SIGKILL))
    load = replace(SHORT, connections=4, measure_s=2, budget_s=2)
    result = run_trial(trial_of(load), bench, listen)
    assert result.outcome is Outcome.CRASHED, result
    assert result.reason.startswith("the server crashed under load")
    assert no_cluster_is_left(bench)


def test_a_dataset_that_was_tampered_with_makes_the_trial_invalid(bench: ServerTrialRunner) -> None:
    def tamper() -> None:
        with connected(bench) as db:
            db.execute("UPDATE public.pgbench_branches SET bbalance = bbalance + 1")

    result = run_trial(trial_of(), bench, when_measuring(tamper))
    assert result.outcome is Outcome.INVALID
    assert result.violations


@pytest.mark.parametrize("damage", ["missing", "torn"])
def test_a_damaged_snapshot_is_recreated_and_is_no_treatments_result(
    bench: ServerTrialRunner, damage: str
) -> None:
    snapshot = bench.snapshot(workload_of(CHEAP, trial_of().treatment), ignore)
    tables = (snapshot.directory / "data" / "base").glob("*/*")
    table = max(tables, key=lambda path: path.stat().st_size)
    if damage == "missing":
        table.unlink()
    else:
        # As a bad disk does it: no time of the file tells.
        found = table.stat()
        table.write_bytes(b"\xff" * found.st_size)
        os.utime(table, ns=(found.st_atime_ns, found.st_mtime_ns))
    bench._discarded.clear()
    result = bench.run(trial_of(), ignore)
    assert result.outcome is Outcome.MEASURED, result.reason
    (note,) = [text for text in result.warnings if "it was recreated" in text]
    assert ("is missing" if damage == "missing" else "invalid page") in note
    assert table.stat().st_size
    assert no_cluster_is_left(bench)


def test_a_time_out_of_the_treatment_does_not_keep_pgdrag_from_looking(
    bench: ServerTrialRunner,
) -> None:
    result = run_trial(trial_of(statement_timeout="1"), bench)
    assert result.outcome in (Outcome.MEASURED, Outcome.STALLED), result.reason
    assert [x.effective for x in result.applied] == ["1ms"]


def test_a_server_without_room_for_the_clients_is_stalled_and_not_crashed(
    bench: ServerTrialRunner,
) -> None:
    crowded = LoadProfile(connections=8, warm_up_s=0, measure_s=2, budget_s=4)
    result = run_trial(trial_of(crowded, max_connections="6"), bench)
    assert result.outcome is Outcome.STALLED, result
    assert "too many clients" in result.reason or "slots are reserved" in result.reason


def test_a_cluster_that_cannot_be_removed_loses_no_measurement(
    bench: ServerTrialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = []

    def stuck(cluster: Cluster) -> None:
        removed.append(cluster)
        raise ServerError("a process does not end")

    trial = trial_of()
    bench.snapshot(workload_of(CHEAP, trial.treatment), ignore)  # its cluster is removed
    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "remove", stuck)
        result = run_trial(trial, bench)
    # It was given up, and the next start sweeps it.
    assert removed
    sweep(bench.scratch)
    assert no_cluster_is_left(bench)
    assert result.outcome is Outcome.MEASURED
    assert result.warnings == ("the cluster was not removed: a process does not end",)


def test_settings_that_an_older_server_lacks_are_left_out_and_named(scratch: Scratch) -> None:
    try:
        older = ServerTrialRunner.open(scratch, find_binaries("15"))
    except ServerError as error:
        pytest.skip(str(error))
    result = run_trial(trial_of(io_method="sync", work_mem="1MB"), older)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert {x.level.name: x.effective for x in result.applied} == {
        "io_method": None,
        "work_mem": "1024kB",
    }
    assert result.server_version.startswith("15")


def test_a_pasted_archive_command_is_not_run_until_it_is_allowed(bench: ServerTrialRunner) -> None:
    """It is production's, with production's rights: its WAL archive would be overwritten."""
    mark = bench.scratch.root / "archived"
    mark.mkdir()
    bench.scratch.give(mark)
    trial = trial_of(archive_mode="on", archive_command=f"touch {mark}/%f", work_mem="1MB")

    def fill_segment() -> None:
        with connected(bench) as db:
            db.execute("SELECT pg_switch_wal()")

    result = run_trial(trial, bench, when_measuring(fill_segment))
    assert result.outcome is Outcome.MEASURED, result.reason
    told = {x.level.name: (x.effective, x.note) for x in result.applied}
    for name in ("archive_mode", "archive_command"):
        said = f'setting "{name}" is not applied in the laboratory: nothing is archived or restored here'
        assert told[name] == (None, said)
    assert told["work_mem"][0] == "1024kB"
    assert list(mark.iterdir()) == []
    allowing = replace(
        bench, here=replace(bench.here, allowed=frozenset(x.name for x in trial.treatment.levels))
    )

    def archive() -> None:
        fill_segment()
        assert wait_until(lambda: any(mark.iterdir()), 30)

    assert run_trial(trial, allowing, when_measuring(archive)).outcome is Outcome.MEASURED
    assert any(mark.iterdir())


def when_measuring(do: Callable[[], None]) -> Callable[[Event], None]:
    """Return a listener that does something once, when the measured window is under way."""
    return when("measure", do)


def when(wanted: str, do: Callable[[], None]) -> Callable[[Event], None]:
    """Return a listener that does something once, when the load is under way in a phase."""
    phase = ""
    is_done = False

    def listen(event: Event) -> None:
        nonlocal phase, is_done
        if isinstance(event, PhaseStarted):
            phase = event.name
        elif isinstance(event, Throughput) and phase == wanted and not is_done:
            is_done = True
            do()

    return listen


def postmaster_pid(bench: ServerTrialRunner) -> int:
    (directory,) = bench.scratch.clusters.iterdir()
    return int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])


def backends(bench: ServerTrialRunner) -> list[int]:
    """Return the processes that serve the workload's sessions."""
    postmaster = postmaster_pid(bench)
    with seeing_as(bench.scratch.user):
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        titles = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, title in titles.items() if b"postgres: load pgdrag" in title]


def victim_pid(bench: ServerTrialRunner, victim: str) -> int:
    return postmaster_pid(bench) if victim == "postmaster" else backends(bench)[0]
