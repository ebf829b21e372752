"""What runs the trials of one host of a fleet: a station that reads orders from its standard input?

It keeps the host's one-measurement lock for as long as it lives. Messages are those of `messages`, one a line. Standard
output belongs to them: what else prints there goes to standard error.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import IO

from pgdrag.errors import PgdragError, StorageError, UsageError
from pgdrag.fleet.messages import (
    Done,
    Facts,
    FromHost,
    Happened,
    Order,
    Run,
    Stopped,
    Unable,
    from_coordinator,
    written,
)
from pgdrag.host.guardian import guarded_session
from pgdrag.host.machine_lock import measuring_alone
from pgdrag.model.events import Event, PhaseStarted, Throughput
from pgdrag.station import Station, TrialRunner

_TELL_EVERY_S = 5.0  # of throughput

OpenBench = Callable[[Order], tuple[TrialRunner, Facts]]


def work(open_bench: OpenBench, orders: IO[bytes], out: IO[bytes]) -> None:
    """Read an order and then trials, and say what came of each, until there are no more.

    Args:
        open_bench: returns what runs trials here, and what this host is; locks and measures nothing yet.

    Raises:
        UsageError: there is no order.
    """

    def say(message: FromHost) -> None:
        out.write(written(message) + b"\n")
        out.flush()

    told_s = 0.0

    def listen(event: Event) -> None:
        nonlocal told_s
        if isinstance(event, Throughput):
            if time.monotonic() - told_s < _TELL_EVERY_S:
                return
            told_s = time.monotonic()
        if isinstance(event, PhaseStarted | Throughput):
            say(Happened(event))

    order = _order(orders.readline())
    try:
        bench, facts = open_bench(order)
        if order.study is None:
            say(facts)
            return
        # What a trial starts in this session ends with it, also after kill -9.
        with (
            guarded_session(os.getpid()),
            measuring_alone(math.inf, lambda words: say(_waiting(words))),
        ):
            try:
                station = Station(order.study, bench, listen)
                say(facts)
                while line := orders.readline():
                    asked = from_coordinator(line)
                    assert isinstance(asked, Run), asked
                    try:
                        result = station.run(asked.trial, listen)
                    except StorageError as error:
                        say(Stopped(asked.lease, error.message, is_hosts=True))
                        return
                    say(Done(asked.lease, result))
            finally:
                bench.close()
    except PgdragError as error:
        detail = f": {error.detail}" if error.detail else ""
        say(Unable(f"{error.message}{detail}", is_final=True))


def _waiting(words: str) -> Unable:
    reason = words.removeprefix("Waiting ").removesuffix(".")  # what shows it says that it waits
    return Unable(reason, is_final=False)


def _order(line: bytes) -> Order:
    try:
        order = from_coordinator(line)
    except ValueError:
        raise UsageError(
            "standard input has no order of a fleet",
            hint='"pgdrag fleet join TICKET" starts workers itself.',
        ) from None
    assert isinstance(order, Order), order
    return order


def standard_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return where orders come from, and where messages go; nothing else is printed there from now on."""
    orders, out = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return os.fdopen(orders, "rb"), os.fdopen(out, "wb")
