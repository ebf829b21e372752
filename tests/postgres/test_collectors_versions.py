"""Every collector reads every version's views, and needs no more rights than it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pytest
from watching import make_table, run_in_session, watching

from pgdrag.collectors import Collector, Observer, all_collectors
from pgdrag.collectors.horizon import Horizon
from pgdrag.collectors.statements import Statements
from pgdrag.collectors.waits import WaitProfile
from pgdrag.host.process_alive import wait_until
from pgdrag.model import Observation
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.processes import CLIENT_BACKEND, ServerProcess
from pgdrag.testing.conformance_collectors import (
    check_form,
    names,
    observe,
    stranger,
    window,
)

pytestmark = pytest.mark.postgres

# What a server may lack because of its age, and says so.
SINCE = re.compile(r"exists since PostgreSQL (\d+)|before PostgreSQL (\d+)")


@pytest.fixture(params=list(all_collectors().values()), ids=list(all_collectors()))
def collector_class(request: pytest.FixtureRequest) -> type[Collector]:
    found: type[Collector] = request.param
    return found


Seen = Mapping[type[Collector], Sequence[Observation]]


def observed(observer: Observer, busy: Callable[[], None], *, committed: int) -> Seen:
    """What all collectors see of one window, as in a trial: each waits for an old server's statistics."""
    # As a trial does: no other waits for the end of a session that an optional one opens.
    kinds = sorted(all_collectors().values(), key=lambda kind: not kind.is_optional)
    all_of_them = [kind() for kind in kinds]
    for collector in all_of_them:
        collector.before(observer)
    busy()
    for collector in all_of_them:
        collector.sample(observer)
    for collector in all_of_them:
        collector.after(observer)
    for collector in all_of_them:
        collector.afterwards(observer)
    return {type(x): x.observations(window(committed=committed)) for x in all_of_them}


@pytest.fixture(scope="module")
def seen(any_shared_cluster: Cluster) -> Seen:
    def busy() -> None:
        run_in_session(
            any_shared_cluster,
            "CREATE TABLE IF NOT EXISTS busy (a int PRIMARY KEY)",
            "INSERT INTO busy SELECT generate_series(1, 1000) ON CONFLICT DO NOTHING",
            "UPDATE busy SET a = a WHERE a < 100",
            "CHECKPOINT",
        )

    with any_shared_cluster.connect() as connection:
        return observed(Observer(any_shared_cluster, connection), busy, committed=10)


@pytest.fixture(scope="module")
def seen_by_stranger(any_shared_cluster: Cluster) -> Seen:
    with stranger(any_shared_cluster) as observer, any_shared_cluster.connect():
        return observed(observer, lambda: None, committed=1)


def test_every_version_is_observed(
    collector_class: type[Collector], seen: Seen, any_shared_cluster: Cluster
) -> None:
    major, found = any_shared_cluster.binaries.major, seen[collector_class]
    check_form(found)
    assert names(found) == names(collector_class().observations(window(committed=1)))
    refused = [x.missing for x in found if x.missing.startswith("the server refused")]
    assert refused == [], "a view is read that this version has otherwise"
    for reason in (x.missing for x in found):
        if since := SINCE.search(reason):
            assert major < int(since[1]) if since[1] else major >= int(since[2]), reason


def test_a_role_without_rights_gives_values_or_reasons_in_every_version(
    collector_class: type[Collector], seen_by_stranger: Seen
) -> None:
    found = seen_by_stranger[collector_class]
    check_form(found)
    assert names(found) == names(collector_class().observations(window(committed=1)))


def test_an_idle_server_has_no_process_that_is_taken_for_a_session(
    any_shared_cluster: Cluster,
) -> None:
    def sessions() -> list[ServerProcess]:
        return [x for x in any_shared_cluster.server_pids() if x.backend_type == CLIENT_BACKEND]

    assert wait_until(lambda: sessions() == [], 10), sessions()


def test_who_holds_the_horizon_is_not_nobody_because_its_session_is_hidden(
    any_shared_cluster: Cluster,
) -> None:
    make_table(any_shared_cluster)
    with stranger(any_shared_cluster) as observer, any_shared_cluster.connect() as holder:
        holder.autocommit = False
        holder.execute("UPDATE rows SET filler = 'held' WHERE id = 1")
        horizon = Horizon()
        horizon.after(observer)
        pid = holder.info.backend_pid
    seen = {x.name: x for x in horizon.observations(window(committed=1))}
    run_in_session(any_shared_cluster, "DROP TABLE rows")
    assert seen["horizon_holders"].value == 1
    assert f"session {pid}" in seen["horizon_age_transactions"].detail
    held = seen["horizon_held_s"]
    assert (held.value, held.missing) == (None, "none of its holders shows when it began")


def test_sessions_that_may_not_be_looked_at_are_not_taken_for_idle(
    any_shared_cluster: Cluster,
) -> None:
    with stranger(any_shared_cluster) as observer:
        seen = observe(WaitProfile(), observer, committed=1)
    reason = "this role may not see the sessions of others; it takes pg_read_all_stats"
    assert {x.missing for x in seen} == {reason}


def test_statements_that_may_not_be_looked_at_are_not_taken_for_none(cluster: Cluster) -> None:
    cluster.configure({"shared_preload_libraries": "pg_stat_statements", "compute_query_id": "on"})
    cluster.start()
    run_in_session(cluster, "CREATE EXTENSION pg_stat_statements")
    with stranger(cluster) as observer:
        seen = observe(Statements(), observer, committed=1)
    reason = "this role may not see the statements of others; it takes pg_read_all_stats"
    assert {x.missing for x in seen} == {reason}


def test_a_slot_that_keeps_no_rows_holds_nobody(cluster: Cluster) -> None:
    cluster.configure({"wal_level": "logical"})
    cluster.start()
    run_in_session(cluster, "SELECT pg_create_logical_replication_slot('feed', 'test_decoding')")
    with watching(Horizon(), cluster) as watch:
        pass
    assert watch["horizon_holders"] == 0, "a logical slot keeps rows of the catalogs alone"
