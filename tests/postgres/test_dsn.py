"""A server is named as psql names it, and what the driver is told is what libpq connected to."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import dsn

from pgdrag.driver.connection_string import names_a_server, reach
from pgdrag.driver.process import Driver, Target, find_driver
from pgdrag.errors import PgdragError, ServerLost, UsageError
from pgdrag.model.load import LoadProfile
from pgdrag.servers.cluster import Cluster
from pgdrag.workloads.pgbench import Script, pgbench_job


@pytest.fixture(autouse=True)
def no_environment(
    no_libpq_environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))


@pytest.fixture
def strict_cluster(cluster: Cluster) -> Cluster:
    """A cluster that lets "pgdrag" in without and "guest" only with a password."""
    cluster.scratch.write_private(
        cluster.data_directory / "pg_hba.conf",
        "local all pgdrag trust\nlocal all guest scram-sha-256\n",
    )
    cluster.start()
    with cluster.connect() as connection:
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 'open sesame'")
    return cluster


def test_a_connection_string_leads_to_its_server(running_cluster: Cluster) -> None:
    found = reach(dsn(running_cluster))
    where = str(running_cluster.socket_directory)
    assert found.target == Target(where, running_cluster.port, "pgdrag", "pgdrag")
    assert found.version == running_cluster.binaries.version
    assert found.is_local
    assert found.production_signs == ()
    with found.connect() as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_the_environment_says_the_rest(
    running_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", str(running_cluster.socket_directory))
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGUSER", "pgdrag")
    # A word without "=" is a database, as to psql; an option goes over the environment.
    found = reach("postgres", {"port": running_cluster.port})
    assert (found.target.database, found.target.port) == ("postgres", running_cluster.port)


def test_other_sessions_are_a_doubt(running_cluster: Cluster) -> None:
    with running_cluster.connect():
        assert reach(dsn(running_cluster)).production_signs == ("it has 1 other session",)


def test_a_password_comes_from_the_password_file(strict_cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    file.write_text("*:*:*:guest:open sesame\n")
    file.chmod(0o600)
    found = reach(dsn(strict_cluster, "guest"))
    assert found.target.password == "open sesame"
    found.connect().close()


def test_a_password_is_asked_for_where_somebody_is_there(strict_cluster: Cluster) -> None:
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "open sesame"

    assert reach(dsn(strict_cluster, "guest"), ask_password=answer).target.password
    assert asked == ["Password: "]


def test_a_missing_or_wrong_password_is_told_without_it(strict_cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="asks for a password") as missing:
        reach(dsn(strict_cluster, "guest"))
    assert "PGPASSWORD" in (missing.value.hint or "")
    with pytest.raises(ServerLost, match="password authentication failed") as wrong:
        reach(f"{dsn(strict_cluster, 'guest')} password=mellon")
    assert "mellon" not in str(vars(wrong.value))


def test_a_server_never_shows_its_password(strict_cluster: Cluster) -> None:
    found = reach(f"{dsn(strict_cluster, 'guest')} password='open sesame'")
    assert "sesame" not in found.name
    assert "sesame" not in found.public_conninfo()
    assert "user=guest" in found.public_conninfo()
    assert "sesame" in found.conninfo()
    assert "_conninfo" not in repr(found)


def test_nobody_there_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ServerLost) as found:
        reach(f"host={tmp_path} dbname=nothing")
    assert "\n" not in found.value.message
    assert "no such file" in found.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host", "database"),  # a word is a database's name, and the default server is not there
        ("hots=db1", 'invalid connection option "hots"'),
        ("postgresql://me:hush%zz@db1/x", "percent-encoding"),
        ("host=/nowhere sslmode=verify", 'invalid sslmode value "verify"'),
        ("host=db1 password=my hush", 'missing "=" after a word'),
        ("postgresql://me:hush/x@db1/x", "the port is not a number"),
    ],
)
def test_what_cannot_be_meant_is_told(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGHOST", str(tmp_path))
    with pytest.raises(PgdragError) as found:
        reach(text)
    told = f"{found.value.message} {found.value.hint}"
    assert words in told.replace("PGDATABASE", "database")
    assert "hush" not in told


def test_options_for_the_session_hold_for_the_drivers_sessions_too(
    running_cluster: Cluster,
) -> None:
    server = reach(f"{dsn(running_cluster)} options='-c work_mem=1MB -c jit=off'")
    script = Script(name="one", text="SELECT 1 / (current_setting('work_mem') = '1MB')::int;")
    load = LoadProfile(
        connections=2, warm_up_s=0, measure_s=30, budget_s=30, min_commits=0, transactions=3
    )
    found = Driver(find_driver()).run(server.target, pgbench_job((script,), scale=1), load, seed=1)
    assert (found.total.committed, found.total.failed) == (6, 0)


@pytest.mark.parametrize(
    "option",
    [
        "client_encoding=latin1",
        "sslcrl=/dev/null",
        "ssl_max_protocol_version=TLSv1.2",
        "ssl_min_protocol_version=TLSv1.3",
        "requirepeer=postgres",
        "gssencmode=require",
        "replication=database",
    ],
)
def test_what_the_load_driver_cannot_do_is_refused_by_name(option: str) -> None:
    name = option.partition("=")[0]
    with pytest.raises(UsageError, match=f"cannot pass connection option {name}="):
        reach(f"host=/nowhere {option}")


def test_only_places_name_a_server() -> None:
    assert not names_a_server(None, {}, {"PGUSER": "me", "PGHOST": ""})
    assert names_a_server(None, {}, {"PGSERVICE": "bench"})
    assert names_a_server(None, {"host": "db1"}, {})
    assert names_a_server("bench", {}, {})


def test_what_does_not_drive_a_load_may_ask_for_tls_and_options(running_cluster: Cluster) -> None:
    found = reach(f"{dsn(running_cluster)} options='-c work_mem=1MB'", is_for_driver=False)
    with found.connect(application_name="looks") as connection:
        shown = connection.execute(
            "SELECT current_setting('work_mem'), current_setting('application_name')"
        )
        assert shown.fetchall() == [("1MB", "looks")]
    with pytest.raises(ServerLost):  # tried, and not refused beforehand
        reach("host=127.0.0.1 port=1 sslmode=require", is_for_driver=False)
