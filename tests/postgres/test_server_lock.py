"""One pgdrag at a time works on a server that exists, from whatever machine."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import dsn, heard, outcome, start
from existing import digest, give_settings

from in_process import pgdrag
from pgdrag.driver.connection_string import reach
from pgdrag.driver.progress import TrialLog
from pgdrag.errors import ServerError, ServerLost, UsageError
from pgdrag.existing import server_lock
from pgdrag.existing.permission import Permission
from pgdrag.existing.runner import ExistingTrialRunner
from pgdrag.existing.server_lock import Rival, ServerLock, rivals, wait_until_free
from pgdrag.existing.standing import look_at
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.cluster import Cluster

TIMEOUT_S = 60
LOAD = ("--warm-up", "0", "--measure", "1", "--connections", "1")


@pytest.fixture(scope="module")
def server(scratch: object, empty_snapshot: object, binaries: object) -> Iterator[Cluster]:
    """A server of somebody's, with a role that may do nothing there."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:  # type: ignore[attr-defined]
        give_settings(cluster)
        cluster.start()
        with cluster.connect() as connection:
            connection.execute("CREATE ROLE plain LOGIN")
        yield cluster


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_lock, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(server_lock, "_SETTLED_S", 0.1)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A load that needs no tables."""
    file = tmp_path / "look.sql"
    file.write_text("SELECT count(*) FROM pg_class;\n")
    return file


def host(tmp_path: Path, open_directory: Path, name: str) -> dict[str, str]:
    """Return an environment that shares no file and no lock with another host's."""
    return {
        "PGDRAG_HOME": str(tmp_path / name / "home"),
        "PGDRAG_UNDO": str(tmp_path / name / "undo"),
        "PGDRAG_SCRATCH": str(open_directory / "lock"),
        "PGDRAG_MACHINE": f"{tmp_path.name}-{name}",
    }


def end_session(server: Cluster, words: str) -> None:
    with server.connect() as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name ^@ %s",
            [words],
        )
        assert ended.fetchall() == [(True,)]


def test_a_second_pgdrag_from_another_host_is_refused_or_waits(
    server, script, tmp_path, open_directory
):
    before = digest(server)
    arms = ("compare", "default", "work_mem=8MB", "-f", script, *LOAD)
    allowed = ("--allow-change", "settings", "--yes")
    first, second = (host(tmp_path, open_directory, name) for name in ("one", "two"))
    one = start(*arms, "--dsn", dsn(server), *allowed, **first)
    two: subprocess.Popen[str] | None = None
    try:
        heard(one, "Run compare")
        assert wait_until(lambda: digest(server) != before, TIMEOUT_S)
        # As another role, which sees less.
        status, _, err = pgdrag(*arms, "--dsn", dsn(server, "plain"), *allowed, **second)
        assert status == 2
        assert err.startswith("error: another pgdrag (on ")
        assert f"process {one.pid}) is running an experiment on" in err
        assert "SELECT pg_terminate_backend(" in err
        two = start(*arms, "--dsn", dsn(server), *allowed, "--wait", "5min", **second)
        heard(two, "Waiting up to 5 min: another pgdrag")
        one.send_signal(signal.SIGTERM)
        assert outcome(one)[0] == 130
        heard(two, "Run compare")
        two.send_signal(signal.SIGTERM)
        assert outcome(two)[0] == 130
    finally:
        for process in (one, two):
            if process is not None:
                process.kill()
                process.wait(TIMEOUT_S)
    assert wait_until(lambda: digest(server) == before, TIMEOUT_S)


def test_a_run_does_not_begin_with_what_somebody_has_changed_since_it_looked(
    server, script, tmp_path, open_directory, monkeypatch
):
    def take(*_: object) -> None:
        with server.connect() as connection:
            connection.execute("ALTER SYSTEM SET work_mem = '6MB'")
            connection.execute("SELECT pg_reload_conf()")

    monkeypatch.setattr(ServerLock, "take", take)
    status, _, err = pgdrag(
        *("compare", "default", "work_mem=8MB", "--dsn", dsn(server), "-f", script, *LOAD),
        *("--allow-change", "settings", "--yes"),
        **host(tmp_path, open_directory, "one"),
    )
    with server.connect() as connection:
        connection.execute("ALTER SYSTEM SET work_mem = '5MB'")
        connection.execute("SELECT pg_reload_conf()")
    assert status == 2
    assert "have changed since pgdrag looked at them" in err


def test_a_run_does_not_begin_with_what_somebody_is_writing_since_it_looked(
    server, script, tmp_path, open_directory, monkeypatch
):
    file = server.data_directory / "postgresql.conf"
    text = file.read_text()

    def take(*_: object) -> None:
        server.scratch.write_private(file, text + "maintenance_work_mem = 33MB\n")

    monkeypatch.setattr(ServerLock, "take", take)
    try:
        status, _, err = pgdrag(
            *("compare", "default", "work_mem=8MB", "--dsn", dsn(server), "-f", script, *LOAD),
            *("--allow-change", "settings", "--yes"),
            **host(tmp_path, open_directory, "one"),
        )
    finally:
        server.scratch.write_private(file, text)
        assert server.reload()
    assert status == 2
    assert "changes that it has not loaded" in err


