"""A repeatable-read transaction: it sees the database as it was, for as long as it is open."""

from __future__ import annotations

from pgdrag.horizon.holders.session import SessionHolder


class SnapshotHolder(SessionHolder):
    """A session that is idle in a REPEATABLE READ transaction with a snapshot, and has written nothing."""

    name = "snapshot"
    summary = "a REPEATABLE READ transaction that has read, idle"
    statements = ("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "SELECT 1")
    column = "backend_xmin"
