"""What can a stranger's twin make of the server that it is restored into? Nothing that takes for ever, and no traceback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from test_twin_file import TWIN

from pgdrag.data_twin.schema import restore_schema
from pgdrag.planning.extended_statistics import restore_extended
from pgdrag.twins.model import Column, ExtendedStatistics, Schema, Table, TypeObject


class FakeConnection:
    """Notes what is sent; each query has the same rows."""

    closed = False
    prepare_threshold: int | None = 5
    info = SimpleNamespace(server_version=180006)

    def __init__(self, rows: Sequence[Any] = ()) -> None:
        self.rows = rows
        self.sent: list[str] = []

    def execute(self, query: Any, *_: Any, **__: Any) -> Sequence[Any]:
        self.sent.append(query.decode() if isinstance(query, bytes) else str(query))
        return self.rows


def connection(fake: FakeConnection) -> psycopg.Connection:
    return cast("psycopg.Connection", fake)


EVIL = replace(
    TWIN,
    schema=Schema(
        types=tuple(
            TypeObject("s", str(at), "enum", text)
            for at, text in enumerate(("SET statement_timeout = 0", "DO 'an endless loop'"))
        )
    ),
)


def test_limits_are_set_again_before_each_statement() -> None:
    fake = FakeConnection()
    assert list(restore_schema(connection(fake), EVIL)) == []
    at = fake.sent.index("DO 'an endless loop'")
    assert fake.sent[at - 2] == "RESET ALL"
    assert "statement_timeout" in fake.sent[at - 1]
    assert fake.prepare_threshold is None


def test_the_whole_schema_has_a_limit_of_time() -> None:
    fake = FakeConnection()
    notes = list(restore_schema(connection(fake), EVIL, most_s=-1))
    assert len(notes) == 2
    assert all("takes too long" in x for x in notes)
    assert "DO 'an endless loop'" not in fake.sent


@pytest.mark.parametrize(
    "text",
    ["[]", "x", '{"1, 2": "many"}', '{"1, 2": 1' + 400 * '0' + '}', '{"1, 99": 1}', '{"1, -99999": 1}', '{"": 1}'],
)  # fmt: skip
def test_extended_statistics_that_no_server_wrote_are_told_and_left_out(text: str) -> None:
    table = Table("s", "t", (Column("a", 1, "int"), Column("b", 2, "int")))
    one = ExtendedStatistics("s", "x", "s", "t", "", ("a", "b"), n_distinct=text)
    twin = replace(TWIN, schema=Schema(("s",), tables=(table,), statistics=(one,)))
    fake = FakeConnection([("s", "x", 1, {"a": 1, "b": 2})])
    assert list(restore_extended(connection(fake), twin)) == [
        "extended statistics s.x: they are written in an unknown way"
    ]
