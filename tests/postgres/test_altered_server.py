"""A server's settings are what they were before, however a run that changes them ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from commands import dsn
from existing import THEIRS, digest, give_settings, started_alone, stopped_alone

from pgdrag.driver.connection_string import reach
from pgdrag.errors import ServerDidNotStart, ServerError, ServerLost, SettingError
from pgdrag.existing.altering import SystemSettings, read_back
from pgdrag.existing.datasets import Upkeep
from pgdrag.existing.standing import Standing, look_at
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo import UndoJournal, reaching
from pgdrag.host.undo.altered_system import waiting_for_restart
from pgdrag.live.server import answering
from pgdrag.model import Level
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot

# The guardian takes a second; the machine may be busy with other tests.
TIMEOUT_S = 60


@pytest.fixture(autouse=True)
def undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UndoJournal]:
    monkeypatch.setenv("PGDRAG_UNDO", str(tmp_path / "undo"))
    journal = UndoJournal.open()
    yield journal
    journal.close()


@pytest.fixture
def server(cluster: Cluster) -> Cluster:
    """A server with settings of somebody's."""
    give_settings(cluster)
    cluster.start()
    return cluster


@pytest.fixture
def any_server(any_cluster: Cluster) -> Cluster:
    """The same of the oldest version, and of the newest."""
    give_settings(any_cluster)
    any_cluster.start()
    return any_cluster


@pytest.fixture
def alone(cluster: Cluster) -> Iterator[tuple[Cluster, str]]:
    """A server that no process of the test's has as a child, and how it is restarted."""
    give_settings(cluster)
    restart_command = started_alone(cluster)
    yield cluster, restart_command
    stopped_alone(cluster)


def standing_of(cluster: Cluster) -> Standing:
    return look_at(reach(dsn(cluster)))


def shown(cluster: Cluster, name: str) -> str:
    with cluster.connect() as connection:
        ((value,),) = connection.execute("SELECT current_setting(%s)", [name]).fetchall()
        return str(value)


def level(name: str, value: str) -> Level:
    return Level("setting", name, value)


def test_a_treatment_is_in_force_and_then_everything_is_as_before_byte_by_byte(any_server, undo):
    server = any_server
    before, standing = digest(server), standing_of(server)
    settings = SystemSettings(standing)
    settings.apply({"work_mem": "7MB", "enable_seqscan": "off"})
    assert (shown(server, "work_mem"), shown(server, "enable_seqscan")) == ("7MB", "off")
    levels = [level("work_mem", "7MB"), level("enable_seqscan", "off")]
    memory, scan = read_back(standing, levels, how="so")
    assert (memory.effective, memory.default, memory.note) == ("7168kB", "5120kB", "")
    assert (scan.effective, scan.default) == ("off", "on")
    # The next treatment has nothing of this one.
    settings.apply({"random_page_cost": "3"})
    assert [shown(server, x) for x in ("work_mem", "enable_seqscan", "random_page_cost")] == [
        "5MB",
        "on",
        "3",
    ]
    result = settings.undo()
    assert result is not None
    assert result.state == "restored"
    assert digest(server) == before
    assert shown(server, "random_page_cost") == THEIRS["random_page_cost"]
    assert undo.steps() == []


def test_what_somebody_else_changed_meanwhile_is_left_alone(server, undo):
    settings = SystemSettings(standing_of(server))
    settings.apply({"work_mem": "7MB", "enable_seqscan": "off"})
    with server.connect() as connection:
        connection.execute("ALTER SYSTEM SET work_mem = '9MB'")
    with pytest.raises(ServerError, match="somebody else has changed work_mem"):
        settings.apply({"work_mem": "8MB"})
    result = settings.undo()
    assert result is not None
    assert result.state == "changed since"
    assert "work_mem is 9MB" in result.sentence
    assert (shown(server, "work_mem"), shown(server, "enable_seqscan")) == ("9MB", "on")
    (left,) = undo.steps()
    assert undo.restore(left, overwrite=True).state == "restored"
    assert shown(server, "work_mem") == "5MB"


