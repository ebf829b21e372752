"""How does a server that exists get a treatment's settings, and its own back?

For all sessions by ALTER SYSTEM and a reload or a restart; for the load's role in its database alone by ALTER ROLE.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from pgdrag.driver.process import Target
from pgdrag.english import listed
from pgdrag.errors import ServerDidNotStart, ServerError, ServerLost, SettingError
from pgdrag.existing.refusals import refusals_told
from pgdrag.existing.standing import Standing, why_no_loading
from pgdrag.host.auto_conf import FILE, same_text, set_statement, value_of
from pgdrag.host.error_words import words_of
from pgdrag.host.interrupts import uninterrupted
from pgdrag.host.logins import Login, keep_login
from pgdrag.host.process_alive import wait_until
from pgdrag.host.programs import Ran
from pgdrag.host.restarting import run_restart
from pgdrag.host.undo import NotedChange, RestoreResult, UndoJournal
from pgdrag.host.undo.altered_role import AlteredRole, read_role_conf, role_statement
from pgdrag.host.undo.altered_system import (
    RESTART_TIMEOUT_S,
    AlteredSystem,
    read_auto_conf,
    waiting_for_restart,
)
from pgdrag.host.undo.reaching import firm_options, reload
from pgdrag.model import Applied, Level
from pgdrag.servers.conf import fold
from pgdrag.units import same_value, with_base_unit

COMES_BACK_S = 120.0


class AlteredSettings(ABC):
    """Settings of a server, as a run changes them.

    Every value is in the undo journal before it is written. `undo` gives back what was there, as does the guardian.

    Attributes:
        how: by which means they are set, as a clause.
        session: the name of the sessions that change something, by which a guardian ends them.
    """

    how: str
    _place: ClassVar[str]

    def __init__(self, standing: Standing, restart_command: str = "") -> None:
        self.session = f"pgdrag changes {secrets.token_hex(8)}"
        self._standing, self._server = standing, standing.server
        self._restart_command = restart_command
        self._noted: NotedChange | None = None
        # What pgdrag has written and no one else should have changed.
        self._now: dict[str, str | None] = {}

    def apply(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Set what is wanted, take back what an earlier treatment set, and have the server use it.

        Returns:
            Why the server refuses a value, by the setting's name; the others are in force without it.

        Raises:
            SettingError: the server refuses all of them.
            ServerError: someone else has changed one meanwhile, or the server does not use it.
            ServerDidNotStart: it refuses to start so; it runs again with its own settings.
            ServerLost: it does not answer.
        """
        # A value that is written and not yet in force must not be forgotten half-way.
        with uninterrupted():
            with refusals_told(self._server), self._connected() as connection:
                self._refuse_unread(connection)
                refused = self._write(connection, wanted)
                self._load(connection)
            self._restart()
        return refused

    def _connected(self) -> psycopg.Connection:
        """Return a session that a treatment does not reach."""
        return _connected(self._standing, self.session)

    def undo(self) -> RestoreResult | None:
        """Give the server its own settings back; None: nothing was changed."""
        noted, self._noted = self._noted, None
        self._now = {}
        return None if noted is None else UndoJournal.open().restore(noted)

    @abstractmethod
    def _read(self, connection: psycopg.Connection) -> Mapping[str, str]:
        """Return what is written now, by name."""

    @abstractmethod
    def _first_change(self) -> AlteredSystem | AlteredRole:
        """Return the change of nothing."""

    @abstractmethod
    def _statement(self, name: str, value: str | None) -> sql.Composed:
        """Return what sets a setting, or with None takes it back."""

    def _refuse_unread(self, connection: psycopg.Connection) -> None:  # noqa: B027
        """Refuse a reload that would apply someone else's changes."""

    def _load(self, connection: psycopg.Connection) -> None:  # noqa: B027 (new sessions have it)
        """Have the server read what is written."""

    def _restart(self) -> None:  # noqa: B027
        """Restart the server, where a setting needs that."""

    def _write(self, connection: psycopg.Connection, wanted: Mapping[str, str]) -> dict[str, str]:
        written = self._read(connection)
        for name, value in self._now.items():
            if not same_text(name, value_of(written, name), value):
                raise ServerError(
                    f"somebody else has changed {name} in {self._place} of {self._server.name} during the run",
                    hint=f"pgdrag left it unchanged. {_GO_ON}",
                )
        change = None if self._noted is None else self._noted.change
        assert change is None or isinstance(change, AlteredSystem | AlteredRole), "none other"
        goal = {**(change.before if change else {}), **wanted}
        todo = {
            name: value
            for name, value in goal.items()
            if not same_text(name, value_of(written, name), value)
        }
        if not todo:
            return {}
        if change is None:
            login = Login(self._server.conninfo(), self._restart_command)
            keep_login(self._standing.system_identifier, login)
            change = self._first_change()
        before = {**{name: value_of(written, name) for name in todo}, **change.before}
        self._note(
            replace(
                change,
                before=before,
                written={
                    **change.written,
                    **{
                        name: tuple(dict.fromkeys((*change.written.get(name, ()), value)))
                        for name, value in todo.items()
                    },
                },
            )
        )
        refused: dict[str, str] = {}
        for name, value in todo.items():
            try:
                connection.execute(self._statement(name, value))
            except (psycopg.DataError, psycopg.ProgrammingError) as error:
                refused[name] = (
                    f"this server refuses {name} = {value}: {words_of(error)} (give another value, or omit it)"
                )
                value = before[name]
                connection.execute(self._statement(name, value))
            self._now[name] = value
        if refused and refused.keys() >= wanted.keys():
            raise SettingError("; ".join(refused.values()))
        return refused

    def _note(self, change: AlteredSystem | AlteredRole) -> None:
        journal = UndoJournal.open()
        if self._noted is None:
            self._noted = journal.note(change)
        else:
            self._noted = journal.settle(self._noted, change)


