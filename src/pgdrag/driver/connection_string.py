"""Which server does a person name, and can the load driver reach it? libpq's own rules decide.

A connection string or URI, the PG* variables, ~/.pgpass and a service file mean what they mean to
psql. The question is put to the server itself: what the driver is told is what libpq connected to.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgdrag.driver.abort_connection import abort_after
from pgdrag.driver.process import Target
from pgdrag.driver.security import (
    NOT_IN_THE_CLEAR,
    TLS_ONLY,
    Security,
    parameters,
    parameters_of,
    security_of,
)
from pgdrag.english import printable
from pgdrag.errors import ServerLost, UsageError

CONNECT_TIMEOUT_S = 10
ANSWER_TIMEOUT_S = 10.0
# What says where to connect to; PGUSER or PGPASSWORD alone name no server.
_PLACES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE")

_NOT_ENCODED = "invalid percent-encoding (write %25 for a % in a password)"
# libpq would quote a part of what it cannot read, which may be the password's.
_NOT_QUOTED = 'missing "=" after a word (put a value with spaces between single quotes)'
_NO_PORT = "the port is not a number (write %2F for a / and %40 for an @ in a password)"
_SECRETS = frozenset({"password", "sslpassword"})

AskPassword = Callable[[str], str]


@dataclass(frozen=True)
class Server:
    """A server that answers, and what to know of it before it is written to.

    Attributes:
        target: what the driver is told.
        version: as the server says it, such as "18.6".
        is_local: reached through a Unix socket or a loopback address.
        is_encrypted: reached with TLS, which every session has then.
        other_sessions: of other clients, on the whole server, when it was asked.
        label: what people call it, where its place would tell them nothing.
    """

    target: Target
    version: str
    is_local: bool
    is_encrypted: bool
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

    def in_database(self, database: str) -> Server:
        """Return another database of the same server, reached in the same way."""
        target = replace(self.target, database=database)
        return replace(self, target=target, _conninfo=self.conninfo(dbname=database))

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
        is_for_driver: only as the load driver can: without options for the session, for example.

    Raises:
        UsageError: the string cannot be read, or asks for what the load driver does not have.
        ServerLost: the server does not answer, or refuses.
    """
    wanted = {**_read(dsn), **(overrides or {})}
    ours = {"application_name": "pgdrag"}
    keywords: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, **wanted, **ours}
    known = parameters_of(make_conninfo(**keywords))
    if is_for_driver and known.get("gssencmode") != "require":
        # The driver encrypts with TLS alone: so must the question, or it would prove nothing.
        keywords["gssencmode"] = "disable"
    is_careful = not known.get("require_auth") and known.get("sslmode") not in TLS_ONLY
    with _connect(keywords, ask_password, is_careful=is_careful) as connection:
        info, is_encrypted = connection.info, connection.pgconn.ssl_in_use
        known = parameters(connection.pgconn.info)
        if is_careful:  # the driver has this rule of its own
            known.pop("require_auth", None)
        security = security_of(known, is_encrypted=is_encrypted) if is_for_driver else Security()
        host = info.host or "localhost"
        is_socket = host.startswith("/")
        address = info.hostaddr.partition("%")[0]
        others = _other_sessions(connection)
        return Server(
            target=Target(
                host,
                info.port,
                info.user,
                info.dbname,
                info.password or None,
                address=None if is_socket or info.hostaddr == host else info.hostaddr,
                security=security,
            ),
            version=f"{info.server_version // 10000}.{info.server_version % 10000}",
            is_local=is_socket or ip_address(address).is_loopback,
            is_encrypted=is_encrypted,
            other_sessions=others,
            _conninfo=make_conninfo(
                info.dsn,
                password=info.password,
                # What was encrypted once is not spoken in clear text later.
                **({"sslmode": _at_least_encrypted(known)} if is_encrypted else {}),
            ),
        )


