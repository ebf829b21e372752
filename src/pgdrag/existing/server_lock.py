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
from pgdrag.errors import PgdragError, ServerError, UsageError
from pgdrag.existing.datasets import asking_about, firm_session
from pgdrag.existing.refusals import refusals_told
from pgdrag.live.server import answering
from pgdrag.units import format_duration

# How the name of such a session begins; whoever undoes changes has another.
_RUNS, _UNDOES = "pgdrag run ", "pgdrag restore"  # the latter's is that of `reaching`
_LONGEST_HOST = 30  # of the 63 bytes of a name
# Two that begin at once see each other and both step back; an undo after kill -9 takes a few seconds.
_PATIENCE_S = 5.0
_AGAIN_S = (0.2, 0.7)
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
        wait_s: wait this long; a moment in any case, since one may be undoing what it has changed.
        tell: is told once whom is waited for.

    Raises:
        UsageError: another one does, and still after waiting.
        ServerLost: the server does not answer.
    """
    deadline = time.monotonic() + max(wait_s, _PATIENCE_S)
    has_waited, is_told = False, not wait_s
    while found := rivals(server):
        if time.monotonic() >= deadline:
            raise _refusal(server, found[0], wait_s)
        if not is_told:
            tell(f"Waiting up to {format_duration(wait_s)}: {found[0].words} on {server.name}.")
            is_told = True
        has_waited = True
        time.sleep(random.uniform(*_AGAIN_S))
    # The other one's sessions were among those that it had.
    return server.looked_at_again() if has_waited else server


class ServerLock:
    """The right to change and load a server, which one pgdrag has at a time; it ends with this process at the latest."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._name = f"{_RUNS}on {socket.gethostname()[:_LONGEST_HOST]}, process {os.getpid()}"
        self._session: psycopg.Connection | None = None

    def take(self) -> None:
        """Take it.

        Raises:
            UsageError: another pgdrag has it.
            ServerLost: the server does not answer.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while found := self._rivals_of_new_session():
            self.give_up()
            if time.monotonic() >= deadline:
                raise _refusal(self._server, found[0], 0.0)
            time.sleep(random.uniform(*_AGAIN_S))

    def keep(self) -> None:
        """Take it again if its session was ended, as by a crash of the server or by somebody.

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
            # Who has it, or why the server does not answer, whoever needs it is told.
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


def _refusal(server: Server, rival: Rival, wait_s: float) -> UsageError:
    after = f" after waiting for {format_duration(wait_s)}" if wait_s else ""
    longer = "a longer time" if wait_s else "1h"
    return UsageError(
        f"{rival.words} on {server.name}{after}",
        detail="Two runs would disturb each other's measurements, and take each other's settings for the server's own.",
        hint=f"Give --wait {longer} to start when it has ended, or stop it. If it no longer exists, end its session: "
        f"SELECT pg_terminate_backend({rival.pid})",
    )


_GO_ON = 'What this run changed is undone. Go on with "pgdrag resume" when the other one has ended.'
_RIVALS = """
SELECT pid, application_name FROM pg_catalog.pg_stat_activity
 WHERE (application_name ^@ %s OR application_name = %s) AND pid <> pg_catalog.pg_backend_pid()
 ORDER BY pid
"""
