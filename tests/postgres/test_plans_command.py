"""`pgdrag plans`: the plans of a twin without rows are those of the original, and which change makes them others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from commands import dsn

from conftest import newest
from in_process import pgdrag
from pgdrag.capture.twin import TwinCapture
from pgdrag.driver.connection_string import reach
from pgdrag.findings.plan_diff import plan_diff
from pgdrag.findings.plan_flips import ExplainedStatement, PlanFlips, TwinPlans, Unplanned
from pgdrag.findings.plan_nodes import number_of
from pgdrag.planning.btree_heights import btree_heights
from pgdrag.planning.explaining import PlanningSession
from pgdrag.planning.plan_twin import PlanTwin, running_plan_twin
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.twins import Twin, twin_bytes
from pgdrag.twins.mending import GENERIC_SINCE
from pgdrag.twins.model import Schema, Setting, TypeObject
from twin_statements import workload

TABLES = (
    "CREATE TYPE public.mood AS ENUM ('sad', 'glad', 'neutral')",
    "CREATE DOMAIN public.mail AS text CHECK (VALUE LIKE '%@%')",
    """CREATE TABLE public.customer (id bigint PRIMARY KEY, name varchar(40) NOT NULL, mail public.mail, feeling public.mood,
       country char(2), tags text[], seen date)""",
    """CREATE TABLE public.orders (id bigint NOT NULL, customer bigint NOT NULL, placed timestamptz NOT NULL, status text NOT NULL,
       total numeric) PARTITION BY RANGE (placed)""",
    *(
        f"CREATE TABLE public.orders_{at} PARTITION OF public.orders FOR VALUES FROM ('2024-{at:02}-01') TO ('2024-{at + 1:02}-01')"
        for at in range(1, 5)
    ),
    "ALTER TABLE public.orders ADD PRIMARY KEY (id, placed)",
    "CREATE INDEX orders_customer ON public.orders (customer)",
    "CREATE INDEX orders_open ON public.orders (placed) WHERE status = 'open'",
    "CREATE TABLE public.item (orders bigint, line int, product int, price numeric, PRIMARY KEY (orders, line))",
    "CREATE INDEX item_product ON public.item USING hash (product)",
    "CREATE TABLE public.event (at timestamptz NOT NULL, customer bigint, kind int, body jsonb)",
    "CREATE TABLE public.seat (block int4range, blocks int4multirange)",
    "CREATE INDEX seat_block ON public.seat USING gist (block)",
    "CREATE INDEX event_at ON public.event USING brin (at)",
    "CREATE INDEX event_body ON public.event USING gin (body jsonb_path_ops)",
    "CREATE INDEX customer_tags ON public.customer USING gin (tags)",
    "CREATE INDEX customer_lower ON public.customer (lower(name)) WITH (fillfactor = 70)",
    "CREATE STATISTICS public.customer_both (dependencies, ndistinct) ON country, feeling FROM public.customer",
)
ROWS = (
    """INSERT INTO public.customer SELECT i, 'Name ' || i * 7919 % 3000, 'm' || i || '@x', (ARRAY['sad', 'glad', 'neutral'])[1 + i % 7 % 3]::public.mood,
       chr(65 + i % 5) || 'X', ARRAY['t' || i % 13, 't' || i % 7], date '2024-01-01' + i % 400 FROM generate_series(1, 6000) AS i""",
    """INSERT INTO public.orders SELECT i, 1 + i * 7919 % 6000, timestamptz '2024-01-02' + i * interval '5 min',
       CASE WHEN i % 50 = 0 THEN 'open' ELSE 'done' END, i % 1000 FROM generate_series(1, 30000) AS i""",
    "INSERT INTO public.item SELECT i / 2, i % 2, 1 + i * 31 % 1000, 9.5 FROM generate_series(2, 60000) AS i",
    "INSERT INTO public.seat SELECT x, int4multirange(x) FROM (SELECT int4range(i % 37, i % 37 + i % 11) FROM generate_series(1, 20000) AS i) AS t (x)",
    """INSERT INTO public.event SELECT timestamptz '2024-01-01' + i * interval '1 min', i * 31 % 6000, i % 20,
       jsonb_build_object('k', i % 20, 'x', repeat('y', 50)) FROM generate_series(1, 30000) AS i""",
)
STATEMENTS = (
    "SELECT * FROM customer WHERE id = $1",
    "SELECT * FROM customer WHERE lower(name) = lower($1)",
    "SELECT * FROM customer WHERE tags @> ARRAY[$1]",
    "SELECT count(*) FROM customer WHERE feeling = $1 AND country = $2",
    "SELECT * FROM customer ORDER BY seen DESC LIMIT $1",
    "SELECT name, count(*) FROM customer GROUP BY name",
    "SELECT country, feeling, count(*) FROM customer GROUP BY country, feeling",
    "SELECT * FROM orders WHERE customer = $1 ORDER BY placed DESC LIMIT $2",
    "SELECT * FROM orders WHERE placed >= $1 AND placed < $2",
    "SELECT count(*) FROM orders WHERE status = $1 AND placed < $2",
    "SELECT max(placed) FROM orders",
    "SELECT c.name, sum(i.price) FROM customer c JOIN orders o ON o.customer = c.id JOIN item i ON i.orders = o.id WHERE c.country = $1 GROUP BY c.name",
    "SELECT * FROM customer c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
    "SELECT * FROM item WHERE product = $1",
    "SELECT * FROM item WHERE orders IN (SELECT id FROM orders WHERE customer = $1)",
    "SELECT count(*) FROM item",
    "SELECT * FROM event WHERE at BETWEEN $1 AND $2",
    "SELECT * FROM event WHERE body @> $1",
    "SELECT kind, count(*) FROM event WHERE at > now() - interval $1 GROUP BY kind",
    "SELECT c.id, e.kind, count(*) FROM customer c LEFT JOIN event e ON e.customer = c.id GROUP BY c.id, e.kind",
    "INSERT INTO event VALUES ($1, $2, $3, $4)",
    "UPDATE customer SET seen = $1 WHERE id = $2",
    "DELETE FROM event WHERE at < $1",
    # Numbers up to 99 are their own tokens.
    "SELECT * FROM seat WHERE block && '[45,46)'",
    "SELECT * FROM seat WHERE block && '[5,30)'",
    "SELECT * FROM seat WHERE blocks <@ '{[0,9)}'",
    "WITH x AS (SELECT customer, sum(total) AS t FROM orders GROUP BY customer) SELECT c.name, x.t FROM customer c JOIN x ON x.customer = c.id WHERE x.t > $1",
)  # fmt: skip
TREATMENTS: tuple[Mapping[str, str], ...] = (
    {},
    {"random_page_cost": "1.1", "effective_cache_size": "64GB"},
    {"work_mem": "64kB"},
    {"enable_hashjoin": "off", "enable_seqscan": "off"},
    {"enable_nestloop": "off", "enable_partitionwise_aggregate": "on"},
    {"max_parallel_workers_per_gather": "4", "min_parallel_table_scan_size": "0", "parallel_setup_cost": "0"},
)  # fmt: skip
HERE = {"search_path": "public"}


@dataclass(frozen=True)
class Pair:
    cluster: Cluster
    original: PlanningSession
    planned: PlanningSession
    plan_twin: PlanTwin
    twin: Twin


@pytest.fixture(scope="module")
def pair(
    telling_version: str, new_cluster: Callable[[str], Cluster], scratch: Scratch
) -> Iterator[Pair]:
    """A server with rows, and a plan twin of it."""
    with new_cluster(telling_version) as cluster:
        cluster.configure({"autovacuum": "off", "fsync": "off"})
        cluster.start()
        with cluster.connect(role=cluster.load_role) as connection:
            for statement in (*TABLES, *ROWS):
                connection.execute(statement.encode())
        with cluster.connect() as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute(
                f"CREATE ROLE watcher LOGIN IN ROLE pg_monitor, {cluster.load_role}".encode()
            )
            connection.execute("GRANT pg_read_all_data TO watcher")
        captured = TwinCapture(reach(dsn(cluster, "watcher"))).run(0)
        twin = replace(captured, workload=workload(STATEMENTS))
        is_generic = cluster.binaries.version_num >= GENERIC_SINCE
        with (
            running_plan_twin(twin, cluster.binaries, scratch) as plan_twin,
            plan_twin.session() as planned,
            cluster.connect(role=cluster.load_role) as connection,
        ):
            original = PlanningSession(connection, is_generic=is_generic)
            yield Pair(cluster, original, planned, plan_twin, twin)


@pytest.fixture
def file(pair: Pair, tmp_path: Path) -> Path:
    """The twin's file."""
    path = tmp_path / "shop.twin"
    path.write_bytes(twin_bytes(pair.twin))
    return path


