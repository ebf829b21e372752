"""Collectors see on a real server what they say they see."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import psycopg
import pytest
from living import reload
from watching import (
    EAGER,
    ROWS,
    Watch,
    make_table,
    run_in_session,
    start,
    watching,
    watching_all,
)

import pgdrag.collectors as package
from conftest import newest, on_disk
from pgdrag.collectors import Collector, Observer, Unseen, Window, all_collectors
from pgdrag.collectors._proc import read_io, read_ticks, server_total
from pgdrag.collectors._vacuum_log import parse_work
from pgdrag.collectors.autovacuum import Autovacuum
from pgdrag.collectors.checkpoints import Checkpoints
from pgdrag.collectors.processes import Cpu, Reads
from pgdrag.collectors.views import Buffers, Database, Scans, Wal
from pgdrag.host.process_alive import wait_until
from pgdrag.host.process_sight import seeing_as
from pgdrag.model.recordings import ProcessIoUse
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.log_formats import FORMATS
from pgdrag.testing.conformance_collectors import CollectorConformance

pytestmark = pytest.mark.postgres
CRAMPED = {"shared_buffers": "256kB", "max_parallel_workers_per_gather": "0"}


@on_disk
class TestEveryCollector(CollectorConformance):
    @pytest.fixture(params=list(all_collectors().values()), ids=list(all_collectors()))
    def collector_class(self, request: pytest.FixtureRequest) -> type[Collector]:
        found: type[Collector] = request.param
        return found

    @pytest.fixture(autouse=True)
    def cluster(self, shared_cluster: Cluster) -> Cluster:
        return shared_cluster


# buffers


def hit_ratio(cluster: Cluster) -> float:
    make_table(cluster)
    with watching(Buffers(), cluster) as watch:
        run_in_session(cluster, *["SELECT count(filler) FROM rows"] * 5)
    return watch["buffer_hit_ratio"]


def test_a_small_cache_lowers_the_hit_ratio(running: Callable[..., Cluster]) -> None:
    assert hit_ratio(running()) > 0.5 > hit_ratio(running(**CRAMPED))


def test_each_block_of_a_cold_table_is_read_once(any_cluster: Cluster) -> None:
    start(any_cluster)
    make_table(any_cluster)
    with any_cluster.connect() as client:
        row = client.execute("SELECT pg_relation_size('rows') / 8192").fetchone()
        assert row is not None
    any_cluster.stop()
    any_cluster.start()
    with watching(Buffers(), any_cluster) as watch:
        run_in_session(any_cluster, "SELECT count(filler) FROM rows")
    catalogs = 400  # blocks that a new session reads of the system's own tables, at most
    assert row[0] <= watch["blocks_read_per_transaction"] <= row[0] + catalogs


# reads


def test_reads_of_a_session_that_has_ended_are_not_lost(running: Callable[..., Cluster]) -> None:
    cluster = running(**CRAMPED)
    make_table(cluster)
    with cluster.connect() as client:
        row = client.execute("SELECT pg_relation_size('rows')").fetchone()
        assert row is not None
    with watching(Reads(), cluster) as watch:
        run_in_session(cluster, *["SELECT count(filler) FROM rows"] * 4)
    assert watch["read_bytes_per_transaction"] >= 4 * 0.9 * row[0]
    assert watch["read_syscalls_per_transaction"] > 0
    assert "not attributed" in watch.detail("read_syscalls_per_transaction")


def test_calls_and_bytes_are_told_apart_by_kind_of_process(running: Callable[..., Cluster]) -> None:
    cluster = running(**CRAMPED)
    make_table(cluster)
    collector = Reads()
    # A session that outlives the window is looked at once more at its end.
    with cluster.connect() as client, watching(collector, cluster) as watch:
        client.execute("SELECT pg_read_binary_file('PG_VERSION') FROM generate_series(1, 1000)")
        client.execute("UPDATE rows SET filler = 'x'")
        client.execute("CHECKPOINT")
    uses = {
        use.kind: use for use in collector.recordings(Window(1.0, 1, 0.0, 1.0)).of(ProcessIoUse)
    }
    assert uses["sessions"].read_calls >= 1000
    assert uses["sessions"].written_bytes > ROWS * 80
    assert uses["checkpointer"].write_calls > 0
    total = sum(use.read_calls for use in uses.values())
    assert total == watch["read_syscalls_per_transaction"]


def test_the_account_of_an_ended_process_passes_to_the_postmaster(shared_cluster: Cluster) -> None:
    pid = shared_cluster.postmaster_pid
    assert pid is not None

    def read_calls(of: int) -> int:
        with seeing_as(shared_cluster.user):
            return read_io(of)["read_calls"]

    with shared_cluster.connect() as client:
        client.execute("SELECT pg_read_binary_file('PG_VERSION') FROM generate_series(1, 1000)")
        in_life = read_calls(client.info.backend_pid)
        before = read_calls(pid)
    assert in_life >= 1000
    assert wait_until(lambda: read_calls(pid) >= before + in_life, 10)


def test_the_collectors_own_session_is_left_out(shared_cluster: Cluster) -> None:
    pid = shared_cluster.postmaster_pid
    assert pid is not None
    with shared_cluster.connect() as client, seeing_as(shared_cluster.user):
        own = client.info.backend_pid
        whole = server_total(pid, -1, read_io)
        rest = server_total(pid, own, read_io)
    assert whole[1] - rest[1] == 1


# cpu


@newest
def test_processor_time_of_a_session_that_has_ended_is_not_lost(
    running: Callable[..., Cluster],
) -> None:
    cluster = running()
    with watching(Cpu(), cluster) as watch:
        watch.committed = 4
        with cluster.connect() as client:
            client.execute("SELECT count(*) FROM generate_series(1, 1000000)")
            with seeing_as(cluster.user):
                used = read_ticks(client.info.backend_pid)["own"]
    assert used > 0
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    # The postmaster's account is of the same time, but for a tick that is not whole.
    assert watch["server_cpu_s_per_transaction"] >= (used - 2) / ticks_per_s / 4
    assert 0 < watch["server_cpu_share"] <= 1


def test_another_user_may_not_read_the_account() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can act as two users")
    owner = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # nothing here may raise into pytest a second time
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            read_io(owner)
        except Exception as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        # Which of the two depends on how /proc is mounted.
        assert answer.read() in (
            "Unseen: this user may not read /proc/PID/io of the server's processes; it takes CAP_SYS_PTRACE",
            "Unseen: /proc hides the server's processes from this user (hidepid); it takes CAP_SYS_PTRACE",
        )
    os.waitpid(child, 0)


# checkpoints


@on_disk
def test_every_forced_checkpoint_is_counted(running: Callable[..., Cluster]) -> None:
    cluster = running(track_wal_io_timing="on")
    make_table(cluster)
    with watching(Checkpoints(), cluster) as watch:
        started = time.monotonic()
        for _ in range(3):
            run_in_session(cluster, "UPDATE rows SET filler = 'x' WHERE id < 100", "CHECKPOINT")
        watch.committed = 3
        elapsed_s = time.monotonic() - started
    detail = watch.detail("checkpoints_per_s")
    assert detail == "3 began: 3 by request. The server's own counter says 3."
    assert 0 < watch["seconds_between_checkpoints"] < elapsed_s
    assert 0 < watch["checkpoint_time_share"] <= 1
    assert watch["checkpoint_buffers_per_transaction"] >= 1
    # Of every version: the log line is read to its end.
    assert watch["buffers_per_checkpoint"] >= 1
    assert watch["checkpoint_distance_bytes"] > 0
    assert watch["checkpoint_sync_s"] <= elapsed_s


def test_without_checkpoints_the_rate_is_zero_and_the_distance_unknown(
    shared_cluster: Cluster,
) -> None:
    with watching(Checkpoints(), shared_cluster) as watch:
        pass
    assert watch["checkpoints_per_s"] == 0
    assert watch.missing("seconds_between_checkpoints").startswith("0 began in the ")


def checkpoints_counted(cluster: Cluster) -> int:
    with cluster.connect() as connection:
        (count,) = connection.execute("SELECT num_done FROM pg_stat_checkpointer").fetchone() or (
            0,
        )
    return int(count)


def test_a_log_without_log_lines_is_not_taken_for_silence(cluster: Cluster) -> None:
    start(cluster)
    # Behind pgdrag's back, whose own configuration does not allow it.
    run_in_session(cluster, "ALTER SYSTEM SET log_min_messages = 'panic'")
    reload(cluster)
    with watching(Checkpoints(), cluster) as watch:
        before = checkpoints_counted(cluster)
        run_in_session(cluster, "CREATE TABLE t ()", "CHECKPOINT")
        # The checkpointer adds to its counters a moment after it has answered.
        assert wait_until(lambda: checkpoints_counted(cluster) > before, 10)
    assert watch["checkpoints_per_s"] > 0
    reason = "a test line did not reach the server's log (log_min_messages?)"
    assert watch.detail("checkpoints_per_s") == f"By the server's counters, since {reason}."
    assert watch.missing("seconds_between_checkpoints") == reason


# autovacuum


def test_eager_autovacuum_is_seen_with_what_it_removes(any_cluster: Cluster) -> None:
    start(any_cluster)
    make_table(any_cluster)
    any_cluster.configure(EAGER)
    with watching(Autovacuum(), any_cluster) as watch:
        run_in_session(any_cluster, "DELETE FROM rows WHERE id <= 1000")
        reload(any_cluster)
        wait_for_vacuum(any_cluster)
    assert watch["vacuums_per_s"] > 0
    assert watch["analyzes_per_s"] > 0
    assert watch["tuples_removed_per_vacuum"] > 0
    assert "public.rows" in watch.detail("vacuums_per_s")
    assert watch["vacuum_read_bytes_per_s"] >= 0
    for name, since in (("frozen", 16), ("set_all_visible", 18)):
        is_logged = any_cluster.binaries.version_num >= since * 10_000
        reason = "" if is_logged else f"PostgreSQL before {since} does not log it"
        assert watch.missing(f"vacuum_pages_{name}_per_s") == reason


def test_a_held_horizon_keeps_dead_tuples(cluster: Cluster) -> None:
    start(cluster)
    make_table(cluster)
    cluster.configure(EAGER)
    with watching(Autovacuum(), cluster) as watch, cluster.connect(autocommit=False) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1")
        run_in_session(cluster, "DELETE FROM rows WHERE id <= 1000")
        reload(cluster)
        wait_for_vacuum(cluster)
    assert watch["dead_tuples_kept_per_vacuum"] > 0


def wait_for_vacuum(cluster: Cluster) -> None:
    """Until the log has a vacuum that met dead tuples, and an analyze, of the table."""

    def is_done() -> bool:
        [log] = cluster.log_files()
        form = FORMATS[log.suffix]
        messages = [form.parse(record) for record in form.records(log.read_bytes())]
        works = [work for one in messages if one and (work := parse_work(one.message))]
        rows = [work for work in works if work.table == "public.rows"]
        has_met_dead = any(work.removed + work.kept for work in rows)
        return has_met_dead and any(work.kind == "analyze" for work in rows)

    assert wait_until(is_done, 20)


# scans


def scans_of_one_key(cluster: Cluster, *before: str) -> Watch:
    with watching(Scans(), cluster) as watch:
        run_in_session(cluster, *before, *["SELECT filler FROM rows WHERE id = 7"] * 10)
        watch.committed = 10
    return watch


def test_one_lookup_is_one_index_scan(running: Callable[..., Cluster]) -> None:
    cluster = running()
    make_table(cluster)
    watch = scans_of_one_key(cluster)
    assert watch["index_scans_per_transaction"] == 1
    assert watch["seq_scans_per_transaction"] == 0
    assert watch["index_scan_share"] == 1


def test_without_index_scans_each_lookup_reads_the_table(running: Callable[..., Cluster]) -> None:
    cluster = running()
    make_table(cluster)
    off = (
        "enable_indexscan = off",
        "enable_bitmapscan = off",
        "max_parallel_workers_per_gather = 0",
    )
    watch = scans_of_one_key(cluster, *(f"SET {each}" for each in off))
    assert watch["seq_scans_per_transaction"] == 1
    assert watch["seq_tuples_per_transaction"] == ROWS
    assert f"public.rows {10 * ROWS:,}" in watch.detail("seq_tuples_per_transaction")


# wal


@on_disk
def test_an_update_writes_wal_and_its_page_after_a_checkpoint(
    running: Callable[..., Cluster],
) -> None:
    cluster = running(track_wal_io_timing="on")
    make_table(cluster)  # which ends with a checkpoint
    with watching(Wal(), cluster) as watch:
        run_in_session(cluster, "UPDATE rows SET filler = 'x' WHERE id = 1")
    assert watch["full_page_images_per_transaction"] >= 1
    assert watch["wal_records_per_transaction"] >= 2  # the update, and the commit
    assert watch["wal_bytes_per_transaction"] > 100
    assert watch["wal_syncs_per_transaction"] >= 1  # at the commit
    assert watch["wal_sync_s_per_transaction"] > 0


def test_wal_syncs_that_nobody_times_took_an_unknown_time(shared_cluster: Cluster) -> None:
    with watching(Wal(), shared_cluster) as watch:
        pass
    assert watch.missing("wal_sync_s_per_transaction") == "track_wal_io_timing is off"


# switched off counters

# From which version on the server counts nevertheless: pg_stat_io, and since 15 pg_stat_wal, do not depend on
# track_counts.
COUNTED_ANYHOW_SINCE: dict[type[Collector], int] = {Wal: 150000, Buffers: 160000}


def test_counters_that_are_switched_off_are_missing_and_not_zero(any_cluster: Cluster) -> None:
    settings = {"track_wal_io_timing": "on", "shared_buffers": "256kB"}
    start(any_cluster, track_counts="off", **settings)
    make_table(any_cluster)
    collectors = [Scans(), Buffers(), Wal(), Database()]
    with watching_all(collectors, any_cluster) as watches:
        run_in_session(
            any_cluster,
            "SET enable_indexscan = off",
            "SELECT count(filler) FROM rows",
            "UPDATE rows SET filler = 'x' WHERE id < 1000",
        )
    for collector, watch in zip(collectors, watches, strict=True):
        assert watch.seen
        since = COUNTED_ANYHOW_SINCE.get(type(collector))
        for name, seen in watch.seen.items():
            if since is not None and any_cluster.binaries.version_num >= since:
                assert seen.value, name
            else:
                assert (seen.value, seen.missing) == (None, "track_counts is off"), name


def test_vacuums_are_not_counted_without_a_log_and_without_counters(cluster: Cluster) -> None:
    start(cluster, track_counts="off")
    cannot_log = "ALTER SYSTEM SET log_min_messages = 'panic'"
    run_in_session(cluster, cannot_log)
    cluster.stop()
    cluster.start()
    with watching(Autovacuum(), cluster) as watch:
        pass
    assert watch.missing("vacuums_per_s") == "track_counts is off"
    assert watch.missing("analyzes_per_s") == "track_counts is off"


# crippled and dying servers


def test_a_planner_that_abhors_indexes_does_not_reach_the_collectors(cluster: Cluster) -> None:
    costs = {"random_page_cost": "1e300", "cpu_index_tuple_cost": "1e300", "seq_page_cost": "1e300"}
    start(cluster, **costs, enable_hashjoin="off", statement_timeout="1", idle_session_timeout="50")
    with cluster.connect() as connection:
        observer = Observer(cluster, connection)
        names = [*costs, "enable_hashjoin", "statement_timeout", "idle_session_timeout"]
        found = observer.query(
            "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", list(names)
        )
    assert dict(found) == {
        "random_page_cost": "4",
        "cpu_index_tuple_cost": "0.005",
        "seq_page_cost": "1",
        "enable_hashjoin": "on",
        "statement_timeout": "15000",
        "idle_session_timeout": "0",
    }


def test_a_timeout_that_passes_as_its_statement_ends_is_not_the_next_ones(
    shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The treatment's own, of a millisecond: once in a thousand times the server ends the next statement by it."""
    late = [psycopg.errors.QueryCanceled("canceling statement due to statement timeout")]
    with shared_cluster.connect() as connection:
        execute = connection.execute

        def cancelled_once(query: str, *arguments: object, **options: object) -> psycopg.Cursor:
            if "set_config" in query and late:
                raise late.pop()
            return execute(query, *arguments, **options)

        monkeypatch.setattr(connection, "execute", cancelled_once)
        assert Observer(shared_cluster, connection).query("SELECT 1") == [(1,)]
    assert not late


