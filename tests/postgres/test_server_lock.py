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
from pgdrag.errors import ServerError, UsageError
from pgdrag.existing.server_lock import ServerLock, rivals, wait_until_free
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
    monkeypatch.setattr("pgdrag.existing.server_lock._PATIENCE_S", 0.1)


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
    def take(_: ServerLock) -> None:
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


def test_a_lock_is_not_in_the_way_of_a_restart(server):
    lock = ServerLock(reach(dsn(server)))
    lock.take()
    with lock.aside():
        assert wait_until(lambda: not rivals(reach(dsn(server))), TIMEOUT_S)
    assert len(rivals(reach(dsn(server)))) == 1
    lock.give_up()
