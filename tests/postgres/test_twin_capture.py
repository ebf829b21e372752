"""`pgdrag capture twin` on real servers, under a role that is no superuser: what is in the file, and what is not."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import psycopg
import pytest
from commands import dsn, heard, outcome, start

from conftest import newest
from in_process import pgdrag
from pgdrag.capture.original_values import original_values
from pgdrag.capture.statements import StatementAccount
from pgdrag.capture.twin import WATCHING, CaptureProgress, TwinCapture
from pgdrag.collectors import Observer, Unseen
from pgdrag.driver.connection_string import reach
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.cluster import Cluster
from pgdrag.twins import Twin, read_twin, twin_bytes
from pgdrag.twins.ddl import after_rows, before_rows
from pgdrag.twins.file import document_text, parse_twin
from pgdrag.twins.leaks import scan
from pgdrag.twins.model import ColumnStatistics, Statement

WATCHER, BLIND, CLIENT = "watcher", "blind", "alice_the_client"
SHOP = Path(__file__).with_name("shop.sql")
ROLES = f"""
CREATE EXTENSION pg_stat_statements SCHEMA public;
CREATE ROLE {WATCHER} LOGIN; GRANT pg_monitor, pg_read_all_data TO {WATCHER};
CREATE ROLE {BLIND} LOGIN;
CREATE ROLE {CLIENT} LOGIN; GRANT pg_read_all_data, pg_write_all_data TO {CLIENT};
ALTER ROLE {CLIENT} SET work_mem = '16MB'; ALTER ROLE {CLIENT} SET search_path = shop, public;
"""
# As programs send them; each has a value that nobody else may read.
STATEMENTS = (
    "SELECT * FROM orders o JOIN customers c ON c.id = o.customer WHERE c.mail = 'user77@example.org'",
    "SELECT count(*) FROM orders_new WHERE kind IN ('express delivery', 'wholesale') AND placed > '2026-07-01'",
    "SELECT l.sku, sum(l.qty * l.price) FROM lines l JOIN orders o ON o.id = l.order_id WHERE l.price > 1234 GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
    "UPDATE customers SET balance = balance - 12.34, name = 'Alexander Humboldt' WHERE id = 17",
    "INSERT INTO readings (sensor, at, value) VALUES (1007, '2026-11-24 10:00', 21.75)",
    "SELECT doc ->> 'channel' FROM orders WHERE doc @> '{\"channel\": \"web shop\"}'",
    "SELECT set_config('application_name', 'a secret name', false) /* ticket 4711 of Alice */",
    "COPY (SELECT id FROM customers WHERE name = 'Nobody Special') TO STDOUT",
    f"SET ROLE {CLIENT}",
    "BEGIN",
    "COMMIT",
)
SECRETS = ("very secret", "hiddenbody", "secretword", "confidential", "Alice", CLIENT, "Humboldt", "Nobody", "ticket", "secret name", "user77", "Mister", "northern", "telephone", "dispatched", "basic label", "quoted")  # fmt: skip


@pytest.fixture(scope="module")
def shop(telling_version: str, new_cluster: Callable[[str], Cluster]) -> Iterator[Cluster]:
    """A server with a shop of each telling version, in the database of tests."""
    with new_cluster(telling_version) as cluster:
        cluster.configure(
            {
                "shared_preload_libraries": "pg_stat_statements",
                "pg_stat_statements.track": "all",
                "track_io_timing": "on",
                "autovacuum": "off",
                "work_mem": "8MB",
            }
        )
        cluster.start()
        with cluster.connect() as connection:
            connection.execute(ROLES.encode())
            connection.execute(SHOP.read_bytes())
            connection.execute("VACUUM ANALYZE")
        yield cluster


def as_client(cluster: Cluster) -> psycopg.Connection:
    return psycopg.connect(dsn(cluster, CLIENT), autocommit=True)


def run_statements(cluster: Cluster) -> None:
    """Run each statement in a session of its own, and wait until the server has counted what it did."""
    counted = "SELECT sum(n_tup_upd)::int FROM pg_stat_user_tables"
    with cluster.connect() as connection:
        [(before,)] = connection.execute(counted).fetchall()
        with as_client(cluster) as client:
            for statement in STATEMENTS:
                if statement.startswith("COPY"):
                    with client.cursor().copy(statement.encode()) as rows:
                        assert list(rows) == []
                else:
                    client.execute(statement.encode())
            client.execute(
                "SELECT name FROM customers WHERE id = %s AND born > %s", (5, date(1960, 2, 3))
            )
        assert wait_until(lambda: connection.execute(counted).fetchall() == [(before + 1,)], 20)


def captured(cluster: Cluster, role: str = WATCHER, *, for_s: float = 0.5) -> Twin:
    """Capture while a client runs each statement."""
    has_run = False

    def listen(progress: CaptureProgress) -> None:
        nonlocal has_run
        if progress.step == WATCHING and not has_run:
            has_run = True
            run_statements(cluster)

    with as_client(cluster):
        capture = TwinCapture(reach(dsn(cluster, role), is_for_driver=False), rng=random.Random(7))
        return capture.run(for_s, listen)


@pytest.fixture(scope="module")
def twin(shop: Cluster) -> Twin:
    """A capture by a role with pg_monitor and pg_read_all_data."""
    return captured(shop)


def role_of(twin: Twin) -> str:
    """The client's role, as the twin calls it."""
    return next(x.role for x in twin.workload.statements if "JOIN customers" in x.text)


