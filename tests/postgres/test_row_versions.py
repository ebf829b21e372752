"""What the collector of row versions says of a table's pages is what the server's own functions say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from watching import run_in_session, start

from pgdrag.collectors import Observer, Window
from pgdrag.collectors._heap_pages import parse
from pgdrag.collectors.row_versions import RowVersions
from pgdrag.host.process_alive import wait_until
from pgdrag.model import Observation
from pgdrag.model.recordings import HotChain, PageStrip, Recordings
from pgdrag.servers.cluster import Cluster

pytestmark = pytest.mark.postgres

ROWS = 20
COUNTERS = (
    "CREATE TABLE counters (id int PRIMARY KEY, n bigint)",
    f"INSERT INTO counters SELECT id, 0 FROM generate_series(1, {ROWS}) AS id",
)
ITEMS = """
SELECT count(*) FILTER (WHERE lp_flags = 1), count(*) FILTER (WHERE lp_flags = 2),
       count(*) FILTER (WHERE lp_flags = 3), count(*) FILTER (WHERE lp_flags = 0),
       count(*) FILTER (WHERE t_infomask2 & 32768 <> 0)
  FROM generate_series(0, %s) AS block, pgdrag_extensions.heap_page_items(pgdrag_extensions.get_raw_page('counters', block))
"""


LINKS = """
SELECT lp, t_xmin::text::bigint, t_xmax::text::bigint, t_ctid::text
  FROM pgdrag_extensions.heap_page_items(pgdrag_extensions.get_raw_page('counters', %s))
 WHERE lp = ANY (%s)
