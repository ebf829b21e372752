"""How long does the server take to recover from a crash? It is crashed when the window has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, cast

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, attempt, known
from pgdrag.collectors._metric import NO_READING
from pgdrag.errors import ServerDidNotStart

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

TIMEOUT_S = 600.0


class Recovery(Collector):
    """Seconds from the start after a crash of the machine until the server accepts connections.

    The server is stopped without a checkpoint, and its files leave the page cache, as a machine that lost its power
    would have it.
    """

    name: ClassVar[str] = "recovery"
    summary: ClassVar[str] = "time to recover from a crash right after the window; on request"
    is_optional: ClassVar[bool] = True
    ends_server: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "crash_recovery_s", "time to recover from a crash", "recovery_s", "s", step=0.1,
            detail="From the server's start to its first connection, its files read from storage.",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        self._recovery_s: float | Unseen = NO_READING

    def before(self, observer: Observer) -> None:
        """There is nothing to see before."""

    def after(self, observer: Observer) -> None:
        """Nor now: other collectors still look."""

    def afterwards(self, observer: Observer) -> None:
        if not observer.cluster.is_throw_away:
            self._recovery_s = Unseen(
                "it is not pgdrag's own server, which alone may be made to crash"
            )
            return
        cluster = cast("Cluster", observer.cluster)
        if cluster.postmaster_pid is None:
            self._recovery_s = Unseen("the server did not run any more")
            return
        # What was committed asynchronously is written now: its loss is not what is looked at.
        attempt(lambda: observer.query("SELECT pg_switch_wal()"))
        observer.connection.close()
        cluster.stop(fast_timeout_s=0)
        cluster.drop_pages()
        began_s = time.monotonic()
        try:
            cluster.start(timeout_s=TIMEOUT_S)
        except ServerDidNotStart as error:
            self._recovery_s = Unseen(f"it did not recover: {error.message}")
            return
        self._recovery_s = time.monotonic() - began_s

    def amounts(self, window: Window) -> Amounts:
        return {"recovery_s": known(self._recovery_s)}
