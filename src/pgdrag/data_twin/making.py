"""How does an empty database become one like the original? Schema, rows, indexes and constraints, statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

import psycopg
from psycopg import sql

from pgdrag.data_twin import Step
from pgdrag.data_twin.columns import read_columns
from pgdrag.data_twin.filling import Fill
from pgdrag.data_twin.index_sizes import fit_indexes
from pgdrag.data_twin.late_rows import LateRows
from pgdrag.data_twin.rows import TwinRows
from pgdrag.data_twin.schema import restore_after_rows, restore_before_rows
from pgdrag.data_twin.sizes import table_blocks
from pgdrag.data_twin.unvacuumed import leave_unvacuumed, unseen
from pgdrag.twins.model import Twin

_MOST_S = 3 * 3600.0
_MOST_STATEMENT_S = 3600.0
# Values are written as ISO 8601 and by the session's time zone.
_SESSION: LiteralString = """
SELECT pg_catalog.set_config(name, value, false)
  FROM (VALUES ('search_path', 'pg_catalog'), ('client_min_messages', 'error'), ('statement_timeout', '1h'),
               ('TimeZone', 'UTC'), ('DateStyle', 'ISO, YMD')) AS wanted (name, value)
"""
_NOTES: tuple[LiteralString, ...] = (
    "CREATE SCHEMA IF NOT EXISTS pgdrag_twin",
    "CREATE TABLE IF NOT EXISTS pgdrag_twin.note (id int GENERATED ALWAYS AS IDENTITY, note text NOT NULL)",
)
# Those that a column owns (serial, identity), and those that its default takes the next value of.
_SEQUENCES: LiteralString = """
SELECT DISTINCT of.nspname::text, s.relname::text, n.nspname::text, c.relname::text, attname::text, seqincrement > 0
  FROM (SELECT objid AS sequence, refobjid AS relation, refobjsubid AS number
          FROM pg_catalog.pg_depend
         WHERE classid = 'pg_catalog.pg_class'::regclass AND refclassid = 'pg_catalog.pg_class'::regclass AND refobjsubid > 0
         UNION ALL
        SELECT refobjid, adrelid, adnum
          FROM pg_catalog.pg_depend JOIN pg_catalog.pg_attrdef AS d ON d.oid = objid
         WHERE classid = 'pg_catalog.pg_attrdef'::regclass AND refclassid = 'pg_catalog.pg_class'::regclass) AS found
  JOIN pg_catalog.pg_class AS s ON s.oid = sequence AND s.relkind = 'S'
  JOIN pg_catalog.pg_namespace AS of ON of.oid = s.relnamespace
  JOIN pg_catalog.pg_sequence ON seqrelid = s.oid
  JOIN pg_catalog.pg_class AS c ON c.oid = relation
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute ON attrelid = c.oid AND attnum = number
"""


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
    late: list[LateRows] = []
    notes += _fill(connection, twin, scale=scale, seed=seed, step=step, late=late)
    notes += _restore_after(connection, twin, step)
    _session(connection)
    for statement in _behind_rows(connection):
        connection.execute(statement)
    step("vacuum", 1, 1)
    for some in late:
        some.take_out()
    connection.execute("VACUUM ANALYZE")
    for some in late:
        notes += some.put_back()
    notes += fit_indexes(connection, twin, scale=scale, step=step)
    leave_unvacuumed(connection, twin)
    keep_notes(connection, notes)
    return tuple(notes)


def _session(connection: psycopg.Connection) -> None:
    connection.execute("RESET ALL")
    connection.execute(_SESSION)


def _fill(
    connection: psycopg.Connection,
    twin: Twin,
    *,
    scale: float,
    seed: int,
    step: Step,
    late: list[LateRows],
) -> Iterator[str]:
    _session(connection)
    columns = read_columns(connection)
    made = TwinRows(twin, columns, scale=scale, seed=seed)
    total = sum(x.rows for x in made.tables)
    written = 0

    def done(rows: int) -> None:
        nonlocal written
        written += rows
        step("populate", min(written, total), total)

    dead = {(x.schema, x.name): unseen(x, twin.source.block_bytes).dead for x in twin.relations}
    for table in made.tables:
        rows = made.rows(table)
        blocks = table_blocks(twin, table.name, scale)
        fill = Fill(connection, table, blocks, twin.source.block_bytes, dead.get(table.name, 0.0))
        try:
            yield from fill.run(rows, done)
            if (until := made.analysed_until(table)) is not None:
                late.append(LateRows(fill, *until, rows.after(*until)))
        except psycopg.Error as error:
            if connection.closed:
                raise
            said = error.diag.message_primary or type(error).__name__
            yield f"table {'.'.join(table.name)} has no rows: {said}"
    yield from made.notes


def _restore_after(connection: psycopg.Connection, twin: Twin, step: Step) -> Iterator[str]:
    done, total = 0, len(twin.schema.indexes) + len(twin.schema.constraints)

    def begin(_: object) -> None:
        nonlocal done
        done += 1
        step("indexes", min(done, total), total)

    yield from restore_after_rows(
        connection, twin, most_s=_MOST_S, most_statement_s=_MOST_STATEMENT_S, begin=begin
    )


def _behind_rows(connection: psycopg.Connection) -> Iterator[sql.Composed]:
    """Yield what sets each sequence behind the last value of all columns that have its values."""
    for of_schema, sequence, schema, table, column, is_ascending in connection.execute(_SEQUENCES).fetchall():  # fmt: skip
        of = sql.Identifier(of_schema, sequence)
        last = sql.SQL("max({})" if is_ascending else "min({})").format(sql.Identifier(column))
        yield sql.SQL(
            "SELECT pg_catalog.setval({}::regclass, {}) FROM {} HAVING {} {} (SELECT last_value FROM {})"
        ).format(
            sql.Literal(of.as_string()), last, sql.Identifier(schema, table),
            last, sql.SQL(">=" if is_ascending else "<="), of,
        )  # fmt: skip


def keep_notes(connection: psycopg.Connection, notes: list[str]) -> None:
    """Keep clauses on what is not as in the original, in the database."""
    for statement in _NOTES:
        connection.execute(statement)
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO pgdrag_twin.note (note) VALUES (%s)", [(x,) for x in notes])