"""


@pytest.fixture
def emptied(shared_cluster: Cluster) -> Iterator[Cluster]:
    """The file's own server, whose tables go with the test."""
    yield shared_cluster
    run_in_session(shared_cluster, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@contextmanager
def holding(cluster: Cluster) -> Iterator[psycopg.Connection]:
    """Somebody who may still want every row version from now on."""
    with cluster.connect(autocommit=False) as holder:
        holder.execute("SELECT pg_current_xact_id()")
        yield holder


def update(cluster: Cluster, times: int) -> None:
    """As the workload does, row by row; until the server's counters tell of it."""
    before = updates_counted(cluster)
    with cluster.connect() as client:
        for at in range(times):
            client.execute("UPDATE counters SET n = n + 1 WHERE id = %s", (at % ROWS + 1,))
    # A session hands in its counters at its end, and PostgreSQL 14 shows them half a second later.
    assert wait_until(lambda: updates_counted(cluster) == before + times, 30)


def updates_counted(cluster: Cluster) -> int:
    with cluster.connect() as client:
        query = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'counters'"
        rows = client.execute(query).fetchall()
    return int(rows[0][0]) if rows else 0


def look_twice(
    cluster: Cluster, updates: int, collector: RowVersions | None = None
) -> tuple[dict[str, Observation], Recordings]:
    """Look, update so many rows, and look again."""
    collector, begin_s = collector or RowVersions(), time.time()
    with cluster.connect() as connection:
        observer = Observer(cluster, connection)
        update(cluster, ROWS)
        collector.before(observer)
        assert observer.own_sessions
        update(cluster, updates)
        collector.after(observer)
        collector.afterwards(observer)
        assert not observer.own_sessions
    window = Window(1.0, updates, begin_s, time.time())
    seen = {one.name: one for one in collector.observations(window)}
    return seen, collector.recordings(window)


def last_of(recordings: Recordings) -> dict[str, float]:
    return {one.name: one.values[-1] for one in recordings.series}


def test_a_held_horizon_keeps_each_version_and_chains_of_them(any_cluster: Cluster) -> None:
    start(any_cluster)
    run_in_session(any_cluster, *COUNTERS)
    with holding(any_cluster):
        seen, recordings = look_twice(any_cluster, 50 * ROWS)
        with any_cluster.connect() as client:
            row = client.execute(
                "SELECT dead_tuple_count, table_len FROM pgdrag_extensions.pgstattuple('counters')"
            ).fetchone()
            pages = client.execute("SELECT pg_relation_size('counters') / 8192").fetchone()
            index = client.execute("SELECT pg_relation_size('counters_pkey')").fetchone()
            [*_, chain] = recordings.of(HotChain)
            links = [*chain.first, *chain.last]
            items = client.execute(
                LINKS, (chain.block, [link.line_pointer for link in links])
            ).fetchall()
    assert row is not None
    assert pages is not None
    assert index is not None
    # As many as the server counts, and a row has one for each of its updates.
    assert seen["dead_versions_per_row"].value == row[0] / ROWS == 51
    assert seen["bloat_ratio"].value == pages[0] > 1
    last = last_of(recordings)
    assert (last["dead_versions_per_row"], last["bloat_ratio"]) == (51, pages[0])
    assert last["index_bytes"] == index[0]
    assert last["table_bytes"] >= row[1]
    assert last["hot_chain_length_max"] >= last["hot_chain_length"] > 1
    # The longest chain, as pageinspect has it: each version was ended by the next one's transaction.
    assert chain.versions == last["hot_chain_length_max"]
    assert {
        (x.line_pointer, x.xmin, x.xmax, f"({x.next_block},{x.next_line_pointer})") for x in links
    } == set(items)
    assert [x.xmax for x in chain.first[:-1]] == [x.xmin for x in chain.first[1:]]
    # Each update finds its row by way of one index entry for each page on which the row has had a version.
    visited = seen["index_entries_visited"].value
    assert visited is not None
    assert 1 <= visited <= pages[0]
    assert last["index_entries_visited"] == visited
    assert 0 < last["index_leaf_density"] <= 1
    assert seen["dead_versions_per_row"].detail.startswith("Of public.counters; all ")


def test_without_a_holder_versions_are_pruned_and_chains_stay_short(emptied: Cluster) -> None:
    run_in_session(emptied, *COUNTERS)
    seen, recordings = look_twice(emptied, 50 * ROWS)
    assert seen["bloat_ratio"].value == 1
    assert seen["index_entries_visited"].value == 1
    [*_, strip] = recordings.of(PageStrip)
    assert strip.relation == "public.counters"
    assert strip.pages == strip.pages_read == 1
    assert strip.live == (ROWS,)
    assert strip.redirect[0] > 0
    assert 0 < strip.free_bytes[0] < 8192


def test_pages_are_read_as_pageinspect_reads_them(any_cluster: Cluster) -> None:
    start(any_cluster)
    run_in_session(any_cluster, *COUNTERS, "INSERT INTO counters SELECT 1000 + n FROM generate_series(1, 500) n", "DELETE FROM counters WHERE id % 3 = 0 AND id > 1000", "VACUUM counters")  # fmt: skip
    update(any_cluster, 3 * ROWS)
    with holding(any_cluster), any_cluster.connect() as client:
        run_in_session(any_cluster, "DELETE FROM counters WHERE id > 1300")
        client.execute("BEGIN; UPDATE counters SET n = 1 WHERE id < 5; ROLLBACK")
        with any_cluster.connect() as connection:
            collector = RowVersions()
            collector.before(Observer(any_cluster, connection))
            collector.afterwards(Observer(any_cluster, connection))
        [(count,)] = client.execute("SELECT pg_relation_size('counters') / 8192").fetchall()
        raw = "SELECT pgdrag_extensions.get_raw_page('counters', 'main', n) FROM generate_series(0, %s) AS n"
        pages = [page for (page,) in client.execute(raw, (count - 1,), binary=True)]
        [items] = client.execute(ITEMS, (count - 1,)).fetchall()
    found = parse(pages, range(count))
    told = (
        found.live.sum() + found.old.sum(),
        *(one.sum() for one in (found.redirect, found.dead, found.unused)),
    )
    assert told == items[:4]
    assert items[4] > 0, "some versions are heap-only"
    versions_in_chains = int(found.steps.sum())
    assert versions_in_chains <= items[0]


def test_the_workloads_names_mean_what_they_meant(emptied: Cluster) -> None:
    """The superuser's own schema would come before all others, and takes what is made without one."""
    run_in_session(emptied, *COUNTERS)
    look_twice(emptied, 0)
    with emptied.connect() as client:
        rows = client.execute("SELECT current_schemas(false)::text, current_schema()").fetchall()
    assert rows == [("{public}", "public")]


def test_a_table_that_is_too_large_is_read_in_part(
    emptied: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.collectors._table_samples.MOST_PAGES", 40)
    run_in_session(
        emptied,
        "CREATE TABLE counters (id int PRIMARY KEY, n bigint) WITH (fillfactor = 10)",
        "INSERT INTO counters SELECT n, 0 FROM generate_series(1, 4000) AS n",
        "ANALYZE counters",
        "UPDATE counters SET n = 1",
    )
    with holding(emptied):
        run_in_session(emptied, "UPDATE counters SET n = 2")
        seen, recordings = look_twice(emptied, 0)
    strip = recordings.of(PageStrip)[-1]
    assert strip.pages_read == len(strip.live) == 40 < strip.pages
    assert f"; 40 of {strip.pages:,} pages" in seen["dead_versions_per_row"].detail
    # Each row has the version that the holder may still want.
    assert seen["dead_versions_per_row"].value == pytest.approx(1, abs=0.3)


def test_a_lock_on_the_table_is_not_waited_for(emptied: Cluster) -> None:
    run_in_session(emptied, *COUNTERS)
    collector = RowVersions()
    with emptied.connect() as connection, emptied.connect(autocommit=False) as locker:
        observer = Observer(emptied, connection)
        update(emptied, 1)
        collector.before(observer)
        locker.execute("LOCK TABLE counters IN ACCESS EXCLUSIVE MODE")
        collector.after(observer)
        locker.rollback()
        collector.afterwards(observer)
    seen = collector.observations(Window(1.0, 1, 0.0, 1.0))
    assert seen[0].value is not None
    assert "1 sample," in seen[0].detail
    assert "; 1 more failed." in seen[0].detail
    log = b"".join(path.read_bytes() for path in emptied.log_files())
    assert b"lock timeout" not in log, "it would be counted among the workload's errors"


def test_several_tables_have_series_of_their_own(emptied: Cluster) -> None:
    run_in_session(
        emptied,
        *COUNTERS,
        'CREATE TABLE "Other One" (id int, n int)',
        'INSERT INTO "Other One" VALUES (1, 0)',
        'UPDATE "Other One" SET n = 1',
    )
    _, recordings = look_twice(emptied, ROWS)
    last = last_of(recordings)
    sizes = [last["table_bytes_of_public_counters"], last["table_bytes_of_public_other_one"]]
    assert last["table_bytes"] == sum(sizes)
    assert "index_bytes_of_public_counters_pkey" not in last, "there is one index alone"
    assert {strip.relation for strip in recordings.of(PageStrip)} == {
        "public.counters",
        'public."Other One"',
    }


def test_what_nobody_updates_gives_way_to_the_table_that_the_workload_does(
    emptied: Cluster,
) -> None:
    run_in_session(
        emptied, *COUNTERS, "CREATE TABLE large AS SELECT n FROM generate_series(1, 9000) AS n"
    )
    collector, begin_s = RowVersions(), time.time()
    with emptied.connect() as connection:
        observer = Observer(emptied, connection)
        collector.before(observer)
        update(emptied, 1)
        collector.after(observer)
        collector.afterwards(observer)
    recordings = collector.recordings(Window(1.0, 1, begin_s, time.time()))
    assert {strip.relation for strip in recordings.of(PageStrip)} == {"public.counters"}
    assert {len(one.values) for one in recordings.series if one.name == "bloat_ratio"} == {1}
