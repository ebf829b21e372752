"""What has VACUUM not seen of a table? Dead rows, pages that changed since, and ranges of BRIN indexes that came since.

A data twin that is vacuumed has none: its updates find no room on their pages that dead rows leave, and nobody else knows of; its
index-only scans do not look into pages as the original's do, and what is inserted looks at summaries of BRIN indexes that the
original's had not yet. Where only the pages are to be no longer known to be visible to all, a DELETE that is undone leaves no other trace.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from pgdrag.data_twin.sizes import bytes_before
from pgdrag.data_twin.triggers import without_triggers
from pgdrag.twins.model import Relation, Twin

# A page's lot is the same each time: of a larger share are all pages of a smaller one.
_TOUCH = sql.SQL("""
WITH page AS (SELECT min(ctid) AS row, ((ctid::text::point)[0])::int8 AS n FROM ONLY {table} GROUP BY 2),
     lot AS (SELECT row, n >= {tail} * (SELECT max(n) + 1 FROM page) OR (pg_catalog.hashint8(n) + 2147483648.0) / 4294967296.0 < {share} AS is_touched
               FROM page),
     gone AS (DELETE FROM ONLY {table} WHERE ctid = ANY (ARRAY(SELECT row FROM lot WHERE is_touched)) RETURNING 1)
SELECT 1 / (0 * count(*)) FROM gone
""")
_LEAST = 0.005  # of the pages
_LEAST_UPDATES, _LEAST_HOT = 100, 0.1
_LOT = sql.SQL("(pg_catalog.hashint8(n) + 2147483648.0) / 4294967296.0")
# The first row that a page has: item 1 may be free.
_MOVE = sql.SQL("""
UPDATE ONLY {table} SET {column} = {column}
 WHERE ctid = ANY (ARRAY(SELECT min(ctid) FROM (SELECT ctid, ((ctid::text::point)[0])::int8 AS n FROM ONLY {table}) AS r
                          GROUP BY n HAVING {lot} < {share}))
""")
_COLUMN: LiteralString = """
SELECT attname::text FROM pg_catalog.pg_attribute
 WHERE attrelid = pg_catalog.to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity = ''
 ORDER BY pg_catalog.format_type(atttypid, NULL) ~ '^(date|timestamp)', attnum LIMIT 1
"""
_TABLES: LiteralString = """
SELECT nspname::text, relname::text
  FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace WHERE relkind = 'r'
"""
_BRIN: LiteralString = """
SELECT c.oid::int8, coalesce((SELECT option_value::int8 FROM pg_catalog.pg_options_to_table(reloptions) WHERE option_name = 'pages_per_range'), 128)
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_index ON indexrelid = c.oid JOIN pg_catalog.pg_am AS a ON a.oid = relam
 WHERE indrelid = %s::regclass AND c.relkind = 'i' AND amname = 'brin' AND indisvalid
"""
_PAGES = sql.SQL("SELECT coalesce(((max(ctid)::text::point)[0])::int8 + 1, 0) FROM ONLY {}")
# The last range has no summary until its pages are full.
_FORGET: LiteralString = """
SELECT pg_catalog.brin_desummarize_range(%(index)s::oid, page)
  FROM pg_catalog.generate_series(%(first)s::int8 - %(first)s::int8 %% %(size)s::int8, %(last)s::int8, %(size)s::int8) AS page
