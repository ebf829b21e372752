"""Is another pgdrag measuring on this machine? Concurrent measurements would disturb each other."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from pgdrag.errors import UsageError
from pgdrag.host.process_alive import take_over

# Parts of a machine that cannot disturb each other (tests, cpusets) may have names of their own.
MACHINE_VARIABLE = "PGDRAG_MACHINE"


@contextmanager
def measuring_alone() -> Iterator[None]:
    """Lock the machine for one run, across users; the kernel releases the lock even after kill -9.

    Raises:
        UsageError: another pgdrag holds it.
    """
    with socket.socket(socket.AF_UNIX) as held:

        def bind() -> bool:
            try:
                held.bind(_address())
            except OSError:
                return False
            return True

        if not take_over(bind, measuring_pid):
            raise UsageError(
                f"another pgdrag is measuring on this machine (process {measuring_pid()})",
                detail="Concurrent measurements would disturb each other.",
                hint="Wait until it ends, or stop it.",
            )
        held.listen()
        yield


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
