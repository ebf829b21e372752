"""Why could pgdrag not connect, in words that are the same in every command?

libpq and the server say what failed. What to do about it is added here, and which name was meant. Nothing is
connected to: what takes a question of its own is asked by the caller's functions.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pgdrag.english import counted, did_you_mean, listed, listed_some
from pgdrag.errors import DriverError, PgdragError, ServerLost, UsageError

_MOST_NAMES = 8
# Where servers usually have their sockets.
SOCKET_DIRECTORIES = ("/var/run/postgresql", "/tmp")
_SERVICE_FILES = "PGSERVICEFILE or ~/.pg_service.conf"
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
HOW_TO_NAME = "Name the server by a connection string or by PGHOST, PGPORT, PGDATABASE and PGUSER."
# What libpq says where it needs a password, and where it needs the passphrase of a key.
NO_PASSWORD = "no password supplied"
NO_KEY = "could not load private key file"


def _nothing() -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Asked:
    """What was asked for when a connection failed.

    Attributes:
        host, port: of the server that answered last; the host as a person wrote it.
        user, database: as libpq completed them.
        given: libpq's keywords that the connection string, the environment or a service file gives.
        password_from: where the password came from, if it is known: "PGPASSWORD".
        password_file: the one that libpq looks into.
        timeout_s: how long each server was given to answer.
        databases: asks which databases the server has; nothing where that cannot be seen.
        certificate: asks why the server's certificate is not trusted; nothing where that cannot be seen.
    """

    host: str
    port: str
    user: str
    database: str
    given: frozenset[str] = frozenset()
    password_from: str = ""
    password_file: Path | None = None
    timeout_s: str = ""
    databases: Callable[[], Sequence[str]] = _nothing
    certificate: Callable[[], str] = str

    @property
    def place(self) -> str:
        """Where it is: `db1, port 5432`, or `socket "/tmp/.s.PGSQL.5432"`."""
        return place_of(self.host, self.port)


def place_of(host: str, port: str | int) -> str:
    """Return where a server is, for people."""
    is_socket = host.startswith(("/", "@"))
    return f'socket "{host}/.s.PGSQL.{port}"' if is_socket else f"{host}, port {port}"


class _Answer(NamedTuple):
    """What is said: the reason completes `could not connect to …: `, or `cannot connect: ` where nothing was tried."""

    reason: str
    detail: str = ""
    hint: str = ""
    kind: type[PgdragError] = ServerLost
    has_tried: bool = True


@dataclass(frozen=True)
class _Failure:
    """One server that was tried, and what libpq and the server said, line by line."""

    place: str
    lines: tuple[str, ...]


def connect_error(text: str, asked: Asked) -> PgdragError:
    """Return the error for a connection that failed.

    Args:
        text: what psycopg and libpq say, with several lines: of each server, and of each way of encrypting.
    """
    answers = {one.place: _answer(one.lines, asked) for one in _failures(text, asked)}
    reasons = {answer.reason for answer in answers.values()}
    if len(reasons) == 1:
        return _error(listed(list(answers)), next(iter(answers.values())))
    told = [f"{place}: {answer.reason}." for place, answer in answers.items()]
    hints = [answer.hint for answer in answers.values() if answer.hint]
    reason = f"none of {counted(len(answers), 'server')} lets pgdrag in"
    return _error("", _Answer(reason, "\n".join(told), hints[0] if len(set(hints)) == 1 else ""))


def session_refused(error: DriverError, asked: Asked) -> PgdragError | None:
    """Return the error for a session that the load driver could not open after pgdrag itself could; None for others."""
    is_refusal = error.phase == "connect" and (error.sqlstate or "").startswith(_REFUSALS)
    return _error(asked.place, _answer((error.message,), asked)) if is_refusal else None


def _error(place: str, answer: _Answer) -> PgdragError:
    where = f" to {place}" if place else ""
    # libpq takes a part of a password for a host or a port, where it is not encoded: neither is shown.
    attempt = f"could not connect{where}" if answer.has_tried else "cannot connect"
    message = f"{attempt}: {answer.reason}"
    return answer.kind(message, detail=answer.detail or None, hint=answer.hint or None)


# SQLSTATE's classes and states of a server that lets a session not in.
_REFUSALS = ("08", "28", "3D", "53", "57P")
# libpq names each try; psycopg tries the addresses of several hosts, and lists them behind the last one's words.
_TRY = re.compile(r"connection to server (?:at .*?, port \S+|on socket .*?) failed: ")
_SEVERAL = "Multiple connection attempts failed. All failures were:"
_ONE_OF_SEVERAL = re.compile(r"- host: (.*?), port: (.*?), hostaddr: (?:None|'.*?'): ")


def _failures(text: str, asked: Asked) -> list[_Failure]:
    _, is_several, several = text.partition(_SEVERAL)
    if not is_several:
        return [_Failure(asked.place, _lines(text))]
    # Behind the first one each host stands with its words.
    words = _ONE_OF_SEVERAL.split(several)[1:]
    found: dict[str, _Failure] = {}
    for host, port, said in zip(words[::3], words[1::3], words[2::3], strict=True):
        place = place_of(host.strip("'"), port.strip("'"))
        found.setdefault(place, _Failure(place, _lines(said)))
    return list(found.values())


def _lines(text: str) -> tuple[str, ...]:
    found = []
    for line in text.splitlines():
        words = re.sub(r"^connection (?:failed|is bad): ", "", line.strip())
        words = re.sub(r"^(?:FATAL|ERROR|PANIC):\s+", "", _TRY.sub("", words))
        if words:
            found.append(words)
    return tuple(found) or ("no reason is given",)


def _answer(lines: Sequence[str], asked: Asked) -> _Answer:
    """Return the explanation of the most informative line; else the first line itself."""
    for pattern, answer in _RULES:
        for line in lines:
            if match := re.search(pattern, line):
                return answer(match, lines, asked)
    return _Answer(_uncapitalised(lines[0]), _servers_detail(lines))


def _uncapitalised(words: str) -> str:
    """Return libpq's words as the rest of a message: system errors begin with a capital there."""
    first = words.split(" ", 1)[0]
    return words if not first.istitle() else words[:1].lower() + words[1:]


