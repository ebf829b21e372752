"""How is a test system's horizon held for a while, and always released?

A session ends with its process, by its own deadline on the server, or by `release`. A prepared
transaction outlives all three, so it is written to the undo journal before it is prepared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import LiteralString

import psycopg

from pgdrag.driver.connection_string import Server
from pgdrag.errors import ServerError
from pgdrag.horizon.holders import Held, HoldPlace, all_holders
from pgdrag.host.interrupts import uninterrupted
from pgdrag.host.undo import NotedChange, UndoJournal
from pgdrag.host.undo.prepared_transaction import PreparedTransaction

# The server ends a session whose process hangs, so long after the time that was asked for.
GRACE_S = 2.0
_EVERY_S = 1.0
_PROGRESS: LiteralString = """
SELECT coalesce((SELECT max(greatest(age(backend_xid), age(backend_xmin))) FROM pg_stat_activity
                  WHERE 'session ' || pid = %(who)s),
                (SELECT max(age(transaction)) FROM pg_prepared_xacts
                  WHERE 'prepared transaction ' || gid = %(who)s)),
       (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables)
"""


@dataclass(frozen=True)
class HoldProgress:
    """Progress of a hold.

    Attributes:
        elapsed_s: since it holds.
        age: transactions that have begun since; None: the server did not say.
        dead_rows: dead row versions in the database's tables, by its statistics; None likewise.
    """

    elapsed_s: float
    age: int | None = None
    dead_rows: int | None = None


def application_name(for_s: float) -> str:
    """Return what pg_stat_activity shows of the session: until when it is to hold, in UTC."""
    until = datetime.now(UTC) + timedelta(seconds=for_s)
    return f"pgdrag horizon hold until {until:%H:%M:%S} UTC"


@contextmanager
def holding(server: Server, kind: str, for_s: float, *, name: str) -> Iterator[Held]:
    """Hold the horizon during the block, and release it at the end, however it ends.

    Args:
        server: where.
        kind: of holder; one that needs no cluster of pgdrag's own.
        for_s: after this time and `GRACE_S`, the server itself ends a session.
        name: what pg_stat_activity shows of a session.

    Raises:
        ServerError: the server refuses, or does not show that it is held.
        StorageError: a prepared transaction cannot be noted in the undo journal; there is none then.
        UsageError: another pgdrag holds the undo journal.
    """
    holder = all_holders()[kind]()
    assert not holder.needs_cluster, f"a {kind} needs a throw-away cluster"
    notes: list[NotedChange] = []
    place = HoldPlace(
        server.conninfo(),
        longest_s=for_s + GRACE_S,
        application_name=name,
        before_prepare=_noting(server, notes) if not holder.is_bounded_by_session else None,
    )
    held: Held | None = None
    try:
        held = holder.hold(place)
        yield held
    finally:
        with uninterrupted():
            _release(held, notes)


def watch(
    server: Server, held: Held, for_s: float, listen: Callable[[HoldProgress], None]
) -> HoldProgress:
    """Report the age of the hold each second, and return when its time is over.

    Raises:
        ServerError: someone else ended it.
    """
    began_s = time.monotonic()
    progress = HoldProgress(0.0)
    with server.connect(application_name="pgdrag horizon") as connection:
        while (elapsed_s := time.monotonic() - began_s) < for_s:
            lost = held.lost()
            if lost:
                raise ServerError(f"{held.who} no longer holds the horizon: {lost}")
            progress = HoldProgress(elapsed_s)
            with suppress(psycopg.Error):  # the hold itself says whether the server is gone
                ((age, dead),) = connection.execute(_PROGRESS, {"who": held.who}).fetchall()
                progress = HoldProgress(elapsed_s, age, dead)
            listen(progress)
            time.sleep(min(_EVERY_S, max(for_s - elapsed_s, 0.0)))
    return progress


def _noting(server: Server, notes: list[NotedChange]) -> Callable[[str], None]:
    journal = UndoJournal.open()

    def note(gid: str) -> None:
        if server.target.password is not None:
            PreparedTransaction.passwords[gid] = server.target.password
        change = PreparedTransaction(gid, server.public_conninfo(), server.name)
        notes.append(journal.note(change))

    return note


def _release(held: Held | None, notes: list[NotedChange]) -> None:
    for noted in notes:
        result = UndoJournal.open().restore(noted)
        if not result.is_settled:
            UndoJournal.open().take_warnings()
            raise ServerError(
                result.sentence[:1].lower() + result.sentence[1:].rstrip("."),
                hint="It stays in the undo journal. Run pgdrag restore to try again.",
            )
    if held is not None and not notes:
        held.release()
