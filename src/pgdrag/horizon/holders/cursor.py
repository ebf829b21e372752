"""A cursor that nobody fetches from: its query's snapshot lasts as long as it is open."""

from __future__ import annotations

from pgdrag.horizon.holders.session import SessionHolder


class CursorHolder(SessionHolder):
    """A session that is idle in a READ COMMITTED transaction with an open cursor.

    The cursor reads no table, so that it locks none: what holds is its snapshot.
    """

    name = "cursor"
    summary = "an open cursor in a READ COMMITTED transaction, idle"
    statements = (
        "BEGIN ISOLATION LEVEL READ COMMITTED",
        "DECLARE pgdrag_holder CURSOR FOR SELECT generate_series(1, 1000)",
        "FETCH 1 FROM pgdrag_holder",
    )
    column = "backend_xmin"