def _servers_detail(lines: Sequence[str]) -> str:
    return " ".join(x[x.index(":") + 1 :].strip() for x in lines if re.match(r"(DETAIL|HINT):", x))


def _wrong_password(match: re.Match[str], lines: Sequence[str], asked: Asked) -> _Answer:
    file = next(
        filter(None, (re.search(r'password retrieved from file "(.*)"', x) for x in lines)), None
    )
    source = f'file "{file[1]}"' if file else asked.password_from
    where = f"The password is from {source}. " if source else ""
    return _Answer(
        f'password authentication failed for role "{match[1]}"',
        f"{where}A server says the same of a role that does not exist or has no password.",
        f"Correct the password{' there' if source else ''}, or name another role.",
    )


def _no_password(_: re.Match[str], __: Sequence[str], asked: Asked) -> _Answer:
    reason = "the server asks for a password, and there is none"
    file = asked.password_file
    ignored = file is not None and why_ignored(file)
    if ignored:
        return _Answer(
            reason,
            f'Password file "{file}" is ignored: {ignored}.',
            f"Run chmod 0600 {file}.",
            UsageError,
        )
    detail = f'Password file "{file}" has no line for it.' if file and file.exists() else ""
    return _Answer(reason, detail, f"Put it in {file or '~/.pgpass'} or in PGPASSWORD.", UsageError)


def why_ignored(file: Path) -> str:
    """Return why libpq does not look into a password file, or "" if it does or there is none."""
    try:
        found = file.stat()
    except OSError:
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a plain file"
    is_open = found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return f"others may read it (mode {stat.S_IMODE(found.st_mode):04o})" if is_open else ""


def _no_role(match: re.Match[str], _: Sequence[str], asked: Asked) -> _Answer:
    is_default = "user" not in asked.given
    detail = "No role was named, so it is the operating system's user." if is_default else ""
    return _Answer(
        f'role "{match[1]}" does not exist', detail, "Name a role: user=NAME, or PGUSER."
    )


def _no_database(match: re.Match[str], _: Sequence[str], asked: Asked) -> _Answer:
    is_default = "dbname" not in asked.given
    detail = "No database was named, so it is the role's name." if is_default else ""
    names = sorted(asked.databases())
    nearest = did_you_mean(match[1], names)
    there = f"Databases there: {listed_some(names, _MOST_NAMES)}." if names else ""
    return _Answer(
        f'database "{match[1]}" does not exist',
        detail,
        nearest or there or "Name a database: dbname=NAME, or PGDATABASE.",
    )


def _no_entry(match: re.Match[str], _: Sequence[str], asked: Asked) -> _Answer:
    if "no encryption" in match[0] or "SSL off" in match[0]:
        hint = "The server wants TLS: connect with sslmode=require, or better sslmode=verify-full."
        if asked.given & {"sslmode"}:
            return _Answer(match[0], hint=hint)
    host = re.search(r'host "([^"]*)"', match[0])
    line = (
        f"host {asked.database} {asked.user} {host[1]}/{128 if ':' in host[1] else 32} scram-sha-256"
        if host
        else f"local {asked.database} {asked.user} peer"
    )
    return _Answer(
        match[0], hint=f'On the server, add a line such as "{line}" to pg_hba.conf and reload.'
    )