class SystemSettings(AlteredSettings):
    """The settings of all sessions.

    Args:
        is_restarted: each `apply` restarts the server, by `restart_command`.
        aside: has sessions that would be in the way of a restart step aside.
    """

    _place = FILE

    def __init__(
        self,
        standing: Standing,
        restart_command: str = "",
        *,
        is_restarted: bool = False,
        aside: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(standing, restart_command)
        self._is_restarted, self._aside = is_restarted, aside
        self.how = f"by ALTER SYSTEM and a {'restart' if is_restarted else 'reload'}"

    def undo(self) -> RestoreResult | None:
        """Give the server its own settings back, with a restart where only that puts them in force."""
        with self._aside() if self._is_restarted else nullcontext():
            return super().undo()

    def _read(self, connection: psycopg.Connection) -> Mapping[str, str]:
        return read_auto_conf(connection).values

    def _first_change(self) -> AlteredSystem:
        conf = self._standing.conf
        assert conf is not None, "otherwise there is no ALTER SYSTEM"
        return AlteredSystem(
            self._standing.system_identifier,
            self._server.public_conninfo(),
            self._server.name,
            self.session,
            before={},
            data_directory=self._standing.data_directory,
            order=tuple(conf.values),
            digest=hashlib.sha256(conf.content).hexdigest(),
        )

    def _statement(self, name: str, value: str | None) -> sql.Composed:
        return set_statement(name, value)

    def _refuse_unread(self, connection: psycopg.Connection) -> None:
        if why := why_no_loading(connection, own=self._own_names()):
            raise ServerError(
                f"cannot let {self._server.name} read its configuration again: {why}",
                detail="A reload would also apply changes that pgdrag did not make.",
                hint=_GO_ON,
            )

    def _own_names(self) -> set[str]:
        change = None if self._noted is None else self._noted.change
        return (
            {fold(name) for name in change.before} if isinstance(change, AlteredSystem) else set()
        )

    def _load(self, connection: psycopg.Connection) -> None:
        if not reload(connection):
            raise ServerError(f"{self._server.name} did not read its configuration again")
        if refused := connection.execute(_REFUSED).fetchall():
            words = listed([f"{name} = {value}" for name, value in refused])
            raise SettingError(f"the server refuses {words}")
        if self._is_restarted:
            self._refuse_others(connection)

    def _refuse_others(self, connection: psycopg.Connection) -> None:
        """Refuse a restart that would apply someone else's later changes."""
        own = self._own_names()
        others = [name for name in waiting_for_restart(connection) if fold(name) not in own]
        if others:
            raise ServerError(
                f"{self._server.name} is not restarted: somebody else's change of {listed(others)} waits for that",
                hint=_GO_ON,
            )

    def _restart(self) -> None:
        if self._is_restarted:
            with self._aside():
                self._restart_now()

    def _restart_now(self) -> None:
        began = self._began()
        ran = run_restart(self._restart_command, timeout_s=RESTART_TIMEOUT_S)

        def life() -> object:
            try:
                return self._began()
            except ServerLost:
                return None

        # A command that failed has not left a server that is about to come.
        wait_s = COMES_BACK_S if ran.succeeded else 0.0
        if wait_until(lambda: life() not in (None, began), wait_s):
            return
        is_untouched = life() == began
        result = self.undo()
        if result is not None and not result.is_settled:
            raise ServerError(
                f"{self._server.name} does not run as before: {result.sentence}",
                detail=ran.output or None,
            )
        if ran.succeeded or is_untouched:
            raise ServerError(
                f'"{self._restart_command}" did not restart {self._server.name}'
                + ("" if ran.succeeded else f": {ran.last_line}"),
                detail=None if result is None else result.sentence,
                hint="Name a command that restarts it, and starts it if it does not run.",
            )
        said = Ran(ran.status, ran.output.replace(_SEE_LOG, "")).last_line
        raise ServerDidNotStart(f"the server did not start (see its log): {said}")

    def _began(self) -> object:
        with refusals_told(self._server), self._connected() as connection:
            return connection.execute(_BEGAN).fetchall()


class RoleSettings(AlteredSettings):
    """The settings of the load's role in the load's database; no other session has them.

    Args:
        load: where the load connects to, and as whom.
    """

    how = "by ALTER ROLE ... IN DATABASE ... SET, for the load's role alone"
    _place = "the settings of the load's role"

    def __init__(self, standing: Standing, load: Target) -> None:
        super().__init__(standing)
        self._whose = load.user, load.database

    def _read(self, connection: psycopg.Connection) -> Mapping[str, str]:
        found = read_role_conf(connection, *self._whose)
        assert found is not None, "the role is connected to the database"
        return found

    def _first_change(self) -> AlteredRole:
        return AlteredRole(
            self._standing.system_identifier,
            self._server.public_conninfo(),
            self._server.name,
            self.session,
            before={},
            role=self._whose[0],
            database=self._whose[1],
        )

    def _statement(self, name: str, value: str | None) -> sql.Composed:
        return role_statement(*self._whose, name, value)


def read_back(standing: Standing, levels: Sequence[Level], *, how: str) -> list[Applied]:
    """Return what a new session of the load's role has of each setting.

    Args:
        how: by which means they were set.

    Raises:
        ServerLost: the server does not answer.
    """
    names = [fold(level.name) for level in levels]
    with (
        refusals_told(standing.server),
        _connected(standing, "pgdrag read back", keeping=names) as connection,
    ):
        rows = {row[0].lower(): row for row in connection.execute(_READ_BACK, [names])}
    return [_applied(level, rows.get(fold(level.name)), standing, how) for level in levels]


def _connected(
    standing: Standing, session: str, *, keeping: Sequence[str] = ()
) -> psycopg.Connection:
    server = standing.server
    options = firm_options(server.conninfo(), standing.version_num, without=keeping)
    return server.connect(application_name=session, options=options)


def _applied(level: Level, row: tuple[Any, ...] | None, standing: Standing, how: str) -> Applied:
    if row is None:
        return Applied(level, None, "the running server does not show this setting")
    _, shown, unit, vartype, source = row
    note = ""
    is_same = same_value(level.value, shown, vartype=vartype, unit=unit)
    if not is_same and not same_text(level.name, level.value, shown):
        note = f"the server runs with another value than it was asked for (source: {source})"
    own = standing.in_force.get(fold(level.name))
    default = None if own is None else with_base_unit(own.value, unit)
    return Applied(level, with_base_unit(shown, unit), note, default, how)


_GO_ON = 'Make sure that nobody else changes settings, then run "pgdrag resume".'
# The end of what pg_ctl says.
_SEE_LOG = "Examine the log output."
_BEGAN = "SELECT pg_catalog.pg_postmaster_start_time()"
# Those that wait for a restart are in no way refused; one whose line is gone has not even a name there.
_REFUSED = """
SELECT f.name, f.setting FROM pg_catalog.pg_file_settings AS f LEFT JOIN pg_catalog.pg_settings AS s USING (name)
 WHERE f.error IS NOT NULL AND f.name IS NOT NULL AND s.context IS DISTINCT FROM 'postmaster'
"""
_READ_BACK = """
SELECT name, reset_val, unit, vartype, source FROM pg_catalog.pg_settings WHERE lower(name) = ANY (%s)
"""
