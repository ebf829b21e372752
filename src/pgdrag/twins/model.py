"""What does a twin hold? Frozen values, which are the file's JSON as they stand.

No value of a row is in it. Where statistics or the schema had one there is a token, see `tokens.py`. Names of
schemas, tables, columns, functions and indexes are the original's; roles have numbers. The parts are in `schema.py`,
`statistics.py`, `workload.py` and `transactions.py`; those of the first three can be imported from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from pgdrag.findings.holds.distribution import HoldDistribution
from pgdrag.twins.fields import STRICT, Count
from pgdrag.twins.schema import (
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
from pgdrag.twins.statistics import ColumnStatistics, Relation, RelationKind
from pgdrag.twins.transactions import LoggedTransactions
from pgdrag.twins.workload import Activity, Statement, Workload

__all__ = [
    "FORMAT_VERSION",
    "Activity",
    "Column",
    "ColumnStatistics",
    "Constraint",
    "ExtendedStatistics",
    "Extension",
    "Function",
    "Index",
    "Kept",
    "Relation",
    "RelationKind",
    "RoleOptions",
    "Schema",
    "SequenceObject",
    "Setting",
    "Source",
    "Statement",
    "Table",
    "Trigger",
    "Twin",
    "TypeObject",
    "View",
    "Workload",
]

FORMAT_VERSION: Literal[3] = 3  # 2: transactions of a log; 3: statistics of ranges


@dataclass(frozen=True)
class Setting:
    """A setting that is not at its default.

    Attributes:
        value: in `unit`, as pg_settings has it; None: it is a text that the file does not tell.
        unit: "8kB", "ms" … or "".
    """

    __pydantic_config__ = STRICT

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

    __pydantic_config__ = STRICT

    role: str
    is_of_database: bool
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Extension:
    """An installed extension.

    Attributes:
        schema: where its objects are.
    """

    __pydantic_config__ = STRICT

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

    __pydantic_config__ = STRICT

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


@dataclass(frozen=True)
class Kept:
    """A constant of the original that is in the file as it was, since something would not work without it.

    Attributes:
        where: `index "shop"."orders_kind"`.
        constant: as it stands there.
        why: in words.
    """

    __pydantic_config__ = STRICT

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
        horizon: who held it in the window; None if that could not be seen.
        transactions: what the server's log showed of them; None where none was read.
    """

    __pydantic_config__ = STRICT

    captured_by: str
    captured_on: str
    source: Source
    schema: Schema
    relations: tuple[Relation, ...] = ()
    statistics: tuple[ColumnStatistics, ...] = ()
    workload: Workload = field(default_factory=lambda: Workload(0.0))
    activity: Activity = field(default_factory=Activity)
    horizon: HoldDistribution | None = None
    transactions: LoggedTransactions | None = None
    now: str = "2000-01-01 00:00:00+00"
    not_seen: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    pgdrag_twin: Literal[1, 2, 3] = FORMAT_VERSION
