"""Settings that ALTER SYSTEM wrote to postgresql.auto.conf on an existing server."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import ClassVar

import psycopg

from pgdrag.host.auto_conf import (
    FILE,
    AutoConf,
    loads_nothing,
    out_of_place,
    set_statement,
    text_of,
    with_values,
)
from pgdrag.host.error_words import words_of
from pgdrag.host.foreign_files import read_foreign
from pgdrag.host.logins import login_of
from pgdrag.host.process_alive import wait_until
from pgdrag.host.restarting import run_restart
from pgdrag.host.undo import RestoreResult
from pgdrag.host.undo.reaching import (
    AnotherServer,
    SettingsChange,
    Unreachable,
    end_sessions,
    failed,
    refused,
    reload,
    undoing,
)

RESTART_TIMEOUT_S = 300.0
_LARGEST_FILE_BYTES = 10_000_000
_IDENTIFIER_BYTES = 8
# A command that pgdrag had begun as it was killed may still be restarting the server.
_COMES_BACK_S = 3.0


@dataclass(frozen=True)
class AlteredSystem(SettingsChange):
    """What a run has written with ALTER SYSTEM, or is about to write.

    Attributes:
        data_directory: where it is on this machine; "": elsewhere, or not to be written to.
        order: the names of all lines that the file had, in its order. Values of others are not kept.
        digest: of the file's content (SHA-256), so that it is known to be the same in the end.
    """

    name: ClassVar[str] = "altered_system"

    data_directory: str = field(kw_only=True)
    order: tuple[str, ...] = ()
    digest: str = ""

    def words(self) -> str:
        """Return the server and its settings."""
        return f"{', '.join(self.before)} of {self.where}, set with ALTER SYSTEM"

    def __post_init__(self) -> None:
        super().__post_init__()
        path = PurePosixPath(self.data_directory)
        if self.data_directory and (not path.is_absolute() or ".." in path.parts):
            raise ValueError(f'"{self.data_directory}" is no data directory')

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Put the file back as it was, let the server read it, and restart it where only that has an effect."""
        try:
            try:
                return self._by_the_server(overwrite=overwrite)
            except Unreachable:
                directory = self._directory_here()
                if directory is None:
                    raise
                # A command that pgdrag had begun as it was killed may be about to start it.
                if not wait_until(lambda: postmaster_runs(directory), _COMES_BACK_S):
                    return self._by_its_file(directory, overwrite=overwrite)
                return self._by_the_server(overwrite=overwrite, is_starting=True)
        except (Unreachable, AnotherServer, psycopg.Error, OSError) as error:
            return failed(f"{self._who}could not be restored", error)

    @property
    def _who(self) -> str:
        return f"Settings of {self.where} "

    def _by_the_server(self, *, overwrite: bool, is_starting: bool = False) -> RestoreResult:
        with undoing(self.system_identifier, self.conninfo, is_starting=is_starting) as connection:
            end_sessions(connection, self.session)
            conf = read_auto_conf(connection)
            changes, foreign = self.to_change(conf.values, overwrite=overwrite)
            left = refused(connection, changes, set_statement)
            if not left and not foreign:
                self._put_in_order(connection)
            if not reload(connection):
                left.append("the server did not read its configuration again")
            is_same = self._is_same(read_auto_conf(connection))
            waiting, others = self._waiting(connection)
        if left:
            return RestoreResult("failed", f"{self._who}could not be restored: {'; '.join(left)}.")
        # A restart puts in force whatever is written, by whomever.
        if foreign:
            return self._changed_since(foreign, waiting)
        if waiting and (trouble := self._restart(others)):
            return RestoreResult(
                "failed",
                f"{FILE} of {self.where} is as it was, but until the server is restarted it runs with other values "
                f"of {', '.join(waiting)}: {trouble}.",
            )
        return self._settled(is_changed=bool(changes) or bool(waiting), is_same=is_same)

    def _put_in_order(self, connection: psycopg.Connection) -> None:
        """Restore the order of lines, unless someone else has added or removed a line."""
        conf = read_auto_conf(connection)
        if sorted(conf.values) != sorted(self.order):
            return
        moved = list(out_of_place(list(conf.values), self.order))
        if any(loads_nothing(name, conf.values[name]) for name in moved):
            return
        for name in moved:
            try:
                connection.execute(set_statement(name, conf.values[name]))
            except psycopg.Error:  # such as a library's setting that it no longer accepts
                return

    def _is_same(self, conf: AutoConf) -> bool:
        return hashlib.sha256(conf.content).hexdigest() == self.digest

    def _waiting(self, connection: psycopg.Connection) -> tuple[list[str], list[str]]:
        """Return the settings that are in force otherwise than they are written: pgdrag's, and others."""
        own = {name.lower() for name in self.before}
        found = waiting_for_restart(connection)
        return [x for x in found if x.lower() in own], [x for x in found if x.lower() not in own]

    def _restart(self, others: list[str]) -> str:
        """Restart the server, and return why it does not run as before, as a clause; "": it does.

        Args:
            others: settings of others that wait for a restart.
        """
        if others:
            return (
                f"a restart would put in force what somebody else has changed ({', '.join(others)})"
            )
        login = login_of(self.system_identifier)
        if login is None or not login.restart_command:
            return "no command for that is known"
        ran = run_restart(login.restart_command, timeout_s=RESTART_TIMEOUT_S)
        if not ran.succeeded:
            return f'"{login.restart_command}" failed: {ran.last_line}'
        try:
            with undoing(self.system_identifier, self.conninfo, is_starting=True) as connection:
                is_waiting = bool(self._waiting(connection)[0])
        except (Unreachable, AnotherServer, psycopg.Error) as error:
            return words_of(error)
        return "the command did not restart it" if is_waiting else ""

    def _directory_here(self) -> Path | None:
        """Return the data directory, where it is on this machine and is this server's."""
        is_here = self.data_directory and is_cluster(self.data_directory, self.system_identifier)
        return Path(self.data_directory) if is_here else None

    def _by_its_file(self, directory: Path, *, overwrite: bool) -> RestoreResult:
        """Restore the file of a server that is down, and start the server if a command for that is known."""
        conf = AutoConf(read_foreign(directory / FILE, _LARGEST_FILE_BYTES))
        changes, foreign = self.to_change(conf.values, overwrite=overwrite)
        if changes and not conf.is_plain:
            return self._by_hand(directory / FILE, changes)
        if changes:
            content = text_of(with_values(conf.values, changes, self.order))
            write_auto_conf(directory / FILE, content)
        login = login_of(self.system_identifier)
        if login is None or not login.restart_command:
            return self._in_the_file(foreign, "the server does not run")
        ran = run_restart(login.restart_command, timeout_s=RESTART_TIMEOUT_S)
        try:
            found = self._by_the_server(overwrite=overwrite, is_starting=ran.succeeded)
        except (Unreachable, AnotherServer, psycopg.Error) as error:
            why = f"the server does not run: {words_of(error)}; {ran.last_line}"
            return self._in_the_file(foreign, why)
        if changes and found.state == "already restored":
            return self._settled(is_changed=True, is_same=True)
        return found

    def _by_hand(self, path: Path, changes: Mapping[str, str | None]) -> RestoreResult:
        """Return what a person is to do, who has written into the file what no ALTER SYSTEM writes."""
        todo = [
            f"remove {name}" if value is None else f"set {name} = '{value}'"
            for name, value in changes.items()
        ]
        return RestoreResult(
            "failed",
            f"{self._who}were not restored: the server does not run, and {path} has lines that somebody has written "
            f"by hand. In that file, {', '.join(todo)}; or start the server and run pgdrag restore.",
        )

    def _in_the_file(self, foreign: list[str], but: str) -> RestoreResult:
        alone = f", except what someone else has changed ({', '.join(foreign)})" if foreign else ""
        return RestoreResult("failed", f"{self._who}were restored in {FILE}{alone}, but {but}.")

    def _settled(self, *, is_changed: bool, is_same: bool) -> RestoreResult:
        same = "" if is_same else f" {FILE} has other lines than before, which are not pgdrag's."
        if not is_changed:
            return RestoreResult("already restored", f"{self._who}are as they were.{same}")
        names = ", ".join(self.before)
        return RestoreResult("restored", f"{self._who}were restored: {names}.{same}")

    def _changed_since(self, foreign: list[str], waiting: list[str]) -> RestoreResult:
        wait = f" {', '.join(waiting)} will be in force after a restart." if waiting else ""
        return RestoreResult(
            "changed since",
            f"{self._who}were changed by someone else since pgdrag did, so they were left alone: "
            f'{", ".join(foreign)} in {FILE}.{wait} To restore them, run "pgdrag restore --overwrite".',
        )