def test_who_undoes_changes_is_waited_for(server):
    with (
        server.connect(application_name="pgdrag restore"),
        pytest.raises(UsageError, match="another pgdrag is undoing its changes"),
    ):
        wait_until_free(reach(dsn(server)))
    wait_until_free(reach(dsn(server)))


def test_a_lock_whose_session_was_ended_is_taken_again(server):
    lock = ServerLock(reach(dsn(server)))
    lock.take()
    end_session(server, "pgdrag run")
    lock.keep()
    assert len(rivals(reach(dsn(server)))) == 1
    lock.give_up()
    assert wait_until(lambda: not rivals(reach(dsn(server))), TIMEOUT_S)


def test_a_lock_that_another_one_has_meanwhile_ends_the_run(server):
    one, two = ServerLock(reach(dsn(server))), ServerLock(reach(dsn(server)))
    one.take()
    with pytest.raises(UsageError):
        two.take()
    end_session(server, "pgdrag run")
    two.take()
    with pytest.raises(ServerError, match="is running an experiment on"):
        one.keep()
    two.give_up()
    one.keep()
    one.give_up()


@pytest.mark.parametrize("way", ["look", "take"])
def test_who_waits_outlasts_a_restart_of_the_server(cluster, monkeypatch, way):
    give_settings(cluster)
    cluster.start()
    there = reach(dsn(cluster))
    one, two, seen = ServerLock(there), ServerLock(there), []
    one.take()
    obstacle = server_lock._obstacle

    def looked(look, wait_s):
        found = obstacle(look, wait_s)
        seen.append(type(found))
        if isinstance(found, Rival):
            cluster.stop()
        elif isinstance(found, ServerLost):
            cluster.start()
        return found

    monkeypatch.setattr(server_lock, "_obstacle", looked)
    if way == "look":
        wait_until_free(there, TIMEOUT_S)
    else:
        two.take(TIMEOUT_S)
    assert {Rival, ServerLost} <= set(seen)
    assert seen[-1] is type(None)
    two.give_up()
    one.give_up()


def test_of_two_that_wait_the_slower_waits_for_the_other(server, monkeypatch):
    one, two = ServerLock(reach(dsn(server))), ServerLock(reach(dsn(server)))
    one.take()
    obstacle, seen = server_lock._obstacle, []

    def looked(look, wait_s):
        found = obstacle(look, wait_s)
        seen.append(found)
        if len(seen) > 2:
            one.give_up()
        return found

    monkeypatch.setattr(server_lock, "_obstacle", looked)
    two.take(TIMEOUT_S)
    assert isinstance(seen[0], Rival)
    assert len(rivals(reach(dsn(server)))) == 1
    two.give_up()


def test_who_has_waited_is_refused_with_how_long_and_what_to_do_about_a_session_that_is_left(
    server,
):
    lock = ServerLock(reach(dsn(server)))
    lock.take()
    with pytest.raises(UsageError, match="after waiting for") as refused:
        wait_until_free(reach(dsn(server)), 0.1)
    assert str(refused.value.hint).startswith("Increase --wait to start after it ends")
    assert "has ended, and run pgdrag restore there" in str(refused.value.hint)
    lock.give_up()


def test_a_trial_does_not_run_if_another_pgdrag_came_during_the_restart(server):
    there = reach(dsn(server))
    lock, other = ServerLock(there), ServerLock(there)

    class Restarted:
        how = "by a restart"

        def apply(self, _: object) -> dict[str, str]:
            with lock.aside():
                assert wait_until(lambda: not rivals(there), TIMEOUT_S)
                other.take()
            return {}

    runner = ExistingTrialRunner(look_at(there), None, None, Permission(), lock, Restarted())
    lock.take()
    with pytest.raises(ServerError, match="is running an experiment on"):
        runner.apply([], TrialLog(lambda _: None))
    other.give_up()
    lock.give_up()


@pytest.mark.parametrize(
    "words", [("bench", "-S", "-T", "1"), ("bench", "-i", "-s", "1"), ("tpcc", "load", "-w", "1")]
)
def test_no_load_begins_beside_an_experiment(server, tmp_path, open_directory, words):
    lock = ServerLock(reach(dsn(server)))
    lock.take()
    one = host(tmp_path, open_directory, "one")
    status, _, err = pgdrag(*words, "--yes", dsn(server), **one)
    lock.give_up()
    assert status == 2
    assert "is running an experiment on" in err
    assert "hint: Give --wait 1h to start after it ends" in err


def test_a_lock_is_not_in_the_way_of_a_restart(server):
    lock = ServerLock(reach(dsn(server)))
    lock.take()
    with lock.aside():
        assert wait_until(lambda: not rivals(reach(dsn(server))), TIMEOUT_S)
    assert len(rivals(reach(dsn(server)))) == 1
    lock.give_up()
