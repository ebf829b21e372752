"""What must a later pgdrag know to clear away the cluster of a dead one?

The file lies in a directory that only the owner writes to, not the server's user: a sweep by root
deletes what it names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

CLUSTER_PREFIX = "cluster-"
# For scratch paths too long or too odd for the address of a socket.
SHORT_SOCKET_ROOT = Path("/tmp")
SHORT_SOCKET_PREFIX = "pgdrag-socket-"
_NAME = "owner.json"


@dataclass(frozen=True)
class OwnerFile:
    """The owner's process, the server's program, and where its socket is."""

    pid: int
    postgres: Path
    socket_directory: Path

    def write(self, directory: Path) -> None:
        """Put the file into a cluster's directory."""
        content = {
            "pid": self.pid,
            "postgres": str(self.postgres),
            "socket_directory": str(self.socket_directory),
        }
        (directory / _NAME).write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> OwnerFile | None:
        """The file of a cluster's directory; None when its owner died before writing it."""
        try:
            content = json.loads((directory / _NAME).read_text(encoding="utf-8"))
            return cls(
                int(content["pid"]), Path(content["postgres"]), Path(content["socket_directory"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def removable_socket_directory(self) -> Path | None:
        """The socket directory if it is one of the short ones, which lie apart from the cluster."""
        path = self.socket_directory
        is_short = path.parent == SHORT_SOCKET_ROOT and path.name.startswith(SHORT_SOCKET_PREFIX)
        return path if is_short else None
