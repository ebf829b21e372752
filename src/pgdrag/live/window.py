"""What does an existing server do now? Collectors around one window.

Nothing is run there but queries of the server's own views, over one read-only session that is named in
pg_stat_activity and limits each statement's time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from pgdrag.live.server import ExistingServer
from pgdrag.live.settings import LiveSettings
from pgdrag.live.tables import LiveTables
from pgdrag.live.upkeep import Upkeep
from pgdrag.model.live import LiveWindow
from pgdrag.model.recordings import Recordings, together

LOOK_EVERY_S = 0.1  # mean time between two samples of what sessions wait for
SAMPLE_EVERY_S = 1.0  # between two readings of counters for series within the window
# What is cheap on a server of any size, and needs no session of its own.
FITTING = ("buffers", "database", "indexes", "io", "scans", "slru", "wal", "checkpoints", "autovacuum", "messages", "horizon", "cpu", "host", "disk", "statements")  # fmt: skip
_OWN: tuple[type[Collector], ...] = (ServerCounters, LiveSessions, LiveTables, Upkeep, LiveSettings)
_STARTED: LiteralString = "SELECT extract(epoch FROM pg_postmaster_start_time())::float8"

Listener = Callable[[float], None]


def observe_window(
    server: Server,
    for_s: float,
    listen: Listener = lambda _: None,
    *,
    can_end_early: bool = False,
) -> LiveWindow:
    """Observe a server for a time, over a session that ends with it.

    Args:
        listen: called with the seconds elapsed, about once a second.
        can_end_early: Ctrl-C ends the window, and what was seen so far is returned.

    Raises:
        ServerLost: it does not answer, or was lost within the window.
        KeyboardInterrupt: Ctrl-C, unless it may end the window.
    """
    try:
        existing = ExistingServer.reached(server)
        try:
            observer = Observer(existing, existing.connection)
            return _observed(observer, server, for_s, listen, can_end_early=can_end_early)
        finally:
            with suppress(psycopg.Error):
                existing.connection.close()
    except psycopg.Error as error:
        raise ServerLost(f"lost {server.name}: {words_of(error)}") from error


def _observed(
    observer: Observer, server: Server, for_s: float, listen: Listener, *, can_end_early: bool
) -> LiveWindow:
    cpu_s = attempt(lambda: _own_cpu_s(observer))
    [(started_s,)] = _asked(observer, _STARTED)
    notes = []
    kinds = all_collectors()
    waits, counters = LiveWaits(), ServerCounters()
    others = [kind() for kind in _OWN if kind is not ServerCounters]
    others += [kinds[name]() for name in FITTING]
    every = [waits, counters, *others]
    for one in every:
        one.before(observer)
    CLOCK.look()
    began_unix_s = CLOCK.unix_s()
    if _wait(observer, server, waits, [counters, *others], for_s, listen, can_end_early):
        notes.append("The window was ended early.")
    CLOCK.look()
    ended_unix_s = CLOCK.unix_s()
    for one in every:
        one.after(observer)
    for one in every:
        one.afterwards(observer)
    [(finally_s,)] = _asked(observer, _STARTED)
    if finally_s != started_s:
        raise ServerLost(f"{server.name} was restarted within the window")
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
        server=server.name,
        version=server.version,
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
    observer: Observer,
    server: Server,
    waits: LiveWaits,
    others: Sequence[Collector],
    for_s: float,
    listen: Listener,
    can_end_early: bool,
) -> bool:
    """Take samples until the time is over; was it ended early?"""
    begin_s = time.monotonic()
    next_sample_s, rng = 0.0, random.Random(0)
    try:
        while (elapsed_s := time.monotonic() - begin_s) < for_s:
            waits.look(observer)
            if elapsed_s >= next_sample_s:
                next_sample_s = elapsed_s + SAMPLE_EVERY_S
                CLOCK.look()
                for one in others:
                    one.sample(observer)
                listen(elapsed_s)
            if observer.connection.closed:
                raise ServerLost(f"lost {server.name} within the window")
            pause_s = rng.uniform(0.5, 1.5) * LOOK_EVERY_S
            time.sleep(max(min(pause_s, for_s - (time.monotonic() - begin_s)), 0.0))
    except KeyboardInterrupt:
        if not can_end_early or observer.connection.closed:
            raise
        return True
    return False


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
    """Return the texts of statements by query ID, of those that pg_stat_statements has.

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
