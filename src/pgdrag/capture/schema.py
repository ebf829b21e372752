"""Which objects does a database have? As its catalogs tell anybody, with constants as they are: nothing of this is kept so.

The server's own functions write definitions, and no table is locked: neither a right on it nor a wait for whoever
alters it is needed, as it is for pg_dump.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from pgdrag.collectors import Observer, Unseen, attempt
from pgdrag.english import counted
from pgdrag.twins.constants import called
from pgdrag.twins.ddl import quoted
from pgdrag.twins.model import (
    Column,
    Constraint,
    ExtendedStatistics,
    Function,
    Index,
    Schema,
    SequenceObject,
    Table,
    Trigger,
    TypeObject,
    View,
)

OURS: LiteralString = """
    n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%%'
    AND n.nspname NOT LIKE 'pg\\_temp\\_%%'
"""


def _own(catalog: LiteralString, alias: LiteralString) -> LiteralString:
    """Return the condition that an object is in a schema of ours, and of no extension."""
    member: LiteralString = f"member.classid = '{catalog}'::regclass AND member.objid = {alias}.oid AND member.deptype = 'e'"
    return f"{OURS} AND NOT EXISTS (SELECT FROM pg_depend AS member WHERE {member})"


# After the FROM of relations, pg_class AS c among them; conditions may follow.
_OURS_ALONE: LiteralString = (
    f"JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE {_own('pg_class', 'c')}"
)
_SCHEMAS: LiteralString = f"""
SELECT nspname::text FROM pg_namespace AS n WHERE {_own("pg_namespace", "n")} ORDER BY 1
"""
_TABLES: LiteralString = f"""
SELECT c.oid::bigint, n.nspname::text AS schema, c.relname::text AS name, c.relpersistence = 'u' AS is_unlogged,
       coalesce((SELECT amname FROM pg_am WHERE pg_am.oid = c.relam), '')::text AS access_method,
       coalesce(c.reloptions, '{{}}') AS options,
       coalesce((SELECT reloptions FROM pg_class AS toast WHERE toast.oid = c.reltoastrelid), '{{}}') AS toast_options,
       coalesce(CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) END, '') AS partition_key,
       (SELECT partattrs::int2[] FROM pg_partitioned_table WHERE partrelid = c.oid) AS partition_columns,
       c.relispartition AS is_partition, coalesce(pg_get_expr(c.relpartbound, c.oid), '') AS bound,
       (SELECT array_agg(inhparent::bigint ORDER BY inhseqno) FROM pg_inherits WHERE inhrelid = c.oid) AS parents,
       c.relrowsecurity AS has_policies
  FROM pg_class AS c {_OURS_ALONE}
   AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't' ORDER BY c.oid
"""
_COLUMNS: LiteralString = f"""
SELECT c.oid::bigint AS relation, a.attname::text AS name, a.attnum AS number, a.atttypid::bigint AS type_oid,
       a.atttypmod AS modifier, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS is_not_null,
       CASE WHEN a.attcollation <> t.typcollation AND a.attcollation <> 0
            THEN (SELECT quote_ident(nspname) || '.' || quote_ident(collname)
                    FROM pg_collation JOIN pg_namespace ON pg_namespace.oid = collnamespace
                   WHERE pg_collation.oid = a.attcollation) ELSE '' END AS collation,
       coalesce(pg_get_expr(d.adbin, d.adrelid), '') AS default, a.attgenerated::text AS generated,
       a.attidentity::text AS identity,
       CASE WHEN a.attstorage <> t.typstorage THEN a.attstorage::text ELSE '' END AS storage,
       a.attcompression::text AS compression, coalesce(a.attstattarget, -1) AS statistics_target,
       coalesce(a.attoptions, '{{}}') AS options
  FROM pg_attribute AS a
  JOIN pg_type AS t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  JOIN pg_class AS c ON c.oid = a.attrelid {_OURS_ALONE}
   AND c.relkind IN ('r', 'p', 'i', 'm') AND c.relpersistence <> 't' AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY c.oid, a.attnum
