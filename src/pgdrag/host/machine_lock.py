"""Is another pgdrag measuring on this machine? Concurrent measurements would disturb each other."""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from pgdrag.errors import UsageError
from pgdrag.host.process_alive import take_over
from pgdrag.units import format_duration

# Parts of a machine that cannot disturb each other (tests, cpusets) may have names of their own.
MACHINE_VARIABLE = "PGDRAG_MACHINE"

_POLL_S = 0.2
_PLAIN = re.compile(r"[\w./-]+")  # a name or a path, and no connection string


@contextmanager
def measuring_alone(
    wait_s: float = 0.0, tell: Callable[[str], object] = lambda _: None
) -> Iterator[None]:
    """Lock the machine for one run, across users; the kernel releases the lock even after kill -9.

    Args:
        wait_s: wait this long for others to end.
        tell: is told whom is waited for, once of each.

    Raises:
        UsageError: another pgdrag holds it, and does so after waiting.
    """
    with socket.socket(socket.AF_UNIX) as held:

        def bind() -> bool:
            try:
                held.bind(_address())
            except OSError:
                return False
            return True

        deadline, told = time.monotonic() + wait_s, None
        while not take_over(bind, measuring_pid):
            pid = measuring_pid()
            if time.monotonic() >= deadline:
                after = f" after waiting for {format_duration(wait_s)}" if wait_s else ""
                raise UsageError(
                    f"another pgdrag is measuring on this machine{after} ({_process_words(pid)})",
                    detail="Concurrent measurements would disturb each other.",
                    hint=f"Give --wait {'a longer time' if wait_s else 'to start when it has ended'}, or stop it.",
                )
            if pid not in (None, told):
                told = pid
                tell(f"Waiting up to {format_duration(wait_s)} for {_process_words(pid)}.")
            time.sleep(_POLL_S)
        held.listen()
        yield


def _process_words(pid: int | None) -> str:
    """Return `process 4711, pgdrag compare a.conf b.conf`; without arguments that may have a password in them."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:  # it has ended, or its process namespace is another
        command = []
    at = next((at for at, word in enumerate(command) if Path(word).name == "pgdrag"), None)
    if at is None:
        return f"process {pid}"
    plain = takewhile(_PLAIN.fullmatch, command[at + 1 :])
    return " ".join((f"process {pid}, pgdrag", *plain))


def measuring_pid() -> int | None:
    """Return the PID of the pgdrag that is measuring on this machine, or None."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.settimeout(1)
            asking.connect(_address())
        except OSError:
            return None
        credentials = asking.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
        )
        return int(struct.unpack("3i", credentials)[0])


def _address() -> str:
    # In Linux's abstract namespace: no file, so no permissions and nothing to remove.
    return f"\0pgdrag-measuring-{os.environ.get(MACHINE_VARIABLE, '')}"
