"""What does the server say of a statement: the types of its parameters, and what it compares them with?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, LiteralString

import psycopg

from pgdrag.data_twin.load.conditions import (
    Conditions,
    conditions,
    index_conditions,
    parameters_of,
    scanned_indexes,
)
from pgdrag.data_twin.load.texts import (
    Assignment,
    Change,
    change_of,
    limits,
    sendable,
    unnested,
    with_constants,
    with_types,
)
from pgdrag.data_twin.ranges import kept_apart
from pgdrag.twins.ddl import quoted
from pgdrag.twins.mending import GENERIC_SINCE, explaining, typed_texts
from pgdrag.twins.model import Statement, Twin
from pgdrag.twins.transactions import Parameter

NAME = "pgdrag_statement"
_IN_ORDER = 0.9  # correlation of a time and the order of a table's rows, from which on new rows have new times
_SCANS = 0.5  # of an index for each call of a statement that reads it
# No function or operator takes parameters without a type, or several do.
_UNTYPED = frozenset(["42883", "42725", "42P18", "42804"])

_TYPES: LiteralString = """
SELECT coalesce(array_agg(pg_catalog.format_type(t, NULL) ORDER BY at), '{}')
  FROM pg_catalog.pg_prepared_statements AS s
 CROSS JOIN LATERAL pg_catalog.unnest(s.parameter_types::oid[]) WITH ORDINALITY AS p (t, at)
 WHERE name = %s
"""
# Of a table as a statement names it: where it is, its columns in order, and its unique keys.
_TABLE: LiteralString = """
SELECT n.nspname::text, c.relname::text,
       ARRAY(SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum),
       ARRAY(SELECT pg_catalog.format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum),
       ARRAY(SELECT pg_catalog.array_to_string(ARRAY(
               SELECT attname FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k (num, at)
                 JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.num
                WHERE k.at <= i.indnkeyatts ORDER BY k.at), E'\\n')
               FROM pg_catalog.pg_index AS i WHERE i.indrelid = c.oid AND i.indisunique AND i.indpred IS NULL
              ORDER BY i.indisprimary DESC, i.indexrelid),
       ARRAY(SELECT pg_catalog.array_to_string(ARRAY(
               SELECT attname FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum = ANY (f.conkey)), E'\\n')
               FROM pg_catalog.pg_constraint AS f WHERE f.conrelid = c.oid AND f.contype = 'f' ORDER BY f.oid),
       ARRAY(SELECT attname::text FROM pg_catalog.pg_stats
              WHERE schemaname = n.nspname AND tablename = c.relname AND correlation > %s)
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.oid = pg_catalog.to_regclass(%s)
"""
_KEPT_APART: LiteralString = """
SELECT contype::text, pg_catalog.pg_get_constraintdef(oid),
       ARRAY(SELECT attname::text FROM pg_catalog.unnest(conkey) WITH ORDINALITY AS k (num, at)
               JOIN pg_catalog.pg_attribute ON attrelid = conrelid AND attnum = num ORDER BY at)
  FROM pg_catalog.pg_constraint WHERE conrelid = pg_catalog.to_regclass(%s) AND contype IN ('p', 'u', 'x')
"""
_PREDICATE: LiteralString = """
SELECT pg_catalog.pg_get_expr(i.indpred, i.indrelid), greatest(x.reltuples, 0)::float8
  FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid
 WHERE x.relname = %s AND i.indpred IS NOT NULL LIMIT 1
"""
# Of columns by their table's OID and their number.
_COLUMNS: LiteralString = """
SELECT c.oid::int8, a.attnum::int, c.relname::text, a.attname::text, a.attnotnull
  FROM ROWS FROM (pg_catalog.unnest(%s::int8[]), pg_catalog.unnest(%s::int[])) AS wanted (relation, number)
  JOIN pg_catalog.pg_class AS c ON c.oid = wanted.relation
  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = wanted.number AND a.attnum > 0
