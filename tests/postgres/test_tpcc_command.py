"""`pgdrag tpcc`: load, check, run, and what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from commands import dsn, heard, outcome, start

from in_process import pgdrag
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot


@pytest.fixture(scope="module")
def server(scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot) -> Iterator[Cluster]:
    """One running cluster for the tests of this file."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.configure({"fsync": "off"})
        cluster.start()
        yield cluster


@pytest.fixture(scope="module")
def loaded(server: Cluster) -> Cluster:
    """The same with one warehouse, in the place of somebody's tables."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE public.warehouse (my_own integer PRIMARY KEY)")
        connection.execute("CREATE TABLE public.history (my_own integer REFERENCES warehouse)")
    load = ("load", dsn(server), "--warehouses", "1", "--parallel", "2", "--replace", "--quiet")
    status, out, err = tpcc(*load)
    assert (status, out) == (0, ""), err
    assert "Loaded 1 warehouse in" in err
    return server


def tpcc(*arguments: str) -> tuple[int, str, str]:
    return pgdrag("tpcc", *arguments)


def test_tables_that_are_there_are_not_touched(loaded: Cluster) -> None:
    status, _, err = tpcc("load", dsn(loaded), "--warehouses", "1")
    assert status == 2
    assert "already has tables of these names: warehouse, item" in err
    assert "--replace" in err


def test_a_loaded_dataset_is_consistent_and_stays_so_in_a_run(loaded: Cluster) -> None:
    load = ("-c", "4", "-T", "1", "-R", "100", "--warm-up", "0.1")
    status, out, err = tpcc("run", dsn(loaded), *load, "--check", "--json")
    assert status == 0, err
    assert "All consistency conditions hold." in err
    found = json.loads(out)
    (rung,) = found["rungs"]
    assert set(found["trials"][0]["counts"]) == {
        "new_order", "payment", "order_status", "delivery", "stock_level",
    }  # fmt: skip
    assert rung["counts"]["committed"] > 0
    assert rung["new_orders"]["label"] == "new orders/min"
    assert found["study"]["workload"]["parameters"]["warehouses"] == 1


@pytest.mark.parametrize("statements", ["simple", "extended", "pipelined"])
def test_statements_are_sent_as_asked(loaded: Cluster, statements: str) -> None:
    load = ("-T", "0.5", "-R", "50", "--warm-up", "0")
    status, out, err = tpcc("run", dsn(loaded), *load, "--statements", statements)
    assert status == 0, err
    assert f"{statements} statements" in out


def test_each_condition_is_listed_and_a_violated_one_fails(loaded: Cluster) -> None:
    status, out, _ = tpcc("check", dsn(loaded))
    assert status == 0
    assert out.count("✓ ok") == 12
    with loaded.connect() as connection:
        connection.execute("UPDATE warehouse SET w_ytd = w_ytd + 1")
        try:
            status, out, _ = tpcc("check", dsn(loaded), "--json")
        finally:
            connection.execute("UPDATE warehouse SET w_ytd = w_ytd - 1")
    assert status == 1
    found = json.loads(out)
    violated = [x["condition"] for x in found["conditions"] if x["violation"]]
    assert violated == ["3.3.2.1", "3.3.2.8"]
    assert found["consistent"] is False
    assert all(x["demands"] for x in found["conditions"])


def test_a_database_without_tables_is_reported_with_the_remedy(server: Cluster) -> None:
    for command in ("check", "run"):
        status, _, err = tpcc(command, dsn(server, database="postgres"))
        assert status == 2
        assert "has no TPC-C tables" in err
        assert "pgdrag tpcc load" in err


def test_replacing_drops_what_was_there(loaded: Cluster) -> None:
    with loaded.connect() as connection:
        (found,) = connection.execute(
            "SELECT count(*) >= 30000, (SELECT count(*) FROM pg_attribute WHERE attname = 'my_own') FROM history"
        ).fetchall()
    assert found == (True, 0)


def test_tables_that_cannot_fit_are_not_begun(server: Cluster) -> None:
    status, out, err = tpcc("load", dsn(server, database="postgres"), "--warehouses", "100000")
    assert (status, out) == (2, "")
    assert "error: 100,000 warehouses take about 10 TB, and database" in err
    assert "has room for" in err
    assert "hint: Give --yes to load TPC-C there anyway." in err


def test_a_load_that_is_stopped_ends_and_leaves_no_session_behind(server: Cluster) -> None:
    began = start(
        "tpcc", "load", dsn(server, database="template1"), "--warehouses", "50", "--replace"
    )
    heard(began, "populate")
    began.terminate()
    status, _, err = outcome(began)
    assert (status, err.splitlines()[-1]) == (130, "pgdrag: interrupted")
    with server.connect() as connection:
        loading = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'template1'"
        assert wait_until(lambda: connection.execute(loading).fetchone() == (0,), 30)


def test_the_environment_names_the_server_as_it_does_to_psql(loaded: Cluster) -> None:
    place = {"PGHOST": str(loaded.socket_directory), "PGPORT": str(loaded.port)}
    status, out, err = pgdrag("tpcc", "check", **place, PGUSER="pgdrag", PGDATABASE="pgdrag")
    assert (status, out.count("✓ ok")) == (0, 12), err


def test_keying_and_think_times_do_not_go_with_a_rate() -> None:
    status, out, err = tpcc("run", "dbname=none", "--rate", "5", "--wait-scale", "0.5")
    assert (status, out) == (2, "")
    assert "--wait-scale must be 0 where arrivals follow a rate, not 0.5" in err
    assert "leave out the rate or the waits" in err
