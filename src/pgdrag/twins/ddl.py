"""Which statements make a twin's schema? Before rows are there, and after.

Where an object needs another one of its own kind (a function of a function, a view of a view) the order is not
worked out: the caller retries those that failed after the others, until no more succeed. Function
bodies are not checked then: `check_function_bodies = off`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pgdrag.twins.model import (
    Column,
    Constraint,
    Index,
    Schema,
    SequenceObject,
    Source,
    Table,
    Trigger,
)

_STORAGE = {"p": "PLAIN", "e": "EXTERNAL", "m": "MAIN", "x": "EXTENDED"}
_COMPRESSION = {"p": "pglz", "l": "lz4"}
_IDENTITY = {"a": "ALWAYS", "d": "BY DEFAULT"}
_ENABLED = {"D": "DISABLE", "R": "ENABLE REPLICA", "A": "ENABLE ALWAYS"}


@dataclass(frozen=True)
class SchemaStatement:
    """A statement that makes one object, or part of one.

    Attributes:
        makes: what, for people: `index "shop"."orders_kind"`.
    """

    makes: str
    sql: str


def quoted(*names: str) -> str:
    """Return a name as SQL has it: `"shop"."orders"`."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def extension_statements(source: Source) -> Iterator[SchemaStatement]:
    """Yield the statements that create the extensions; an unavailable version becomes the newest available one."""
    for one in source.extensions:
        if one.name != "plpgsql":
            if one.schema not in ("pg_catalog", "public"):
                schema = f"CREATE SCHEMA IF NOT EXISTS {quoted(one.schema)}"
                yield SchemaStatement(f'schema "{one.schema}"', schema)
            sql = f"CREATE EXTENSION IF NOT EXISTS {quoted(one.name)} SCHEMA {quoted(one.schema)}"
            yield SchemaStatement(f'extension "{one.name}"', sql)


def before_rows(schema: Schema) -> Iterator[SchemaStatement]:
    """Yield what makes all that rows need: schemas, types, functions, sequences, tables, partitions."""
    for name in schema.schemas:
        yield SchemaStatement(f'schema "{name}"', f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}")
    for type_ in schema.types:
        yield SchemaStatement(f"type {quoted(type_.schema, type_.name)}", type_.definition)
    for function in schema.functions:
        yield SchemaStatement(f"function {function.signature}", function.definition)
    # An identity column makes its sequence.
    sequences = [one for one in schema.sequences if not one.is_identity]
    yield from map(_create_sequence, sequences)
    yield from _create_tables(schema)
    for sequence in sequences:
        if sequence.owned_by is not None:
            name = quoted(sequence.schema, sequence.name)
            sql = f"ALTER SEQUENCE {name} OWNED BY {quoted(*sequence.owned_by)}"
            yield SchemaStatement(f"sequence {name}", sql)
    yield from _attachments(schema.tables)


def after_rows(schema: Schema) -> Iterator[SchemaStatement]:
    """Yield what is made when rows are there: indexes, constraints, statistics, views, triggers."""
    yield from _add_constraints(schema.constraints, "pux")
    materialized = {(one.schema, one.name) for one in schema.views if one.is_materialized}
    own = [one for one in schema.indexes if not one.constraint]
    yield from _create_indexes(x for x in own if (x.schema, x.table) not in materialized)
    yield from map(_attach_index, (one for one in schema.indexes if one.partition_of is not None))
    # A foreign key wants the unique index of the other table.
    yield from _add_constraints(schema.constraints, "f")
    for statistics in schema.statistics:
        name = quoted(statistics.schema, statistics.name)
        yield SchemaStatement(f"statistics {name}", statistics.definition)
    for view in schema.views:
        name, kind = quoted(view.schema, view.name), "VIEW"
        if view.is_materialized:
            kind = "MATERIALIZED VIEW"
        yield SchemaStatement(f"view {name}", f"CREATE {kind} {name} AS {view.definition}")
    yield from _create_indexes(x for x in own if (x.schema, x.table) in materialized)
    yield from _create_triggers(schema.triggers)


def _create_indexes(indexes: Iterable[Index]) -> Iterator[SchemaStatement]:
    for one in indexes:
        yield SchemaStatement(f"index {quoted(one.schema, one.name)}", one.definition)


def _create_sequence(sequence: SequenceObject) -> SchemaStatement:
    name = quoted(sequence.schema, sequence.name)
    sql = f"CREATE SEQUENCE {name} AS {sequence.type} {_sequence_options(sequence)}"
    return SchemaStatement(f"sequence {name}", sql)


def _create_tables(schema: Schema) -> Iterator[SchemaStatement]:
    identities = {one.owned_by: one for one in schema.sequences if one.is_identity}
    checks: dict[tuple[str, str], list[Constraint]] = {}
    for constraint in schema.constraints:
        if constraint.kind == "c":
            checks.setdefault((constraint.schema, constraint.table), []).append(constraint)
    for table in schema.tables:
        name = quoted(table.schema, table.name)
        own = checks.get((table.schema, table.name), [])
        yield SchemaStatement(f"table {name}", _create_table(table, own, identities))
        for sql in _column_alterations(table):
            yield SchemaStatement(f"table {name}", sql)


