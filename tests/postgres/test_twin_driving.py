"""The load of a twin on a real server: statements do as much as they are said to, in their mix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic

import psycopg
import pytest

from conftest import newest
from pgdrag.data_twin.load import driving_load, prepare_load, preparing, transactions
from pgdrag.data_twin.load.statements import planned_as, planning_settings
from pgdrag.driver.process import Driver, find_driver
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Measurement
from pgdrag.servers.cluster import Cluster
from pgdrag.twins.model import (
    Activity,
    Constraint,
    Index,
    Relation,
    Schema,
    Setting,
    Statement,
    Twin,
)
from pgdrag.twins.transactions import (
    LoggedStatement,
    LoggedTransactions,
    Parameter,
    ParameterLink,
    Spread,
    Step,
    TransactionShape,
)
from twin_statements import called, twin_of

pytestmark = newest
SHOP = """
CREATE TABLE kind (code char(2) PRIMARY KEY, name text NOT NULL);
INSERT INTO kind VALUES ('AA', 'often'), ('BB', 'rare'), ('CC', 'never');
CREATE TABLE customer (id int PRIMARY KEY, name varchar(20) NOT NULL, tags text[] NOT NULL);
INSERT INTO customer SELECT i, 'name ' || i, ARRAY['t' || i % 7] FROM generate_series(1, 2000) AS i;
CREATE TABLE purchase (id int PRIMARY KEY, customer int NOT NULL REFERENCES customer, kind char(2) NOT NULL REFERENCES kind,
                       placed timestamptz NOT NULL, doc jsonb NOT NULL);
INSERT INTO purchase SELECT i, 1 + i % 1000, CASE WHEN i % 100 = 0 THEN 'BB' ELSE 'AA' END,
                            timestamptz '2026-01-01' + i * interval '1 min', jsonb_build_object('k', i % 50)
                       FROM generate_series(1, 10000) AS i;
CREATE INDEX ON purchase (customer);
CREATE INDEX ON purchase (placed);
CREATE TABLE line (purchase int NOT NULL REFERENCES purchase, number int NOT NULL, what text NOT NULL, PRIMARY KEY (purchase, number));
INSERT INTO line SELECT i, n, 'thing' FROM generate_series(1, 10000) AS i, generate_series(1, 3) AS n;
ANALYZE;
"""


def of(number: int, text: str, *, calls: int = 1000, rows: float, blocks: float = 3) -> Statement:
    """Return a statement whose calls returned or changed so many rows each."""
    return replace(called(text, number=number, calls=calls, shared_hit=blocks), rows=round(rows * calls))  # fmt: skip


READS = (
    of(1, "SELECT * FROM purchase WHERE kind = $1", rows=100, blocks=90),
    of(2, "SELECT * FROM purchase WHERE placed >= $1 AND placed < $2", rows=25),
    of(3, "SELECT * FROM customer WHERE id = $1", rows=0.6),
    of(4, "SELECT * FROM customer WHERE id IN ($1 /*, ... */)", rows=12, blocks=30),
    of(5, "SELECT * FROM customer AS c JOIN purchase AS p ON p.customer = c.id WHERE c.name = $1", rows=10, blocks=30),
    of(6, "SELECT * FROM purchase WHERE doc ->> $1 = $2 ORDER BY id LIMIT $3", rows=20, blocks=16),
    of(7, "SELECT * FROM customer WHERE tags @> ARRAY[$1]", rows=286, blocks=25),
    of(8, "SELECT customer, count(*) FROM purchase GROUP BY customer HAVING count(*) > $1", rows=1000, blocks=90),
    of(9, "SELECT date_trunc($1, placed), count(*) FROM purchase WHERE customer = $2 GROUP BY 1", rows=1, blocks=12),
)  # fmt: skip
BLOCK = (
    of(11, "INSERT INTO purchase (id, customer, kind, placed, doc) VALUES ($1, $2, $3, $4, $5)", calls=500, rows=1),
    of(12, "INSERT INTO line (purchase, number, what) VALUES ($1, $2, $3)", calls=500, rows=1),
    of(13, "UPDATE customer SET name = $1 WHERE id = $2", calls=500, rows=1),
    of(14, "DELETE FROM line WHERE purchase = $1 AND number = $2", calls=500, rows=1),
)  # fmt: skip
BEGIN = replace(of(20, "BEGIN", calls=500, rows=0), is_plannable=False)
LEFT_OUT = (
    replace(of(21, "VACUUM purchase", rows=0), is_plannable=False),
    of(22, "SELECT * FROM nothing_there WHERE a = $1", rows=1),
)
TWIN = twin_of(*READS, *BLOCK, BEGIN, *LEFT_OUT)
LOAD = LoadProfile(connections=3, warm_up_s=0.1, measure_s=1.5, budget_s=1.5)


@pytest.fixture(scope="module")
def shop(telling_version: str, new_cluster: Callable[[str], Cluster]) -> Iterator[Cluster]:
    """A server with a shop, prepared for the load."""
    with new_cluster(telling_version) as cluster:
        cluster.configure({"fsync": "off", "autovacuum": "off"})
        cluster.start()
        with cluster.connect(role=cluster.load_role) as connection:
            connection.execute(SHOP.encode())
        yield cluster


@pytest.fixture(scope="module")
def notes(shop: Cluster) -> tuple[str, ...]:
    """What preparing the load says; no statement is tried for long."""
    with as_load(shop) as connection:
        return quickly_prepared(connection, TWIN)


def quickly_prepared(connection: psycopg.Connection, twin: Twin) -> tuple[str, ...]:
    """Prepare a twin's load; no statement is tried for long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "_SHARED_S", 0.0)
        patch.setattr(preparing, "_LEAST_S", 1.0)
        return prepare_load(connection, twin, seed=1)


def as_load(cluster: Cluster) -> psycopg.Connection:
    """Return a session of the role that drives the load."""
    connection = cluster.connect(role=cluster.load_role)
    connection.autocommit = True
    return connection


def driven(cluster: Cluster, twin: Twin = TWIN, *, seed: int = 3) -> Measurement:
    """Drive the load for a moment."""
    target, driver = cluster.target, Driver(find_driver())
    with driving_load(twin, driver, target, LOAD, seed=seed, listen=lambda _: None) as driving:
        driving.warm_up()
        return driving.measure()


def test_statements_return_and_change_as_many_rows_as_in_the_original(
    shop: Cluster, notes: tuple[str, ...]
) -> None:
    with as_load(shop) as connection:
        rows = connection.execute("SELECT number, wanted ->> 'rows', found ->> 'rows' FROM pgdrag_twin.statement")  # fmt: skip
        found = {number: (float(wanted), did and float(did)) for number, wanted, did in rows}
    for one in (*READS, *BLOCK):
        wanted, did = found[one.number]
        assert did is not None, one.text
        # Sixty tries of a mixture: three standard errors of what is there or not.
        assert did == pytest.approx(wanted, rel=0.15, abs=0.2), one.text


def test_what_is_not_sent_is_said(notes: tuple[str, ...]) -> None:
    said = "; ".join(notes)
    assert "statement 21 (VACUUM purchase, 1000 calls) is not sent: it has no plan" in said
    assert 'relation "nothing_there" does not exist' in said


def test_no_transaction_fails_and_the_mix_is_the_originals(
    shop: Cluster, notes: tuple[str, ...]
) -> None:
    measured = driven(shop)
    failed = [x for x in measured.errors if x[1] != "57014"]
    assert failed == []
    counts = {name: x.committed + x.in_flight for name, x in measured.transactions.items()}
    assert counts.keys() == set(transactions(TWIN))
    total, weights = sum(counts.values()), dict.fromkeys(counts, 1000.0)
    [block] = [x for x in counts if x.startswith("s11 ")]
    [gone] = [x for x in counts if x.startswith("s22 ")]
    weights[block], weights[gone] = 500.0, 0.0
    for name, count in counts.items():
        share = weights[name] / sum(weights.values())
        # By lot is only the order: each client is a few off where the window begins, and where it ends.
        assert abs(count - share * total) <= 8 * LOAD.connections, name