"""
_CONSTRAINTS: LiteralString = f"""
SELECT n.nspname::text AS schema, c.relname::text AS table, c.oid::bigint AS relation, x.conname::text AS name,
       x.contype::text AS kind, pg_get_constraintdef(x.oid) AS definition, x.conkey AS keys,
       x.confrelid::bigint AS foreign_relation, x.confkey AS foreign_keys,
       x.conparentid <> 0 OR NOT x.conislocal AS is_inherited
  FROM pg_constraint AS x JOIN pg_class AS c ON c.oid = x.conrelid {_OURS_ALONE}
   AND x.contype IN ('p', 'u', 'f', 'c', 'x') AND c.relkind IN ('r', 'p') ORDER BY x.oid
"""
_INDEXES: LiteralString = f"""
SELECT c.oid::bigint, n.nspname::text AS schema, c.relname::text AS name, t.relname::text AS table,
       t.oid::bigint AS relation, pg_get_indexdef(c.oid) AS definition,
       (SELECT amname::text FROM pg_am WHERE pg_am.oid = c.relam) AS method, i.indisunique AS is_unique,
       i.indisvalid AS is_valid,
       ARRAY(SELECT pg_get_indexdef(c.oid, at, true) FROM generate_series(1, i.indnatts) AS at ORDER BY at) AS keys,
       coalesce((SELECT conname FROM pg_constraint WHERE conindid = c.oid AND contype IN ('p', 'u', 'x')), '')::text
           AS constraint,
       (SELECT inhparent::bigint FROM pg_inherits WHERE inhrelid = c.oid) AS parent
  FROM pg_index AS i
  JOIN pg_class AS c ON c.oid = i.indexrelid
  JOIN pg_class AS t ON t.oid = i.indrelid {_OURS_ALONE}
   AND t.relkind IN ('r', 'p', 'm') AND t.relpersistence <> 't' ORDER BY c.oid
"""
_SEQUENCES: LiteralString = f"""
SELECT n.nspname::text AS schema, c.relname::text AS name, format_type(s.seqtypid, NULL) AS type,
       s.seqincrement AS increment, s.seqcache AS cache, s.seqcycle AS is_cycling,
       d.refobjid::bigint AS owner, d.refobjsubid AS owner_column, coalesce(d.deptype = 'i', false) AS is_identity
  FROM pg_sequence AS s JOIN pg_class AS c ON c.oid = s.seqrelid LEFT JOIN pg_depend AS d
    ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
   AND d.refclassid = 'pg_class'::regclass AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i') {_OURS_ALONE}
  ORDER BY c.oid
"""
_VIEWS: LiteralString = f"""
SELECT n.nspname::text AS schema, c.relname::text AS name, c.relkind = 'm' AS is_materialized,
       pg_get_viewdef(c.oid) AS definition, c.oid::bigint
  FROM pg_class AS c {_OURS_ALONE}
   AND c.relkind IN ('v', 'm') AND c.relpersistence <> 't' ORDER BY c.oid
"""
_TRIGGERS: LiteralString = f"""
SELECT n.nspname::text AS schema, c.relname::text AS table, t.tgname::text AS name,
       pg_get_triggerdef(t.oid) AS definition, t.tgenabled::text AS enabled
  FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid {_OURS_ALONE}
   AND NOT t.tgisinternal AND t.tgparentid = 0 AND c.relkind IN ('r', 'p') ORDER BY t.oid
"""
_TYPES: LiteralString = f"""
SELECT t.oid::bigint, n.nspname::text AS schema, t.typname::text AS name, t.typtype::text AS kind,
       t.typcategory::text AS category, t.typelem::bigint AS element, t.typbasetype::bigint AS base,
       t.typtypmod AS modifier, format_type(t.typbasetype, t.typtypmod) AS base_name,
       t.typnotnull AS is_not_null, coalesce(t.typdefault, '') AS default, {_own("pg_type", "t")} AS is_ours, c.relkind::text AS relation_kind,
       ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder) AS labels,
       ARRAY(SELECT pg_get_constraintdef(x.oid) FROM pg_constraint AS x
              WHERE x.contypid = t.oid AND x.contype = 'c' ORDER BY x.oid) AS checks,
       (SELECT format_type(rngsubtype, NULL) FROM pg_range WHERE rngtypid = t.oid) AS subtype,
       coalesce((SELECT rngsubtype::bigint FROM pg_range WHERE t.oid IN (rngtypid, rngmultitypid)), 0) AS bound,
       ARRAY(SELECT quote_ident(attname) || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
              WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped ORDER BY attnum) AS attributes
  FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace LEFT JOIN pg_class AS c ON c.oid = t.typrelid
 ORDER BY t.oid