"""
_ROOT: LiteralString = """
SELECT n.nspname::text, c.relname::text, greatest(pg_catalog.sum(s.reltuples), 0)::float8,
       ARRAY(SELECT pg_catalog.array_to_string(ARRAY(
               SELECT attname FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k (num, at)
                 LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.num
                WHERE k.at <= i.indnkeyatts ORDER BY k.at), E'\n', '')
               FROM pg_catalog.pg_index AS i WHERE i.indrelid = c.oid AND i.indisunique AND i.indpred IS NULL),
       (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(pg_catalog.pg_get_expr(i.indpred, i.indrelid), x.reltuples) ORDER BY x.oid)
          FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid
         WHERE i.indrelid = c.oid AND i.indpred IS NOT NULL AND x.relname = ANY (%s))
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_partition_tree(c.oid) AS p ON true
  LEFT JOIN pg_catalog.pg_class AS s ON s.oid = coalesce(p.relid, c.oid) AND s.relkind IN ('r', 'm')
 WHERE c.oid = coalesce(pg_catalog.pg_partition_root(pg_catalog.to_regclass(%s)), pg_catalog.to_regclass(%s))
 GROUP BY c.oid, 1, 2
"""


@dataclass(frozen=True)
class Table:
    """A table that a statement changes.

    Attributes:
        types: of its columns.
        unique: the columns of each unique key, the primary key first.
        foreign: the columns of each foreign key.
        advancing: columns of times that grow with each row that is inserted.
        without_overlaps: columns of ranges of which no two overlap where other columns, which it has, are equal.
    """

    schema: str
    name: str
    columns: tuple[str, ...]
    types: Mapping[str, str]
    unique: tuple[tuple[str, ...], ...]
    foreign: tuple[tuple[str, ...], ...] = ()
    advancing: frozenset[str] = frozenset()
    without_overlaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def referring(self) -> frozenset[str]:
        """Columns of foreign keys."""
        return frozenset(column for key in self.foreign for column in key)

    def column_of(self, written: Assignment) -> str:
        """Return the column that something is written to; "" where the table has none such."""
        names = (written.column,) if written.column else self.columns[written.place :][:1]
        return next((x for x in names if x in self.columns), "")


@dataclass(frozen=True)
class Root:
    """Where rows of a plan's table come from: the partitioned table, where it is a partition.

    Attributes:
        predicates: of its partial indexes that were scanned in the original as often as the statement may have done it, with
            the rows of each.
        implied: the condition of a partial index that the statement's plan reads, with its rows; ("", 0): there is none.
    """

    schema: str
    name: str
    rows: float
    unique: tuple[tuple[str, ...], ...] = ()
    predicates: tuple[tuple[str, float], ...] = ()
    implied: tuple[str, float] = ("", 0.0)


@dataclass(frozen=True)
class Result:
    """A column that a statement returns.

    Attributes:
        name: in what is returned.
        table, column: whose values they are; "" for what is computed.
    """

    name: str
    table: str = ""
    column: str = ""
    is_not_null: bool = False


@dataclass(frozen=True)
class Analysed:
    """A statement that the server has prepared.

    Attributes:
        text: as it is sent, with $1, $2 …
        types: of its parameters.
        table: what it changes.
        roots: of the plan's tables, by alias.
        limits: parameters that limit rows.
        looks_for: what its plan looks for in indexes.
    """

    number: int
    text: str
    types: tuple[str, ...]
    change: Change
    table: Table | None
    conditions: Conditions
    roots: Mapping[str, Root]
    limits: Mapping[int, str]
    wanted: Statement
    results: tuple[Result, ...] = ()
    looks_for: frozenset[str] = frozenset()

    @property
    def parameters(self) -> range:
        """The numbers of its parameters."""
        return range(1, len(self.types) + 1)


def logged_parameters(twin: Twin) -> dict[int, tuple[Parameter, ...]]:
    """Return what a log tells of parameters, by their statement's number."""
    return {x.number: x.parameters for x in twin.transactions.statements} if twin.transactions else {}  # fmt: skip


