"""What is there of a machine that an experiment may change, and how does it differ from before?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

SYSCTLS = Path("/proc/sys")
BLOCK = Path("/sys/block")
VIRTUAL_INTERFACES = Path("/sys/devices/virtual/net")
SWITCHES = (
    Path("/sys/kernel/mm/transparent_hugepage"),
    Path("/sys/kernel/mm/hugepages"),
    Path("/sys/devices/system/cpu/cpufreq"),
)
CONTROL_GROUPS = Path("/sys/fs/cgroup")
# What the kernel counts, draws by lot or adapts by itself.
OF_ITSELF = (
    *("fs/aio-nr", "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state", "fs/quota"),
    *("kernel/ns_last_pid", "kernel/random", "kernel/pty/nr", "kernel/hung_task_detect_count"),
    *("kernel/perf_event_max_sample_rate", "net/netfilter/nf_conntrack_count", "vm/stat_refresh"),
)
COUNTERS = ("full_scans", "pages_collapsed", "stats", "free_hugepages", "resv_hugepages")
_NAME = "pgdrag"
# How the directory of a campaign begins, whose disk may lie on a loop device.
PREFIX = "pgdrag-campaign-"
# Kept for the next run, or where somebody looks things up.
KEPT = ("snapshots", "binaries", "settings", "lock")
HALF_MADE = "half-made-"


@dataclass(frozen=True)
class Machine:
    """One look at a machine.

    Attributes:
        values: text of every sysctl, and of every attribute of what was there from the beginning; none where nobody
            may change them.
        things: mounts, loop devices, control groups and files of an experiment, by name.
    """

    values: Mapping[str, str]
    things: Mapping[str, str]

    @classmethod
    def look(cls, scratch: Path, *, with_values: bool) -> Machine:
        """Return the machine now; `scratch` is the scratch directory of the commands that suffer."""
        values = {
            str(path): text
            for path in (_paths(str(scratch.parents[1])) if with_values else ())
            for text in [_text(path)]
            if not _is_counted(path) and text is not None
        }
        things = {**_mounts(), **_loops(), **_control_groups(), **_files(scratch)}
        return cls(values, things)

    def differences(self, now: Machine, own: tuple[str, ...]) -> list[str]:
        """Return what is otherwise now; of what is new only that which is the experiment's own.

        Args:
            own: paths and names by one of which the experiment's things are known. What else bears the
                name of pgdrag is of another experiment, which comes and goes by itself.
        """

        def is_own(name: str) -> bool:
            return any(each in name for each in own)

        found = [
            f"{path}: {text.strip()!r} before, {now.values.get(path, 'gone').strip()!r} now"
            for path, text in self.values.items()
            if now.values.get(path) != text
        ]
        found += [
            f"gone: {name}"
            for name in self.things
            if name not in now.things and (is_own(name) or _NAME not in name)
        ]
        found += [
            f"left: {name}" for name in now.things if name not in self.things and is_own(name)
        ]
        return found


def _paths(place: str) -> Iterator[Path]:
    """Yield what has values, of disks also the one that a campaign's place lies on."""
    # Virtual network interfaces are made and removed by other programs.
    interfaces = {x.name for x in VIRTUAL_INTERFACES.iterdir()}
    yield from (x for x in SYSCTLS.rglob("*") if interfaces.isdisjoint(x.parts))
    for disk in BLOCK.iterdir():
        # Loop devices that nobody uses are what the last user made of them, and the disk of the campaign
        # itself lies on one; another experiment's, or campaign's, comes and goes.
        backing = (
            _text(disk / "loop" / "backing_file") if disk.name.startswith("loop") else "a disk"
        )
        if backing is not None and (_NAME not in backing or backing.strip() == f"{place}/backing"):
            yield disk / "ro"
            yield disk / "size"
            yield from (disk / "queue").rglob("*")
    for directory in SWITCHES:
        yield from directory.rglob("*")


def _is_counted(path: Path) -> bool:
    if path.is_relative_to(SYSCTLS):
        name = str(path.relative_to(SYSCTLS))
        return any(name == each or name.startswith(f"{each}/") for each in OF_ITSELF)
    return any(part in COUNTERS for part in path.parts)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace") if path.is_file() else None
    except OSError:
        return None


def _mounts() -> dict[str, str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # Without the numbers of the mount and of its parent; network namespaces, which others make, are no disks.
    return {f"mount {line.split(' ', 3)[3]}": "" for line in lines if " - nsfs " not in line}


def _loops() -> dict[str, str]:
    return {
        f"loop device {path.parent.parent.name} on {path.read_text().strip()}": ""
        for path in BLOCK.glob("loop*/loop/backing_file")
    }


def _control_groups() -> dict[str, str]:
    directories = (path.parent for path in CONTROL_GROUPS.rglob("cgroup.procs"))
    return {f"control group {path}": "" for path in directories if "pgdrag" in path.name}


def _files(scratch: Path) -> dict[str, str]:
    def is_kept(path: Path) -> bool:
        first, *rest = path.relative_to(scratch).parts
        return not rest or (first in KEPT and not rest[0].startswith(HALF_MADE))

    # Of a directory that is being removed os.walk says nothing.
    found = (Path(top, name) for top, *names in os.walk(scratch) for name in chain(*names))
    return {f"file {path}": "" for path in found if not is_kept(path)}
