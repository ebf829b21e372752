"""Which locks do all processes of this kernel see, in any container and as any user?

A namespace that containers share is one file for all of them, below /proc/self/ns, and can be locked
(flock) by whoever can open it. The time namespace is shared by all containers (Docker, Podman, LXC,
Kubernetes). The user namespace is shared by all processes that may change what the kernel has once.

Any user can hold such a lock: who does is named, where the kernel shows it, and it locks out nobody for
good. See `machine_lock` and `UndoJournal.hold_kernel`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Literal

from pgdrag.host.process_alive import try_lock

_NAMESPACES = Path("/proc/self/ns")
_LOCKS = Path("/proc/locks")


class KernelLock:
    """A lock that exists once per kernel; this process holds it until `close`, at the latest until its end.

    Without a namespace, or on a kernel that lacks it, everybody can take it at once.
    """

    def __init__(self, namespace: Literal["time", "user"] | None) -> None:
        self._fd = -1
        if namespace is not None:
            # A kernel without it has no locks across containers.
            with contextlib.suppress(OSError):
                self._fd = os.open(_NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)

    def take(self) -> bool:
        """Whether it is held now, or there is none to hold."""
        return self._fd < 0 or try_lock(self._fd)

    def give_up(self) -> None:
        """Let others take it; it can be taken again."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let others take it, for good."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def holder_pid(self) -> int | None:
        """Return the process that holds it; None if there is none, or it is in a container that cannot be seen."""
        try:
            inode = os.fstat(self._fd).st_ino
            lines = _LOCKS.read_text(errors="replace").splitlines()
        except OSError:
            return None
        # proc_locks(5): "1: FLOCK ADVISORY WRITE 4711 00:04:4026531834 0 EOF"
        for words in map(str.split, lines):
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
                return int(words[4]) or None
        return None
