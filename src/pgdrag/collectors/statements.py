"""Which statements took the server's time? pg_stat_statements, where the server has loaded it.

The view is the same in every database, and the extension's objects are needed in one of them. On a
cluster of pgdrag's own they are made in the database `postgres`, never in the workload's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from operator import add
from typing import Any, ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window
from pgdrag.collectors._extensions import making_extensions
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors.counters import attempt, require_sight_of_others
from pgdrag.model.recordings import Recordings, StatementUse
from pgdrag.servers.cluster import Cluster

MOST_STATEMENTS = 50
EXTENSION = "pg_stat_statements"
_MAINTENANCE = "postgres"  # the database
# Statements with these words are this collector's, or prepare a session of pgdrag's, whose other
# statements are not tracked.
_OWN = ("pg_stat_statements", "SET statement_timeout")

# As other sessions have them: the collectors' own is not tracked.
_SETTINGS = """
SELECT name, reset_val FROM pg_settings
 WHERE name IN ('compute_query_id', 'pg_stat_statements.track', 'pg_stat_statements.track_planning')
"""
_SCHEMA = """
SELECT quote_ident(nspname)
  FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
 WHERE extname = 'pg_stat_statements'
"""
# The view's own columns say more than the server's version: the extension may be older than that.
_COLUMNS = """
SELECT attname::text FROM pg_attribute
 WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""
_UNTRACKED = "SET pg_stat_statements.track = 'none'"
_OBJECTS = f"CREATE EXTENSION IF NOT EXISTS {EXTENSION} SCHEMA public"


@dataclass(frozen=True)
class _Reading:
    """What the view said at one moment, of the workload's database.

    Attributes:
        uses: the totals of each statement so far, by user and identifier; those within functions are
            part of the statement that called them.
        evicted: how often the view had to forget statements.
    """

    uses: Mapping[tuple[int, int], StatementUse]
    evicted: int


def _time(amount: str, name: str, what: str, detail: str = "") -> Metric:
    label = f"time in {what} per transaction"
    return Metric(name, label, amount, "s/transaction", step=1e-6, detail=detail)


