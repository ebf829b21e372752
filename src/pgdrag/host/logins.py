"""How does an undo connect to a server if its password must not be on disk?

A change is noted with a connection string that has no password. What this process was given beside it stays in its
memory and in its guardian's. Whoever comes later finds a password where libpq looks for it (~/.pgpass, PGPASSWORD), or
is told by `pgdrag restore DSN`. A command that restarts a server is kept in the same way: no journal starts a program.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from pgdrag.host.guardian import entrust


@dataclass(frozen=True)
class Login:
    """What leads to a server.

    Attributes:
        conninfo: libpq's, with the password if there is one.
        restart_command: restarts it, or starts it if it does not run; "" if none was given.
    """

    conninfo: str = field(repr=False)
    restart_command: str = ""


_known: dict[str, Login] = {}


def keep_login(system_identifier: str, login: Login) -> None:
    """Keep it for the changes of a server, while this process or its guardian lives."""
    _known[system_identifier] = login
    entrust(
        system_identifier, json.dumps({"system_identifier": system_identifier, **asdict(login)})
    )


def login_of(system_identifier: str) -> Login | None:
    """Return what was kept of a server; None: nothing."""
    return _known.get(system_identifier)


def take_entrusted(lines: Iterable[str]) -> None:
    """Know what a dead process had entrusted to its guardian, a line each."""
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            said = json.loads(line)
            server = said.pop("system_identifier")
            _known[server] = Login(**said)