"""
_FUNCTIONS: LiteralString = f"""
SELECT n.nspname::text AS schema, p.proname::text AS name, p.oid::regprocedure::text AS signature,
       l.lanname::text AS language, pg_get_functiondef(p.oid) AS definition, p.prosrc AS body
  FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace JOIN pg_language AS l ON l.oid = p.prolang
 WHERE {_own("pg_proc", "p")} AND p.prokind IN ('f', 'p', 'w') AND l.lanname NOT IN ('c', 'internal') ORDER BY p.oid
"""
_STATISTICS: LiteralString = """
SELECT n.nspname::text AS schema, s.stxname::text AS name, tn.nspname::text AS table_schema, t.relname::text AS table,
       pg_get_statisticsobjdef(s.oid) AS definition,
       ARRAY(SELECT attname::text FROM unnest(s.stxkeys::int2[]) WITH ORDINALITY AS k(number, at)
               JOIN pg_attribute ON attrelid = s.stxrelid AND attnum = number ORDER BY at) AS columns
  FROM pg_statistic_ext AS s JOIN pg_namespace AS n ON n.oid = s.stxnamespace
  JOIN pg_class AS t ON t.oid = s.stxrelid JOIN pg_namespace AS tn ON tn.oid = t.relnamespace
 ORDER BY s.oid
