"""Which statements ran in the window, and what did they take? Readings of pg_stat_statements, added up.

The view is read once a minute, so that an eviction or a reset loses at most one minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from pgdrag.collectors import OWN_MARK, Observer, Unseen, attempt
from pgdrag.collectors._statements_view import EXTENSION, find_extension
from pgdrag.twins.masking import is_plannable, masked_statement
from pgdrag.twins.model import Statement, Workload
from pgdrag.units import significant

MOST_STATEMENTS = 1000
_MOST_TEXT = 100_000  # characters of a statement
_OLDEST = (1, 9)
_HIDDEN = "<insufficient privilege>"
_LOCK_TIMEOUT = "500ms"
# pgdrag's own: marked, or what prepares a session, or the look for holders of the horizon.
OWN = (OWN_MARK, "SET statement_timeout", "pg_prepared_xacts", "/* pgdrag")

_SIGHT: LiteralString = """
SELECT pg_has_role('pg_read_all_stats', 'USAGE'),
       ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0)
"""
_COUNTS: LiteralString = "SELECT dealloc, stats_reset FROM {view}_info"
# Names that a column has had, the newest first, and what it is worth in seconds.
_COUNTED: Mapping[str, tuple[tuple[LiteralString, ...], float]] = {
    "calls": (("calls",), 1),
    "rows": (("rows",), 1),
    "exec_s": (("total_exec_time",), 1e-3),
    "plans": (("plans",), 1),
    "plan_s": (("total_plan_time",), 1e-3),
    "shared_hit": (("shared_blks_hit",), 1),
    "shared_read": (("shared_blks_read",), 1),
    "shared_dirtied": (("shared_blks_dirtied",), 1),
    "shared_written": (("shared_blks_written",), 1),
    "local_hit": (("local_blks_hit",), 1),
    "local_read": (("local_blks_read",), 1),
    "local_dirtied": (("local_blks_dirtied",), 1),
    "local_written": (("local_blks_written",), 1),
    "temp_read": (("temp_blks_read",), 1),
    "temp_written": (("temp_blks_written",), 1),
    "wal_records": (("wal_records",), 1),
    "wal_full_pages": (("wal_fpi",), 1),
    "wal_bytes": (("wal_bytes",), 1),
    "io_read_s": (("shared_blk_read_time", "blk_read_time"), 1e-3),
    "io_write_s": (("shared_blk_write_time", "blk_write_time"), 1e-3),
    "temp_read_s": (("temp_blk_read_time",), 1e-3),
    "temp_write_s": (("temp_blk_write_time",), 1e-3),
    "jit_generation_s": (("jit_generation_time",), 1e-3),
    "jit_inlining_s": (("jit_inlining_time",), 1e-3),
    "jit_optimization_s": (("jit_optimization_time",), 1e-3),
    "jit_emission_s": (("jit_emission_time",), 1e-3),
    "parallel_workers": (("parallel_workers_launched",), 1),
}
_LASTING: Mapping[str, LiteralString] = {
    "min_s": "min_exec_time",
    "max_s": "max_exec_time",
    "mean_s": "mean_exec_time",
    "stddev_s": "stddev_exec_time",
}

Key = tuple[int, int, bool]  # role, identifier, whether a client sent it


@dataclass(frozen=True)
class SeenStatement:
    """A statement of the window: its text as the view has it, and its totals."""

    role: int
    text: str
    is_toplevel: bool
    totals: Mapping[str, float]
    lasting: Mapping[str, float]
    identifier: int = 0


class StatementAccount:
    """What statements of the session's database took since the first reading.

    Attributes:
        evictions: how often the view forgot statements since then.
        was_reset: the view was reset.
        sees_all: this role may see other roles' statements.
    """

    def __init__(self, observer: Observer) -> None:
        """Take the first reading.

        Raises:
            Unseen: the view is not there, too old, or refuses.
        """
        extension = find_extension(observer)
        if extension is None:
            # Without the database's name: this is kept in the twin.
            raise Unseen(
                f"extension {EXTENSION} is not in this database: CREATE EXTENSION {EXTENSION}"
            )
        if extension.version < _OLDEST:
            version = ".".join(map(str, extension.version))
            raise Unseen(f"{EXTENSION} {version} is too old: ALTER EXTENSION {EXTENSION} UPDATE")
        self._view = extension.view
        [(self.sees_all, columns)] = observer.query(_SIGHT, extension.view)
        # Only columns of this version, under the newest name that it has for them.
        self._columns = {
            name: found
            for name, (names, _) in _COUNTED.items()
            if (found := next((x for x in names if x in columns), None)) is not None
        }
        self.evictions = 0
        self.was_reset = False
        self._info = self._read_info(observer)
        self._last = self._read(observer)
        self._lasting: dict[Key, Mapping[str, float]] = {}
        self._moved: dict[Key, dict[str, float]] = {}
        self._texts: dict[Key, str] = {}
        self.other_databases_calls = 0
        self._other_calls = self._read_other_calls(observer)

    @property
    def columns(self) -> frozenset[str]:
        """What this version of the view counts."""
        return frozenset(self._columns)

    def read(self, observer: Observer, *, is_last: bool = False) -> None:
        """Add what was counted since the last reading.

        Raises:
            Unseen: the server refused or did not answer.
        """
        info, now = self._read_info(observer), self._read(observer)
        evicted = info[0] - self._info[0]
        if info[1] != self._info[1]:
            self.was_reset, evicted = True, info[0]
        self.evictions += max(evicted, 0)
        self._info = info
        for key, (totals, lasting) in now.items():
            then = self._last.get(key)
            growth = _growth(then[0] if then else {}, totals)
            if growth.get("calls", 0) > 0:
                self._lasting[key] = lasting
                moved = self._moved.setdefault(key, dict.fromkeys(growth, 0.0))
                for name, value in growth.items():
                    moved[name] += value
        self._last = now
        # The server reads a file of all texts for it: at the end, and where texts are about to be lost.
        if is_last or evicted > 0:
            self._learn(observer)
        if is_last:
            self.other_databases_calls = max(self._read_other_calls(observer) - self._other_calls, 0)  # fmt: skip

    def seen(self) -> Iterator[SeenStatement]:
        """Yield the statements but pgdrag's own, the longest first; those without a text are `other`."""
        for key, totals in sorted(self._moved.items(), key=lambda each: -_time_s(each[1])):
            text = self._texts.get(key, "")
            if text and text != _HIDDEN and not any(words in text for words in OWN):
                yield SeenStatement(key[0], text, key[2], totals, self._lasting[key], key[1])

    def other(self) -> tuple[int, float]:
        """Return calls and execution time of statements whose text this role does not see, or that were forgotten."""
        found = [x for key, x in self._moved.items() if self._texts.get(key, _HIDDEN) == _HIDDEN]
        return round(sum(x["calls"] for x in found)), sum(x["exec_s"] for x in found)

    def _read_info(self, observer: Observer) -> tuple[int, Any]:
        [(dealloc, reset)] = observer.query(_COUNTS.replace("{view}", self._view))
        return int(dealloc), reset

    def _read(self, observer: Observer) -> dict[Key, tuple[dict[str, float], dict[str, float]]]:
        counted: LiteralString = ", ".join(f"{x}::float8" for x in self._columns.values())
        lasting: LiteralString = ", ".join(_LASTING.values())
        # Without texts: the file that they are in is not read.
        rows = observer.query(
            "SELECT userid::bigint, queryid, toplevel, "
            + counted
            + ", "
            + lasting
            + " FROM "
            + self._view
            + "(false) WHERE queryid IS NOT NULL AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())",
            is_binary=True,
        )
        found = {}
        size = len(self._columns)
        for role, identifier, toplevel, *values in rows:
            totals = {
                name: value * _COUNTED[name][1]
                for name, value in zip(self._columns, values[:size], strict=True)
            }
            lasts = {
                name: value / 1000 for name, value in zip(_LASTING, values[size:], strict=True)
            }
            found[role, identifier, toplevel] = totals, lasts
        return found

    def _read_other_calls(self, observer: Observer) -> int:
        sql: LiteralString = (
            "SELECT coalesce(sum(calls), 0)::bigint FROM "
            + self._view
            + "(false) WHERE dbid <> (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        found = attempt(lambda: observer.query(sql))
        return 0 if isinstance(found, Unseen) else int(found[0][0])

    def _learn(self, observer: Observer) -> None:
        unknown = [identifier for _, identifier, _ in self._moved.keys() - self._texts.keys()]
        if not unknown:
            return
        rows = observer.query(
            "SELECT userid::bigint, queryid, toplevel, query FROM "
            + self._view
            + "(true) WHERE queryid = ANY (%s)"
            + " AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())",
            unknown,
        )
        for role, identifier, toplevel, text in rows:
            if text is not None:
                self._texts[role, identifier, toplevel] = text


def workload(
    account: StatementAccount | None,
    window_s: float,
    roles: Mapping[int, str],
    types: Mapping[str, tuple[tuple[str, ...], str]],
) -> Workload:
    """Return the window's statements without constants; those of one text and role are one.

    Args:
        roles: what roles are called, by their numbers.
        types: of each text the parameters' types, or why they are not known.
    """
    if account is None:
        return Workload(window_s)
    merged: dict[tuple[str, str, bool], tuple[dict[str, float], SeenStatement]] = {}
    for one in account.seen():
        key = told_as(one, roles)
        totals, _ = merged.setdefault(key, (dict.fromkeys(one.totals, 0.0), one))
        for name, value in one.totals.items():
            totals[name] += value
    ranked = sorted(merged.items(), key=lambda each: -_time_s(each[1][0]))
    kept, rest = ranked[:MOST_STATEMENTS], ranked[MOST_STATEMENTS:]
    calls, exec_s = account.other()
    return Workload(
        window_s,
        tuple(
            _statement(at, *key, totals, first, account.columns, types.get(first.text, ((), "")))
            for at, (key, (totals, first)) in enumerate(kept, start=1)
        ),
        evictions=account.evictions,
        was_reset=account.was_reset,
        other_calls=calls + round(sum(totals["calls"] for _, (totals, _) in rest)),
        other_exec_s=exec_s + sum(totals["exec_s"] for _, (totals, _) in rest),
        other_databases_calls=account.other_databases_calls,
    )


def told_as(one: SeenStatement, roles: Mapping[int, str]) -> tuple[str, str, bool]:
    """Return a statement's text, role and is_toplevel as the twin has them: those that are equal in it are one."""
    return masked_statement(one.text)[:_MOST_TEXT], roles.get(one.role, ""), one.is_toplevel


def _statement(
    number: int,
    text: str,
    role: str,
    is_toplevel: bool,
    totals: Mapping[str, float],
    first: SeenStatement,
    columns: frozenset[str],
    types: tuple[tuple[str, ...], str],
) -> Statement:
    def count(name: str) -> int:
        return round(totals[name])

    def seconds(*names: str) -> float | None:
        """Return the sum of the times that this version has; None if it has none of them."""
        return significant(sum(totals[x] for x in names)) if columns.issuperset(names) else None

    return Statement(
        number=number,
        text=text,
        is_plannable=is_plannable(text),
        role=role,
        is_toplevel=is_toplevel,
        calls=count("calls"),
        rows=count("rows"),
        exec_s=significant(totals["exec_s"]),
        plans=count("plans"),
        # Without track_planning and track_io_timing they stay at 0.
        plan_s=seconds("plan_s") if totals["plans"] else None,
        min_s=significant(first.lasting["min_s"]),
        max_s=significant(first.lasting["max_s"]),
        mean_s=significant(first.lasting["mean_s"]),
        stddev_s=significant(first.lasting["stddev_s"]),
        shared_hit=count("shared_hit"),
        shared_read=count("shared_read"),
        shared_dirtied=count("shared_dirtied"),
        shared_written=count("shared_written"),
        local_hit=count("local_hit"),
        local_read=count("local_read"),
        local_dirtied=count("local_dirtied"),
        local_written=count("local_written"),
        temp_read=count("temp_read"),
        temp_written=count("temp_written"),
        wal_records=count("wal_records"),
        wal_full_pages=count("wal_full_pages"),
        wal_bytes=count("wal_bytes"),
        io_s=seconds("io_read_s", "io_write_s") or None,
        temp_io_s=seconds("temp_read_s", "temp_write_s") or None,
        jit_s=seconds("jit_generation_s", "jit_inlining_s", "jit_optimization_s", "jit_emission_s"),
        parallel_workers=count("parallel_workers") if "parallel_workers" in columns else None,
        parameters=types[0],
        parameters_unknown=types[1],
    )


def parameter_types(
    connection: psycopg.Connection[Any],
    statements: Iterable[SeenStatement],
    search_paths: Mapping[int, Sequence[str]],
) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the types of statements' parameters: the server parses them, and runs none.

    Args:
        search_paths: of roles, to be tried one after the other.
    """
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    numbers: dict[str, tuple[list[int], str]] = {}
    for one in statements:
        if one.text in numbers or "$" not in one.text or not is_plannable(one.text):
            continue
        if len(numbers) >= MOST_STATEMENTS:
            break
        for path in search_paths.get(one.role, ('"$user", public',)):
            numbers[one.text] = _described(connection, one.text, path)
            if numbers[one.text][0]:
                break
    every = sorted({oid for oids, _ in numbers.values() for oid in oids})
    rows = connection.execute(
        "SELECT /* pgdrag */ oid::bigint, format_type(oid, NULL) FROM unnest(%s::oid[]) AS oid", (every,)
    ).fetchall()  # fmt: skip
    names = {int(oid): str(name) for oid, name in rows}
    for text, (oids, why) in numbers.items():
        found[text] = tuple(names.get(oid, "") for oid in oids), why
    return found


def _described(
    connection: psycopg.Connection[Any], text: str, search_path: str
) -> tuple[list[int], str]:
    """Return the types' numbers, in a transaction of its own, so that no lock of it stays."""
    try:
        connection.execute("BEGIN READ ONLY")
        connection.execute(
            "SELECT /* pgdrag */ set_config('lock_timeout', %s, true), set_config('search_path', %s, true)",
            (_LOCK_TIMEOUT, search_path),
        )
        prepared = connection.pgconn.prepare(b"", text.encode())
        if prepared.status != psycopg.pq.ExecStatus.COMMAND_OK:
            # Only its code: a message may quote what is in the statement.
            state = (prepared.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode()
            return [], _WHY.get(state, f"the server says {state}")
        described = connection.pgconn.describe_prepared(b"")
        return [described.param_type(at) for at in range(described.nparams)], ""
    except psycopg.Error as error:
        return [], f"the server says {error.sqlstate or 'nothing'}"
    finally:
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")


_WHY = {
    "42601": "with parameters in place of its constants it is not valid SQL",
    "42P01": "a table was not found: it is temporary, gone, or on another search_path",
    "42P18": "the type of a parameter cannot be told",
    "42883": "with parameters of unknown types a function or operator was not found",
    "42725": "with parameters of unknown types several functions or operators fit",
    "55P03": "its tables were locked",
    "25006": "the server is a standby",
}


def _growth(then: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Return the difference; what was forgotten meanwhile and came again counts from 0."""
    if not then or then["calls"] > now["calls"]:
        return dict(now)
    return {name: max(value - then[name], 0.0) for name, value in now.items()}


def _time_s(totals: Mapping[str, float]) -> float:
    return totals["exec_s"] + totals["plan_s"]