def test_the_collectors_session_cannot_write(shared_cluster: Cluster) -> None:
    with (
        shared_cluster.connect() as connection,
        pytest.raises(Unseen, match="the server refused: cannot execute CREATE TABLE"),
    ):
        Observer(shared_cluster, connection).query("CREATE TABLE t ()")


def test_a_query_that_takes_too_long_is_given_up(shared_cluster: Cluster) -> None:
    with shared_cluster.connect() as connection:
        observer = Observer(shared_cluster, connection)
        observer.query("SELECT set_config('statement_timeout', '50', false)")
        with pytest.raises(Unseen, match="the server did not answer within 15 s"):
            observer.query("SELECT pg_sleep(60)")
        assert observer.query("SELECT 1") == [(1,)]


def test_a_server_that_is_mute_is_hung_up_on(
    shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "QUERY_TIMEOUT_S", 0)
    monkeypatch.setattr(package, "_PATIENCE_S", 1.0)
    with shared_cluster.connect() as connection:
        observer = Observer(shared_cluster, connection)
        observer.query("SELECT 1")
        os.kill(observer.backend_pid, signal.SIGSTOP)
        try:
            with pytest.raises(Unseen, match="the server did not answer"):
                observer.query("SELECT 1")
        finally:
            os.kill(observer.backend_pid, signal.SIGCONT)