def _other_sessions(connection: psycopg.Connection) -> int:
    """Return how many sessions there are besides this one, from a server that may be none.

    Raises:
        ServerLost: it does not answer in time, or something else.
    """
    count, is_late = -1, threading.Event()
    try:
        # libpq would wait for ever.
        with (
            abort_after(connection, after_s=ANSWER_TIMEOUT_S) as is_late,
            connection.cursor() as cursor,
        ):
            for (found,) in cursor.stream(_OTHER_SESSIONS):
                if count >= 0:  # rows may come without end: the session is over, and none is kept
                    connection.close()
                    raise ValueError
                count = int(found)
    except psycopg.Error as error:
        if is_late.is_set():
            raise ServerLost(
                f"the server let pgdrag in, but did not answer within {ANSWER_TIMEOUT_S:g} s"
            ) from None
        raise ServerLost(f"could not ask the server anything: {_reason(error)}") from None
    except (ValueError, TypeError):
        count = -1
    if count < 0:
        raise ServerLost("the server does not answer as PostgreSQL does")
    return count


def _at_least_encrypted(known: Mapping[str, str]) -> str:
    mode = known.get("sslmode", "")
    return mode if mode in TLS_ONLY else "require"


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
        for part, told in (("percent-encoded", _NOT_ENCODED), ('missing "="', _NOT_QUOTED)):
            reason = told if part in reason else reason
        raise UsageError(
            f"cannot read the connection string: {reason}",
            hint='Write "host=db1 dbname=bench user=me" or "postgresql://me@db1/bench".',
        ) from None
    return {name: value for name, value in found.items() if value is not None}


def _connect(
    keywords: Mapping[str, Any], ask_password: AskPassword | None, *, is_careful: bool
) -> psycopg.Connection:
    """Connect; if `is_careful`, without a word that would tell the password to who listens."""
    careful = {"require_auth": NOT_IN_THE_CLEAR} if is_careful else {}
    try:
        return psycopg.connect(make_conninfo(**{**keywords, **careful}), autocommit=True)
    except psycopg.OperationalError as error:
        failure = error
    reason = _reason(failure)
    # Of several hosts, the last one's own words are the first line.
    if is_careful and "authentication method requirement" in str(failure).partition("\n")[0]:
        return _connect(_without_eavesdroppers(failure, keywords), ask_password, is_careful=False)
    if "no password supplied" in reason and "password" not in keywords:
        if ask_password is None:
            raise UsageError(
                "the server asks for a password, and there is none",
                detail=f"{reason[0].upper()}{reason[1:]}.",
                hint="Put it in ~/.pgpass or in PGPASSWORD.",
            )
        answered = {**keywords, "password": ask_password("Password: ")}
        return _connect(answered, None, is_careful=is_careful)
    raise ServerLost(f"could not connect: {reason}", hint=_connect_hint(reason))


def _connect_hint(reason: str) -> str:
    hint = "Name the server by a connection string or by PGHOST, PGPORT, PGDATABASE and PGUSER."
    if "No such file or directory" in reason or "Connection refused" in reason:
        return f"Is a server running there? {hint}"
    if "no encryption" in reason or "SSL off" in reason:
        return "The server wants TLS: connect with sslmode=require, or better sslmode=verify-full."
    if "does not support SSL" in reason:
        return (
            "Set ssl = on there. Without TLS a password goes to another host only if the server asks for "
            "scram-sha-256, or if require_auth allows another method."
        )
    return hint


def _without_eavesdroppers(
    failure: psycopg.OperationalError, keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return how to connect to a server that asks for the password in clear text or as an MD5 hash.

    Raises:
        ServerLost: whoever listens would learn it.
    """
    assert failure.pgconn is not None, "libpq has said so of a connection"
    found = parameters(failure.pgconn.info)
    host, address = failure.pgconn.host.decode(), failure.pgconn.hostaddr.decode()
    if host.startswith("/") or ip_address(address.partition("%")[0]).is_loopback:
        # To this one and no other: of several hosts, some may be remote.
        port = failure.pgconn.port.decode()
        return {**keywords, "host": host, "hostaddr": address or None, "port": port}
    if found.get("sslmode") != "disable":
        return {**keywords, "sslmode": "require"}
    raise ServerLost(
        f"could not connect: {host} asks for the password in clear text or as an MD5 hash, without TLS",
        hint="Connect with sslmode=require, let the server ask for scram-sha-256, or allow it with "
        "require_auth=md5 or require_auth=password.",
    )


def _reason(error: psycopg.Error) -> str:
    """Return the server's or libpq's own words in one line, without what psycopg puts before."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else "no reason is given"
    if "Servname not supported" in text or 'for connection option "port"' in text:
        return _NO_PORT
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
