"""How do collectors see a server that is not pgdrag's? Through one read-only session, and /proc where it runs here.

What is missing (rights, a log that can be read, the server's host) is an `Unseen` with its reason.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString, NoReturn, Self

import psycopg

from pgdrag.collectors import OWN_MARK, Unseen, attempt, known
from pgdrag.driver.abort_connection import abort_after
from pgdrag.driver.connection_string import SOON_LOST, Server
from pgdrag.driver.process import Target
from pgdrag.errors import ServerLost
from pgdrag.host.process_alive import stat_fields
from pgdrag.host.process_sight import has_ptrace, link_of, uid_of
from pgdrag.host.server_user import ServerUser
from pgdrag.servers.log_formats import FORMATS

ANSWER_TIMEOUT_S = 15.0
APPLICATION_NAME = "pgdrag observer"
_LONGEST_PAUSE_S = 10.0
_PEER = struct.Struct("3i")  # SO_PEERCRED: process, user, group
_FORMATS = {".json": "jsonlog", ".csv": "csvlog"}

# What a role may not see is no row, and no error, of pg_settings.
_PLACE: LiteralString = (
    OWN_MARK
    + """
SELECT (SELECT setting FROM pg_settings WHERE name = 'data_directory'), current_setting('logging_collector'),
       (SELECT setting FROM pg_settings WHERE name = 'log_directory'), current_setting('log_destination')
