"""A data twin of a server with rows: are its statistics, sizes, keys and constraints those of the original?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgdrag.capture.twin import TwinCapture
from pgdrag.data_twin.making import restore_rows
from pgdrag.data_twin.sizes import rows_of
from pgdrag.data_twin.unvacuumed import leave_unvacuumed
from pgdrag.driver.connection_string import reach
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot
from pgdrag.twins import Twin
from pgdrag.twins.column_fidelity import column_differences

TABLES = Path(__file__).with_name("data_twin.sql")
QUIET = {"autovacuum": "off", "fsync": "off"}


@pytest.fixture(scope="module")
def twin(scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot) -> Twin:
    """A twin of tables with much that a schema can have."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.configure(QUIET)
        cluster.start()
        with cluster.connect(role=cluster.load_role) as connection:
            connection.execute(TABLES.read_bytes())
        with cluster.connect() as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("INSERT INTO s.reading SELECT timestamptz '2026-01-09' + i * interval '1 min', i FROM generate_series(1, 3000) AS i")  # fmt: skip
            connection.execute("UPDATE s.stock SET n = 1 WHERE id % 41 = 0")
            # One row on each of two pages in five.
            connection.execute(
                "UPDATE s.seen SET note = note WHERE id % 61 = 0 AND id / 61 % 5 < 2"
            )
        return TwinCapture(reach(cluster.conninfo())).run(0.5)