def analysed(
    connection: psycopg.Connection[Any], statement: Statement, twin: Twin
) -> Analysed | str:
    """Return what the server says of a statement, or why it does not take it.

    Args:
        connection: in autocommit; it prepares nothing by itself.

    Raises:
        psycopg.OperationalError: the server is gone.
    """
    constants = logged_parameters(twin).get(statement.number, ())
    first = sendable(with_constants(statement.text, constants))
    said = ""
    for text in (first, *typed_texts(first)):
        try:
            with prepared(connection, text) as types:
                results = _results(connection)
                plan = _plan(connection, text, len(types))
            break
        except psycopg.Error as error:
            if connection.closed:
                raise
            said = said or error.diag.message_primary or type(error).__name__
            if error.sqlstate not in _UNTYPED:
                return said
    else:
        return said
    change = change_of(text)
    found = conditions(plan, {x: n for x, n in unnested(text).items() if "." in x})
    table = _table(connection, quoted(*change.table)) if change.table else None
    scanned = [x.name for x in twin.relations if x.table and x.moved.get("idx_scan", 0) >= _SCANS * max(statement.calls, 1)]  # fmt: skip
    roots = {alias: root for alias, of in found.tables.items() if (root := _root(connection, *of, scanned))}  # fmt: skip
    for alias, index in scanned_indexes(plan):
        row = connection.execute(_PREDICATE, (index,)).fetchone()
        if row is not None and alias in roots:
            roots[alias] = replace(roots[alias], implied=tuple(row))
    return Analysed(
        statement.number, text, types, change, table, found, roots, limits(text), statement, results, index_conditions(plan),
    )  # fmt: skip


def otherwise_typed(
    connection: psycopg.Connection[Any], one: Analysed, twin: Twin
) -> Iterator[tuple[str, Analysed]]:
    """Yield a statement with another type for its whole numbers, if the plan then looks for something else in indexes.

    Which types a program declares, no log tells: psycopg sends small numbers as smallint, which an index of btree_gist does not
    know for a column of integers, and JDBC sends a BigDecimal as numeric. A number in the text is an integer.
    """
    in_text = {x.number for x in logged_parameters(twin).get(one.number, ()) if not x.is_sent}
    numbers = [
        n for n in one.parameters if one.types[n - 1] in ("integer", "bigint") and n not in in_text
    ]
    for type_ in ("smallint", "bigint", "numeric") if numbers else ():
        text = with_types(one.text, dict.fromkeys(numbers, type_))
        other = analysed(connection, replace(one.wanted, text=text), twin)
        if not isinstance(other, str) and other.looks_for != one.looks_for:
            yield type_, replace(other, wanted=one.wanted)


class prepared:  # noqa: N801  # a context manager
    """A statement of the session, prepared under NAME; yields the types of its parameters."""

    def __init__(
        self, connection: psycopg.Connection[Any], text: str, types: Sequence[str] = ()
    ) -> None:
        self._connection = connection
        numbers = parameters_of(text)
        if not types and len(numbers) < max(numbers, default=0):
            # Where there are constants, parameters keep their numbers: what is left out has any type.
            types = ["unknown" if n in numbers else "text" for n in range(1, max(numbers) + 1)]
        self._text = f"({', '.join(types)}) AS {text}" if types else f"AS {text}"

    def __enter__(self) -> tuple[str, ...]:
        self._connection.execute(b"DEALLOCATE ALL")
        # The extended protocol refuses a text of several statements.
        self._connection.execute(f"PREPARE {NAME} {self._text}".encode(), binary=True)
        row = self._connection.execute(_TYPES, (NAME,)).fetchone()
        return tuple(row[0]) if row else ()

    def __exit__(self, *_: object) -> None:
        with suppress(psycopg.Error):
            self._connection.execute(b"DEALLOCATE ALL")


# What decides about plans, and may be set in a session.
_PLANNING = re.compile(
    r"(?:seq|random)_page_cost|cpu_\w+_cost|parallel_\w+_cost|effective_cache_size|work_mem|hash_mem_multiplier|enable_\w+|(?:join|from)_collapse_limit"
    r"|geqo\w*|min_parallel_\w+|max_parallel_workers_per_gather|constraint_exclusion|recursive_worktable_factor|debug_parallel_query"
)
_DEFAULT_WORK_MEM = "4096"  # kB
_SET: LiteralString = """
SELECT name, pg_catalog.current_setting(name), pg_catalog.set_config(name, %s, false) FROM pg_catalog.pg_settings WHERE name = %s
"""


def planning_settings(twin: Twin) -> dict[str, str]:
    """Return the settings of the original's planner, in their own units; the others are at their defaults on any server."""
    found = {x.name: x.value for x in twin.source.settings if x.value is not None and _PLANNING.fullmatch(x.name)}  # fmt: skip
    return {"work_mem": _DEFAULT_WORK_MEM, **found}