def statement(twin: Twin, words: str) -> Statement:
    """The client's statement with some words in it."""
    role = role_of(twin)
    found = [
        x for x in twin.workload.statements if words in x.text and x.role == role and x.is_toplevel
    ]
    assert len(found) == 1, [x.text for x in twin.workload.statements]
    return found[0]


def statistics(twin: Twin, relation: str, column: str) -> ColumnStatistics:
    return next(x for x in twin.statistics if (x.relation, x.column) == (relation, column))


def test_no_value_of_the_original_is_in_the_file(shop: Cluster, twin: Twin) -> None:
    found = scan(twin, original_values(reach(dsn(shop, WATCHER), is_for_driver=False), rows=300))
    assert found.searched > 2000
    assert found.leaks == ()


def test_no_secret_of_texts_is_in_the_file(twin: Twin) -> None:
    document = document_text(twin)
    assert [secret for secret in SECRETS if secret in document] == []


def test_a_planted_value_is_found(shop: Cluster, twin: Twin) -> None:
    values = original_values(reach(dsn(shop, WATCHER), is_for_driver=False))
    planted = replace(statistics(twin, "customers", "mail"), histogram=("user1001@example.org",))
    first, *_ = twin.workload.statements
    other = replace(first, text="SELECT 1 WHERE name = 'express delivery'")
    leaky = replace(
        twin,
        statistics=(*twin.statistics, planted),
        workload=replace(twin.workload, statements=(other,)),
    )
    assert {"express delivery"} <= {x.value for x in scan(leaky, values).leaks}
    assert "user1001@example.org" in {x.value for x in scan(leaky, {*values, "user1001@example.org"}).leaks}  # fmt: skip


def test_the_schema_can_be_made_again(shop: Cluster, twin: Twin) -> None:
    with shop.connect() as connection:
        connection.execute("CREATE DATABASE again TEMPLATE template0")
    with psycopg.connect(dsn(shop, database="again"), autocommit=True) as connection:
        connection.execute("SET check_function_bodies = off")
        for statements in (list(before_rows(twin.schema)), list(after_rows(twin.schema))):
            failed = []
            for one in statements:
                try:
                    connection.execute(one.sql.encode())
                except psycopg.Error as error:
                    failed.append((one, error))
            assert [(x.makes, x.sql, str(error)) for x, error in failed] == []
        count = "SELECT relkind, count(*) FROM pg_class WHERE relnamespace = 'shop'::regnamespace AND relkind IN ('r', 'p', 'i', 'I', 'S', 'v', 'm') GROUP BY 1 ORDER BY 1"
        again = connection.execute(count).fetchall()
    with shop.connect() as connection:
        original = connection.execute(count).fetchall()
        connection.execute("DROP DATABASE again")
    assert again == original


def test_columns_that_are_joined_have_the_same_tokens(shop: Cluster, twin: Twin) -> None:
    customer = statistics(twin, "orders_new", "customer")
    assert customer.value_class == statistics(twin, "customers", "id").value_class
    # Only a statement compares these.
    assert (
        statistics(twin, "lines", "order_id").value_class
        == statistics(twin, "orders_old", "id").value_class
    )


