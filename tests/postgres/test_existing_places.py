"""Experiments on a server that exists where it restarts, where it may not be written to, and through a pooler."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from commands import dsn, heard, outcome, start
from existing import digest, give_settings, started_alone, stopped_alone
from poolers import pgbouncer

from in_process import pgdrag
from pgdrag.driver.connection_string import reach
from pgdrag.driver.progress import TrialLog
from pgdrag.errors import ServerError
from pgdrag.existing.permission import Permission
from pgdrag.existing.runner import ExistingTrialRunner
from pgdrag.horizon.holders import HoldPlace
from pgdrag.horizon.holders.standby import make_standby
from pgdrag.host.process_alive import wait_until
from pgdrag.live.window import observe_window
from pgdrag.model.events import ignore
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.catalog import load_settings_catalog
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch

LOAD = ("--warm-up", "0", "--measure", "1", "--connections", "1")
ALLOWED = ("--allow-change", "settings", "--yes")


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PGDRAG_UNDO", str(tmp_path / "undo"))
    place = open_directory / "existing"
    monkeypatch.setenv("PGDRAG_SCRATCH", str(place))
    # That takes a throw-away server, with whose end all processes of its user end: those of `alone`, too.
    load_settings_catalog(find_binaries(None), Scratch.open(place))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A load that needs no tables."""
    file = tmp_path / "look.sql"
    file.write_text("SELECT count(*) FROM pg_class;\n")
    return file


@pytest.fixture
def patient(tmp_path: Path) -> Path:
    """A load that leaves the processors to the tests beside."""
    file = tmp_path / "patient.sql"
    file.write_text("SELECT 1;\n\\sleep 10 ms\n")
    return file


@pytest.fixture
def alone(cluster: Cluster) -> Iterator[tuple[Cluster, str]]:
    """A server that no process of the test's has as a child, and how it is restarted."""
    give_settings(cluster)
    restart_command = started_alone(cluster)
    yield cluster, restart_command
    stopped_alone(cluster)


def compared(cluster: Cluster, level: str, script: Path, *options: str) -> tuple[int, str, str]:
    words = ("compare", "default", level, "--dsn", dsn(cluster), "-f", script, *LOAD, *ALLOWED)
    return pgdrag(*words, *options)


def test_all_trials_restart_where_an_arm_needs_it(alone, script):
    cluster, command = alone
    before = digest(cluster)
    restart = ("--allow-change", "restart", "--restart-command", command)
    status, out, err = compared(
        cluster, "max_locks_per_transaction=80", script, *restart, "--budget", "8s", "--json"
    )
    assert status == 0, err
    found = json.loads(out)
    assert {(one["outcome"], one["reason"]) for one in found["trials"]} == {("measured", "")}
    applied = [x for one in found["rungs"] for x in one["applied"]]
    assert {(x["effective"], x["how"]) for x in applied} == {
        ("80", "by ALTER SYSTEM and a restart")
    }
    assert digest(cluster) == before
    with cluster.connect() as connection:
        assert connection.execute("SHOW max_locks_per_transaction").fetchall() == [("64",)]


def test_what_a_killed_run_left_to_a_restart_is_undone_by_the_next_one_s_command(alone, script):
    cluster, command = alone
    restart = ("--allow-change", "restart", "--restart-command", command)
    words = ("compare", "default", "max_locks_per_transaction=80", "--dsn", dsn(cluster))
    process = start(*words, "-f", script, *LOAD, *ALLOWED, *restart)
    try:
        assert wait_until(lambda: process.poll() is not None or _locks(cluster) == "80", 120)
    finally:
        tree = psutil.Process(process.pid).children(recursive=True)
        guardians = [x for x in tree if _is_guardian(x)]
        for each in (*guardians, process):
            each.kill()
        process.communicate()
    assert guardians
    status, _, err = compared(
        cluster, "max_locks_per_transaction=90", script, *restart, "--dry-run"
    )
    assert status == 0, err
    assert "was restarted" in err or "restored" in err
    assert _locks(cluster) == "64"


