"""A server that lets pgdrag in and then lies, or says nothing, neither holds it up nor fills its memory."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pgdrag.driver import connection_string
from pgdrag.driver.connection_string import reach
from pgdrag.errors import ServerLost


def message(kind: str, content: bytes) -> bytes:
    return kind.encode() + struct.pack("!I", len(content) + 4) + content


def row(*values: bytes) -> bytes:
    columns = b"".join(struct.pack("!I", len(value)) + value for value in values)
    return message("D", struct.pack("!H", len(values)) + columns)


def columns(*types: int) -> bytes:
    named = [
        f"column{x}".encode() + b"\0" + struct.pack("!IHIhih", 0, 0, x, -1, -1, 0) for x in types
    ]
    return message("T", struct.pack("!H", len(types)) + b"".join(named))


LET_IN = message("R", bytes(4)) + message("S", b"server_version\0" + b"18.0\0") + message("Z", b"I")
INT4, INT8, BOOLEAN, FLOAT8 = 23, 20, 16, 701
COLUMNS = columns(INT4, INT8, BOOLEAN, FLOAT8)
BEGUN = message("1", b"") + message("2", b"") + COLUMNS
ENDED = message("C", b"SELECT 1\0") + message("Z", b"I")


def honest(others: bytes) -> bytes:
    """A row as it is asked for: the process that the client was named, which is none, and sessions."""
    return row(b"0", others, b"f", b"0")


def says_nothing(client: socket.socket) -> None:
    client.recv(1)  # until it hangs up


def says(answer: bytes) -> Callable[[socket.socket], None]:
    def say(client: socket.socket) -> None:
        client.sendall(answer)
        client.recv(1)

    return say


def never_ends(client: socket.socket) -> None:
    client.sendall(BEGUN)
    while True:
        client.sendall(honest(b"1") * 10_000)


@contextlib.contextmanager
def server(lie: Callable[[socket.socket], None]) -> Iterator[str]:
    """Let a client in, and lie to its first question; the connection string."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                client.recv(10_000)
                client.sendall(LET_IN)
                client.recv(10_000)
                lie(client)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        yield f"host=127.0.0.1 port={port} user=me dbname=db sslmode=disable"
        thread.join(10)
        assert not thread.is_alive(), "pgdrag hung up"


def test_one_that_lets_in_and_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_string, "ANSWER_TIMEOUT_S", 0.5)
    with (
        server(says_nothing) as dsn,
        pytest.raises(ServerLost, match=r"let pgdrag in, but did not answer within 0\.5 s"),
    ):
        reach(dsn)


def test_one_that_sends_rows_without_end_is_left_at_the_second() -> None:
    begun_s = time.monotonic()
    with (
        server(never_ends) as dsn,
        pytest.raises(ServerLost, match="does not answer as PostgreSQL does"),
    ):
        reach(dsn)
    assert time.monotonic() < begun_s + connection_string.ANSWER_TIMEOUT_S


@pytest.mark.parametrize("rows", [b"", row(b"3"), honest(b"many"), honest(b"-5")])
def test_one_that_answers_something_else_is_no_server(rows: bytes) -> None:
    with (
        server(says(BEGUN + rows + ENDED)) as dsn,
        pytest.raises(ServerLost, match=r"does not answer as PostgreSQL does|could not ask"),
    ):
        reach(dsn)


def test_one_that_tells_the_truth_is_believed() -> None:
    with server(says(BEGUN + honest(b"3") + ENDED)) as dsn:
        found = reach(dsn)
    assert (found.other_sessions, found.version, found.is_local) == (3, "18.0", True)
