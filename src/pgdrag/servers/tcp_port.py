"""How does a throw-away server let in programs that need TCP, on a machine with other users?

Anybody on the machine can connect to a port on loopback. It is therefore open only where a workload asks for it, and lets in one
role, by a random password that never leaves the environment of the workload's programs: the server is told SCRAM's
verifier alone, which is in no log and in no snapshot of use to anybody.
"""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass, field

from pgdrag.errors import ServerError

LOOPBACK = "127.0.0.1"
# PostgreSQL's words where it can listen nowhere: another program has taken the port since it was chosen.
NO_PORT = "could not create any TCP/IP sockets"
_PASSWORD_BYTES = 24


@dataclass(frozen=True)
class TcpAccess:
    """Who may come in by TCP.

    Attributes:
        role: the only role that may.
        password: of letters and digits, so that it needs no quotes anywhere.
    """

    role: str
    password: str = field(default_factory=lambda: secrets.token_hex(_PASSWORD_BYTES), repr=False)

    @property
    def hba(self) -> str:
        """The whole pg_hba.conf: by socket everybody, by TCP only this role with its password."""
        return (
            "local all all trust\n"
            "local replication all trust\n"
            f'host all "{self.role}" {LOOPBACK}/32 scram-sha-256\n'
        )


def free_port() -> int:
    """Return a loopback port that is free now.

    Raises:
        ServerError: there is none, or no loopback.
    """
    try:
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise ServerError(f"cannot open a TCP port on {LOOPBACK}: {error.strerror}") from error
