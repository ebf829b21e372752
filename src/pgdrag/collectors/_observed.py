"""What must collectors know of the server that they look at, besides a session on it?

A throw-away cluster of pgdrag's own answers all of it. An existing server may lack anything but a session, and says
why with `Unseen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import psycopg

    from pgdrag.driver.process import Target
    from pgdrag.host.server_user import ServerUser


class ObservedCluster(Protocol):
    """A server, with what belongs to it on its host.

    What is missing raises `Unseen`, unless the member says otherwise.
    """

    @property
    def is_throw_away(self) -> bool:
        """Whether it is pgdrag's own: then collectors may write to it, and all sessions are the workload's or pgdrag's."""
        ...

    @property
    def user(self) -> ServerUser | None:
        """The operating system's user that it runs as, where pgdrag is root; else None."""
        ...

    @property
    def postmaster_pid(self) -> int | None:
        """The server's first process; None when it does not run on this host."""
        ...

    @property
    def data_directory(self) -> Path:
        """The data directory, on this host."""
        ...

    @property
    def log_directory(self) -> Path:
        """Where its logging collector writes, on this host."""
        ...

    def log_files(self) -> Sequence[Path]:
        """The log in a format that can be read, oldest first; empty where there is none."""
        ...

    def log_bytes(self) -> int:
        """The size of its log; 0 where it is unknown."""
        ...

    @property
    def superuser(self) -> str:
        """The role of collectors' sessions."""
        ...

    @property
    def load_superuser(self) -> str:
        """The role of a workload that needs a superuser."""
        ...

    @property
    def probe_role(self) -> str:
        """The role that runs the workload's statements for collectors."""
        ...

    @property
    def database(self) -> str:
        """The workload's database."""
        ...

    @property
    def own_target(self) -> Target:
        """How the load driver's program reaches it for pgdrag itself."""
        ...

    def connect(self, *, application_name: str = ..., role: str = ...) -> psycopg.Connection[Any]:
        """Return another session, in autocommit mode.

        Raises:
            ServerLost: the server does not answer, or refuses.
        """
        ...

    def conninfo(self, *, application_name: str) -> str:
        """Return what leads to it."""
        ...
