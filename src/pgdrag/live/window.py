"""What does an existing server do now? Collectors around a window, or around one window after another.

Nothing is run there but queries of the server's own views, over one read-only session that is named in
pg_stat_activity, limits each statement's time, and is opened anew when the server was restarted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from pgdrag.collectors import Collector, Observer, Unseen, Window, all_collectors, attempt
from pgdrag.collectors import _proc as proc
from pgdrag.collectors._statements_view import find_extension
from pgdrag.driver.connection_string import Server
from pgdrag.errors import ServerLost
from pgdrag.host.clock import CLOCK
from pgdrag.host.error_words import words_of
from pgdrag.literals import without_literals
from pgdrag.live.activity import LiveSessions, LiveWaits
from pgdrag.live.databases import ServerCounters
from pgdrag.live.server import ExistingServer, Pauses
from pgdrag.live.settings import LiveSettings
from pgdrag.live.tables import LiveTables
from pgdrag.live.upkeep import Upkeep
from pgdrag.model.live import LiveWindow
from pgdrag.model.recordings import Recordings, together

LOOK_EVERY_S = 0.1
SAMPLE_EVERY_S = 1.0
# What is cheap on a server of any size, and needs no session of its own.
FITTING = ("buffers", "database", "indexes", "io", "scans", "slru", "wal", "checkpoints", "autovacuum", "messages", "horizon", "cpu", "host", "disk", "statements")  # fmt: skip
_OWN: tuple[type[Collector], ...] = (ServerCounters, LiveSessions, LiveTables, Upkeep, LiveSettings)
_STARTED: LiteralString = "SELECT extract(epoch FROM pg_postmaster_start_time())::float8"

Listener = Callable[[float], None]


@dataclass(frozen=True)
class Gap:
    """A stretch in which nothing could be seen, and why."""

    started_unix_s: float
    finished_unix_s: float
    reason: str


class LiveObserver:
    """Observes one server, window by window; a context manager that ends its session.

    Attributes:
        collectors: names of those of a trial that take part.
        look_every_s: mean time between two samples of what sessions wait for.
        sample_every_s: time between two readings of counters for series within a window.
    """

    def __init__(
        self,
        server: Server,
        *,
        collectors: Sequence[str] = FITTING,
        look_every_s: float = LOOK_EVERY_S,
        sample_every_s: float = SAMPLE_EVERY_S,
        seed: int = 0,
    ) -> None:
        self.server = server
        self.collectors = tuple(collectors)
        self.look_every_s = look_every_s
        self.sample_every_s = sample_every_s
        self._rng = random.Random(seed)
        self._existing: ExistingServer | None = None
        self._started_s: float | None = None

    def __enter__(self) -> LiveObserver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session; the next window opens another one."""
        existing, self._existing = self._existing, None
        if existing is not None:
            with suppress(psycopg.Error):
                existing.connection.close()

    def window(
        self, for_s: float, listen: Listener = lambda _: None, *, can_end_early: bool = False
    ) -> LiveWindow:
        """Observe the server for a time.

        Args:
            listen: called with the seconds elapsed, about once a second.
            can_end_early: Ctrl-C ends the window, and what was seen so far is returned.

        Raises:
            ServerLost: it does not answer, or was lost within the window.
            KeyboardInterrupt: Ctrl-C, unless it may end the window.
        """
        try:
            existing = self._connected()
            observer = Observer(existing, existing.connection)
            return self._observed(observer, for_s, listen, can_end_early=can_end_early)
        except psycopg.Error as error:
            self.close()
            raise ServerLost(f"lost {self.server.name}: {words_of(error)}") from error
        except BaseException:
            self.close()
            raise

    def windows(self, every_s: float, for_s: float) -> Iterator[LiveWindow | Gap]:
        """Yield one window after another for a time; a gap where the server was away, however long.

        The session is ended when the caller leaves off.
        """
        until_s = time.monotonic() + for_s
        pauses = Pauses()
        try:
            while (left_s := until_s - time.monotonic()) > 0:
                began_s = CLOCK.unix_s()
                try:
                    yield self.window(min(every_s, left_s))
                    pauses = Pauses()
                except ServerLost as error:
                    pauses.wait(until_s - time.monotonic())
                    yield Gap(began_s, CLOCK.unix_s(), error.message)
        finally:
            self.close()

    def _connected(self) -> ExistingServer:
        if self._existing is None:
            self._existing = ExistingServer.reached(self.server)
        return self._existing

    def _observed(
        self, observer: Observer, for_s: float, listen: Listener, *, can_end_early: bool
    ) -> LiveWindow:
        cpu_s = attempt(lambda: _own_cpu_s(observer))
        [(started_s,)] = _asked(observer, _STARTED)
        notes = []
        if self._started_s is not None and started_s != self._started_s:
            notes.append("The server was restarted since the window before.")
        self._started_s = started_s
        kinds = all_collectors()
        waits, counters = LiveWaits(), ServerCounters()
        others = [kind() for kind in _OWN if kind is not ServerCounters]
        others += [kinds[name]() for name in self.collectors]
        every = [waits, counters, *others]
        for one in every:
            one.before(observer)
        CLOCK.look()
        began_unix_s = CLOCK.unix_s()
        if self._wait(observer, waits, [counters, *others], for_s, listen, can_end_early):
            notes.append("The window was ended early.")
        CLOCK.look()
        ended_unix_s = CLOCK.unix_s()
        for one in every:
            one.after(observer)
        for one in every:
            one.afterwards(observer)
        [(finally_s,)] = _asked(observer, _STARTED)
        if finally_s != started_s:
            raise ServerLost(f"{self.server.name} was restarted within the window")
        committed = attempt(counters.committed)
        if isinstance(committed, Unseen):
            notes.append(f"Transactions are unknown: {committed.reason}.")
        window = Window(
            ended_unix_s - began_unix_s,
            0 if isinstance(committed, Unseen) else committed,
            began_unix_s,
            ended_unix_s,
        )
        texts = attempt(lambda: _texts(observer, waits.query_ids))
        times = waits.statement_times({} if isinstance(texts, Unseen) else texts, window)
        finally_cpu_s = attempt(lambda: _own_cpu_s(observer))
        recordings = [one.recordings(window) for one in every]
        return LiveWindow(
            server=self.server.name,
            version=self.server.version,
            started_unix_s=began_unix_s,
            finished_unix_s=ended_unix_s,
            transactions=None if isinstance(committed, Unseen) else committed,
            observations=tuple(x for one in every for x in one.observations(window)),
            recordings=together((*recordings, Recordings(times))),
            own_queries=observer.queries,
            own_query_s=observer.query_s,
            own_cpu_s=None
            if isinstance(cpu_s, Unseen) or isinstance(finally_cpu_s, Unseen)
            else finally_cpu_s - cpu_s,
            notes=tuple(notes),
        )

    def _wait(
        self,
        observer: Observer,
        waits: LiveWaits,
        others: Sequence[Collector],
        for_s: float,
        listen: Listener,
        can_end_early: bool,
    ) -> bool:
        """Take samples until the time is over; was it ended early?"""
        begin_s = time.monotonic()
        next_sample_s = 0.0
        try:
            while (elapsed_s := time.monotonic() - begin_s) < for_s:
                waits.look(observer)
                if elapsed_s >= next_sample_s:
                    next_sample_s = elapsed_s + self.sample_every_s
                    CLOCK.look()
                    for one in others:
                        one.sample(observer)
                    listen(elapsed_s)
                if observer.connection.closed:
                    raise ServerLost(f"lost {self.server.name} within the window")
                pause_s = self._rng.uniform(0.5, 1.5) * self.look_every_s
                time.sleep(max(min(pause_s, for_s - (time.monotonic() - begin_s)), 0.0))
        except KeyboardInterrupt:
            if not can_end_early or observer.connection.closed:
                raise
            return True
        return False


