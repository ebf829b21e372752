"""How is a twin's schema made in an empty database, before its rows and after?

Statements that fail are tried again after the others, as long as that makes any succeed: one object may need another
that comes later. What cannot be made is told, and what needs it fails later, by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg

from pgdrag.data_twin import clock
from pgdrag.twins.ddl import SchemaStatement, after_rows, before_rows, extension_statements
from pgdrag.twins.mending import with_calls_of_now
from pgdrag.twins.model import Twin

# What the capture reads: only a superuser makes it, and no table needs it.
_OF_CAPTURE = 'extension "pg_stat_statements"'
# Before each statement: one of a stranger's may have set them otherwise.
_SESSION: LiteralString = """
SELECT pg_catalog.set_config(name, value, false)
  FROM (VALUES ('check_function_bodies', 'off'), ('client_min_messages', 'error'), ('search_path', %s),
               ('statement_timeout', %s)) AS wanted (name, value)
"""
MOST_S = 600.0  # for a whole schema without rows
MOST_STATEMENT_S = 30.0


def restore_schema(
    connection: psycopg.Connection, twin: Twin, *, most_s: float = MOST_S
) -> Iterator[str]:
    """Make all objects of a database without rows, and yield a clause on each that cannot be made.

    Args:
        connection: of a role that may make schemas in this database, and nothing else; it commits each statement.
        most_s: how long all of it may take.

    Raises:
        psycopg.OperationalError: the server is gone.
    """
    end_s = time.monotonic() + most_s
    yield from restore_before_rows(connection, twin, most_s=most_s)
    yield from restore_after_rows(connection, twin, most_s=max(end_s - time.monotonic(), 0))


def restore_before_rows(
    connection: psycopg.Connection, twin: Twin, *, most_s: float = MOST_S
) -> Iterator[str]:
    """Make what rows need: extensions, types, functions, tables; see `restore_schema`."""
    limits = _Limits(time.monotonic() + most_s, MOST_STATEMENT_S)
    limits.apply(connection)
    clock.stop_clock(connection, twin.now)
    for name in {one.schema for one in twin.source.extensions} - {"pg_catalog", "public"}:
        connection.execute(
            psycopg.sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(psycopg.sql.Identifier(name))
        )
    extensions = [x for x in extension_statements(twin.source) if x.makes != _OF_CAPTURE]
    yield from _run(connection, extensions, limits)
    yield from _run(connection, [*before_rows(twin.schema)], limits)


def restore_after_rows(
    connection: psycopg.Connection,
    twin: Twin,
    *,
    most_s: float = MOST_S,
    most_statement_s: float = MOST_STATEMENT_S,
    begin: Callable[[SchemaStatement], None] = lambda _: None,
) -> Iterator[str]:
    """Make what is made when rows are there: indexes, constraints, views; see `restore_schema`.

    Args:
        most_statement_s: how long each statement may take.
        begin: is told of each statement before it is tried.
    """
    limits = _Limits(time.monotonic() + most_s, most_statement_s)
    yield from _run(connection, [*after_rows(twin.schema)], limits, begin)


@dataclass(frozen=True)
class _Limits:
    """When all must be made, and how long a statement may take, in seconds."""

    end_s: float
    statement_s: float

    def apply(self, connection: psycopg.Connection) -> None:
        # One that a statement deallocates would be missed.
        connection.prepare_threshold = None
        connection.execute("RESET ALL")
        connection.execute(_SESSION, (clock.PATH, f"{self.statement_s:.0f}s"))


def _run(
    connection: psycopg.Connection,
    statements: Sequence[SchemaStatement],
    limits: _Limits,
    begin: Callable[[SchemaStatement], None] = lambda _: None,
) -> Iterator[str]:
    left, why = list(statements), dict[str, str]()
    while left:
        failed = []
        for one in left:
            begin(one)
            if not _succeeds(connection, one, why, limits):
                failed.append(one)
        if len(failed) == len(left):
            break
        left = failed
    for one in left:
        yield f"{one.makes}: {why[one.makes]}"


def _succeeds(
    connection: psycopg.Connection, one: SchemaStatement, why: dict[str, str], limits: _Limits
) -> bool:
    if time.monotonic() > limits.end_s:
        why.setdefault(one.makes, "the schema takes too long to make")
        return False
    try:
        limits.apply(connection)
        # The extended protocol refuses a text of several statements.
        connection.execute(with_calls_of_now(one.sql).encode(), binary=True)
    except psycopg.Error as error:
        if connection.closed:
            raise
        why[one.makes] = error.diag.message_primary or type(error).__name__
        return False
    return True