@pytest.mark.parametrize("first", [{}, {"work_mem": "7MB"}], ids=["first", "later"])
def test_what_somebody_else_is_writing_is_not_put_in_force(server, first):
    before, settings = digest(server), SystemSettings(standing_of(server))
    if first:
        settings.apply(first)
    theirs = shown(server, "maintenance_work_mem")
    file = server.data_directory / "postgresql.conf"
    text = file.read_text()
    server.scratch.write_private(file, text + "maintenance_work_mem = 33MB\n")
    with pytest.raises(ServerError, match="changes that it has not loaded"):
        settings.apply({"work_mem": "8MB"})
    assert shown(server, "maintenance_work_mem") == theirs
    server.scratch.write_private(file, text)
    result = settings.undo()
    # Nothing was changed before the first look, so that no undo has the server read its files, either.
    assert (result is None) is not bool(first)
    assert digest(server) == before


def test_upkeep_does_not_wait_for_a_lock_for_ever(server, monkeypatch):
    monkeypatch.setitem(reaching._FIRM, "lock_timeout", ("100ms", 0))
    with server.connect() as holder:
        holder.execute("CREATE TABLE public.things AS SELECT 1 AS id")
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE public.things")
        with pytest.raises(ServerLost, match="lock timeout"):
            Upkeep(("things",)).run(reach(dsn(server)))
        holder.execute("ROLLBACK")


def test_questions_that_are_not_answered_are_a_lost_server(server, monkeypatch):
    standing = standing_of(server)
    monkeypatch.setattr("pgdrag.existing.altering._READ_BACK", "SELECT %s / 0")
    with pytest.raises(ServerLost, match="refused"):
        read_back(standing, [level("work_mem", "7MB")], how="so")
    monkeypatch.setattr("pgdrag.live.server.ANSWER_TIMEOUT_S", 0.1)
    with (
        server.connect() as connection,
        pytest.raises(ServerLost, match=r"db did not answer within 0\.1 s"),
        answering(connection, "db"),
    ):
        connection.execute("SELECT pg_sleep(60)")


def test_an_undo_waits_for_a_session_where_the_server_is_full(cluster, undo, monkeypatch):
    give_settings(cluster, {"max_connections": "5", "max_wal_senders": "1"})
    cluster.start()
    before = digest(cluster)
    settings = SystemSettings(standing_of(cluster))
    settings.apply({"work_mem": "9MB"})
    others: list[psycopg.Connection] = []

    def one_leaves(_: float) -> None:
        others.pop().close()

    with suppress(psycopg.OperationalError):
        while len(others) < 20:
            others.append(psycopg.connect(cluster.conninfo(), application_name="application"))
    assert len(others) == 5
    monkeypatch.setattr(reaching, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=one_leaves))
    result = settings.undo()
    assert result is not None
    assert result.is_settled, result.sentence
    assert len(others) < 5
    for other in others:
        other.close()
    assert digest(cluster) == before


def test_a_setting_that_somebody_adds_meanwhile_stays(server):
    settings = SystemSettings(standing_of(server))
    settings.apply({"work_mem": "7MB"})
    with server.connect() as connection:
        connection.execute("ALTER SYSTEM SET enable_hashjoin = off")
    result = settings.undo()
    assert result is not None
    assert result.is_settled
    assert "other lines than before" in result.sentence
    assert (shown(server, "work_mem"), shown(server, "enable_hashjoin")) == ("5MB", "off")


def test_no_treatment_hinders_its_own_undo(any_server):
    server = any_server
    before = digest(server)
    settings = SystemSettings(standing_of(server))
    hindering = {
        "default_transaction_read_only": "on",
        "statement_timeout": "1ms",
        "lock_timeout": "1ms",
        "idle_in_transaction_session_timeout": "1ms",
        "idle_session_timeout": "1ms",
    }
    settings.apply(hindering)
    settings.apply({"search_path": "a,b"})
    settings.apply({**hindering, "search_path": "b, a"})
    result = settings.undo()
    assert result is not None
    assert result.state == "restored", result.sentence
    assert digest(server) == before