def observe_window(
    server: Server,
    for_s: float,
    listen: Listener = lambda _: None,
    *,
    collectors: Sequence[str] = FITTING,
    look_every_s: float = LOOK_EVERY_S,
    can_end_early: bool = False,
) -> LiveWindow:
    """Observe a server once; see `LiveObserver.window`."""
    with LiveObserver(server, collectors=collectors, look_every_s=look_every_s) as observer:
        return observer.window(for_s, listen, can_end_early=can_end_early)


def _own_cpu_s(observer: Observer) -> float:
    """Return the processor time of the process that serves the observer, in seconds so far."""
    observer.postmaster()  # refuses a server that does not run here
    with observer.seeing():
        return proc.scheduled_ns(observer.backend_pid)["cpu_ns"] * 1e-9


def _asked(observer: Observer, sql: LiteralString) -> list[tuple[Any, ...]]:
    try:
        return observer.query(sql)
    except Unseen as unseen:
        raise ServerLost(f"lost the server: {unseen.reason}") from unseen


def _texts(observer: Observer, query_ids: Sequence[int]) -> dict[int, str]:
    """Return the texts of statements by their numbers, as far as pg_stat_statements tells.

    Raises:
        Unseen: it is not in this database.
    """
    found = find_extension(observer)
    if not query_ids or found is None:
        return {}
    rows = observer.query(
        f"SELECT queryid, min(query) FROM {found.view} WHERE queryid = ANY (%s) GROUP BY 1",
        list(query_ids),
    )
    # Those of CREATE SUBSCRIPTION and the like have passwords in them.
    return {query_id: without_literals(text) for query_id, text in rows}
