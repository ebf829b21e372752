"""How much memory does the machine have left? A process takes the rest, and gives it back at the end.

What counts the whole machine's memory, such as vm.dirty_ratio, does not see a control group's limit.
"""

from __future__ import annotations

import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pgdrag.errors import UsageError
from pgdrag.factors import Example, Factor, Here, Problem
from pgdrag.factors import _balloon as program
from pgdrag.factors._balloon import available_bytes
from pgdrag.host.process_sight import has_capability
from pgdrag.host.spawn import spawn
from pgdrag.model import Applied, Level
from pgdrag.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

LEAVE = "leave"
# With less, the kernel ends processes rather than let them run slowly.
LEAST_BYTES = 64 << 20
# A page takes well under a microsecond to find and to clear; a machine that swaps takes longer.
FILL_TIMEOUT_S = 120.0
_END_TIMEOUT_S = 10.0
_CAP_IPC_LOCK = 14  # linux/capability.h
# What others take or free while it fills needs no warning.
_SLACK = 0.05


class MemoryBalloon(Factor):
    """A process that holds memory of the machine, so that only a given amount is left."""

    name = "memory_balloon"
    summary = 'memory that the whole machine has left: leave = "2GB"; a process of pgdrag\'s holds the rest'
    # What can be had depends on the machine, so its tests make their own levels.
    examples: ClassVar[tuple[Example, ...]] = ()
    changes_host = True

    def __init__(self) -> None:
        self._balloon: Balloon | None = None
        self._available_before = 0
        self._refused = ""

    def problem(self, level: Level, here: Here) -> Problem | None:
        """Return what is not a size as a mistake; untestable: too little memory, or none that may be locked."""
        if level.name != LEAVE:
            message = f'a memory balloon has no "{level.name}"'
            return Problem(
                level, True, message, f'Write {LEAVE} = "2GB": what the machine has left.'
            )
        what = f'memory_balloon "{LEAVE}" cannot be {level.value}'
        try:
            leave_bytes = parse_bytes(level.value)
        except UsageError as error:
            return Problem(level, True, f"{what}: {error.message}", error.hint or "")
        if leave_bytes < LEAST_BYTES:
            hint = f"Leave {format_bytes(LEAST_BYTES)} or more."
            return Problem(level, True, f"{what}: no server starts with less memory", hint)
        cannot = f'memory_balloon "{LEAVE}" cannot be set to {level.value} here'
        try:
            there = available_bytes()
        except (OSError, StopIteration):
            return Problem(level, False, f"{cannot}: this kernel does not tell what is available")
        if there <= leave_bytes:
            return Problem(level, False, f"{cannot}: {format_bytes(there)} are available")
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        reason = unlockable(there - leave_bytes, limit, may_lock_all=has_capability(_CAP_IPC_LOCK))
        if reason:
            hint = f"As root, pgdrag would have a process hold {format_bytes(there - leave_bytes)}."
            return Problem(level, False, f"{cannot}: {reason}", hint)
        return None

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        """Take memory; it may take a while, and can be interrupted."""
        if LEAVE not in levels:
            return
        self._available_before = available_bytes()
        self._balloon = Balloon(parse_bytes(levels[LEAVE]))
        self._refused = self._balloon.fill()

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return what was available when it was full, and what is now."""
        return [self._applied(Level(self.name, *level)) for level in levels.items()]

    def failure(self, cluster: Cluster) -> str:
        if self._balloon is None or self._refused or self._balloon.is_full():
            return ""
        return "the memory balloon was killed in the trial, and its memory was free from then on"

    def undo(self, cluster: Cluster) -> None:
        if self._balloon is not None:
            self._balloon.deflate()
            self._balloon = None

    def _applied(self, level: Level) -> Applied:
        default = format_bytes(self._available_before or available_bytes())
        balloon = self._balloon
        if self._refused or balloon is None:
            now = None if self._refused else default
            return Applied(level, now, self._refused or "no balloon was filled", default)
        is_near = abs(balloon.available_bytes / parse_bytes(level.value) - 1) <= _SLACK
        how = (
            f"a process holds {format_bytes(balloon.held_bytes)}; with the server started, "
            f"{format_bytes(available_bytes())} are available"
        )
        note = "" if is_near else "others took or gave back memory while it was filled"
        return Applied(level, format_bytes(balloon.available_bytes), note, default, how)


class Balloon:
    """A process that holds memory: it ends with this one, and is the first that the kernel kills if memory runs out.

    Attributes:
        held_bytes: what it has locked.
        available_bytes: what was left to all others when it was full.
    """

    def __init__(self, leave_bytes: int) -> None:
        self.leave_bytes = leave_bytes
        self.held_bytes = 0
        self.available_bytes = 0
        self._process: subprocess.Popen[bytes] | None = None

    def fill(self, *, timeout_s: float = FILL_TIMEOUT_S) -> str:
        """Take memory until `leave_bytes` are available; the answer is why it could not, or ""."""
        assert self._process is None, "it is filled once"
        self._process = spawn(
            # Without site packages and this directory: it needs nothing of them.
            [sys.executable, "-I", "-S", str(program.__file__), str(self.leave_bytes)],
            user=None,
            cwd=Path("/"),
            death_signal=signal.SIGKILL,
            output=subprocess.PIPE,
            stdin=subprocess.PIPE,
        )
        words = self._answer(timeout_s).split()
        if words[:1] == ["held"]:
            self.held_bytes, self.available_bytes = int(words[1]), int(words[2])
            return ""
        self.deflate()
        if words[:1] == ["refused"]:
            return f"the kernel locks no more memory: {' '.join(words[1:])}"
        return " ".join(words)

    def is_full(self) -> bool:
        """Whether it holds its memory still."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Its process, while it lives."""
        return self._process.pid if self._process is not None and self.is_full() else None

    def deflate(self) -> None:
        """Give the memory back; again is fine."""
        process, self._process = self._process, None
        if process is None:
            return
        # Whatever it is doing: it has nothing to clear away.
        process.kill()
        process.wait(_END_TIMEOUT_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _answer(self, timeout_s: float) -> str:
        """Return what it says, or why it says nothing; waiting for it can be interrupted."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline = time.monotonic() + timeout_s
        ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return f"memory was not filled within {timeout_s:g} s"
        line = process.stdout.readline().decode(errors="replace").strip()
        return (
            line or "the process that takes memory was killed, most likely because memory ran out"
        )


def unlockable(size: int, limit: int, *, may_lock_all: bool) -> str:
    """Return why a process may not lock this many bytes, or "".

    Args:
        size: how many.
        limit: RLIMIT_MEMLOCK; RLIM_INFINITY: none.
        may_lock_all: it has the capability CAP_IPC_LOCK.
    """
    if may_lock_all or limit == resource.RLIM_INFINITY or size <= limit:
        return ""
    return f"this user may lock {format_bytes(limit)} of memory (RLIMIT_MEMLOCK), not {format_bytes(size)}"
