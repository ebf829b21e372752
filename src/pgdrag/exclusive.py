"""Is another pgdrag measuring on this machine? Two measurements at once would measure each other."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgdrag.errors import UsageError

_LOCK_NAME = "measuring.lock"


@contextmanager
def measuring_alone(directory: Path) -> Iterator[None]:
    """Hold the machine for one run; the kernel gives it up even after kill -9.

    Args:
        directory: what all pgdrag processes on this machine that could disturb each other share.

    Raises:
        UsageError: another pgdrag holds it.
    """
    with (directory / _LOCK_NAME).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise UsageError(
                f"another pgdrag is measuring on this machine (process {lock.read().strip()})",
                detail="Two measurements at once would measure each other.",
                hint="Wait until it has ended, or stop it.",
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def is_measuring(directory: Path) -> bool:
    """Tell whether some pgdrag process measures now."""
    try:
        with measuring_alone(directory):
            return False
    except UsageError:
        return True
    except OSError:  # no such directory: nothing has ever been measured
        return False