def _add_constraints(constraints: Iterable[Constraint], kinds: str) -> Iterator[SchemaStatement]:
    for one in constraints:
        # What a partitioned table's foreign key is, its partitions have from it.
        if one.kind in kinds and not (one.kind == "f" and one.is_inherited):
            yield _add_constraint(one)


def _create_triggers(triggers: Iterable[Trigger]) -> Iterator[SchemaStatement]:
    for trigger in triggers:
        table = quoted(trigger.schema, trigger.table)
        name = f"trigger {quoted(trigger.name)} of {table}"
        yield SchemaStatement(name, trigger.definition)
        if trigger.enabled in _ENABLED:
            sql = f"ALTER TABLE {table} {_ENABLED[trigger.enabled]} TRIGGER {quoted(trigger.name)}"
            yield SchemaStatement(name, sql)


def _create_table(
    table: Table,
    checks: Sequence[Constraint],
    identities: dict[tuple[str, str, str] | None, SequenceObject],
) -> str:
    lines = []
    for column in table.columns:
        sequence = identities.get((table.schema, table.name, column.name))
        lines.append(_column(column, sequence, is_partition=table.partition_of is not None))
    lines += [f"CONSTRAINT {quoted(one.name)} {one.definition}" for one in checks]
    kind = "UNLOGGED TABLE" if table.is_unlogged else "TABLE"
    inner = ",\n  ".join(lines)
    sql = f"CREATE {kind} {quoted(table.schema, table.name)} (\n  {inner}\n)"
    if table.partition_key:
        sql += f" PARTITION BY {table.partition_key}"
    if table.access_method not in ("", "heap"):
        sql += f" USING {quoted(table.access_method)}"
    options = [*table.options, *(f"toast.{one}" for one in table.toast_options)]
    return f"{sql} WITH ({', '.join(map(_option, options))})" if options else sql


def _column(column: Column, sequence: SequenceObject | None, *, is_partition: bool) -> str:
    text = f"{quoted(column.name)} {column.type}"
    if column.compression:
        text += f" COMPRESSION {_COMPRESSION[column.compression]}"
    if column.collation:
        text += f" COLLATE {column.collation}"
    # A partition has its identity from the partitioned table.
    if column.identity and not is_partition:
        named = ""
        if sequence is not None:
            options = _sequence_options(sequence)
            named = f" (SEQUENCE NAME {quoted(sequence.schema, sequence.name)} {options})"
        text += f" GENERATED {_IDENTITY[column.identity]} AS IDENTITY{named}"
    elif column.generated:
        kind = "STORED" if column.generated == "s" else "VIRTUAL"
        text += f" GENERATED ALWAYS AS ({column.default}) {kind}"
    elif column.default:
        text += f" DEFAULT {column.default}"
    return f"{text} NOT NULL" if column.is_not_null else text


def _column_alterations(table: Table) -> Iterator[str]:
    for column in table.columns:
        start = f"ALTER TABLE ONLY {quoted(table.schema, table.name)} ALTER COLUMN {quoted(column.name)}"
        if column.storage:
            yield f"{start} SET STORAGE {_STORAGE[column.storage]}"
        if column.statistics_target >= 0:
            yield f"{start} SET STATISTICS {column.statistics_target}"
        if column.options:
            yield f"{start} SET ({', '.join(map(_option, column.options))})"


def _attachments(tables: Iterable[Table]) -> Iterator[SchemaStatement]:
    for table in tables:
        name = quoted(table.schema, table.name)
        for parent in table.inherits:
            sql = f"ALTER TABLE ONLY {name} INHERIT {quoted(*parent)}"
            yield SchemaStatement(f"inheritance of {name}", sql)
        if table.partition_of is not None:
            parent_name = quoted(*table.partition_of)
            sql = f"ALTER TABLE ONLY {parent_name} ATTACH PARTITION {name} {table.bound}"
            yield SchemaStatement(f"partition {name}", sql)


def _add_constraint(constraint: Constraint) -> SchemaStatement:
    table = quoted(constraint.schema, constraint.table)
    # A foreign key of a partitioned table is one of its partitions, too.
    only = "" if constraint.kind == "f" else "ONLY "
    sql = f"ALTER TABLE {only}{table} ADD CONSTRAINT {quoted(constraint.name)} {constraint.definition}"
    return SchemaStatement(f"constraint {quoted(constraint.name)} of {table}", sql)


def _attach_index(index: Index) -> SchemaStatement:
    assert index.partition_of is not None, "only those that are part of another are attached"
    name = quoted(index.schema, index.name)
    sql = f"ALTER INDEX {quoted(*index.partition_of)} ATTACH PARTITION {name}"
    return SchemaStatement(f"index {name}", sql)


def _sequence_options(sequence: SequenceObject) -> str:
    # Where it stands is not known: a descending one begins at its type's end, all others at 1.
    cycle = "CYCLE" if sequence.is_cycling else "NO CYCLE"
    return f"INCREMENT BY {sequence.increment} CACHE {sequence.cache} {cycle}"


def _option(text: str) -> str:
    name, _, value = text.partition("=")
    return f"{name} = '{value.replace(chr(39), chr(39) * 2)}'"
