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
from pgdrag.collectors._proc import PROC
from pgdrag.collectors.counters import attempt

CGROUPS = Path("/sys/fs/cgroup")
# Version 1 says "no limit" as the largest number of whole pages.
_NO_MEMORY_LIMIT = (1 << 63) - (1 << 20)
# Names of version 2 in io.max, and the files of version 1.
_IO_LIMITS = {
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
}


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


def throttling(pid: int) -> dict[str, int]:
    """Return in how many periods the process's control groups ran, and were held back, since they were made.

    "throttled_us" is for how long, of all processors together.

    Of all groups around the process that limit its processors; none where none does.
    """
    found: dict[str, int] = {}
    for group in _groups(pid, "cpu"):
        if not _has_quota(group):
            continue
        table = kernel_table(group / "cpu.stat")
        for name in ("nr_periods", "nr_throttled"):
            found[name] = found.get(name, 0) + table.get(name, 0)
        # Microseconds of version 2, nanoseconds of version 1.
        held_us = table.get("throttled_usec", table.get("throttled_time", 0) // 1000)
        found["throttled_us"] = found.get("throttled_us", 0) + held_us
    return found


def memory_limit(pid: int) -> MemoryLimit:
    """Return the limit of the group around a process that has least left.

    Raises:
        Unseen: none limits its memory, or the kernel does not show its groups.
    """
    found = [limit for group in _groups(pid, "memory") if (limit := _memory_limit(group))]
    if not found:
        raise Unseen("no control group limits the server's memory")
    return min(found, key=lambda one: one.limit_bytes - one.used_bytes)


def io_limits(pid: int, device: str) -> dict[str, int]:
    """Return the tightest limits of I/O around a process on a device, "8:0": any of rbps, wbps, riops, wiops.

    Bytes or requests a second, of reads and of writes.  None where none is limited.

    Raises:
        Unseen: the kernel does not show the process's groups.
    """
    found: dict[str, int] = {}
    for group in _groups(pid, "blkio", "io"):
        for kind, limit in _io_limits(group, device):
            found[kind] = min(limit, found.get(kind, limit))
    return found


def _groups(pid: int, *controllers: str) -> Iterator[Path]:
    """Yield the directories of a process's groups for one kind of resource, innermost first: cgroups(7)."""
    for line in read_kernel(PROC / str(pid) / "cgroup").splitlines():
        _, named, path = line.split(":", 2)
        if named and not set(controllers) & set(named.split(",")):
            continue
        top = CGROUPS / named if named else CGROUPS
        # A group outside of the container's view is shown as /../.. and is not here.
        group = Path(os.path.normpath(f"{top}/{path}"))
        yield from (x for x in (group, *group.parents) if x.is_relative_to(top) and x.is_dir())


def _has_quota(group: Path) -> bool:
    """Tell whether a group limits its processors; of version 2 in cpu.max, of version 1 in cpu.cfs_quota_us."""
    for name, unlimited in (("cpu.max", "max"), ("cpu.cfs_quota_us", "-1")):
        if quota := _words(group / name):
            return quota[0] != unlimited
    return False


def _memory_limit(group: Path) -> MemoryLimit | None:
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, used = _words(group / limit_name), _words(group / used_name)
        if limit and used:
            if limit[0] == "max" or int(limit[0]) >= _NO_MEMORY_LIMIT:
                return None
            return MemoryLimit(int(limit[0]), int(used[0]), *_file_pages(group))
    return None


def _file_pages(group: Path) -> tuple[int | None, int | None]:
    """Return bytes of page cache without shared memory, and refaults of it; None: the kernel does not say.

    Of version 1 the totals are those with the groups inside, as all of version 2 are.
    """
    found = attempt(lambda: kernel_table(group / "memory.stat"))
    table = {} if isinstance(found, Unseen) else found
    pages = next((table[x] for x in ("total_cache", "file") if x in table), None)
    shared = next((table[x] for x in ("total_shmem", "shmem") if x in table), 0)
    names = ("total_workingset_refault_file", "workingset_refault_file", "workingset_refault")
    refaults = next((table[x] for x in names if x in table), None)
    return None if pages is None else max(pages - shared, 0), refaults


def _io_limits(group: Path, device: str) -> Iterator[tuple[str, int]]:
    # Version 2: "8:0 rbps=1048576 wbps=max riops=max wiops=max", a line a device.
    for line in _lines(group / "io.max"):
        number, *pairs = line.split()
        for kind, _, limit in (pair.partition("=") for pair in pairs):
            if number == device and kind in _IO_LIMITS and limit != "max":
                yield kind, int(limit)
    # Version 1: "8:0 1048576", a file a kind.
    for kind, name in _IO_LIMITS.items():
        for line in _lines(group / name):
            number, limit = line.split()
            if number == device:
                yield kind, int(limit)


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()


def _lines(path: Path) -> list[str]:
    """Return the lines of a file that not every group has."""
    text = attempt(lambda: read_kernel(path))
    return [] if isinstance(text, Unseen) else text.splitlines()


def kernel_table(path: Path) -> Mapping[str, int]:
    """Return the numbers of a file of the kernel's with a name and a number a line.

    Raises:
        Unseen: it cannot be read.
    """
    lines = (line.replace(":", " ").split() for line in read_kernel(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}


def read_kernel(path: Path) -> str:
    """Return what a file of the kernel's holds.

    Raises:
        Unseen: it cannot be read.
    """
    try:
        return path.read_text()
    except OSError as error:
        raise Unseen(f"{path} cannot be read: {error.strerror}") from error
