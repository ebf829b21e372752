"""What the log tells is seen on a real server, in a flood of other messages, too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from living import reload
from watching import EAGER, ROWS, make_table, run_in_session, start, watching, watching_all

from pgdrag.collectors import Observer
from pgdrag.collectors.autovacuum import Autovacuum
from pgdrag.collectors.checkpoints import Checkpoints
from pgdrag.collectors.messages import Messages
from pgdrag.collectors.waits import WaitProfile
from pgdrag.driver.process import WATCH_NAME
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.cluster import Cluster

pytestmark = pytest.mark.postgres
TELLTALE = {"deadlock_timeout": "50ms", "work_mem": "64kB"}


def test_errors_are_counted_by_their_sqlstate(running: Callable[..., Cluster]) -> None:
    cluster = running(**TELLTALE)
    with watching(Messages(), cluster) as watch:
        for _ in range(3):
            with pytest.raises(psycopg.errors.DivisionByZero):
                run_in_session(cluster, "SELECT 1 / 0")
        with pytest.raises(psycopg.errors.UndefinedTable):
            run_in_session(cluster, 'SELECT 1 FROM "no\ntable"')
        watch.committed = 2
    assert watch["errors_per_transaction"] == 4 / 2
    assert watch.detail("errors_per_transaction") == "By SQLSTATE: 22012 3, 42P01 1."
    texts = [event.text for event in watch.events if event.kind == "error"]
    assert texts == ["22012: division by zero"] * 3 + ['42P01: relation "no']
    assert all(0 <= event.start_s <= watch.length_s for event in watch.events)


@contextmanager
def held_row(cluster: Cluster) -> Iterator[None]:
    with cluster.connect(autocommit=False) as holder:
        holder.execute("UPDATE rows SET filler = 'held' WHERE id = 1")
        yield
        holder.commit()


def waits_told(cluster: Cluster) -> int:
    return cluster.log_tail(2000).count("still waiting")


def test_a_long_wait_for_a_lock_is_seen_from_its_beginning_to_its_end(
    running: Callable[..., Cluster],
) -> None:
    cluster = running(**TELLTALE)
    make_table(cluster)
    waiting = threading.Thread(
        target=run_in_session,
        args=(cluster, "UPDATE rows SET filler = 'waited' WHERE id = 1"),
    )
    with watching(Messages(), cluster) as watch:
        with held_row(cluster):
            told = waits_told(cluster)
            waiting.start()
            assert wait_until(lambda: waits_told(cluster) > told, 20)
        waiting.join(20)
    assert watch["long_lock_waits_per_transaction"] == 1
    assert watch.detail("long_lock_waits_per_transaction").startswith("1 lasted longer than 50ms;")
    [wait] = [event for event in watch.events if event.kind == "lock wait"]
    assert wait.text == "ShareLock on transaction"
    assert wait.end_s is not None
    assert wait.end_s - wait.start_s >= 0.05


def test_a_deadlock_is_an_event_of_its_own(running: Callable[..., Cluster]) -> None:
    cluster = running(**TELLTALE)
    make_table(cluster)
    with (
        watching(Messages(), cluster) as watch,
        cluster.connect(autocommit=False) as one,
        cluster.connect(autocommit=False) as other,
    ):
        one.execute("UPDATE rows SET filler = 'one' WHERE id = 1")
        other.execute("UPDATE rows SET filler = 'other' WHERE id = 2")

        def cross() -> None:
            # The server chooses which of the two it ends.
            try:
                other.execute("UPDATE rows SET filler = 'other' WHERE id = 1")
            except psycopg.errors.DeadlockDetected:
                other.rollback()

        crossing = threading.Thread(target=cross)
        crossing.start()
        try:
            one.execute("UPDATE rows SET filler = 'one' WHERE id = 2")
        except psycopg.errors.DeadlockDetected:
            one.rollback()
        else:
            one.commit()
        crossing.join(20)
        other.rollback()
    assert [event.kind for event in watch.events].count("deadlock") == 1
    assert "40P01 1" in watch.detail("errors_per_transaction")


def test_a_sort_that_spills_is_seen_with_its_size(running: Callable[..., Cluster]) -> None:
    cluster = running(**TELLTALE)
    spill = "SELECT n FROM generate_series(1, 300000) n ORDER BY -n OFFSET 299999"
    with watching(Messages(), cluster) as watch:
        run_in_session(cluster, spill)
        # Under a megabyte, which the log does not tell.
        run_in_session(cluster, spill.replace("300000", "9000").replace("299999", "8999"))
    assert watch["large_temp_files_per_transaction"] >= 1
    assert watch["large_temp_file_bytes_per_transaction"] >= 3_000_000
    assert "temporary file" in {event.kind for event in watch.events}


def test_a_silent_log_grows_by_nothing_and_a_talkative_one_by_each_statement(
    running: Callable[..., Cluster],
) -> None:
    cluster = running(**TELLTALE)
    with watching(Messages(), cluster) as silent:
        run_in_session(cluster, *["SELECT 1"] * 100)
    cluster = running(log_statement="all", log_destination="stderr")
    with watching(Messages(), cluster) as talkative:
        run_in_session(cluster, *["SELECT 1"] * 100)
        talkative.committed = 100
    assert silent["log_lines_per_transaction"] <= 2  # the instrument's own mark
    assert talkative["log_lines_per_transaction"] == pytest.approx(1, abs=0.05)
    assert talkative["log_bytes_per_transaction"] > 2 * len("SELECT 1")


def test_the_collectors_own_session_is_not_logged_statement_by_statement(
    cluster: Cluster,
) -> None:
    start(cluster, log_statement="all", log_min_messages="debug5", log_min_duration_statement="0")
    with cluster.connect(application_name="pgdrag collectors") as connection:
        observer = Observer(cluster, connection)
        observer.query("SELECT 1")
        before = cluster.log_bytes()
        for _ in range(200):
            observer.query("SELECT 1 AS asked_by_the_instrument")
        assert "asked_by_the_instrument" not in cluster.log_tail(2000)
        # What other processes write under debug5 meanwhile is their own.
        assert cluster.log_bytes() - before < 200 * 100


def test_a_treatment_that_hides_errors_leaves_a_reason(cluster: Cluster) -> None:
    start(cluster, log_min_messages="fatal")  # which the channel lowers to log
    with watching(Messages(), cluster) as watch, pytest.raises(psycopg.errors.DivisionByZero):
        run_in_session(cluster, "SELECT 1 / 0")
    assert watch.missing("errors_per_transaction") == "log_min_messages is log, which hides errors"
    assert watch["log_lines_per_transaction"] >= 0


FLOOD = {"log_min_messages": "debug5", "log_statement": "all", "debug_print_plan": "on"}
FLOOD_BYTES = 10_000_000  # which are read in ten pieces
CAUSED_ERRORS = 40
CAUSED_CHECKPOINTS = 3


def flood(cluster: Cluster, until: threading.Event) -> None:
    """Four statements a transaction from one session: until the log is large, then less until the test has done its part."""
    with cluster.connect() as client:
        start_bytes = cluster.log_bytes()
        number = 0
        while (is_low := cluster.log_bytes() - start_bytes < FLOOD_BYTES) or not until.is_set():
            number += 1
            if not is_low:
                until.wait(0.02)
            with client.pipeline():
                client.execute("BEGIN")
                client.execute("UPDATE rows SET filler = 'flood' WHERE id = %s", (number % ROWS,))
                client.execute("SELECT count(*) FROM rows WHERE id < 10")
                client.execute("COMMIT")


def vacuums_of_rows(client: psycopg.Connection) -> int:
    sql = "SELECT autovacuum_count FROM pg_stat_all_tables WHERE relname = 'rows'"
    [(count,)] = client.execute(sql)
    return int(count)


def test_a_flood_of_100_mb_a_minute_hides_no_event(any_cluster: Cluster) -> None:
    start(any_cluster, **FLOOD)
    make_table(any_cluster)
    collectors = (Messages(), Checkpoints(), Autovacuum())
    may_end = threading.Event()
    clients = [threading.Thread(target=flood, args=(any_cluster, may_end)) for _ in range(2)]
    with any_cluster.connect() as looking, watching_all(collectors, any_cluster) as watches:
        counted = vacuums_of_rows(looking)
        for client in clients:
            client.start()
        try:
            any_cluster.configure({**FLOOD, **EAGER})
            reload(any_cluster)
            for number in range(CAUSED_ERRORS):
                with pytest.raises(psycopg.errors.DivisionByZero):
                    run_in_session(any_cluster, "SELECT 1 / 0")
                if number < CAUSED_CHECKPOINTS:
                    run_in_session(any_cluster, "CHECKPOINT")
            assert wait_until(lambda: vacuums_of_rows(looking) >= counted + 2, 60)
            # Waits for a vacuum that runs, and lets no other begin.
            run_in_session(any_cluster, "ALTER TABLE rows SET (autovacuum_enabled = off)")
            counted = vacuums_of_rows(looking) - counted
        finally:
            may_end.set()
            for client in clients:
                client.join(120)
    messages, checkpoints, autovacuum = watches
    assert messages["log_bytes_per_transaction"] >= FLOOD_BYTES
    assert f"22012 {CAUSED_ERRORS}" in messages.detail("errors_per_transaction")
    began = f"{CAUSED_CHECKPOINTS} began: {CAUSED_CHECKPOINTS} by request."
    assert checkpoints.detail("checkpoints_per_s").startswith(began)
    of_rows = [x for x in autovacuum.events if x.text.startswith("public.rows:")]
    assert [x.kind for x in of_rows].count("vacuum") == counted
    assert "may be missing" not in messages.detail("errors_per_transaction")


def test_the_watch_of_waits_is_not_logged_look_by_look(cluster: Cluster) -> None:
    start(cluster, log_statement="all", log_min_duration_statement="0")
    with watching(WaitProfile(), cluster), cluster.connect() as client:
        began = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = %s AND state = 'idle' AND query LIKE '%%wait_event%%'"
        )
        assert wait_until(lambda: client.execute(began, (WATCH_NAME,)).fetchone() == (1,), 20)
        before = watch_lines(cluster, client, "before")
        client.execute("SELECT pg_sleep(0.5)")  # some ten looks
        after = watch_lines(cluster, client, "after")
    assert after == before


def watch_lines(cluster: Cluster, client: psycopg.Connection, marker: str) -> int:
    """Return how many lines are the watch's, once the server's logger has written all that came before."""

    def logged() -> str:
        return "".join(path.read_text() for path in cluster.log_files())

    client.execute(f"SELECT 'marker {marker}'".encode())
    assert wait_until(lambda: f"marker {marker}" in logged(), 20)
    return logged().count(WATCH_NAME)
