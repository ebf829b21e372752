"""How does an undo connect to an existing server, and is it still the one that was changed?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from pgdrag.host.auto_conf import same_text, value_of
from pgdrag.host.error_words import words_of
from pgdrag.host.logins import login_of
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo import Change, RestoreResult
from pgdrag.passwords import has_password

CONNECT_TIMEOUT_S = 10
# As long as a server takes that starts or shuts down just now.
PATIENCE_S = 60.0
RELOAD_TIMEOUT_S = 10.0
_STATEMENT_S, _LOCK_S = 30, 10
# What a session must not take from its role, its database or the server, and since which version it can be said.
_FIRM = {
    "default_transaction_read_only": ("off", 0),
    "statement_timeout": (f"{_STATEMENT_S}s", 0),
    "lock_timeout": (f"{_LOCK_S}s", 0),
    "idle_in_transaction_session_timeout": ("0", 0),
    "idle_session_timeout": ("0", 140000),
    "transaction_timeout": ("0", 170000),
}
_ANY_VERSION = 1_000_000
_AGAIN_S = 0.1
_ENDS_WITHIN_S = 10.0
# Starting up, shutting down, in the middle of a crash restart, or full: a dead load's sessions end soon.
_SOON = ("57P03", "57P01", "57P02", "53300")
_SOON_WORDS = (
    "system is ",
    "too many clients",
    "too many connections",
    "connection slots are",
    "no more connections",
)
_WHICH = """
SELECT system_identifier::text, pg_catalog.pg_is_in_recovery() FROM pg_catalog.pg_control_system()
"""


@dataclass(frozen=True)
class ServerChange(Change):
    """A change to an existing server that a run has made or is about to make.

    Attributes:
        system_identifier: of the server, which its control file has.
        conninfo: libpq's, without a password.
        where: the server, or the database, for people.
        session: the application_name of the sessions that change it.
    """

    survives_boot: ClassVar[bool] = True

    system_identifier: str
    conninfo: str
    where: str
    session: str

    def __post_init__(self) -> None:
        if has_password(self.conninfo):
            raise ValueError("a connection string in the undo journal has no password")


@dataclass(frozen=True)
class SettingsChange(ServerChange):
    """Settings that a run has changed on an existing server.

    Attributes:
        before: their values there, by name; None: not set there.
        written: the values that pgdrag gives them, by name; None: taken away.
    """

    before: Mapping[str, str | None]
    written: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)

    def to_change(
        self, now: Mapping[str, str], *, overwrite: bool
    ) -> tuple[dict[str, str | None], list[str]]:
        """Return the values to restore, and in words those that someone else has changed since."""
        changes: dict[str, str | None] = {}
        foreign = []
        for name, before in self.before.items():
            value = value_of(now, name)
            if same_text(name, value, before):
                continue
            if overwrite or any(same_text(name, value, x) for x in self.written.get(name, ())):
                changes[name] = before
            else:
                foreign.append(f"{name} is {'not set' if value is None else value}")
        return changes, foreign


def refused(
    connection: psycopg.Connection,
    changes: Mapping[str, str | None],
    statement: Callable[[str, str | None], sql.Composed],
) -> list[str]:
    """Change settings, and return those that the server refuses, with the reason."""
    left = []
    for name, value in changes.items():
        try:
            connection.execute(statement(name, value))
        except psycopg.Error as error:
            left.append(f"{name} ({words_of(error)})")
    return left


class Unreachable(Exception):
    """Nobody answers there: the words say why."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class AnotherServer(Exception):
    """Somebody answers there, but it is another server than the one that was changed, or a standby."""


