"""How is a connection broken that a thread may wait on? A stopped server ends no statement itself."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg


@contextmanager
def abort_after(
    connection: psycopg.Connection[Any], *, after_s: float
) -> Iterator[threading.Event]:
    """Abort the connection if the block takes longer; the event is set if that happened."""
    watched = _Watched(connection, time.monotonic() + after_s)
    _WATCHDOG.add(watched)
    try:
        yield watched.was_aborted
    finally:
        _WATCHDOG.remove(watched)


def abort_connection(connection: psycopg.Connection[Any]) -> None:
    """Break the connection now: who waits on it in another thread gets an error."""
    import psycopg

    # It may be lost in another way at this very moment.
    with (
        suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)


@dataclass(eq=False)
class _Watched:
    connection: psycopg.Connection[Any]
    due_s: float  # by the monotonic clock
    was_aborted: threading.Event = field(default_factory=threading.Event)


class _Watchdog:
    """One thread for all connections: to start one for each statement costs more than sending it.

    It sleeps until the first of those that it knew when it fell asleep is due; statements that end in time do not
    wake it. It ends when there is nothing to watch.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: set[_Watched] = set()
        self._wakes_s: float | None = None  # None: no thread runs

    def add(self, watched: _Watched) -> None:
        with self._changed:
            self._watched.add(watched)
            if self._wakes_s is None:
                self._wakes_s = watched.due_s
                threading.Thread(target=self._run, name="pgdrag-watchdog", daemon=True).start()
            elif watched.due_s < self._wakes_s:
                self._changed.notify()

    def remove(self, watched: _Watched) -> None:
        with self._changed:
            self._watched.discard(watched)

    def _run(self) -> None:
        with self._changed:
            while self._watched:
                self._wakes_s = min(one.due_s for one in self._watched)
                self._changed.wait(max(self._wakes_s - time.monotonic(), 0))
                now_s = time.monotonic()
                for one in [x for x in self._watched if x.due_s <= now_s]:
                    self._watched.discard(one)
                    # Before, so that whom the break wakes finds it set.
                    one.was_aborted.set()
                    abort_connection(one.connection)
            self._wakes_s = None


_WATCHDOG = _Watchdog()
