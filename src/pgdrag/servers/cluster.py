"""How is a throw-away PostgreSQL cluster made, configured, started, stopped and removed?"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, LiteralString, Self

import psycopg
from psycopg.conninfo import make_conninfo

from pgdrag.driver.process import Target
from pgdrag.errors import PgdragError, ServerDidNotStart, ServerError, ServerLost
from pgdrag.host.confinement import mark
from pgdrag.host.process_alive import wait_until
from pgdrag.host.server_user import ServerUser
from pgdrag.host.spawn import clean_environment, run, spawn
from pgdrag.servers import roles
from pgdrag.servers.binaries import Binaries, executable_binaries
from pgdrag.servers.channel import ChannelNote, channel_settings, merge_channel
from pgdrag.servers.conf import write_conf
from pgdrag.servers.copying import drop_pages
from pgdrag.servers.processes import Postmaster
from pgdrag.servers.scratch import (
    CLUSTER_PREFIX,
    SHORT_SOCKET_PREFIX,
    SHORT_SOCKET_ROOT,
    OwnedDirectory,
    OwnerFile,
    Scratch,
    full_disk,
    remove_tree,
    storage_errors,
)
from pgdrag.servers.server_log import ServerLog, is_full_disk
from pgdrag.servers.tcp_port import LOOPBACK, NO_PORT, TcpAccess, free_port

# sockaddr_un.sun_path has 108 bytes, the last of them zero.
_SOCKET_PATH_BYTES = 107
# unix_socket_directories and libpq's host are lists with their own quoting: avoid all of it.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
_INITDB_TIMEOUT_S = 180.0
_INITDB_BYTES = 64 * 2**20
_LOG_BYTES = 64 * 2**10
_REMOVE_TIMEOUT_S = 1.0
_LEAVE_TIMEOUT_S = 2.0
_IS_FULL = "out of shared memory"
_AGAIN_S = 0.05
_PORT_TRIES = 5
_REFUSED_SQL = "SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL"
_HEADER = "Written by pgdrag; the server's place and port are on its command line."


class Cluster(Postmaster):
    """One data directory and at most one server process tree, which dies with this process.

    Leaving it as a context manager, or `remove`, stops the server and deletes everything.

    Attributes:
        directory: all that belongs to the cluster.
        socket_directory: the host to connect to; only root and the server's user can enter.
        port: part of the socket's name, and the TCP port where there is one.
        tcp: who may come in by TCP on loopback; None: no TCP port is opened.
        control_groups: directories of the groups that the server is started in, by default this
            process's own.
        needed: settings that the next `configure` adds where its own say nothing of them.
    """

    is_throw_away = True
    superuser = roles.SUPERUSER
    database = roles.DATABASE
    load_role = roles.LOAD_ROLE
    load_superuser = roles.LOAD_SUPERUSER
    probe_role = roles.PROBE_ROLE

    def __init__(self, scratch: Scratch, binaries: Binaries, owned: OwnedDirectory) -> None:
        super().__init__(owned.path / "data", binaries.postgres, scratch.user)
        self.scratch = scratch
        self.binaries = binaries
        self.directory = owned.path
        self.socket_directory = _socket_directory(owned.path)
        self.port = 5432
        self.tcp: TcpAccess | None = None
        self.control_groups: tuple[Path, ...] = ()
        self.needed: Mapping[str, str] = {}
        self.log = ServerLog(owned.path / "postmaster.log", owned.path / "log")
        self._written: dict[str, str] = {}
        self._in_force: dict[str, str] = {}
        self._owned = owned

    @classmethod
    def create(cls, scratch: Scratch, binaries: Binaries) -> Cluster:
        """An empty cluster directory; `initdb` or a snapshot's `restore` fills it.

        Raises:
            ServerError: the server's user cannot execute the binaries.
            StorageError: the directories cannot be made.
        """
        binaries = executable_binaries(binaries, scratch)
        owned = scratch.own_directory(scratch.clusters, CLUSTER_PREFIX)
        cluster = cls(scratch, binaries, owned)
        try:
            with storage_errors("make a cluster directory", owned.path):
                # Written first, so that a sweep finds whatever is made from here on.
                cluster._write_owner()
                for each in (
                    cluster.socket_directory,
                    cluster.data_directory,
                    cluster.log_directory,
                ):
                    scratch.make_private(each)
        except BaseException:
            # Which may lie outside of the other one, and would be unknown afterwards.
            remove_tree(cluster.socket_directory)
            owned.remove()
            raise
        return cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

    def initdb(self, *, options: Sequence[str] = ()) -> None:
        """Make a new cluster with the database `pgdrag`, and configure it with nothing more.

        Locale C and UTF-8 whatever the environment says, so that machines are comparable.

        Raises:
            ServerError: initdb refused, with its words as detail.
            StorageError: the disk is full.
        """
        self.scratch.require_free(_INITDB_BYTES, "make a cluster")
        # initdb asks for its user's name, and one of pgdrag's own has none.
        maker = self.user and self.user.with_name()
        if maker is not None:
            os.chown(self.data_directory, maker.uid, maker.gid)
        # "trust" lets every connection in as superuser. Connections can only come through a
        # socket in a directory that only root and the server's user can enter, and those
        # two can read the data directory anyhow: a password would protect nothing.
        self._run_tool(
            maker,
            "initdb",
            *("--pgdata", str(self.data_directory), "--username", self.superuser),
            *("--auth", "trust", "--encoding", "UTF8", "--locale", "C"),
            # Not yet worth a flush: a snapshot flushes what it copies.
            *("--no-sync", "--no-instructions", *options),
        )
        # Without a server: single-user mode takes a fraction of a start and stop.
        self._run_tool(
            maker,
            "postgres",
            *("--single", "-D", str(self.data_directory), "-c", "exit_on_error=on", "template1"),
            text=roles.roles_sql(),
        )
        if maker is not None:
            self.scratch.hand_over(self.data_directory, maker)
        self.configure({})

    def configure(self, settings: Mapping[str, str]) -> list[ChannelNote]:
        """Write the whole configuration: the observation channel, what is `needed`, then `settings`.

        Earlier configurations are gone, including what ALTER SYSTEM set, so that a treatment is all
        there is. It takes effect with the next start, or with `reload` if the setting allows that.

        Returns:
            A note for each setting that the channel overrules.
        """
        channel = channel_settings(self.log_directory, self.binaries.version_num)
        merged, notes = merge_channel({**self.needed, **settings}, channel)
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

    def open_tcp(self, role: str) -> None:
        """Let a role in by TCP on loopback, too, from the next start on, with a random password.

        Raises:
            ServerError: there is no loopback, or no port is free.
        """
        assert not self.is_running(), "where it listens is decided when it starts"
        self.tcp, self.port = TcpAccess(role), free_port()

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start the server and wait until it accepts connections.

        Raises:
            ServerDidNotStart: it ended, or was not ready in time (it is stopped then); the message
                has its reason, the detail the end of its log.
            StorageError: the disk is full.
        """
        for tries_left in reversed(range(_PORT_TRIES)):
            try:
                self._start(timeout_s)
            except ServerDidNotStart as error:
                if self.tcp is None or NO_PORT not in error.message or not tries_left:
                    raise
                self.port = free_port()
            else:
                return

    def _start(self, timeout_s: float) -> None:
        self._clear_leftovers()
        if self.tcp is not None:
            self.scratch.write_private(self.data_directory / "pg_hba.conf", self.tcp.hba)
        socket_file = self.socket_directory / f".s.PGSQL.{self.port}"
        # What a killed server left: its lock may name a process that has got its number since.
        socket_file.unlink(missing_ok=True)
        socket_file.with_name(f"{socket_file.name}.lock").unlink(missing_ok=True)
        self.log.mark_start()
        with (
            storage_errors("start the server", self.directory),
            self.log.startup_file.open("ab") as output,
        ):
            self._place = self.data_directory.stat()
            self._process = spawn(
                self._command(),
                user=self.user,
                environment={**clean_environment(), **mark(self.data_directory)},
                cwd=self.data_directory,  # by which its processes are known, from the first on
                # Immediate shutdown: the server still frees its shared memory.
                death_signal=signal.SIGQUIT,
                output=output,
                control_groups=self.control_groups,
            )
        is_over = wait_until(lambda: self._is_ready() or not self.is_running(), timeout_s)
        if not self.is_running():
            raise self._refusal()
        if not is_over:
            self.stop(fast_timeout_s=0)
            raise self._did_not_start(f"server was not ready after {timeout_s:g} s")
        if self._notice_program():
            self._write_owner()
        self._in_force = self._written
        if self.tcp is not None:
            self._set_password(self.tcp)
        # The question whether it is ready took one of its connections, perhaps the only one.
        wait_until(self._has_no_clients, _LEAVE_TIMEOUT_S)

    def _set_password(self, tcp: TcpAccess) -> None:
        """Give the role its password, whatever settings the treatment gives to sessions.

        Raises:
            ServerDidNotStart: the server refuses it.
        """
        settings = roles.settings_to_write(self.binaries.version_num)
        try:
            with self.connect(settings=settings) as connection:
                roles.set_password(connection, tcp.role, tcp.password)
        except (psycopg.Error, ServerLost) as error:
            self.stop(fast_timeout_s=0)
            raise self._did_not_start(f"could not set the password for TCP: {error}") from error

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
        before = self._ask("SELECT pg_conf_load_time()")
        self._ask("SELECT pg_reload_conf()")
        if not wait_until(lambda: self._ask("SELECT pg_conf_load_time()") > before, timeout_s):
            return False
        if self._ask(_REFUSED_SQL):
            return False
        self._in_force = self._written
        wait_until(self._has_no_clients, _LEAVE_TIMEOUT_S)
        return True

    def connect(
        self,
        *,
        application_name: str = "pgdrag",
        autocommit: bool = True,
        connect_timeout_s: int = 10,
        settings: Mapping[str, str] | None = None,
        role: str = superuser,
    ) -> psycopg.Connection:
        """A new connection to the database `pgdrag`, with settings of its own.

        A server whose lock table the load has filled refuses others for a moment: they try again.

        Raises:
            ServerLost: the server does not answer in time, or refuses.
        """
        conninfo = self.conninfo(
            application_name=application_name, connect_timeout_s=connect_timeout_s, role=role
        )
        options = " ".join(f"-c {x}={y}" for x, y in (settings or {}).items())
        deadline = time.monotonic() + connect_timeout_s
        while True:
            try:
                return psycopg.connect(conninfo, autocommit=autocommit, options=options)
            except psycopg.OperationalError as error:
                words = str(error)
                if _IS_FULL in words and time.monotonic() < deadline:
                    time.sleep(_AGAIN_S)
                    continue
                lines = [x for x in words.strip().splitlines() if not x.startswith("HINT: ")]
                raise ServerLost(
                    f"could not connect to the server: {lines[-1]}", detail=self.log_tail() or None
                ) from error

    def conninfo(
        self,
        *,
        application_name: str = "pgdrag",
        connect_timeout_s: int = 10,
        role: str = superuser,
    ) -> str:
        """The libpq connection string; there is no password."""
        return make_conninfo(
            host=str(self.socket_directory),
            port=self.port,
            user=role,
            dbname=self.database,
            application_name=application_name,
            connect_timeout=connect_timeout_s,
            # Given, so that the environment's PG* variables and files do not decide.
            options="",
            passfile=str(self.socket_directory / "no-passwords"),
            sslmode="disable",
            gssencmode="disable",
            channel_binding="disable",
            client_encoding="utf8",
            target_session_attrs="any",
        )

    @property
    def target(self) -> Target:
        """Where the load driver finds the cluster, as a role that may do nothing beyond its database."""
        return Target(
            host=str(self.socket_directory),
            port=self.port,
            user=self.load_role,
            database=self.database,
            bin_dir=self.binaries.bin_dir,
            cluster=self.data_directory,
            run_as=self.user,
            home=self.socket_directory,
        )

    @property
    def superuser_target(self) -> Target:
        """The same as a superuser, whose SQL can read all and run programs."""
        return replace(self.target, user=self.load_superuser)

    @property
    def own_target(self) -> Target:
        """The same for the driver's own queries, as pgdrag's own superuser."""
        return replace(self.target, user=self.superuser)

    def over_tcp(self, target: Target) -> Target:
        """Return the same role's way by TCP; `open_tcp` was called for it."""
        assert self.tcp is not None, "it has no TCP port"
        assert self.tcp.role == target.user, f"the TCP port is for {self.tcp.role}"
        return replace(target, host=LOOPBACK, port=self.port, password=self.tcp.password)

    def _ask(self, sql: LiteralString) -> Any:
        try:
            with self.connect() as connection:
                (found,) = connection.execute(sql).fetchone() or (None,)
        except psycopg.Error as error:
            raise ServerLost(f"could not ask the server what it runs with: {error}") from error
        return found

    def remove(self) -> None:
        """Stop the server without a checkpoint and delete the cluster; again is fine."""
        if self._owned.lock_fd < 0:
            return
        with storage_errors("remove a cluster", self.directory.parent):
            self.stop(fast_timeout_s=0, immediate_timeout_s=_REMOVE_TIMEOUT_S)
            self.end_everything()
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
            *("-c", f"listen_addresses={LOOPBACK if self.tcp else ''}"),
        ]

    def _write_owner(self) -> None:
        owner = OwnerFile(os.getpid(), self.program, self.socket_directory, self.user)
        owner.write(self.directory)

    def _is_ready(self) -> bool:
        if not self._says_ready():
            return False
        # As pg_ctl does: a refusal such as "too many clients" is an answer, too.
        info = self.conninfo(connect_timeout_s=2).encode()
        return psycopg.pq.PGconn.ping(info) == psycopg.pq.Ping.OK

    def _refusal(self) -> PgdragError:
        assert self._process is not None, "it was started"
        status = self._process.returncode
        self.stop()
        reason = self.log.refusal()
        # On a full disk the server may not even be able to say so.
        is_mute = reason is None and self.scratch.free_bytes() < _LOG_BYTES
        if is_mute or is_full_disk(self.log_tail()):
            return full_disk("start the server", self.directory)
        if reason is None:
            reason = ending_words(status, self.log_tail())
        return self._did_not_start(f"server did not start: {reason}")

    def _did_not_start(self, message: str) -> ServerDidNotStart:
        return ServerDidNotStart(message, detail=self.log_tail() or None)

    def _run_tool(
        self, user: ServerUser | None, name: str, *arguments: str, text: str = ""
    ) -> None:
        finished = run(
            [self.binaries.bin_dir / name, *arguments],
            user=user,
            cwd=self.directory,
            timeout_s=_INITDB_TIMEOUT_S,
            text=text,
        )
        if finished.status == 0:
            return
        # A bootstrap that crashed frees nothing, and initdb deletes its traces.
        self._clear_leftovers()
        if is_full_disk(finished.output):
            raise full_disk("make a cluster", self.directory)
        raise ServerError(
            f"{name} ended with status {finished.status}",
            detail="\n".join(finished.output.strip().splitlines()[-20:]) or None,
        )


def _socket_directory(directory: Path) -> Path:
    near = directory / "socket"
    longest = f"{near}/.s.PGSQL.65535.lock"
    if len(os.fsencode(longest)) <= _SOCKET_PATH_BYTES and _PLAIN_PATH.fullmatch(str(near)):
        return near
    return SHORT_SOCKET_ROOT / f"{SHORT_SOCKET_PREFIX}{secrets.token_hex(8)}"


def ending_words(status: int, said: str) -> str:
    """Say how a postmaster ended that logged no error, with the last line of what it wrote."""
    ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    lines = said.strip().splitlines()
    return f"the postmaster {ended}" + (f": {lines[-1].strip()}" if lines else " without a word")
