"""`pgdrag doctor` names what is wrong with a real server, and nothing where nothing is; `make doctor` has many more."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from commands import dsn, heard, outcome, start

from conftest import newest
from in_process import pgdrag
from pgdrag.driver.connection_string import reach
from pgdrag.findings.doctor import diagnose
from pgdrag.host.process_alive import wait_until
from pgdrag.live.window import observe_window
from pgdrag.model.observed import ObservedServer, Sample
from pgdrag.observations.store import ObservationWriter
from pgdrag.servers.cluster import Cluster

FOR_S = 2.5
# What the doctor may find wrong with the machine that tests run on.
OF_MACHINE = {"cpu-saturated", "cpu-throttled", "disk-reads", "full-disk", "slow-wal-sync"}


@contextmanager
def load(cluster: Cluster, *statements: str, clients: int = 2) -> Iterator[None]:
    """Clients that run statements over and over."""
    ended = threading.Event()

    def run() -> None:
        with cluster.connect(application_name="application") as client:
            while not ended.is_set():
                for statement in statements:
                    # What it waits for may end with the test.
                    with suppress(psycopg.Error):
                        client.execute(statement.encode())
                ended.wait(0.002)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def found_in(cluster: Cluster, role: str = "pgdrag") -> list[str]:
    """Return what is wrong with the server, the worst first."""
    server = reach(dsn(cluster, user=role), is_for_driver=False)
    found = diagnose(observe_window(server, FOR_S)).found
    return [one.name for one in found if one.name not in OF_MACHINE]


def test_who_blocks_others_is_named(running: Callable[..., Cluster]) -> None:
    cluster = running()
    with cluster.connect() as holder:
        holder.execute("CREATE TABLE public.things AS SELECT 1 AS id")
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE public.things")
        with load(cluster, "SET lock_timeout = '30s'", "SELECT * FROM public.things"):
            assert wait_until(lambda: _waiting(cluster) == 2, 10)
            found = found_in(cluster)
            holder.execute("ROLLBACK")
    assert found[0] == "lock-queue"


def _waiting(cluster: Cluster) -> int:
    with cluster.connect() as client:
        row = client.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_missing_index_is_named_to_a_member_of_pg_monitor(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    with cluster.connect() as client:
        client.execute(
            "CREATE TABLE public.items AS SELECT id, id AS code FROM generate_series(1, 50000) AS id"
        )
        client.execute("ANALYZE public.items")
        client.execute("DROP ROLE IF EXISTS monitor")
        client.execute("CREATE ROLE monitor LOGIN")
        client.execute("GRANT pg_monitor TO monitor")
    with load(cluster, "SELECT id FROM public.items WHERE code = 7"):
        # Its share of time is at least what a scan takes on a processor of its own, which a busy machine does not give.
        assert wait_until(lambda: "missing-index" in found_in(cluster, "monitor")[:2], 10 * FOR_S)


def test_transactions_that_are_rolled_back_are_named(running: Callable[..., Cluster]) -> None:
    cluster = running()
    with load(cluster, "BEGIN", "SELECT 1", "ROLLBACK"):
        found = found_in(cluster)
    assert found[0] == "rollbacks"


def test_connections_near_their_limit_are_named(running: Callable[..., Cluster]) -> None:
    cluster = running(max_connections="20")
    with ExitStack() as stack:
        for _ in range(14):
            stack.enter_context(cluster.connect(application_name="application"))
        assert found_in(cluster) == ["connection-limit"]


def test_a_healthy_server_has_nothing_and_the_command_says_so(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    with load(cluster, "SELECT 1", clients=1):
        status, out, _ = pgdrag("doctor", dsn(cluster), "--for", "2s")
    lines = out.splitlines()
    assert lines[0].startswith('database "pgdrag" on socket ')
    assert lines[-1].startswith("Looking took ")
    names = re.findall(r"^\d+\. .* \[(\S+)\]$", out, re.MULTILINE)
    assert set(names) <= OF_MACHINE
    assert any(line.startswith("Nothing stands out: ") for line in lines) is not bool(names)
    assert status == bool(names)


def test_a_sick_server_is_told_with_status_1_and_as_json(running: Callable[..., Cluster]) -> None:
    cluster = running()
    with load(cluster, "BEGIN", "SELECT 1", "ROLLBACK"):
        status, out, _ = pgdrag("doctor", dsn(cluster), "--for", "2s", "--json")
    told = json.loads(out)
    assert status == 1
    assert told["is_healthy"] is False
    assert "rollbacks" in [one["name"] for one in told["diagnoses"]]
    assert told["own_queries"] > 0
    assert 0 < told["own_share"] < 1


def test_ctrl_c_ends_the_look_early_and_says_what_was_seen(running: Callable[..., Cluster]) -> None:
    cluster = running()
    process = start("doctor", dsn(cluster), "--for", "10min")
    assert wait_until(lambda: _observers(cluster) == 1, 60)
    # It looks from the second question on, and is told the time then.
    heard(process, "0 s of 10 min")
    process.send_signal(signal.SIGINT)
    status, out, _ = outcome(process)
    assert status in (0, 1), out  # 1: something is wrong with this machine
    assert "The window was ended early." in out


def _observers(cluster: Cluster) -> int:
    with cluster.connect() as client:
        row = client.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgdrag collectors'"
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["host=/nowhere dbname=shop"], "could not connect"),
        (["shop", "--for", "a while"], "--for"),
        (["work_mem=4MB", "--since", "shop.obs"], "--since requires a server"),
        (["work_mem=4MB", "--for", "5min"], "--for requires a server"),
    ],
)
def test_a_server_that_is_not_there_is_one_clear_error(arguments: list[str], words: str) -> None:
    status, _, error = pgdrag("doctor", *arguments)
    assert status == 2
    assert words in error


def test_it_is_compared_with_saved_observations(
    running: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster, file = running(), tmp_path / "shop.obs"
    with load(cluster, "SELECT 1", clients=1):
        status, _, error = pgdrag(
            *("observe", dsn(cluster), "--every", "1s", "--for", "3s", "--out", file)
        )
        assert status == 0, error
        status, out, _ = pgdrag("doctor", dsn(cluster), "--for", "2s", "--since", file)
    assert status in (0, 1), out
    assert "Since shop.obs: no verdict, as " in out
    assert "Statements were not compared: " in out
    assert pgdrag("doctor", dsn(cluster), "--since", tmp_path / "none.obs")[0] == 2


def test_observations_of_another_server_are_refused(
    running: Callable[..., Cluster], tmp_path: Path
) -> None:
    path = tmp_path / "other.obs"
    file = ObservationWriter.create(path, began_unix_s=0.0, most_bytes=50 << 20)
    file.append_server(0.0, ObservedServer("database elsewhere", "18.6", "4711"))
    file.append_sample(Sample(0.0, 10.0, 10.0, 0.0), [])
    file.close()
    status, _, error = pgdrag("doctor", dsn(running()), "--since", path)
    assert status == 2
    assert "other.obs is of another server: database elsewhere, not database" in error


@newest
def test_a_statement_that_lost_its_index_is_named(
    running: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster, file = running(shared_preload_libraries="pg_stat_statements"), tmp_path / "shop.obs"
    with cluster.connect() as client:
        client.execute("CREATE EXTENSION pg_stat_statements")
        client.execute(
            "CREATE TABLE public.items AS SELECT id, id AS code FROM generate_series(1, 50000) AS id"
        )
        client.execute("CREATE INDEX of_code ON public.items (code)")
        client.execute("ANALYZE public.items")
        statement = "SELECT id FROM public.items WHERE code = 7"
        with load(cluster, statement, "SELECT 1", clients=1):
            # More than five times as long as the window may become on a busy machine.
            status, _, error = pgdrag(
                *("observe", dsn(cluster), "--every", "1s", "--for", "13s", "--out", file)
            )
            assert status == 0, error
            client.execute("DROP INDEX public.of_code")
            status, out, _ = pgdrag(
                "doctor", dsn(cluster), "--for", "1s", "--since", file, "--json"
            )
    told = json.loads(out)
    assert status == 1
    [rise] = told["since"]["statements"]
    assert rise["statement"] == "SELECT id FROM public.items WHERE code = $1"
    assert rise["reads_more"]
    assert told["since"]["statements_compared"] >= 1
    assert told["since"]["not_compared"] == ""
    assert rise["blocks_now"] > 100 > rise["blocks_before"]
    [named] = (one for one in told["diagnoses"] if one["name"] == "statement-regression")
    assert "times as" in named["headline"]