def test_a_value_that_the_server_refuses_is_said_and_leaves_nothing(server):
    before = digest(server)
    settings = SystemSettings(standing_of(server))
    search = "default_text_search_config"
    own = shown(server, search)
    settings.apply({search: "pg_catalog.german"})
    refused = settings.apply({"work_mem": "7MB", search: "no.such"})
    words = (
        f'this server refuses {search} = no.such: invalid value for parameter "{search}": "no.such"'
    )
    assert refused == {search: f"{words} (give another value, or omit it)"}
    # The value of the treatment before is not kept instead.
    assert (shown(server, "work_mem"), shown(server, search)) == ("7MB", own)
    with pytest.raises(SettingError, match="this server refuses default_text_search_config"):
        settings.apply({search: "no.such"})
    assert settings.undo() is not None
    assert digest(server) == before


def test_no_password_reaches_the_undo_journal(server, undo):
    server.scratch.write_private(
        server.data_directory / "pg_hba.conf",
        "local all pgdrag trust\nlocal all boss scram-sha-256\n",
    )
    with server.connect() as connection:
        connection.execute("CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'open sesame'")
        connection.execute("SELECT pg_reload_conf()")
    before = digest(server)
    standing = look_at(reach(f"{dsn(server, 'boss')} password='open sesame'"))
    settings = SystemSettings(standing)
    settings.apply({"work_mem": "7MB"})
    assert "sesame" not in undo.path.read_text()
    assert settings.undo().state == "restored"  # type: ignore[union-attr]
    assert digest(server) == before


KILLED = """
import os, sys, time
from pgdrag.driver.connection_string import reach
from pgdrag.existing.altering import SystemSettings
from pgdrag.existing.standing import look_at
dsn, command, delay_s, *values = sys.argv[1:]
settings = SystemSettings(look_at(reach(dsn)), command, is_restarted=bool(command))
if delay_s:
    import signal, threading
    threading.Timer(float(delay_s), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
for round in range(1000 if delay_s else 1):
    for value in values:
        name, _, level = value.partition("=")
        settings.apply({name: level})
print("applied", flush=True)
time.sleep(600)
"""