def _is_guardian(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # a restart command's programs come and go
        return any("_guardian_process" in x for x in process.cmdline())
    return False


def _locks(cluster: Cluster) -> str:
    with suppress(ServerError, psycopg.OperationalError), cluster.connect() as connection:
        ((found,),) = connection.execute("SHOW max_locks_per_transaction").fetchall()
        return str(found)
    return ""


def test_a_value_with_which_the_server_does_not_start_is_an_outcome(alone, script):
    cluster, command = alone
    before = digest(cluster)
    restart = ("--allow-change", "restart", "--restart-command", command)
    # More than any machine has.
    status, out, err = compared(
        cluster, "shared_buffers=8000GB", script, *restart, "--budget", "8s", "--json"
    )
    assert status == 0, err
    outcomes = {one["treatment"]: one["outcome"] for one in json.loads(out)["trials"]}
    assert outcomes["shared_buffers=8000GB"] == "did not start"
    assert digest(cluster) == before
    with cluster.connect() as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_nothing_is_restarted_while_changes_of_others_wait_for_that(running_cluster, script):
    with running_cluster.connect() as connection:
        connection.execute("ALTER SYSTEM SET max_wal_senders = 3")
        connection.execute("SELECT pg_reload_conf()")
    restart = ("--allow-change", "restart", "--restart-command", "false")
    status, _, err = compared(running_cluster, "max_locks_per_transaction=80", script, *restart)
    assert status == 2
    assert "other changes wait for a restart (max_wal_senders)" in err


def test_restart_and_its_command_require_each_other(running_cluster, script):
    for option in (("--allow-change", "restart"), ("--restart-command", "true")):
        status, _, err = compared(running_cluster, "shared_buffers=64MB", script, *option)
        assert status == 2
        assert "require each other" in err


def test_a_standby_is_refused_and_what_it_refuses_to_an_observer_is_not_counted(cluster, script):
    give_settings(cluster)
    cluster.start()
    standby = make_standby(HoldPlace(cluster.conninfo(), cluster=cluster))
    try:
        status, _, err = compared(standby, "work_mem=8MB", script)
        seen = observe_window(reach(dsn(standby), is_for_driver=False), 1.2)
    finally:
        standby.remove()
    assert status == 2
    assert "is a standby, where nothing can be written" in err
    assert seen.value("rollbacks_per_s") == 0


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_a_pooler_is_refused_in_any_mode_and_nothing_is_changed_through_it(cluster, script, mode):
    give_settings(cluster)
    cluster.start()
    before = digest(cluster)
    with pgbouncer(cluster, mode) as pooled:
        words = ("compare", "default", "work_mem=8MB", "--dsn", pooled, "-f", script, *LOAD)
        status, _, err = pgdrag(*words, *ALLOWED)
    assert status == 2
    assert "pooler" in err
    assert "hint: Name the server itself" in err
    assert digest(cluster) == before


def test_changes_of_others_that_are_not_loaded_are_not_put_in_force(cluster, script):
    give_settings(cluster)
    cluster.start()
    file = cluster.data_directory / "postgresql.conf"
    text = file.read_text()
    cluster.scratch.write_private(file, text + "enable_seqscan = off\n")
    status, _, err = compared(cluster, "work_mem=8MB", script, "--budget", "3s")
    assert status == 2
    assert "changes that it has not loaded (enable_seqscan)" in err or "postgresql.conf" in err


def test_comments_that_alter_system_would_remove_are_a_reason_to_leave_the_file_alone(
    cluster, script
):
    give_settings(cluster)
    file = cluster.data_directory / "postgresql.auto.conf"
    text = file.read_text()
    cluster.scratch.write_private(file, text + "# Ann: do not touch\n")
    cluster.start()
    before = digest(cluster)
    status, _, err = compared(cluster, "autovacuum_naptime=5s", script)
    assert status == 2
    assert "would remove comments" in err
    assert digest(cluster) == before


def trials_on(cluster: Cluster) -> ExistingTrialRunner:
    scratch = Scratch.open(Path(os.environ["PGDRAG_SCRATCH"]))
    return ExistingTrialRunner.open(reach(dsn(cluster)), scratch, Permission())


def test_a_lost_server_is_waited_for_in_words_and_for_good_it_ends_the_run(alone, monkeypatch):
    cluster, _ = alone
    bench, said = trials_on(cluster), []
    monkeypatch.setattr("pgdrag.existing.runner.COMES_BACK_S", 1.0)
    bench.begin(TrialLog(said.append))
    assert said == []
    stopped_alone(cluster)
    with pytest.raises(ServerError, match="waited 1 s for it: could not connect") as lost:
        bench.begin(TrialLog(said.append))
    assert "pgdrag resume" in str(lost.value.hint)
    (phase,) = said
    assert phase.expected_s == 1.0
    assert (
        "Waiting up to 1 s for it; Ctrl-C ends the run and keeps its trials." in phase.explanation
    )


def test_a_run_goes_on_with_a_server_that_comes_back(alone):
    cluster, _ = alone
    bench, log = trials_on(cluster), TrialLog(ignore)
    stopped_alone(cluster)
    starting = threading.Timer(0.3, started_alone, [cluster])
    starting.start()
    bench.begin(log)
    assert log.phases_s["wait for the server"] > 0
    starting.join()
    bench.close()


def test_ctrl_c_ends_the_wait_for_a_lost_server_and_its_file_is_as_before(alone, patient):
    cluster, _ = alone
    before = digest(cluster)
    words = ("compare", "default", "work_mem=8MB", "--dsn", dsn(cluster), "-f", patient, *LOAD)
    process = start(*words, *ALLOWED)
    heard(process, "Run compare")
    assert wait_until(lambda: digest(cluster) != before, 60)
    stopped_alone(cluster)
    heard(process, "Waiting up to 2 min for it; Ctrl-C ends the run")
    process.send_signal(signal.SIGINT)
    status, _, err = outcome(process)
    assert status == 130
    assert "to undo what was changed there; Ctrl-C acts after that." in err
    assert "were restored in postgresql.auto.conf, but the server does not run" in err
    assert digest(cluster) == before
