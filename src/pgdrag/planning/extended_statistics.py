"""How does an empty database get what CREATE STATISTICS found in another one?

Before PostgreSQL 19 no function takes it, and the types that hold it have no input. They are bytes all the same, so a cast
from bytea that copies them is made in the throw-away database. Lists of most common combinations are left out: with
parameters for constants the planner does not look into them.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import LiteralString

import psycopg

from pgdrag.twins.model import ExtendedStatistics, Twin

# statistics.h: what a value begins with, and the only layout there is.
_DISTINCT_MAGIC, _DEPENDENCIES_MAGIC, _BASIC = 0xA352BFA4, 0xB4549A2C, 1
_HEAD = struct.Struct("=III")  # magic, layout, number of items

_CASTS: tuple[LiteralString, ...] = (
    "CREATE CAST (bytea AS pg_ndistinct) WITHOUT FUNCTION",
    "CREATE CAST (bytea AS pg_dependencies) WITHOUT FUNCTION",
)
_OBJECTS: LiteralString = """
SELECT nspname::text, stxname::text, s.oid::int8,
       (SELECT pg_catalog.json_object_agg(attname, attnum) FROM pg_catalog.pg_attribute
         WHERE attrelid = stxrelid AND attnum > 0 AND NOT attisdropped)
  FROM pg_catalog.pg_statistic_ext AS s JOIN pg_catalog.pg_namespace AS n ON n.oid = stxnamespace
"""
# Alone and with its children: which of the two a row of the original was of is unknown, and the planner takes its own.
_INSERT: LiteralString = """
INSERT INTO pg_catalog.pg_statistic_ext_data (stxoid, stxdinherit, stxdndistinct, stxddependencies)
SELECT %(oid)s, inherit, %(distinct)s::bytea::pg_ndistinct, %(dependencies)s::bytea::pg_dependencies
  FROM (VALUES (false), (true)) AS each (inherit)
"""
_UPDATE_14: LiteralString = """
UPDATE pg_catalog.pg_statistic_ext_data
   SET stxdndistinct = %(distinct)s::bytea::pg_ndistinct, stxddependencies = %(dependencies)s::bytea::pg_dependencies
 WHERE stxoid = %(oid)s
"""
_HAS_INHERIT_SINCE = 150000
# What a text raises that is not as the server writes it.
_UNREADABLE = (ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RecursionError, struct.error)  # fmt: skip


def restore_extended(connection: psycopg.Connection, twin: Twin) -> Iterator[str]:
    """Write what is known of extended statistics, and yield a clause on each that cannot be had.

    Args:
        connection: a superuser's; it commits each statement.
    """
    wanted = [x for x in twin.schema.statistics if x.n_distinct or x.dependencies]
    if not wanted:
        return
    for cast in _CASTS:
        connection.execute(cast)
    there = {(schema, name): rest for schema, name, *rest in connection.execute(_OBJECTS)}
    numbers = {
        (table.schema, table.name): {column.number: column.name for column in table.columns}
        for table in twin.schema.tables
    }
    statement = _INSERT if connection.info.server_version >= _HAS_INHERIT_SINCE else _UPDATE_14
    for one in wanted:
        name = f"extended statistics {one.schema}.{one.name}"
        if (one.schema, one.name) not in there:
            yield f"{name}: there is no such object"
            continue
        oid, columns = there[one.schema, one.name]
        names = numbers.get((one.table_schema, one.table), {})
        here = {number: columns[column] for number, column in names.items() if column in columns}
        try:
            connection.execute(statement, {"oid": oid, **_values(one, here)})
        except (*_UNREADABLE, psycopg.Error) as error:
            if connection.closed:
                raise
            said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
            yield f"{name}: {said or 'they are written in an unknown way'}"


def _values(one: ExtendedStatistics, here: Mapping[int, int]) -> dict[str, bytes | None]:
    return {
        "distinct": distinct_bytes(one.n_distinct, here) if one.n_distinct else None,
        "dependencies": dependencies_bytes(one.dependencies, here) if one.dependencies else None,
    }


def distinct_bytes(text: str, here: Mapping[int, int]) -> bytes:
    """Return the bytes of a pg_ndistinct.

    Args:
        text: as the server writes it: {"1, 2": 11}.
        here: the number that a column has here, by its number in the original; expressions have negative ones.

    Raises:
        ValueError, LookupError, AttributeError, TypeError, struct.error: it is written in another way, or of a column
            that is not here.
    """
    return _packed(text, here, "di", _DISTINCT_MAGIC)


def dependencies_bytes(text: str, here: Mapping[int, int]) -> bytes:
    """Return the bytes of a pg_dependencies, which the server writes as {"1 => 2": 1.000000}; see `distinct_bytes`."""
    return _packed(text, here, "dh", _DEPENDENCIES_MAGIC)


def _packed(text: str, here: Mapping[int, int], layout: str, magic: int) -> bytes:
    packed = [
        struct.pack(f"={layout}{len(columns)}h", number, len(columns), *columns)
        for key, number in json.loads(text).items()
        for columns in [_columns(key, here)]
    ]
    return _HEAD.pack(magic, _BASIC, len(packed)) + b"".join(packed)


def _columns(key: str, here: Mapping[int, int]) -> list[int]:
    found: Iterable[int] = map(int, re.split(r"\s*(?:,|=>)\s*", key.strip()))
    return [number if number < 0 else here[number] for number in found]
