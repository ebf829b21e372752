"""How is one of the workload's statements explained? Shared by the collectors of plans and of updates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from pgdrag.collectors import Observer, Unseen
from pgdrag.errors import PgdragError
from pgdrag.model.measurement import Example
from pgdrag.model.recordings import Plan

# BEGIN, COMMIT, CALL … have no plan.
_PLANNED = frozenset({"select", "insert", "update", "delete", "merge", "values", "with", "table"})
_FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(\w+)", re.DOTALL)

# Only what would end a session, or count it as the workload's, is not left to the treatment.
SESSION = """
SELECT set_config(name, value, false)
  FROM (VALUES ('lock_timeout', '0'),
               ('idle_in_transaction_session_timeout', '0'),
               ('transaction_timeout', '0'),
               ('client_min_messages', 'warning'),
               ('pg_stat_statements.track', 'none')) AS wanted (name, value)
 WHERE current_setting(name, true) IS NOT NULL
   AND (name NOT LIKE '%.%' OR current_setting('is_superuser') = 'on')
"""

# For a session within the window: its errors and statements must not appear in the log as the workload's.
QUIET = """
SELECT set_config(name, value, false)
  FROM (VALUES ('log_min_messages', 'fatal'),
               ('log_lock_waits', 'off'),
               ('log_statement', 'none'),
               ('log_min_duration_statement', '-1'),
               ('log_duration', 'off')) AS quiet (name, value)
 WHERE current_setting('is_superuser') = 'on'
"""


def planned_examples(observer: Observer) -> tuple[Example, ...]:
    """Return what the workload sends that has a plan, each text once.

    Raises:
        Unseen: it does not say.
    """
    try:
        by_text: dict[str, Example] = {}
        for one in observer.examples():
            if first_word(one.text) in _PLANNED:
                by_text.setdefault(one.text, one)
    except PgdragError as error:
        raise Unseen(f"what the workload sends is not known: {error.message}") from error
    if not by_text:
        raise Unseen("the workload does not say what it sends")
    return tuple(by_text.values())


def first_word(text: str) -> str:
    """Return a statement's first word in lower case, after its comments; "" if it has none."""
    found = _FIRST_WORD.match(text)
    return found[1].lower() if found is not None else ""


def prepare(name: str, example: Example) -> bytes:
    """Return PREPARE for a statement."""
    return f"PREPARE {name} AS {example.text.rstrip().rstrip(';')}".encode()


def explain(name: str, values: Sequence[str | None], options: str) -> sql.Composed:
    """Return EXPLAIN for a prepared statement with values; options end in ", "."""
    given = sql.SQL(", ").join(sql.Literal(value) for value in values)
    return sql.SQL("EXPLAIN ({}FORMAT JSON) EXECUTE {}{}").format(
        sql.SQL(options),
        sql.Identifier(name),
        sql.SQL("({})").format(given) if values else sql.SQL(""),
    )


def refusal(error: psycopg.Error | PgdragError) -> str:
    """Return the server's own words, or ours."""
    if isinstance(error, PgdragError):
        return error.message
    return error.diag.message_primary or type(error).__name__


def tidy(explained: Mapping[str, Any]) -> Plan:
    """Return the plan without what says nothing: what is false, and buffers that are 0."""
    plan = dict(_said(explained["Plan"]))
    return plan | {"JIT": explained["JIT"]} if "JIT" in explained else plan


def _said(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key == "Plans":
            yield key, [dict(_said(child)) for child in value]
        elif value is not False and not (key.endswith(" Blocks") and value == 0):
            yield key, value
