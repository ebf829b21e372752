"""A connection that a thread waits on is broken when it is due, and only then."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pgdrag.driver.abort_connection import abort_after

LONG_S, SHORT_S = 60.0, 0.05


class Line:
    """A connection as far as it can be broken, and the server's end of it."""

    def __init__(self) -> None:
        self.own, self.server = socket.socketpair()
        self.own.settimeout(10)

    def fileno(self) -> int:
        return self.own.fileno()


@pytest.fixture
def line() -> Iterator[Any]:
    made = Line()
    with made.own, made.server:
        yield made


other = line


def test_a_wait_that_takes_too_long_is_broken_off_also_beside_a_longer_one(
    line: Any, other: Any
) -> None:
    with abort_after(other, after_s=LONG_S) as other_was_aborted:
        with abort_after(line, after_s=SHORT_S) as was_aborted:
            assert line.own.recv(1) == b""
        assert was_aborted.is_set()
        other.server.send(b"x")
        assert other.own.recv(1) == b"x"
    assert not other_was_aborted.is_set()


def test_a_wait_that_ended_in_time_is_left_alone_and_the_next_is_watched_again(line: Any) -> None:
    with abort_after(line, after_s=LONG_S) as first:
        pass
    line.server.send(b"x")
    assert line.own.recv(1) == b"x"
    with abort_after(line, after_s=SHORT_S) as second:
        assert line.own.recv(1) == b""
    assert (first.is_set(), second.is_set()) == (False, True)