def test_the_same_seed_makes_the_same_pools(shop: Cluster, notes: tuple[str, ...]) -> None:
    def pool(seed: int) -> list[tuple[str, ...]]:
        with as_load(shop) as connection:
            prepare_load(connection, twin_of(READS[2]), seed=seed)
            return connection.execute("SELECT p1 FROM pgdrag_twin.pool_s3 ORDER BY n LIMIT 50").fetchall()  # fmt: skip

    assert pool(7) == pool(7) != pool(8)


def test_a_slow_machine_tries_as_much_as_a_fast_one_and_says_when_it_cannot(
    shop: Cluster, notes: tuple[str, ...]
) -> None:
    """A customer is found in 6 of 10 calls: that takes keys that are not there, which are tried last."""
    pools = []
    for slower in (1.0, 8.0, 1e9):
        warnings: list[str] = []
        with as_load(shop) as connection:
            said = prepare_load(
                connection, twin_of(READS[2]), seed=1, warn=warnings.append, clock=lambda x=slower: x * monotonic()
            )  # fmt: skip
            pools.append(connection.execute("SELECT p1 FROM pgdrag_twin.pool_s3 ORDER BY n").fetchall())  # fmt: skip
    assert pools[0] == pools[1] != pools[2]
    assert "too slow to try enough values for 1 statement with 100 % of the time" in warnings[0]
    assert "statement 3 (SELECT * FROM customer" in warnings[0]
    assert warnings[0] in said


@pytest.mark.parametrize("groups", [1, 10])
def test_times_are_rounded_to_a_unit_that_makes_as_many_groups(
    shop: Cluster, notes: tuple[str, ...], groups: int
) -> None:
    """Ten purchases of a customer lie 17 hours apart: all in a month, each in an hour of its own."""
    text = "SELECT date_trunc($1, placed), count(*) FROM purchase WHERE customer = $2 GROUP BY 1"
    with as_load(shop) as connection:
        said = quickly_prepared(connection, twin_of(of(1, text, rows=groups, blocks=12)))
    assert not [x for x in said if "rows a call" in x]


def test_groups_tell_how_long_ago_where_each_bound_reads_all_blocks(shop: Cluster) -> None:
    """A report of thirty days, by days: by months over years it would read as many blocks, and have fewer groups."""
    text = "SELECT date_trunc($1, at), count(*) FROM arrival WHERE at > now() - $2 GROUP BY 1"
    with as_load(shop) as connection:
        connection.execute("CREATE TABLE arrival (at timestamptz NOT NULL)")
        connection.execute("INSERT INTO arrival SELECT timestamptz '2000-01-01 10:00:00+00' - i * interval '1 hour' FROM generate_series(1, 9000) AS i")  # fmt: skip
        connection.execute("ANALYZE arrival")
        [(blocks,)] = connection.execute("SELECT pg_relation_size('arrival') / 8192").fetchall()
        twin = twin_of(of(1, text, calls=100, rows=31, blocks=blocks))
        prepare_load(connection, replace(twin, now="2000-01-01 10:00:00+00"), seed=1)
        found = connection.execute("SELECT DISTINCT p1, p2::interval BETWEEN '29 days' AND '31 days' FROM pgdrag_twin.pool_s1").fetchall()  # fmt: skip
    assert found == [("day", True)]


EVENTS = """
CREATE TABLE event (at timestamptz NOT NULL, what int NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('1999-12-31') TO ('2000-01-02');
INSERT INTO event SELECT timestamptz '2000-01-01 10:00:00+00' - i * interval '1 min', i FROM generate_series(1, 600) AS i;
CREATE INDEX ON event (at);
ANALYZE event;
"""


def test_while_the_load_runs_it_is_the_time_of_the_capture(shop: Cluster) -> None:
    """What happened in the last half hour is found, and a row of now has its partition."""
    recent = of(1, "SELECT * FROM event WHERE at >= now() - $1", rows=30, blocks=4)
    added = of(2, "INSERT INTO event (at, what) VALUES (CURRENT_TIMESTAMP, $1)", calls=10, rows=1)
    twin = replace(twin_of(recent, added), now="2000-01-01 10:00:00+00")
    with as_load(shop) as connection:
        connection.execute(EVENTS.encode())
        assert not [
            x for x in quickly_prepared(connection, twin) if "rows a call" in x or "fails" in x
        ]
        assert [x for x in driven(shop, twin).errors if x[1] != "57014"] == []
        query = "SELECT count(*), min(at) >= '2000-01-01 10:00:00+00', max(at) < '2000-01-01 10:10:00+00' FROM event WHERE at > '2000-01-01 10:00:00+00'"
        [(count, *is_between)] = connection.execute(query.encode()).fetchall()
    assert count > 0
    assert is_between == [True, True]


ALARMS = """
CREATE TABLE alarm (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL, level int NOT NULL);
INSERT INTO alarm (at, level) SELECT timestamptz '2000-01-01 10:00:00+00' - i * interval '1 min', i % 4 FROM generate_series(1, 600) AS i;
ANALYZE alarm;
"""


@pytest.mark.parametrize("calls", [20, 4000])
def test_queries_for_the_latest_rows_are_tried_with_what_was_inserted_halfway_through_the_window(
    shop: Cluster, calls: int
) -> None:
    """Of 2,030 rows that a call found, 2,000 are of the window: it asked for the last half hour, not for everything."""
    rows = 30 + calls // 2
    recent = of(1, "SELECT * FROM alarm WHERE at >= now() - $1", rows=rows, blocks=4 + calls / 370)
    added = of(2, "INSERT INTO alarm (at, level) VALUES (now(), $1)", calls=calls, rows=1)
    twin = replace(twin_of(recent, added), now="2000-01-01 10:00:00+00")
    with as_load(shop) as connection:
        connection.execute(b"DROP TABLE IF EXISTS alarm")
        connection.execute(ALARMS.encode())
        quickly_prepared(connection, twin)
        [(minutes,)] = connection.execute("SELECT avg(extract(epoch FROM p1::interval)) / 60 FROM pgdrag_twin.pool_s1").fetchall()  # fmt: skip
        [(left,)] = connection.execute("SELECT count(*) FROM alarm").fetchall()
    assert float(minutes) == pytest.approx(30, rel=0.2)
    assert left == 600


SALES = """
CREATE TABLE sale (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, day date NOT NULL);
INSERT INTO sale (day) SELECT date '2000-01-01' - i FROM generate_series(1, 300) AS i;
CREATE TABLE item (sale bigint NOT NULL REFERENCES sale, number smallint NOT NULL, note text NOT NULL, PRIMARY KEY (sale, number));
INSERT INTO item SELECT id, 1, repeat('thing', 20) FROM sale;
ANALYZE sale, item;
"""


def test_a_row_refers_to_what_the_insert_before_it_returned(shop: Cluster) -> None:
    """And what it is computed of makes sense: a day, and a text that is as long as it writes WAL."""
    sale = of(1, "INSERT INTO sale (day) VALUES ($1::date - $2::int) RETURNING id", rows=1)
    item = called("INSERT INTO item SELECT $1, $2, repeat($3, $4)", number=2, calls=1000, wal_bytes=800)  # fmt: skip
    begin = replace(of(3, "BEGIN", rows=0), is_plannable=False)
    key = Constraint("public", "item", "item_sale_fkey", "f", "", ("sale",), ("public", "sale", ("id",)))  # fmt: skip
    twin = replace(twin_of(sale, item, begin), schema=Schema(constraints=(key,)))
    with as_load(shop) as connection:
        connection.execute(SALES.encode())
        quickly_prepared(connection, twin)
        assert [x for x in driven(shop, twin).errors if x[1] != "57014"] == []
        query = "SELECT count(*), count(item.sale), min(day), avg(length(note)) FROM sale LEFT JOIN item ON sale = id WHERE id > 300"
        [(sales, items, first, length)] = connection.execute(query.encode()).fetchall()
    assert sales == items > 0
    assert first.year == 1999
    assert length == pytest.approx(640, abs=160)


