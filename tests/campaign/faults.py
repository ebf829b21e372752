"""What can happen to a command, to whom of it, and when?"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from kinds import KINDS, Kind
from place import END_TIMEOUT_S, IS_ROOT, Command, Place, descendants, role_of, strike, wait

SIGNALS = ("KILL", "TERM", "INT", "HUP")
FULL, SECOND, MEMORY, STOP = "full disk", "second pgdrag", "out of memory", "STOP"
VICTIM_TIMEOUT_S = 30.0
# What is there from a command's beginning to its end; others come and go with its trials.
_LASTING = ("pgdrag", "both", "all", "guardian", "home", "scratch")
_CGROUPS = Path("/sys/fs/cgroup")
# Where a group's memory is limited: the first version's hierarchy, else the second one's.
_PARENT, _LIMIT = (
    (_CGROUPS / "memory", "memory.limit_in_bytes")
    if (_CGROUPS / "memory").is_dir()
    else (_CGROUPS, "memory.max")
)
HAS_GROUPS = IS_ROOT and os.access(_PARENT, os.W_OK)


@dataclass(frozen=True)
class Length:
    """How long a command takes: in seconds, and in changes of its files."""

    s: float
    changes: int = 0


@dataclass(frozen=True)
class Fault:
    """What happens to whom, and when.

    Attributes:
        name: what happens.
        victim: the role of a process; "home" or "scratch" of a full disk.
        share: the moment, of the time that the command takes, or of the changes of its files.
        is_by_change: it is of the changes.
        delay_s: from that change on; or how long a stopped process stands still.
        results: how many of the run are on disk before; 0: the moment is as above.
    """

    name: str
    victim: str
    share: float
    is_by_change: bool
    delay_s: float
    results: int = 0

    def __str__(self) -> str:
        if self.results:
            return f"{self.name} {self.victim}, after {self.results} results"
        when = f"{self.share:.0%} into it"
        if self.is_by_change:
            when = (
                f"{1000 * self.delay_s:.0f} ms after {self.share:.0%} of the changes of its files"
            )
        return f"{self.name} {self.victim}, {when}"

    @property
    def ends_pgdrag(self) -> bool:
        """Whether the command's own process cannot survive it."""
        return self.name == "KILL" and self.victim in ("pgdrag", "both", "all")

    @property
    def spares_guardian(self) -> bool:
        """Whether whoever clears up after a killed one lives, and may work."""
        return self.victim not in ("both", "all", "guardian") and self.name != MEMORY


def draw_fault(kind: Kind, draw: random.Random) -> Fault:
    """Draw what happens to a command of a kind."""
    names = [*SIGNALS[:1] * 5, *SIGNALS[1:], *[STOP] * 2]
    if IS_ROOT and kind.resumed is not None and not kind.has_server and not kind.is_on_disk:
        names.append(FULL)
    if kind.name in ("run", "compare"):
        names.append(SECOND)
    if HAS_GROUPS:
        names.append(MEMORY)
    name = draw.choice(names)
    share = draw.uniform(0, 0.95)
    is_by_change = bool(kind.resumed) and draw.random() < 0.5
    if name == FULL:
        victim = draw.choice(("home", "scratch"))
    elif name == SECOND:
        victim = "pgdrag"
    else:
        # A server's own processes are not moved into a group, where the kernel may count what others share.
        possible = [x for x in kind.victims if x not in ("both", "all") or name == "KILL"]
        if kind.has_server and name == MEMORY:
            possible = [x for x in possible if x not in ("server", "backend")]
        # Each command's own process is the one that people kill.
        victim = draw.choice([*possible, "pgdrag"])
    if kind.resumed and victim not in _LASTING:
        share *= 0.75  # at the end of a run it would come too late for them
    delay_s = draw.uniform(0.1, 3.0) if name == STOP else draw.uniform(0, 0.03)
    return Fault(name, victim, share, is_by_change, delay_s)


@contextmanager
def struck(
    fault: Fault, kind: Kind, here: Place, command: Command, length: Length
) -> Iterator[bool]:
    """Wait for the moment and let it happen; what can be is mended when the block, which waits for the end, is over.

    Yields:
        Whether it happened before the command had ended.
    """
    _wait_for_moment(fault, here, command, length)
    if fault.name == FULL:
        point = here.directory / ("home" if fault.victim == "home" else "disk")
        try:
            yield not command.has_ended() and _fill(point)
        finally:
            (point / "filler").unlink(missing_ok=True)
        return
    victims: list[psutil.Process] = []

    def are_there() -> bool:
        victims[:] = _victims(fault, kind, here, command)
        return bool(victims) or command.has_ended()

    wait(VICTIM_TIMEOUT_S, are_there, poll_s=0.01)
    here.note(x for x in descendants(command.process.pid))
    if fault.name == MEMORY:
        with _starved(victims) as is_hit:
            yield is_hit
    elif fault.name == STOP:
        hit = [x for x in victims if strike(x, signal.SIGSTOP)]
        try:
            wait(fault.delay_s, command.has_ended)
        finally:
            for each in hit:
                strike(each, signal.SIGCONT)
        yield bool(hit)
    else:
        number = signal.SIGKILL if fault.name == SECOND else signal.Signals[f"SIG{fault.name}"]
        yield bool([x for x in victims if strike(x, number)])


def _victims(fault: Fault, kind: Kind, here: Place, command: Command) -> list[psutil.Process]:
    """Return whom it happens to: of several of a role, one; a guardian goes before whom it guards."""
    if command.has_ended():
        return []
    tree = descendants(command.process.pid)
    if kind.has_server and fault.victim in ("server", "backend"):
        first, *others = here.server.processes() or [None]
        found = [first] if fault.victim == "server" else others[-3:]
        return [x for x in found if x is not None][-1:]
    match fault.victim:
        case "pgdrag":
            return tree[:1]
        case "both":
            return [*(x for x in tree if role_of(x) == "guardian"), *tree[:1]]
        case "all":
            return sorted(tree, key=lambda x: role_of(x) != "guardian")
        case role:
            return [x for x in tree if role_of(x) == role][-1:]


def _wait_for_moment(fault: Fault, here: Place, command: Command, length: Length) -> None:
    if fault.results:
        wait(END_TIMEOUT_S, lambda: here.results() >= fault.results or command.has_ended())
        return
    if not fault.is_by_change:
        wait(fault.share * length.s, command.has_ended)
        return
    after = int(fault.share * length.changes)
    wait(2 * length.s, lambda: command.changes.look() > after or command.has_ended())
    time.sleep(0 if fault.name == STOP else fault.delay_s)


def _fill(point: Path) -> bool:
    """Leave no room on a file system, not even what is reserved for root."""
    with (point / "filler").open("wb", buffering=0) as file:
        for block in (bytes(2**20), bytes(2**12)):
            with suppress(OSError):
                while file.write(block) == len(block):
                    pass
    return True


@contextmanager
def _starved(victims: Sequence[psutil.Process]) -> Iterator[bool]:
    """Put processes into a control group without memory, where the kernel ends whoever wants some."""
    group = _PARENT / f"campaign-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    try:
        is_hit = False
        for each in victims:
            with suppress(OSError):
                (group / "cgroup.procs").write_text(str(each.pid))
                is_hit = True
        with suppress(OSError):
            (group / _LIMIT).write_text("1M")
        yield is_hit
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (_PARENT / "cgroup.procs").write_text(pid)
        wait(10, lambda: _is_removed(group), poll_s=0.05)


def _is_removed(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


assert all("pgdrag" in kind.victims for kind in KINDS.values())
