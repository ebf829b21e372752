"""Holders that are an open transaction of a session of pgdrag's own, and how it is seen that they hold."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, ClassVar, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo

from pgdrag.errors import ServerError
from pgdrag.horizon.holders import LOST_SILENTLY, WATCHER_NAME, Held, Holder, HoldPlace
from pgdrag.host.error_words import words_of

CONNECT_TIMEOUT_S = 5
VERIFY_TIMEOUT_S = 10.0
_POLL_S = 0.01
_TRIES = 20

# What a treatment does to sessions that take too long must not reach those that are to take long.
_UNBOUNDED: LiteralString = """
SELECT set_config(name, value, false)
  FROM (VALUES ('statement_timeout', '0'),
               ('lock_timeout', '0'),
               ('idle_session_timeout', '0'),
               ('transaction_timeout', '0'),
               ('idle_in_transaction_session_timeout', %s::text)) AS wanted (name, value)
 WHERE current_setting(name, true) IS NOT NULL
"""


def open_session(place: HoldPlace, *, application_name: str | None = None) -> psycopg.Connection:
    """Return a session in autocommit mode that the server ends after `place.longest_s` of a transaction alone.

    Raises:
        ServerError: the server does not answer in time, or refuses.
    """
    name = application_name or place.application_name
    longest_ms = 0 if place.longest_s is None else max(round(place.longest_s * 1000), 1)
    conninfo = make_conninfo(
        place.conninfo, application_name=name, connect_timeout=CONNECT_TIMEOUT_S
    )
    try:
        connection = psycopg.connect(conninfo, autocommit=True)
    except psycopg.Error as error:
        raise _not_opened(name, error) from error
    try:
        for _ in range(_TRIES - 1):
            # A time-out of a millisecond may even end this, sometimes.
            with suppress(psycopg.errors.QueryCanceled):
                connection.execute(_UNBOUNDED, [str(longest_ms)])
                return connection
        connection.execute(_UNBOUNDED, [str(longest_ms)])
    except psycopg.Error as error:
        connection.close()
        raise _not_opened(name, error) from error
    return connection


def _not_opened(application_name: str, error: psycopg.Error) -> ServerError:
    return ServerError(f'could not open session "{application_name}": {words_of(error)}')


def wait_until_seen(
    place: HoldPlace, query: LiteralString, parameters: dict[str, Any], what: str
) -> None:
    """Wait until a query, asked by another session, returns true.

    Raises:
        ServerError: it does not within `VERIFY_TIMEOUT_S`, or cannot be asked; `what` completes "the
            server does not show …".
    """
    deadline = time.monotonic() + VERIFY_TIMEOUT_S
    try:
        with open_session(place, application_name=WATCHER_NAME) as watcher:
            while watcher.execute(query, parameters).fetchone() != (True,):
                if time.monotonic() >= deadline:
                    raise ServerError(
                        f"the server does not show {what} after {VERIFY_TIMEOUT_S:g} s"
                    )
                time.sleep(_POLL_S)
    except psycopg.Error as error:
        raise ServerError(f"the server does not show {what}: {words_of(error)}") from error


class HeldSession(Held):
    """A hold that lasts as long as a session's transaction; ending the session ends it, without an answer."""

    def __init__(self, connection: psycopg.Connection, who: str) -> None:
        super().__init__(who, connection.close)
        self._connection = connection
        self._last_words = ""
        connection.add_notice_handler(self._note)

    def lost(self) -> str:
        """Return what the server said when it ended the session, or that it is gone."""
        if self.is_released:
            return ""
        line = self._connection.pgconn
        try:
            line.consume_input()
            line.is_busy()  # reads what has come: the server's last words
            line.consume_input()
        except psycopg.Error:
            line.is_busy()  # they may have come together with the end
            return self._last_words or LOST_SILENTLY
        return ""

    def _note(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized in ("FATAL", "PANIC"):
            self._last_words = notice.message_primary or ""


class SessionHolder(Holder):
    """A holder that is a session with an open transaction; a subclass says what it has done in that."""

    is_bounded_by_session = True
    statements: ClassVar[tuple[LiteralString, ...]]
    # Of the session in pg_stat_activity: what it does while it holds, and where the hold shows.
    state: ClassVar[LiteralString] = "idle in transaction"
    column: ClassVar[LiteralString]

    def hold(self, place: HoldPlace) -> Held:
        connection = open_session(place)
        try:
            for statement in self.statements:
                connection.execute(statement)
            # Asked in the transaction: a pooler gives it one server process until its end.
            (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
            held = self.held(connection, f"session {pid}", place)
            seen: LiteralString = (
                "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = %(pid)s"
                " AND state = '" + self.state + "' AND " + self.column + " IS NOT NULL"
            )
            wait_until_seen(place, seen, {"pid": pid}, f"that session {pid} holds the horizon")
        except psycopg.Error as error:
            connection.close()
            message = f"could not hold the horizon by a {self.name}: {words_of(error)}"
            raise ServerError(message) from error
        except BaseException:
            connection.close()
            raise
        return held

    def held(self, connection: psycopg.Connection, who: str, place: HoldPlace) -> HeldSession:
        """Return the hold that the session is, once its statements have run."""
        return HeldSession(connection, who)


class TransactionHolder(SessionHolder):
    """A session that is idle in a transaction which has asked for its number.

    Whoever vacuums must keep what it may have written beside.
    """

    name = "transaction"
    summary = "an idle transaction with a transaction ID"
    statements = ("BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT pg_current_xact_id()")
    column = "backend_xid"


class SnapshotHolder(SessionHolder):
    """A session that is idle in a REPEATABLE READ transaction with a snapshot, and has written nothing."""

    name = "snapshot"
    summary = "an idle REPEATABLE READ transaction that has read"
    statements = ("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "SELECT 1")
    column = "backend_xmin"


class CursorHolder(SessionHolder):
    """A session that is idle in a READ COMMITTED transaction with an open cursor.

    The cursor reads no table, so that it locks none: what holds is its query's snapshot.
    """

    name = "cursor"
    summary = "an open cursor in an idle READ COMMITTED transaction"
    statements = (
        "BEGIN ISOLATION LEVEL READ COMMITTED",
        "DECLARE pgdrag_holder CURSOR FOR SELECT generate_series(1, 1000)",
        "FETCH 1 FROM pgdrag_holder",
    )
    column = "backend_xmin"
