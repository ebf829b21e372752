"""An existing server is observed as it is: only read, whoever asks, and what cannot be seen has its reason."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from commands import dsn
from psycopg import Connection

from pgdrag.collectors import Observer, Unseen
from pgdrag.driver.connection_string import Server, reach
from pgdrag.errors import ServerLost
from pgdrag.host.process_alive import wait_until
from pgdrag.live.server import APPLICATION_NAME, ExistingServer
from pgdrag.live.window import observe_window
from pgdrag.model.live import Blocker, CopyOut, TableUse
from pgdrag.servers.cluster import Cluster

SHORT_S = 0.7


@pytest.fixture(autouse=True)
def no_environment(no_libpq_environment: None) -> None:
    """Nothing but the test says where to connect to."""


def reached(cluster: Cluster, role: str = "") -> Server:
    return reach(dsn(cluster, user=role) if role else dsn(cluster), is_for_driver=False)


@contextmanager
def busy(cluster: Cluster, statement: str) -> Iterator[list[int]]:
    """Another client that runs a statement over and over, and counts."""
    ended, done = threading.Event(), [0]

    def run() -> None:
        with cluster.connect() as client:
            while not ended.is_set():
                client.execute(statement.encode())
                done[0] += 1
                ended.wait(0.005)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join()


def test_a_window_counts_others_transactions_and_not_its_own(
    running: Callable[..., Cluster],
) -> None:
    server = reached(running())
    idle = observe_window(server, SHORT_S)
    with busy(running(), "SELECT 1"):
        # A session hands in its counters at most once a second.
        found = observe_window(server, 3 * SHORT_S)
    assert idle.own_queries > 30
    assert idle.transactions is not None
    assert idle.transactions <= 10  # of the server's own processes
    assert found.transactions is not None
    assert found.transactions >= 20
    assert found.own_query_s > 0


def test_a_window_counts_the_processors_that_the_server_may_use(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    assert cluster.postmaster_pid is not None
    before = os.sched_getaffinity(cluster.postmaster_pid)
    os.sched_setaffinity(cluster.postmaster_pid, {min(before)})
    try:
        found = observe_window(reached(cluster), SHORT_S)
    finally:
        os.sched_setaffinity(cluster.postmaster_pid, before)
    assert found.value("processors") == 1


def test_a_window_names_tables_and_who_blocks(running: Callable[..., Cluster]) -> None:
    cluster = running()
    with cluster.connect() as holder, cluster.connect() as client:
        client.execute("CREATE TABLE public.things AS SELECT 1 AS id")
        holder.execute("BEGIN")
        holder.execute("UPDATE public.things SET id = 2")
        waiting = threading.Thread(target=_update, args=(cluster,))
        waiting.start()
        with busy(cluster, "SELECT * FROM public.things"):
            found = observe_window(reached(cluster), 2.2)
        holder.execute("ROLLBACK")
        waiting.join()
        pid = holder.info.backend_pid
    [blocker] = found.recordings.of(Blocker)
    assert (blocker.pid, blocker.state) == (pid, "idle in transaction")
    assert blocker.most_blocked == 1
    assert blocker.blocked_s > 1
    [table] = found.recordings.of(TableUse)
    assert table.table == "public.things"
    assert table.seq_scans > 10
    assert table.has_statistics is False


@pytest.mark.parametrize(
    ("copied", "table"), [("public.copied", "public.copied"), ("(SELECT id + 1 FROM copied)", "")]
)
def test_a_window_tells_who_copies_a_table_out(
    running: Callable[..., Cluster], copied: str, table: str
) -> None:
    cluster = running()
    with cluster.connect() as client:
        client.execute("CREATE TABLE public.copied AS SELECT generate_series(1, 500000) AS id")
        with busy(cluster, f"COPY {copied} TO '/dev/null'"):
            found = observe_window(reached(cluster), 2.2)
        client.execute("DROP TABLE public.copied")
    [one] = found.recordings.of(CopyOut)
    assert one.table == table
    assert 0 < one.time_s <= found.length_s
    assert one.rows_per_s > 10_000


def test_a_chain_of_locks_and_a_long_queue_lead_to_who_holds_them_all_up(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    with ExitStack() as stack:
        holder, middle, *others = (stack.enter_context(cluster.connect()) for _ in range(32))
        holder.execute("CREATE TABLE public.one AS SELECT 1 AS id")
        holder.execute("CREATE TABLE public.two AS SELECT 1 AS id")
        holder.execute("BEGIN")
        holder.execute("UPDATE public.one SET id = 2")
        middle.execute("BEGIN")
        middle.execute("LOCK TABLE public.two")
        middle.pgconn.send_query(b"UPDATE public.one SET id = 3")
        for one in others:
            one.pgconn.send_query(b"SELECT * FROM public.two")
        with cluster.connect() as client:
            assert wait_until(lambda: _waiting(client) == len(others) + 1, 30)
        found = observe_window(reached(cluster), 1.2)
        pid = holder.info.backend_pid
        for one in (holder, middle, *others):
            one.close()
    [blocker] = found.recordings.of(Blocker)
    assert (blocker.pid, blocker.most_blocked) == (pid, len(others) + 1)
    assert blocker.locks == ("relation", "transactionid")
    assert blocker.blocked_s == pytest.approx((len(others) + 1) * found.length_s)


def _waiting(client: Connection) -> int:
    row = client.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    assert row is not None
    return int(row[0])


def test_a_prepared_transaction_that_others_wait_for_is_one(
    running: Callable[..., Cluster],
) -> None:
    cluster = running(max_prepared_transactions="2")
    waiting = cluster.connect()
    with cluster.connect() as client:
        client.execute("CREATE TABLE public.things AS SELECT 1 AS id")
        client.execute("BEGIN")
        client.execute("UPDATE public.things SET id = 2")
        client.execute("PREPARE TRANSACTION 'left'")
        waiting.pgconn.send_query(b"UPDATE public.things SET id = 3")
        assert wait_until(lambda: _waiting(client) == 1, 30)
        found = observe_window(reached(cluster), 0.2)
        waiting.close()
        client.execute("ROLLBACK PREPARED 'left'")
    [blocker] = found.recordings.of(Blocker)
    assert (blocker.pid, blocker.most_blocked) == (0, 1)


def test_statistics_are_found_of_a_table_whose_names_need_quotes(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    with cluster.connect() as client:
        client.execute('CREATE SCHEMA "Shop of Ann"')
        client.execute('CREATE TABLE "Shop of Ann"."Orders" AS SELECT 1 AS id')
        client.execute('ANALYZE "Shop of Ann"."Orders"')
        # Else the count of analyzes would tell as well.
        client.execute("SELECT pg_stat_reset()")
        with busy(cluster, 'SELECT * FROM "Shop of Ann"."Orders"'):
            found = observe_window(reached(cluster), 2.2)
        client.execute('DROP SCHEMA "Shop of Ann" CASCADE')
    [table] = found.recordings.of(TableUse)
    assert table.table == '"Shop of Ann"."Orders"'
    assert table.seq_scans > 10
    assert table.has_statistics is True


def _update(cluster: Cluster) -> None:
    with cluster.connect() as client:
        client.execute("UPDATE public.things SET id = 3")


def test_the_session_is_named_cannot_write_and_ends(running: Callable[..., Cluster]) -> None:
    cluster = running()
    sessions: list[int] = []
    observe_window(reached(cluster), 0.1, lambda _: sessions.append(_sessions(cluster)))
    assert sessions == [1]
    assert wait_until(lambda: _sessions(cluster) == 0, 10)
    existing = ExistingServer.reached(reached(cluster))
    with existing.connection as connection:
        Observer(existing, connection).query("SELECT 1")
        with pytest.raises(Exception, match="read-only"):
            connection.execute("CREATE TABLE public.t ()")


def _sessions(cluster: Cluster) -> int:
    with cluster.connect() as client:
        row = client.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name IN (%s, 'pgdrag collectors')",
            (APPLICATION_NAME,),
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("role", ["monitor", "stranger"])
def test_a_role_with_fewer_rights_is_told_what_it_cannot_see(
    running: Callable[..., Cluster], role: str
) -> None:
    cluster = running()
    with cluster.connect() as superuser:
        _make_role(superuser, role)
    found = observe_window(reached(cluster, role), SHORT_S)
    seen = {x.name for x in found.observations if x.value is not None}
    assert {"commits_per_s", "requested_checkpoints_per_s", "seq_rows_per_s"} <= seen
    if role == "monitor":
        assert {"on_cpu_sessions", "lock_wait_sessions"} <= {
            x.name for x in found.recordings.series
        }
        assert "wal_directory_bytes" in seen
    else:
        assert "pg_read_all_stats" in found.by_name["connections"].missing
        assert "waits" in found.recordings.missing
        assert "permission denied" in found.by_name["wal_directory_bytes"].missing


def _make_role(superuser: Connection, role: str) -> None:
    superuser.execute(f"DROP ROLE IF EXISTS {role}".encode())
    superuser.execute(f"CREATE ROLE {role} LOGIN".encode())
    if role == "monitor":
        superuser.execute(b"GRANT pg_monitor TO monitor")


def test_without_its_host_the_server_is_seen_by_its_views_alone(
    running: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = running()
    monkeypatch.setattr("pgdrag.live.server._listener", lambda _: 1)
    found = observe_window(reached(cluster), 0.2)
    assert found.transactions is not None
    for name in ("host_user_share", "disk_busy_share", "disk_free_bytes", "server_cpu_share"):
        assert "the server does not run on this host" in found.by_name[name].missing


def test_a_log_that_cannot_be_read_has_its_reason(running: Callable[..., Cluster]) -> None:
    server = reached(running())
    with server.connect() as connection:
        existing = ExistingServer(server, connection)
        connection.close()
        with pytest.raises(Unseen, match="the server's log"):
            existing.log_files()
        assert existing.log_bytes() == 0


def test_a_server_lost_within_the_window_is_an_error(cluster: Cluster) -> None:
    cluster.start()
    server = reached(cluster)
    timer = threading.Timer(0.5, lambda: cluster.stop(fast_timeout_s=5))
    timer.start()
    with pytest.raises(ServerLost, match="lost"):
        observe_window(server, 20)
    timer.join()


def test_counters_reset_within_a_window_are_noticed(running: Callable[..., Cluster]) -> None:
    cluster = running()
    with cluster.connect() as client:

        def reset(_: float) -> None:
            client.execute("SELECT pg_stat_reset()")

        with busy(cluster, "SELECT 1"):
            found = observe_window(reached(cluster), SHORT_S, reset)
    assert found.transactions is None
    assert any("reset" in note for note in found.notes)