SHELVES = """
CREATE TABLE shelf (id int PRIMARY KEY);
INSERT INTO shelf SELECT generate_series(1, 20);
CREATE TABLE product (id int PRIMARY KEY);
INSERT INTO product SELECT generate_series(1, 1000);
CREATE TABLE stock (shelf int REFERENCES shelf, product int REFERENCES product, taken int NOT NULL DEFAULT 0, PRIMARY KEY (shelf, product));
INSERT INTO stock SELECT s, p FROM shelf AS s (s), generate_series(1, 1000, 20) AS p;
ANALYZE shelf, product, stock;
"""


def test_what_a_transaction_is_about_leads_to_rows_that_are_there(shop: Cluster) -> None:
    """Of a shelf and a product that were looked at, one pair in twenty is in stock; the original found a row each time."""
    looked = (of(at, f"SELECT * FROM {x} WHERE id = $1", rows=1) for at, x in ((1, "shelf"), (2, "product")))  # fmt: skip
    taken = of(3, "UPDATE stock SET taken = taken + 1 WHERE shelf = $1 AND product = $2", rows=1)
    begin = replace(of(4, "BEGIN", rows=0), is_plannable=False)
    keys = (
        Constraint("public", "stock", f"stock_{x}", "f", "", (x,), ("public", x, ("id",)))
        for x in ("shelf", "product")
    )
    twin = replace(twin_of(*looked, taken, begin), schema=Schema(constraints=tuple(keys)))
    with as_load(shop) as connection:
        connection.execute(SHELVES.encode())
        quickly_prepared(connection, twin)
        measured = driven(shop, twin)
        [(changed,)] = connection.execute("SELECT sum(taken) FROM stock").fetchall()
    assert changed >= measured.total.committed > 0


ENTRIES = """
CREATE TABLE entry (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamp NOT NULL, what int NOT NULL);
INSERT INTO entry (at, what) SELECT timestamp '2000-01-01' + i * interval '1 min', i % 10 FROM generate_series(1, 5000) AS i;
ANALYZE entry;
"""


def test_a_new_row_has_a_time_of_the_latest_rows_where_times_grow_with_the_table(
    shop: Cluster,
) -> None:
    added = of(1, "INSERT INTO entry (at, what) VALUES ($1, $2)", calls=200, rows=1)
    with as_load(shop) as connection:
        connection.execute(ENTRIES.encode())
        assert quickly_prepared(connection, twin_of(added)) == ()
        query = "SELECT min(p1::timestamp), count(DISTINCT p1), count(DISTINCT p2) FROM pgdrag_twin.pool_s1"
        [(first, times, others)] = connection.execute(query.encode()).fetchall()
        [(latest,)] = connection.execute("SELECT at FROM entry WHERE id = 4801").fetchall()
    assert first >= latest
    assert (times, others) == (200, 10)


TASKS = """
CREATE TABLE task (id int PRIMARY KEY, team int NOT NULL, state text NOT NULL);
INSERT INTO task SELECT i, i % 5, CASE WHEN i % 20 = 0 THEN 'open' WHEN i % 20 = 1 THEN 'gone' ELSE 'done' END FROM generate_series(1, 5000) AS i;
CREATE INDEX task_open ON task (team) WHERE state = 'open';
ANALYZE task;
"""


@pytest.mark.parametrize("is_scanned", [True, False])
def test_what_asks_for_a_value_and_writes_that_column_changes_it(
    shop: Cluster, *, is_scanned: bool
) -> None:
    """And the value is that of a partial index, where that was scanned as often."""
    text = "UPDATE task SET state = $1 WHERE id IN (SELECT id FROM task WHERE team = $2 AND state = $3 LIMIT $4)"
    index = Relation("public", "task_open", "index", 2, 250.0, table="task", moved={"idx_scan": 1000 * is_scanned})  # fmt: skip
    with as_load(shop) as connection:
        connection.execute("DROP TABLE IF EXISTS task")
        connection.execute(TASKS.encode())
        quickly_prepared(connection, replace(twin_of(of(1, text, rows=3)), relations=(index,)))
        rows = connection.execute("SELECT DISTINCT p3, p1 FROM pgdrag_twin.pool_s1").fetchall()
    changed = {("open", "done"), ("gone", "done"), ("done", "gone"), ("done", "open")}
    if is_scanned:
        assert rows == [("open", "done")]
    else:
        assert len(rows) > 1
        assert {*rows} <= changed


VISITS = """
CREATE TABLE visit (customer int NOT NULL, session int DEFAULT pg_backend_pid());
INSERT INTO visit SELECT i, NULL FROM generate_series(1, 20) AS i;
ANALYZE visit;
"""


def test_each_session_keeps_a_value_that_the_logs_sessions_kept(shop: Cluster) -> None:
    visit = of(1, "INSERT INTO visit (customer) VALUES ($1)", rows=1)
    kept = ParameterLink(1, 1, "session", 1, 1, 1.0, from_shape=1)
    shape = TransactionShape(1, (Step(1),), 40, Spread(1.0, (1.0,) * 8), links=(kept,))
    log = LoggedTransactions("csvlog", 60.0, 100, 40, shapes=(shape,))
    twin = replace(twin_of(visit), transactions=log)
    with as_load(shop) as connection:
        connection.execute(VISITS.encode())
        assert quickly_prepared(connection, twin) == ()
        assert [x for x in driven(shop, twin).errors if x[1] != "57014"] == []
        query = "SELECT count(*), min(customer), max(customer) FROM visit WHERE session IS NOT NULL GROUP BY session"
        rows = connection.execute(query.encode()).fetchall()
    busy = [(low, high) for count, low, high in rows if count > 1]
    assert len(busy) == LOAD.connections
    assert all(low == high for low, high in busy)
    assert len({*busy}) == LOAD.connections  # each its own


