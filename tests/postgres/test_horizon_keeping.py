"""Holds are made and released on time by a thread, whatever becomes of the server meanwhile."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator, Sequence

import pytest

from pgdrag.horizon.holders import HoldPlace
from pgdrag.horizon.runner import Cleanup, HoldRunner
from pgdrag.horizon.sampling import read_holders
from pgdrag.horizon.schedule import Hold
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.cluster import Cluster

pytestmark = pytest.mark.postgres
TIMEOUT_S = 30.0


@pytest.fixture
def place(shared_cluster: Cluster) -> HoldPlace:
    return HoldPlace(shared_cluster.conninfo(), 60, shared_cluster)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    names = ("pgdrag-holder", "pgdrag-horizon")
    assert wait_until(lambda: not any(x.name in names for x in threading.enumerate()), TIMEOUT_S)


def begun(place: HoldPlace, holds: Sequence[Hold], tidying: Cleanup | None = None) -> HoldRunner:
    keeper = HoldRunner(place, holds, tidying)
    keeper.prepare()
    keeper.begin()
    return keeper


def who_holds(cluster: Cluster) -> list[str]:
    with cluster.connect() as client:
        found = read_holders(lambda sql: client.execute(sql).fetchall())
    return [one.who for one in found]


def test_holds_are_made_in_their_order_and_all_are_released(
    place: HoldPlace, shared_cluster: Cluster
) -> None:
    holds = [Hold(0, 0.4, "cursor"), Hold(0.2, 0.4, "snapshot"), Hold(0.6, 0.1, "transaction")]
    keeper = begun(place, holds)
    assert wait_until(lambda: len(keeper.made) == 3 and who_holds(shared_cluster) == [], TIMEOUT_S)
    assert [one.planned for one in keeper.made] == holds
    first, second, third = keeper.made
    assert second.began_unix_s < (first.ended_unix_s or 0)
    # Where one begins as another ends, it begins after that; what nobody follows lasts as long as planned.
    assert third.began_unix_s >= (second.ended_unix_s or math.inf)
    assert (first.ended_unix_s or 0) - first.began_unix_s >= 0.39
    assert (keeper.end(), keeper.failed) == ([], [])


def test_an_end_releases_what_would_last_and_makes_nothing_more(
    place: HoldPlace, shared_cluster: Cluster
) -> None:
    keeper = begun(place, [Hold(0, math.inf, "cursor"), Hold(1000, 1, "cursor")])
    assert wait_until(lambda: len(who_holds(shared_cluster)) == 1, TIMEOUT_S)
    assert keeper.end() == []
    assert wait_until(lambda: who_holds(shared_cluster) == [], TIMEOUT_S)
    [made] = keeper.made
    assert made.ended_unix_s is not None
    assert keeper.end() == []


def test_a_hold_is_as_old_as_it_must_be_also_where_older_transactions_end_after_it_began(
    place: HoldPlace, shared_cluster: Cluster
) -> None:
    with shared_cluster.connect() as older:
        older.autocommit = False
        older.execute("SELECT pg_current_xact_id()")
        keeper = begun(place, [Hold(0, math.inf, "transaction")])
        assert wait_until(lambda: bool(keeper.made and keeper.made[0].xid), TIMEOUT_S)
        older.commit()
    look = keeper.watch.sample()
    assert keeper.end() == []
    assert look is not None
    assert look.wanted is not None
    assert look.is_held, look


def test_an_end_before_the_begin_is_fine(place: HoldPlace) -> None:
    keeper = HoldRunner(place, [Hold(0, 1, "cursor")])
    keeper.prepare()
    assert keeper.end() == []
    assert HoldRunner(place, [Hold(0, 1, "cursor")]).end() == []


def test_a_vacuum_that_is_not_done_at_the_end_is_cut_short_and_says_so(
    place: HoldPlace, shared_cluster: Cluster
) -> None:
    with shared_cluster.connect() as client, shared_cluster.connect() as other:
        client.execute("CREATE TABLE kept (n int)")
        tidying = Cleanup(place, "vacuum and reindex")
        other.autocommit = False
        other.execute("LOCK TABLE kept")
        keeper = begun(place, [Hold(0, 0.1, "snapshot")], tidying)
        assert wait_until(lambda: tidying.began_unix_s is not None, TIMEOUT_S)
        assert keeper.end() == []
        assert (tidying.is_cut_short, tidying.words) == (True, "cut short by the trial's end")
        other.rollback()
        client.execute("DROP TABLE kept")


def test_a_server_that_is_mute_keeps_nobody_waiting_for_ever(cluster: Cluster) -> None:
    cluster.configure({"max_prepared_transactions": "2"})
    cluster.start()
    keeper = begun(HoldPlace(cluster.conninfo(), 60, cluster), [Hold(0, math.inf, "prepared")])
    assert wait_until(lambda: bool(keeper.made), TIMEOUT_S)
    stopped = [each.pid for each in cluster.server_pids()]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    keeper.end()
    assert len(keeper.failed) == 1
    assert "pgdrag horizon holder" in keeper.failed[0]
