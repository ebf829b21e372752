"""How do indexes, which are built at once, get the size of those of the original, whose rows came one by one?

A B-tree with room in its pages, or with none, is built again with another fillfactor. A GiST index is another tree if rows came
one by one: pages are split where they are full, not filled in the order of their keys. So it is built again like that where it
is of another size. A GIN index is left alone: nearly all that it has more are pages of pending lists, which are free again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import LiteralString

import psycopg
from psycopg import sql

from pgdrag.data_twin import Step
from pgdrag.data_twin.sizes import bytes_before, table_scale
from pgdrag.twins.model import Twin

_INDEXES: LiteralString = """
SELECT nspname::text, relname::text, amname::text, pg_catalog.pg_relation_size(c.oid),
       coalesce((SELECT pg_catalog.jsonb_object_agg(option_name, option_value) FROM pg_catalog.pg_options_to_table(reloptions)), '{}')
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace
  JOIN pg_catalog.pg_am AS a ON a.oid = relam
 WHERE c.oid >= 16384 AND relkind = 'i' AND amname IN ('btree', 'gist')
 ORDER BY c.oid
"""
_SMALL_BYTES, _LEAST_FILL, _MOST_FILL, _FILL = 16 * 8192, 10, 100, 90.0
_SMALLER = 0.97  # of a B-tree
_OTHER = 0.03  # of a GiST index: the logarithm of a ratio that is another size
# PostgreSQL chooses at random among pages that a row fits equally well: a small index varies by several percent.
_MOST_BUILDS = 5
# One that is built with buffers is not sorted; without a cache for these, its rows are inserted one after the other.
_ONE_BY_ONE = {"buffering": "on"}
_NO_CACHE: LiteralString = "SET effective_cache_size = 1"
_CACHE: LiteralString = "RESET effective_cache_size"


def fit_indexes(
    connection: psycopg.Connection, twin: Twin, *, scale: float, step: Step
) -> Iterator[str]:
    """Build B-trees and GiST indexes again that have another size than those of the original, at this scale.

    Args:
        connection: of the role whose indexes these are, in autocommit; its statement_timeout bounds each of them.

    Yields:
        A clause on each that takes too long: it stays as it was.

    Raises:
        psycopg.Error: the server is gone.
    """
    known = {(x.schema, x.name): x for x in twin.relations}
    indexes = connection.execute(_INDEXES).fetchall()
    for at, (schema, name, method, size, options) in enumerate(indexes):
        one = known.get((schema, name))
        if one is None:
            continue
        table = known.get((schema, one.table), one)
        wanted = (bytes_before(one, table) or 0) * table_scale(table, scale)
        if wanted:
            index = _Index(connection, sql.Identifier(schema, name), options)
            step("sizes of indexes", at, len(indexes))
            try:
                (index.loosen if method == "btree" else index.grow)(size, wanted)
            except psycopg.errors.QueryCanceled:
                yield f"index {schema}.{name} is built at once, and of another size: it takes too long otherwise"


class _Index:
    """An index of the twin's, with the options of the original's."""

    def __init__(
        self, connection: psycopg.Connection, name: sql.Identifier, options: Mapping[str, str]
    ) -> None:
        self._connection, self._name, self._options = connection, name, options
        self._fill = float(options.get("fillfactor", _FILL))

    def loosen(self, size: int, wanted: float) -> None:
        """Build a B-tree of another size again: rows that came one by one leave room in the pages, or none."""
        fullness = _within(self._fill * size / wanted)
        # Rows that come in order, or fit on one page, leave no room where an index that is built leaves some.
        if wanted < _SMALLER * size or (fullness < 0.9 * self._fill and size >= _SMALL_BYTES):
            self._build({"fillfactor": str(fullness)})

    def grow(self, size: int, wanted: float) -> None:
        """Build a GiST index of another size again, of rows that come one by one, and with as much room as deleted ones left."""
        if not _differ(size, wanted) or max(size, wanted) < _SMALL_BYTES:
            return
        grown, fullness = float(size), _MOST_FILL
        for _ in range(_MOST_BUILDS):
            grown = self._build({**_ONE_BY_ONE, "fillfactor": str(fullness)})
            nearer = _within(fullness * grown / wanted)
            if nearer == fullness or not _differ(grown, wanted):
                break
            fullness = nearer
        if abs(math.log(grown / wanted)) > abs(math.log(size / wanted)):
            self._build({})

    def _build(self, options: Mapping[str, str]) -> int:
        """Build the index with other options, and return its size."""
        alter = sql.SQL("ALTER INDEX {} ").format(self._name)
        if options:
            self._connection.execute(alter + _set(options))
        try:
            self._connection.execute(_NO_CACHE)
            self._connection.execute(sql.SQL("REINDEX INDEX {}").format(self._name))
        finally:
            self._connection.execute(_CACHE)
            for one in options:
                self._connection.execute(alter + sql.SQL("RESET ({})").format(sql.Identifier(one)))
            if self._options:
                self._connection.execute(alter + _set(self._options))
        query = sql.SQL("SELECT pg_catalog.pg_relation_size({}::regclass)")
        row = self._connection.execute(query.format(self._name.as_string())).fetchone()
        assert row is not None, "a function has a result"
        return int(row[0])


def _set(options: Mapping[str, str]) -> sql.Composed:
    pairs = [sql.SQL("{} = {}").format(sql.Identifier(x), value) for x, value in options.items()]
    return sql.SQL("SET ({})").format(sql.SQL(", ").join(pairs))


def _within(fullness: float) -> int:
    return min(max(round(fullness), _LEAST_FILL), _MOST_FILL)


def _differ(size: float, wanted: float) -> bool:
    return abs(math.log(size / wanted)) > _OTHER
