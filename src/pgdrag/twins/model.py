"""What does a twin hold? Frozen values, which are the file's JSON as they stand.

No value of a row is in it. Where statistics or the schema had one there is a token, see `tokens.py`. Names of
schemas, tables, columns, functions and indexes are the original's; roles have numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from pgdrag.findings.holds.distribution import HoldDistribution

FORMAT_VERSION: Literal[1] = 1

_STRICT = ConfigDict(extra="forbid", strict=True)

Count = Annotated[int, Field(ge=0)]
Height = Annotated[int, Field(ge=0, le=32)]  # of a B-tree; no disk holds one of 32 levels
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
RelationKind = Literal["table", "partitioned table", "index", "partitioned index", "materialized view", "toast"]  # fmt: skip


# --- the source -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A setting that is not at its default.

    Attributes:
        value: in `unit`, as pg_settings has it; None: it is a text that the file does not tell.
        unit: "8kB", "ms" … or "".
    """

    __pydantic_config__ = _STRICT

    name: str
    value: str | None
    unit: str = ""


@dataclass(frozen=True)
class RoleOptions:
    """Settings that ALTER ROLE or ALTER DATABASE … SET gives to sessions.

    Attributes:
        role: which role's, "role1"; "" of all.
        is_of_database: only in this database.
    """

    __pydantic_config__ = _STRICT

    role: str
    is_of_database: bool
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Extension:
    """An installed extension.

    Attributes:
        schema: where its objects are.
    """

    __pydantic_config__ = _STRICT

    name: str
    version: str
    schema: str


@dataclass(frozen=True)
class Source:
    """The server and the database.

    Attributes:
        version_num: as server_version_num has it: 180006.
        block_bytes, segment_blocks: of data files.
        encoding, collate, ctype, provider, locale: the database's; `provider` is "libc", "icu" or "builtin",
            `locale` is "" for libc.
        memory_bytes, processors: of the server's host; None where it is another one.
        settings: of the server.
    """

    __pydantic_config__ = _STRICT

    version: str
    version_num: Count
    block_bytes: Annotated[int, Field(gt=0)]
    segment_blocks: Count
    encoding: str
    collate: str
    ctype: str
    provider: str
    locale: str
    is_standby: bool
    database_bytes: Count | None
    settings: tuple[Setting, ...] = ()
    options: tuple[RoleOptions, ...] = ()
    extensions: tuple[Extension, ...] = ()
    memory_bytes: Count | None = None
    processors: Count | None = None


# --- the schema -----------------------------------------------------------------------------
# Definitions are in the server's own words (pg_get_indexdef and the like) with all names qualified.


@dataclass(frozen=True)
class TypeObject:
    """A type of the database's own.

    Attributes:
        definition: the whole CREATE TYPE or CREATE DOMAIN.
        labels: of an enum, in order: tokens, as in `definition`.
    """

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

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

    __pydantic_config__ = _STRICT

    schema: str
    table: str
    name: str
    definition: str
    enabled: Literal["O", "D", "R", "A"] = "O"


@dataclass(frozen=True)
class Schema:
    """All objects of the database; those of extensions come with their extension."""

    __pydantic_config__ = _STRICT

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


# --- sizes and statistics -------------------------------------------------------------------


@dataclass(frozen=True)
class Relation:
    """Size and use of a table, an index or a materialized view.

    Attributes:
        table: of an index its table, else "".
        pages, tuples, all_visible_pages, all_frozen_pages: as pg_class has them; tuples is -1 where nobody counted.
        bytes: of the main fork, now; None where it could not be read.
        toast_bytes: of its TOAST table with its index; None where there is none.
        height: of a B-tree: levels above the leaves; None where the server does not tell.
        live_rows, dead_rows: estimates of the cumulative statistics.
        moved: what its counters grew by in the window, by their names in pg_stat_all_tables, pg_statio_all_tables,
            pg_stat_all_indexes and pg_statio_all_indexes.
    """

    __pydantic_config__ = _STRICT

    schema: str
    name: str
    kind: RelationKind
    pages: Count
    tuples: float
    all_visible_pages: Count = 0
    all_frozen_pages: Count = 0
    bytes: Count | None = None
    toast_bytes: Count | None = None
    height: Height | None = None
    table: str = ""
    live_rows: Count = 0
    dead_rows: Count = 0
    moved: Mapping[str, Count] = field(default_factory=dict)


@dataclass(frozen=True)
class ColumnStatistics:
    """What pg_stats says of a column, or of an index's expression, with tokens for values.

    Attributes:
        relation: the table, or the index whose expression it is.
        column: its name; of an expression, as pg_stats has it.
        number: its attnum.
        is_inherited: of the table with its children.
        type: as format_type has it; "" where it is unknown.
        value_class: columns of one class have the same token for the same value; None: no value is told.
        is_kept: their values are their own tokens: booleans.
        has_hidden_values: there are values in the original that have no token, since their type is not known.
        n_distinct: as pg_stats has it: negative, it is a share of the rows.
        most_common, most_common_shares, histogram, correlation: as pg_stats has them.
        elements, element_shares, element_counts: most_common_elems, most_common_elem_freqs, elem_count_histogram.
    """

    __pydantic_config__ = _STRICT

    schema: str
    relation: str
    column: str
    number: int
    is_inherited: bool
    type: str
    null_share: Share
    width: int
    n_distinct: float
    value_class: int | None = None
    is_kept: bool = False
    has_hidden_values: bool = False
    most_common: tuple[str, ...] = ()
    most_common_shares: tuple[float, ...] = ()
    histogram: tuple[str, ...] = ()
    correlation: float | None = None
    elements: tuple[str, ...] = ()
    element_shares: tuple[float, ...] = ()
    element_counts: tuple[float, ...] = ()


