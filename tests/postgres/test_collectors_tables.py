"""Collectors of rows, horizons and caches see on a real server what they say they see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from watching import ROWS, make_table, run_in_session, start, watching

from conftest import newest
from pgdrag.collectors import Observer, Window
from pgdrag.collectors.horizon import Horizon
from pgdrag.collectors.relations import Relations, stored_bytes
from pgdrag.collectors.views import Database, Indexes, Io, Slru, Tables
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.cluster import Cluster

pytestmark = pytest.mark.postgres


# tables


@pytest.mark.parametrize(("index", "hot"), [("", 1.0), ("CREATE INDEX ON counters (n)", 0.0)])
def test_an_update_is_hot_unless_an_index_needs_the_column(
    running: Callable[..., Cluster], index: str, hot: float
) -> None:
    cluster = running()
    run_in_session(
        cluster,
        "CREATE TABLE counters (id int PRIMARY KEY, n int) WITH (fillfactor = 40)",
        "INSERT INTO counters SELECT id, 0 FROM generate_series(1, 100) AS id",
        *([index] if index else []),
    )
    with watching(Tables(), cluster) as watch:
        run_in_session(cluster, "UPDATE counters SET n = n + 1")
        watch.committed = 10
    assert watch["updates_per_transaction"] == 10
    assert (watch["hot_update_share"], watch["hot_version_share"]) == (hot, hot)


def test_deleted_rows_are_dead_and_inserted_ones_growth(running: Callable[..., Cluster]) -> None:
    cluster = running()
    make_table(cluster)
    with watching(Tables(), cluster) as watch:
        run_in_session(
            cluster,
            "INSERT INTO rows SELECT n, '' FROM generate_series(100001, 120000) AS n",
            "DELETE FROM rows WHERE id <= 10000",
        )
    # The server's own count of living rows is an estimate, and may count those of the first session twice.
    assert watch["dead_tuple_share"] == pytest.approx(0.2, abs=0.06)
    assert watch.detail("dead_tuple_share") == "10,000 dead tuples."
    assert watch["database_growth_bytes_per_transaction"] > 20_000 * 80
    assert watch.missing("hot_update_share") == "no row was updated in the window"
    assert watch["hot_version_share"] == 0


def test_rows_that_are_only_inserted_leave_no_old_versions(running: Callable[..., Cluster]) -> None:
    cluster = running()
    make_table(cluster)
    with watching(Tables(), cluster) as watch:
        run_in_session(cluster, "INSERT INTO rows VALUES (100001, '')")
    assert watch.missing("hot_version_share") == "no row was updated or deleted in the window"


@newest
def test_what_vacuum_gives_back_is_no_growth(running: Callable[..., Cluster]) -> None:
    cluster = running()
    make_table(cluster)
    run_in_session(cluster, "DELETE FROM rows")
    with watching(Tables(), cluster) as watch:
        run_in_session(cluster, "VACUUM rows")
    assert watch["database_growth_bytes_per_transaction"] == 0


# relations


def test_the_relations_that_grew_are_named_with_their_bytes(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    make_table(cluster)
    run_in_session(cluster, "CREATE TABLE other (a int)", "CREATE INDEX ON rows (filler)")
    with watching(Relations(), cluster) as watch:
        run_in_session(
            cluster,
            "INSERT INTO rows SELECT n, n FROM generate_series(100001, 140000) AS n",
            # Rows of the catalogs that are dead as soon as the next table is made.
            "DO $$ BEGIN FOR n IN 1..500 LOOP CREATE TEMPORARY TABLE brief (a int, b int, c int);"
            " DROP TABLE brief; END LOOP; END $$",
        )
        watch.committed = 4
    assert watch["table_growth_bytes_per_transaction"] > 40_000 * 100 / 4
    assert watch["index_growth_bytes_per_transaction"] > 40_000 * 80 / 4
    grown = watch.detail("table_growth_bytes_per_transaction")
    assert grown.startswith("Grew most: public.rows ")
    assert "other" not in grown
    indexes = watch.detail("index_growth_bytes_per_transaction")
    assert indexes.index("public.rows_filler_idx") < indexes.index("public.rows_pkey")
    assert watch["catalog_growth_bytes_per_transaction"] > 500 * 6 * 100 / 4
    assert "pg_catalog.pg_attribute " in watch.detail("catalog_growth_bytes_per_transaction")


def test_sizes_are_those_that_the_server_tells(running: Callable[..., Cluster]) -> None:
    cluster = running()
    make_table(cluster)
    run_in_session(
        cluster,
        "CREATE TABLE long_rows (a text)",
        "ALTER TABLE long_rows ALTER a SET STORAGE EXTERNAL",
        "INSERT INTO long_rows SELECT repeat('x', 20000) FROM generate_series(1, 100)",
    )
    with watching(Relations(), cluster) as watch:
        pass
    with cluster.connect() as client:
        row = client.execute(
            "SELECT sum(pg_table_size(oid)), sum(pg_indexes_size(oid)) FROM pg_class"
            " WHERE relname IN ('rows', 'long_rows')"
        ).fetchone()
    assert row == (watch["tables_bytes"], watch["indexes_bytes"])
    assert watch.detail("tables_bytes").startswith("Of 2, with what is stored outside of rows. ")


@newest
def test_sizes_are_read_beside_a_table_that_is_locked_against_everybody(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    make_table(cluster)
    with cluster.connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE rows IN ACCESS EXCLUSIVE MODE")
        with watching(Relations(), cluster) as watch:
            pass
    assert watch["tables_bytes"] > ROWS * 80


@newest
def test_a_table_that_is_emptied_has_not_grown_nor_hides_one_that_has(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    make_table(cluster)
    with watching(Relations(), cluster) as watch:
        run_in_session(
            cluster,
            "CREATE TABLE young AS SELECT n FROM generate_series(1, 10000) AS n",
            "TRUNCATE rows",
        )
    assert watch.detail("table_growth_bytes_per_transaction").startswith("Grew most: public.young ")
    assert "public.rows" not in watch.detail("table_growth_bytes_per_transaction")
    assert watch["tables_bytes"] < ROWS * 80


def test_all_segments_of_a_large_relation_count(tmp_path: Path) -> None:
    for name, size in (("7", 4), ("7.1", 3), ("7.2", 2), ("7.4", 64), ("7_vm", 1), ("77", 64)):
        (tmp_path / name).write_bytes(b"x" * size)
    assert stored_bytes(tmp_path / "7") == 4 + 3 + 2 + 1
    assert stored_bytes(tmp_path / "8") == 0


# indexes


def test_an_index_that_no_plan_takes_any_more_is_named(running: Callable[..., Cluster]) -> None:
    cluster = running()
    make_table(cluster)
    run_in_session(cluster, "CREATE INDEX by_filler ON rows (filler)")
    with watching(Indexes(), cluster) as watch:
        run_in_session(cluster, *["SELECT filler FROM rows WHERE id = 7"] * 10)
        watch.committed = 10
    assert watch["indexes_used"] == 1
    detail = watch.detail("indexes_used")
    assert detail == "Scans by index: public.rows_pkey 10. Not scanned: public.by_filler."
    assert watch["index_entries_read_per_transaction"] == 1
    run_in_session(cluster, "DROP INDEX by_filler")
    with watching(Indexes(), cluster) as watch:
        run_in_session(cluster, "SET enable_indexscan = off", "SELECT count(*) FROM rows")
    assert watch["indexes_used"] == 0


# horizon


def test_an_idle_transaction_holds_the_horizon_as_long_as_it_has_a_snapshot(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    make_table(cluster)
    with cluster.connect(application_name="monthly report") as holder:
        holder.autocommit = False
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("SELECT count(*) FROM rows")
        with watching(Horizon(), cluster) as watch:
            run_in_session(cluster, *["UPDATE rows SET filler = 'x' WHERE id = 1"] * 50)
        pid = holder.info.backend_pid
    assert watch["horizon_age_transactions"] >= 50
    assert watch["horizon_holders"] == 1
    assert watch["horizon_held_s"] > 0
    detail = watch.detail("horizon_age_transactions")
    assert f"session {pid} (idle in transaction, monthly report)" in detail


def test_who_holds_the_horizon_within_the_window_alone_is_an_event_of_it(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    make_table(cluster)
    collector, begin_s = Horizon(), time.time()
    with cluster.connect() as connection:
        observer = Observer(cluster, connection)
        collector.sample(observer)
        with cluster.connect(application_name="monthly report") as holder:
            holder.autocommit = False
            holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            holder.execute("SELECT count(*) FROM rows")
            pid = holder.info.backend_pid
            run_in_session(cluster, *["UPDATE rows SET filler = 'x' WHERE id = 1"] * 50)
            deadline = time.monotonic() + 60
            while not collector.recordings(Window(1.0, 1, begin_s, time.time())).events:
                assert time.monotonic() < deadline
                collector.sample(observer)
                time.sleep(0.05)
        collector.sample(observer)
        collector.after(observer)
    window = Window(1.0, 1, begin_s, time.time())
    seen = {one.name: one for one in collector.observations(window)}
    assert seen["horizon_age_transactions"].value == 0
    largest = seen["horizon_age_max_transactions"]
    assert largest.value is not None
    assert largest.value >= 50
    assert (
        f"within the window: session {pid} (idle in transaction, monthly report)" in largest.detail
    )
    found = collector.recordings(window)
    [event] = found.events
    assert event.kind == "holder"
    assert event.text.startswith(f"session {pid} (idle in transaction, monthly report), ")
    assert event.end_s is not None
    assert event.end_s - event.start_s >= 2
    [series] = found.series
    assert (series.name, series.values[0], series.values[-1]) == ("horizon_age_transactions", 0, 0)
    assert max(series.values) >= 50


def test_short_transactions_are_neither_drawn_nor_events(shared_cluster: Cluster) -> None:
    collector, begin_s = Horizon(), time.time()
    with shared_cluster.connect() as connection, shared_cluster.connect() as client:
        client.autocommit = False
        client.execute("SELECT pg_current_xact_id()")
        collector.sample(Observer(shared_cluster, connection))
    found = collector.recordings(Window(1.0, 1, begin_s, time.time()))
    assert (found.events, found.series[0].values) == ((), (0.0,))


def test_nobody_holds_the_horizon_of_an_idle_server(shared_cluster: Cluster) -> None:
    with watching(Horizon(), shared_cluster) as watch:
        pass
    assert (watch["horizon_age_transactions"], watch["horizon_holders"]) == (0, 0)
    assert watch["horizon_age_max_transactions"] == 0
    assert watch.detail("horizon_held_s") == "Nobody holds it back."


def test_a_prepared_transaction_holds_the_horizon_without_a_session(any_cluster: Cluster) -> None:
    start(any_cluster, max_prepared_transactions="2")
    make_table(any_cluster)
    run_in_session(
        any_cluster,
        "BEGIN",
        "UPDATE rows SET filler = 'y' WHERE id = 2",
        "PREPARE TRANSACTION 'forgotten'",
    )
    with watching(Horizon(), any_cluster) as watch:
        run_in_session(any_cluster, *["UPDATE rows SET filler = 'x' WHERE id = 1"] * 5)
    assert watch["horizon_age_transactions"] >= 5
    assert watch["horizon_age_max_transactions"] == watch["horizon_age_transactions"]
    assert "prepared transaction forgotten" in watch.detail("horizon_age_transactions")


def test_a_report_on_a_standby_that_gives_feedback_holds_the_horizon_of_the_primary(
    any_cluster: Cluster, new_cluster: Callable[[str], Cluster]
) -> None:
    start(any_cluster, wal_keep_size="256MB")
    make_table(any_cluster)
    # Of the same initdb, so that it can go on from there with the other's WAL.
    with new_cluster(str(any_cluster.binaries.major)) as standby:
        standby.configure(
            {
                "primary_conninfo": any_cluster.conninfo(application_name="reporting"),
                "hot_standby_feedback": "on",
                "wal_receiver_status_interval": "1",
            }
        )
        any_cluster.scratch.write_private(standby.data_directory / "standby.signal", "")
        standby.start()
        assert wait_until(lambda: has_rows(standby), 30)
        with standby.connect(autocommit=False) as holder:
            holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            holder.execute("SELECT count(*) FROM rows")
            assert wait_until(lambda: standby_of(any_cluster, "backend_xmin") is not None, 30)
            with watching(Horizon(), any_cluster) as watch:
                run_in_session(any_cluster, *["UPDATE rows SET filler = 'x' WHERE id = 1"] * 50)
            pid = standby_of(any_cluster, "pid")
    assert watch["horizon_age_transactions"] >= 50
    detail = watch.detail("horizon_age_transactions")
    assert f"The oldest: standby {pid} (active, reporting)" in detail


def has_rows(standby: Cluster) -> bool:
    with standby.connect() as client:
        row = client.execute("SELECT to_regclass('rows') IS NOT NULL").fetchone()
    return row == (True,)


def standby_of(primary: Cluster, column: Literal["pid", "backend_xmin"]) -> object:
    with primary.connect() as client:
        row = client.execute(
            f"SELECT {column} FROM pg_stat_activity WHERE backend_type = 'walsender'"
        ).fetchone()
    return row[0] if row else None


def test_a_transaction_of_another_database_holds_only_its_own(cluster: Cluster) -> None:
    start(cluster)
    run_in_session(cluster, "CREATE DATABASE elsewhere")
    with psycopg.connect(cluster.conninfo(), dbname="elsewhere") as holder:
        holder.execute("CREATE TABLE t ()")
        with watching(Horizon(), cluster) as watch:
            pass
    assert watch["horizon_holders"] == 0


# slru


def test_rows_of_many_transactions_are_looked_up(running: Callable[..., Cluster]) -> None:
    cluster = running()
    run_in_session(cluster, "CREATE TABLE many (n int)", *["INSERT INTO many VALUES (1)"] * 300)
    with watching(Slru(), cluster) as watch:
        run_in_session(cluster, "SELECT count(*) FROM many")
        watch.committed = 3
    assert watch["slru_lookups_per_transaction"] >= 100
    assert "transaction " in watch.detail("slru_lookups_per_transaction")
    assert 0 <= watch["slru_miss_ratio"] < 1


# database


def test_rollbacks_and_temporary_files_are_counted(running: Callable[..., Cluster]) -> None:
    cluster = running()
    make_table(cluster)
    with watching(Database(), cluster) as watch:
        run_in_session(
            cluster,
            *("BEGIN", "ROLLBACK") * 4,
            "SET work_mem = '64kB'",
            "SELECT filler, id FROM rows ORDER BY 1, 2 DESC",
        )
        watch.committed = 2
    assert watch["rollbacks_per_transaction"] == 2
    assert watch["temp_bytes_per_transaction"] > 500_000
    assert watch["deadlocks_per_transaction"] == 0


def test_a_deadlock_is_counted(cluster: Cluster) -> None:
    start(cluster, deadlock_timeout="10ms")
    make_table(cluster)
    victims = []

    def update(first: int, second: int, both_have_one: threading.Barrier) -> None:
        with cluster.connect() as client, client.transaction():
            client.execute("UPDATE rows SET filler = 'a' WHERE id = %s", (first,))
            both_have_one.wait(10)
            try:
                with client.transaction():
                    client.execute("UPDATE rows SET filler = 'b' WHERE id = %s", (second,))
            except psycopg.errors.DeadlockDetected:
                victims.append(first)

    with watching(Database(), cluster) as watch:
        barrier = threading.Barrier(2)
        other = threading.Thread(target=update, args=(2, 1, barrier))
        other.start()
        update(1, 2, barrier)
        other.join(20)
    assert len(victims) == watch["deadlocks_per_transaction"] == 1


# io


def test_sessions_write_themselves_where_the_cache_is_too_small(cluster: Cluster) -> None:
    start(cluster, shared_buffers="256kB", track_io_timing="on")
    make_table(cluster)
    with watching(Io(), cluster) as watch:
        run_in_session(cluster, "UPDATE rows SET filler = 'z'")
    assert watch["session_writes_per_transaction"] > 100
    assert watch["evictions_per_transaction"] > 100
    assert watch["io_s_per_transaction"] > 0
    assert "client backend" in watch.detail("evictions_per_transaction")


def test_times_that_nobody_takes_are_not_taken_for_none(shared_cluster: Cluster) -> None:
    with watching(Io(), shared_cluster) as watch:
        pass
    assert watch.missing("io_s_per_transaction") == "track_io_timing is off"


def test_a_server_without_the_view_says_since_when_it_is_there(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    with watching(Io(), cluster) as watch:
        pass
    is_there = cluster.binaries.major >= 16
    reason = "" if is_there else "pg_stat_io exists since PostgreSQL 16"
    assert watch.missing("evictions_per_transaction") == reason
