"""Which server does a person name, and can the load driver reach it? libpq's own rules decide.

A connection string or URI, the PG* variables, ~/.pgpass and a service file mean what they mean to
psql. The question is put to the server itself: what the driver is told is what libpq connected to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgdrag.driver.process import Target
from pgdrag.english import printable
from pgdrag.errors import ServerLost, UsageError

CONNECT_TIMEOUT_S = 10
# What says where to connect to; PGUSER or PGPASSWORD alone name no server.
_PLACES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE")
# libpq's modes that refuse a connection without TLS.
_TLS_ONLY = frozenset({"require", "verify-ca", "verify-full"})

_NOT_ENCODED = "invalid percent-encoding (write %25 for a % in a password)"
_SECRETS = frozenset({"password", "sslpassword"})

AskPassword = Callable[[str], str]


@dataclass(frozen=True)
class Server:
    """A server that answers, and what to know of it before it is written to.

    Attributes:
        target: what the driver is told.
        version: as the server says it, such as "18.6".
        is_local: reached through a Unix socket or a loopback address.
        other_sessions: of other clients, on the whole server, when it was asked.
        label: what people call it, where its place would tell them nothing.
    """

    target: Target
    version: str
    is_local: bool
    other_sessions: int
    _conninfo: str = field(repr=False)
    label: str = ""

    @property
    def name(self) -> str:
        """Where it is, for people: `database "bench" on db1, port 5432`; never with a password."""
        if self.label:
            return self.label
        host = self.target.host
        place = f'socket "{host}"' if host.startswith("/") else host
        return f'database "{self.target.database}" on {place}, port {self.target.port}'

    @property
    def production_signs(self) -> tuple[str, ...]:
        """What makes it look like a server that others depend on."""
        found = []
        if not self.is_local:
            found.append(f"{self.target.host} is not this machine")
        if self.other_sessions:
            sessions = "session" if self.other_sessions == 1 else "sessions"
            found.append(f"it has {self.other_sessions} other {sessions}")
        return tuple(found)

    def conninfo(self, **keywords: str | int) -> str:
        """Return what leads to it, with the password: for libpq, and for nobody to read."""
        return make_conninfo(self._conninfo, **keywords)

    def public_conninfo(self) -> str:
        """Return what leads to it without passwords, which libpq must then find elsewhere."""
        found = conninfo_to_dict(self._conninfo)
        return make_conninfo(**{x: str(y) for x, y in found.items() if y and x not in _SECRETS})

    def connect(self, **keywords: str | int) -> psycopg.Connection:
        """Return a new connection, in autocommit mode.

        Args:
            keywords: libpq's, such as application_name, over those that it was reached with.

        Raises:
            ServerLost: it does not answer any more.
        """
        try:
            return psycopg.connect(self.conninfo(**keywords), autocommit=True)
        except psycopg.OperationalError as error:
            raise ServerLost(f"could not connect to {self.name}: {_reason(error)}") from None


def names_a_server(
    dsn: str | None, overrides: Mapping[str, object], environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether anything says where to connect to; libpq's own defaults do not count."""
    return dsn is not None or bool(overrides) or any(environment.get(x) for x in _PLACES)


def reach(
    dsn: str | None,
    overrides: Mapping[str, str | int] | None = None,
    *,
    ask_password: AskPassword | None = None,
    is_for_driver: bool = True,
) -> Server:
    """Connect as libpq does and return the server that answered.

    Args:
        dsn: a connection string, a URI or a database's name; None: what the environment says.
        overrides: libpq's keywords that replace those of `dsn`.
        ask_password: asks the person at the terminal, given what for; None: nobody is there.
        is_for_driver: only as the load driver can: without TLS, and without options for the session.

    Raises:
        UsageError: the string cannot be read, or asks for what the load driver does not have.
        ServerLost: the server does not answer, or refuses.
    """
    wanted = {**_read(dsn), **(overrides or {})}
    ours = {"application_name": "pgdrag"}
    if is_for_driver:
        mode = str(wanted.get("sslmode") or os.environ.get("PGSSLMODE") or "")
        if mode in _TLS_ONLY:
            raise UsageError(
                f"cannot connect with sslmode={mode}: the load driver does not speak TLS",
                hint="Connect through a Unix socket, a loopback address or a network that needs no TLS.",
            )
        # The driver connects without TLS: so must the question, or it would prove nothing.
        ours |= {"sslmode": "disable", "gssencmode": "disable"}
    keywords: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, **wanted, **ours}
    with _connect(make_conninfo(**keywords), ask_password) as connection:
        info = connection.info
        if is_for_driver and info.options:
            raise UsageError(
                f"cannot hand connection option options={info.options!r} to the load driver",
                hint="Set it with ALTER ROLE … SET or ALTER DATABASE … SET, and leave it out here.",
            )
        host = info.host or "localhost"
        ((others,),) = connection.execute(_OTHER_SESSIONS).fetchall()
        return Server(
            target=Target(host, info.port, info.user, info.dbname, info.password or None),
            version=f"{info.server_version // 10000}.{info.server_version % 10000}",
            is_local=host.startswith("/")
            or ip_address(info.hostaddr.partition("%")[0]).is_loopback,
            other_sessions=int(others),
            _conninfo=make_conninfo(info.dsn, password=info.password),
        )


def _read(dsn: str | None) -> dict[str, str | int]:
    if dsn is None:
        return {}
    if dsn != printable(dsn):
        raise UsageError("the connection string is not UTF-8")
    if "=" not in dsn and "://" not in dsn:
        return {"dbname": dsn}
    try:
        found = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        # A token that is not properly encoded may be the password.
        reason = str(error).strip().splitlines()[0]
        reason = _NOT_ENCODED if "percent-encoded" in reason else reason
        raise UsageError(
            f"cannot read the connection string: {reason}",
            hint='Write "host=db1 dbname=bench user=me" or "postgresql://me@db1/bench".',
        ) from None
    return {name: value for name, value in found.items() if value is not None}


def _connect(
    conninfo: str, ask_password: AskPassword | None, password: str | None = None
) -> psycopg.Connection:
    try:
        return psycopg.connect(conninfo, password=password, autocommit=True)
    except psycopg.OperationalError as error:
        reason = _reason(error)
    if "no password supplied" in reason and password is None:
        if ask_password is None:
            raise UsageError(
                "the server asks for a password, and there is none",
                detail=f"{reason[0].upper()}{reason[1:]}.",
                hint="Put it in ~/.pgpass or in PGPASSWORD.",
            )
        return _connect(conninfo, None, ask_password("Password: "))
    hint = "Name the server by a connection string or by PGHOST, PGPORT, PGDATABASE and PGUSER."
    if "No such file or directory" in reason or "Connection refused" in reason:
        hint = f"Is a server running there? {hint}"
    if "no encryption" in reason or "SSL off" in reason:
        hint = 'The load driver does not speak TLS: the server needs a line "host" in pg_hba.conf.'
    raise ServerLost(f"could not connect: {reason}", hint=hint)


def _reason(error: psycopg.Error) -> str:
    """Return the server's or libpq's own words in one line, without what psycopg puts before."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else "no reason is given"
    if text.startswith("Multiple connection attempts") and len(lines) > 1:
        text = lines[1].removeprefix("- ")
    for prefix in ("connection failed: ", "connection is bad: "):
        text = text.removeprefix(prefix)
    return text


# Whoever may not see other roles' sessions sees their database, but not what kind they are.
_OTHER_SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datid IS NOT NULL AND pid <> pg_backend_pid()
  AND coalesce(backend_type, 'client backend') = 'client backend'
"""