def _rejected(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    return _Answer(
        match[0],
        hint="A line of pg_hba.conf on the server refuses it: name another role or database.",
    )


def _untrusted(_: re.Match[str], __: Sequence[str], asked: Asked) -> _Answer:
    why = asked.certificate() or "it cannot be verified"
    hint = "Name the certificate that signed it in sslrootcert."
    if "expired" in why:
        hint = "Renew it on the server."
    if "not valid yet" in why:
        hint = "Compare the clocks of both machines."
    return _Answer(f"cannot trust the server's certificate: {why}", hint=hint)


def _other_name(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    return _Answer(
        f'the server\'s certificate is for "{match[1]}", not for "{match[3]}"',
        hint="Connect by a name that is in the certificate, or with sslmode=verify-ca.",
    )


def _no_roots(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    return _Answer(
        f'root certificate file "{match[1]}" does not exist',
        hint="Name it in sslrootcert, or trust this machine's certificates: sslrootcert=system.",
        kind=UsageError,
    )


def _no_tls(_: re.Match[str], __: Sequence[str], ___: Asked) -> _Answer:
    return _Answer(
        "the server does not support SSL, but SSL was required",
        hint="Set ssl = on there. Without TLS a password goes to another host only if the server asks for "
        "scram-sha-256, or if require_auth allows another method.",
    )


def _no_certificate(match: re.Match[str], _: Sequence[str], asked: Asked) -> _Answer:
    if "certificate authentication failed" in match[0]:
        hint = "The certificate's common name must be the role, or pg_ident.conf must map it."
        return _Answer(match[0].replace("for user", "for role"), hint=hint)
    return _Answer(
        "the server asks for the client's certificate",
        hint="Name it in sslcert and its key in sslkey.",
        kind=UsageError,
    )


def _encrypted_key(match: re.Match[str], _: Sequence[str], asked: Asked) -> _Answer:
    is_wrong = "sslpassword" in asked.given
    reason = (
        "the passphrase is wrong" if is_wrong else "it is encrypted, and there is no passphrase"
    )
    return _Answer(
        f'could not read key "{match[1]}": {reason}',
        hint="Give the passphrase in sslpassword.",
        kind=UsageError,
    )


def _open_key(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    return _Answer(
        f'key "{match[1]}" is not used: others may read it',
        hint=f"Run chmod 0600 {match[1]}.",
        kind=UsageError,
    )


def _closed_port(_: re.Match[str], __: Sequence[str], asked: Asked) -> _Answer:
    if asked.host.startswith("/"):
        detail = "The socket is there, but nobody listens on it any more."
        return _Answer("connection refused", detail, f"Is a server running there? {HOW_TO_NAME}")
    return _Answer(
        "connection refused", "Nothing listens there.", f"Is a server running there? {HOW_TO_NAME}"
    )


def _no_socket(match: re.Match[str], _: Sequence[str], asked: Asked) -> _Answer:
    there = [f'"{one}"' for one in _sockets(asked.host)]
    found = f"There is {listed(there)}." if there else ""
    return _Answer("no such file or directory", found, f"Is a server running there? {HOW_TO_NAME}")


def _sockets(directory: str) -> list[Path]:
    """Return the sockets of servers in a directory, and where servers usually have them."""
    places = dict.fromkeys((directory, *SOCKET_DIRECTORIES))
    found = []
    for place in places:
        try:
            found += sorted(x for x in Path(place).glob(".s.PGSQL.*") if x.is_socket())
        except OSError:
            continue
    return found[:_MOST_NAMES]


def _unresolved(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    return _Answer(
        f'host name "{match[1]}" does not resolve',
        hint="Correct the name, or name the server by its address.",
    )


def _timeout(_: re.Match[str], __: Sequence[str], asked: Asked) -> _Answer:
    return _Answer(
        f"no answer within {asked.timeout_s} s",
        "A firewall that drops packets, a machine that is off and a server that is overloaded all look like this.",
        "If the server is only slow, raise connect_timeout.",
    )


def _stranger(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    what = {"H": ", as a web server does", "S": ", as an SSH server does"}.get(match[1], "")
    return _Answer(
        "what listens there does not speak PostgreSQL's protocol",
        f'Its answer begins with "{match[1]}"{what}.',
        "Correct the port.",
    )


def _closed_connection(_: re.Match[str], __: Sequence[str], ___: Asked) -> _Answer:
    return _Answer(
        "the server closed the connection while pgdrag logged in",
        "It crashed or was stopped, a pooler or firewall reset the session, or no PostgreSQL listens there.",
        "Look into the server's log.",
    )


def _not_ready(match: re.Match[str], lines: Sequence[str], _: Asked) -> _Answer:
    if "shutting down" in match[0]:
        return _Answer(match[0], hint="Connect again when it has been started.")
    detail = _servers_detail(lines)
    if "not accepting" in match[0] and "disabled" in detail:
        return _Answer(match[0], detail, "Set hot_standby = on there, and restart it.")
    return _Answer(match[0], detail, "Wait until it accepts connections, and try again.")


def _too_many(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    where = re.search(r'for (role|database) "', match[0])
    if where:
        return _Answer(
            match[0],
            hint=f"End sessions, or raise the limit: ALTER {where[1].upper()} … CONNECTION LIMIT.",
        )
    return _Answer(match[0], hint="End sessions, use fewer clients, or raise max_connections.")


def _wrong_state(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    return _Answer(
        match[0], hint="target_session_attrs asks for another server: name that one, too."
    )


def _poolers_words(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    if "unsupported startup parameter" in match[0]:
        hint = "A pooler says so: leave the option out, or add its name to the pooler's ignore_startup_parameters."
        return _Answer(match[0], hint=hint)
    return _Answer(
        match[0],
        "A pooler says so, which could not connect to its server.",
        "Look into the pooler's log.",
    )


def _no_service(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    return _Answer(
        f'service "{match[1]}" is not in any service file',
        hint=f"Name the file in {_SERVICE_FILES}.",
        kind=UsageError,
        has_tried=False,
    )


def _invalid_mode(match: re.Match[str], _: Sequence[str], __: Asked) -> _Answer:
    modes = _SSL_MODES if match[1] == "sslmode" else ()
    hint = did_you_mean(match[2], modes) or (f"There are {listed(modes)}." if modes else "")
    return _Answer(
        f'invalid {match[1]} value "{match[2]}"', hint=hint, kind=UsageError, has_tried=False
    )


def _no_port(_: re.Match[str], __: Sequence[str], ___: Asked) -> _Answer:
    # libpq quotes what may be a part of the password.
    return _Answer(
        "the port is not a number (write %2F for a / and %40 for an @ in a password)",
        kind=UsageError,
        has_tried=False,
    )


_Rule = Callable[[re.Match[str], Sequence[str], Asked], _Answer]
_RULES: tuple[tuple[str, _Rule], ...] = (
    # In the order of what they tell, where a server was tried with and without TLS.
    (
        r'could not load private key file "(.*?)": (?:bad decrypt|processing error|bad password read|.*pass ?phrase).*',
        _encrypted_key,
    ),
    (r'private key file "(.*?)" has group or world access', _open_key),
    (r'Servname not supported|for connection option "port"|invalid port number', _no_port),
    (r'password authentication failed for user "(.*?)"', _wrong_password),
    (NO_PASSWORD, _no_password),
    (r'role "(.*?)" does not exist', _no_role),
    (r'database "(.*?)" does not exist', _no_database),
    (r"no such database: (.*)", _no_database),  # PgBouncer's
    (
        r'server certificate for "(.*?)"( \(and .*?\))? does not match host name "(.*?)"',
        _other_name,
    ),
    (r"certificate verify failed", _untrusted),
    (r'root certificate file "(.*?)" does not exist', _no_roots),
    (r"does not support SSL", _no_tls),
    (
        r"certificate authentication failed for .*|requires a valid client certificate|certificate required",
        _no_certificate,
    ),
    (r"no pg_hba\.conf entry .*", _no_entry),
    (r"pg_hba\.conf rejects .*", _rejected),
    (r"Connection refused", _closed_port),
    (r"No such file or directory", _no_socket),
    (r"failed to resolve host '(.*?)'", _unresolved),
    (r'could not translate host name "(.*?)"', _unresolved),
    (r"timeout expired", _timeout),
    (
        r"(?:expected authentication request from server, but received|invalid response to SSL negotiation:) (.)",
        _stranger,
    ),
    (
        r"closed the connection unexpectedly|Connection reset by peer|SSL error: unexpected eof",
        _closed_connection,
    ),
    (
        r"the database system is (?:starting up|shutting down|in recovery mode|not yet accepting connections|not accepting connections)",
        _not_ready,
    ),
    (
        r"(?:sorry, )?too many (?:clients|connections) .*|remaining connection slots are .*|no more connections allowed.*",
        _too_many,
    ),
    (r"session is (?:not )?read-only|server is (?:not )?in hot standby mode", _wrong_state),
    (
        r"server login (?:has been failing|failed).*|unsupported startup parameter.*|pgbouncer cannot connect to server|query_wait_timeout",
        _poolers_words,
    ),
    (r'definition of service "(.*?)" not found', _no_service),
    (r'invalid (\w+) value: "(.*?)"', _invalid_mode),
)