# --- the workload ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """A statement, and what its calls took in the window.

    Attributes:
        number: of this file; 1 took the most time.
        text: with $1, $2 … for constants and parameters; of a utility statement `?`.
        is_plannable: SELECT, INSERT, UPDATE, DELETE, MERGE, VALUES: it has a plan.
        role: whose, "role1".
        is_toplevel: sent by a client, not by a function.
        parameters: types of $1, $2 …, by the server; empty where there are none, or where it could not say.
        parameters_unknown: why it could not say, or "".
        exec_s, plan_s, io_s, temp_io_s, jit_s: seconds; None where the server did not measure.
        min_s, max_s, mean_s, stddev_s: of an execution, since the statement is known, not only in the window.
        parallel_workers: that were launched; None before PostgreSQL 18.
    """

    __pydantic_config__ = _STRICT

    number: int
    text: str
    is_plannable: bool
    role: str
    is_toplevel: bool
    calls: Count
    rows: Count
    exec_s: Amount
    plans: Count
    plan_s: Amount | None
    min_s: Amount
    max_s: Amount
    mean_s: Amount
    stddev_s: Amount
    shared_hit: Count
    shared_read: Count
    shared_dirtied: Count
    shared_written: Count
    local_hit: Count
    local_read: Count
    local_dirtied: Count
    local_written: Count
    temp_read: Count
    temp_written: Count
    wal_records: Count
    wal_full_pages: Count
    wal_bytes: Count
    io_s: Amount | None = None
    temp_io_s: Amount | None = None
    jit_s: Amount | None = None
    parallel_workers: Count | None = None
    parameters: tuple[str, ...] = ()
    parameters_unknown: str = ""


@dataclass(frozen=True)
class Workload:
    """Statements over the window.

    Attributes:
        window_s: its length.
        evictions: how often the view forgot statements in it, for want of room.
        was_reset: somebody emptied the view meanwhile: calls before that are lost.
        other_calls, other_exec_s: of statements that are not listed: too many, or hidden from this role.
        other_databases_calls: of statements in other databases, which share the server.
    """

    __pydantic_config__ = _STRICT

    window_s: Amount
    statements: tuple[Statement, ...] = ()
    evictions: Count = 0
    was_reset: bool = False
    other_calls: Count = 0
    other_exec_s: Amount = 0.0
    other_databases_calls: Count = 0


@dataclass(frozen=True)
class Activity:
    """What sessions did in the window.

    Attributes:
        looks: samples of pg_stat_activity; the means are over them.
        sessions, active, idle, idle_in_transaction, blocked: client sessions of this database, on average.
        most_sessions, most_active: at once.
        other_sessions: of other databases, on average.
        waits: sessions of this database that waited so, on average, by "Type:Event"; "": on a processor, or wanting
            one.
        commits, rollbacks: of this database, in the window, without pgdrag's own.
        counters: what this database's row of pg_stat_database grew by, times in seconds.
        session_s, active_s, idle_in_transaction_s: time of this database's sessions, by the server's own count.
        new_sessions: that began in the window.
        statements_per_transaction: statements of clients for each transaction, BEGIN and COMMIT not counted.
        think_s: mean pause of a session between two transactions.
        idle_ages_s: how long sessions had been idle outside a transaction when a sample saw them: quantiles 0.1,
            0.25, 0.5, 0.75, 0.9 and 0.99; empty where none was seen.
        transaction_ages_s: the same of how long ago open transactions had begun.
    """

    __pydantic_config__ = _STRICT

    looks: Count = 0
    sessions: Amount = 0.0
    active: Amount = 0.0
    idle: Amount = 0.0
    idle_in_transaction: Amount = 0.0
    blocked: Amount = 0.0
    most_sessions: Count = 0
    most_active: Count = 0
    other_sessions: Amount = 0.0
    waits: Mapping[str, Amount] = field(default_factory=dict)
    commits: Count | None = None
    rollbacks: Count | None = None
    counters: Mapping[str, Amount] = field(default_factory=dict)
    session_s: Amount | None = None
    active_s: Amount | None = None
    idle_in_transaction_s: Amount | None = None
    new_sessions: Count | None = None
    statements_per_transaction: Amount | None = None
    think_s: Amount | None = None
    idle_ages_s: tuple[Amount, ...] = ()
    transaction_ages_s: tuple[Amount, ...] = ()


@dataclass(frozen=True)
class Kept:
    """A constant of the original that is in the file as it was, since something would not work without it.

    Attributes:
        where: `index "shop"."orders_kind"`.
        constant: as it stands there.
        why: in words.
    """

    __pydantic_config__ = _STRICT

    where: str
    constant: str
    why: str


@dataclass(frozen=True)
class Twin:
    """A server's schema, statistics and workload.

    Attributes:
        pgdrag_twin: version of the file's format.
        captured_by: "pgdrag 0.1.0".
        captured_on: the day, in UTC: "2026-11-25".
        now: the token of the moment of the capture: what timestamps were before or after it, their tokens are before
            or after this.
        not_seen: what this role could not see, in sentences.
        kept: constants of the original that are in it.
        horizon: who held it in the window; None where nobody could see.
    """

    __pydantic_config__ = _STRICT

    captured_by: str
    captured_on: str
    source: Source
    schema: Schema
    relations: tuple[Relation, ...] = ()
    statistics: tuple[ColumnStatistics, ...] = ()
    workload: Workload = field(default_factory=lambda: Workload(0.0))
    activity: Activity = field(default_factory=Activity)
    horizon: HoldDistribution | None = None
    now: str = "2000-01-01 00:00:00+00"
    not_seen: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    pgdrag_twin: Literal[1] = FORMAT_VERSION
