"""An open transaction that has a number: whoever vacuums must keep what it may have written beside."""

from __future__ import annotations

from pgdrag.horizon.holders.session import SessionHolder


class TransactionHolder(SessionHolder):
    """A session that is idle in a transaction which has asked for its number."""

    name = "transaction"
    summary = "an open transaction with a number of its own, idle"
    statements = ("BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT pg_current_xact_id()")
    column = "backend_xid"
