"""What did the server do meanwhile? One file a collector: before · yield · after.

A collector watches the measured window from outside the workload: over its own connection, /proc
and the server's log, never over the workload's connections. It is registered by being a concrete
subclass of `Collector` in a module of this folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString

from pgdrag import registry
from pgdrag.plan import Observation

if TYPE_CHECKING:
    import psycopg

    from pgdrag.servers.cluster import Cluster


@dataclass(frozen=True)
class Window:
    """The measured window, as collectors need it.

    Attributes:
        elapsed_s: its length in seconds.
        committed: transactions that the driver saw committed; 0 is possible.
        started_unix_s: wall-clock start, to select log lines.
        finished_unix_s: wall-clock end.
    """

    elapsed_s: float
    committed: int
    started_unix_s: float
    finished_unix_s: float


class Observer:
    """What a collector may look at: the cluster, and one connection of the collectors' own."""

    def __init__(self, cluster: Cluster, connection: psycopg.Connection[Any]) -> None:
        self.cluster = cluster
        self.connection = connection

    @property
    def server_version_num(self) -> int:
        """The server's version, 180006 for 18.6."""
        return self.connection.info.server_version

    def query(self, sql: LiteralString) -> list[tuple[Any, ...]]:
        """Return the rows of a read-only query."""
        return self.connection.execute(sql).fetchall()


class Collector(ABC):
    """One kind of evidence. One instance serves one trial.

    Life cycle: `before(observer)` just before the window, `after(observer)` just after it, then
    `observations(window)`, which does no I/O. What cannot be seen here (version, rights, host) is
    an `Observation` whose `missing` says why: never an exception, never a silent absence.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `pgdrag list`

    @abstractmethod
    def before(self, observer: Observer) -> None:
        """Take the first reading."""

    @abstractmethod
    def after(self, observer: Observer) -> None:
        """Take the second reading."""

    @abstractmethod
    def observations(self, window: Window) -> Sequence[Observation]:
        """Say what moved between the two readings."""


def all_collectors() -> dict[str, type[Collector]]:
    """Return every registered collector, by name."""
    import pgdrag.collectors as package

    return registry.registered(package, Collector)  # type: ignore[type-abstract]
