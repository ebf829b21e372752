"""Does a pooler stand before the server, and what does it leave of a session?

Behind a pooler such as PgBouncer a client's session is not one of the server's. In transaction mode each
transaction may run in another server session, which others use before and after it: settings made there are
theirs, too, and a prepared statement may be gone, or somebody else's. What it does is found out by its
behaviour, in sessions of its own that change nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

import psycopg
from psycopg import pq

from pgdrag.driver.abort_connection import abort_after
from pgdrag.errors import ServerLost, UsageError

StatementMode = Literal["simple", "extended", "prepared", "pipelined"]
PoolMode = Literal["session", "transaction", "statement"]

_ANSWER_TIMEOUT_S = 5.0
# Where others use the pool, two clients come to the same server session only now and then.
_ROUNDS = 12
_PID = b"SELECT pg_backend_pid()"
_ANSWERED = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


@dataclass(frozen=True)
class Pooler:
    """A pooler between pgdrag and the server.

    Attributes:
        mode: what a client keeps its server session for.
        keeps_prepared: a statement that was prepared can be executed in the client's next transaction.
    """

    mode: PoolMode
    keeps_prepared: bool

    @property
    def name(self) -> str:
        """What it is, for people: `a pooler in transaction mode`."""
        return f"a pooler in {self.mode} mode"


def refuse_shared_sessions(
    pooler: Pooler | None, purpose: str, *, even_in_turn: bool = False
) -> None:
    """Refuse what needs a session of its own.

    Args:
        purpose: what needs it: "horizon show".
        even_in_turn: also where clients get a session one after the other (session mode): such a session may be older
            than a change of settings.

    Raises:
        UsageError: server sessions are shared.
    """
    if pooler is not None and (even_in_turn or pooler.mode != "session"):
        raise UsageError(
            f"{purpose} needs a session of its own, and there is {pooler.name} before the server",
            detail="A pooler gives the same session to several clients: what one sets there is in force for others, and "
            "a change of settings may not reach it.",
            hint="Name the server itself.",
        )


def sendable(
    pooler: Pooler | None, wanted: StatementMode, *, is_default: bool, has_blocks: bool
) -> StatementMode:
    """Return the mode in which statements can be sent: the wanted one, or another if the wanted one is only the default.

    Args:
        wanted: the mode that was asked for, or the default.
        has_blocks: the load has transactions of several statements.

    Raises:
        UsageError: the pooler does not let the load through.
    """
    if pooler is None:
        return wanted
    if pooler.mode == "statement" and has_blocks:
        raise UsageError(
            f"there is {pooler.name} before the server, which allows no transaction of several statements",
            hint="Run scripts without BEGIN, such as -S, or name the server itself.",
        )
    if pooler.keeps_prepared or wanted in ("simple", "extended"):
        return wanted
    if is_default:
        return "extended"
    raise UsageError(
        f"{wanted} statements do not get through {pooler.name}",
        detail="What a client prepares there is lost with the end of its transaction, or belongs to another client.",
        hint="Send simple or extended statements, or name the server itself.",
    )


def pooler_note(pooler: Pooler) -> str:
    """Return what numbers mean that were measured through a pooler, as sentences."""
    return (
        f"There is {pooler.name} before the server: rates and latencies include the pooler, and what the server shows "
        "of its sessions is the pooler's."
    )


def pooler_before(conninfo: str) -> Pooler:
    """Find out what a pooler does that is known to stand before a server.

    Args:
        conninfo: leads there.

    Raises:
        ServerLost: it lets no further client in.
    """
    if not _has_blocks(conninfo):
        return Pooler("statement", keeps_prepared=False)
    with _sessions(conninfo, 2) as (one, other):
        if not _share_a_session(one, other):
            return Pooler("session", keeps_prepared=True)
        return Pooler("transaction", keeps_prepared=_keep_prepared(one, other))


def _has_blocks(conninfo: str) -> bool:
    """Whether a transaction may have several statements; who does not allow it closes the connection."""
    with _sessions(conninfo, 1) as (session,):
        return all(_answer(session, sql) is not None for sql in (b"BEGIN", _PID, b"COMMIT"))


def _share_a_session(one: psycopg.Connection, other: psycopg.Connection) -> bool:
    """Whether two clients get the same server session in turn, or one gets several."""
    seen: tuple[set[bytes], set[bytes]] = (set(), set())
    for _ in range(_ROUNDS):
        for client, pids in zip((one, other), seen, strict=True):
            try:
                pids.add(_answer(client, _PID) or b"")
            except ServerLost:  # it waits for the session that the other one keeps
                return False
        if len(seen[0]) > 1 or len(seen[1]) > 1 or seen[0] & seen[1]:
            return True
    return False


def _keep_prepared(one: psycopg.Connection, other: psycopg.Connection) -> bool:
    """Whether each of two clients has prepared statements of its own, though they share a server session.

    Otherwise the name is taken already, or is not known in the session that a client gets next.
    """
    names = [f"pgdrag_{os.getpid()}_{number}".encode() for number in range(_ROUNDS)]
    clients = (one.pgconn, other.pgconn)
    with _in_time(one), _in_time(other):
        for number, name in enumerate(names):
            prepared = [client.prepare(name, _PID) for client in clients]
            executed = [client.exec_prepared(name, None) for client in clients]
            if any(answer.status not in _ANSWERED for answer in (*prepared, *executed)):
                for left in names[: number + 1]:
                    for client in clients:
                        client.exec_(b"DEALLOCATE " + left)
                return False
    return True


@contextmanager
def _sessions(conninfo: str, number: int) -> Iterator[list[psycopg.Connection]]:
    with ExitStack() as stack:
        try:
            clients = [psycopg.connect(conninfo, autocommit=True) for _ in range(number)]
        except psycopg.Error as error:
            raise ServerLost(f"the pooler lets no further client in: {error}") from None
        for client in clients:
            stack.callback(client.close)
        yield clients


def _answer(client: psycopg.Connection, sql: bytes) -> bytes | None:
    """Return the first value of an answer, b"" where there are none; None if it is refused.

    Raises:
        ServerLost: there is none in time.
    """
    with _in_time(client) as is_late:
        answer = client.pgconn.exec_(sql)
    if is_late.is_set():
        raise ServerLost(f"the pooler did not answer within {_ANSWER_TIMEOUT_S:g} s")
    if answer.status not in _ANSWERED:
        return None
    return answer.get_value(0, 0) if answer.ntuples else b""


def _in_time(client: psycopg.Connection) -> AbstractContextManager[threading.Event]:
    return abort_after(client, after_s=_ANSWER_TIMEOUT_S)
