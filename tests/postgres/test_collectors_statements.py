"""What statements came to, as pg_stat_statements tells it."""

from __future__ import annotations

from pathlib import Path

import pytest
from watching import make_table, run_in_session, start, watching

from pgdrag.collectors import Observer
from pgdrag.collectors.statements import Statements
from pgdrag.model.recordings import CALLS, ROWS, Recordings, StatementUse
from pgdrag.servers.cluster import Cluster
from pgdrag.testing.conformance_collectors import window

pytestmark = pytest.mark.postgres

LOADED = {"shared_preload_libraries": "pg_stat_statements"}


def skip_without_extension(cluster: Cluster) -> None:
    found = list(Path(cluster.binaries.bin_dir).parent.rglob("pg_stat_statements.so"))
    if not found:
        pytest.skip("this PostgreSQL was built without pg_stat_statements")


def recordings_of(collector: Statements) -> Recordings:
    return collector.recordings(window(committed=1))


def use_of(collector: Statements, words: str) -> StatementUse:
    (found,) = [use for use in recordings_of(collector).of(StatementUse) if words in use.query]
    return found


def test_a_statement_has_its_calls_rows_and_time(any_cluster: Cluster) -> None:
    skip_without_extension(any_cluster)
    start(
        any_cluster, **LOADED, track_io_timing="on", **{"pg_stat_statements.track_planning": "on"}
    )
    make_table(any_cluster)
    collector = Statements()
    with watching(collector, any_cluster) as watch:
        run_in_session(any_cluster, *["SELECT filler FROM rows WHERE id < 101"] * 5)
        run_in_session(any_cluster, "UPDATE rows SET filler = 'x' WHERE id < 101")
        watch.committed = 2
    read, written = use_of(collector, "SELECT filler"), use_of(collector, "UPDATE rows")
    assert (read.calls, read.rows) == (5, 500)  # WAL of theirs there may be: they prune
    assert "$1" in read.query
    assert read.blocks_hit + read.blocks_read >= 5
    assert written.rows == 100
    assert written.wal_bytes > 100 * 80
    assert written.blocks_dirtied > 0
    assert read.plan_s is not None
    assert read.plan_s > 0
    assert read.io_s is not None
    assert watch["statements_per_transaction"] == 3
    assert watch["execution_s_per_transaction"] == pytest.approx(
        sum(use.exec_s for use in recordings_of(collector).of(StatementUse)) / 2
    )
    assert watch["planning_s_per_transaction"] > 0


def test_neither_what_came_before_nor_pgdrags_own_statements_are_told(
    any_cluster: Cluster,
) -> None:
    skip_without_extension(any_cluster)
    start(any_cluster, **LOADED)
    run_in_session(any_cluster, *["SELECT 1"] * 3)
    collector = Statements()
    with any_cluster.connect() as connection:
        observer = Observer(any_cluster, connection)
        collector.before(observer)
        observer.query("SELECT count(*) FROM pg_class")
        collector.sample(observer)
        run_in_session(any_cluster, "SELECT 1")
        collector.sample(observer)
        collector.sample(observer)
        collector.after(observer)
    assert [(use.query, use.calls) for use in recordings_of(collector).of(StatementUse)] == [
        ("SELECT $1", 1)
    ]
    calls, rows = recordings_of(collector).series
    assert (calls.name, rows.name) == (CALLS, ROWS)
    assert calls.values == rows.values
    assert calls.values[0] > 0
    assert calls.values[1] == 0


def test_the_workloads_database_gets_no_extension(running_or_not: Cluster) -> None:
    with watching(Statements(), running_or_not) as watch:
        run_in_session(running_or_not, "SELECT 1")
    assert watch["statements_per_transaction"] == 1
    with running_or_not.connect() as client:
        row = client.execute("SELECT count(*) FROM pg_extension WHERE extname <> 'plpgsql'")
        assert row.fetchone() == (0,)


@pytest.fixture
def running_or_not(cluster: Cluster) -> Cluster:
    skip_without_extension(cluster)
    start(cluster, **LOADED)
    return cluster


def test_a_server_without_it_has_a_reason(shared_cluster: Cluster) -> None:
    collector = Statements()
    with watching(collector, shared_cluster) as watch:
        pass
    reason = "pg_stat_statements is not loaded (shared_preload_libraries)"
    assert watch.missing("execution_s_per_transaction") == reason
    assert recordings_of(collector).missing == {"statements": reason}


def test_an_extension_of_the_workloads_own_is_used(running_or_not: Cluster) -> None:
    collector = Statements()
    with running_or_not.connect() as client:
        client.execute('CREATE SCHEMA "Odd one"')
        client.execute('CREATE EXTENSION pg_stat_statements SCHEMA "Odd one"')
        observer = Observer(running_or_not, client)
        collector.before(observer)
        run_in_session(running_or_not, "SELECT 1")
        collector.after(observer)
    assert [use.query for use in recordings_of(collector).of(StatementUse)] == ["SELECT $1"]


@pytest.mark.parametrize(
    ("setting", "value"), [("compute_query_id", "off"), ("pg_stat_statements.track", "none")]
)
def test_what_keeps_statements_from_being_counted_is_named(
    cluster: Cluster, setting: str, value: str
) -> None:
    skip_without_extension(cluster)
    start(cluster, **LOADED, **{setting: value})
    with watching(Statements(), cluster) as watch:
        pass
    assert watch.missing("statements_per_transaction") == f"{setting} is {value}"


def test_planning_that_is_not_tracked_is_not_zero(running_or_not: Cluster) -> None:
    with watching(Statements(), running_or_not) as watch:
        run_in_session(running_or_not, "SELECT 1")
    reason = "pg_stat_statements.track_planning is off"
    assert watch.missing("planning_s_per_transaction") == reason


@pytest.mark.parametrize(
    "any_cluster", ["15"], indirect=True
)  # its programs have LLVM, and it is the first to count
def test_compiling_is_counted_where_the_server_can(any_cluster: Cluster) -> None:
    skip_without_extension(any_cluster)
    start(any_cluster, **LOADED, jit="on", jit_above_cost="0", jit_inline_above_cost="0")
    with any_cluster.connect() as client:
        (is_there,) = client.execute("SELECT pg_jit_available()").fetchone() or (False,)
    if not is_there:
        pytest.skip("this PostgreSQL was built without LLVM")
    make_table(any_cluster)
    with watching(Statements(), any_cluster) as watch:
        run_in_session(any_cluster, "SELECT sum(id) FROM rows WHERE id % 3 = 1")
    assert watch["jit_s_per_transaction"] > 0.001
