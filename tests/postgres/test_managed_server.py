"""Experiments on a server of a managed service: its customers are no superusers, whatever their role is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import dsn
from existing import digest, give_settings

from in_process import pgdrag
from pgdrag.servers.cluster import Cluster

# The oldest version and the newest, each as another service has it.
SERVICES = {
    14: ("azure_pg_admin", "Azure Database for PostgreSQL"),
    18: ("rds_superuser", "Amazon RDS"),
}
ARM = """
work_mem = 8MB             # of any session
deadlock_timeout = 2s      # a superuser's, unless a role was granted it: PostgreSQL 15 and later
shared_buffers = 64MB
autovacuum_naptime = 5s
"""
SHORT = ("--warm-up", "0", "--measure", "1", "--connections", "1", "--budget", "9s", "--yes")


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PGDRAG_UNDO", str(tmp_path / "undo"))
    monkeypatch.setenv("PGDRAG_SCRATCH", str(open_directory / "managed"))


@pytest.fixture
def managed(any_cluster: Cluster) -> Cluster:
    """A server with the role that a service gives its customers, who have a value of their own there."""
    give_settings(any_cluster)
    any_cluster.start()
    major = any_cluster.binaries.major
    service, _ = SERVICES[major]
    commands = [
        f"CREATE ROLE {service} NOLOGIN",
        f"GRANT pg_monitor, pg_signal_backend TO {service}",
        f"CREATE ROLE master LOGIN CREATEDB CREATEROLE IN ROLE {service}",
        "CREATE DATABASE shop OWNER master",
        "ALTER ROLE master IN DATABASE shop SET work_mem = '6MB'",
    ]
    if major >= 15:
        commands.append(f"GRANT SET ON PARAMETER deadlock_timeout TO {service}")
    with any_cluster.connect() as connection:
        for command in commands:
            connection.execute(command.encode())
    return any_cluster


def state(cluster: Cluster) -> tuple[object, ...]:
    """Return all that an experiment may have changed there."""
    with cluster.connect() as connection:
        return (
            digest(cluster),
            connection.execute("SELECT name, setting, source FROM pg_settings").fetchall(),
            connection.execute("SELECT * FROM pg_db_role_setting ORDER BY 1, 2").fetchall(),
            connection.execute("SELECT datname FROM pg_database ORDER BY 1").fetchall(),
        )


def test_what_is_in_reach_works_and_is_undone_and_the_rest_is_listed_with_the_reason(
    managed, tmp_path
):
    major, before = managed.binaries.major, state(managed)
    _, service = SERVICES[major]
    arm, script = tmp_path / "mine.conf", tmp_path / "look.sql"
    arm.write_text(ARM)
    script.write_text("SELECT count(*) FROM pg_class;\n")
    compare = ("compare", "default", arm, "--dsn", dsn(managed, "master", database="shop"))
    status, out, err = pgdrag(
        *compare, "-f", script, *SHORT, "--allow-change", "settings", "--json"
    )
    assert status == 0, err
    found = json.loads(out)
    assert {one["outcome"] for one in found["trials"]} == {"measured"}
    applied = {x["level"]["name"]: x for one in found["rungs"] for x in one["applied"]}
    assert (applied["work_mem"]["effective"], applied["work_mem"]["default"]) == (
        "8192kB",
        "6144kB",
    )
    told = " ".join(err.split())
    no_altering = f"and {service} has no ALTER SYSTEM"
    assert (
        f'setting "shared_buffers" is out of reach: it is set at the server\'s start, {no_altering}'
        in told
    )
    assert (
        f'setting "autovacuum_naptime" is out of reach: it is set for the whole server, {no_altering}'
        in told
    )
    by_superuser = (
        f'setting "deadlock_timeout" is out of reach: it is set by a superuser, {no_altering}'
    )
    if major >= 15:
        assert applied["deadlock_timeout"]["effective"] == "2000ms"
        assert by_superuser not in told
    else:
        assert by_superuser in told
    assert state(managed) == before


def test_a_role_that_may_make_databases_gets_one_for_the_workload(managed):
    before = state(managed)
    status, _, err = pgdrag(
        *("compare", "default", "work_mem=8MB", "--dsn", dsn(managed, "master", database="shop")),
        *("--workload", "pgbench", "--pgbench-scale", "1", *SHORT),
        *("--allow-change", "settings", "--allow-change", "database"),
    )
    assert status == 0, err
    assert "was dropped" in err
    assert state(managed) == before
