"""How does a collector use a session of its own, the extensions that it needs, and the workload's statements?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import sql

from pgdrag.collectors import Observer, Unseen
from pgdrag.errors import PgdragError, ServerLost
from pgdrag.model.measurement import Example
from pgdrag.servers.roles import EXTENSIONS_SCHEMA, QUIET_SETTINGS

if TYPE_CHECKING:
    from pgdrag.collectors._observed import ObservedCluster

T = TypeVar("T")

SAMPLE_EVERY_S = 2.0
# A long window needs fewer samples: after this many of them, they are taken less often.
FREQUENT_SAMPLES = 30
RARE_SAMPLE_EVERY_S = 5.0
_EARLY_S = 0.1  # collectors are asked once a second, now and then a little early
# BEGIN, COMMIT, CALL … have no plan.
_PLANNED = frozenset({"select", "insert", "update", "delete", "merge", "values", "with", "table"})
_FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(\w+)", re.DOTALL)

# Only what would end a session, or count it as the workload's, is not left to the treatment.
SESSION = """
SELECT set_config(name, value, false)
  FROM (VALUES ('lock_timeout', '0'),
               ('idle_in_transaction_session_timeout', '0'),
               ('transaction_timeout', '0'),
               ('client_min_messages', 'warning')) AS wanted (name, value)
 WHERE current_setting(name, true) IS NOT NULL
"""

# For a superuser's session: its errors and statements must not appear as the workload's.
QUIET = f"""
SELECT set_config(name, value, false)
  FROM (VALUES {", ".join(map(str, QUIET_SETTINGS.items()))}) AS quiet (name, value)
 WHERE current_setting('is_superuser') = 'on' AND current_setting(name, true) IS NOT NULL
"""

_FOUND = """
SELECT extname::text, quote_ident(nspname)
  FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
 WHERE extname = ANY (%s)
"""


def is_due(waited_s: float, *, samples: int) -> bool:
    """Tell whether to sample again, so long after the last sample began, and after so many that showed something."""
    every_s = RARE_SAMPLE_EVERY_S if samples > FREQUENT_SAMPLES else SAMPLE_EVERY_S
    return waited_s >= every_s - _EARLY_S


def evenly(items: Sequence[T], most: int) -> list[T]:
    """Return at most `most` items, evenly spread, with the first and the last."""
    step = max((len(items) - 1) / (most - 1), 1.0)
    return [items[round(at * step)] for at in range(min(len(items), most))]


def open_session(
    observer: Observer,
    name: str,
    prepare: Callable[[psycopg.Connection[Any]], T],
    *,
    role: str | None = None,
) -> T:
    """Open another session for a collector, and return what `prepare` returns for it; the session is closed if that fails.

    Args:
        role: whose it is, where it runs what the workload sends: see `probe_role`.

    Raises:
        Unseen: there is no session, or the server refused.
    """
    try:
        role = role or observer.cluster.superuser
        connection = observer.cluster.connect(application_name=name, role=role)
    except (PgdragError, psycopg.Error) as error:
        raise Unseen(f"could not open a session: {refusal(error)}") from error
    try:
        made = prepare(connection)
    except Unseen:
        close_session(observer, connection)
        raise
    except psycopg.Error as error:
        close_session(observer, connection)
        raise Unseen(f"the server refused: {refusal(error)}") from error
    observer.own_sessions.add(connection.info.backend_pid)
    return made


def probe_role(observer: Observer) -> str:
    """Return who may run what the workload sends: a superuser only where the workload is one.

    Nothing that another role's session does before makes up for that: SQL of a workload may undo it.
    """
    cluster = observer.cluster
    return cluster.load_superuser if observer.as_superuser else cluster.probe_role


def close_session(observer: Observer, connection: psycopg.Connection[Any]) -> None:
    """End a session that `open_session` opened; it may be lost already."""
    with suppress(psycopg.Error):
        observer.own_sessions.discard(connection.info.backend_pid)
        connection.close()


def refusal(error: psycopg.Error | PgdragError) -> str:
    """Return the server's own words, or ours."""
    if isinstance(error, PgdragError):
        return error.message
    return error.diag.message_primary or type(error).__name__


def extension_schemas(observer: Observer, names: Sequence[str]) -> dict[str, str]:
    """Return the schema of each extension, quoted, in the workload's database; made first where it is missing.

    Raises:
        Unseen: one cannot be made.
    """
    found = dict(observer.query(_FOUND, list(names)))
    if lacking := [name for name in names if name not in found]:
        with making_extensions(observer.cluster, lacking):
            found = dict(observer.query(_FOUND, list(names)))
    return found


@contextmanager
def making_extensions(
    cluster: ObservedCluster, names: Sequence[str], *, dbname: str = ""
) -> Iterator[psycopg.Connection]:
    """Yield a session that has made extensions.

    Args:
        names: of the extensions.
        dbname: where, if not in the workload's database.

    Raises:
        Unseen: they cannot be made.
    """
    if not cluster.is_throw_away:
        raise Unseen(f"extension {names[0]} is not in database {dbname or cluster.database}")
    try:
        conninfo = cluster.conninfo(application_name="pgdrag collectors")
        with psycopg.connect(
            conninfo, dbname=dbname or cluster.database, autocommit=True
        ) as connection:
            # The treatment's defaults must not prevent it.
            connection.execute("SET statement_timeout = '15s'")
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("SET client_min_messages = warning")
            connection.execute(QUIET.encode())
            # In the workload's database it exists, and is the workload's.
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {EXTENSIONS_SCHEMA}".encode())
            for name in names:
                create = f"CREATE EXTENSION IF NOT EXISTS {name} SCHEMA {EXTENSIONS_SCHEMA}"
                connection.execute(create.encode())
            yield connection
    except (psycopg.Error, ServerLost) as error:
        message = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise Unseen(f"extension {names[0]} cannot be created: {message}") from error


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
        raise Unseen(f"the workload's statements are unknown: {error.message}") from error
    if not by_text:
        raise Unseen("the workload does not declare its statements")
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
