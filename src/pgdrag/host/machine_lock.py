"""Is another pgdrag measuring on this machine? Concurrent measurements would disturb each other."""

from __future__ import annotations

import math
import os
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from pgdrag.errors import UsageError
from pgdrag.host.kernel_lock import KernelLock
from pgdrag.host.process_alive import take_over
from pgdrag.host.process_sight import uid_of
from pgdrag.host.trusted_path import user_name
from pgdrag.units import format_duration

# Parts of a machine that cannot disturb each other (tests, cpusets) may have names of their own.
MACHINE_VARIABLE = "PGDRAG_MACHINE"

_POLL_S = 0.2
_ASK_EVERY_S = 5.0
_UNSEEN = "a process that cannot be seen from here"
_PLAIN = re.compile(r"[\w./-]+")  # a name or a path, and no connection string


@dataclass(frozen=True)
class _Process:
    """One that measures, or has taken the name of those that do; `uid`: None, it is not known."""

    pid: int
    uid: int | None

    def __str__(self) -> str:
        """Return `process 4711, pgdrag compare a.conf b.conf`; no arguments that may have a password in them."""
        is_own = self.uid is None or self.uid == os.geteuid()
        whose = "" if is_own else f' of user "{user_name(self.uid or 0)}"'
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_text(errors="replace").split("\0")
        except OSError:  # it has ended, or is hidden
            command = []
        at = next((at for at, word in enumerate(command) if Path(word).name == "pgdrag"), None)
        if at is None:
            return f"process {self.pid}{whose}"
        plain = takewhile(_PLAIN.fullmatch, command[at + 1 :])
        return " ".join((f"process {self.pid}{whose}, pgdrag", *plain))


class _Holder:
    """Who measures, asked for every few seconds: each question stays in that one's queue, which has an end."""

    def __init__(self, kernel: KernelLock) -> None:
        self._kernel = kernel
        self._known: _Process | None = None
        self._asked_s = 0.0

    def process(self) -> _Process | None:
        """Return it; None: it is not seen from here."""
        if self._known is None or time.monotonic() >= self._asked_s + _ASK_EVERY_S:
            self._asked_s = time.monotonic()
            self._known = _listener()
            if self._known is None and (pid := self._kernel.holder_pid()) is not None:
                self._known = _Process(pid, uid_of(pid))
        return self._known

    def pid(self) -> int | None:
        """Return its number."""
        found = self.process()
        return None if found is None else found.pid


@contextmanager
def measuring_alone(
    wait_s: float = 0.0, tell: Callable[[str], object] = lambda _: None
) -> Iterator[None]:
    """Lock the machine for one run, across users and containers; the kernel releases it even after kill -9.

    Args:
        wait_s: wait this long for others to end, in seconds; it may be infinite.
        tell: called with what is waited for, once for each.

    Raises:
        UsageError: another pgdrag holds it, and does so after waiting.
    """
    name = os.environ.get(MACHINE_VARIABLE, "")
    with (
        socket.socket(socket.AF_UNIX) as held,
        # What has a name of its own is a part of the machine, and says so itself.
        closing(KernelLock(None if name else "time")) as kernel,
    ):

        def take() -> bool:
            if not kernel.take():
                return False
            try:
                held.bind(_address())
            except OSError:
                kernel.give_up()
                return False
            return True

        holder = _Holder(kernel)
        deadline = time.monotonic() + wait_s
        told: set[_Process | None] = set()
        while not take_over(take, holder.pid):
            found = holder.process()
            if time.monotonic() >= deadline:
                raise _refusal(found, wait_s)
            if found not in told:
                told.add(found)
                most = "" if math.isinf(wait_s) else f"up to {format_duration(wait_s)} "
                tell(f"Waiting {most}for {found or _UNSEEN}.")
            time.sleep(_POLL_S)
        held.listen(socket.SOMAXCONN)
        yield


def lock_name() -> str:
    """Return what is the same for two processes where one of them locks the other out: the kernel, and its part."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # hidden
        kernel = socket.gethostname()
    return f"{kernel} {os.environ.get(MACHINE_VARIABLE, '')}"


def measuring_pid() -> int | None:
    """Return the PID of the pgdrag that is measuring on this machine, or None."""
    found = _listener()
    return None if found is None else found.pid


def _refusal(found: _Process | None, wait_s: float) -> UsageError:
    after = f" after waiting for {format_duration(wait_s)}" if wait_s else ""
    who = _UNSEEN if found is None else found
    seen = "Concurrent measurements would disturb each other."
    if found is None:
        seen += (
            " It runs in another container, or does not answer: on the host, root finds it with"
            ' "lslocks" or "ss -xap | grep pgdrag-measuring".'
        )
    return UsageError(
        f"another pgdrag is measuring on this machine{after} ({who})",
        detail=seen,
        hint=f"Give --wait {'a longer time' if wait_s else 'to start when it has ended'}, or stop it. "
        f"If it measures nothing, set {MACHINE_VARIABLE} to a name of your own to go on beside it.",
    )


def _listener() -> _Process | None:
    """Return who has the name in this network namespace, and answers."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.settimeout(1)
            asking.connect(_address())
        except OSError:
            return None
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack(
            "3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        # 0: it is in a PID namespace that is not seen from here.
        return _Process(pid, uid) if pid else None


def _address() -> str:
    # In Linux's abstract namespace: no file, so no permissions and nothing to remove.
    return f"\0pgdrag-measuring-{os.environ.get(MACHINE_VARIABLE, '')}"