def killed(
    cluster: Cluster,
    *values: str,
    user: str = "pgdrag",
    command: str = "",
    delay: str = "",
    more: str = "",
) -> None:
    """Have a process change a server, and kill it: when it has, or some time after it has begun."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, dsn(cluster, user) + more, command, delay, *values],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # This process holds its own.
        env={**os.environ, "PGDRAG_UNDO": f"{os.environ['PGDRAG_UNDO']}-of-the-killed"},
    )
    assert process.stdout is not None
    if not delay:
        assert process.stdout.readline() == "applied\n"
        process.kill()
    process.wait(TIMEOUT_S)


def test_after_kill_9_the_guardian_gives_the_settings_back(server):
    before = digest(server)
    killed(server, "work_mem=7MB", "random_page_cost=3")
    assert wait_until(lambda: digest(server) == before, TIMEOUT_S)
    assert wait_until(lambda: shown(server, "random_page_cost") == "1.7", TIMEOUT_S)


def test_the_guardian_knows_the_password_that_is_nowhere_on_disk(server, tmp_path):
    server.scratch.write_private(
        server.data_directory / "pg_hba.conf",
        "local all pgdrag trust\nlocal all boss scram-sha-256\n",
    )
    with server.connect() as connection:
        connection.execute("CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'open sesame'")
        connection.execute("SELECT pg_reload_conf()")
    before = digest(server)
    killed(server, "work_mem=7MB", user="boss", more=" password='open sesame'")
    assert wait_until(lambda: digest(server) == before, TIMEOUT_S)


def test_a_restart_puts_a_setting_in_force_and_takes_it_back(alone):
    cluster, command = alone
    before = digest(cluster)
    settings = SystemSettings(standing_of(cluster), command, is_restarted=True)
    settings.apply({"max_locks_per_transaction": "80"})
    assert shown(cluster, "max_locks_per_transaction") == "80"
    assert settings.undo().state == "restored"  # type: ignore[union-attr]
    assert digest(cluster) == before
    assert shown(cluster, "max_locks_per_transaction") == "64"


def test_no_restart_puts_in_force_what_somebody_else_has_changed(alone, undo):
    cluster, command = alone
    before = digest(cluster)
    settings = SystemSettings(standing_of(cluster), command, is_restarted=True)
    settings.apply({"max_locks_per_transaction": "80"})
    with cluster.connect() as connection:
        connection.execute("ALTER SYSTEM SET max_wal_senders = 3")
    with pytest.raises(ServerError, match="somebody else's change of max_wal_senders waits"):
        settings.apply({"max_locks_per_transaction": "90"})
    result = settings.undo()
    assert result is not None
    assert result.state == "failed"
    assert "what somebody else has changed (max_wal_senders)" in result.sentence
    assert shown(cluster, "max_wal_senders") == "10"
    with cluster.connect() as connection:
        connection.execute("ALTER SYSTEM RESET max_wal_senders")
    (left,) = undo.steps()
    assert undo.restore(left).state == "restored"
    assert (digest(cluster), shown(cluster, "max_locks_per_transaction")) == (before, "64")


def test_a_server_that_does_not_start_so_is_started_again_as_it_was(alone):
    cluster, command = alone
    before = digest(cluster)
    settings = SystemSettings(standing_of(cluster), command, is_restarted=True)
    with pytest.raises(ServerDidNotStart):
        settings.apply({"shared_preload_libraries": "no_such_library"})
    assert digest(cluster) == before
    assert shown(cluster, "shared_preload_libraries") == ""


def test_after_kill_9_the_guardian_restarts_the_server_with_its_own_settings(alone):
    cluster, command = alone
    before = digest(cluster)
    killed(cluster, "max_locks_per_transaction=80", command=command)
    assert wait_until(lambda: digest(cluster) == before, TIMEOUT_S)
    assert wait_until(lambda: _locks(cluster) == "64", TIMEOUT_S)


def _locks(cluster: Cluster) -> str:
    try:
        return shown(cluster, "max_locks_per_transaction")
    except (ServerError, psycopg.OperationalError):
        return "it restarts"


@pytest.mark.parametrize("command", ["true", "false"])
def test_a_command_that_restarts_nothing_is_an_error_and_everything_is_undone(
    server, monkeypatch, command
):
    monkeypatch.setattr("pgdrag.existing.altering.COMES_BACK_S", 0.1)
    before = digest(server)
    settings = SystemSettings(standing_of(server), command, is_restarted=True)
    with pytest.raises(ServerError, match="did not restart"):
        settings.apply({"max_locks_per_transaction": "80"})
    assert digest(server) == before


# Seconds from the first change on; thousands of other moments: make campaign ONLY=existing,restarting
MOMENTS = ["0.044", "0.187", "0.425"]
RESTART_MOMENTS = ["0.310", "1.130"]


@pytest.fixture(scope="module")
def lone(
    scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot
) -> Iterator[tuple[Cluster, str]]:
    """As `alone`, one for all moments: with the end of any other cluster it would end, too."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        give_settings(cluster)
        restart_command = started_alone(cluster)
        yield cluster, restart_command
        stopped_alone(cluster)


def wait_until_undone(undo: UndoJournal) -> None:
    """Wait until what the killed process had changed is undone."""
    place = undo.directory.with_name(f"{undo.directory.name}-of-the-killed")
    assert wait_until(lambda: not UndoJournal.has_leftovers(place), TIMEOUT_S)


@pytest.mark.parametrize("delay", MOMENTS)
def test_killed_at_any_moment_everything_is_as_before(server, delay, undo):
    before = digest(server)
    killed(server, "work_mem=7MB", "work_mem=8MB", "enable_seqscan=off", delay=delay)
    wait_until_undone(undo)
    assert digest(server) == before
    assert wait_until(lambda: shown(server, "work_mem") == "5MB", TIMEOUT_S)


@pytest.mark.parametrize("delay", RESTART_MOMENTS)
def test_killed_at_any_moment_of_a_restart_the_server_runs_with_its_own_settings(lone, delay, undo):
    cluster, command = lone
    before = digest(cluster)
    values = ("max_locks_per_transaction=80", "max_locks_per_transaction=90")
    killed(cluster, *values, command=command, delay=delay)
    wait_until_undone(undo)
    assert digest(cluster) == before
    # A restart that had begun before the first change was in force may still be under way.
    assert wait_until(lambda: _locks(cluster) == "64", TIMEOUT_S)
    with cluster.connect() as connection:
        # Of a line that is gone and never was in force the server itself says for ever that a restart is pending.
        assert waiting_for_restart(connection) == []
