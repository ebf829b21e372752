"""The workload's own update is run and rolled back through the window, and disturbs nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import pytest
from watching import run_as_load, start

from pgdrag.collectors import Observer, Window
from pgdrag.collectors.update_cost import UpdateCost
from pgdrag.model import Observation
from pgdrag.model.measurement import Example
from pgdrag.model.recordings import Recordings, UpdateSample
from pgdrag.servers.cluster import Cluster

pytestmark = pytest.mark.postgres

UPDATE = Example("count", "UPDATE counters SET n = n + $1 WHERE id = $2", ("7", "3"))
TABLE = (
    "CREATE TABLE counters (id int PRIMARY KEY, n bigint)",
    "INSERT INTO counters SELECT id, 0 FROM generate_series(1, 20) AS id",
    "ANALYZE counters",
)


@pytest.fixture(autouse=True)
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdrag.collectors._session.SAMPLE_EVERY_S", 0.0)


@pytest.fixture
def emptied(shared_cluster: Cluster) -> Iterator[Cluster]:
    """The file's own server, whose tables go with the test."""
    yield shared_cluster
    run_as_load(shared_cluster, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@contextmanager
def looking(cluster: Cluster, *examples: Example) -> Iterator[tuple[UpdateCost, Observer]]:
    with cluster.connect() as connection:
        collector, observer = UpdateCost(), Observer(cluster, connection, lambda: examples)
        collector.before(observer)
        yield collector, observer
        collector.after(observer)
        collector.afterwards(observer)


def found_by(collector: UpdateCost) -> tuple[dict[str, Observation], Recordings]:
    window = Window(1.0, 1, time.time() - 1, time.time())
    return {one.name: one for one in collector.observations(window)}, collector.recordings(window)


def test_an_update_looks_at_more_buffers_the_more_versions_are_kept(any_cluster: Cluster) -> None:
    start(any_cluster)
    run_as_load(any_cluster, *TABLE)
    with any_cluster.connect(autocommit=False) as holder:
        holder.execute("SELECT pg_current_xact_id()")
        with looking(any_cluster, UPDATE) as (collector, observer):
            assert len(observer.own_sessions) == 1
            run_as_load(any_cluster, *["UPDATE counters SET n = n + 1"] * 300)
        assert not observer.own_sessions
    seen, recordings = found_by(collector)
    [series] = recordings.series
    first, last = recordings.of(UpdateSample)
    assert series.name == "buffers_per_update"
    assert series.values == (first.buffers, last.buffers)
    assert first.buffers < 20
    assert last.buffers > 5 * first.buffers
    assert first.rows == last.rows == 1
    assert first.plan is not None
    assert last.plan is not None
    assert last.way in (
        "index scan of counters by counters_pkey",
        "sequential scan of counters",
    )
    assert seen["buffers_per_update"].value == (first.buffers + last.buffers) / 2
    assert seen["buffers_per_update"].detail.startswith("2 updates run and rolled back; ")


def total_of(cluster: Cluster) -> int:
    with cluster.connect() as client:
        return client.execute("SELECT sum(n)::int FROM counters").fetchall()[0][0]


def test_nothing_is_changed_and_a_row_that_is_locked_is_left_at_once(emptied: Cluster) -> None:
    run_as_load(emptied, *TABLE)
    with looking(emptied, UPDATE) as (collector, observer), emptied.connect() as locker:
        locker.autocommit = False
        locker.execute("UPDATE counters SET n = 0 WHERE id = 3")
        collector.sample(observer)
        assert observer.own_sessions
        state = locker.execute(
            "SELECT state FROM pg_stat_activity WHERE pid = ANY (%s)",
            (list(observer.own_sessions),),
        ).fetchall()
        locker.rollback()
    assert state == [("idle",)], "no transaction is left open"
    log = b"".join(path.read_bytes() for path in emptied.log_files())
    assert b"lock timeout" not in log, "it would be counted among the workload's errors"
    seen, recordings = found_by(collector)
    assert len(recordings.series[0].values) == 2
    assert "; 1 more met a lock, or took too long; " in seen["buffers_per_update"].detail
    assert total_of(emptied) == 0


def test_who_waits_for_the_row_goes_on_as_if_nobody_had_been_there(emptied: Cluster) -> None:
    """As a variant does that updates by ctid: what it found is still the newest version."""
    run_as_load(emptied, *TABLE)
    by_ctid = "UPDATE counters SET n = n + 1 WHERE ctid = (SELECT ctid FROM counters WHERE id = 3)"
    client = Thread(target=run_as_load, args=(emptied, *[by_ctid] * 500))
    with looking(emptied, UPDATE) as (collector, observer):
        client.start()
        while client.is_alive():
            collector.sample(observer)
        client.join()
    assert total_of(emptied) == 500
    assert found_by(collector)[1].of(UpdateSample)


REFUSED: Sequence[tuple[Example, str]] = (
    (Example("read", "SELECT 1"), "the workload sends no update"),
    (
        Example("add", "WITH new AS (SELECT $1) INSERT INTO counters SELECT * FROM new", (None,)),
        "the workload sends no update",
    ),
    (
        Example("count", "UPDATE counters SET n = 1 WHERE id = $1", (None,)),
        "the updates' values come from earlier answers, which are unknown here",
    ),
    (
        Example(
            "count", "UPDATE counters SET n = 1 WHERE id = 1 AND pg_advisory_lock(1) IS NOT NULL"
        ),
        "the updates take advisory locks, which a rollback would not release",
    ),
    (Example("count", "UPDATE nothing SET n = 1"), 'relation "nothing" does not exist'),
    (Example("add", "WITH new AS (SELECT 1) SELECT * FROM new"), "the workload sends no update"),
)


def test_what_cannot_be_run_and_rolled_back_is_left_with_its_reason(emptied: Cluster) -> None:
    run_as_load(emptied, *TABLE)
    for example, reason in REFUSED:
        with looking(emptied, example) as (collector, _):
            pass
        seen, recordings = found_by(collector)
        assert {one.missing for one in seen.values()} == {reason}
        assert recordings.missing == {"update_cost": reason}


def test_an_update_within_a_with_is_one_and_treatments_defaults_do_not_stop_it(
    cluster: Cluster,
) -> None:
    start(cluster, default_transaction_read_only="on", default_transaction_isolation="serializable")
    with cluster.connect(role=cluster.load_role) as client:
        client.execute("SET default_transaction_read_only = off")
        for statement in TABLE:
            client.execute(statement.encode())
    text = "WITH row AS (SELECT id FROM counters WHERE id = $1) UPDATE counters SET n = 1 FROM row WHERE counters.id = row.id"
    with looking(cluster, Example("count", text, ("4",)), UPDATE) as (collector, _):
        pass
    _, recordings = found_by(collector)
    assert {look.query for look in recordings.of(UpdateSample)} == {text, UPDATE.text}
    assert [len(one.values) for one in recordings.series] == [2]


def test_a_session_that_is_ended_gives_a_reason(emptied: Cluster) -> None:
    run_as_load(emptied, *TABLE)
    with looking(emptied, UPDATE) as (collector, observer), emptied.connect() as killer:
        killer.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid",
            (list(observer.own_sessions),),
        )
        collector.sample(observer)
    seen, _ = found_by(collector)
    assert "2 more" in seen["buffers_per_update"].detail
