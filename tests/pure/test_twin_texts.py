"""Which constants does an SQL text have, whose are they, and is a statement without them still one?"""

from __future__ import annotations

import pytest

from pgdrag.twins import constants as sql
from pgdrag.twins.masking import (
    is_plannable,
    is_word_of_the_server,
    masked,
    masked_path,
    masked_statement,
    without_comments,
)


@pytest.mark.parametrize(
    ("text", "value", "column"),
    [
        ("(status)::text = 'open'::text", "open", ("status",)),
        ("((kind)::text = ANY ((ARRAY['open'::character varying])::text[]))", "open", ("kind",)),
        ("(total > (100)::numeric)", "100", ("total",)),
        ("total < '-5.00'::numeric", "-5.00", ("total",)),
        ("o.kind NOT IN ('open')", "open", ("o", "kind")),
        ("a IS DISTINCT FROM 500", "500", ("a",)),
        ("created >= '2024-01-01 00:00:00'::timestamp without time zone", "2024-01-01 00:00:00", ("created",)),
        ("COALESCE(kind, 'open'::text)", "open", ("kind",)),
        ("doc @> '{\"a\": 1}'::jsonb", '{"a": 1}', ("doc",)),
        ("name LIKE 'A%'", "A%", ("name",)),
        ("\"Some Name\" = E'it''s \\t'", "it's \t", ("Some Name",)),
        ("(quantity - 10) > x", "10", None),
        ("date_trunc('day'::text, at)", "day", None),
        ("doc ->> 'key'", "key", None),
        ("nextval('shop.s'::regclass)", "shop.s", None),
    ],
)  # fmt: skip
def test_a_constant_belongs_to_the_column_that_it_is_compared_with(
    text: str, value: str, column: tuple[str, ...] | None
) -> None:
    (found,) = sql.constants(text)
    assert (found.value, found.column) == (value, column)


def test_casts_operators_and_calls_are_told() -> None:
    cast, key, call = sql.constants("'x'::shop.status, doc ->> 'k', f(1, 'y')")[:2] + sql.constants("f(a, 'y')")  # fmt: skip
    assert (cast.cast, key.operator, call.function, call.argument) == ("shop.status", "->>", "f", 1)


def test_columns_that_a_statement_compares_are_found() -> None:
    text = (
        "SELECT * FROM shop.orders o JOIN items AS i ON i.order_id = o.id LEFT JOIN z USING (k, l) "
        "WHERE o.a IN (SELECT b FROM c) AND o.x = $1 AND lower(o.y) = lower(i.y)"
    )
    assert list(sql.comparisons(text))[:2] == [
        (("i", "order_id"), ("o", "id")),
        (("o", "a"), ("b",)),
    ]
    assert sql.sources(text) == {
        "o": ("shop", "orders"),
        "i": ("items",),
        "z": ("z",),
        "c": ("c",),
    }
    assert list(sql.joined_by_name(text)) == ["k", "l"]


def test_sources_of_changes_are_found() -> None:
    assert sql.sources("UPDATE only a AS x SET b = 1 FROM c, d e") == {"x": ("a",), "c": ("c",), "e": ("d",)}  # fmt: skip
    assert sql.sources("INSERT INTO a.b (c) VALUES ($1)") == {"b": ("a", "b")}


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SELECT 1 FROM t WHERE a = $1 ORDER BY 2", "SELECT 1 FROM t WHERE a = $1 ORDER BY 2"),
        ("SELECT a::numeric(12,2), b::varchar(200) FROM t", "SELECT a::numeric(12,2), b::varchar(200) FROM t"),
        ("SELECT /* ticket 4711 */ a -- of Alice\nFROM t", "SELECT a FROM t"),
        ("SELECT 'Alice', 12345 FROM t", "SELECT 'xxxxx', 0 FROM t"),
        ("SELECT a FROM t WHERE b IN ($1 /*, ... */)", "SELECT a FROM t WHERE b IN ($1 /*, ... */)"),
        ("COPY t FROM '/home/alice/x' (DELIMITER ';')", "COPY t FROM ? (DELIMITER ?)"),
        ("SET ROLE alice", "SET ROLE …"),
        ("GRANT ALL ON t TO alice", "GRANT ALL …"),
        ("GRANT ALICE TO bob", "GRANT …"),
        ("CREATE ROLE alice PASSWORD 'x'", "CREATE ROLE …"),
        ("begin", "begin"),
        ("VACUUM (ANALYZE) shop.orders", "VACUUM (ANALYZE) shop.orders"),
    ],
)  # fmt: skip
def test_a_statement_is_shown_without_its_constants(statement: str, shown: str) -> None:
    assert masked_statement(statement) == shown


def test_what_has_a_plan_is_told_from_what_has_none() -> None:
    assert is_plannable("/* x */ (SELECT 1)")
    assert is_plannable("with a as (select 1) table a")
    assert not is_plannable("COPY t TO STDOUT")
    assert not is_plannable("")


def test_masked_texts_keep_their_shape() -> None:
    assert masked("Order no. 12: %s") == "xxxxx xx. 00: %x"


def test_words_of_the_server_are_known_where_they_are_used() -> None:
    assert is_word_of_the_server("day", "date_trunc")
    assert is_word_of_the_server("YYYY-MM-DD", "to_char")
    assert is_word_of_the_server("english", "to_tsvector")
    assert not is_word_of_the_server("Alice", "to_char")
    assert not is_word_of_the_server("english", "lower")


PATHS = {
    '$.mail ? (@ == "anna@x.com")': '$.mail ? (@ == "xxxx@x.xxx")',
    '$."full name"[0 to 3] ? (@.size > 4711)': '$."full name"[0 to 3] ? (@.size > 0)',
    '$ ? (@ like_regex "^A\\d" flag "i")': '$ ? (@ like_regex "^xx" flag "i")',
}


@pytest.mark.parametrize(("path", "shown"), PATHS.items())
def test_a_path_keeps_its_keys_and_loses_what_it_compares_with(path: str, shown: str) -> None:
    assert masked_path(path) == shown


EXECUTED = {
    "EXECUTE 'UPDATE t SET a = 1'": True,
    "RETURN QUERY EXECUTE ('SELECT 1 FROM t')": True,
    "EXECUTE format('UPDATE t SET a = %L', x)": True,
    "EXECUTE pg_catalog.format('UPDATE t SET a = %L', x)": True,
    "RAISE NOTICE 'Update refused for Anna Meier'": False,
    "x := format('Update refused for %', y)": False,
    "CREATE TRIGGER a EXECUTE FUNCTION f('Update refused')": False,
}


@pytest.mark.parametrize(("text", "is_executed"), EXECUTED.items())
def test_only_what_execute_runs_is_read_as_a_statement(text: str, is_executed: bool) -> None:
    assert [x.is_executed for x in sql.constants(text) if not x.is_number] == [is_executed]


def test_arguments_end_behind_the_outer_parenthesis() -> None:
    head = "CREATE FUNCTION f(a text DEFAULT ')', b int DEFAULT (1 + 2))"
    assert sql.arguments_end(f"{head}\n RETURNS text COST 100") == len(head)


def test_comments_go_and_lines_stay() -> None:
    assert without_comments("a -- x\nb /* y */ c '-- z'") == "a \n\nb  c '-- z'"
