"""Which statements took the server's time? pg_stat_statements, where the server has loaded it.

The view is the same in every database, and the extension's objects are needed in one of them: they are
made in the database `postgres`, never in the workload's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from operator import add
from typing import Any, ClassVar, TypeAlias

from pgdrag.collectors import (
    OWN_MARK,
    Amounts,
    Collector,
    Metric,
    Observer,
    Unseen,
    Window,
    attempt,
    known,
)
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors._session import making_extensions
from pgdrag.collectors._statements_view import EXTENSION, find_extension
from pgdrag.collectors.counters import Counters, Drawn, drawn_over, require_sight_of_others
from pgdrag.host.clock import CLOCK
from pgdrag.literals import without_literals
from pgdrag.model.recordings import CALLS, ROWS, Recordings, StatementUse

MOST_STATEMENTS = 50
_MAINTENANCE = "postgres"  # the database
# Statements with these words are this collector's, or prepare a session of pgdrag's, whose other
# statements are not tracked.
_OWN = ("pg_stat_statements", "SET statement_timeout", OWN_MARK)

# As other sessions have them: the collectors' own is not tracked.
_SETTINGS = """
SELECT name, reset_val FROM pg_settings
 WHERE name IN ('compute_query_id', 'pg_stat_statements.track', 'pg_stat_statements.track_planning')
"""
_DRAWN = (
    Drawn(CALLS, "calls of statements", "1/s", ("calls",)),
    Drawn(ROWS, "rows that statements returned or changed", "1/s", ("rows",)),
)
# Of the workload's database at one moment: the totals of each statement so far, by user and identifier,
# where those within functions are part of the statement that called them; and how often the view had to
# forget statements.
_Reading: TypeAlias = tuple[Mapping[tuple[int, int], StatementUse], int]


class Statements(Collector):
    """Totals of each statement of the workload's database."""

    name: ClassVar[str] = "statements"
    summary: ClassVar[str] = "time, blocks and WAL of each statement (pg_stat_statements)"
    needs: ClassVar[str] = "pg_stat_statements in shared_preload_libraries"
    absent: Mapping[str, str] = {
        "jit_s": "pg_stat_statements counts JIT compilation since PostgreSQL 15",
        "plan_s": "pg_stat_statements.track_planning is off",
    }
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("jit_s_per_transaction", "time in JIT compilation of statements per transaction", "jit_s", "s/transaction", step=1e-6),
        Metric("planning_s_per_transaction", "time in planning statements per transaction", "plan_s", "s/transaction", step=1e-6),
        Metric("execution_s_per_transaction", "time in executing statements per transaction", "exec_s", "s/transaction", step=1e-6, detail="{evicted}"),
        Metric("statements_per_transaction", "statements per transaction", "calls"),
    )  # fmt: skip

    def __init__(self) -> None:
        self._before: _Reading | Unseen = NO_READING
        self._after: _Reading | Unseen = self._before
        self._is_planning_tracked = False
        self._stack = ExitStack()
        self._view: _View | Unseen = NO_READING
        self._readings: list[tuple[float, Counters]] = []

    def before(self, observer: Observer) -> None:
        self._view = attempt(lambda: self._open(observer))
        self._before = attempt(lambda: self._read(observer, known(self._view)))

    def sample(self, observer: Observer) -> None:
        """Take the totals of all statements, without their texts."""
        found = attempt(lambda: known(self._view).totals())
        if not isinstance(found, Unseen):
            self._readings.append((CLOCK.unix_s(), found))

    def after(self, observer: Observer) -> None:
        if not isinstance(self._before, Unseen):
            self._after = attempt(lambda: self._read(observer, known(self._view)))
        attempt(self._stack.close)

    def amounts(self, window: Window) -> Amounts:
        uses = self._moved()
        found: dict[str, float | str] = {
            "exec_s": sum(x.exec_s for x in uses),
            "calls": sum(x.calls for x in uses),
            "evicted": "",
        }
        if self._is_planning_tracked:
            found["plan_s"] = sum(use.plan_s or 0.0 for use in uses)
        if all(use.jit_s is not None for use in uses):
            found["jit_s"] = sum(use.jit_s or 0.0 for use in uses)
        evicted = known(self._after)[1] - known(self._before)[1]
        if evicted > 0:
            found["evicted"] = (
                f"The view had no room for all statements and forgot some {evicted} times;"
                " raise pg_stat_statements.max."
            )
        return found

    def recordings(self, window: Window) -> Recordings:
        uses = attempt(self._moved)
        if isinstance(uses, Unseen):
            return Recordings(missing={self.name: uses.reason})
        ranked = sorted(uses, key=lambda use: (-use.time_s, use.query))
        drawn = drawn_over(_DRAWN, self._readings, window)
        return Recordings((*ranked[:MOST_STATEMENTS], *drawn.series))

    def _moved(self) -> Sequence[StatementUse]:
        """Return the growth of each statement's totals, adding up statements of the same text."""
        (before, _), (after, _) = known(self._before), known(self._after)
        by_text: dict[str, StatementUse] = {}
        for key, use in after.items():
            then = before.get(key)
            # One that was evicted meanwhile counts from 0 again.
            if then is not None and then.calls <= use.calls:
                use = _combined(use, then, lambda now, then: max(0, now - then))
            if use.calls:
                one = by_text.get(use.query)
                by_text[use.query] = use if one is None else _combined(one, use, add)
        return tuple(by_text.values())

    def _open(self, observer: Observer) -> _View:
        """Return the view, once it is sure that it has the workload's statements."""
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
        return self._stack.enter_context(_view(observer, database))

    def _read(self, observer: Observer, view: _View) -> _Reading:
        is_timed = observer.query("SELECT current_setting('track_io_timing')") == [("on",)]
        rows = view.reader.table(
            _uses_in(view.name, observer.server_version_num),
            self._is_planning_tracked,
            is_timed,
            view.database,
        )
        [(evicted,)] = view.reader.query(f"SELECT dealloc FROM {view.name}_info")
        uses = {(row.pop("userid"), row.pop("queryid")): StatementUse(**row) for row in rows}
        others = {
            key: use for key, use in uses.items() if not any(words in use.query for words in _OWN)
        }
        if not observer.cluster.is_throw_away:
            # Those of CREATE SUBSCRIPTION and the like have passwords in them.
            others = {
                key: replace(use, query=without_literals(use.query)) for key, use in others.items()
            }
        return others, evicted