"""
_LEFT_OUT: LiteralString = f"""
SELECT what, count(*)::int, min(name) FROM (
    SELECT 'foreign table' AS what, c.relname::text AS name
  FROM pg_class AS c {_OURS_ALONE}
   AND c.relkind = 'f'
    UNION ALL SELECT 'temporary table', '' FROM pg_class WHERE relkind = 'r' AND relpersistence = 't'
    UNION ALL SELECT 'table with row security policies', c.relname::text
  FROM pg_class AS c {_OURS_ALONE}
   AND c.relrowsecurity
    UNION ALL SELECT 'rule', r.rulename::text FROM pg_rewrite AS r JOIN pg_class AS c ON c.oid = r.ev_class
        JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE r.rulename <> '_RETURN' AND {OURS}
    UNION ALL SELECT 'aggregate', p.proname::text FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
        WHERE p.prokind = 'a' AND {_own("pg_proc", "p")}
    UNION ALL SELECT 'operator', o.oprname::text FROM pg_operator AS o JOIN pg_namespace AS n ON n.oid = o.oprnamespace
        WHERE {_own("pg_operator", "o")}
    UNION ALL SELECT 'text search configuration', f.cfgname::text FROM pg_ts_config AS f
        JOIN pg_namespace AS n ON n.oid = f.cfgnamespace WHERE {_own("pg_ts_config", "f")}
    UNION ALL SELECT 'collation', f.collname::text FROM pg_collation AS f
        JOIN pg_namespace AS n ON n.oid = f.collnamespace WHERE {_own("pg_collation", "f")}
) AS found GROUP BY what ORDER BY what
"""
_DOMAIN, _ENUM, _COMPOSITE, _RANGE = "d", "e", "c", "r"


@dataclass(frozen=True)
class FoundType:
    """A type of the server's: of a column, or of what that is made of.

    Attributes:
        bound: the type of a range's bounds, also of a multirange's; 0: it is neither.
    """

    schema: str
    name: str
    kind: str
    element: int
    base: int
    modifier: int
    labels: tuple[str, ...]
    bound: int = 0


@dataclass(frozen=True)
class FoundColumn:
    """A column of a table, an index or a materialized view, with what its values are."""

    schema: str
    relation: str
    name: str
    number: int
    type_oid: int
    modifier: int
    type: str
    collation: str


@dataclass(frozen=True)
class FoundSchema:
    """The database's objects with their constants, and what to know to hide those.

    Attributes:
        columns: by the relation's and the column's number.
        partition_keys: of partitioned tables, the key columns' names ("" of an expression) by schema and name.
        functions: all functions; those that nothing needs are still among them.
        left_out: what has no place in a twin, in sentences.
    """

    schema: Schema
    types: Mapping[int, FoundType]
    columns: tuple[FoundColumn, ...]
    partition_keys: Mapping[tuple[str, str], tuple[str, ...]]
    functions: tuple[tuple[Function, str], ...]
    left_out: tuple[str, ...]


@dataclass
class _Names:
    relations: dict[int, tuple[str, str]] = field(default_factory=dict)
    columns: dict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, relation: int, numbers: Sequence[int] | None) -> tuple[str, ...]:
        known = self.columns[relation]
        return tuple(known[x] for x in numbers or () if x in known)


def read_schema(observer: Observer) -> FoundSchema:
    """Return the objects of the database.

    Raises:
        Unseen: the server refused or did not answer.
    """
    tables = observer.table(_TABLES)
    indexes = observer.table(_INDEXES)
    views = observer.table(_VIEWS)
    types = observer.table(_TYPES)
    columns = observer.table(_COLUMNS)
    names = _Names()
    for row in (*tables, *indexes, *views):
        names.relations[row["oid"]] = row["schema"], row["name"]
    for row in columns:
        names.columns[row["relation"]][row["number"]] = row["name"]
    by_relation: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in columns:
        by_relation[row["relation"]].append(row)
    schema = Schema(
        schemas=tuple(name for (name,) in observer.query(_SCHEMAS)),
        types=tuple(_types(types)),
        sequences=tuple(_sequence(row, names) for row in observer.table(_SEQUENCES)),
        tables=tuple(_table(row, by_relation[row["oid"]], names) for row in tables),
        constraints=tuple(_constraint(row, names) for row in observer.table(_CONSTRAINTS)),
        indexes=tuple(_index(row, names) for row in indexes),
        views=tuple(_view(row, names) for row in views),
        triggers=tuple(Trigger(**row) for row in observer.table(_TRIGGERS)),
        statistics=tuple(_statistics(row) for row in observer.table(_STATISTICS)),
    )
    return FoundSchema(
        schema,
        {row["oid"]: _found_type(row) for row in types},
        tuple(
            FoundColumn(
                *names.relations[row["relation"]], row["name"], row["number"], row["type_oid"],
                row["modifier"], row["type"], row["collation"],
            )
            for row in columns
            if row["relation"] in names.relations
        ),
        {
            (row["schema"], row["name"]): tuple(names.columns[row["oid"]].get(x, "") for x in row["partition_columns"] or ())
            for row in tables
        },
        tuple(_functions(observer)),
        tuple(_left_out(observer)),
    )  # fmt: skip


def needed_functions(found: FoundSchema, statements: Sequence[str]) -> tuple[Function, ...]:
    """Return the functions that the schema or statements call, and those that these call."""
    schema = found.schema
    texts = [
        *(column.default for table in schema.tables for column in table.columns),
        *(one.definition for one in schema.constraints),
        *(one.definition for one in schema.indexes),
        *(one.definition for one in schema.views),
        *(one.definition for one in schema.triggers),
        *(one.definition for one in schema.statistics),
        *(one.definition for one in schema.types),
        *(table.partition_key for table in schema.tables),
        *statements,
    ]
    left = set().union(*map(called, texts))
    bodies = defaultdict(list)
    for function, body in found.functions:
        bodies[function.name.lower()].append((function, body))
    wanted: set[str] = set()
    while left:
        name = left.pop()
        for function, body in bodies.pop(name, ()):
            wanted.add(function.signature)
            left |= called(body) | called(function.definition)
    return tuple(function for function, _ in found.functions if function.signature in wanted)


def _functions(observer: Observer) -> Iterator[tuple[Function, str]]:
    for row in observer.table(_FUNCTIONS):
        body = row.pop("body") or ""
        yield Function(**row), body


def _table(row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], names: _Names) -> Table:
    parents = tuple(names.relations[x] for x in row["parents"] or () if x in names.relations)
    is_partition = row["is_partition"] and bool(parents)
    return Table(
        row["schema"],
        row["name"],
        tuple(_column(one) for one in columns),
        is_unlogged=row["is_unlogged"],
        access_method=row["access_method"] or "heap",
        options=tuple(row["options"]),
        toast_options=tuple(row["toast_options"]),
        partition_key=row["partition_key"],
        partition_of=parents[0] if is_partition else None,
        bound=row["bound"] if is_partition else "",
        inherits=() if is_partition else parents,
    )


def _column(row: Mapping[str, Any]) -> Column:
    own = ("name", "number", "type", "is_not_null", "collation", "default", "generated", "identity", "storage", "compression", "statistics_target")  # fmt: skip
    return Column(**{name: row[name] for name in own}, options=tuple(row["options"]))


def _constraint(row: Mapping[str, Any], names: _Names) -> Constraint:
    foreign = names.relations.get(row["foreign_relation"])
    references = None
    if foreign is not None:
        references = (*foreign, names.of(row["foreign_relation"], row["foreign_keys"]))
    return Constraint(
        row["schema"], row["table"], row["name"], row["kind"], row["definition"],
        names.of(row["relation"], row["keys"]), references, row["is_inherited"],
    )  # fmt: skip


def _index(row: Mapping[str, Any], names: _Names) -> Index:
    own = ("schema", "name", "table", "definition", "method", "is_unique", "is_valid", "constraint")
    return Index(
        **{name: row[name] for name in own},
        keys=tuple(row["keys"]),
        partition_of=names.relations.get(row["parent"]),
    )


def _view(row: Mapping[str, Any], names: _Names) -> View:
    definition = str(row["definition"]).strip().removesuffix(";")
    columns = tuple(names.columns[row["oid"]].values())
    return View(row["schema"], row["name"], definition, row["is_materialized"], columns)


def _statistics(row: dict[str, Any]) -> ExtendedStatistics:
    return ExtendedStatistics(**{**row, "columns": tuple(row["columns"])})


def _sequence(row: Mapping[str, Any], names: _Names) -> SequenceObject:
    owner = names.relations.get(row["owner"]) if row["owner"] else None
    column = names.columns[row["owner"]].get(row["owner_column"]) if owner is not None else None
    owned_by = None if owner is None or column is None else (*owner, column)
    return SequenceObject(
        row["schema"], row["name"], row["type"], row["increment"], row["cache"], row["is_cycling"],
        owned_by, row["is_identity"],
    )  # fmt: skip


def _found_type(row: Mapping[str, Any]) -> FoundType:
    return FoundType(
        row["schema"], row["name"], row["kind"], row["element"] if row["category"] == "A" else 0,
        row["base"], row["modifier"], tuple(row["labels"]), row["bound"],
    )  # fmt: skip


def _types(rows: Sequence[Mapping[str, Any]]) -> Iterator[TypeObject]:
    for row in rows:
        schema, name = row["schema"], row["name"]
        full = quoted(schema, name)
        if not row["is_ours"]:
            continue
        match row["kind"]:
            case "e":
                yield TypeObject(schema, name, "enum", "", tuple(row["labels"]))
            case "d":
                parts = [f"CREATE DOMAIN {full} AS {row['base_name']}"]
                parts += [f"DEFAULT {row['default']}"] if row["default"] else []
                parts += ["NOT NULL"] if row["is_not_null"] else []
                yield TypeObject(schema, name, "domain", " ".join((*parts, *row["checks"])))
            case "c" if row["relation_kind"] == "c":
                inner = ", ".join(row["attributes"])
                yield TypeObject(schema, name, "composite", f"CREATE TYPE {full} AS ({inner})")
            case "r":
                definition = f"CREATE TYPE {full} AS RANGE (subtype = {row['subtype']})"
                yield TypeObject(schema, name, "range", definition)


def _left_out(observer: Observer) -> Iterator[str]:
    rows = attempt(lambda: observer.query(_LEFT_OUT))
    for what, count, name in () if isinstance(rows, Unseen) else rows:
        named = f' ("{name}"{" and others" if count > 1 else ""})' if name else ""
        if what == "table with row security policies":
            yield f"Row security policies of {counted(count, 'table')}{named} are left out: plans do without them."
        else:
            yield f"Left out: {counted(count, what)}{named}."
