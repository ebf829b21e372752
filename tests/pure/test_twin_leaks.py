"""Does the scan find a value of the original wherever it is planted, and nothing where there is none?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_twin_file import TRANSACTIONS, TWIN

from pgdrag.twins import Twin
from pgdrag.twins.leaks import scan
from pgdrag.twins.model import (
    Activity,
    ColumnStatistics,
    Function,
    Index,
    Kept,
    Statement,
    TypeObject,
    Workload,
)
from pgdrag.twins.transactions import LoggedStatement, Parameter, ParameterLink

VALUES = ("Alice Miller", "a@example.org", "2026-03-04", "2026-03-04 05:06:07.89+00", "123456", "-77.25", "open", "GC", "42", "channel")  # fmt: skip
COLUMN = ColumnStatistics("shop", "orders", "name", 2, False, "text", 0.0, 12, -1.0)


def statement(text: str) -> Statement:
    return Statement(1, text, True, "role1", True, 1, 1, 0.1, 0, None, *[0.1] * 4, *[0] * 13)


def with_statistics(*values: str) -> Twin:
    return replace(TWIN, statistics=(replace(COLUMN, histogram=values),))


def with_link(*differences: float) -> Twin:
    link = ParameterLink(1, 2, "transaction", 1, 1, 1.0, differences=differences)
    (shape,) = TRANSACTIONS.shapes
    return replace(
        TWIN, transactions=replace(TRANSACTIONS, shapes=(replace(shape, links=(link,)),))
    )


def with_common(token: str) -> Twin:
    parameter = Parameter(1, "text", 9, 0.0, 3, (1.0, 1.0, 1.0), 0.0, common=((token, 0.5),))
    one = LoggedStatement(1, 9, (parameter,))
    return replace(TWIN, transactions=replace(TRANSACTIONS, statements=(one,)))


def with_index(definition: str) -> Twin:
    index = Index("shop", "by_kind", "orders", definition, "btree")
    return replace(TWIN, schema=replace(TWIN.schema, indexes=(index,)))


@pytest.mark.parametrize(
    ("twin", "value"),
    [
        (with_statistics("bdfg", "Alice Miller"), "Alice Miller"),
        (with_statistics('{"x": "Alice Miller"}'), "Alice Miller"),
        (with_statistics("2026-03-04"), "2026-03-04"),
        (with_statistics("2026-03-04 05:06:07.89"), "2026-03-04 05:06:07.89+00"),
        (with_statistics("123456"), "123456"),
        (with_statistics("-77.250"), "-77.25"),
        (with_statistics('{"x": [123456]}'), "123456"),
        (replace(TWIN, statistics=(replace(COLUMN, range_bounds=('["2026-03-04 05:06:07.89+00",)',)),)), "2026-03-04 05:06:07.89+00"),
        (replace(TWIN, statistics=(replace(COLUMN, range_bounds=("[5,123456)",)),)), "123456"),
        (replace(TWIN, statistics=(replace(COLUMN, range_lengths=("123456",)),)), "123456"),
        (with_index("CREATE INDEX by_kind ON shop.orders (id) WHERE kind = 'open'"), "open"),
        (with_index("CREATE INDEX by_kind ON shop.orders (id) WHERE id > 123456"), "123456"),
        (replace(TWIN, workload=Workload(1.0, (statement("SELECT 1 WHERE a = 'a@example.org'"),))), "a@example.org"),
        (replace(TWIN, schema=replace(TWIN.schema, types=(TypeObject("s", "t", "enum", "", ("open",)),))), "open"),
        (replace(TWIN, schema=replace(TWIN.schema, functions=(Function("s", "f", "f()", "sql", "CREATE FUNCTION f() AS $$ SELECT 'Alice Miller' $$"),))), "Alice Miller"),
        (with_link(1.0, 123456.0), "123456"),
        (with_common("Alice Miller"), "Alice Miller"),
    ],
)  # fmt: skip
def test_a_planted_value_is_found(twin: Twin, value: str) -> None:
    assert [x.value for x in scan(twin, VALUES).leaks] == [value]


@pytest.mark.parametrize(
    "twin",
    [
        TWIN,
        with_statistics("bdfg", "42", "GC", "1999-12-24 05:06:07", "1234567", "77.25"),
        with_index("CREATE INDEX by_kind ON shop.open (id)"),
        with_index("CREATE INDEX by_kind ON shop.orders (id) WHERE kind = 'e1'"),
        with_link(42.0, 123456.7),
        replace(TWIN, transactions=replace(TRANSACTIONS, window_s=123456.0, messages=123456)),
        replace(TWIN, activity=Activity(counters={"xact_commit": 123456})),
        replace(TWIN, workload=Workload(1.0, (statement("SELECT a::varchar(123456) FROM t"),))),
    ],
)  # fmt: skip
def test_nothing_is_found_where_there_is_none(twin: Twin) -> None:
    assert scan(twin, VALUES).leaks == ()


def test_names_and_kept_constants_are_told_apart() -> None:
    named = scan(with_index("CREATE INDEX by_kind ON shop.open (id)"), VALUES)
    assert [(x.value, x.kind) for x in named.excused] == [("open", "name")]
    kept = replace(
        with_index("CREATE INDEX by_kind ON shop.orders ((doc ->> 'channel'))"),
        kept=(Kept('index "by_kind"', "channel", "a key of JSON documents"),),
    )
    found = scan(kept, VALUES)
    assert found.leaks == ()
    assert [(x.value, x.kind) for x in found.excused] == [("channel", "kept")]


def test_values_that_tell_nothing_are_not_counted() -> None:
    assert scan(TWIN, VALUES).searched == len(VALUES) - 2