def plans(scratch: Scratch, *arguments: str | Path) -> tuple[int, str, str]:
    return pgdrag("plans", *arguments, PGDRAG_SCRATCH=str(scratch.root))


@pytest.mark.parametrize("treatment", TREATMENTS, ids=lambda x: ",".join(x) or "defaults")
def test_plans_without_rows_are_those_of_the_original(
    pair: Pair, treatment: Mapping[str, str]
) -> None:
    assert pair.plan_twin.notes == ()
    for one in pair.twin.workload.statements:
        was, now = (x.plan(one, HERE | treatment) for x in (pair.original, pair.planned))
        assert not isinstance(was, str), was
        assert not isinstance(now, str), now
        assert plan_diff(was, now) == "", one.text
        # The counts of a GIN index are not told, and the planner assumes some.
        if "@>" not in one.text:
            costs = [number_of(x, "Total Cost") for x in (was, now)]
            assert costs[1] == pytest.approx(costs[0], rel=0.05), one.text


def test_extended_statistics_are_those_of_the_original(pair: Pair) -> None:
    assert not any("CREATE STATISTICS" in one for one in pair.twin.not_seen)
    query = "SELECT n_distinct::text, dependencies::text FROM pg_stats_ext WHERE statistics_name = 'customer_both'"
    found = []
    for cluster in (pair.cluster, pair.plan_twin.cluster):
        with cluster.connect() as connection:
            found.append(set(connection.execute(query.encode()).fetchall()))
    assert found[0]
    assert found[0] == found[1]


