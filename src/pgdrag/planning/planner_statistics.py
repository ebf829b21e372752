"""How does an empty database get the planner's statistics of another one, in any version?

`pg_restore_attribute_stats` came with PostgreSQL 18. What it writes is a row of pg_statistic, which has been the same
since version 12: so the rows are written directly, on every version in the same way. The operators and the collations
that ANALYZE notes in a row are looked up as ANALYZE looks them up.

Values are read by the superuser, who may run anything: so only types whose input runs no code of the database's own
are read. What a domain has stands as its base type's; of composite types and of ranges of the database's own there are
no statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg

from pgdrag.twins.model import ColumnStatistics, Relation

_FIRST_OWN_OID = 16384
# pg_statistic.h
_MOST_COMMON, _HISTOGRAM, _CORRELATION, _ELEMENTS, _ELEMENT_COUNTS, _LENGTHS, _BOUNDS = range(1, 8)
_SLOTS = 5
# pg_type.h, pg_collation.h
_TEXT, _FLOAT8, _TSVECTOR, _DEFAULT_COLLATION = 25, 701, 3614, 100
_ANY_ARRAY, _ANY_ENUM, _ANY_RANGE, _ANY_MULTIRANGE = 2277, 3500, 3831, 4537
_LESS, _EQUAL = 1, 3  # strategies of a B-tree
_MOST_PAGES = 2**31  # from here on relpages is negative: it is unsigned in the server

_TYPES: LiteralString = """
SELECT oid::int8, typtype::text, typbasetype::int8, typdelim::text,
       CASE WHEN typlen = -1 AND typsubscript::text LIKE '%array_subscript_handler' THEN typelem::int8 ELSE 0 END
  FROM pg_catalog.pg_type
"""
_MULTIRANGES: LiteralString = "SELECT rngmultitypid::int8, rngtypid::int8 FROM pg_catalog.pg_range"
# Each type's own "less than" and "equal": those of a B-tree, else of hashing.
_OPERATORS: LiteralString = """
SELECT opcintype::int8, CASE WHEN opcmethod = 405 THEN 3 ELSE amopstrategy END, amopopr::int8
  FROM pg_catalog.pg_opclass
  JOIN pg_catalog.pg_amop ON amopfamily = opcfamily AND amoplefttype = opcintype AND amoprighttype = opcintype
 WHERE opcdefault AND (opcmethod = 403 AND amopstrategy IN (1, 3) OR opcmethod = 405 AND amopstrategy = 1)
 ORDER BY opcmethod DESC
"""
# Types that are another one to operators: varchar is text.
_SAME_BYTES: LiteralString = """
SELECT castsource::int8, casttarget::int8 FROM pg_catalog.pg_cast WHERE castmethod = 'b' AND castcontext = 'i'
"""
_COLUMNS: LiteralString = """
SELECT nspname::text, relname::text, attname::text, attrelid::int8, attnum::int4, atttypid::int8, attcollation::int8
  FROM pg_catalog.pg_attribute
  JOIN pg_catalog.pg_class ON pg_class.oid = attrelid
  JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
 WHERE attrelid >= 16384 AND attnum > 0 AND NOT attisdropped
"""
_NAMES = (
    *("starelid", "staattnum", "stainherit", "stanullfrac", "stawidth", "stadistinct"),
    *(f"{part}{slot + 1}" for part in ("stakind", "staop", "stacoll", "stanumbers", "stavalues") for slot in range(_SLOTS)),
)  # fmt: skip
_PLACES = (
    *("%s" for _ in range(6 + 3 * _SLOTS)),
    *("%s::real[]" for _ in range(_SLOTS)),
    # The only function that makes an "anyarray" of a text.
    *("pg_catalog.array_in(%s::cstring, %s::oid, -1)" for _ in range(_SLOTS)),
)
_INSERT = f"INSERT INTO pg_catalog.pg_statistic ({', '.join(_NAMES)}) VALUES ({', '.join(_PLACES)})"
_SIZES: LiteralString = """
UPDATE pg_catalog.pg_class SET relpages = %s, reltuples = %s, relallvisible = %s
 WHERE oid = (SELECT c.oid FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace
               WHERE nspname = %s AND relname = %s)
