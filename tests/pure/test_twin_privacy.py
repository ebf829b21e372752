"""What is left of the constants of a schema, where a value could stay or an odd one could end the capture?"""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime

import pytest

from pgdrag.capture.classes import ValueClasses
from pgdrag.capture.privacy import Privacy
from pgdrag.capture.schema import FoundColumn, FoundSchema, FoundType
from pgdrag.twins.model import Column, Constraint, Function, Index, Schema, Table

TYPES = {
    at: FoundType("pg_catalog", name, "b", 0, 0, -1, ())
    for at, name in enumerate(("text", "inet", "bool", "jsonb", "numeric", "timestamptz", "char"))
}
COLUMNS = {"note": 0, "client": 1, "is_paid": 2, "doc": 3, "total": 4, "placed": 5, "kind": 6}


def privacy_of(schema: Schema, functions: tuple[Function, ...] = ()) -> tuple[Privacy, Schema]:
    """Return a schema without its constants, after all of its values were taken."""
    table = Table("shop", "orders", tuple(Column(x, at, "") for at, x in enumerate(COLUMNS, 1)))
    schema = Schema(("shop",), tables=(table,), constraints=schema.constraints, indexes=schema.indexes)  # fmt: skip
    columns = tuple(
        FoundColumn("shop", "orders", name, at, type_, -1, TYPES[type_].name, "")
        for at, (name, type_) in enumerate(COLUMNS.items(), 1)
    )
    found = FoundSchema(schema, TYPES, columns, {}, tuple((x, "") for x in functions), ())
    now = datetime(2026, 11, 25, tzinfo=UTC)
    classes = ValueClasses(
        found, rng=random.Random(1), now=now, sort=lambda values, _: sorted(values)
    )
    privacy = Privacy(found, classes)
    privacy.gather((), {})
    return privacy, privacy.schema(schema, functions)


def check(text: str) -> tuple[Privacy, str]:
    constraint = Constraint("shop", "orders", "c", "c", text, ())
    privacy, schema = privacy_of(Schema((), constraints=(constraint,)))
    return privacy, schema.constraints[0].definition


def function(language: str, body: str, arguments: str = "") -> tuple[Privacy, str]:
    definition = (
        f"CREATE OR REPLACE FUNCTION shop.f({arguments})\n RETURNS text\n LANGUAGE {language}\n"
        f" COST 5000\nAS $function${body}$function$\n"
    )
    one = Function("shop", "f", "shop.f()", language, definition)
    privacy, schema = privacy_of(Schema(()), (one,))
    return privacy, schema.functions[0].definition


def index(definition: str) -> str:
    one = Index("shop", "i", "orders", definition, "gist")
    _, schema = privacy_of(Schema((), indexes=(one,)))
    return schema.indexes[0].definition


@pytest.mark.parametrize("language", ["plpython3u", "plperl", "plv8", "pltcl"])
def test_a_body_that_is_not_sql_is_emptied(language: str) -> None:
    privacy, found = function(language, '# of Alice\nreturn "secret"')
    assert found.endswith("AS $function$$function$\n")
    assert privacy.left_out == [
        f"The body of function shop.f() is left out: it is written in {language}."
    ]


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("RAISE NOTICE 'Update refused for Anna Meier';", "RAISE NOTICE 'xxxxxx xxxxxxx xxx xxxx xxxxx';"),
        ("x := 'Delete Anna Meier now';", "x := 'xxxxxx xxxx xxxxx xxx';"),
        ("EXECUTE $q$UPDATE t /* of Anna */ SET a = 'Meier'$q$;", "EXECUTE 'UPDATE t  SET a = ''xxxxx''';"),
        ("EXECUTE format('UPDATE t SET a = %L -- Anna', b);", "EXECUTE format('UPDATE t SET a = %L \n', b);"),
    ],
)  # fmt: skip
def test_only_statements_that_are_executed_keep_their_words(body: str, left: str) -> None:
    _, found = function("plpgsql", f"BEGIN {body} END")
    assert f"$function$BEGIN {left} END$function$" in found


