"""How is a twin's schema made in an empty database?

Statements that fail are tried again after the others, as long as that makes any succeed: one object may need another
that comes later. What cannot be made is told, and what needs it fails later, by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import LiteralString

import psycopg

from pgdrag.twins.ddl import SchemaStatement, after_rows, before_rows, extension_statements
from pgdrag.twins.model import Twin

# What the capture reads: only a superuser makes it, and no table needs it.
_OF_CAPTURE = 'extension "pg_stat_statements"'
# Before each statement: one of a stranger's may have set them otherwise.
_SESSION: LiteralString = """
SELECT pg_catalog.set_config(name, value, false)
  FROM (VALUES ('check_function_bodies', 'off'), ('client_min_messages', 'error'), ('search_path', 'pg_catalog'),
               ('statement_timeout', '30s')) AS wanted (name, value)
"""
MOST_S = 600.0  # for the whole schema


def restore_schema(
    connection: psycopg.Connection, twin: Twin, *, most_s: float = MOST_S
) -> Iterator[str]:
    """Make all objects, and yield a clause on each that cannot be made.

    Args:
        connection: of a role that may make schemas in this database, and nothing else; it commits each statement.
        most_s: how long all of it may take.

    Raises:
        psycopg.OperationalError: the server is gone.
    """
    end_s = time.monotonic() + most_s
    # One that a statement deallocates would be missed.
    connection.prepare_threshold = None
    connection.execute(_SESSION)
    for name in {one.schema for one in twin.source.extensions} - {"pg_catalog", "public"}:
        connection.execute(
            psycopg.sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(psycopg.sql.Identifier(name))
        )
    for statements in (
        [x for x in extension_statements(twin.source) if x.makes != _OF_CAPTURE],
        [*before_rows(twin.schema)],
        [*after_rows(twin.schema)],
    ):
        yield from _run(connection, statements, end_s)


def _run(
    connection: psycopg.Connection, statements: Sequence[SchemaStatement], end_s: float
) -> Iterator[str]:
    left, why = list(statements), dict[str, str]()
    while left:
        failed = [one for one in left if not _succeeds(connection, one, why, end_s)]
        if len(failed) == len(left):
            break
        left = failed
    for one in left:
        yield f"{one.makes}: {why[one.makes]}"


def _succeeds(
    connection: psycopg.Connection, one: SchemaStatement, why: dict[str, str], end_s: float
) -> bool:
    if time.monotonic() > end_s:
        why.setdefault(one.makes, "the schema takes too long to make")
        return False
    try:
        connection.execute("RESET ALL")
        connection.execute(_SESSION)
        # The extended protocol refuses a text of several statements.
        connection.execute(one.sql.encode(), binary=True)
    except psycopg.Error as error:
        if connection.closed:
            raise
        why[one.makes] = error.diag.message_primary or type(error).__name__
        return False
    return True
