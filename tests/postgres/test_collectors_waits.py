"""Where sessions' time goes is seen while it goes there."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest
from watching import make_table, start, watching, watching_all

import pgdrag.collectors.waits as waits_module
from pgdrag.collectors import Observer
from pgdrag.collectors.views import Tables
from pgdrag.collectors.waits import WaitProfile
from pgdrag.errors import DriverError
from pgdrag.findings.expecto.findings import WAIT_SERIES
from pgdrag.horizon.holders import HoldPlace, all_holders
from pgdrag.servers.cluster import Cluster

pytestmark = pytest.mark.postgres

LENGTH_S = 1.5


def test_a_blocked_session_waits_for_a_lock_and_who_holds_it_for_its_client(
    any_cluster: Cluster,
) -> None:
    start(any_cluster)
    make_table(any_cluster)
    with any_cluster.connect() as holder, any_cluster.connect() as blocked:
        holder.autocommit = False
        holder.execute("LOCK TABLE rows")

        def wait() -> None:
            with pytest.raises(psycopg.errors.QueryCanceled):
                blocked.execute("SELECT count(*) FROM rows")

        thread = threading.Thread(target=wait)
        thread.start()
        with watching(WaitProfile(), any_cluster) as watch:
            time.sleep(LENGTH_S)
        blocked.cancel_safe()
        thread.join(10)
    # A session that is there at each look was there all the time.
    assert watch["lock_wait_s_per_transaction"] == pytest.approx(LENGTH_S, rel=0.1)
    assert watch["client_wait_s_per_transaction"] == pytest.approx(LENGTH_S, rel=0.1)
    assert "Lock:relation 50 %" in watch.detail("lock_wait_s_per_transaction")
    assert watch["io_wait_s_per_transaction"] == 0


def test_a_session_that_works_is_on_a_processor(cluster: Cluster) -> None:
    start(cluster)
    with watching(WaitProfile(), cluster) as watch, cluster.connect() as client:
        watch.committed = 2
        client.execute("SELECT count(*) FROM generate_series(1, 5000000)")
    on_cpu, others = watch["on_cpu_s_per_transaction"], watch["lock_wait_s_per_transaction"]
    assert on_cpu > others == 0
    assert "samples." in watch.detail("on_cpu_s_per_transaction")


def test_a_type_among_the_other_waits_is_a_series_of_its_own_where_it_was_seen(
    cluster: Cluster,
) -> None:
    start(cluster)
    with watching(WaitProfile(), cluster) as watch, cluster.connect() as client:
        client.execute("SELECT pg_sleep(%s)", (LENGTH_S,))
    series = {one.name: one for one in watch.series}
    asleep = series[WAIT_SERIES["Timeout"]]
    assert asleep.times_s == series["other_wait_sessions"].times_s
    assert max(asleep.values) == 1
    assert WAIT_SERIES["BufferPin"] not in series
    # Every trial has these, whether or not anybody waited.
    assert {WAIT_SERIES[kind] for kind in ("IO", "Lock", "LWLock")} <= series.keys()


def test_a_server_that_goes_away_is_named(cluster: Cluster) -> None:
    start(cluster)
    with watching(WaitProfile(), cluster) as watch:
        time.sleep(0.3)
        cluster.stop()
        # It notices at its next look: twenty a second, at moments drawn by lot.
        time.sleep(1.0)
    reason = "the server's processes could not be watched: "
    assert watch.missing("on_cpu_s_per_transaction").startswith(reason)
    assert watch.missing("busy_background_processes").startswith(reason)


def test_without_the_drivers_program_nothing_is_said(
    shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise DriverError("load driver is not installed")

    monkeypatch.setattr(waits_module, "find_driver", none)
    with watching(WaitProfile(), shared_cluster) as watch:
        pass
    expected = "the server's processes could not be watched: load driver is not installed"
    assert watch.missing("on_cpu_s_per_transaction") == expected


def test_no_other_collector_waits_for_the_watch_to_end(shared_cluster: Cluster) -> None:
    waits, tables = WaitProfile(), Tables()
    with shared_cluster.connect() as connection:
        observer = Observer(shared_cluster, connection)
        for collector in (tables, waits):
            collector.before(observer)
        time.sleep(0.5)
        for collector in (tables, waits):
            collector.after(observer)
    assert tables.unfinished_sessions == 0


def test_no_watch_is_left_behind(shared_cluster: Cluster) -> None:
    for _ in range(3):
        with watching(WaitProfile(), shared_cluster):
            pass
    with shared_cluster.connect() as client:
        ((left,),) = client.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgdrag watch'"
        ).fetchall()
    assert left == 0


def test_who_holds_the_horizon_for_pgdrag_is_neither_a_wait_nor_waited_for(
    shared_cluster: Cluster,
) -> None:
    waits, tables = WaitProfile(), Tables()
    with watching_all([waits, tables], shared_cluster) as [watch, _]:
        held = all_holders()["snapshot"]().hold(HoldPlace(shared_cluster.conninfo()))
        time.sleep(0.5)
    held.release()
    assert watch["client_wait_s_per_transaction"] == 0
    assert tables.unfinished_sessions == 0
