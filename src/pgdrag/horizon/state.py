"""Who holds back a server's horizon now, what does that cost, and what would end it? Read-only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from pgdrag.driver.connection_string import Server
from pgdrag.errors import ServerError
from pgdrag.findings.holds.levels import HolderKind
from pgdrag.horizon.sampling import HolderSample, ObjectType, make_read_only, sample_holders
from pgdrag.horizon.tracking import begin_of, kind_of
from pgdrag.host.error_words import words_of

TIMEOUT_S = 10.0
MOST_TABLES = 10
# Transaction numbers are compared modulo 2^32; the server stops assigning them 3 million before that.
_XID_HALF = 2**31
_RESERVE = 3_000_000

# By the planner's count of pages: the true size would take a lock, and could have to wait for it.
_TABLES: LiteralString = """
SELECT quote_ident(s.schemaname) || '.' || quote_ident(s.relname), s.n_dead_tup, s.n_live_tup,
       greatest(c.relpages, 0)::bigint * current_setting('block_size')::bigint,
       extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::float8
  FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
 WHERE s.n_dead_tup > 0
 ORDER BY s.n_dead_tup DESC
"""
_SERVER: LiteralString = """
SELECT pg_is_in_recovery(), current_user::text, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       age(datfrozenxid), current_setting('autovacuum_freeze_max_age')::bigint,
       current_setting('hot_standby_feedback')::boolean
  FROM pg_database WHERE datname = current_database()
