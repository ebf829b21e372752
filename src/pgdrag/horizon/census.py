"""Who on the whole server may still want old row versions, in every database, and since when?

`horizon.watching` asks for one database's holders, for a collector beside a load. Here is all that the
server tells of each, for people who must decide what to do about them, and for a capture that follows
each from look to look. No statement's text is read, only its first word: it may hold a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, LiteralString

import psycopg

Who = Literal["session", "standby", "prepared", "slot"]

# A vacuum's own snapshot holds nobody back, and a parallel worker's is its leader's. Whoever may not look
# at other roles' sessions is told their transactions, but not what they do or since when. A standby streams
# from no database; who copies a database's tables by the same protocol, as a subscription does at first, is
# a session like any other. A lost slot still shows what it kept, and keeps it no more.
_CENSUS: LiteralString = """
SELECT extract(epoch FROM clock_timestamp())::float8,
       CASE WHEN datname IS NULL AND pid IN (SELECT sender.pid FROM pg_stat_get_wal_senders() AS sender)
            THEN 'standby' ELSE 'session' END,
       pid::text, coalesce(datname, ''), coalesce(usename, ''), coalesce(application_name, ''),
       coalesce(host(client_addr), ''), coalesce(state, ''), backend_xid::text, backend_xmin::text,
       greatest(age(backend_xmin), age(backend_xid)), NULL::int,
       extract(epoch FROM xact_start)::float8, extract(epoch FROM query_start)::float8,
       extract(epoch FROM state_change)::float8,
       coalesce(upper(substring(query FROM '^\\s*([A-Za-z]+)')), ''), '', NULL::int, false
  FROM pg_stat_activity
 WHERE pid <> pg_backend_pid()
   AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL OR pid = ANY (%s))
   AND coalesce(backend_type, '') <> 'parallel worker'
   AND NOT (backend_type = 'autovacuum worker' AND query LIKE 'autovacuum: VACUUM%%')
   AND NOT (coalesce(state, '') = 'active' AND query ~* '^\\s*vacuum\\M' AND backend_xid IS NULL)
UNION ALL
SELECT extract(epoch FROM clock_timestamp())::float8, 'prepared', gid, database, owner, '', '', '',
       transaction::text, transaction::text, age(transaction), NULL,
       extract(epoch FROM prepared)::float8, NULL, NULL, '', '', NULL, false
  FROM pg_prepared_xacts
UNION ALL
SELECT extract(epoch FROM clock_timestamp())::float8, 'slot', slot_name, '', '',
       coalesce(application_name, ''), coalesce(host(client_addr), ''),
       concat_ws(' ', CASE WHEN active THEN 'in use' ELSE 'not in use' END, slot_type,
                 'of ' || quote_ident(database)),
       NULL, coalesce(xmin, catalog_xmin)::text, age(xmin), age(catalog_xmin), NULL, NULL,
       extract(epoch FROM (to_jsonb(slot) ->> 'inactive_since')::timestamptz)::float8, '',
       slot_type, active_pid, temporary
  FROM pg_replication_slots AS slot LEFT JOIN pg_stat_activity AS reader ON reader.pid = slot.active_pid
 WHERE (xmin IS NOT NULL OR catalog_xmin IS NOT NULL) AND wal_status IS DISTINCT FROM 'lost'
"""
# Settings that an older server does not have are left out.
_SESSION: LiteralString = """
SELECT set_config(name, value, false)
  FROM (VALUES ('default_transaction_read_only', 'on'), ('statement_timeout', %s),
               ('lock_timeout', %s), ('idle_session_timeout', '0'), ('jit', 'off')) AS wanted (name, value)
 WHERE current_setting(name, true) IS NOT NULL
"""


@dataclass(frozen=True)
class Sighting:
    """One session, prepared transaction or slot at one look; times are the server's, Unix seconds.

    Attributes:
        at_s: when it was looked at.
        name: a session's process number, a prepared transaction's identifier, a slot's name.
        database: "" for what holds all of them back: standbys, and slots, whatever those decode.
        application, address: of a session's client; of a slot, its reader's. "" where unknown or local.
        state: of a session; "" where it is hidden. Of a slot: whether it is in use, its type, and what it
            decodes.
        xid: its transaction's number, where it has one.
        xmin: the oldest transaction that it may want to see the undone work of.
        age: transactions begun since the oldest; None: it holds no row version back.
        catalog_age: the same of the system catalogs alone, for slots.
        since_s: when its transaction began or was prepared; None where nothing says so.
        statement_since_s, changed_s: when its last statement began, and when its state last changed; of a
            slot that is not in use, since when (from PostgreSQL 17 on).
        verb: the first word of its last statement, in capitals.
        slot_type: of a slot.
        reader: the process number of a slot's reader, where it has one.
        is_temporary: a slot that goes with its reader.
    """

    at_s: float
    who: Who
    name: str
    database: str = ""
    user: str = ""
    application: str = ""
    address: str = ""
    state: str = ""
    xid: str | None = None
    xmin: str | None = None
    age: int | None = None
    catalog_age: int | None = None
    since_s: float | None = None
    statement_since_s: float | None = None
    changed_s: float | None = None
    verb: str = ""
    slot_type: Literal["", "physical", "logical"] = ""
    reader: int | None = None
    is_temporary: bool = False

    @property
    def is_between_statements(self) -> bool:
        """In a transaction, but running nothing."""
        return self.state.startswith("idle in transaction")

    @property
    def is_holding(self) -> bool:
        """Something may have died that it keeps; a standby reports the next transaction, too, on a quiet server."""
        if self.who in ("standby", "slot"):
            return bool(self.age)
        return self.age is not None

    def concerns(self, database: str) -> bool:
        """Whether it holds back the rows of this database."""
        return self.age is not None and self.database in ("", database)


def begin_to_look(connection: psycopg.Connection, *, timeout_s: float) -> None:
    """Have a session change nothing from now on, and wait for no lock or answer for longer than so."""
    timeout_ms = str(round(timeout_s * 1000))
    connection.execute(_SESSION, (timeout_ms, timeout_ms))


def take_census(connection: psycopg.Connection, pids: Iterable[int] = ()) -> Sequence[Sighting]:
    """Return everybody who holds anything back, and these sessions whether or not they do."""
    rows = connection.execute(_CENSUS, (list(pids),)).fetchall()
    return [Sighting(*row) for row in rows]
