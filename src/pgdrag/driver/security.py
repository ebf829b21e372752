"""What must a server do before it is sent a password and believed? libpq's sslmode and its companions.

Python's own connections leave it to libpq. The load driver gets the same: what libpq has negotiated is
what each of the driver's sessions must have, so that none of them is less safe than the first connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from psycopg import pq
from psycopg.conninfo import make_conninfo

from pgdrag.errors import UsageError

Verify = Literal["none", "ca", "full"]

# libpq's modes that refuse a connection without TLS.
TLS_ONLY = frozenset({"require", "verify-ca", "verify-full"})
# No password in clear text, nor its MD5 hash: who listens can use the one and guess the other.
NOT_IN_THE_CLEAR = "!password,!md5"

_METHODS = ("none", "password", "md5", "scram-sha-256")
_KEEP_ALIVE = {
    "idle_s": "keepalives_idle",
    "interval_s": "keepalives_interval",
    "count": "keepalives_count",
    "user_timeout_ms": "tcp_user_timeout",
}
_LEAVE_OUT = "Leave it out here."
# What the driver has not, with the values that ask for nothing.
_LACKING = {
    "client_encoding": (
        ("utf8", "utf-8", "auto"),
        "Leave it out here: scripts are UTF-8, and so are sessions.",
    ),
    "sslcrl": ((), _LEAVE_OUT),
    "sslcrldir": ((), _LEAVE_OUT),
    "sslkeylogfile": ((), _LEAVE_OUT),
    "ssl_max_protocol_version": (
        (),
        "Limit the version in the server's settings, and leave it out here.",
    ),
    "ssl_min_protocol_version": (
        ("tlsv1", "tlsv1.1", "tlsv1.2"),
        "Set ssl_min_protocol_version in the server's settings, and leave it out here.",
    ),
    "min_protocol_version": (
        ("3.0",),
        "The driver speaks version 3.0 of the protocol: leave it out here.",
    ),
    "requirepeer": ((), _LEAVE_OUT),
    "gssencmode": (("disable", "prefer"), "Encrypt with TLS: sslmode=verify-full."),
    "oauth_issuer": ((), "Use a role with another way to authenticate."),
    "scram_client_key": ((), "Give the password instead."),
    "replication": (
        ("0", "off", "false", "no"),
        "Leave it out here: it asks for another protocol.",
    ),
}


@dataclass(frozen=True)
class Tls:
    """How the driver's sessions are encrypted; certificates and keys are text in PEM form.

    Attributes:
        verify: what of the server's certificate is verified: nothing, that one of `roots` has signed it, and
            that it is the host's.
        roots: "system" for those of this machine; None where nothing is verified.
        certificate, key: the client's own.
        is_direct: TLS begins at once, without a request of PostgreSQL's.
        names_host: TLS names the host (SNI).
    """

    verify: Verify = "none"
    roots: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    is_direct: bool = False
    names_host: bool = True

    def job(self) -> dict[str, object]:
        """Return `server.tls` of the driver's contract."""
        roots = self.roots if self.roots in (None, "system") else {"pem": self.roots}
        return {
            "verify": self.verify,
            "roots": roots,
            "certificate": self.certificate,
            "key": self.key,
            "is_direct": self.is_direct,
            "names_host": self.names_host,
        }


@dataclass(frozen=True)
class Security:
    """What the driver asks of a server.

    Attributes:
        tls: None for sessions without TLS.
        channel_binding: libpq's disable, prefer or require.
        auth_methods: how the server may authenticate the role, as in `require_auth`; None: in any way, but
            a password and its MD5 hash are only sent where nobody can listen.
        keep_alive: how TCP connections notice that the server is gone, as the driver's contract has it.
    """

    tls: Tls | None = None
    channel_binding: str = "prefer"
    auth_methods: tuple[str, ...] | None = None
    keep_alive: Mapping[str, int] | None = None

    def job(self) -> dict[str, object]:
        """Return the keys of `server` in the driver's contract that say more than its defaults."""
        found: dict[str, object] = {}
        if self.tls is not None:
            found["tls"] = self.tls.job()
        if self.channel_binding != "prefer":
            found["channel_binding"] = self.channel_binding
        if self.auth_methods is not None:
            found["auth_methods"] = list(self.auth_methods)
        if self.keep_alive is not None:
            found["keep_alive"] = dict(self.keep_alive)
        return found