"""


@dataclass(frozen=True)
class Unseen:
    """Which share of a table's pages is not known to be visible to all.

    Attributes:
        told: of the pages that there were when VACUUM or ANALYZE last counted, as it counted: the planner's share.
        dead: of those, that each have a dead row: who updates another one next finds room there.
        behind: of all pages, at the end of the table: they came later.
    """

    told: float
    dead: float
    behind: float


def unseen(relation: Relation, block_bytes: int) -> Unseen:
    """Return which share of a table's pages was not known to be visible to all when the window began.

    Dead rows are since VACUUM was there. They lie on pages by lot, one on each: of two the next update would have taken the room of
    one. On how many, the window's updates tell that were hot, else the number of dead rows.
    """
    size = bytes_before(relation, relation)
    pages = relation.pages if size is None else max(round(size / block_bytes), 0)
    counted, moved = min(relation.pages, pages), relation.moved
    if not counted:
        return Unseen(0.0, 0.0, 1.0 if pages else 0.0)
    visible = min(relation.all_visible_pages / relation.pages, 1.0)
    was_vacuumed = moved.get("vacuum_count", 0) + moved.get("autovacuum_count", 0) > 0
    within = 0 if was_vacuumed else moved.get("n_tup_upd", 0) + moved.get("n_tup_del", 0)
    dead = max(relation.dead_rows - within, 0)
    with_room = _with_room(relation, counted)
    dead_share = min(dead / counted, 1.0) if with_room is None else with_room
    return Unseen(1 - visible, dead_share, 1 - counted / pages)


def _with_room(relation: Relation, pages: int) -> float | None:
    """Return on which share of the pages the window's first updates found room, by how many of all of them did; None where that tells nothing.

    An update that finds none leaves its page, which has room for the next one then: of n updates by lot on p pages, with a share r of
    pages that have none at first, r * p * (1 - exp(-n / p)) find none. Where indexed columns change, none stays on its page.
    """
    updates, hot = (relation.moved.get(x, 0) for x in ("n_tup_upd", "n_tup_hot_upd"))
    if updates < _LEAST_UPDATES or hot < _LEAST_HOT * updates:
        return None
    left = (updates - hot) / (pages * -math.expm1(-updates / pages))
    return max(1 - left, 0.0)


def leave_unvacuumed(
    connection: psycopg.Connection,
    twin: Twin,
    *,
    tables: Collection[tuple[str, str]] | None = None,
) -> None:
    """Let tables that were just vacuumed be as VACUUM and time had left the original's.

    As many pages are not known to be visible to all, and the planner knows of as many as it did there; ranges of BRIN indexes that
    came since have no summary.

    Args:
        connection: of the role whose tables these are, in autocommit.
        tables: whose; None: of all.

    Raises:
        psycopg.OperationalError: the server is gone.
    """
    for one in _of(connection, twin, tables):
        found = unseen(one, twin.source.block_bytes)
        if found.told >= _LEAST:
            _touch(connection, one, share=found.told, tail=1.0)
            _count_visible(connection, sql.Identifier(one.schema, one.name))
        if found.dead >= _LEAST:
            move_rows(connection, (one.schema, one.name), share=found.dead, is_from_top=True)
        if found.behind >= _LEAST:
            _touch(connection, one, share=0.0, tail=1 - found.behind)
        _forget_ranges(connection, one, found.behind)


def _count_visible(connection: psycopg.Connection, table: sql.Identifier) -> None:
    """Let the planner know how many pages are visible to all, and no more of the rows than it knows."""
    row = connection.execute(_COLUMN, (table.as_string(),)).fetchone()
    if row is not None:
        connection.execute(sql.SQL("ANALYZE {} ({})").format(table, sql.Identifier(row[0])))


def move_rows(
    connection: psycopg.Connection,
    table: tuple[str, str],
    *,
    share: float,
    is_from_top: bool = False,
) -> None:
    """Update one row on a share of a table's pages, by lot.

    A new version for which its page has no room goes elsewhere. If it takes too long, all rows stay.

    Args:
        is_from_top: pages of the other end of the lot: as far as possible not those of an earlier call.
    """
    name = sql.Identifier(*table)
    row = connection.execute(_COLUMN, (name.as_string(),)).fetchone()
    if row is None:
        return
    lot = sql.SQL("1 - {}" if is_from_top else "{}").format(_LOT)
    update = _MOVE.format(table=name, column=sql.Identifier(row[0]), lot=lot, share=share)
    with suppress(psycopg.errors.QueryCanceled), without_triggers(connection, table):
        connection.execute(update)


def _forget_ranges(connection: psycopg.Connection, one: Relation, behind: float) -> None:
    table = sql.Identifier(one.schema, one.name)
    for index, size in connection.execute(_BRIN, (table.as_string(),)).fetchall():
        row = connection.execute(_PAGES.format(table)).fetchone()
        assert row is not None, "an aggregate has a row"
        first = int(row[0] * (1 - behind))
        connection.execute(_FORGET, {"index": index, "first": first, "last": row[0], "size": size})


def _of(
    connection: psycopg.Connection, twin: Twin, tables: Collection[tuple[str, str]] | None
) -> Iterator[Relation]:
    """Yield the tables that are there: some cannot be made."""
    there = {*connection.execute(_TABLES).fetchall()}
    for one in twin.relations:
        name = one.schema, one.name
        if one.kind == "table" and name in there and (tables is None or name in tables):
            yield one


def _touch(connection: psycopg.Connection, one: Relation, *, share: float, tail: float) -> None:
    table = sql.Identifier(one.schema, one.name)
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(table))
            # It fails when all is deleted, before foreign keys are checked.
            connection.execute(_TOUCH.format(table=table, share=share, tail=tail))
    except psycopg.errors.DivisionByZero:
        pass
    except psycopg.Error:  # there is no such table, or it takes too long
        if connection.closed:
            raise
