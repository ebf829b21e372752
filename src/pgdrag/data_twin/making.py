"""How does an empty database become one like the original? Schema, rows, indexes and constraints, statistics."""

from __future__ import annotations

from typing import LiteralString

import psycopg

from pgdrag.data_twin import Step
from pgdrag.data_twin.schema import restore_after_rows, restore_before_rows
from pgdrag.twins.model import Twin

_MOST_S = 3 * 3600.0
_MOST_STATEMENT_S = 3600.0
_NOTES: tuple[LiteralString, ...] = (
    "CREATE SCHEMA IF NOT EXISTS pgdrag_twin",
    "CREATE TABLE IF NOT EXISTS pgdrag_twin.note (id int GENERATED ALWAYS AS IDENTITY, note text NOT NULL)",
)


def restore_rows(
    connection: psycopg.Connection, twin: Twin, *, scale: float, seed: int, step: Step
) -> tuple[str, ...]:
    """Make a twin's schema and rows in an empty database.

    Args:
        connection: of a role that owns this database and may do nothing beyond it; each statement is committed.
        scale: of tables that grow, see `sizes.py`; in (0, 1].
        seed: the same seed gives the same rows.
        step: is told how far it is.

    Returns:
        A clause on each thing that is not as in the original; they are kept in the database, too.

    Raises:
        psycopg.OperationalError: the server is gone.
    """
    notes = [*restore_before_rows(connection, twin)]
    statements = 0

    def begin(_: object) -> None:
        nonlocal statements
        statements += 1
        step("indexes", statements, max(statements, len(twin.schema.indexes)))

    notes += restore_after_rows(
        connection, twin, most_s=_MOST_S, most_statement_s=_MOST_STATEMENT_S, begin=begin
    )
    connection.execute("RESET ALL")
    connection.execute("VACUUM ANALYZE")
    keep_notes(connection, notes)
    return tuple(notes)


def keep_notes(connection: psycopg.Connection, notes: list[str]) -> None:
    """Keep clauses on what is not as in the original in the database."""
    for sql in _NOTES:
        connection.execute(sql)
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO pgdrag_twin.note (note) VALUES (%s)", [(x,) for x in notes])
