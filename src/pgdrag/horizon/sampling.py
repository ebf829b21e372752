"""Which sessions, prepared transactions, standbys and slots of a server hold back the horizon, and since when?

No row version that one of them may still want is removed, however dead: all vacuums of its database stop at
the oldest of them. Of a statement's text, which may contain secrets, only the first word is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, LiteralString

import psycopg


class ObjectType(StrEnum):
    """What a sample covers."""

    SESSION = "session"
    STANDBY = "standby"
    PREPARED = "prepared"
    SLOT = "slot"


# A vacuum's own snapshot is ignored by other vacuums, and a parallel worker's is its leader's. A role that may
# not see other roles' sessions sees their xid and xmin, but not their state or start. A physical walsender has
# no database; one that copies tables for a subscription has one and is a session like any other. A lost slot
# still shows its xmin but no longer holds it.
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
   AND NOT (backend_type = 'autovacuum worker' AND query ~ '^autovacuum: VACUUM')
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
# Those that hold back the rows of the connection's database.
_OF_DATABASE: LiteralString = f"""
  FROM ({_CENSUS.replace("%s", "'{}'")})
       AS held (at_s, object_type, name, database, "user", application, address, state, xid, xmin, age,
                catalog_age, since_s, statement_since_s, changed_s, verb, slot_type, reader, is_temporary)
 WHERE age IS NOT NULL AND database IN ('', current_database())
"""
# Slots and standbys need not say since when; a session that hides it may be a short one.
_LONG: LiteralString = """
   AND (at_s - coalesce(since_s, statement_since_s) >= 1 OR object_type IN ('slot', 'standby'))
"""
# Settings that an older server does not have are left out.
_SESSION: LiteralString = """
SELECT set_config(name, value, false)
  FROM (VALUES ('default_transaction_read_only', 'on'), ('statement_timeout', %s),
               ('lock_timeout', %s), ('idle_session_timeout', '0'), ('jit', 'off')) AS wanted (name, value)
 WHERE current_setting(name, true) IS NOT NULL
"""


@dataclass(frozen=True)
class HolderSample:
    """One session, prepared transaction or slot in one sample; times are the server's, Unix seconds.

    Attributes:
        at_s: when the sample was taken.
        name: a session's process number, a prepared transaction's identifier, a slot's name.
        database: "" if it holds back all of them, as standbys and slots do.
        application, address: of a session's client; of a slot, its reader's. "" where unknown or local.
        state: of a session; "" if hidden. Of a slot: whether it is in use, its type and its database.
        xid: of its transaction, if assigned.
        xmin: of its snapshot.
        age: transactions begun since the older of the two; None if it holds back no row version.
        catalog_age: of a slot, the same for the system catalogs.
        since_s: when its transaction began or was prepared; None if unknown.
        statement_since_s: when its last statement began.
        changed_s: when its state last changed; for an inactive slot, since PostgreSQL 17, inactive_since.
        verb: the first word of its last statement, in capitals.
        reader: the process ID of a slot's reader, if it has one.
        is_temporary: the slot is dropped when its session ends.
    """

    at_s: float
    object_type: ObjectType
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
    def holds(self) -> bool:
        """Whether it may keep dead rows; on an idle server a standby reports the next transaction, which keeps none."""
        if self.object_type in (ObjectType.STANDBY, ObjectType.SLOT):
            return bool(self.age)
        return self.age is not None

    @property
    def held_s(self) -> float | None:
        """For how long it has; None for a slot and a standby, which do not say, and for a session that hides it."""
        since_s = self.since_s if self.since_s is not None else self.statement_since_s
        if since_s is None or self.object_type in (ObjectType.STANDBY, ObjectType.SLOT):
            return None
        return max(self.at_s - since_s, 0.0)

    @property
    def who(self) -> str:
        """Which one it is, independent of what it does: "session 4711"."""
        called = {"prepared": "prepared transaction", "slot": "replication slot"}
        return f"{called.get(self.object_type, self.object_type)} {self.name}"

    @property
    def words(self) -> str:
        """Which one it is and what it does: "session 4711 (idle in transaction, psql)"."""
        does = ", ".join(filter(None, (self.state, self.application)))
        return f"{self.who} ({does})" if does else self.who

    def concerns(self, database: str) -> bool:
        """Whether it holds back the rows of this database."""
        return self.age is not None and self.database in ("", database)


def make_read_only(connection: psycopg.Connection, *, timeout_s: float) -> None:
    """Make a session read-only, and limit how long it waits for a lock or an answer."""
    timeout_ms = str(round(timeout_s * 1000))
    connection.execute(_SESSION, (timeout_ms, timeout_ms))


def sample_holders(
    connection: psycopg.Connection, pids: Iterable[int] = ()
) -> Sequence[HolderSample]:
    """Return every holder on the server, and the given sessions even if they hold nothing."""
    return _samples(connection.execute(_CENSUS, (list(pids),)).fetchall())


Query = Callable[[LiteralString], Sequence[tuple[Any, ...]]]


def read_holders(query: Query, *, with_short: bool = True) -> list[HolderSample]:
    """Return who holds back the horizon of the connection's database, the oldest first.

    Args:
        query: runs a statement and returns its rows.
        with_short: also sessions and prepared transactions that have held for less than a second.
    """
    long = "" if with_short else _LONG
    return _samples(query(f"SELECT * {_OF_DATABASE}{long} ORDER BY age DESC, since_s"))


def read_oldest(query: Query, *, since: int | None = None) -> tuple[int, int | None]:
    """Return how many transactions have begun since the oldest that any snapshot may still need; 0 if none does.

    Args:
        query: runs a statement and returns its rows.
        since: the number of a transaction; how many have begun since that is the second number, counted
            to the same moment.
    """
    # A transaction's number as rows have it: without the epoch.
    asked = "NULL::integer" if since is None else f"age('{since % 2**32}'::xid)"
    ((oldest, wanted),) = query(f"SELECT coalesce(max(age), 0), {asked} {_OF_DATABASE}")
    return int(oldest), None if wanted is None else int(wanted)


def _samples(rows: Sequence[tuple[Any, ...]]) -> list[HolderSample]:
    return [HolderSample(at_s, ObjectType(kind), *rest) for at_s, kind, *rest in rows]