"""


@dataclass(frozen=True)
class HorizonHolder:
    """One holder of the horizon.

    Attributes:
        kind: of holder.
        name: a session's process number, an identifier, a slot's name.
        database: the one whose rows it holds back; "": all.
        is_here: it holds back the rows of the current database.
        age: of its xmin or xid in transactions; None: it holds back only the system catalogs.
        catalog_age: the same for catalog_xmin.
        held_s: for how long; None if unknown.
        held_least_s: lower bound for an inactive slot; None if unknown.
        doing: state, application and address of a session, or whether and by whom a slot is in use.
        ended_by: the statement that would end it; "" if it must be ended elsewhere.
        remark: the consequences, or where and how to end it.
    """

    kind: HolderKind
    name: str
    database: str
    user: str
    is_here: bool
    age: int | None
    catalog_age: int | None
    held_s: float | None
    held_least_s: float | None
    doing: str
    ended_by: str
    remark: str


@dataclass(frozen=True)
class DeadRows:
    """A table with dead row versions, by the server's statistics.

    Attributes:
        table: with its schema, quoted where it must be.
        dead, live: row versions.
        bytes: of the table at its last vacuum or analyze.
        dead_bytes: of these, the dead versions' share.
        vacuumed_s: how long ago the last vacuum ended; None: never.
    """

    table: str
    dead: int
    live: int
    bytes: int
    dead_bytes: int
    vacuumed_s: float | None


@dataclass(frozen=True)
class HorizonState:
    """The state of a database's horizon.

    Attributes:
        has_feedback: hot_standby_feedback is on, on a standby.
        holders: the oldest first; those of this database before those of others.
        tables: those with the most dead row versions, in descending order.
        dead, dead_bytes: of all tables.
        frozen_age: age of datfrozenxid.
        left_until_stop: transactions until the server stops assigning xids.
        freeze_max_age: autovacuum_freeze_max_age.
        cannot_see: what this role cannot see, in sentences.
    """

    server: str
    version: str
    is_standby: bool
    has_feedback: bool
    holders: tuple[HorizonHolder, ...]
    tables: tuple[DeadRows, ...]
    dead: int
    dead_bytes: int
    frozen_age: int
    left_until_stop: int
    freeze_max_age: int
    cannot_see: tuple[str, ...]


def horizon_state(server: Server) -> HorizonState:
    """Return the state of a database's horizon, with three read-only statements.

    Raises:
        ServerError: the server does not answer in time.
    """
    with server.connect(application_name="pgdrag horizon show") as connection:
        try:
            make_read_only(connection, timeout_s=TIMEOUT_S)
            census = sample_holders(connection)
            found = connection.execute(_SERVER).fetchall()
            rows = connection.execute(_TABLES).fetchall()
        except psycopg.Error as error:
            message = f"could not read the holders of {server.name}: {words_of(error)}"
            raise ServerError(message) from error
        database = server.target.database
        holders = [_holder(x, database, connection) for x in census]
    ((is_standby, role, sees_all, frozen_age, freeze_max_age, has_feedback),) = found
    tables = tuple(
        DeadRows(table, dead, live, size, round(size * dead / (dead + live)), vacuumed_s)
        for table, dead, live, size, vacuumed_s in rows
    )
    hidden = f'Role "{role}" cannot see the state and start of other roles\' sessions. Members of pg_monitor can.'
    return HorizonState(
        server=server.name,
        version=server.version,
        is_standby=is_standby,
        has_feedback=is_standby and has_feedback,
        holders=tuple(sorted(holders, key=lambda x: (not x.is_here, -(x.age or 0)))),
        tables=tables[:MOST_TABLES],
        dead=sum(x.dead for x in tables),
        dead_bytes=sum(x.dead_bytes for x in tables),
        frozen_age=frozen_age,
        left_until_stop=max(_XID_HALF - _RESERVE - frozen_age, 0),
        freeze_max_age=freeze_max_age,
        cannot_see=() if sees_all else (hidden,),
    )


def _holder(seen: HolderSample, database: str, connection: psycopg.Connection) -> HorizonHolder:
    kind = kind_of(seen)
    begin_s = begin_of(seen, kind)
    ended_by, remark = _end_of(seen, connection)
    unused_s = None
    if seen.object_type == ObjectType.SLOT and seen.changed_s is not None:
        unused_s = max(seen.at_s - seen.changed_s, 0.0)
    return HorizonHolder(
        kind=kind,
        name=seen.name,
        database=seen.database,
        user=seen.user,
        is_here=seen.concerns(database),
        age=seen.age,
        catalog_age=seen.catalog_age,
        held_s=None if begin_s is None else max(seen.at_s - begin_s, 0.0),
        held_least_s=unused_s,
        doing=", ".join(filter(None, (seen.state, seen.application, seen.address))),
        ended_by=ended_by,
        remark=remark,
    )


def _end_of(seen: HolderSample, connection: psycopg.Connection) -> tuple[str, str]:
    """Return the statement that would end a holder, and what to know before."""
    match seen.object_type:
        case ObjectType.SESSION:
            remark = "Its transaction is rolled back."
            if seen.state == "active" and seen.xid is None:
                remark = "Its statement fails. pg_cancel_backend() would keep the session."
            return f"SELECT pg_terminate_backend({int(seen.name)});", remark
        case ObjectType.PREPARED:
            name = _literal(seen.name, connection)
            where = f'Run it in database "{seen.database}" as "{seen.user}" or a superuser.'
            remark = f"{where} This discards its changes; COMMIT PREPARED would keep them. Ask its owner first."
            return f"ROLLBACK PREPARED {name};", remark
        case ObjectType.SLOT:
            return _end_of_slot(seen, connection)
    return "", _at_the_standby(seen)


def _end_of_slot(seen: HolderSample, connection: psycopg.Connection) -> tuple[str, str]:
    drop = f"SELECT pg_drop_replication_slot({_literal(seen.name, connection)});"
    consequence = "Its consumer must then be set up again, or catch up some other way."
    if seen.reader is None:
        return drop, consequence
    terminate = f"SELECT pg_terminate_backend({seen.reader});"
    if seen.is_temporary:
        return terminate, "It is temporary, so it is dropped when its session ends."
    if seen.slot_type == "physical":
        return "", _at_the_standby(seen)
    return "", (
        f"It is in use: it advances as session {seen.reader} confirms receipt, unless an older transaction is "
        f"open. To drop it: {terminate} and immediately {drop} {consequence}"
    )


def _at_the_standby(seen: HolderSample) -> str:
    if not seen.age:
        return "It holds nothing back now: no transaction has begun since its xmin."
    in_use = "It is in use" if seen.object_type == ObjectType.SLOT else "It belongs to a standby"
    return (
        f"{in_use}: end the longest transaction on the standby (there: SELECT pid, xact_start FROM pg_stat_activity "
        "WHERE backend_xmin IS NOT NULL ORDER BY age(backend_xmin) DESC), or set hot_standby_feedback = off there."
    )


def _literal(text: str, connection: psycopg.Connection) -> str:
    return sql.Literal(text).as_string(connection).strip()
