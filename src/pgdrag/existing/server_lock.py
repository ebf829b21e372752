"""Is another pgdrag changing or loading this server, from this machine or from another?

While a run goes on, one session of it has a name that everybody sees in pg_stat_activity, in any database and as any
role. No file reaches from machine to machine, and no advisory lock from database to database. The session ends with its
pgdrag; of a machine that is gone TCP's keepalives tell the server within a minute.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg

from pgdrag.driver.connection_string import Server
from pgdrag.errors import PgdragError, ServerError, ServerLost, UsageError
from pgdrag.existing.datasets import asking_about, firm_session
from pgdrag.existing.refusals import refusals_told
from pgdrag.live.server import answering
from pgdrag.units import format_duration

# How the name of such a session begins; the session of an undo has another.
_RUNS, _UNDOES = "pgdrag run ", "pgdrag restore"  # the latter's is that of `reaching`
_LONGEST_HOST = 30  # of the 63 bytes of a name
# Two that begin at once see each other and both step back; an undo after kill -9 takes a few seconds.
_PATIENCE_S = 5.0
_AGAIN_S = (0.2, 0.7)
# A run that restarts the server has no session there for a moment before and after.
_SETTLED_S = 2.0
_KEEPALIVE = {"tcp_keepalives_idle": 20, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}


@dataclass(frozen=True)
class Rival:
    """Another pgdrag on a server.

    Attributes:
        pid: of its session there.
        name: that session's.
    """

    pid: int
    name: str

    @property
    def words(self) -> str:
        """What it does, as a clause."""
        if self.name == _UNDOES:
            return "another pgdrag is undoing its changes"
        return f"another pgdrag ({self.name.removeprefix(_RUNS)}) is running an experiment"

    @property
    def process(self) -> str:
        """The process and its machine: "process 4711 on db1"."""
        place, comma, process = self.name.removeprefix(f"{_RUNS}on ").rpartition(", ")
        return f"{process} on {place}" if comma else "the other pgdrag"


def rivals(server: Server) -> list[Rival]:
    """Return the other pgdrags that change or load a server now.

    Raises:
        ServerLost: it does not answer.
    """
    with asking_about(server) as connection:
        return _seen_by(connection)


def wait_until_free(
    server: Server, wait_s: float = 0.0, tell: Callable[[str], object] = lambda _: None
) -> Server:
    """Return a server once no other pgdrag changes or loads it: what one has there is not the server's own.

    Args:
        wait_s: wait this long, also for a server that another one restarts; a moment in any case, since one may be
            undoing what it has changed.
        tell: called once with what is waited for.

    Raises:
        UsageError: another one does, and still after waiting.
        ServerLost: the server does not answer.
    """
    deadline = time.monotonic() + max(wait_s, _PATIENCE_S)
    seen_s: float | None = None
    was_told = not wait_s
    while True:
        now_s = time.monotonic()
        found = _obstacle(lambda: rivals(server), wait_s)
        if found is None and (seen_s is None or now_s - seen_s >= _SETTLED_S):
            # The other one's sessions were among those that it had.
            return server if seen_s is None else server.looked_at_again()
        if found is not None:
            if now_s >= deadline:
                raise _refusal(server, found, wait_s)
            seen_s = now_s
            if not was_told:
                tell(f"Waiting up to {format_duration(wait_s)}: {_words(found, server)}.")
                was_told = True
        time.sleep(random.uniform(*_AGAIN_S))


class ServerLock:
    """The right to change and load a server, which one pgdrag has at a time; it ends with this process at the latest."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._name = f"{_RUNS}on {socket.gethostname()[:_LONGEST_HOST]}, process {os.getpid()}"
        self._session: psycopg.Connection | None = None

    def take(self, wait_s: float = 0.0) -> None:
        """Take it.

        Args:
            wait_s: wait this long for another pgdrag that was faster; a moment in any case.

        Raises:
            UsageError: another pgdrag has it.
            ServerLost: the server does not answer.
        """
        deadline = time.monotonic() + max(wait_s, _PATIENCE_S)
        while (found := _obstacle(self._rivals_of_new_session, wait_s)) is not None:
            self.give_up()
            if (left_s := deadline - time.monotonic()) <= 0:
                raise _refusal(self._server, found, wait_s)
            time.sleep(random.uniform(*_AGAIN_S))
            if wait_s:
                # Only checks: a run that restarts the server for its trials must be able to take it again.
                wait_until_free(self._server, left_s)

    def keep(self) -> None:
        """Take it again if its session was ended, for example by a crash of the server.

        Raises:
            ServerError: another pgdrag has it meanwhile.
            ServerLost: the server does not answer.
        """
        if self._is_held():
            return
        self.give_up()
        try:
            self.take()
        except UsageError as error:
            raise ServerError(error.message, detail=error.detail, hint=_GO_ON) from None

    def give_up(self) -> None:
        """Let others have it; again is fine."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Keep no session in the way of a restart, and take it again as soon as the server is there."""
        was_held = self._session is not None
        self.give_up()
        yield
        if was_held:
            # Who has it, or why the server does not answer, is reported where the lock is needed.
            with suppress(PgdragError):
                self.take()

    def _is_held(self) -> bool:
        if self._session is None:
            return False
        try:
            with answering(self._session, self._server.name):
                self._session.execute("SELECT")
        except psycopg.Error:
            return False
        return True

    def _rivals_of_new_session(self) -> list[Rival]:
        """Show oneself, and then look: of two that do, one at least sees the other."""
        own = [f"-c {name}={value}" for name, value in _KEEPALIVE.items()]
        options = " ".join([*firm_session(self._server).values(), *own])
        self._session = self._server.connect(application_name=self._name, options=options)
        with refusals_told(self._server), answering(self._session, self._server.name):
            return _seen_by(self._session)


def _seen_by(connection: psycopg.Connection) -> list[Rival]:
    rows = connection.execute(_RIVALS, [_RUNS, _UNDOES]).fetchall()
    return [Rival(pid, name) for pid, name in rows]


def _obstacle(look: Callable[[], list[Rival]], wait_s: float) -> Rival | ServerLost | None:
    """Return who is in the way; while waiting, also a server that does not answer, since another run may restart it."""
    try:
        found = look()
    except ServerLost as lost:
        if not wait_s:
            raise
        return lost
    return found[0] if found else None


def _words(found: Rival | ServerLost, server: Server) -> str:
    return found.message if isinstance(found, ServerLost) else f"{found.words} on {server.name}"


def _refusal(server: Server, rival: Rival | ServerLost, wait_s: float) -> PgdragError:
    if isinstance(rival, ServerLost):
        return rival
    after = f" after waiting for {format_duration(wait_s)}" if wait_s else ""
    longer = "Increase --wait to start" if wait_s else "Give --wait 1h to start"
    return UsageError(
        f"{rival.words} on {server.name}{after}",
        detail="Two runs would disturb each other's measurements, and take each other's settings for the server's own.",
        hint=f"{longer} after it ends, or stop it. If only its session is left, first make sure that "
        f"{rival.process} has ended, and run pgdrag restore there; then end the session: "
        f"SELECT pg_terminate_backend({rival.pid})",
    )


_GO_ON = 'What this run changed is undone. Go on with "pgdrag resume" when the other one has ended.'
_RIVALS = """
SELECT pid, application_name FROM pg_catalog.pg_stat_activity
 WHERE (application_name ^@ %s OR application_name = %s) AND pid <> pg_catalog.pg_backend_pid()
 ORDER BY pid
"""