def test_a_server_that_dies_in_the_window_leaves_reasons_and_its_log(cluster: Cluster) -> None:
    start(cluster)
    pairs = [collector() for collector in all_collectors().values()]
    with cluster.connect() as connection:
        observer = Observer(cluster, connection)
        for collector in pairs:
            collector.before(observer)
        run_in_session(cluster, "CREATE TABLE t ()", "CHECKPOINT")
        cluster.stop(fast_timeout_s=0)
        for collector in pairs:
            collector.after(observer)
        for collector in pairs:
            collector.afterwards(observer)
    now = time.time()
    window = Window(10, 1, now - 10, now)
    seen = {each.name: each for collector in pairs for each in collector.observations(window)}
    assert seen["checkpoints_per_s"].value == pytest.approx(0.1)
    assert "read as it stood" in seen["checkpoints_per_s"].detail
    assert seen["wal_bytes_per_transaction"].missing == "the connection to the server was lost"
    assert seen["read_syscalls_per_transaction"].missing


def test_counters_reset_in_the_window_are_missing(shared_cluster: Cluster) -> None:
    run_in_session(shared_cluster, "CREATE TABLE t ()", "DROP TABLE t")
    with watching(Wal(), shared_cluster) as watch:
        run_in_session(shared_cluster, "SELECT pg_stat_reset_shared('wal')")
    assert watch.missing("wal_records_per_transaction").endswith("were reset within the window")


def test_sessions_that_were_there_before_are_not_waited_for(shared_cluster: Cluster) -> None:
    with shared_cluster.connect() as bystander:
        bystander.execute("SELECT 1")
        collector = Scans()
        with watching(collector, shared_cluster):
            run_in_session(shared_cluster, "SELECT 1")
        assert collector.unfinished_sessions == 0


def test_sessions_that_outlive_the_window_are_named(shared_cluster: Cluster) -> None:
    sessions: list[psycopg.Connection] = []
    collector = Scans()
    with watching(collector, shared_cluster) as watch:
        sessions.append(shared_cluster.connect())
    sessions[0].close()
    assert collector.unfinished_sessions == 1
    assert "1 of the window's sessions had not ended" in watch.detail("seq_scans_per_s")