@contextmanager
def planned_as(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> Iterator[None]:
    """Have plans made with these settings; those that the server does not take are left out."""
    before = []
    for name, value in settings.items():
        with suppress(psycopg.Error):
            before += connection.execute(_SET, (value, name)).fetchall()
    try:
        yield
    finally:
        for name, value, _ in before if not connection.closed else ():
            connection.execute(_SET, (value, name))


def _results(connection: psycopg.Connection[Any]) -> tuple[Result, ...]:
    """Return what the statement that is prepared returns, by the server's word."""
    said = connection.pgconn.describe_prepared(NAME.encode())
    places = [(said.ftable(x), said.ftablecol(x)) for x in range(said.nfields)]
    rows = connection.execute(_COLUMNS, ([table for table, _ in places], [at for _, at in places]))
    known = {
        (table, at): (name, column, is_not_null) for table, at, name, column, is_not_null in rows
    }
    return tuple(
        Result((said.fname(at) or b"").decode(errors="replace"), *known.get(place, ()))
        for at, place in enumerate(places)
    )


def _plan(connection: psycopg.Connection[Any], text: str, parameters: int) -> Mapping[str, Any]:
    # All partitions are to be seen, and every condition on its own.
    connection.execute("SELECT set_config('enable_partition_pruning', 'off', false), set_config('max_parallel_workers_per_gather', '0', false)")  # fmt: skip
    try:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        is_generic = connection.info.server_version >= GENERIC_SINCE
        options = "VERBOSE, COSTS OFF, "
        query = explaining(text, NAME, parameters, is_generic=is_generic, options=options)
        row = connection.execute(query.encode()).fetchone()
        assert row is not None, "EXPLAIN has an answer"
        plan: Mapping[str, Any] = row[0][0]["Plan"]
        return plan
    finally:
        for name in ("enable_partition_pruning", "max_parallel_workers_per_gather", "plan_cache_mode"):  # fmt: skip
            connection.execute(f"RESET {name}".encode())


def _table(connection: psycopg.Connection[Any], name: str) -> Table | None:
    row = connection.execute(_TABLE, (_IN_ORDER, name)).fetchone()
    if row is None:
        return None
    schema, relation, columns, types, unique, foreign, in_order = row
    type_of = dict(zip(columns, types, strict=True))
    constraints = connection.execute(_KEPT_APART, (name,)).fetchall()
    apart = (kept_apart(kind, text, tuple(own)) for kind, text, own in constraints)
    return Table(
        schema, relation, tuple(columns), type_of,
        tuple(tuple(x.split("\n")) for x in unique if x), tuple(tuple(x.split("\n")) for x in foreign),
        frozenset(x for x in in_order if type_of[x].startswith(("date", "timestamp"))), {column: others for others, column in filter(None, apart)},
    )  # fmt: skip


def _root(
    connection: psycopg.Connection[Any], schema: str, name: str, scanned: Sequence[str]
) -> Root | None:
    qualified = quoted(schema, name)
    row = connection.execute(_ROOT, ([*scanned], qualified, qualified)).fetchone()
    if row is None:
        return None
    schema, name, rows, keys, predicates = row
    scanned_parts = tuple((text, float(count)) for text, count in predicates or ())
    return Root(schema, name, rows, tuple(tuple(x.split("\n")) for x in keys), scanned_parts)


def cast_type(type_: str) -> str:
    """Return a type's name for a cast: that of `character` would cut a text to one character."""
    for short, whole in (("character", "pg_catalog.bpchar"), ("bit", "pg_catalog.varbit")):
        if type_ in (short, f"{short}[]"):
            return type_.replace(short, whole)
    return type_


def literal(value: str | None) -> str:
    """Return a value as a constant of SQL."""
    if value is None:
        return "NULL"
    escaped = value.replace("'", "''")
    return f" E'{escaped.replace(chr(92), chr(92) * 2)}'" if "\\" in escaped else f"'{escaped}'"


def executing(one: Analysed, values: Sequence[str | None]) -> str:
    """Return what executes a prepared statement with these values."""
    arguments = ", ".join(literal(x) for x in values[: len(one.types)])
    return f"EXECUTE {NAME}{f'({arguments})' if arguments else ''}"