"""


@dataclass(frozen=True)
class _Column:
    relation: int
    number: int
    type: int
    collation: int


@dataclass(frozen=True)
class _Slot:
    """One of the five parts of a row: what kind of knowledge, by which operator, numbers, and values of a type."""

    kind: int
    operator: int = 0
    collation: int = 0
    numbers: Sequence[float] | None = None
    values: str | None = None
    type: int = _TEXT


_EMPTY_SLOT = _Slot(0)


def restore_sizes(connection: psycopg.Connection, relations: Iterable[Relation]) -> None:
    """Let pg_class say what it said in the original.

    Raises:
        psycopg.Error: the server refuses it.
    """
    with connection.cursor() as cursor:
        cursor.executemany(
            _SIZES,
            [
                (_signed(x.pages), x.tuples, _signed(x.all_visible_pages), x.schema, x.name)
                for x in relations
            ],
        )


def restore_statistics(
    connection: psycopg.Connection, statistics: Iterable[ColumnStatistics]
) -> Iterator[str]:
    """Write the rows of pg_statistic, and yield a clause on each column that cannot have its own.

    Args:
        connection: a superuser's; it commits each statement.
    """
    columns = {
        (schema, relation, name): _Column(*rest)
        for schema, relation, name, *rest in connection.execute(_COLUMNS)
    }
    types = _Types.of(connection)
    for one in statistics:
        name = f"{one.schema}.{one.relation}.{one.column}"
        column = columns.get((one.schema, one.relation, one.column))
        if column is None:
            yield f"statistics of {name}: there is no such column"
            continue
        try:
            connection.execute(_INSERT.encode(), _row(one, column, types))
        except psycopg.Error as error:
            if connection.closed:
                raise
            yield f"statistics of {name}: {error.diag.message_primary or error}"


def _row(one: ColumnStatistics, column: _Column, types: _Types) -> list[object]:
    slots = [*_slots(one, column, types)][:_SLOTS]
    slots += [_EMPTY_SLOT] * (_SLOTS - len(slots))
    return [
        column.relation,
        column.number,
        one.is_inherited,
        one.null_share,
        one.width,
        one.n_distinct,
        *(slot.kind for slot in slots),
        *(slot.operator for slot in slots),
        *(slot.collation for slot in slots),
        *(list(slot.numbers) if slot.numbers else None for slot in slots),
        *(x for slot in slots for x in (slot.values, slot.type)),
    ]


def _slots(one: ColumnStatistics, column: _Column, types: _Types) -> Iterator[_Slot]:
    own = types.base(column.type)
    equal, less = types.operator(own, _EQUAL), types.operator(own, _LESS)
    is_readable = types.is_readable(own)
    # Each value has its share: the planner reads so many of either.
    if is_readable and one.most_common and len(one.most_common) == len(one.most_common_shares):
        values = types.array(own, one.most_common)
        yield _Slot(_MOST_COMMON, equal, column.collation, one.most_common_shares, values, own)
    if is_readable and len(one.histogram) > 1:
        yield _Slot(_HISTOGRAM, less, column.collation, None, types.array(own, one.histogram), own)
    if one.correlation is not None and less:
        yield _Slot(_CORRELATION, less, column.collation, [one.correlation])
    if one.empty_share is not None and is_readable:
        lengths = types.array(_FLOAT8, one.range_lengths) if one.range_lengths else None
        yield _Slot(
            _LENGTHS, types.operator(_FLOAT8, _LESS), 0, [one.empty_share], lengths, _FLOAT8
        )
        if one.range_bounds:
            of_bounds = types.ranges.get(own, own)
            yield _Slot(_BOUNDS, 0, 0, None, types.array(of_bounds, one.range_bounds), of_bounds)
    element = _TEXT if own == _TSVECTOR else types.base(types.elements.get(own, 0))
    if not element:
        return
    collation = column.collation or (_DEFAULT_COLLATION if own == _TSVECTOR else 0)
    equal = types.operator(element, _EQUAL)
    # Behind the share of each element the least and the greatest, of arrays also that of NULL.
    if one.elements and len(one.elements) < len(one.element_shares) and types.is_readable(element):
        values = types.array(element, one.elements)
        yield _Slot(_ELEMENTS, equal, collation, one.element_shares, values, element)
    if one.element_counts:
        yield _Slot(_ELEMENT_COUNTS, equal, collation, one.element_counts)


@dataclass(frozen=True)
class _Types:
    """What the server says of types, by OID."""

    kinds: Mapping[int, str]
    bases: Mapping[int, int]
    delimiters: Mapping[int, str]
    elements: Mapping[int, int]
    operators: Mapping[tuple[int, int], int]
    same_bytes: Mapping[int, Sequence[int]]
    ranges: Mapping[int, int]  # of multiranges

    @classmethod
    def of(cls, connection: psycopg.Connection) -> _Types:
        rows = connection.execute(_TYPES).fetchall()
        same: dict[int, list[int]] = {}
        for source, target in connection.execute(_SAME_BYTES):
            same.setdefault(source, []).append(target)
        return cls(
            {oid: kind for oid, kind, *_ in rows},
            {oid: base for oid, _, base, *_ in rows if base},
            {oid: delimiter for oid, _, _, delimiter, _ in rows},
            {oid: element for oid, *_, element in rows if element},
            {(oid, strategy): found for oid, strategy, found in connection.execute(_OPERATORS)},
            same,
            dict(connection.execute(_MULTIRANGES).fetchall()),
        )

    def base(self, oid: int) -> int:
        """Return the base type of a domain, through all levels; any other type unchanged."""
        while oid in self.bases:
            oid = self.bases[oid]
        return oid

    def is_readable(self, oid: int) -> bool:
        """Tell whether reading a value runs no code that a twin could bring along."""
        if oid in self.elements:
            return self.elements[oid] not in self.bases and self.is_readable(self.elements[oid])
        kind = self.kinds.get(oid, "")
        return kind in ("b", "e") or (kind in ("r", "m") and oid < _FIRST_OWN_OID)

    def operator(self, oid: int, strategy: int) -> int:
        """Return a type's "less than" or "equal", or that of what it is the same to; 0: it has none."""
        if found := self.operators.get((oid, strategy)):
            return found
        general = {"e": _ANY_ENUM, "r": _ANY_RANGE, "m": _ANY_MULTIRANGE}
        of_kind = _ANY_ARRAY if oid in self.elements else general.get(self.kinds.get(oid, ""), 0)
        others = (*self.same_bytes.get(oid, ()), of_kind)
        return next((x for other in others if (x := self.operators.get((other, strategy)))), 0)

    def array(self, oid: int, values: Sequence[str]) -> str:
        """Return an array of values of this type as text."""
        escaped = (x.replace("\\", "\\\\").replace('"', '\\"') for x in values)
        return "{" + self.delimiters[oid].join(f'"{x}"' for x in escaped) + "}"


def _signed(pages: int) -> int:
    return pages if pages < _MOST_PAGES else pages - 2 * _MOST_PAGES
