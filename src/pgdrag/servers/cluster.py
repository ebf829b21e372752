"""How is a throw-away PostgreSQL cluster made, configured, started, stopped and removed?"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg.conninfo import make_conninfo

from pgdrag.driver.process import Target
from pgdrag.errors import PgdragError, ServerDidNotStart, ServerError, ServerLost
from pgdrag.servers.binaries import Binaries, executable_binaries
from pgdrag.servers.channel import ChannelNote, channel_settings, merge_channel
from pgdrag.servers.conf import write_conf
from pgdrag.servers.owner_file import (
    CLUSTER_PREFIX,
    SHORT_SOCKET_PREFIX,
    SHORT_SOCKET_ROOT,
    OwnerFile,
)
from pgdrag.servers.page_cache import drop_pages
from pgdrag.servers.postmaster import Postmaster, StopMethod
from pgdrag.servers.processes import ServerProcess, wait_until
from pgdrag.servers.scratch import (
    OwnedDirectory,
    Scratch,
    full_disk,
    remove_tree,
    storage_errors,
)
from pgdrag.servers.server_log import ServerLog, is_full_disk
from pgdrag.servers.spawn import run

# sockaddr_un.sun_path has 108 bytes, the last of them zero.
_SOCKET_PATH_BYTES = 107
# unix_socket_directories and libpq's host are lists with their own quoting: avoid all of it.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
_FIRST_PORT = 5432
_PORTS = 100
_INITDB_TIMEOUT_S = 180.0
_INITDB_BYTES = 64 * 2**20
_LOG_BYTES = 64 * 2**10
_REMOVE_TIMEOUT_S = 1.0
_LEAVE_TIMEOUT_S = 2.0
_POLL_S = 0.02
_REFUSED_SQL = "SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL"
_HEADER = "Written by pgdrag; the server's place and port are on its command line."


class Cluster:
    """One data directory and at most one server process tree, which dies with this process.

    Leaving it as a context manager, or `remove`, stops the server and deletes everything.

    Attributes:
        directory: all that belongs to the cluster.
        data_directory: what initdb made.
        socket_directory: the host to connect to; only root and the server's user can enter.
        port: part of the socket's name; no TCP port is opened. It may change at `start`.
        control_groups: directories of the groups that the server is started in, by default this
            process's own.
        needed: settings that the next `configure` adds where its own say nothing of them.
    """

    superuser = "pgdrag"
    database = "pgdrag"

    def __init__(
        self,
        scratch: Scratch,
        binaries: Binaries,
        owned: OwnedDirectory,
        socket_directory: Path,
    ) -> None:
        self.scratch = scratch
        self.binaries = binaries
        self.directory = owned.path
        self.data_directory = owned.path / "data"
        self.socket_directory = socket_directory
        self.port = _FIRST_PORT
        self.control_groups: tuple[Path, ...] = ()
        self.needed: Mapping[str, str] = {}
        self.log = ServerLog(owned.path / "postmaster.log", owned.path / "log")
        self._written: dict[str, str] = {}
        self._in_force: dict[str, str] = {}
        self._owned = owned
        self._postmaster = Postmaster(self.data_directory, binaries.postgres)

    @classmethod
    def create(cls, scratch: Scratch, binaries: Binaries) -> Cluster:
        """An empty cluster directory; `initdb` or a snapshot's `restore` fills it.

        Raises:
            ServerError: the server's user cannot execute the binaries.
            StorageError: the directories cannot be made.
        """
        binaries = executable_binaries(binaries, scratch)
        owned = scratch.own_directory(scratch.clusters, CLUSTER_PREFIX)
        try:
            with storage_errors("make a cluster directory", owned.path):
                socket_directory = _socket_directory(owned.path)
                # Written first, so that a sweep finds whatever is made from here on.
                owner = OwnerFile(os.getpid(), binaries.postgres, socket_directory)
                owner.write(owned.path)
                scratch.make_private(socket_directory)
                scratch.make_private(owned.path / "data")
                scratch.make_private(owned.path / "log")
        except BaseException:
            owned.remove()
            raise
        return cls(scratch, binaries, owned, socket_directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    @property
    def log_directory(self) -> Path:
        """Where the logging collector writes; outside of the data directory."""
        return self.log.directory

    def log_tail(self, lines: int = 20) -> str:
        """The last `lines` that the server wrote since its last start, as text."""
        return self.log.tail(lines)

    def log_files(self) -> list[Path]:
        """The server's log in the format that the collectors read, oldest first; empty before the first start."""
        return self.log.files()

    def log_bytes(self) -> int:
        """The size of the server's log in all formats that it is written in."""
        return self.log.size()

    def channel(self) -> dict[str, str]:
        """The settings that `configure` adds, the same for all treatments."""
        return channel_settings(self.log_directory, self.binaries.version_num)

    def initdb(self, *, options: Sequence[str] = ()) -> None:
        """Make a new cluster with the database `pgdrag`, and configure it with nothing more.

        Locale C and UTF-8 whatever the environment says, so that machines are comparable.

        Raises:
            ServerError: initdb refused, with its words as detail.
            StorageError: the disk is full.
        """
        self.scratch.require_free(_INITDB_BYTES, "make a cluster")
        # "trust" lets every connection in as superuser. Connections can only come through a
        # socket in a directory that nobody but root and the server's user can enter, and those
        # two can read the data directory anyhow: a password would protect nothing.
        self._run_tool(
            "initdb",
            *("--pgdata", str(self.data_directory), "--username", self.superuser),
            *("--auth", "trust", "--encoding", "UTF8", "--locale", "C"),
            # Not yet worth a flush: a snapshot flushes what it copies.
            *("--no-sync", "--no-instructions", *options),
        )
        # Without a server: single-user mode takes a fraction of a start and stop.
        self._run_tool(
            "postgres",
            *("--single", "-D", str(self.data_directory), "-c", "exit_on_error=on", "postgres"),
            text=f"CREATE DATABASE {self.database}\n",
        )
        self.configure({})

    def configure(self, settings: Mapping[str, str]) -> list[ChannelNote]:
        """Write the whole configuration: the observation channel, what is `needed`, then `settings`.

        Earlier configurations are gone, including what ALTER SYSTEM set, so that a treatment is all
        there is. It takes effect with the next start, or with `reload` as far as that can.

        Returns:
            A note for each setting that the channel overrules.
        """
        merged, notes = merge_channel({**self.needed, **settings}, self.channel())
        text = write_conf(merged, header=_HEADER)
        self.scratch.write_private(self.data_directory / "postgresql.conf", text)
        self.scratch.write_private(self.data_directory / "postgresql.auto.conf", "")
        self._written = merged
        return notes

    @property
    def unapplied(self) -> frozenset[str]:
        """Names of the settings that were written otherwise since the last start or reload."""
        names = self._written.keys() | self._in_force.keys()
        return frozenset(x for x in names if self._written.get(x) != self._in_force.get(x))

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start the server and wait until it accepts connections.

        Raises:
            ServerDidNotStart: it ended, or was not ready in time (it is stopped then); the message
                has its reason, the detail the end of its log.
            StorageError: the disk is full.
        """
        self._postmaster.clear_leftovers()
        self.port = self._free_port()
        self.log.mark_start()
        deadline = time.monotonic() + timeout_s
        with (
            storage_errors("start the server", self.directory),
            self.log.startup_file.open("ab") as output,
        ):
            self._postmaster.spawn(
                self._command(),
                user=self.scratch.user,
                output=output,
                control_groups=self.control_groups,
            )
        while not self._is_ready():
            if (status := self._postmaster.exit_status) is not None:
                raise self._refusal(status)
            if time.monotonic() >= deadline:
                self.stop(fast_timeout_s=0)
                raise ServerDidNotStart(
                    f"server was not ready after {timeout_s:g} s", detail=self._detail()
                )
            time.sleep(_POLL_S)
        if self._postmaster.notice_program():
            self._owner().write(self.directory)
        self._in_force = self._written
        # The question whether it is ready took one of its connections, perhaps the only one.
        wait_until(self._postmaster.has_no_clients, _LEAVE_TIMEOUT_S)

    def drop_pages(self) -> None:
        """Take the stopped cluster's data out of the page cache, so that the server reads it from storage.

        Raises:
            StorageError: what is still to be written cannot be.
        """
        assert not self.is_running(), "a running server brings its pages back"
        with storage_errors("empty the page cache", self.data_directory):
            drop_pages(self.data_directory)

    def reload(self, *, timeout_s: float = 10.0) -> bool:
        """Let the running server read its configuration again, for sessions that are made from now on.

        Returns:
            Whether it took all that was written; else only a restart shows what it makes of it.

        Raises:
            ServerLost: it does not answer.
        """
        before = self._load_time()
        with self.connect() as connection:
            connection.execute("SELECT pg_reload_conf()")
        if not wait_until(lambda: self._load_time() > before, timeout_s):
            return False
        with self.connect() as connection:
            (refused,) = connection.execute(_REFUSED_SQL).fetchone() or (0,)
        if refused:
            return False
        self._in_force = self._written
        wait_until(self._postmaster.has_no_clients, _LEAVE_TIMEOUT_S)
        return True

    def stop(
        self, *, fast_timeout_s: float = 20.0, immediate_timeout_s: float = 10.0
    ) -> StopMethod:
        """Stop the server within the two times (and a moment), whatever state it is in.

        A time of 0 skips that way. The server itself kills children that ignore an immediate
        shutdown after 5 s.

        Returns:
            How it ended: "fast" (with a checkpoint; the only clean one), "immediate", "killed", or
            "gone" when it was not running. No process and no shared memory is left in any case.
        """
        return self._postmaster.end(
            fast_timeout_s=fast_timeout_s, immediate_timeout_s=immediate_timeout_s
        )

    def is_running(self) -> bool:
        """Whether the server's first process lives; it may be mute all the same."""
        return self._postmaster.is_running()

    @property
    def postmaster_pid(self) -> int | None:
        """The server's first process, or None when it does not run."""
        return self._postmaster.pid

    def server_pids(self) -> list[ServerProcess]:
        """Every process of the server now, postmaster first, with its kind."""
        return self._postmaster.processes()

    def connect(
        self,
        *,
        application_name: str = "pgdrag",
        autocommit: bool = True,
        connect_timeout_s: int = 10,
    ) -> psycopg.Connection:
        """A new connection of the superuser to the database `pgdrag`.

        Raises:
            ServerLost: the server does not answer in time, or refuses.
        """
        try:
            return psycopg.connect(
                self.conninfo(
                    application_name=application_name, connect_timeout_s=connect_timeout_s
                ),
                autocommit=autocommit,
            )
        except psycopg.OperationalError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ServerLost(
                f"could not connect to the server: {reason}", detail=self._detail()
            ) from error

    def conninfo(self, *, application_name: str = "pgdrag", connect_timeout_s: int = 10) -> str:
        """The libpq connection string; there is no password."""
        return make_conninfo(
            host=str(self.socket_directory),
            port=self.port,
            user=self.superuser,
            dbname=self.database,
            application_name=application_name,
            connect_timeout=connect_timeout_s,
            # Given, so that the environment's PG* variables and files do not decide.
            options="",
            passfile=str(self.socket_directory / "no-passwords"),
            sslmode="disable",
            gssencmode="disable",
            client_encoding="utf8",
            target_session_attrs="any",
        )

    @property
    def target(self) -> Target:
        """Where the load driver finds the cluster."""
        return Target(
            host=str(self.socket_directory),
            port=self.port,
            user=self.superuser,
            database=self.database,
            bin_dir=self.binaries.bin_dir,
        )

    def _load_time(self) -> datetime:
        try:
            with self.connect() as connection:
                (found,) = connection.execute("SELECT pg_conf_load_time()").fetchone() or (None,)
        except psycopg.Error as error:
            raise ServerLost(f"could not ask the server what it runs with: {error}") from error
        assert isinstance(found, datetime), found
        return found

    def remove(self) -> None:
        """Stop the server without a checkpoint and delete the cluster; again is fine."""
        if self._owned.lock_fd < 0:
            return
        with storage_errors("remove a cluster", self.directory.parent):
            self.stop(fast_timeout_s=0, immediate_timeout_s=_REMOVE_TIMEOUT_S)
            remove_tree(self.socket_directory)
            self._owned.remove()

    def abandon(self) -> None:
        """Give up a cluster that could not be removed, as this process's end would: it will be swept."""
        with contextlib.suppress(OSError):
            remove_tree(self.socket_directory)
        self._owned.release()

    def _command(self) -> list[str | Path]:
        return [
            self.binaries.bin_dir / "postgres",
            *("-D", self.data_directory),
            *("-k", self.socket_directory),
            *("-p", str(self.port)),
            *("-c", "listen_addresses="),
        ]

    def _owner(self) -> OwnerFile:
        return OwnerFile(os.getpid(), self._postmaster.program, self.socket_directory)

    def _is_ready(self) -> bool:
        if not self._postmaster.says_ready():
            return False
        # As pg_ctl does: a refusal such as "too many clients" is an answer, too.
        info = self.conninfo(connect_timeout_s=2).encode()
        return psycopg.pq.PGconn.ping(info) == psycopg.pq.Ping.OK

    def _refusal(self, status: int) -> PgdragError:
        self.stop()
        reason = self.log.refusal()
        # On a full disk the server may not even be able to say so.
        is_mute = reason is None and self.scratch.free_bytes() < _LOG_BYTES
        if is_mute or is_full_disk(self.log_tail()):
            return full_disk("start the server", self.directory)
        if reason is None:
            ended = f"was killed by signal {-status}" if status < 0 else f"ended with {status}"
            reason = f"the postmaster {ended} without a word"
        return ServerDidNotStart(f"server did not start: {reason}", detail=self._detail())

    def _free_port(self) -> int:
        """The first port whose socket nobody serves; what a killed server left is removed."""
        for port in range(_FIRST_PORT, _FIRST_PORT + _PORTS):
            path = self.socket_directory / f".s.PGSQL.{port}"
            if not _is_served(path):
                path.unlink(missing_ok=True)
                path.with_name(path.name + ".lock").unlink(missing_ok=True)
                return port
        raise ServerError(f'all {_PORTS} sockets in "{self.socket_directory}" are served')

    def _detail(self) -> str | None:
        return self.log_tail() or None

    def _run_tool(self, name: str, *arguments: str, text: str = "") -> None:
        finished = run(
            [self.binaries.bin_dir / name, *arguments],
            user=self.scratch.user,
            cwd=self.directory,
            timeout_s=_INITDB_TIMEOUT_S,
            text=text,
        )
        if finished.status == 0:
            return
        # A bootstrap that crashed frees nothing, and initdb deletes its traces.
        self._postmaster.clear_leftovers()
        if is_full_disk(finished.output):
            raise full_disk("make a cluster", self.directory)
        raise ServerError(
            f"{name} ended with status {finished.status}",
            detail="\n".join(finished.output.strip().splitlines()[-20:]) or None,
        )


def _socket_directory(directory: Path) -> Path:
    near = directory / "socket"
    longest = f"{near}/.s.PGSQL.{_FIRST_PORT + _PORTS}.lock"
    if len(os.fsencode(longest)) <= _SOCKET_PATH_BYTES and _PLAIN_PATH.fullmatch(str(near)):
        return near
    return SHORT_SOCKET_ROOT / f"{SHORT_SOCKET_PREFIX}{secrets.token_hex(8)}"


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:  # a full backlog or no answer: somebody is there
            return True
    return True