@pytest.fixture(scope="module")
def made(
    twin: Twin, scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot
) -> Iterator[tuple[Cluster, tuple[str, ...]]]:
    """The data twin, and what is said of it."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.configure(QUIET)
        cluster.start()
        with cluster.connect(role=cluster.load_role) as connection:
            notes = restore_rows(connection, twin, scale=1, seed=1, step=lambda *_: None)
        yield cluster, notes


@pytest.fixture
def session(made: tuple[Cluster, tuple[str, ...]]) -> Iterator[psycopg.Connection]:
    """A session there, of a superuser: pg_stats shows all."""
    with made[0].connect() as connection:
        yield connection


def count(connection: psycopg.Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_all_of_the_schema_holds_with_the_rows(made: tuple[Cluster, tuple[str, ...]]) -> None:
    """Primary keys, foreign keys, CHECK constraints, partitions: what rows break is said, and here none is."""
    assert made[1] == ()


@pytest.fixture(scope="module")
def again(made: tuple[Cluster, tuple[str, ...]]) -> Twin:
    """A twin of the data twin."""
    return TwinCapture(reach(made[0].conninfo())).run(0.5)


def test_statistics_are_those_of_the_original(twin: Twin, again: Twin) -> None:
    differences, compared = column_differences(twin, again, lambda _: 1.0)
    assert compared > 60
    assert len(differences) <= 0.12 * compared, differences


def test_tables_have_the_rows_and_the_size_of_the_original(twin: Twin, again: Twin) -> None:
    there = {(x.schema, x.name): x for x in again.relations}
    tables = [x for x in twin.relations if x.kind == "table"]
    assert len(tables) > 10
    for one in tables:
        now = there[one.schema, one.name]
        # Which of two partitions by hash a value goes to is not known beforehand.
        rows = one.tuples if one.name == "reading" else rows_of(one)  # that ANALYZE saw
        assert now.tuples == pytest.approx(rows, rel=0.05), one.name
        assert now.bytes == pytest.approx(one.bytes, rel=0.15, abs=2 * 8192), one.name


def test_rows_that_came_since_analyze_are_later_than_all_that_the_planner_knows_of(session: psycopg.Connection) -> None:  # fmt: skip
    last = "SELECT max(x) FROM pg_stats, unnest(histogram_bounds::text::timestamptz[]) AS x WHERE tablename = 'reading' AND attname = 'at'"
    late = count(session, f"SELECT count(*) FROM s.reading WHERE at > ({last})")
    assert late == pytest.approx(3000, rel=0.02)


def test_wide_rows_leave_as_much_room_in_their_pages(twin: Twin, again: Twin) -> None:
    before, now = (next(x for x in one.relations if x.name == "letter") for one in (twin, again))
    assert now.bytes == pytest.approx(before.bytes, rel=0.02)


def test_few_rows_lie_on_as_many_pages_as_in_the_original(twin: Twin, again: Twin) -> None:
    """As they come they would be on one, and a scan of what is changed all the time read one."""
    for name, rows in (("counter", 6), ("total", 1)):
        before, now = (next(x for x in one.relations if x.name == name) for one in (twin, again))
        assert before.bytes is not None
        assert (now.tuples, now.bytes) == (rows, pytest.approx(before.bytes, abs=8192))
        assert before.bytes > 3 * 8192


def test_gist_indexes_have_the_size_of_those_whose_rows_came_one_by_one(twin: Twin, again: Twin) -> None:  # fmt: skip
    there = {x.name: x for x in again.relations}
    for one in (x for x in twin.relations if x.table == "trip"):
        assert there[one.name].bytes == pytest.approx(one.bytes, rel=0.06), one.name
    options = [x.definition.partition(" WITH ")[2] for x in again.schema.indexes if x.table == "trip"]  # fmt: skip
    assert sorted(options) == ["", "(fillfactor='80')"]


def test_pages_that_changed_since_vacuum_are_not_known_to_be_visible(session: psycopg.Connection) -> None:  # fmt: skip
    """An index-only scan looks into them, and the planner knew of none when its statistics were made."""
    session.execute("CREATE EXTENSION pg_visibility SCHEMA public")
    visible = {t: count(session, f"SELECT all_visible FROM public.pg_visibility_map_summary('s.{t}')") for t in ("seen", "booking")}  # fmt: skip
    told = {t: count(session, f"SELECT relallvisible FROM pg_class WHERE oid = 's.{t}'::regclass") for t in visible}  # fmt: skip
    assert 40 < visible["seen"] < 75
    assert (told["seen"], visible["booking"]) == (pytest.approx(104, abs=4), told["booking"])
    assert count(session, "SELECT count(*) FROM s.seen") == 6100


def test_an_update_stays_on_its_page_where_another_one_left_it_before(twin: Twin, session: psycopg.Connection) -> None:  # fmt: skip
    """Three pages in five have a dead row, and no other page has room; so it is when they were vacuumed again."""
    session.execute("VACUUM s.stock")
    leave_unvacuumed(session, twin, tables=[("s", "stock")])
    stayed = 0
    with session.transaction(force_rollback=True):
        ids = [x for (x,) in session.execute("SELECT id FROM s.stock ORDER BY md5(id::text) LIMIT 100").fetchall()]  # fmt: skip
        for one in ids:
            place = "SELECT ((ctid::text::point)[0])::int FROM s.stock WHERE id = %s"
            before = session.execute(place, (one,)).fetchone()
            session.execute("UPDATE s.stock SET n = n + 1 WHERE id = %s", (one,))
            stayed += session.execute(place, (one,)).fetchone() == before
    assert 40 < stayed < 80


def test_lines_beneath_a_booking_are_as_many_as_in_the_original(
    session: psycopg.Connection,
) -> None:
    lines = (
        "SELECT count(*) FROM (SELECT FROM s.line GROUP BY tenant, nr HAVING count(*) = {}) AS x"
    )
    assert [count(session, lines.format(x)) for x in (1, 2, 3)] == pytest.approx([1333, 1333, 1334], rel=0.1)  # fmt: skip


def test_one_column_decides_another_where_it_did(session: psycopg.Connection) -> None:
    """Of 300 × 300 combinations each partition has not many more than cities: independent, it would have over 4,000."""
    for table in ("s.log_1", "s.log_rest"):
        assert 290 < count(session, f"SELECT count(DISTINCT (city, zip)) FROM {table}") < 620


@pytest.mark.parametrize(
    ("vector", "shares"),
    [
        ("words FROM s.article", [1, 0.5, 0.2]),
        ("to_tsvector('simple', note) FROM s.memo", [*[1 / 3] * 3, *[1 / 7] * 7]),
    ],
)
def test_words_that_the_server_searches_texts_for_are_as_frequent_as_in_the_original(
    session: psycopg.Connection, vector: str, shares: list[float]
) -> None:
    words = f"SELECT ndoc FROM ts_stat('SELECT {vector.replace(chr(39), chr(39) * 2)}') ORDER BY ndoc DESC LIMIT {len(shares) + 1}"
    *frequent, rare = [x for (x,) in session.execute(words.encode())]
    assert frequent == pytest.approx([3000 * x for x in shares], rel=0.15)
    assert rare < 0.1 * 3000


def test_the_last_pages_of_a_brin_index_have_no_summary_until_they_are_full(session: psycopg.Connection) -> None:  # fmt: skip
    pages = count(session, "SELECT pg_relation_size('s.log_1') / 8192")
    assert pages > 2
    session.execute("CREATE EXTENSION pageinspect SCHEMA public")
    items = "brin_page_items(get_raw_page('s.log_1_at_idx', 2), 's.log_1_at_idx')"
    assert count(session, f"SELECT count(*) FROM {items} WHERE value IS NOT NULL") == pages // 2


def test_ranges_that_came_since_vacuum_have_no_summary(session: psycopg.Connection) -> None:
    """Eleven of the fifteen ranges of four pages: 44 pages were there when VACUUM was."""
    session.execute("CREATE EXTENSION IF NOT EXISTS pageinspect SCHEMA public")
    assert count(session, "SELECT pg_relation_size('s.reading') / 8192") == pytest.approx(60, abs=2)
    items = "brin_page_items(get_raw_page('s.reading_at', 2), 's.reading_at')"
    assert count(session, f"SELECT count(*) FROM {items} WHERE value IS NOT NULL") == pytest.approx(10, abs=1)  # fmt: skip


def test_a_sequence_goes_on_behind_the_rows(session: psycopg.Connection) -> None:
    """Of an identity column, and one that a default takes the next value of."""
    last = count(session, "SELECT max(id) FROM s.person")
    assert count(session, "INSERT INTO s.person (tenant) SELECT id FROM s.tenant LIMIT 1 RETURNING id") == last + 1  # fmt: skip
    last = count(session, "SELECT max(id) FROM s.wide")
    assert count(session, "INSERT INTO s.wide DEFAULT VALUES RETURNING id") == last + 1


def test_the_same_seed_gives_the_same_rows_and_a_scale_fewer(
    twin: Twin, scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot
) -> None:
    sums = []
    for _ in range(2):
        with empty_snapshot.restore(scratch, binaries).cluster as cluster:
            cluster.configure(QUIET)
            cluster.start()
            with cluster.connect(role=cluster.load_role) as connection:
                notes = restore_rows(connection, twin, scale=0.3, seed=7, step=lambda *_: None)
                assert notes == ()
                query = "SELECT sum(hashtext(x::text)::int8), count(*) FROM s.booking AS x"
                sums.append(connection.execute(query.encode()).fetchone())
                assert count(connection, "SELECT count(*) FROM s.tenant") == 200
    assert sums[0] == sums[1]
    assert sums[0] is not None
    assert 0.25 * 4000 < sums[0][1] < 0.35 * 4000
