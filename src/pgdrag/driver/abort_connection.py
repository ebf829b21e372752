"""How is a connection broken that a thread may wait on? A stopped server ends no statement itself."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg


@contextmanager
def abort_after(
    connection: psycopg.Connection[Any], *, after_s: float
) -> Iterator[threading.Event]:
    """Abort the connection if the block takes longer; the event is set if that happened."""
    was_aborted = threading.Event()

    def break_off() -> None:
        # Before, so that whom the break wakes finds it set.
        was_aborted.set()
        abort_connection(connection)

    timer = threading.Timer(after_s, break_off)
    timer.daemon = True
    timer.start()
    try:
        yield was_aborted
    finally:
        timer.cancel()


def abort_connection(connection: psycopg.Connection[Any]) -> None:
    """Break the connection now: who waits on it in another thread gets an error."""
    import psycopg

    # It may be lost in another way at this very moment.
    with (
        suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