def read_auto_conf(connection: psycopg.Connection) -> AutoConf:
    """Return the file, as the server reads it for a superuser or a member of pg_read_server_files."""
    try:
        ((content,),) = connection.execute(_READ, [FILE]).fetchall()
    except psycopg.errors.UndefinedFile:
        content = b""
    return AutoConf(bytes(content))


def waiting_for_restart(connection: psycopg.Connection) -> list[str]:
    """Return the settings that are in force otherwise than they are written, until the server is restarted."""
    return [name for (name,) in connection.execute(_WAITING)]


def is_cluster(directory: str, system_identifier: str) -> bool:
    """Whether a data directory of this machine is that of a server, and may be read."""
    try:
        content = read_foreign(Path(directory) / "global" / "pg_control", _IDENTIFIER_BYTES)
    except OSError:
        return False
    found = (int.from_bytes(content, order) for order in ("little", "big"))
    return system_identifier in (str(one) for one in found)


def postmaster_runs(directory: Path) -> bool:
    """Whether the process that a data directory's lock file names lives, and is a server's."""
    try:
        pid = int(read_foreign(directory / "postmaster.pid", 100).split(b"\n", 1)[0])
        return Path(f"/proc/{pid}/comm").read_text().startswith("postgres")
    except (OSError, ValueError):
        return False


def write_auto_conf(path: Path, content: bytes) -> None:
    """Replace the file of a server that is down, whole, with the owner and the mode that it has.

    Raises:
        OSError: as the kernel says.
    """
    # Nothing in between may be swapped by the server's user.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    new = f"{path.name}.pgdrag"
    try:
        was = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=directory)
        fd = os.open(new, flags, 0o600, dir_fd=directory)
        try:
            with os.fdopen(fd, "wb") as file:
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), was.st_uid, was.st_gid)
                os.fchmod(file.fileno(), was.st_mode & 0o777)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(new, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            os.unlink(new, dir_fd=directory)
            raise
        os.fsync(directory)
    finally:
        os.close(directory)


_READ = "SELECT pg_catalog.pg_read_binary_file(%s)"
# Once a line is gone that never was in force, the server still says that a restart is pending, which changes nothing.
_WAITING = """
SELECT s.name FROM pg_catalog.pg_settings AS s
 WHERE s.pending_restart AND (s.source = 'configuration file' OR EXISTS (
       SELECT FROM pg_catalog.pg_file_settings AS f WHERE lower(f.name) = lower(s.name)))
 ORDER BY s.name
"""