"""
)
_LOG_FILE: LiteralString = OWN_MARK + "SELECT pg_current_logfile(%s)"
_LOG_BYTES: LiteralString = OWN_MARK + "SELECT coalesce(sum(size), 0)::bigint FROM pg_ls_logdir()"


@contextmanager
def answering(connection: psycopg.Connection[Any], name: str) -> Iterator[None]:
    """Limit the time of all queries in a block: a stopped server neither answers nor fails.

    Raises:
        ServerLost: it takes longer.
    """
    with abort_after(connection, after_s=ANSWER_TIMEOUT_S) as is_late:
        try:
            yield
        except psycopg.Error:
            if not is_late.is_set():
                raise
        if is_late.is_set():
            raise ServerLost(f"{name} did not answer within {ANSWER_TIMEOUT_S:g} s") from None


class Pauses:
    """Ever longer pauses between attempts to reach a server that is away."""

    def __init__(self) -> None:
        self._next_s = 0.5

    def wait(self, most_s: float) -> None:
        """Wait before the next attempt, for a limited time."""
        time.sleep(max(min(self._next_s, most_s), 0.0))
        self._next_s = min(2 * self._next_s, _LONGEST_PAUSE_S)


class ExistingServer:
    """One session's view of a server: what `ObservedCluster` asks for.

    Attributes:
        server: how it was reached: without a pooler.
        connection: that collectors share.
    """

    is_throw_away = False
    # Where pgdrag is root without the right to look at others' processes, it looks as this user.
    user: ServerUser | None = None

    def __init__(self, server: Server, connection: psycopg.Connection[Any]) -> None:
        """Look where the server is.

        Raises:
            ServerLost: it does not answer.
        """
        assert server.pooler is None, "a pooler's sessions are others', too: commands refuse it"
        self.server = server
        self.connection = connection
        self._postmaster = (
            _postmaster_of(connection, connection.info.backend_pid) if server.is_local else None
        )
        with answering(connection, server.name):
            if self._postmaster is not None and os.geteuid() == 0 and not has_ptrace():
                self.user = _user_of(self._postmaster)
            self._place = attempt(lambda: self._read_place())

    @classmethod
    def reached(cls, server: Server) -> Self:
        """Open a session that observes.

        Raises:
            ServerLost: the server does not answer, or refuses.
        """
        connection = server.connect(application_name=APPLICATION_NAME, **SOON_LOST)
        try:
            return cls(server, connection)
        except BaseException:
            connection.close()
            raise

    def _read_place(self) -> tuple[str, bool, str, str]:
        try:
            row = self.connection.execute(_PLACE).fetchone()
        except psycopg.Error as error:
            raise Unseen(f"the server refused: {error.diag.message_primary}") from error
        assert row is not None, "it is one row"
        data, collects, log, destination = row
        return data or "", collects == "on", log or "", destination or ""

    @property
    def postmaster_pid(self) -> int | None:
        """The server's first process; None when it does not run on this host, or no longer."""
        pid = self._postmaster
        return pid if pid is not None and stat_fields(pid) is not None else None

    @property
    def data_directory(self) -> Path:
        """The data directory."""
        if self._postmaster is None:
            raise Unseen("the server does not run on this host")
        data = known(self._place)[0]
        # It is shown to superusers and members of pg_read_all_settings.
        found = data or link_of(self._postmaster, "cwd")
        if not found:
            raise Unseen("this role may not see the data directory; it takes pg_read_all_settings")
        return Path(found)

    @property
    def log_directory(self) -> Path:
        """Where its logging collector writes."""
        return self.data_directory / known(self._place)[2]

    def log_files(self) -> Sequence[Path]:
        """Return its present log in JSON or CSV.

        Raises:
            Unseen: there is none, or this user may not read it.
        """
        _, collects, _, destination = known(self._place)
        if not collects:
            raise Unseen("the server's log is not in files of its own (logging_collector is off)")
        formats = [x for x in FORMATS if _FORMATS[x] in destination]
        if not formats:
            raise Unseen(
                f"the server's log has no format that can be read (log_destination is {destination or 'hidden'})"
            )
        try:
            found = self.connection.execute(_LOG_FILE, (_FORMATS[formats[0]],)).fetchone()
        except psycopg.Error as error:
            raise Unseen(
                f"the server's log cannot be found: {error.diag.message_primary}"
            ) from error
        if found is None or not found[0]:
            raise Unseen("the server has no log yet")
        path = self.data_directory / found[0]
        if not os.access(path, os.R_OK):
            raise Unseen(f'this user may not read the server\'s log "{path}"')
        return [path]

    def log_bytes(self) -> int:
        """Return the size of all its log files; 0 if unknown."""
        if isinstance(self._place, Unseen):
            return 0
        if not self._place[1]:
            return self._error_output_bytes()
        try:
            found = self.connection.execute(_LOG_BYTES).fetchone()
        except psycopg.Error:
            return 0
        return int(found[0]) if found else 0

    def _error_output_bytes(self) -> int:
        """Return the size of the file to which the server itself writes its log."""
        if self._postmaster is None:
            return 0
        try:
            found = Path(f"/proc/{self._postmaster}/fd/2").stat()
        except OSError:
            return 0
        return found.st_size

    @property
    def superuser(self) -> str:
        """The role of the connection, whatever its privileges."""
        return self.server.target.user

    load_superuser = probe_role = superuser

    @property
    def database(self) -> str:
        """The database that it was reached in."""
        return self.server.target.database

    @property
    def own_target(self) -> Target:
        """How the load driver's program would reach it."""
        return self.server.target

    def connect(self, *, application_name: str = "", role: str = "") -> NoReturn:
        """Open no session but the one there is."""
        raise Unseen("an existing server is observed through a single session")

    def conninfo(self, *, application_name: str) -> str:
        """Return what leads to it."""
        return self.server.conninfo(application_name=application_name)


def _postmaster_of(connection: psycopg.Connection[Any], backend_pid: int) -> int | None:
    """Return the server's first process, if it is surely one of this host's: a container's numbers are others."""
    fields = stat_fields(backend_pid)
    if fields is None:
        return None
    parent = int(fields[1])
    if (connection.info.host or "").startswith("/"):
        return parent if _listener(connection) == parent else None
    try:
        title = Path(f"/proc/{backend_pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None
    info = connection.info
    is_backend = "postgres" in title and f"{info.user} {info.dbname}" in title
    return parent if is_backend else None


def _listener(connection: psycopg.Connection[Any]) -> int:
    """Return the process that listens at a Unix socket, by the kernel's word; 0 where it is out of sight."""
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid: int = _PEER.unpack(found)[0]
    return pid


def _user_of(pid: int) -> ServerUser | None:
    uid = uid_of(pid)
    if uid is None:
        return None
    try:
        gid = Path(f"/proc/{pid}").stat().st_gid
    except OSError:
        return None
    return ServerUser("", uid, gid)
