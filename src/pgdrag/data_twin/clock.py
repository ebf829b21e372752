"""What time is it in a data twin? That of the capture, from which on the moments of its rows are told.

Timestamps of a twin are tokens around the year 2000. So that `now()` belongs to them, sessions of its load find functions of that
name before the server's own; while a load runs they go on from the moment of the capture, each time anew.
"""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg

from pgdrag.twins.ddl import quoted
from pgdrag.twins.tokens import ANCHOR, moment_of

SCHEMA = "pgdrag_twin_clock"
PATH = f"{SCHEMA}, pg_catalog"  # at the beginning of a session's search_path
_FUNCTIONS = {
    "now": "STABLE",
    "transaction_timestamp": "STABLE",
    "statement_timestamp": "STABLE",
    "clock_timestamp": "VOLATILE",
}
# In hours and less: days would be looked up in the time zone's rules at each call.
_OFFSET: LiteralString = """
SELECT pg_catalog.make_interval(secs => extract(epoch FROM pg_catalog.clock_timestamp() - %s::timestamptz)::float8)::text
"""


def stop_clock(connection: psycopg.Connection[Any], moment: str) -> None:
    """Let it be a moment, for as long as no clock runs; plans name the functions as statements do."""
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
    for name, kind in _FUNCTIONS.items():
        body = f"BEGIN RETURN timestamptz '{_checked(moment)}'; END"
        connection.execute(_function(name, kind, "plpgsql", body))


def start_clock(connection: psycopg.Connection[Any], moment: str) -> None:
    """Let time go on from a moment; the functions are as fast as the server's own, which they become in each plan."""
    row = connection.execute(_OFFSET, (_checked(moment),)).fetchone()
    assert row is not None, "a query without a table has a row"
    for name, kind in _FUNCTIONS.items():
        body = f"SELECT pg_catalog.{name}() - interval '{row[0]}'"
        connection.execute(_function(name, kind, "sql", body))


def _function(name: str, kind: str, language: str, body: str) -> bytes:
    return (
        f"CREATE OR REPLACE FUNCTION {quoted(SCHEMA, name)}() RETURNS timestamptz LANGUAGE {language} {kind} PARALLEL SAFE COST 1 "
        f"AS $body${body}$body$"
    ).encode()


def _checked(moment: str) -> str:
    """Return a moment of a file that anybody may have written, as this program writes it."""
    return (moment_of(moment) or ANCHOR).isoformat()
