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
def hanging_up(connection: psycopg.Connection[Any], *, after_s: float) -> Iterator[threading.Event]:
    """Break the connection when the block takes longer; the event says that it has come to that."""
    has_hung_up = threading.Event()

    def break_off() -> None:
        # Before, so that whom the break wakes finds it set.
        has_hung_up.set()
        hang_up(connection)

    timer = threading.Timer(after_s, break_off)
    timer.daemon = True
    timer.start()
    try:
        yield has_hung_up
    finally:
        timer.cancel()


def hang_up(connection: psycopg.Connection[Any]) -> None:
    """Break the connection now: who waits on it in another thread gets an error."""
    import psycopg

    # It may be lost in another way at this very moment.
    with (
        suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