def test_tokens_keep_order_frequency_and_width(shop: Cluster, twin: Twin) -> None:
    with shop.connect() as connection:
        for table, column in (("customers", "name"), ("customers", "mail"), ("lines", "sku"), ("readings", "at"), ("customers", "born")):  # fmt: skip
            found = statistics(twin, table, column)
            [(original, widths)] = connection.execute(
                "SELECT array_length(histogram_bounds::text::text[], 1), ARRAY(SELECT length(x) FROM unnest(histogram_bounds::text::text[]) AS x)"
                " FROM pg_stats WHERE tablename = %s AND attname = %s", (table, column)
            ).fetchall()  # fmt: skip
            assert len(found.histogram) == original
            [(ordered,)] = connection.execute(
                "SELECT array_agg(x ORDER BY x) FROM unnest(%s::text[]) AS x", (list(found.histogram),)
            ).fetchall()  # fmt: skip
            assert ordered == list(found.histogram), (table, column)
            if found.type in ("text", "shop.email"):
                assert [len(x) for x in found.histogram] == widths
    assert statistics(twin, "lines", "sku").most_common_shares
    assert sum(statistics(twin, "orders_old", "kind").most_common_shares) == pytest.approx(1)


@pytest.mark.parametrize(
    ("column", "type_", "longest"),
    [("guests", "int4range", 1000), ("during", "tstzrange", float("inf")), ("closed", "daterange", 31)],
)  # fmt: skip
def test_ranges_keep_order_lengths_and_ends(shop: Cluster, twin: Twin, column: str, type_: str, longest: float) -> None:  # fmt: skip
    one = statistics(twin, "stays", column)
    query = f"SELECT count(*), count(*) FILTER (WHERE upper_inf(r)), count(DISTINCT lower(r)) FROM unnest(%s::{type_}[]) AS r"
    with shop.connect() as connection:
        [(bounds, endless, different)] = connection.execute(query.encode(), (list(one.range_bounds),)).fetchall()  # fmt: skip
    lengths = [float(x) for x in one.range_lengths]
    assert (bounds, different, len(lengths)) == (101, 101, 101)
    assert lengths == sorted(lengths)
    assert lengths[-1] == pytest.approx(longest, rel=0.1)
    assert (endless > 0) == (column == "during")
    assert one.empty_share == pytest.approx(0.1 if column == "during" else 0)
    check = next(x.definition for x in twin.schema.constraints if "guests" in x.definition)
    assert "'[0," in check
    assert "100000" not in check


def test_constants_of_the_schema_are_the_tokens_of_their_column(twin: Twin) -> None:
    kinds = set(statistics(twin, "orders_new", "kind").most_common)
    check = next(x for x in twin.schema.constraints if x.name == "kinds")
    express = next(x for x in twin.schema.indexes if x.name == "orders_express")
    assert all(f"'{kind}'" in check.definition for kind in kinds)
    assert sum(f"'{kind}'" in express.definition for kind in kinds) == 1
    column = next(x for t in twin.schema.tables for x in t.columns if t.name == "orders" and x.name == "kind")  # fmt: skip
    assert column.default.split("'")[1] in kinds
    states = next(x for x in twin.schema.types if x.name == "status").labels
    assert states == ("e1", "e2", "e3")
    assert set(statistics(twin, "orders_new", "state").most_common) <= set(states)


def test_statements_have_what_they_took_and_their_parameters_types(twin: Twin) -> None:
    join = statement(twin, "JOIN customers")
    assert (join.calls, join.is_plannable) == (1, True)
    assert join.shared_hit + join.shared_read > 0
    assert join.parameters == ("shop.email",) or join.parameters == ("text",)
    assert statement(twin, "born").parameters == ("bigint", "date")
    update = statement(twin, "UPDATE customers")
    assert update.wal_bytes > 0
    assert not statement(twin, "COPY").is_plannable
    assert "/*" not in statement(twin, "set_config").text


def test_options_of_roles_and_settings_are_told_without_names(twin: Twin) -> None:
    assert ("work_mem", "8192", "kB") in [(x.name, x.value, x.unit) for x in twin.source.settings]
    options = [(x.role, s.name, s.value) for x in twin.source.options for s in x.settings]
    assert (role_of(twin), "work_mem", "16MB") in options
    assert all(x.value is None for x in twin.source.settings if x.name.endswith("_command"))


def test_sizes_and_changes_are_told(twin: Twin) -> None:
    by_name = {x.name: x for x in twin.relations}
    assert by_name["customers"].moved["n_tup_upd"] == 1
    assert by_name["readings"].moved["n_tup_ins"] == 1
    assert by_name["orders_new"].bytes == by_name["orders_new"].pages * 8192
    assert by_name["orders_new"].bytes_before == by_name["orders_new"].bytes
    assert by_name["customers_pkey"].table == "customers"
    assert twin.activity.commits is not None
    assert twin.activity.sessions >= 1


