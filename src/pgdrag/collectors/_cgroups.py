"""What do the control groups around a process allow it, and what have they held back?

A container, a service of systemd and a pod are groups. Groups stand in each other, and each may have a
limit of its own; the tightest holds. Version 1 has a tree for each kind of resource, version 2 one for
all: cgroups(7). In a container the outermost groups are not to be seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdrag.collectors import Unseen
from pgdrag.collectors import _proc as proc
from pgdrag.host.control_groups import NO_LIMIT_1, io_limits_of
from pgdrag.host.process_sight import seeing_as
from pgdrag.host.server_user import ServerUser

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryLimit:
    """The tightest limit of memory around a process.

    Attributes:
        limit_bytes: what all processes of the group may have, its page cache included.
        used_bytes: what they have.
        page_cache_bytes: pages of files among that, without shared memory; None: the kernel does not say.
        refaults: how many pages of files had to be read again soon after they were dropped, since the
            group was made; None: the kernel does not say.
    """

    limit_bytes: int
    used_bytes: int
    page_cache_bytes: int | None = None
    refaults: int | None = None


def throttling(pid: int, user: ServerUser | None = None) -> dict[str, int]:
    """Return in how many periods the process's control groups ran, and were held back, since they were made.

    "throttled_us" is for how long, of all processors together.

    Of all groups around the process that limit its processors; none where none does.

    Args:
        user: whose process it is; None: this one's.

    Raises:
        Unseen: the kernel does not show its groups.
    """
    found: dict[str, int] = {}
    for group in _groups(pid, user, "cpu"):
        # Version 2: "max 100000" is no limit; version 1: -1.
        quota = lines_of(group / "cpu.max") or lines_of(group / "cpu.cfs_quota_us") or ["max"]
        if quota[0].split()[0] in ("max", "-1"):
            continue
        table = table_of(group / "cpu.stat")
        # Microseconds of version 2, nanoseconds of version 1.
        held_us = table.get("throttled_usec", table.get("throttled_time", 0) // 1000)
        for name, count in (
            ("nr_periods", table.get("nr_periods", 0)),
            ("nr_throttled", table.get("nr_throttled", 0)),
            ("throttled_us", held_us),
        ):
            found[name] = found.get(name, 0) + count
    return found


def memory_limit(pid: int, user: ServerUser | None = None) -> MemoryLimit:
    """Return the limit of the group around a process that has least left.

    Args:
        user: whose process it is; None: this one's.

    Raises:
        Unseen: none limits its memory, or the kernel does not show its groups.
    """
    found = [limit for group in _groups(pid, user, "memory") if (limit := _memory_limit(group))]
    if not found:
        raise Unseen("no control group limits the server's memory")
    return min(found, key=lambda one: one.limit_bytes - one.used_bytes)


def io_limits(pid: int, device: str, user: ServerUser | None = None) -> dict[str, int]:
    """Return the tightest limits of I/O around a process on a device, "8:0": any of rbps, wbps, riops, wiops.

    Bytes or requests a second, of reads and of writes.  None where none is limited.

    Args:
        user: whose process it is; None: this one's.

    Raises:
        Unseen: the kernel does not show the process's groups.
    """
    found: dict[str, int] = {}
    for group in _groups(pid, user, "blkio", "io"):
        for kind, limit in io_limits_of(group, device).items():
            found[kind] = min(limit, found.get(kind, limit))
    return found


def _groups(pid: int, user: ServerUser | None, *controllers: str) -> Iterator[Path]:
    """Yield the directories of a process's groups for one kind of resource, innermost first: cgroups(7)."""
    with seeing_as(user):
        lines = proc.read_text(pid, "cgroup").splitlines()
    for line in lines:
        _, named, below = line.split(":", 2)
        if named and not set(controllers) & set(named.split(",")):
            continue
        top = CGROUPS / named if named else CGROUPS
        # A group outside of the container's view is shown as /../.. and is not here.
        group = Path(os.path.normpath(f"{top}/{below}"))
        yield from (x for x in (group, *group.parents) if x.is_relative_to(top) and x.is_dir())


def _memory_limit(group: Path) -> MemoryLimit | None:
    limit = lines_of(group / "memory.max") or lines_of(group / "memory.limit_in_bytes")
    used = lines_of(group / "memory.current") or lines_of(group / "memory.usage_in_bytes")
    if not limit or not used or limit[0] == "max" or int(limit[0]) >= NO_LIMIT_1:
        return None
    # Of version 1 the totals are those with the groups inside, as all of version 2 are.
    table = table_of(group / "memory.stat")
    pages = table.get("total_cache", table.get("file"))
    shared = table.get("total_shmem", table.get("shmem", 0))
    names = ("total_workingset_refault_file", "workingset_refault_file", "workingset_refault")
    refaults = next((table[name] for name in names if name in table), None)
    cached = None if pages is None else max(pages - shared, 0)
    return MemoryLimit(int(limit[0]), int(used[0]), cached, refaults)


def table_of(path: Path) -> Mapping[str, int]:
    """Return the numbers of a file of the kernel's with a name and a number a line; none where there is no such file."""
    lines = (line.replace(":", " ").split() for line in lines_of(path))
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file of the kernel's; none where there is no such file."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
