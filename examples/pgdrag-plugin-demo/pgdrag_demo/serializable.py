"""A SERIALIZABLE transaction that has read and then idles: a holder of the horizon.

`horizon = { holder = "serializable" }` uses it. The base class opens the session, bounds it on the
server's side, waits until the server shows that it holds, and releases it.
"""

from __future__ import annotations

from pgdrag.horizon.holders.session import SessionHolder


class SerializableHolder(SessionHolder):
    """A session that is idle in a SERIALIZABLE transaction with a snapshot."""

    name = "serializable"
    summary = "an idle SERIALIZABLE transaction that has read"
    # The first statement that reads takes the snapshot, which is kept until the transaction ends.
    statements = ("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY", "SELECT 1")
    # The column of pg_stat_activity that shows the hold.
    column = "backend_xmin"
