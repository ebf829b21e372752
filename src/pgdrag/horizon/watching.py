"""Who may still want old row versions of this database, how old are those, and since when?

No version that a snapshot, a transaction, a prepared transaction or a slot may still want is removed,
however dead: all of the database's vacuums stop at the oldest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, LiteralString

SeenKind = Literal["session", "standby", "prepared transaction", "replication slot"]
Query = Callable[[LiteralString], Sequence[tuple[Any, ...]]]

# Who has what oldest transaction, as ages; those of other databases hold back their own. A vacuum's
# own snapshot holds nobody back. A standby with feedback is the session that streams to it, or its slot;
# neither says since when. That a slot is lost, and keeps nothing any more, shows beside what it kept.
_HOLDERS: LiteralString = """
SELECT *
  FROM (SELECT CASE WHEN is_standby THEN 'standby' ELSE 'session' END,
               pid::text, coalesce(state, ''), coalesce(application_name, ''), backend_xid IS NOT NULL,
               greatest(age(backend_xmin), age(backend_xid)),
               CASE WHEN NOT is_standby
                    THEN extract(epoch FROM clock_timestamp() - coalesce(xact_start, query_start, backend_start))
               END
          FROM pg_stat_activity,
               LATERAL (SELECT datname IS NULL
                               AND pid IN (SELECT sender.pid FROM pg_stat_get_wal_senders() AS sender))
                       AS streams (is_standby)
         WHERE pid <> pg_backend_pid()
           AND (datname = current_database() OR datname IS NULL)
           AND NOT (backend_type = 'autovacuum worker' AND query LIKE 'autovacuum: VACUUM%')
        UNION ALL
        SELECT 'prepared transaction', gid, '', '', true, age(transaction),
               extract(epoch FROM clock_timestamp() - prepared)
          FROM pg_prepared_xacts
         WHERE database = current_database()
        UNION ALL
        SELECT 'replication slot', slot_name, '', '', false, age(xmin), NULL
          FROM pg_replication_slots
         WHERE wal_status IS DISTINCT FROM 'lost')
       AS held (kind, name, state, application, has_xid, age, held_s)
 WHERE age IS NOT NULL
"""
_OLDEST_FIRST: LiteralString = " ORDER BY age DESC, held_s DESC NULLS LAST"
# Slots and standbys need not say since when: of a session that hides it, nobody knows that it is not short.
_LONG: LiteralString = (
    " AND (held_s >= 1 OR held_s IS NULL AND kind IN ('replication slot', 'standby'))"
)


@dataclass(frozen=True)
class SeenHolder:
    """Somebody who may still want old row versions.

    Attributes:
        name: the process number of a session (a standby's is the one that streams to it), the
            identifier of a prepared transaction, the slot's name.
        state: of the session, as pg_stat_activity has it; "" where there is none, or it is hidden.
        application: of the session, or "".
        has_xid: it is a transaction that has written, or has asked for its number.
        age: transactions begun since their oldest.
        held_s: for how long they have; None for a slot and a standby, which do not say, and for a session
            that this role may not look at.
    """

    kind: SeenKind
    name: str
    state: str
    application: str
    has_xid: bool
    age: int
    held_s: float | None

    @property
    def who(self) -> str:
        """Which one it is, whatever it does meanwhile: "session 4711"."""
        return f"{self.kind} {self.name}"

    @property
    def words(self) -> str:
        """Which one it is and what it does: "session 4711 (idle in transaction, psql)"."""
        does = ", ".join(filter(None, (self.state, self.application)))
        return f"{self.who} ({does})" if does else self.who


def read_holders(query: Query) -> list[SeenHolder]:
    """Return who holds the horizon of the connection's database back, the oldest first.

    Args:
        query: runs a statement and returns its rows.
    """
    return _seen(query(_HOLDERS + _OLDEST_FIRST))


def read_long_holders(query: Query) -> list[SeenHolder]:
    """Return those that have held for a second or longer, and slots; the oldest first."""
    return _seen(query(_HOLDERS + _LONG + _OLDEST_FIRST))


def read_oldest(query: Query, *, since: int | None = None) -> tuple[int, int | None]:
    """Return how many transactions have begun since the oldest that somebody may still want; 0: nobody does.

    Args:
        query: runs a statement and returns its rows.
        since: the number of a transaction; how many have begun since that is the second number, counted
            to the same moment.
    """
    # A transaction's number as rows have it: without the epoch.
    asked = "NULL::integer" if since is None else f"age('{since % 2**32}'::xid)"
    ((oldest, wanted),) = query(f"SELECT coalesce(max(age), 0), {asked} FROM ({_HOLDERS}) AS held")
    return int(oldest), None if wanted is None else int(wanted)


def _seen(rows: Sequence[tuple[Any, ...]]) -> list[SeenHolder]:
    return [
        SeenHolder(
            kind,
            name,
            state,
            application,
            has_xid,
            age,
            None if held_s is None else max(float(held_s), 0.0),
        )
        for kind, name, state, application, has_xid, age, held_s in rows
    ]