def test_a_file_is_small_and_read_as_it_was_written(twin: Twin, tmp_path: Path) -> None:
    content = twin_bytes(twin)
    assert len(content) < 100_000
    assert parse_twin(content, tmp_path) == twin


def test_a_role_without_rights_is_told_what_it_did_not_see(shop: Cluster) -> None:
    twin = captured(shop, BLIND, for_s=0.5)
    words = " ".join(twin.not_seen)
    assert "hidden from this role" in words
    assert "pg_read_all_stats" in words
    assert "pg_read_all_data" in words
    assert twin.schema.tables
    assert not [x for x in twin.statistics if x.schema == "shop"]


def test_statistics_that_are_reset_in_the_window_are_said(shop: Cluster) -> None:
    is_reset = False

    def listen(progress: CaptureProgress) -> None:
        nonlocal is_reset
        if progress.step == WATCHING and not is_reset:
            is_reset = True
            with shop.connect() as connection:
                connection.execute("SELECT public.pg_stat_statements_reset()")
            with as_client(shop) as client:
                client.execute("SELECT count(*) FROM places")

    capture = TwinCapture(reach(dsn(shop, WATCHER), is_for_driver=False))
    twin = capture.run(0.6, listen)
    assert twin.workload.was_reset
    (places,) = [x for x in twin.workload.statements if "FROM places" in x.text]
    assert places.calls == 1


@newest
def test_nothing_stays_on_the_server_after_kill_9(shop: Cluster, tmp_path: Path) -> None:
    # Of the catalogs alone: a size or a number of rows may change by itself.
    objects = "SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_db_role_setting), (SELECT count(*) FROM pg_proc)"
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'watcher'"
    with shop.connect() as connection:
        before = connection.execute(objects).fetchall()
        process = start("capture", "twin", dsn(shop, WATCHER), "-o", tmp_path / "x.twin", "--for", "10min")  # fmt: skip
        heard(process, "left")
        assert connection.execute(sessions).fetchall() == [(1,)]
        process.kill()
        process.wait()
        assert wait_until(lambda: connection.execute(sessions).fetchall() == [(0,)], 20)
        assert connection.execute(objects).fetchall() == before
    assert list(tmp_path.iterdir()) == []


@newest
def test_a_reading_of_the_statements_that_fails_is_skipped_and_noted(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = StatementAccount.read

    def slow(self: StatementAccount, observer: Observer, *, is_last: bool = False) -> None:
        if not is_last:
            raise Unseen("canceling statement due to statement timeout")
        read(self, observer, is_last=True)

    monkeypatch.setattr(StatementAccount, "read", slow)
    monkeypatch.setattr("pgdrag.capture.twin.STATEMENTS_EVERY_S", -1.0)
    twin = captured(shop)
    assert [x for x in twin.not_seen if "skipped" in x] == [
        "Readings of pg_stat_statements were skipped: canceling statement due to statement timeout."
    ]
    assert statement(twin, "JOIN customers")


@newest
def test_ctrl_c_ends_the_window_and_keeps_what_was_seen(shop: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "x.twin"
    process = start("capture", "twin", dsn(shop, WATCHER), "-o", file, "--for", "10min")
    heard(process, "left")
    process.send_signal(signal.SIGINT)
    status, _, err = outcome(process)
    assert status == 130
    assert "ended early" in err
    assert 0 < read_twin(file).workload.window_s < 300


@newest
def test_the_commands_write_show_and_search_a_twin(shop: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "shop.twin"
    status, out, err = pgdrag("capture", "twin", dsn(shop, WATCHER), "-o", file, "--for", "1s")
    assert (status, out) == (0, "")
    assert "Written to" in err
    assert file.stat().st_mode & 0o777 == 0o600
    status, out, _ = pgdrag("twin", "show", file, "--all")
    assert status == 0
    assert "CREATE TABLE" in out
    status, out, _ = pgdrag("twin", "show", file, "--json")
    assert json.loads(out)["pgdrag_twin"] == 3
    status, out, _ = pgdrag("twin", "show", file, "--scan", dsn(shop, WATCHER), "--rows", "50")
    assert (status, "none found" in out) == (0, True), out
