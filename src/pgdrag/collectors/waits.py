"""Where did the sessions' time go: on processors, in I/O, in locks, or waiting for their clients?

The load driver's program looks at all processes twenty times a second, from a session of its own, at
random moments. The mean number of sessions seen in a state, times the window, is the time that
they spent in it; divided by the transactions, a share of what each of them took.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, attempt, known
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors._wait_profile import IO_WORKER, SampledWaits, sampled
from pgdrag.collectors.counters import require_sight_of_others
from pgdrag.driver.process import Driver, Waits, Watching, find_driver
from pgdrag.errors import DriverError
from pgdrag.model.events import Sampled

EVERY_S = 0.05


class WaitProfile(SampledWaits):
    """Wait events of all processes, sampled by the load driver's program."""

    name: ClassVar[str] = "waits"
    summary: ClassVar[str] = "where sessions' time goes: processors, I/O, locks, clients"

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._watching: Watching | Unseen = NO_READING
        self._told_unix_s = 0.0

    def before(self, observer: Observer) -> None:
        self._watching = attempt(lambda: self._begin(observer))

    def now(self) -> Sampled | None:
        if isinstance(self._watching, Unseen):
            return None
        seen = [x for x in self._watching.seen_since(self._told_unix_s) if x.looks]
        if not seen:
            return None
        self._told_unix_s = seen[0].finished_unix_s
        return sampled(seen[::-1])

    def pause(self) -> None:
        if isinstance(self._watching, Watching):
            self._watching.rest()

    def resume(self) -> None:
        if isinstance(self._watching, Watching):
            self._watching.look()

    def after(self, observer: Observer) -> None:
        """Stop watching, and count the I/O workers, which it does not see when they are idle."""
        with self._stack:
            self.watched = attempt(self._end)
        self.io_workers = attempt(lambda: _io_workers(observer))

    def _begin(self, observer: Observer) -> Watching:
        observer.postmaster()  # refuses a server that does not run here
        require_sight_of_others(observer, "the sessions")
        with _unseen_where_the_driver_fails():
            driver = Driver(find_driver())
            watching = self._stack.enter_context(
                driver.watching(observer.cluster.own_target, every_s=EVERY_S)
            )
        observer.programs.add(watching.pid)
        return watching

    def _end(self) -> tuple[Waits, ...]:
        with _unseen_where_the_driver_fails():
            return known(self._watching).end()


@contextmanager
def _unseen_where_the_driver_fails() -> Iterator[None]:
    try:
        yield
    except DriverError as error:
        raise Unseen(f"the server's processes could not be watched: {error.message}") from error


def _io_workers(observer: Observer) -> int:
    [(count,)] = observer.query(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = %s", IO_WORKER
    )
    if not count:
        raise Unseen("the server has no I/O workers")
    return int(count)