def parameters_of(conninfo: str) -> dict[str, str]:
    """Return what libpq makes of a connection string, the environment and a service file; not the hosts.

    Nothing is connected to.
    """
    # It has read everything when it finds that this is not a socket's directory.
    nowhere = make_conninfo(conninfo, host="/dev/null", hostaddr="")
    connection = pq.PGconn.connect_start(nowhere.encode())
    try:
        return parameters(connection.info)
    finally:
        connection.finish()


def parameters(found: list[pq.ConninfoOption]) -> dict[str, str]:
    """Return libpq's parameters that have a value."""
    return {one.keyword.decode(): one.val.decode() for one in found if one.val}


def refuse_lacking(known: Mapping[str, str]) -> None:
    """Refuse what libpq would do and the driver's sessions cannot.

    Raises:
        UsageError: a parameter asks for it; the message names the parameter.
    """
    for name, (harmless, hint) in _LACKING.items():
        value = known.get(name)
        if value and value.lower() not in harmless:
            raise UsageError(
                f"cannot pass connection option {name}={value!r} to the load driver", hint=hint
            )


def refuse_encrypted_key(known: Mapping[str, str]) -> None:
    """Refuse a client's key that has a passphrase.

    Raises:
        UsageError: it has.
    """
    _pem(_file(known.get("sslkey"), "postgresql.key"))


def security_of(known: Mapping[str, str], *, is_encrypted: bool) -> Security:
    """Return what the driver must ask of a server that libpq has connected to.

    Args:
        known: the connection's parameters, see `parameters`.
        is_encrypted: whether libpq negotiated TLS.

    Raises:
        UsageError: a parameter asks for what the driver does not have, or a file cannot be used.
    """
    refuse_lacking(known)
    methods = _methods_of(known.get("require_auth", ""))
    tls = _tls_of(known) if is_encrypted else None
    binding = known.get("channel_binding", "prefer") if is_encrypted else "prefer"
    return Security(tls, binding, methods, _keep_alive_of(known))


def _keep_alive_of(known: Mapping[str, str]) -> dict[str, int] | None:
    """Return what keeps connections alive, where anything is said about it; libpq takes 0 for the default."""
    found = {name: known.get(keyword, "") for name, keyword in _KEEP_ALIVE.items()}
    given = {name: int(value) for name, value in found.items() if value.isdigit() and int(value)}
    return given if given and known.get("keepalives") != "0" else None


def _tls_of(known: Mapping[str, str]) -> Tls:
    mode, roots = known.get("sslmode", "prefer"), known.get("sslrootcert")
    root_file = _file(roots, "root.crt")
    verify: Verify = "none"
    # libpq verifies with root certificates that are there, whatever the mode.
    if roots == "system" or root_file is not None:
        verify = "full" if mode == "verify-full" else "ca"
    revoked = _file(None, "root.crl")
    if verify != "none" and revoked is not None:
        raise UsageError(
            f'cannot pass the list of revoked certificates "{revoked}" to the load driver',
            hint="Rename it temporarily if you do not need to know whether the server's certificate was revoked.",
        )
    certificate = None
    if known.get("sslcertmode") != "disable":
        certificate = _file(known.get("sslcert"), "postgresql.crt")
    key = _file(known.get("sslkey"), "postgresql.key") if certificate else None
    return Tls(
        verify=verify,
        roots="system" if roots == "system" else _pem(root_file),
        certificate=_pem(certificate),
        key=_pem(key),
        is_direct=known.get("sslnegotiation") == "direct",
        names_host=known.get("sslsni") != "0",
    )


def _file(named: str | None, usual: str) -> Path | None:
    found = Path(named) if named else Path.home() / ".postgresql" / usual
    return found if found.exists() else None


def _pem(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        text = file.read_bytes().decode(errors="replace")
    except OSError as error:
        raise UsageError(f'could not read "{file}": {error.strerror}') from None
    if "-----BEGIN" not in text:
        raise UsageError(
            f'cannot pass "{file}" to the load driver: it is not in PEM form',
            hint="Convert it with openssl x509 or openssl pkey.",
        )
    if "ENCRYPTED" in text:
        raise UsageError(
            f'cannot pass "{file}" to the load driver: the key is encrypted',
            hint="Name a key without a passphrase in sslkey, readable by you alone.",
        )
    return text


def _methods_of(required: str) -> tuple[str, ...] | None:
    """Return the methods of `require_auth` that the driver has; None for every one."""
    words = [word.strip() for word in required.split(",") if word.strip()]
    if not words:
        return None
    if words[0].startswith("!"):
        return tuple(name for name in _METHODS if f"!{name}" not in words)
    return tuple(name for name in _METHODS if name in words)
