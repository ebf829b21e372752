"""Which columns of a new database are to be filled, and of what type is each?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg

Key = tuple[str, str, str]  # schema, table, column

_TYPES: LiteralString = """
SELECT oid::int8, typname::text, typtype::text, typbasetype::int8, typtypmod, typnotnull,
       CASE WHEN typlen = -1 AND typsubscript::text LIKE '%array_subscript_handler' THEN typelem::int8 ELSE 0 END,
       (SELECT array_agg(enumlabel::text ORDER BY enumsortorder) FROM pg_catalog.pg_enum WHERE enumtypid = t.oid)
  FROM pg_catalog.pg_type AS t
"""
_COLUMNS: LiteralString = """
SELECT nspname::text, relname::text, attname::text, atttypid::int8, atttypmod, attnotnull,
       attgenerated <> '', attidentity <> '' OR pg_catalog.pg_get_expr(adbin, adrelid) LIKE 'nextval(%'
  FROM pg_catalog.pg_attribute
  JOIN pg_catalog.pg_class ON pg_class.oid = attrelid
  JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
  LEFT JOIN pg_catalog.pg_attrdef ON adrelid = attrelid AND adnum = attnum
 WHERE attrelid >= 16384 AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
 ORDER BY attrelid, attnum
"""
_KINDS = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8", "oid"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "time"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "char"), "text"),
    **dict.fromkeys(("inet", "cidr"), "address"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("macaddr",), "mac"),
    **{x: x for x in ("uuid", "bytea", "tsvector")},
}
_MODIFIER_HEAD = 4


@dataclass(frozen=True)
class ColumnHere:
    """A column of the new database.

    Attributes:
        type: the name of its base type, of an array that of its elements': "int4", "varchar".
        modifier: of that type, as pg_attribute has it; -1: none.
        labels: of an enum.
        is_generated: by the server, from other columns.
        has_sequence: its default is the next value of a sequence.
    """

    key: Key
    type: str
    type_kind: str
    modifier: int
    is_array: bool
    labels: tuple[str, ...]
    is_not_null: bool
    is_generated: bool
    has_sequence: bool

    @property
    def name(self) -> str:
        """Its name."""
        return self.key[2]

    @property
    def kind(self) -> str:
        """What its values are: "number", "text", "enum", …; "" where nothing is known of the type."""
        return "enum" if self.type_kind == "e" else _KINDS.get(self.type, "")

    @property
    def longest(self) -> int:
        """How many characters fit; 0: any number."""
        if self.type == "char":
            return 1
        has_limit = self.type in ("varchar", "bpchar") and self.modifier > _MODIFIER_HEAD
        return self.modifier - _MODIFIER_HEAD if has_limit else 0

    @property
    def most_decimals(self) -> int | None:
        """How many digits a number has behind the point at most; None: any number."""
        if self.type in ("int2", "int4", "int8", "oid"):
            return 0
        if self.type == "numeric" and self.modifier > 0:
            return (self.modifier - _MODIFIER_HEAD) & 0x7FF
        return None


def read_columns(connection: psycopg.Connection) -> dict[tuple[str, str], tuple[ColumnHere, ...]]:
    """Return the columns of each table."""
    types = {oid: _Type(*rest) for oid, *rest in connection.execute(_TYPES)}
    found: dict[tuple[str, str], list[ColumnHere]] = {}
    for schema, table, name, oid, modifier, is_not_null, is_generated, has_sequence in connection.execute(_COLUMNS):  # fmt: skip
        base, own_modifier, is_never_null = _base(oid, modifier, types)
        inner, inner_modifier, _ = _base(base.element, own_modifier, types) if base.element else (base, own_modifier, False)  # fmt: skip
        found.setdefault((schema, table), []).append(
            ColumnHere(
                (schema, table, name), inner.name, inner.kind, inner_modifier, bool(base.element),
                tuple(inner.labels or ()), is_not_null or is_never_null, is_generated, bool(has_sequence),
            )
        )  # fmt: skip
    return {table: tuple(columns) for table, columns in found.items()}


@dataclass(frozen=True)
class _Type:
    name: str
    kind: str
    base: int
    modifier: int
    is_not_null: bool
    element: int
    labels: Sequence[str] | None


def _base(oid: int, modifier: int, types: Mapping[int, _Type]) -> tuple[_Type, int, bool]:
    """Return what a domain is of, with its modifier, and whether it refuses NULL; any other type is itself."""
    found, is_not_null = types[oid], False
    while found.kind == "d":
        is_not_null |= found.is_not_null
        modifier = found.modifier if modifier < 0 else modifier
        found = types[found.base]
    return found, modifier, is_not_null