def test_an_empty_index_of_some_height_can_be_scanned(pair: Pair) -> None:
    cluster = pair.plan_twin.cluster
    with cluster.connect(settings={"search_path": "public", "enable_seqscan": "off"}) as connection:
        for query in (
            "SELECT min(id), max(id) FROM customer",
            "SELECT count(*) FROM orders WHERE customer BETWEEN 5 AND 7",
            "SELECT count(*) FROM event WHERE body @> '{\"k\": 1}'",
            "SELECT count(*) FROM event WHERE at > '2024-01-01'",
            "SELECT count(*) FROM item WHERE product = 3",
        ):
            [row] = connection.execute(query.encode()).fetchall()
            assert set(row) <= {None, 0}, query


@newest
def test_a_table_of_five_terabytes_takes_no_room(pair: Pair, scratch: Scratch) -> None:
    size = 5 << 40
    relations = [
        replace(x, bytes=size, pages=size // 8192, tuples=1e11, height=None) if x.name == "event" else x
        for x in pair.twin.relations
    ]  # fmt: skip
    twin = replace(pair.twin, relations=tuple(relations), statistics=())
    with running_plan_twin(twin, pair.plan_twin.cluster.binaries, scratch) as large:
        with large.cluster.connect() as connection:
            [(found,)] = connection.execute("SELECT pg_relation_size('public.event')").fetchall()
        written = sum(x.stat().st_blocks for x in large.cluster.data_directory.rglob("*")) * 512
    assert found == size
    assert written < 200e6


@newest
def test_what_a_stranger_writes_into_a_twin_runs_without_privileges(
    pair: Pair, scratch: Scratch, tmp_path: Path
) -> None:
    evil = (
        f"COPY (SELECT 1) TO PROGRAM 'touch {tmp_path}/program'",
        f"COPY (SELECT 1) TO '{tmp_path}/file'",
        "CREATE TABLE public.fine (a int); CREATE TABLE public.second (a int)",
        "CREATE FUNCTION public.who(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE EXCEPTION 'run by %', current_user; END $$",
        "CREATE DOMAIN public.trap AS text CHECK (public.who(VALUE))",
        "CREATE TABLE public.bait (a public.trap)",
        "CREATE TABLE public.other (a int)",
    )
    [like] = [x for x in pair.twin.statistics if (x.relation, x.column) == ("customer", "name")]
    schema = Schema(types=tuple(TypeObject("x", str(at), "enum", x) for at, x in enumerate(evil)))
    twin = replace(
        pair.twin,
        schema=schema,
        statistics=(replace(like, relation="bait", column="a"),),
        relations=(),
    )
    with (
        running_plan_twin(twin, pair.plan_twin.cluster.binaries, scratch) as made,
        made.cluster.connect() as connection,
    ):
        [(tables,)] = connection.execute(
            "SELECT array_agg(relname::text ORDER BY 1) FROM pg_class WHERE relkind = 'r' AND oid >= 16384"
        ).fetchall()
        [(values,)] = connection.execute(
            "SELECT count(most_common_vals) + count(histogram_bounds) FROM pg_stats WHERE tablename = 'bait'"
        ).fetchall()
    assert tables == ["bait", "other"]
    assert values  # as of text: the domain's CHECK was not asked
    assert len(made.notes) == 3
    assert not list(tmp_path.iterdir())


def found_in(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out)
    return found


@newest
def test_the_guilty_lines_are_named_with_the_statements_that_they_change(
    file: Path, scratch: Scratch, tmp_path: Path
) -> None:
    conf = tmp_path / "my.conf"
    conf.write_text(
        "shared_buffers = 1GB\nenable_nestloop = off\nwork_mem = 4096kB\ncursor_tuple_fraction = 0.2\n"
    )
    page = tmp_path / "plans.html"
    status, out, err = plans(scratch, file, conf, "--json", "--html", page, "--fail-if-changed")
    assert status == 1, err
    found = found_in(out)
    flips = found["flips"]["flips"]
    assert found["flips"]["changes"][0]["place"] == "my.conf:2"
    assert [x["name"] for x in found["flips"]["changes"]] == [
        "enable_nestloop",
        "cursor_tuple_fraction",
    ]
    assert (found["same"], found["not_read"]) == (["work_mem"], ["shared_buffers"])
    guilty = {x["change"]["name"] for flip in flips for x in flip["guilty"]}
    assert guilty == {"enable_nestloop"}
    assert any("nested loop" in flip["words"] for flip in flips)
    assert not found["flips"]["unplanned"]
    assert "Content-Security-Policy" in page.read_text(encoding="utf-8")


@newest
def test_what_the_original_sets_is_the_side_that_is_compared_with(
    pair: Pair, scratch: Scratch, tmp_path: Path
) -> None:
    source = replace(pair.twin.source, settings=(Setting("enable_nestloop", "off"),))
    file = tmp_path / "shop.twin"
    file.write_bytes(twin_bytes(replace(pair.twin, source=source)))
    status, out, err = plans(scratch, file, "default", "--json")
    assert status == 0, err
    [change] = found_in(out)["flips"]["changes"]
    assert (change["before"], change["after"]) == ("off", "on (default)")
    assert found_in(out)["flips"]["flips"]


def test_an_upgrade_is_a_change_like_a_line(
    file: Path, scratch: Scratch, telling_version: str, new_cluster: Callable[[str], Cluster]
) -> None:
    if telling_version != "14":
        pytest.skip("from the oldest to the newest")
    with new_cluster("14") as older:
        installation = older.binaries.bin_dir
    status, out, err = plans(scratch, file, "--version", installation, "18", "--json")
    assert status == 0, err
    changes = [x["name"] for x in found_in(out)["flips"]["changes"]]
    assert changes[0] == "server version"
    assert "hash_mem_multiplier" in changes  # its default is 2 since PostgreSQL 15
    assert not found_in(out)["flips"]["unplanned"]


MISTAKES = {
    (): "nothing to compare with",
    ("wrok_mem=1MB",): 'no setting "wrok_mem"',
    ("nowhere.conf",): "nowhere.conf",
    ("--version", "9", "18"): "too old",
}


@newest
@pytest.mark.parametrize(("given", "message"), MISTAKES.items())
def test_a_mistake_is_an_error_with_words(
    file: Path, scratch: Scratch, given: tuple[str, ...], message: str
) -> None:
    status, out, err = plans(scratch, file, *given)
    assert (status, out) == (2, "")
    assert message in err


@newest
def test_a_twin_without_statements_is_an_error_and_no_success(
    pair: Pair, scratch: Scratch, tmp_path: Path
) -> None:
    file = tmp_path / "shop.twin"
    file.write_bytes(twin_bytes(replace(pair.twin, workload=workload(()))))
    status, _, err = plans(scratch, file, "work_mem=1GB", "--fail-if-changed")
    assert status == 2
    assert "the twin has no statement to plan" in err


@newest
def test_a_statement_that_has_a_plan_only_without_the_changes_counts_as_changed(
    file: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Unplanned(ExplainedStatement(1, "SELECT x", 1, 1.0, 1.0), "no such column", is_lost=True)
    found = TwinPlans("shop.twin", "", "18", "before", "after", PlanFlips((), (), 0, (one,)))
    monkeypatch.setattr("pgdrag.planning.comparing.compare_plans", lambda *_: found)
    assert plans(scratch, file, "work_mem=1GB")[0] == 0
    assert plans(scratch, file, "work_mem=1GB", "--fail-if-changed")[0] == 1


@newest
def test_lists_that_were_cut_short_are_counted(
    pair: Pair, scratch: Scratch, tmp_path: Path
) -> None:
    text = "SELECT * FROM customer WHERE id IN ($1 /*, ... */)"
    file = tmp_path / "shop.twin"
    file.write_bytes(twin_bytes(replace(pair.twin, workload=workload([text]))))
    status, out, err = plans(scratch, file, "work_mem=1GB", "--json")
    assert status == 0, err
    assert any("1 statement with a list of unknown length" in x for x in found_in(out)["notes"])


@newest
def test_statements_that_have_no_plan_are_listed_with_the_reason(
    pair: Pair, scratch: Scratch, tmp_path: Path
) -> None:
    [first, second, third] = pair.twin.workload.statements[:3]
    texts = (
        replace(first, text="SELECT * FROM nowhere WHERE a = $1"),
        replace(second, text="SELECT 1; SELECT 2"),
        third,
    )
    file = tmp_path / "shop.twin"
    file.write_bytes(
        twin_bytes(replace(pair.twin, workload=replace(pair.twin.workload, statements=texts)))
    )
    status, out, _ = plans(scratch, file, "work_mem=1GB", "--json")
    assert status == 0
    found = found_in(out)["flips"]
    reasons = [x["reason"] for x in found["unplanned"]]
    assert reasons == [
        'relation "nowhere" does not exist',
        "cannot insert multiple commands into a prepared statement",
    ]
    assert found["unchanged"] == 1


def test_the_planners_costs_tell_how_high_btrees_are_to_whoever_may_read_the_table(
    pair: Pair,
) -> None:
    with pair.cluster.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pageinspect SCHEMA pgdrag_extensions")
        counted = {
            ("public", name): level
            for name, level in connection.execute(
                """SELECT relname::text, level::int FROM pg_class
                    CROSS JOIN LATERAL pgdrag_extensions.bt_metap('public.' || relname)
                    WHERE relnamespace = 'public'::regnamespace AND relkind = 'i' AND relam = 403"""
            )
        }
        assert btree_heights(connection) == counted
        assert set(counted.values()) == {0, 1}
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON public.item TO reader")
    with pair.cluster.connect(role="reader") as connection:
        assert set(btree_heights(connection)) == {("public", "item_pkey")}
        [(after,)] = connection.execute("SELECT current_setting('cpu_operator_cost')").fetchall()
    assert after == "0.0025"