@dataclass(frozen=True)
class _View:
    """The view, who can read it, and the workload's database."""

    reader: Observer
    name: str
    database: int

    def totals(self) -> Counters:
        [found] = self.reader.table(
            f"""SELECT coalesce(sum(calls), 0)::bigint AS calls, coalesce(sum(rows), 0)::bigint AS rows
                  FROM {self.name}(false) WHERE dbid = %s AND toplevel""",
            self.database,
        )
        return found


@contextmanager
def _view(observer: Observer, database: int) -> Iterator[_View]:
    """Yield the view, through a session in the database that contains it.

    Raises:
        Unseen: the extension's objects are missing, and cannot be made.
    """
    if found := find_extension(observer):
        yield _View(observer, found.view, database)
        return
    with making_extensions(observer.cluster, [EXTENSION], dbname=_MAINTENANCE) as made:
        reader = Observer(observer.cluster, made)
        observer.own_sessions.add(reader.backend_pid)
        found = find_extension(reader)
        assert found is not None, "it has just been made"
        yield _View(reader, found.view, database)
        observer.own_sessions.discard(reader.backend_pid)


def _uses_in(view: str, server_version_num: int) -> str:
    """Return the query whose columns are fields of `StatementUse`; its times are in seconds."""
    kind = "shared_" if server_version_num >= 170000 else ""
    jit = "NULL::double precision"
    if server_version_num >= 150000:
        kinds = ("generation", "inlining", "optimization", "emission")
        jit = f"({' + '.join(f'jit_{kind}_time' for kind in kinds)}) / 1000"
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


_COUNTED = tuple(one.name for one in fields(StatementUse) if one.name != "query")


def _combined(
    one: StatementUse, other: StatementUse, how: Callable[[Any, Any], Any]
) -> StatementUse:
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in _COUNTED}
    values: dict[str, Any] = {
        name: None if None in pair else how(*pair) for name, pair in pairs.items()
    }
    return StatementUse(one.query, **values)