def test_values_are_asked_for_as_often_as_the_log_says(shop: Cluster) -> None:
    """Of the customers 7 and 8 have one purchase each, and 9 has thousands; only these are in the log."""
    log = LoggedTransactions("csvlog", 60.0, 100, 100, statements=(
        LoggedStatement(1, 100, (Parameter(1, "number", 100, 0.0, 30, (0.5, 0.9, 1.0), 0.0, common=(("7", 0.5), ("8", 0.2), ("9", 0.1))),)),
    ))  # fmt: skip
    asked = of(1, "SELECT * FROM fan WHERE customer = $1", rows=600, blocks=6)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE fan AS SELECT CASE WHEN i < 1000 THEN i ELSE 9 END AS customer, i FROM generate_series(1, 5000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON fan (customer)")
        connection.execute(b"ANALYZE fan")
        quickly_prepared(connection, replace(twin_of(asked), transactions=log))
        shares = dict(connection.execute(b"SELECT p1, count(*)::float8 / sum(count(*)) OVER () FROM pgdrag_twin.pool_s1 GROUP BY 1").fetchall())  # fmt: skip
    # Who is not in the log is chosen so that calls return as many rows as the original's: mostly 9 again.
    assert [shares[x] for x in ("7", "8")] == pytest.approx([0.5, 0.2], abs=0.01)
    assert 0.1 <= shares["9"] < 0.2


TEXTS = """
CREATE TABLE note (id int PRIMARY KEY, words tsvector NOT NULL);
INSERT INTO note SELECT i, to_tsvector('simple', 'a' || i % 50 || ' b' || i % 70 || ' c' || i) FROM generate_series(1, 3000) AS i;
CREATE INDEX note_words ON note USING gin (words);
VACUUM ANALYZE note
"""


def test_queries_are_tried_with_lists_of_entries_that_are_as_full_as_on_average(shop: Cluster) -> None:  # fmt: skip
    """A text search reads the entries of all that was inserted lately, too."""
    index = Index(
        "public", "note_words", "note", "CREATE INDEX note_words ON note USING gin (words)", "gin"
    )
    found = of(1, "SELECT id FROM note WHERE words @@ to_tsquery($1, $2)", rows=50, blocks=40)
    added = of(2, "INSERT INTO note (id, words) VALUES ($1, $2)", calls=2000, rows=1)
    blocks = {}
    with as_load(shop) as connection:
        for is_listed in (True, False):
            definition = index.definition + ("" if is_listed else " WITH (fastupdate='off')")
            schema = Schema(indexes=(replace(index, definition=definition),))
            connection.execute("DROP TABLE IF EXISTS note")
            for statement in TEXTS.split(";"):
                connection.execute(statement.encode())
            quickly_prepared(connection, replace(twin_of(found, added), schema=schema))
            [(blocks[is_listed],)] = connection.execute("SELECT (found ->> 'blocks')::float8 FROM pgdrag_twin.statement WHERE number = 1").fetchall()  # fmt: skip
    assert blocks[True] > blocks[False] + 5


DESKS = """
CREATE TABLE desk (id int PRIMARY KEY, last int NOT NULL DEFAULT 0, others int NOT NULL DEFAULT 0);
INSERT INTO desk SELECT i FROM generate_series(1, 12) AS i;
ANALYZE desk;
"""


def test_each_session_changes_rows_of_its_own_where_nobody_waited_for_another(shop: Cluster) -> None:  # fmt: skip
    text = "UPDATE desk SET others = others + (last <> pg_backend_pid())::int, last = pg_backend_pid() WHERE id = $1"
    changed = replace(of(1, text, calls=60_000, rows=1), exec_s=0.5)
    busy = Activity(commits=60_000, active_s=120.0, most_active=3)
    with as_load(shop) as connection:
        connection.execute(DESKS.encode())
        twin = replace(twin_of(changed), activity=busy)
        quickly_prepared(connection, twin)
        assert [x for x in driven(shop, twin).errors if x[1] != "57014"] == []
        query = "SELECT count(*), count(DISTINCT last), max(others) FROM desk WHERE last <> 0"
        [(desks, sessions, most)] = connection.execute(query.encode()).fetchall()
    assert (desks, sessions) == (12, LOAD.connections)
    assert most <= 2  # when it was first changed, and by the load's own trial


def test_values_are_tried_with_the_settings_of_the_originals_planner(shop: Cluster) -> None:
    given = Setting("random_page_cost", "1.1"), Setting("enable_seqscan", "off"), Setting("shared_buffers", "1024", "8kB"), Setting("geqo_threshold", "many")  # fmt: skip
    twin = twin_of()
    twin = replace(twin, source=replace(twin.source, settings=given))
    wanted = planning_settings(twin) | {"no_such_setting": "1"}
    names = ("random_page_cost", "enable_seqscan", "work_mem")

    def shown(connection: psycopg.Connection) -> list[str]:
        return [connection.execute(f"SHOW {x}".encode()).fetchall()[0][0] for x in names]

    with as_load(shop) as connection:
        connection.execute("SET work_mem = '64MB'")
        with planned_as(connection, wanted):
            assert shown(connection) == ["1.1", "off", "4MB"]
        assert shown(connection) == ["4", "on", "64MB"]


SKEWED = """
CREATE TABLE thing (id int PRIMARY KEY, words text NOT NULL);
INSERT INTO thing SELECT i, repeat('x', 80) FROM generate_series(1, 1000) AS i;
CREATE TABLE skewed (kind int NOT NULL, thing int NOT NULL);
INSERT INTO skewed SELECT CASE WHEN i % 2 = 0 THEN 0 ELSE i END, 1 + i % 1000 FROM generate_series(1, 4000) AS i;
CREATE INDEX ON skewed (kind);
VACUUM ANALYZE thing;
VACUUM ANALYZE skewed
"""


@pytest.mark.parametrize(("blocks", "sent"), [(35, "extended"), (6_020, "prepared")])
def test_statements_are_prepared_if_a_plan_that_is_kept_does_what_the_originals_did(
    shop: Cluster, blocks: float, sent: str
) -> None:
    """A plan for any kind looks up each thing, one for the frequent kind reads them all."""
    query = "SELECT t.words FROM skewed AS s JOIN thing AS t ON t.id = s.thing WHERE s.kind = $1"
    twin = twin_of(of(1, query, rows=2_000, blocks=blocks))
    with as_load(shop) as connection:
        connection.execute("DROP TABLE IF EXISTS skewed, thing")
        for statement in SKEWED.split(";"):
            connection.execute(statement.encode())
        quickly_prepared(connection, twin)
        [(job,)] = connection.execute("SELECT job FROM pgdrag_twin.job").fetchall()
    assert job["statements"] == sent


def test_values_are_asked_for_where_in_the_columns_order_the_log_says(shop: Cluster) -> None:
    """Of 4,000 chores 90 % of the calls ask for the newest tenth, and one in twenty for the first chore."""
    positions = (0.05, *[0.05 / 17] * 17, 0.45, 0.45)
    told = Parameter(
        1,
        "number",
        1000,
        0.0,
        600,
        (0.05, 0.06, 0.2),
        0.0,
        common=(("1", 0.05),),
        positions=positions,
    )
    log = LoggedTransactions("csvlog", 60.0, 1000, 1000, statements=(LoggedStatement(1, 1000, (told,)),))  # fmt: skip
    with as_load(shop) as connection:
        connection.execute(
            b"CREATE TABLE chore AS SELECT i AS id FROM generate_series(1, 4000) AS i"
        )
        connection.execute(b"CREATE UNIQUE INDEX ON chore (id)")
        connection.execute(b"ANALYZE chore")
        asked = of(1, "SELECT * FROM chore WHERE id = $1", rows=1)
        quickly_prepared(connection, replace(twin_of(asked), transactions=log))
        shares = (
            "avg((p1::int > 3600)::int)::float8, avg((p1 = '1')::int)::float8, count(DISTINCT p1)"
        )
        found = connection.execute(f"SELECT {shares} FROM pgdrag_twin.pool_s1".encode()).fetchone()
    assert found is not None
    assert found[:2] == (pytest.approx(0.9, abs=0.02), pytest.approx(0.05, abs=0.01))
    assert found[2] > 400  # of the newest tenth any, not some


def test_what_a_new_row_gets_that_is_computed_is_any_value_of_the_column(shop: Cluster) -> None:
    added = of(1, "INSERT INTO slot (kind) VALUES (($1::int + $2) % $3)", rows=1)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE slot AS SELECT (i % 5)::smallint AS kind FROM generate_series(1, 500) AS i")  # fmt: skip
        connection.execute(b"ANALYZE slot")
        quickly_prepared(connection, twin_of(added))
        kinds = "SELECT DISTINCT (p1::int + p2::int) % p3::int FROM pgdrag_twin.pool_s1 ORDER BY 1"
        found = [x for (x,) in connection.execute(kinds.encode()).fetchall()]
    assert found == [0, 1, 2, 3, 4]


def test_how_long_ago_is_one_value_for_all_keys(shop: Cluster) -> None:
    """Of two meters one has nine times as many values; calls ask for the last hour of either."""
    recent = of(1, "SELECT * FROM meter WHERE nr = $1 AND at >= now() - $2", rows=30, blocks=6)
    twin = replace(twin_of(recent), now="2000-01-01 10:00:00+00")
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE meter AS SELECT CASE WHEN i % 10 = 0 THEN 2 ELSE 1 END AS nr, timestamptz '2000-01-01 10:00:00+00' - i * interval '1 min' AS at FROM generate_series(1, 6000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON meter (at)")
        connection.execute(b"ANALYZE meter")
        quickly_prepared(connection, twin)
        ages = connection.execute(b"SELECT p1, min(extract(epoch FROM p2::interval)) / 60, max(extract(epoch FROM p2::interval)) / 60 FROM pgdrag_twin.pool_s1 GROUP BY 1").fetchall()  # fmt: skip
    # Two neighbours of a grid, whichever the meter is.
    assert {most / least < 2 for _, least, most in ages} == {True}
    assert max(x[2] for x in ages) < 2 * min(x[1] for x in ages)


def test_how_long_ago_may_be_in_a_time_without_rows(shop: Cluster) -> None:
    """A load began half a minute ago, hours after the rows before: whatever lies between has as many rows, and the middle stays right."""
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE pulse AS SELECT timestamptz '2000-01-01 10:00:00+00' - CASE WHEN i <= 1000 THEN i * interval '30 ms' ELSE interval '3 hours' + (i - 1000) * interval '1 min' END AS at FROM generate_series(1, 6000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON pulse (at)")
        connection.execute(b"ANALYZE pulse")
        [(plan,)] = connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM pulse WHERE at >= '2000-01-01 09:00:00+00'").fetchall()  # fmt: skip
        recent = of(1, "SELECT * FROM pulse WHERE at >= now() - $1", rows=1000, blocks=plan[0]["Plan"]["Shared Hit Blocks"])  # fmt: skip
        quickly_prepared(connection, replace(twin_of(recent), now="2000-01-01 10:00:00+00"))
        ages = connection.execute(b"SELECT DISTINCT extract(epoch FROM p1::interval)::float8 FROM pgdrag_twin.pool_s1").fetchall()  # fmt: skip
    [(age_s,)] = ages
    assert 60 < age_s < 3 * 3600


def logged(*parameters: Parameter) -> LoggedTransactions:
    """Return a log that tells something of the first statement's parameters."""
    return LoggedTransactions("csvlog", 60.0, 100, 100, statements=(LoggedStatement(1, 100, parameters),))  # fmt: skip


def test_a_list_is_as_long_as_the_log_says_whatever_else_is_asked_for(shop: Cluster) -> None:
    """The last 20 readings of each of 2 to 8 meters; the log tells that programs have an age of a few minutes as a constant."""
    lengths = Spread(5.0, (2.0, 2.0, 2.0, 5.0, 8.0, 8.0, 8.0, 8.0))
    some = Parameter(1, "array", 100, 0.0, 90, (0.1, 0.1, 1.0), 0.0, lengths=lengths)
    since = Parameter(2, "time", 100, 0.0, 100, (0.1, 0.1, 1.0), 1.0, ages=((200.0, 1.0),))
    asked = of(1, "SELECT * FROM gauge WHERE nr = ANY ($1) AND at >= $2", rows=100, blocks=100)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE gauge AS SELECT i % 100 AS nr, timestamptz '2000-01-01 10:00:00+00' - i * interval '1 s' AS at FROM generate_series(1, 60000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON gauge (nr, at)")
        connection.execute(b"ANALYZE gauge")
        twin = replace(twin_of(asked), transactions=logged(some, since))
        quickly_prepared(connection, replace(twin, now="2000-01-01 10:00:00+00"))
        found = connection.execute(b"SELECT avg(cardinality(p1::int[])), min(cardinality(p1::int[])), max(cardinality(p1::int[])), count(DISTINCT p2) FROM pgdrag_twin.pool_s1").fetchone()  # fmt: skip
        [(rows,)] = connection.execute(b"SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement").fetchall()  # fmt: skip
    assert found is not None
    assert (float(found[0]), *found[1:3]) == (pytest.approx(5, rel=0.1), 2, 8)
    assert found[3] <= 3  # one bound for all, or two of which one has too many rows
    assert rows == pytest.approx(100, rel=0.2)


def test_a_bound_is_where_the_log_saw_it(shop: Cluster) -> None:
    """Nothing else tells: an aggregate has one row, and an index has all entries on few pages."""
    positions = (0.7, 0.3, *[0.0] * 18)
    told = Parameter(1, "number", 100, 0.0, 3, (0.4, 1.0, 1.0), 0.0, positions=positions)
    asked = of(1, "SELECT count(*) FROM capacity WHERE level < $1", rows=1, blocks=50)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE capacity AS SELECT i AS level FROM generate_series(1, 4000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON capacity (level)")
        connection.execute(b"ANALYZE capacity")
        quickly_prepared(connection, replace(twin_of(asked), transactions=logged(told)))
        found = connection.execute(b"SELECT avg((p1::int <= 200)::int)::float8, max(p1::int) FROM pgdrag_twin.pool_s1").fetchone()  # fmt: skip
    assert found is not None
    assert found[0] == pytest.approx(0.7, abs=0.1)
    assert found[1] <= 400


def test_what_a_log_says_is_always_the_same_or_never_null_is_so(shop: Cluster) -> None:
    """Open jobs are done: by somebody, whom none of their rows has yet, and for no price."""

    def told(number: int, nulls: float, distinct: int, *common: tuple[str, float]) -> Parameter:
        return Parameter(number, "number", 100, nulls, distinct, (1.0, 1.0, 1.0), 0.0, common=common)  # fmt: skip

    log = logged(told(1, 0.0, 60), told(2, 1.0, 0), told(3, 0.0, 90), told(4, 0.0, 1, ("7", 1.0)))
    done = of(1, "UPDATE job SET done_by = $1, price = $2 WHERE id = $3 AND kind = $4", rows=1)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE job AS SELECT i AS id, i % 9 AS kind, CASE WHEN i % 100 = 0 THEN i END AS done_by, i * 2.5 AS price FROM generate_series(1, 9000) AS i")  # fmt: skip
        connection.execute(b"CREATE UNIQUE INDEX ON job (id)")
        connection.execute(b"ANALYZE job")
        quickly_prepared(connection, replace(twin_of(done), transactions=log))
        found = connection.execute(b"SELECT count(p1) = count(*), count(p2), array_agg(DISTINCT p4), count(DISTINCT p1) > 50 FROM pgdrag_twin.pool_s1").fetchone()  # fmt: skip
        [(rows,)] = connection.execute(b"SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement").fetchall()  # fmt: skip
    assert found == (True, 0, ["7"], True)
    assert rows == pytest.approx(1)


def test_a_list_of_constants_that_begins_with_the_same_one_is_still_a_list(shop: Cluster) -> None:
    first = Parameter(2, "number", 100, 0.0, 1, (1.0, 1.0, 1.0), 0.0, common=(("2", 1.0),))
    asked = of(1, "SELECT * FROM stint WHERE nr = $1 AND kind IN ($2 /*, ... */)", rows=0.5)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE stint AS SELECT i AS nr, i % 9 AS kind FROM generate_series(1, 2000) AS i")  # fmt: skip
        connection.execute(b"ANALYZE stint")
        quickly_prepared(connection, replace(twin_of(asked), transactions=logged(first)))
        [(count, found)] = connection.execute(b"SELECT count(DISTINCT p1), (SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement) FROM pgdrag_twin.pool_s1").fetchall()  # fmt: skip
    assert count > 50
    assert found > 0


def test_to_an_array_as_many_entries_are_added_as_a_log_tells(shop: Cluster) -> None:
    told = Parameter(1, "array", 100, 0.0, 90, (0.1, 0.1, 1.0), 0.0, lengths=Spread(3.0, (1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0)))  # fmt: skip
    longer = of(1, "UPDATE trip SET stops = stops || $1::int[] WHERE id = $2", rows=1)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE trip AS SELECT i AS id, ARRAY[i, i, i, i, i, i] AS stops FROM generate_series(1, 3000) AS i")  # fmt: skip
        connection.execute(b"CREATE UNIQUE INDEX ON trip (id)")
        connection.execute(b"ANALYZE trip")
        quickly_prepared(connection, replace(twin_of(longer), transactions=logged(told)))
        [(entries,)] = connection.execute(b"SELECT avg(cardinality(p1::int[]))::float8 FROM pgdrag_twin.pool_s1").fetchall()  # fmt: skip
    assert entries == pytest.approx(3, rel=0.1)


def test_an_array_that_the_server_shortened_has_several_entries(shop: Cluster) -> None:
    asked = of(1, "SELECT count(*) FROM walk WHERE stops @> ARRAY[$1 /*, ... */]", rows=1)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE walk AS SELECT ARRAY(SELECT i * 31 % 97 + j FROM generate_series(0, i % 3) AS j) AS stops FROM generate_series(1, 3000) AS i")  # fmt: skip
        connection.execute(b"ANALYZE walk")
        quickly_prepared(connection, twin_of(asked))
        [(fewest,)] = connection.execute(b"SELECT min(cardinality(p1::int[])) FROM pgdrag_twin.pool_s1").fetchall()  # fmt: skip
    assert fewest >= 2


def test_a_document_is_as_rare_as_blocks_tell(shop: Cluster) -> None:
    """Each field alone is in hundreds of rows, most pairs in hundreds, and some pairs in few: those were asked for."""
    asked = of(1, "SELECT count(*) FROM dish WHERE doc @> $1", rows=1, blocks=40)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE dish AS SELECT jsonb_build_object('kind', i % 4, 'sauce', (i % 4 + (i % 97 < 3)::int) % 4) AS doc, repeat('x', 400) AS text FROM generate_series(1, 4000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON dish USING gin (doc)")
        connection.execute(b"VACUUM ANALYZE dish")
        quickly_prepared(connection, twin_of(asked))
        [(blocks,)] = connection.execute(b"SELECT (found ->> 'blocks')::float8 FROM pgdrag_twin.statement").fetchall()  # fmt: skip
    assert blocks == pytest.approx(40, rel=0.15)


def test_a_part_of_a_query_has_a_limit_of_its_own(shop: Cluster) -> None:
    """The last reading of each of the ten gauges of a kind."""
    asked = of(1, "SELECT l.at FROM dial AS d CROSS JOIN LATERAL (SELECT at FROM seen WHERE dial = d.id ORDER BY at DESC LIMIT $2) AS l WHERE d.kind = $1", rows=10, blocks=40)  # fmt: skip
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE dial AS SELECT i AS id, i % 30 AS kind FROM generate_series(1, 300) AS i")  # fmt: skip
        connection.execute(b"CREATE TABLE seen AS SELECT i % 300 AS dial, i AS at FROM generate_series(1, 9000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON seen (dial, at)")
        connection.execute(b"ANALYZE dial, seen")
        quickly_prepared(connection, twin_of(asked))
        found = connection.execute(b"SELECT DISTINCT p2 FROM pgdrag_twin.pool_s1").fetchall()
    assert found == [("1",)]


def test_ranges_are_asked_for_and_new_ones_do_not_overlap(shop: Cluster) -> None:
    asked = of(1, "SELECT * FROM stay WHERE room = $1 AND during && daterange($2, $3)", rows=1.2)
    added = of(2, "INSERT INTO stay (room, during) VALUES ($1, daterange($2, $3))", rows=1)
    whole = of(3, "INSERT INTO stay (room, during) VALUES ($1, $2)", rows=1)
    # Fifty stays begin on a day; of the middle of a stay three quarters of them have it, on average.
    guests = of(4, "SELECT * FROM stay WHERE during @> $1::date", rows=37, blocks=18)
    exclusion = "EXCLUDE USING gist (room WITH =, during WITH &&)"
    with as_load(shop) as connection:
        connection.execute(b"CREATE EXTENSION btree_gist")
        connection.execute(f"CREATE TABLE stay (room int NOT NULL, during daterange NOT NULL, {exclusion})".encode())  # fmt: skip
        connection.execute(b"INSERT INTO stay SELECT i % 50, daterange('2000-01-01'::date + i / 50 * 5, '2000-01-01'::date + i / 50 * 5 + 1 + i % 4) FROM generate_series(0, 2499) AS i")  # fmt: skip
        connection.execute(b"ANALYZE stay")
        assert quickly_prepared(connection, twin_of(asked, added, whole, guests)) == ()
        [(rows,)] = connection.execute(b"SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement WHERE number = 1").fetchall()  # fmt: skip
        assert rows == pytest.approx(1.2, rel=0.15)
        [(rows,)] = connection.execute(b"SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement WHERE number = 4").fetchall()  # fmt: skip
        assert rows == pytest.approx(37, rel=0.15)
        pools = (
            "SELECT p1::int, daterange(p2::date, p3::date) FROM pgdrag_twin.pool_s2",
            "SELECT p1::int, p2::daterange FROM pgdrag_twin.pool_s3",
        )
        for pool in pools:
            with connection.transaction(force_rollback=True):
                done = connection.execute(f"INSERT INTO stay SELECT DISTINCT * FROM ({pool}) AS p (room, during) WHERE NOT isempty(during)".encode())  # fmt: skip
            assert done.rowcount > 100


def test_what_is_computed_with_a_parameter_comes_to_a_rows_values(shop: Cluster) -> None:
    """Of fifty rooms each is booked every five days; what is sent are days from today."""
    days = "daterange(current_date + $2, current_date + $3 + $4)"
    asked = of(1, f"SELECT * FROM booking WHERE room = $1 AND during && {days}", rows=1.2)
    added = of(2, f"INSERT INTO booking (room, during) VALUES ($1, {days})", rows=1)
    first = of(3, "SELECT * FROM booking WHERE lower(during) = current_date + $1", rows=50, blocks=20)  # fmt: skip
    exclusion = "EXCLUDE USING gist (room WITH =, during WITH &&)"
    with as_load(shop) as connection:
        connection.execute(b"CREATE EXTENSION IF NOT EXISTS btree_gist")
        connection.execute(f"CREATE TABLE booking (room int NOT NULL, during daterange NOT NULL, {exclusion})".encode())  # fmt: skip
        connection.execute(b"INSERT INTO booking SELECT i % 50, daterange('2000-01-01'::date + i / 50 * 5, '2000-01-01'::date + i / 50 * 5 + 1 + i % 4) FROM generate_series(0, 2499) AS i")  # fmt: skip
        connection.execute(b"ANALYZE booking")
        notes = quickly_prepared(connection, twin_of(asked, added, first))
        assert not any("not sent" in x or "fails" in x for x in notes), notes
        found = connection.execute(b"SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement ORDER BY number").fetchall()  # fmt: skip
        assert [x for (x,) in found] == [pytest.approx(1.2, rel=0.15), 1, pytest.approx(50, rel=0.15)]  # fmt: skip
        pool = "SELECT p1::int, daterange(now()::date + p2::int, now()::date + p3::int + p4::int) FROM pgdrag_twin.pool_s2"
        with connection.transaction(force_rollback=True):
            done = connection.execute(f"INSERT INTO booking SELECT DISTINCT * FROM ({pool}) AS p (room, during)".encode())  # fmt: skip
        assert done.rowcount > 100


def test_a_partial_index_is_used_where_the_text_has_its_constant(shop: Cluster) -> None:
    """The calls' plans are kept: a parameter would not tell that rows are in the index."""
    state = Parameter(2, "text", 100, 0.0, 1, (1.0, 1.0, 1.0), 0.0, common=(("open", 1.0),), is_constant=True)  # fmt: skip
    asked = of(1, "SELECT * FROM errand WHERE nr = $1 AND state = $2", rows=1, blocks=3)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE errand AS SELECT i AS nr, CASE WHEN i % 10 = 0 THEN 'open' ELSE 'done' END AS state FROM generate_series(1, 20000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON errand (nr) WHERE state = 'open'")
        connection.execute(b"ANALYZE errand")
        log = replace(logged(state), prepared_share=1.0)
        assert quickly_prepared(connection, replace(twin_of(asked), transactions=log)) == ()
        blocks = connection.execute(b"SELECT (found ->> 'blocks')::float8 FROM pgdrag_twin.statement").fetchall()  # fmt: skip
    assert [x for (x,) in blocks] == [pytest.approx(3, abs=1)]


def test_numbers_have_the_type_that_explains_the_blocks(shop: Cluster) -> None:
    """A program sent a number as numeric, for which there is no index."""
    asked = of(1, "SELECT * FROM counter WHERE nr = $1", rows=1, blocks=100)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE counter AS SELECT i AS nr FROM generate_series(1, 20000) AS i")  # fmt: skip
        connection.execute(b"CREATE UNIQUE INDEX ON counter (nr)")
        connection.execute(b"ANALYZE counter")
        quickly_prepared(connection, twin_of(asked))
        script = connection.execute(b"SELECT job::text FROM pgdrag_twin.job").fetchall()
    assert "::numeric" in str(script)


def test_a_number_that_stands_in_the_text_is_an_integer(shop: Cluster) -> None:
    """Whatever explains its blocks."""
    asked = of(1, "SELECT * FROM tally WHERE nr = $1", rows=1, blocks=100)
    told = Parameter(1, "number", 100, 0.0, 90, (0.1, 0.1, 1.0), 0.0)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE tally AS SELECT i AS nr FROM generate_series(1, 20000) AS i")  # fmt: skip
        connection.execute(b"CREATE UNIQUE INDEX ON tally (nr)")
        connection.execute(b"ANALYZE tally")
        for one, is_numeric in ((told, False), (replace(told, is_sent=True), True)):
            quickly_prepared(connection, replace(twin_of(asked), transactions=logged(one)))
            script = connection.execute(b"SELECT job::text FROM pgdrag_twin.job").fetchall()
            assert ("::numeric" in str(script)) == is_numeric


def test_numbers_of_no_column_come_as_often_as_the_log_has_them(shop: Cluster) -> None:
    """Which day is asked for with which room, nothing tells; so each part of the range has its own."""
    common = ((("-5", 0.5), ("40", 0.5)), (("1", 0.75), ("7", 0.25)))
    told = [Parameter(n, "number", 100, 0.0, 2, (0.7, 1.0, 1.0), 0.0, common=x) for n, x in enumerate(common, start=2)]  # fmt: skip
    asked = of(1, "SELECT * FROM vacancy WHERE nr = $1 AND during && daterange(current_date + $2, current_date + $2 + $3)", rows=0.3, blocks=5)  # fmt: skip
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE vacancy AS SELECT i AS nr, daterange(date '2000-01-01' + i % 30, date '2000-01-03' + i % 30) AS during FROM generate_series(1, 3000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON vacancy (nr)")
        connection.execute(b"ANALYZE vacancy")
        quickly_prepared(connection, replace(twin_of(asked), transactions=logged(*told)))
        rows = connection.execute(b"SELECT p2, p3, count(*)::float8 / sum(count(*)) OVER () FROM pgdrag_twin.pool_s1 GROUP BY 1, 2").fetchall()  # fmt: skip
        [(rooms,)] = connection.execute(b"SELECT count(DISTINCT p1) FROM pgdrag_twin.pool_s1").fetchall()  # fmt: skip
    shares = {(day, nights): share for day, nights, share in rows}
    assert shares == {
        ("-5", "1"): pytest.approx(0.375, abs=0.05), ("40", "1"): pytest.approx(0.375, abs=0.05),
        ("-5", "7"): pytest.approx(0.125, abs=0.05), ("40", "7"): pytest.approx(0.125, abs=0.05),
    }  # fmt: skip
    assert rooms > 1000


def test_each_column_of_a_new_row_has_the_values_that_the_log_tells(shop: Cluster) -> None:
    """Meters are told, and kinds, of which the table has far more of one."""
    meters = Parameter(1, "number", 100, 0.0, 30, (0.3, 1.0, 1.0), 0.0, common=(("7", 0.3), ("8", 0.2)))  # fmt: skip
    kinds = Parameter(2, "number", 100, 0.0, 2, (0.5, 1.0, 1.0), 0.0, common=(("0", 0.5), ("1", 0.5)))  # fmt: skip
    added = of(1, "INSERT INTO sample (meter, kind) VALUES ($1, $2)", rows=1)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE sample AS SELECT i % 100 AS meter, (i % 20 = 0)::int AS kind FROM generate_series(1, 5000) AS i")  # fmt: skip
        connection.execute(b"ANALYZE sample")
        quickly_prepared(connection, replace(twin_of(added), transactions=logged(meters, kinds)))
        rows = connection.execute(b"SELECT avg((p2 = '1')::int)::float8, avg((p1 = '7')::int)::float8, avg((p1 = '7' AND p2 = '1')::int)::float8 FROM pgdrag_twin.pool_s1").fetchall()  # fmt: skip
    assert rows == [(pytest.approx(0.5, abs=0.05), pytest.approx(0.3, abs=0.02), pytest.approx(0.15, abs=0.03))]  # fmt: skip


def test_circles_and_boxes_have_as_many_rows_in_them_as_they_had(shop: Cluster) -> None:
    asked = of(1, "SELECT * FROM spot WHERE place <@ circle(point($1, $2), $3)", rows=20, blocks=18)
    boxed = of(
        2, "SELECT * FROM spot WHERE place <@ box(point($1, $2), point($3, $4))", rows=50, blocks=29
    )
    near = of(3, "SELECT * FROM spot ORDER BY place <-> point($1, $2) LIMIT $3", rows=5, blocks=8)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE spot AS SELECT i AS id, point(i * 7919 % 5000, i * 104729 % 4999) AS place FROM generate_series(1, 5000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON spot USING gist (place)")
        connection.execute(b"ANALYZE spot")
        quickly_prepared(connection, twin_of(asked, boxed, near))
        rows = connection.execute(b"SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement ORDER BY number").fetchall()  # fmt: skip
        [(places,)] = connection.execute(b"SELECT count(DISTINCT p1) FROM pgdrag_twin.pool_s3").fetchall()  # fmt: skip
    assert [x for (x,) in rows] == [pytest.approx(x, rel=0.15) for x in (20, 50, 5)]
    assert places > 1000


def test_arrays_whose_entries_are_rows_are_as_long_as_they_were(shop: Cluster) -> None:
    """A batch of readings is inserted, and their bikes are changed, 15 at a time."""
    batch = "unnest($1::uuid[], $2::real[]) AS u (bike, charge)"
    changed = of(1, f"UPDATE bike AS b SET charge = u.charge FROM {batch} WHERE b.id = u.bike", rows=15, blocks=60)  # fmt: skip
    added = of(2, f"INSERT INTO charge (bike, charge, at) SELECT u.bike, u.charge, $3 FROM {batch}", rows=15, blocks=30)  # fmt: skip
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE bike AS SELECT gen_random_uuid() AS id, (i % 100)::real AS charge FROM generate_series(1, 3000) AS i")  # fmt: skip
        connection.execute(b"ALTER TABLE bike ADD PRIMARY KEY (id), ALTER charge SET NOT NULL")
        connection.execute(b"CREATE TABLE charge AS SELECT id AS bike, charge, now() AS at FROM bike")  # fmt: skip
        connection.execute(b"ANALYZE bike, charge")
        assert quickly_prepared(connection, twin_of(changed, added)) == ()
        for number in (1, 2):
            lengths = f"SELECT DISTINCT cardinality(p1::uuid[]), cardinality(p2::real[]) FROM pgdrag_twin.pool_s{number}"
            for bikes, charges in connection.execute(lengths.encode()).fetchall():
                assert bikes == charges
        rows = connection.execute(b"SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement").fetchall()  # fmt: skip
        given = "SELECT id, b.charge, u.charge AS given FROM pgdrag_twin.pool_s1, unnest(p1::uuid[], p2::real[]) AS u (id, charge) JOIN bike AS b USING (id)"
        of_bike = f"SELECT avg((charge = given)::int) AS same, count(DISTINCT given) AS values FROM ({given}) AS g GROUP BY id"
        [(same, values)] = connection.execute(f"SELECT avg(same)::float8, avg(values)::float8 FROM ({of_bike}) AS b".encode()).fetchall()  # fmt: skip
    assert [x for (x,) in rows] == [pytest.approx(15, rel=0.15)] * 2
    # What is set is another row's value, but in the middle of an array, and each time another one.
    assert same < 0.15
    assert values > 5


def test_what_is_asked_for_meets_conditions_without_a_parameter_too(shop: Cluster) -> None:
    """Half of the riders have an open ride, and each call found one."""
    ride = of(1, "SELECT * FROM ride WHERE rider = $1 AND ended IS NULL", rows=1)
    ended = of(2, "UPDATE ride SET ended = now() WHERE rider = $1 AND ended IS NULL", rows=1)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE ride AS SELECT i % 499 AS rider, CASE WHEN i % 200 > 0 THEN now() END AS ended FROM generate_series(1, 50000) AS i")  # fmt: skip
        connection.execute(b"CREATE INDEX ON ride (rider)")
        connection.execute(b"ANALYZE ride")
        quickly_prepared(connection, twin_of(ride, ended))
        rows = connection.execute(b"SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement").fetchall()  # fmt: skip
    assert [x for (x,) in rows] == [pytest.approx(1, rel=0.15)] * 2


def test_what_an_update_writes_is_written_as_often_as_the_log_says(shop: Cluster) -> None:
    """Of rooms that are mostly clean all become dirty or are let, in the lower half of the numbers; which rooms is another matter."""

    def told(number: int, *common: tuple[str, float], positions: tuple[float, ...] = ()) -> Parameter:  # fmt: skip
        return Parameter(number, "number", 400, 0.0, 60, (0.1, 0.2, 0.9), 0.0, common=common, positions=positions)  # fmt: skip

    low = (0.07,) * 7 + (0.37,) + (0.07,) * 2 + (0.0,) * 10
    log = logged(
        told(1, ("dirty", 0.75), ("let", 0.25)), told(2, ("40", 0.3), positions=low), told(3)
    )
    change = of(1, "UPDATE room_state SET state = $1, floor = $2 WHERE id = $3", rows=1)
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE room_state AS SELECT i AS id, (ARRAY['clean', 'clean', 'dirty', 'let'])[1 + i % 4] AS state, 1 + i % 100 AS floor FROM generate_series(1, 8000) AS i")  # fmt: skip
        connection.execute(b"CREATE UNIQUE INDEX ON room_state (id)")
        connection.execute(b"ANALYZE room_state")
        quickly_prepared(connection, replace(twin_of(change), transactions=log))
        shares = "SELECT avg((p1 = 'dirty')::int)::float8, avg((p1 = 'let')::int)::float8, avg((p2 = '40')::int)::float8, avg((p2::int <= 50)::int)::float8, count(DISTINCT p2), count(DISTINCT p3) FROM pgdrag_twin.pool_s1"
        [(dirty, let, forty, lower, floors, rooms)] = connection.execute(shares.encode()).fetchall()
    assert (dirty, let) == (pytest.approx(0.75, abs=0.03), pytest.approx(0.25, abs=0.03))
    assert (forty, lower) == (pytest.approx(0.3, abs=0.03), pytest.approx(1, abs=0.03))
    assert floors > 40
    assert rooms > 1000


def test_a_room_that_was_looked_up_is_asked_for_at_times_of_other_rooms(shop: Cluster) -> None:
    """Each room is taken for three days in two weeks: three by lot find a third of them taken, and a stay's own days each."""
    found = of(1, "SELECT * FROM suite WHERE id = $1", calls=500, rows=1, blocks=3)
    taken = of(2, "SELECT 1 FROM taken WHERE suite = $1 AND during && daterange($2, $3) LIMIT 1", calls=500, rows=0.5, blocks=4)  # fmt: skip
    shape = TransactionShape(
        1, (Step(1), Step(2)), 500, Spread(1.0, (1.0,) * 8), is_block=True,
        links=(ParameterLink(2, 1, "transaction", 1, 1, 1.0),),
    )  # fmt: skip
    log = LoggedTransactions("csvlog", 60.0, 1000, 500, shapes=(shape,))
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE suite AS SELECT i AS id FROM generate_series(1, 400) AS i; ALTER TABLE suite ADD PRIMARY KEY (id)")  # fmt: skip
        connection.execute(b"CREATE TABLE taken AS SELECT i AS suite, daterange(d, d + 3) AS during FROM generate_series(1, 400) AS i, generate_series(0, 20) AS k, LATERAL (SELECT date '1999-06-01' + 14 * k + i % 14 AS d) AS s")  # fmt: skip
        connection.execute(b"CREATE INDEX ON taken (suite); ANALYZE suite, taken")
        quickly_prepared(connection, replace(twin_of(found, taken), transactions=log))
        asked = "SELECT p1::int AS suite, daterange(p2::date, p3::date) AS during FROM pgdrag_twin.pool_s2"
        taken_ = "EXISTS (SELECT FROM taken AS t WHERE t.suite = p.suite AND t.during && p.during)"
        [(there, share)] = connection.execute(f"SELECT avg((suite > 0)::int)::float8, avg(({taken_})::int)::float8 FROM ({asked}) AS p".encode()).fetchall()  # fmt: skip
    assert there == 1
    assert 0.3 < share < 0.8  # half, by some tens of tries


def test_a_key_is_asked_for_with_values_of_other_rows_where_few_calls_found_one(shop: Cluster) -> None:  # fmt: skip
    """Each bench is booked for two days in ten, so that two days by lot find it booked once in three times."""
    asked = of(
        1,
        "SELECT * FROM bench WHERE number = $1 AND during && daterange($2, $3)",
        rows=0.5,
        blocks=3.2,
    )
    with as_load(shop) as connection:
        connection.execute(b"CREATE TABLE bench AS SELECT i / 30 AS number, daterange(d, d + 2) AS during FROM generate_series(0, 5999) AS i, LATERAL (SELECT date '1999-01-01' + 10 * (i % 30) + i / 30 % 10 AS d) AS s")  # fmt: skip
        connection.execute(b"CREATE INDEX ON bench (number); ANALYZE bench")
        quickly_prepared(connection, twin_of(asked))
        [(there,)] = connection.execute(b"SELECT avg((p1::int >= 0)::int)::float8 FROM pgdrag_twin.pool_s1").fetchall()  # fmt: skip
        [(rows,)] = connection.execute(b"SELECT (found ->> 'rows')::float8 FROM pgdrag_twin.statement").fetchall()  # fmt: skip
    assert there == 1
    assert 0.3 < rows < 0.8  # half, by some tens of tries