class Statements(Collector):
    """Totals of each statement of the workload's database."""

    name: ClassVar[str] = "statements"
    summary: ClassVar[str] = "time, blocks and WAL of each statement (pg_stat_statements)"
    needs: ClassVar[str] = "pg_stat_statements in shared_preload_libraries"
    absent: Mapping[str, str] = {
        "jit_s": "pg_stat_statements counts JIT compilation since PostgreSQL 15",
        "plan_s": "pg_stat_statements.track_planning is off",
    }
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        _time("jit_s", "jit_s_per_transaction", "JIT compilation of statements"),
        _time("plan_s", "planning_s_per_transaction", "planning statements"),
        _time("exec_s", "execution_s_per_transaction", "executing statements", "{evicted}"),
        Metric("statements_per_transaction", "statements per transaction", "calls"),
    )
    # fmt: on

    def __init__(self) -> None:
        self._before: _Reading | Unseen = NO_READING
        self._after: _Reading | Unseen = self._before
        self._is_planning_tracked = False

    def before(self, observer: Observer) -> None:
        """Take the first reading."""
        self._before = attempt(lambda: self._read(observer))

    def after(self, observer: Observer) -> None:
        """Take the second reading, unless there was no first."""
        before = self._before
        self._after = (
            before if isinstance(before, Unseen) else attempt(lambda: self._read(observer))
        )

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return calls, and time in planning, compiling and executing, of all statements."""
        uses = self._moved()
        if isinstance(uses, Unseen):
            return uses
        found = {"exec_s": sum(x.exec_s for x in uses), "calls": sum(x.calls for x in uses)}
        if self._is_planning_tracked:
            found["plan_s"] = sum(use.plan_s or 0.0 for use in uses)
        if all(use.jit_s is not None for use in uses):
            found["jit_s"] = sum(use.jit_s or 0.0 for use in uses)
        return found

    def recordings(self, window: Window) -> Recordings:
        """Return the statements that took most time."""
        uses = self._moved()
        if isinstance(uses, Unseen):
            return Recordings(missing={self.name: uses.reason})
        ranked = sorted(uses, key=lambda use: (-use.exec_s - (use.plan_s or 0.0), use.query))
        return Recordings(ranked[:MOST_STATEMENTS])

    def _moved(self) -> Sequence[StatementUse] | Unseen:
        """Return the growth of each statement's totals, adding up statements of the same text."""
        before, after = self._before, self._after
        if isinstance(before, Unseen):
            return before
        if isinstance(after, Unseen):
            return after
        by_text: dict[str, StatementUse] = {}
        for key, use in after.uses.items():
            moved = _difference(before.uses.get(key), use)
            if moved.calls:
                known = by_text.get(use.query)
                by_text[use.query] = moved if known is None else _combined(known, moved, add)
        return tuple(by_text.values())

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return a warning where statements were evicted."""
        return {"evicted": self._evicted()}

    def _evicted(self) -> str:
        before, after = self._before, self._after
        if isinstance(before, Unseen) or isinstance(after, Unseen):
            return ""
        evicted = after.evicted - before.evicted
        if evicted <= 0:
            return ""
        return (
            f"The view had no room for all statements and forgot some {evicted} times; "
            "raise pg_stat_statements.max."
        )

    def _read(self, observer: Observer) -> _Reading:
        settings = dict(observer.query(_SETTINGS))
        # A role without rights is not shown what is loaded, but the library's own settings.
        if not any(name.startswith(f"{EXTENSION}.") for name in settings):
            raise Unseen("pg_stat_statements is not loaded (shared_preload_libraries)")
        for name, off in (("compute_query_id", "off"), ("pg_stat_statements.track", "none")):
            if settings.get(name, off) == off:
                raise Unseen(f"{name} is {off}")
        require_sight_of_others(observer, "the statements")
        self._is_planning_tracked = settings["pg_stat_statements.track_planning"] == "on"
        [(database,)] = observer.query(
            "SELECT oid FROM pg_database WHERE datname = current_database()"
        )
        is_timed = observer.query("SELECT current_setting('track_io_timing')") == [("on",)]
        with _view(observer) as (reader, schema):
            view = f"{schema}.{EXTENSION}"
            rows = reader.table(
                _uses_in(view, {name for (name,) in reader.query(_COLUMNS, view)}),
                self._is_planning_tracked,
                is_timed,
                database,
            )
            [(evicted,)] = reader.query(f"SELECT dealloc FROM {view}_info")
        uses = {(row.pop("userid"), row.pop("queryid")): StatementUse(**row) for row in rows}
        own = [key for key, use in uses.items() if any(words in use.query for words in _OWN)]
        return _Reading({key: use for key, use in uses.items() if key not in own}, evicted)


@contextmanager
def _view(observer: Observer) -> Iterator[tuple[Observer, str]]:
    """Yield who can read the view, and its schema.

    Raises:
        Unseen: the extension's objects are missing, and are not pgdrag's to make.
    """
    if found := observer.query(_SCHEMA):
        yield observer, found[0][0]
        return
    if not isinstance(observer.cluster, Cluster):
        raise Unseen(
            f"extension {EXTENSION} is not in the workload's database:"
            f" CREATE EXTENSION {EXTENSION} makes it"
        )
    with making_extensions(
        observer.cluster, [EXTENSION], _UNTRACKED, _OBJECTS, dbname=_MAINTENANCE
    ) as made:
        reader = Observer(observer.cluster, made)
        yield reader, reader.query(_SCHEMA)[0][0]


def _uses_in(view: str, columns: set[str]) -> str:
    """Return the query whose columns are fields of `StatementUse`; its times are in seconds."""
    # Those of tables and indexes have had this name since PostgreSQL 17.
    kind = "shared_" if "shared_blk_read_time" in columns else ""
    jit = f"({' + '.join(sorted(_JIT))}) / 1000" if columns >= _JIT else "NULL::double precision"
    return f"""
        SELECT userid, queryid, query, calls, rows, total_exec_time / 1000 AS exec_s,
               CASE WHEN %s THEN total_plan_time / 1000 END AS plan_s,
               shared_blks_hit AS blocks_hit, shared_blks_read AS blocks_read,
               shared_blks_dirtied AS blocks_dirtied, temp_blks_written AS temp_blocks_written,
               wal_bytes::bigint AS wal_bytes,
               CASE WHEN %s THEN ({kind}blk_read_time + {kind}blk_write_time) / 1000 END AS io_s,
               {jit} AS jit_s
          FROM {view}
         WHERE dbid = %s AND queryid IS NOT NULL AND toplevel
        """


# Since PostgreSQL 15; each in milliseconds.
_JIT = {
    *("jit_generation_time", "jit_inlining_time"),
    *("jit_optimization_time", "jit_emission_time"),
}
_COUNTED = tuple(one.name for one in fields(StatementUse) if one.name != "query")


def _difference(before: StatementUse | None, after: StatementUse) -> StatementUse:
    """Return a statement's growth; one that was evicted meanwhile counts from 0 again."""
    if before is None or before.calls > after.calls:
        return after
    return _combined(after, before, lambda now, then: max(0, now - then))


def _combined(
    one: StatementUse, other: StatementUse, how: Callable[[Any, Any], Any]
) -> StatementUse:
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in _COUNTED}
    values: dict[str, Any] = {
        name: None if None in pair else how(*pair) for name, pair in pairs.items()
    }
    return StatementUse(one.query, **values)
