"""Which server does a person name, and can the load driver reach it? libpq's own rules decide.

A connection string or URI, the PG* variables, ~/.pgpass and a service file mean what they mean to
psql. The server itself is asked: the driver is given what libpq connected to.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgdrag.driver.abort_connection import abort_after
from pgdrag.driver.connect_errors import Asked, connect_error
from pgdrag.driver.pooler import Pooler, pooler_before
from pgdrag.driver.process import Target
from pgdrag.driver.security import (
    TLS_ONLY,
    Security,
    parameters,
    parameters_of,
    refuse_lacking,
    security_of,
)
from pgdrag.driver.way_in import (
    ASIDE_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    NO_PASSPHRASE,
    AskPassword,
    WayIn,
)
from pgdrag.english import printable
from pgdrag.errors import ServerLost, UsageError

ANSWER_TIMEOUT_S = 10.0
# Keywords by which a server is missed soon that disappears without closing the connection.
SOON_LOST = {"connect_timeout": 10, "tcp_user_timeout": 15_000}
# What says where to connect to; PGUSER or PGPASSWORD alone name no server.
_PLACES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE")

_NOT_ENCODED = "invalid percent-encoding (write %25 for a % in a password)"
_HOW_TO_WRITE = 'Write "host=db1 dbname=bench user=me" or "postgresql://me@db1/bench".'
# libpq would quote a part of what it cannot read, which may be the password's.
_NOT_QUOTED = 'missing "=" after a word (put a value with spaces between single quotes)'
_SECRETS = frozenset({"password", "sslpassword"})
# What other programs take for a server; whoever it is to connect as may stand before it, with a password.
_HOST_AND_PORT = re.compile(r"(?:.*@)?([\w.-]+|\[[\da-fA-F:.]+\]):(\d{1,5})(?:/([\w-]*))?")
# JDBC's URLs, SQLAlchemy's and the like.
_FOREIGN_SCHEME = re.compile(r"(?!postgres(?:ql)?:)(?:jdbc:)?[A-Za-z][\w+.-]*://")


@dataclass(frozen=True)
class Server:
    """A server that answers, and what to know of it before it is written to.

    Attributes:
        target: what the driver is given.
        version: as the server says it, such as "18.6".
        is_local: reached through a Unix socket or a loopback address.
        is_encrypted: reached with TLS, which every session has then.
        other_sessions: of other clients, on the whole server, when it was asked.
        is_standby: it is in recovery, so that nothing can be written.
        started_unix_s: when its postmaster was started, by its own clock.
        pooler: what stands before it; None: nothing that shows.
        label: what people call it, where its place would tell them nothing.
    """

    target: Target
    version: str
    is_local: bool
    is_encrypted: bool
    other_sessions: int
    _conninfo: str = field(repr=False)
    label: str = ""
    is_standby: bool = False
    started_unix_s: float = 0.0
    pooler: Pooler | None = None

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

    @property
    def asked(self) -> Asked:
        """What was asked for, where a further session is refused."""
        target, known = self.target, conninfo_to_dict(self._conninfo)
        return Asked(
            target.host,
            str(target.port),
            target.user,
            target.database,
            given=frozenset({"user", "dbname"}),
            timeout_s=str(known.get("connect_timeout", CONNECT_TIMEOUT_S)),
        )

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

    def looked_at_again(self) -> Server:
        """Return what the server says of itself now.

        Raises:
            ServerLost: it does not answer any more.
        """
        with self.connect(connect_timeout=ASIDE_TIMEOUT_S) as connection:
            seen = _look_around(connection)
        return replace(
            self,
            other_sessions=seen.other_sessions,
            is_standby=seen.is_standby,
            started_unix_s=seen.started_unix_s,
        )

    def connect(self, **keywords: str | int) -> psycopg.Connection:
        """Return a new connection, in autocommit mode.

        Args:
            keywords: libpq's, such as application_name, over those that it was reached with.

        Raises:
            ServerLost: it does not answer any more.
        """
        try:
            connection = psycopg.connect(self.conninfo(**keywords), autocommit=True)
        except psycopg.OperationalError as error:
            raise connect_error(str(error), self.asked) from None
        if self.pooler is not None:  # what psycopg prepared could be gone, or somebody else's
            connection.prepare_threshold = None
        return connection


def refuse_standby(server: Server, purpose: str, hint: str = "Name its primary.") -> None:
    """Refuse what writes, on a server where nothing can be written.

    Args:
        purpose: what would write: "tpcc run".

    Raises:
        UsageError: the server is a standby.
    """
    if server.is_standby:
        raise UsageError(
            f"{purpose} writes, and {server.name} is a standby, where nothing can be written",
            hint=hint,
        )


def names_a_server(
    dsn: str | None, overrides: Mapping[str, object], environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether anything says where to connect to; libpq's own defaults do not count."""
    return bool(dsn or overrides) or any(environment.get(x) for x in _PLACES)


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
        ask_password: asks the person at the terminal, with the purpose; None: there is no terminal.
        is_for_driver: only as the load driver can: not with an encrypted key, for example.

    Raises:
        UsageError: the string cannot be read, or asks for what the load driver does not have.
        ServerLost: the server does not answer, or refuses.
    """
    wanted = {**_read(dsn), **(overrides or {})}
    ours = {"application_name": "pgdrag"}
    keywords: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, **wanted, **ours}
    known = parameters_of(make_conninfo(**keywords))
    if is_for_driver:
        refuse_lacking(known)
        if known.get("gssencmode") != "require":
            # The driver encrypts with TLS alone: so must the question, or it would prove nothing.
            keywords["gssencmode"] = "disable"
    if not known.get("sslpassword"):
        keywords["sslpassword"] = NO_PASSPHRASE
    is_careful = not known.get("require_auth") and known.get("sslmode") not in TLS_ONLY
    way = WayIn(wanted, known, ask_password, is_for_driver=is_for_driver)
    with way.connect(keywords, is_careful=is_careful) as connection:
        info, is_encrypted = connection.info, connection.pgconn.ssl_in_use
        known = parameters(connection.pgconn.info)
        if is_careful:  # the driver has this rule of its own
            known.pop("require_auth", None)
        security = security_of(known, is_encrypted=is_encrypted) if is_for_driver else Security()
        host = info.host or "localhost"
        is_socket = host.startswith("/")
        address = info.hostaddr.partition("%")[0]
        seen = _look_around(connection)
        server = Server(
            target=Target(
                host,
                info.port,
                info.user,
                info.dbname,
                info.password or None,
                address=None if is_socket or info.hostaddr == host else info.hostaddr,
                options=known.get("options"),
                security=security,
            ),
            version=f"{info.server_version // 10000}.{info.server_version % 10000}",
            is_local=is_socket or ip_address(address).is_loopback,
            is_encrypted=is_encrypted,
            other_sessions=seen.other_sessions,
            is_standby=seen.is_standby,
            started_unix_s=seen.started_unix_s,
            _conninfo=make_conninfo(
                info.dsn,
                password=info.password,
                # Of several hosts, and of several addresses of a name, it is this one from now on.
                host=host,
                hostaddr=None if is_socket else info.hostaddr,
                port=info.port,
                target_session_attrs="any",
                load_balance_hosts="disable",
                # What was encrypted once is not spoken in clear text later.
                **({"sslmode": _at_least_encrypted(known)} if is_encrypted else {}),
            ),
        )
        if seen.pid == info.backend_pid:
            return server
    # A pooler names a process of its own invention.
    return replace(server, pooler=pooler_before(server.conninfo()))


class _Seen(NamedTuple):
    """What a server that was just reached says of itself."""

    pid: int
    other_sessions: int
    is_standby: bool
    started_unix_s: float


def _look_around(connection: psycopg.Connection) -> _Seen:
    """Ask a server, that may be none, what there is to know of it.

    Raises:
        ServerLost: it does not answer in time, or something else.
    """
    found: _Seen | None = None
    is_late = threading.Event()
    try:
        # libpq would wait for ever.
        with (
            abort_after(connection, after_s=ANSWER_TIMEOUT_S) as is_late,
            connection.cursor() as cursor,
        ):
            for pid, others, is_standby, started in cursor.stream(_LOOK_AROUND):
                if found is not None:
                    # Rows may come without end: the session is over, and none is kept.
                    connection.close()
                    raise ValueError
                found = _Seen(int(pid), int(others), bool(is_standby), float(started))
    except psycopg.Error as error:
        if is_late.is_set():
            raise ServerLost(
                f"the server let pgdrag in, but did not answer within {ANSWER_TIMEOUT_S:g} s"
            ) from None
        raise ServerLost(f"could not ask the server anything: {_reason(error)}") from None
    except (ValueError, TypeError):
        found = None
    if found is None or found.other_sessions < 0:
        raise ServerLost("the server does not answer as PostgreSQL does")
    return found


def _at_least_encrypted(known: Mapping[str, str]) -> str:
    mode = known.get("sslmode", "")
    return mode if mode in TLS_ONLY else "require"


def _read(dsn: str | None) -> dict[str, str | int]:
    if dsn is None:
        return {}
    if dsn != printable(dsn):
        raise UsageError("the connection string is not UTF-8")
    if "=" not in dsn and "://" not in dsn:
        if (place := _HOST_AND_PORT.fullmatch(dsn)) is not None:
            raise _no_database(*place.groups())
        return {"dbname": dsn}
    if (scheme := _FOREIGN_SCHEME.match(dsn)) is not None:
        raise UsageError(
            f'a connection URI of PostgreSQL does not begin with "{scheme[0]}"', hint=_HOW_TO_WRITE
        )
    try:
        found = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        # A token that is not properly encoded may be the password.
        reason = str(error).strip().splitlines()[0]
        for part, told in (("percent-encoded", _NOT_ENCODED), ('missing "="', _NOT_QUOTED)):
            reason = told if part in reason else reason
        raise UsageError(
            f"cannot read the connection string: {reason}",
            hint=_HOW_TO_WRITE,
        ) from None
    return {name: value for name, value in found.items() if value is not None}


def _no_database(host: str, port: str, database: str | None) -> UsageError:
    address = f"{host}:{port}"
    return UsageError(
        f'"{address}" is a host and a port, not the name of a database',
        hint=f'Write "postgresql://{address}/{database or ""}" or '
        f'"host={host.strip("[]")} port={port}{f" dbname={database}" if database else ""}".',
    )


def _reason(error: psycopg.Error) -> str:
    """Return the server's or libpq's own words in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no reason is given"


# Whoever may not see other roles' sessions sees their database, but not what kind they are.
_LOOK_AROUND: LiteralString = """
SELECT /* pgdrag */ pg_backend_pid(), count(*), pg_is_in_recovery(),
       extract(epoch FROM pg_postmaster_start_time())::float8
FROM pg_stat_activity
WHERE datid IS NOT NULL AND pid <> pg_backend_pid()
  AND coalesce(backend_type, 'client backend') = 'client backend'
"""
