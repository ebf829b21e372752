"""How does a server plan a statement for any values of its parameters, under these settings?

From PostgreSQL 16 on EXPLAIN makes a generic plan itself. Before, a prepared statement is explained with NULLs, which leaves
out the partitions that these exclude: whoever compares plans with such a version has all of them made in this way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, LiteralString

import psycopg

from pgdrag.findings.plan_nodes import number_of, tidy
from pgdrag.literals import sql_tokens
from pgdrag.model.recordings import Plan
from pgdrag.twins.mending import explaining, limiting, mended_text, with_calls_of_now
from pgdrag.twins.model import Statement

TIMEOUT_S = 10.0  # of planning one statement
_NAME = "pgdrag_statement"

_PARAMETER = re.compile(r"\$\d+")

_SET: LiteralString = """
SELECT pg_catalog.set_config(name, value, false)
  FROM unnest(%s::text[], %s::text[]) AS given (name, value)
"""
# Those that EXPLAIN (SETTINGS) shows; before version 15 no function tells.
_PLANNER_SETTINGS: LiteralString = """
SELECT name FROM pg_catalog.pg_settings
 WHERE context IN ('user', 'superuser') AND 'EXPLAIN' = ANY (pg_catalog.pg_settings_get_flags(name))
"""
_PLANNER_SETTINGS_14: LiteralString = """
SELECT name FROM pg_catalog.pg_settings
 WHERE context IN ('user', 'superuser')
   AND (category LIKE 'Query Tuning%'
        OR name IN ('work_mem', 'hash_mem_multiplier', 'temp_buffers', 'effective_io_concurrency', 'search_path',
                    'maintenance_io_concurrency', 'max_parallel_workers', 'max_parallel_workers_per_gather',
                    'parallel_leader_participation'))
"""


class PlanningSession:
    """A session that explains statements; it runs none.

    Attributes:
        settings: names of the settings that can change a plan here, and that a session can set.
    """

    def __init__(self, connection: psycopg.Connection[Any], *, is_generic: bool) -> None:
        self._connection = connection
        self._is_generic = is_generic
        self._in_force: Mapping[str, str] = {}
        version = connection.info.server_version
        query = _PLANNER_SETTINGS if version >= 150000 else _PLANNER_SETTINGS_14
        self.settings = frozenset(name for (name,) in connection.execute(query))
        connection.prepare_threshold = None
        # As sessions of the twin begin: what RESET goes back to.
        connection.execute(f"SET statement_timeout = {TIMEOUT_S * 1000:.0f}".encode())

    def plan(self, statement: Statement, settings: Mapping[str, str]) -> Plan | str:
        """Return a statement's plan under these settings alone, or why there is none.

        Raises:
            psycopg.OperationalError: the server is gone.
        """
        try:
            self._set(settings)
        except psycopg.Error as error:
            return self._refusal(error)
        text = with_calls_of_now(with_limits(statement))
        found = self._explain(text)
        if isinstance(found, str) and (mended := mended_text(text)):
            again = self._explain(mended)
            found = found if isinstance(again, str) else again
        return found if isinstance(found, str) else _with_jit(found, self._jit_above())

    def _set(self, settings: Mapping[str, str]) -> None:
        if settings == self._in_force:
            return
        self._in_force = {}
        self._connection.execute("RESET ALL")
        wanted = {**settings, "statement_timeout": f"{TIMEOUT_S:g}s"}
        self._connection.execute(_SET, (list(wanted), list(wanted.values())))
        self._in_force = dict(settings)

    def _explain(self, text: str) -> Plan | str:
        connection = self._connection
        try:
            connection.execute("BEGIN READ ONLY")
            # The extended protocol refuses a text of several statements, and has no EXPLAIN with parameters.
            connection.execute(f"PREPARE {_NAME} AS {text}".encode(), binary=True)
            connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            parameters = 0 if self._is_generic else self._parameters()
            query = explaining(text, _NAME, parameters, is_generic=self._is_generic)
            row = connection.execute(query.encode()).fetchone()
            assert row is not None, "EXPLAIN has an answer"
            return tidy(row[0][0])
        except psycopg.Error as error:
            return self._refusal(error)
        finally:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
                connection.execute("DEALLOCATE ALL")

    def _parameters(self) -> int:
        query: LiteralString = "SELECT pg_catalog.cardinality(parameter_types) FROM pg_catalog.pg_prepared_statements WHERE name = %s"
        row = self._connection.execute(query, (_NAME,)).fetchone()
        return row[0] or 0 if row else 0

    def _jit_above(self) -> float:
        query: LiteralString = "SELECT CASE WHEN current_setting('jit')::bool THEN current_setting('jit_above_cost')::float8 ELSE -1 END"
        row = self._connection.execute(query).fetchone()
        return float(row[0]) if row and row[0] >= 0 else math.inf

    def _refusal(self, error: psycopg.Error) -> str:
        if self._connection.closed:
            raise error
        if isinstance(error, psycopg.errors.QueryCanceled):
            return f"planning took more than {TIMEOUT_S:g} s"
        return error.diag.message_primary or type(error).__name__


def with_limits(statement: Statement) -> str:
    """Return a statement's text with a number where it limits its rows by a parameter: as many rows as a call returned.

    For an unknown limit the planner assumes a tenth of all rows, which no such statement returns. An offset is 0. How many
    rows a limit within parentheses let through nobody knows: that one stays.
    """
    text = statement.text.rstrip().rstrip(";")
    if not statement.calls:
        return text
    rows = max(1, math.ceil(statement.rows / statement.calls))
    depths = _depths(text)
    known = [x for x in limiting(text) if depths[x.begin] == depths[x.end - 1] == 0]
    # The server refuses a text that skips a parameter's number.
    others = (
        int(x[0][1:])
        for x in _PARAMETER.finditer(text)
        if not any(one.begin <= x.start() < one.end for one in known)
    )
    most = max(others, default=0)
    for one in reversed(known):
        if one.number > most:
            shown = f"{one.words} {0 if one.is_offset else rows}"
            text = text[: one.begin] + shown + text[one.end :]
    return text


def _depths(text: str) -> list[int]:
    """Return of each character in how many parentheses it is; within a constant or a name, -1."""
    found: list[int] = []
    depth = 0
    for token in sql_tokens(text):
        depth -= token.text == ")"
        is_plain = token.kind in ("word", "other", "parameter", "number", "blank")
        found += [depth if is_plain else -1] * len(token.text)
        depth += token.text == "("
    return found


def _with_jit(plan: Plan, above: float) -> Plan:
    """Return a plan that tells whether it would be JIT-compiled: EXPLAIN shows that only in a build with JIT."""
    said = {key: value for key, value in plan.items() if key != "JIT"}
    return {**said, "JIT": {}} if number_of(plan, "Total Cost") > above else said
