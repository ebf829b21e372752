"""What does the planner know of the data: nothing, as after an upgrade, or what ANALYZE finds, or what was carried over?

pg_upgrade carries no statistics over before PostgreSQL 18: tables have neither column statistics nor sizes until
somebody analyses them. From 18 on it does, but not extended statistics. The workload's own tables are
treated; the system catalogs are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString

import psycopg
from psycopg import sql

from pgdrag.errors import ServerLost
from pgdrag.factors import Example, Factor, Here, Problem
from pgdrag.model import Applied, Level
from pgdrag.servers.roles import settings_to_write

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

PLANNER = "planner"
MISSING, FRESH, TRANSFERRED = "missing", "fresh", "transferred"
VALUES = (MISSING, FRESH, TRANSFERRED)
TRANSFERABLE_SINCE = 180000
TRIES = 20

# Users' relations with storage or partitions, and how much is known of them.
_KNOWN: LiteralString = """
SELECT (SELECT count(*) FROM pg_statistic WHERE starelid >= 16384),
       (SELECT count(*) FROM pg_class
         WHERE oid >= 16384 AND relkind IN ('r', 'm') AND reltuples >= 0)
"""
_CLEAR: tuple[LiteralString, ...] = (
    "DELETE FROM pg_statistic WHERE starelid >= 16384",
    # As CREATE leaves them: the planner goes by the size of the file and the width of a row.
    """UPDATE pg_class SET relpages = 0, reltuples = -1, relallvisible = 0
        WHERE oid >= 16384 AND relkind IN ('r', 'm', 'p', 'i', 'I')""",
    # Counted since the cluster was made: automatic analysing begins from nothing.
    "SELECT pg_stat_reset()",
)
_CLEAR_EXTENDED: LiteralString = "DELETE FROM pg_statistic_ext_data"
# Each of its objects has a row there, known or not.
_CLEAR_EXTENDED_14: LiteralString = """
UPDATE pg_statistic_ext_data
   SET stxdndistinct = NULL, stxddependencies = NULL, stxdmcv = NULL, stxdexpr = NULL
"""
_CLEAR_18: LiteralString = (
    "UPDATE pg_class SET relallfrozen = 0 WHERE oid >= 16384 AND relkind IN ('r', 'm')"
)
_RELATIONS: LiteralString = """
SELECT nspname, relname, relpages, reltuples, relallvisible, relallfrozen
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE pg_class.oid >= 16384 AND relkind IN ('r', 'm', 'p', 'i', 'I') AND nspname <> 'pg_toast'
"""
# Arrays of any type as text, as pg_dump --statistics writes them.
_COLUMNS: LiteralString = """
SELECT s.schemaname, s.tablename, s.attname, s.inherited, s.null_frac, s.avg_width, s.n_distinct,
       s.most_common_vals::text, s.most_common_freqs, s.histogram_bounds::text, s.correlation,
       s.most_common_elems::text, s.most_common_elem_freqs, s.elem_count_histogram,
       s.range_length_histogram::text, s.range_empty_frac, s.range_bounds_histogram::text
  FROM pg_stats AS s
  JOIN pg_namespace AS n ON n.nspname = s.schemaname
  JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = s.tablename
 WHERE c.oid >= 16384
