"""A holder that is a query which runs for long: its snapshot holds as long as it does."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar, LiteralString

import psycopg
from psycopg.pq import DiagnosticField

from pgdrag.horizon.holders import LOST_SILENTLY, HoldPlace
from pgdrag.horizon.holders.session import HeldSession, SessionHolder

_CANCEL_TIMEOUT_S = 5.0
_LONGEST_S = 1e9  # where nobody says how long it may hold
_ENDED = "its query has ended"


class HeldByQuery(HeldSession):
    """A hold that lasts as long as a session's query."""

    def __init__(self, connection: psycopg.Connection, who: str) -> None:
        super().__init__(connection, who)
        self._why = ""

    def lost(self) -> str:
        line = self._connection.pgconn
        if not self._why and not self.is_released:
            try:
                line.consume_input()
                if not line.is_busy():
                    said = (answer := line.get_result()) and answer.error_field(
                        DiagnosticField.MESSAGE_PRIMARY
                    )
                    self._why = said.decode(errors="replace") if said else _ENDED
            except psycopg.Error:
                self._why = LOST_SILENTLY
        return "" if self.is_released else self._why

    def release(self) -> None:
        """Cancel the query: if its session were only closed, it would continue for a moment."""
        if not self.is_released:
            with suppress(psycopg.Error):
                self._connection.cancel_safe(timeout=_CANCEL_TIMEOUT_S)
        super().release()


class QueryHolder(SessionHolder):
    """A READ COMMITTED session whose query does not end, such as a report; it sleeps and takes no processor.

    The query ends by itself after the longest time that it may hold, and within a second of its client's end.
    """

    name = "query"
    summary = "a query that runs until it is cancelled, such as a report"
    statements: ClassVar[tuple[LiteralString, ...]] = (
        "BEGIN ISOLATION LEVEL READ COMMITTED",
        "SET LOCAL client_connection_check_interval = '1s'",
    )
    state = "active"
    column = "backend_xmin"

    def held(self, connection: psycopg.Connection, who: str, place: HoldPlace) -> HeldByQuery:
        """Send the query, and do not wait for its answer."""
        longest_s = _LONGEST_S if place.longest_s is None else place.longest_s
        connection.pgconn.send_query(f"SELECT pg_sleep({longest_s:.3f})".encode())
        connection.pgconn.flush()
        return HeldByQuery(connection, who)