def test_numbers_among_the_defaults_of_arguments_are_listed_as_kept() -> None:
    privacy, found = function("sql", "SELECT 'x'", "a integer DEFAULT 4711")
    assert "DEFAULT 4711" in found
    assert [(x.constant, x.why) for x in privacy.kept] == [("4711", "a number in an expression")]


@pytest.mark.parametrize(
    "definition",
    [
        "CREATE INDEX i ON shop.orders USING btree (total) WITH (fillfactor='70', deduplicate_items=off)",
        "CREATE INDEX i ON shop.orders USING gist (note gist_trgm_ops (siglen='128')) WITH (buffering='on')",
        "CREATE INDEX i ON shop.orders USING brin (total numeric_minmax_multi_ops (values_per_range='16'))",
    ],
)
def test_storage_parameters_of_an_index_stay(definition: str) -> None:
    assert index(definition) == definition


def test_other_constants_of_such_an_index_do_not_stay() -> None:
    found = index("CREATE INDEX i ON shop.orders (f(note, 'Meier')) WITH (fillfactor='70') WHERE (note = 'Anna'::text)")  # fmt: skip
    assert "fillfactor='70'" in found
    assert "Meier" not in found
    assert "Anna" not in found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CHECK (COALESCE(client, 'unknown') IS NOT NULL)", "unknown"),
        ("CHECK ((COALESCE((client)::text, 'unknown'::text) <> ''::text))", "unknown"),
        ("CHECK ((is_paid)::text <> 'Anna Meier'::text)", "Anna Meier"),
        ("CHECK ((kind)::text <> 'Anna Meier'::text)", "Anna Meier"),
        ("CHECK ((note <> ('anna'::regrole)::text))", "anna"),
        ("CHECK ((doc @? '$.mail ? (@ == \"anna@x.com\")'::jsonpath))", "anna"),
        ("CHECK (jsonb_path_exists(doc, '$.size ? (@ > 4711)'::jsonpath))", "4711"),
        ("CHECK (jsonb_path_exists(doc, '$.size ? (@ > $x)'::jsonpath, '{\"x\": 4711}'::jsonb))", "4711"),
        ("CHECK ((total < 12345678901234567890123456789012345678901))", "12345678901234567890123456789012345678901"),
        ("CHECK ((placed > '0001-01-01T00:00:00+01:00'::timestamptz))", "0001-01-01T00:00:00+01:00"),
    ],
)  # fmt: skip
def test_a_constant_that_fits_nothing_is_masked_and_ends_nothing(text: str, value: str) -> None:
    privacy, found = check(text)
    assert value not in found
    assert not any(value in x.constant for x in privacy.kept)


def test_bounds_of_a_range_in_a_check_are_tokens_of_the_column() -> None:
    _, found = check("CHECK ((placed <@ '[\"2021-04-05 06:07:08+00\",)'::tstzrange))")
    assert "2021" not in found
    assert re.search(r"'\[\"1994-[^\"]+\+00\",\)'::tstzrange", found)


def test_values_that_are_their_own_tokens_stay() -> None:
    for text in ("CHECK ((is_paid = 'true'::boolean))", "CHECK ((kind = 'x'::\"char\"))"):
        assert check(text)[1] == text


def test_an_odd_value_costs_its_own_column_and_not_the_capture() -> None:
    columns = {"note": 0, "client": 1}
    found = FoundSchema(
        Schema(()),
        TYPES,
        tuple(FoundColumn("s", "t", name, at, at, -1, "", "") for name, at in columns.items()),
        {},
        (),
        (),
    )
    classes = ValueClasses(
        found, rng=random.Random(1), now=datetime.now(UTC), sort=lambda values, _: sorted(values)
    )
    classes.take(("s", "t", "client"), "no address")
    classes.take(("s", "t", "note"), "Anna Meier")
    classes.make_tokens(())
    assert classes.token(("s", "t", "client"), "no address") is None
    assert classes.token(("s", "t", "note"), "Anna Meier")
