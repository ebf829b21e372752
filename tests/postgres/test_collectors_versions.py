"""Every collector reads every version's views, and needs no more rights than it says."""

from __future__ import annotations

import re

import pytest
from watching import make_table, run_in_session, watching

from pgdrag.collectors import Collector, Observer, all_collectors
from pgdrag.collectors.horizon import Horizon
from pgdrag.collectors.statements import Statements
from pgdrag.collectors.waits import WaitProfile
from pgdrag.servers.cluster import Cluster
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


def test_every_version_is_observed(
    collector_class: type[Collector], any_shared_cluster: Cluster
) -> None:
    major = any_shared_cluster.binaries.major
    collector = collector_class()
    with any_shared_cluster.connect() as connection:
        observer = Observer(any_shared_cluster, connection)
        collector.before(observer)
        run_in_session(
            any_shared_cluster,
            "CREATE TABLE IF NOT EXISTS busy (a int PRIMARY KEY)",
            "INSERT INTO busy SELECT generate_series(1, 1000) ON CONFLICT DO NOTHING",
            "UPDATE busy SET a = a WHERE a < 100",
            "CHECKPOINT",
        )
        collector.sample(observer)
        collector.after(observer)
        collector.afterwards(observer)
    seen = collector.observations(window(committed=10))
    check_form(seen)
    assert names(seen) == names(collector_class().observations(window(committed=1)))
    refused = [x.missing for x in seen if x.missing.startswith("the server refused")]
    assert refused == [], "a view is read that this version has otherwise"
    for reason in (x.missing for x in seen):
        if found := SINCE.search(reason):
            assert major < int(found[1]) if found[1] else major >= int(found[2]), reason


def test_a_role_without_rights_gives_values_or_reasons_in_every_version(
    collector_class: type[Collector], any_shared_cluster: Cluster
) -> None:
    with stranger(any_shared_cluster) as observer, any_shared_cluster.connect():
        seen = observe(collector_class(), observer, committed=1)
    assert names(seen) == names(collector_class().observations(window(committed=1)))


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