"""
_OF_RELATION = ("schemaname", "relname", "relpages", "reltuples", "relallvisible", "relallfrozen")
_OF_COLUMN = (
    *("schemaname", "relname", "attname", "inherited", "null_frac", "avg_width", "n_distinct"),
    *("most_common_vals", "most_common_freqs", "histogram_bounds", "correlation"),
    *("most_common_elems", "most_common_elem_freqs", "elem_count_histogram"),
    *("range_length_histogram", "range_empty_frac", "range_bounds_histogram"),
)
_TYPES = {
    "schemaname": "text", "relname": "text", "attname": "text", "relpages": "integer", "reltuples": "real",
    "relallvisible": "integer", "relallfrozen": "integer", "inherited": "boolean", "null_frac": "real",
    "avg_width": "integer", "n_distinct": "real", "most_common_freqs": "real[]", "correlation": "real",
    "most_common_elem_freqs": "real[]", "elem_count_histogram": "real[]", "range_empty_frac": "real",
}  # fmt: skip


@dataclass(frozen=True)
class _Counts:
    """How many column statistics and how many tables with a number of rows there are."""

    columns: int
    tables: int

    @property
    def words(self) -> str:
        return MISSING if not self.columns and not self.tables else FRESH


class Statistics(Factor):
    """The planner's statistics of the workload's tables."""

    name = "statistics"
    summary = 'what the planner knows of the data: planner = "missing", "fresh" or "transferred"'
    examples: ClassVar[tuple[Example, ...]] = (
        Example(Level(name, PLANNER, MISSING), MISSING, Level(name, PLANNER, "stale")),
    )
    search_values: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(self) -> None:
        self._was: _Counts | None = None
        self._is_transferred = False

    def problem(self, level: Level, here: Here) -> Problem | None:
        if level.name != PLANNER:
            message = f'statistics have no "{level.name}"'
            return Problem(level, True, message, f'Write {PLANNER} = "{MISSING}".')
        if level.value not in VALUES:
            message = f'statistics {PLANNER} cannot be "{level.value}"'
            return Problem(level, True, message, f"Available values: {', '.join(VALUES)}.")
        version = here.settings.server_version_num
        if level.value == TRANSFERRED and version < TRANSFERABLE_SINCE:
            message = (
                f"PostgreSQL {version // 10_000} cannot restore statistics of another server: "
                "pg_restore_attribute_stats exists since version 18"
            )
            return Problem(level, False, message, f'Use "{FRESH}" or "{MISSING}".')
        return None

    def after_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        wanted = levels.get(PLANNER)
        if wanted is None:
            return
        try:
            settings = settings_to_write(cluster.binaries.version_num)
            with cluster.connect(
                application_name="pgdrag statistics", settings=settings
            ) as connection:
                self._was = _counted(connection)
                if wanted == MISSING:
                    _clear(connection)
                elif wanted == FRESH:
                    connection.execute("ANALYZE")
                else:
                    _transfer(connection)
                    self._is_transferred = True
        except psycopg.Error as error:
            raise ServerLost(f"could not make the statistics {wanted}: {error}") from error

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        if not levels:
            return []
        try:
            with cluster.connect(application_name="pgdrag read back") as connection:
                now = _counted(connection)
        except psycopg.Error as error:
            raise ServerLost(f"could not read the statistics back: {error}") from error
        was = now if self._was is None else self._was
        shown = TRANSFERRED if self._is_transferred and now.columns else now.words
        note = ""
        if self._is_transferred and now.columns < was.columns:
            note = (
                f"{was.columns - now.columns} of {was.columns} column statistics were not restored"
            )
        return [
            Applied(Level(self.name, name, value), shown, note, was.words)
            for name, value in levels.items()
        ]

    def undo(self, cluster: Cluster) -> None:
        """Stop the server, so that the next trial starts from the dataset and not with these statistics."""
        if self._was is not None:
            self._was = None
            cluster.stop()


def _counted(connection: psycopg.Connection) -> _Counts:
    row = connection.execute(_KNOWN).fetchone()
    assert row is not None, "counts have a row"
    return _Counts(*row)


def _clear(connection: psycopg.Connection) -> None:
    version = connection.info.server_version
    statements = [*_CLEAR, _CLEAR_EXTENDED if version >= 150000 else _CLEAR_EXTENDED_14]
    if version >= TRANSFERABLE_SINCE:
        statements.append(_CLEAR_18)
    for tries_left in reversed(range(TRIES)):
        try:
            with connection.transaction():
                for statement in statements:
                    connection.execute(statement)
        except psycopg.errors.InternalError_:  # automatic vacuum updated the same row
            if not tries_left:
                raise
        else:
            return


def _transfer(connection: psycopg.Connection) -> None:
    """Take the statistics out, empty them, and restore them as pg_dump's output does."""
    relations = connection.execute(_RELATIONS).fetchall()
    columns = connection.execute(_COLUMNS).fetchall()
    _clear(connection)
    for row in relations:
        _restore(connection, "pg_restore_relation_stats", dict(zip(_OF_RELATION, row, strict=True)))
    for row in columns:
        _restore(connection, "pg_restore_attribute_stats", dict(zip(_OF_COLUMN, row, strict=True)))


def _restore(connection: psycopg.Connection, function: str, given: Mapping[str, Any]) -> None:
    known = {name: value for name, value in given.items() if value is not None}
    pairs = [
        sql.SQL("{}, {}::{}").format(
            sql.Literal(name), sql.Placeholder(), sql.SQL(_TYPES.get(name, "text"))
        )
        for name in known
    ]
    query = sql.SQL("SELECT {}({})").format(sql.Identifier(function), sql.SQL(", ").join(pairs))
    connection.execute(query, list(known.values()))
