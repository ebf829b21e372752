"""Which objects does a twin's database have? Definitions are the server's own (pg_get_indexdef …), all names qualified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgdrag.twins.fields import STRICT


@dataclass(frozen=True)
class TypeObject:
    """A type of the database's own.

    Attributes:
        definition: the whole CREATE TYPE or CREATE DOMAIN.
        labels: of an enum, in order: tokens, as in `definition`.
    """

    __pydantic_config__ = STRICT

    schema: str
    name: str
    kind: Literal["enum", "domain", "composite", "range"]
    definition: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class SequenceObject:
    """A sequence; where it stands is not told.

    Attributes:
        owned_by: the column, ("schema", "table", "column"), whose it is; None: nobody's.
        is_identity: it is made by its column's GENERATED … AS IDENTITY.
    """

    __pydantic_config__ = STRICT

    schema: str
    name: str
    type: str
    increment: int
    cache: int
    is_cycling: bool
    owned_by: tuple[str, str, str] | None = None
    is_identity: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        number: its attnum; there are gaps where columns were dropped.
        type: as format_type has it: "character varying(20)".
        collation: where it is not the type's own: `pg_catalog."C"`.
        default: the expression; of a generated column, what it is generated from.
        generated: "s": stored, "v": virtual.
        identity: "a": always, "d": by default.
        storage: where it is not the type's own: "p", "e", "m", "x".
        compression: "p": pglz, "l": lz4.
        statistics_target: -1: the server's.
        options: ("n_distinct=-0.5", …).
    """

    __pydantic_config__ = STRICT

    name: str
    number: int
    type: str
    is_not_null: bool = False
    collation: str = ""
    default: str = ""
    generated: Literal["", "s", "v"] = ""
    identity: Literal["", "a", "d"] = ""
    storage: Literal["", "p", "e", "m", "x"] = ""
    compression: Literal["", "p", "l"] = ""
    statistics_target: int = -1
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table; a partition has all its columns, and is one of `partition_of` by `bound`.

    Attributes:
        partition_key: "RANGE (placed)"; "" where it is not partitioned.
        partition_of: the partitioned table, ("schema", "name").
        bound: "FOR VALUES FROM (…) TO (…)" or "DEFAULT", with tokens.
        inherits: further parents, by INHERITS.
        options, toast_options: ("fillfactor=70", …).
    """

    __pydantic_config__ = STRICT

    schema: str
    name: str
    columns: tuple[Column, ...]
    is_unlogged: bool = False
    access_method: str = "heap"
    options: tuple[str, ...] = ()
    toast_options: tuple[str, ...] = ()
    partition_key: str = ""
    partition_of: tuple[str, str] | None = None
    bound: str = ""
    inherits: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Constraint:
    """A constraint of a table; NOT NULL is the column's.

    Attributes:
        kind: "p": primary key, "u": unique, "f": foreign key, "c": check, "x": exclusion.
        definition: as pg_get_constraintdef has it.
        columns: whose it is; empty where it is of an expression.
        references: the table that a foreign key leads to, and its columns.
        is_inherited: the parent has it, and gives it to this table.
    """

    __pydantic_config__ = STRICT

    schema: str
    table: str
    name: str
    kind: Literal["p", "u", "f", "c", "x"]
    definition: str
    columns: tuple[str, ...] = ()
    references: tuple[str, str, tuple[str, ...]] | None = None
    is_inherited: bool = False


@dataclass(frozen=True)
class Index:
    """An index.

    Attributes:
        definition: the whole CREATE INDEX, ON ONLY of a partitioned table.
        keys: each key as text: a column's name or an expression.
        constraint: the constraint that makes it; then `definition` is not run.
        partition_of: the partitioned index that it is part of, ("schema", "name").
    """

    __pydantic_config__ = STRICT

    schema: str
    name: str
    table: str
    definition: str
    method: str
    is_unique: bool = False
    is_valid: bool = True
    keys: tuple[str, ...] = ()
    constraint: str = ""
    partition_of: tuple[str, str] | None = None

    @property
    def is_key(self) -> bool:
        """Whether no two rows of the whole table have the same keys."""
        return self.is_unique and " WHERE " not in self.definition


@dataclass(frozen=True)
class ExtendedStatistics:
    """CREATE STATISTICS, and what ANALYZE found, where this role could see it.

    Attributes:
        definition: the whole statement.
        columns: of those that are columns, in order; expressions are in the definition only.
        n_distinct, dependencies: as pg_stats_ext has them, by numbers of columns.
        most_common: combinations of values (tokens; None is NULL), each with its share and the share if the
            columns were independent.
    """

    __pydantic_config__ = STRICT

    schema: str
    name: str
    table_schema: str
    table: str
    definition: str
    columns: tuple[str, ...] = ()
    n_distinct: str = ""
    dependencies: str = ""
    most_common: tuple[tuple[tuple[str | None, ...], float, float], ...] = ()


@dataclass(frozen=True)
class View:
    """A view; its definition is a query."""

    __pydantic_config__ = STRICT

    schema: str
    name: str
    definition: str
    is_materialized: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Function:
    """A function that a default, an index, a trigger, a view, a type or a statement needs.

    Attributes:
        signature: its name and the types of its arguments, as regprocedure has it.
        definition: the whole CREATE FUNCTION; constants in its body are kept only if `Twin.kept` lists them.
    """

    __pydantic_config__ = STRICT

    schema: str
    name: str
    signature: str
    language: str
    definition: str


@dataclass(frozen=True)
class Trigger:
    """A trigger of a table.

    Attributes:
        enabled: "O": as usual, "D": never, "R": on replicas, "A": always.
    """

    __pydantic_config__ = STRICT

    schema: str
    table: str
    name: str
    definition: str
    enabled: Literal["O", "D", "R", "A"] = "O"


@dataclass(frozen=True)
class Schema:
    """All objects of the database; those of extensions come with their extension."""

    __pydantic_config__ = STRICT

    schemas: tuple[str, ...] = ()
    types: tuple[TypeObject, ...] = ()
    functions: tuple[Function, ...] = ()
    sequences: tuple[SequenceObject, ...] = ()
    tables: tuple[Table, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    indexes: tuple[Index, ...] = ()
    views: tuple[View, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    statistics: tuple[ExtendedStatistics, ...] = ()
