"""How is a server asked to let pgdrag in: whom to ask for what is missing, and what to say where it refuses?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo

from pgdrag.driver.abort_connection import abort_after
from pgdrag.driver.connect_errors import NO_KEY, NO_PASSWORD, Asked, connect_error, place_of
from pgdrag.driver.security import NOT_IN_THE_CLEAR, parameters, refuse_encrypted_key
from pgdrag.driver.server_certificate import why_untrusted
from pgdrag.errors import ServerLost

CONNECT_TIMEOUT_S = 10
# What is asked beside a connection, to say more about it.
ASIDE_TIMEOUT_S = 3
# Where no passphrase is given, OpenSSL would ask for one at the terminal, by itself and for each address.
NO_PASSPHRASE = " "
_VARIABLES = {
    "user": "PGUSER",
    "dbname": "PGDATABASE",
    "password": "PGPASSWORD",
    "sslmode": "PGSSLMODE",
}
_DATABASES: LiteralString = (
    "SELECT /* pgdrag */ datname FROM pg_database WHERE datallowconn AND NOT datistemplate"
)

AskPassword = Callable[[str], str]


@dataclass(frozen=True)
class WayIn:
    """How a server is reached, and whom to ask for what is missing.

    Attributes:
        wanted: libpq's keywords as the connection string and options give them.
        known: libpq's parameters, with the environment's and the service file's.
        ask_password: asks the person at the terminal, with the purpose; None: there is no terminal.
        is_for_driver: the load driver is to come in, too.
    """

    wanted: Mapping[str, Any]
    known: Mapping[str, str]
    ask_password: AskPassword | None
    is_for_driver: bool

    def connect(
        self, keywords: Mapping[str, Any], *, is_careful: bool, password_from: str = ""
    ) -> psycopg.Connection:
        """Return a connection in autocommit mode; if `is_careful`, who listens is not told the password.

        Raises:
            UsageError: there is no password or passphrase, or what was given cannot be used.
            ServerLost: the server does not answer, or refuses.
        """
        tried = {**keywords, **({"require_auth": NOT_IN_THE_CLEAR} if is_careful else {})}
        try:
            return psycopg.connect(make_conninfo(**tried), autocommit=True)
        except psycopg.OperationalError as error:
            failure = error
        text = str(failure)
        # Of several hosts, the last one's own words are the first line.
        if is_careful and "authentication method requirement" in text.partition("\n")[0]:
            calmer = _without_eavesdroppers(failure, keywords)
            return self.connect(calmer, is_careful=False, password_from=password_from)
        if NO_PASSWORD in text and "password" not in keywords and self.ask_password is not None:
            answered = {**keywords, "password": self.ask_password("Password: ")}
            return self.connect(answered, is_careful=is_careful, password_from="the terminal")
        if NO_KEY in text and keywords.get("sslpassword") == NO_PASSPHRASE:
            if self.is_for_driver:
                refuse_encrypted_key(self.known)
            elif self.ask_password is not None:
                answered = {**keywords, "sslpassword": self.ask_password("Passphrase of the key: ")}
                return self.connect(answered, is_careful=is_careful, password_from=password_from)
        raise connect_error(text, self._asked(failure, tried, password_from))

    def _asked(
        self, failure: psycopg.OperationalError, keywords: Mapping[str, Any], password_from: str
    ) -> Asked:
        """Return what was asked for, for the words of the error."""
        known, reached = self.known, failure.pgconn
        host, port = (
            (reached.host.decode(), reached.port.decode())
            if reached is not None
            else (str(keywords.get("host", "")), str(keywords.get("port", "")))
        )
        given = {name for name, value in self.wanted.items() if value not in (None, "")}
        given |= {name for name, variable in _VARIABLES.items() if os.environ.get(variable)}
        if known.get("service"):  # which may say anything
            given |= {"user", "dbname"}
        source = "the connection string" if "password" in self.wanted else "PGPASSWORD"
        file = known.get("passfile")
        return Asked(
            host=host or known.get("host", ""),
            port=port or known.get("port", ""),
            user=known.get("user", ""),
            database=known.get("dbname", ""),
            given=frozenset(given),
            password_from=password_from or (source if "password" in given else ""),
            password_file=Path(file) if file else None,
            timeout_s=known.get("connect_timeout", str(CONNECT_TIMEOUT_S)),
            databases=lambda: _databases(keywords),
            certificate=lambda: self._why_untrusted(failure),
        )

    def _why_untrusted(self, failure: psycopg.OperationalError) -> str:
        if failure.pgconn is None:
            return ""
        return why_untrusted(
            failure.pgconn.hostaddr.decode() or failure.pgconn.host.decode(),
            int(failure.pgconn.port),
            self.known.get("sslrootcert") or str(Path.home() / ".postgresql" / "root.crt"),
            is_direct=self.known.get("sslnegotiation") == "direct",
            timeout_s=ASIDE_TIMEOUT_S,
        )


def _databases(keywords: Mapping[str, Any]) -> list[str]:
    """Return the databases of a server that has not the one asked for; none where it does not say.

    Args:
        keywords: as securely as before: an impostor may be after the password.
    """
    for database in ("postgres", "template1"):
        aside = {"dbname": database, "connect_timeout": ASIDE_TIMEOUT_S}
        with (
            suppress(psycopg.Error),
            psycopg.connect(make_conninfo(**{**keywords, **aside}), autocommit=True) as connection,
            abort_after(connection, after_s=ASIDE_TIMEOUT_S),
        ):
            return [str(name) for (name,) in connection.execute(_DATABASES).fetchall()]
    return []


def _without_eavesdroppers(
    failure: psycopg.OperationalError, keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return how to connect to a server that asks for the password in clear text or as an MD5 hash.

    Raises:
        ServerLost: an eavesdropper could read it.
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
        f"could not connect to {place_of(host, failure.pgconn.port.decode())}: the server asks for the password in "
        "clear text or as an MD5 hash, without TLS",
        hint="Connect with sslmode=require, let the server ask for scram-sha-256, or allow it with "
        "require_auth=md5 or require_auth=password.",
    )