@contextmanager
def undoing(
    system_identifier: str, conninfo: str, *, is_starting: bool = False
) -> Iterator[psycopg.Connection]:
    """Connect to a server that was changed, as its login says, in autocommit mode.

    Args:
        system_identifier: of the server, as its cluster's control file has it.
        conninfo: how it was reached, without a password, if no login is known.
        is_starting: it will be up soon, so wait while nothing answers.

    Raises:
        Unreachable: no answer, or the connection is rejected.
        AnotherServer: it is not that server any more.
        psycopg.Error: whatever goes wrong within the block.
    """
    login = login_of(system_identifier)
    conninfo = conninfo if login is None else login.conninfo
    with _connected(conninfo, is_starting=is_starting) as connection:
        ((found, is_standby),) = connection.execute(_WHICH).fetchall()
        if found != system_identifier:
            raise AnotherServer(f"another server answers there (system identifier {found})")
        if is_standby:
            raise AnotherServer("it is a standby now")
        yield connection


def firm_options(
    conninfo: str,
    version_num: int = _ANY_VERSION,
    *,
    without: Collection[str] = (),
    is_limited: bool = True,
) -> str:
    """Return libpq's `options` of a session that settings of its role, its database and the server do not hinder.

    They outrank all of those, also the values that a run is measuring.

    Args:
        conninfo: whose own options stay.
        without: settings that the session is asked about, or that the server does not know.
        is_limited: a statement may take as long as an undo's; else any time, but it still does not wait long for locks.
    """
    own = conninfo_to_dict(conninfo).get("options") or os.environ.get("PGOPTIONS", "")
    words = [str(own)] if own else []
    for name, (value, since) in _FIRM.items():
        if name not in without and version_num >= since:
            is_lifted = name == "statement_timeout" and not is_limited
            words.append(f"-c {name}={'0' if is_lifted else value}")
    return " ".join(words)


def is_refusal(error: psycopg.OperationalError) -> bool:
    """Whether the server rejects pgdrag for a reason that will not pass by itself."""
    text = str(error)
    is_answer = error.sqlstate is not None or "FATAL" in text or "no password supplied" in text
    return is_answer and not passes(error)


def passes(error: psycopg.OperationalError) -> bool:
    """Whether the server rejects connections for the moment: it is starting, stopping, or at its connection limit."""
    # Of an error of the connection itself libpq gives no SQLSTATE.
    return error.sqlstate in _SOON or any(words in str(error) for words in _SOON_WORDS)


def end_sessions(connection: psycopg.Connection, name: str) -> None:
    """End sessions of a dead process, which may be in the middle of a change, and wait for their end."""

    def are_gone() -> bool:
        return not connection.execute(_END, [name]).fetchall()

    wait_until(are_gone, _ENDS_WITHIN_S)


def reload(connection: psycopg.Connection) -> bool:
    """Let a server read its configuration again, and wait until it has; False: it takes too long."""
    ((before,),) = connection.execute("SELECT pg_catalog.pg_conf_load_time()").fetchall()
    connection.execute("SELECT pg_catalog.pg_reload_conf()")
    # Each session learns of it by itself: this one is asked until it has.
    return wait_until(
        lambda: (
            connection.execute("SELECT pg_catalog.pg_conf_load_time()").fetchall() != [(before,)]
        ),
        RELOAD_TIMEOUT_S,
    )


def failed(what: str, error: Exception) -> RestoreResult:
    """Return that something was not undone, and why, with what a person can do about it."""
    return RestoreResult("failed", f"{what}: {words_of(error)}.")


_END = """
SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
 WHERE application_name = %s AND pid <> pg_catalog.pg_backend_pid()
"""


@contextmanager
def _connected(conninfo: str, *, is_starting: bool) -> Iterator[psycopg.Connection]:
    deadline = time.monotonic() + PATIENCE_S
    unknown: set[str] = set()
    while True:
        try:
            connection = psycopg.connect(
                conninfo,
                options=firm_options(conninfo, without=unknown),
                application_name="pgdrag restore",
                connect_timeout=CONNECT_TIMEOUT_S,
                autocommit=True,
            )
        except psycopg.OperationalError as error:
            if older := {name for name in _FIRM if f'"{name}"' in str(error)} - unknown:
                unknown |= older
                continue
            is_soon = passes(error) or (is_starting and not is_refusal(error))
            if not is_soon or time.monotonic() > deadline:
                raise Unreachable(words_of(error)) from error
            time.sleep(_AGAIN_S)
            continue
        break
    with connection:
        yield connection
