"""How are processes confined to a share of a machine? Trees of control groups, and what a group may limit.

Version 1 has a tree for each kind of resource, version 2 one for all; a host may have both, each with some
of the controllers: cgroups(7). Names and values are those of version 2, and values have units: the kernel's
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

from pgdrag.errors import UsageError
from pgdrag.host.mounts import unescaped
from pgdrag.host.process_alive import wait_until
from pgdrag.units import parse_bytes

PROC = Path("/proc")
# Of all groups that pgdrag makes, so that no other is taken for one of them.
PREFIX = "pgdrag-"
MAX = "max"
# The controllers of version 2, by what version 1 calls them.
_CONTROLLERS_1 = {"memory": "memory", "cpu": "cpu", "blkio": "io", "cpuset": "cpuset"}
# Version 1 says "no limit" as the largest number of whole pages.
NO_LIMIT_1 = (1 << 63) - (1 << 20)
_CPU_1 = ("cpu.cfs_period_us", "cpu.cfs_quota_us")
_IO_1 = {
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
}
# So that a child that is made while its parent is moved is found, too.
_LEAVE_TIMEOUT_S = 5.0

Version = Literal[1, 2]


@dataclass(frozen=True)
class Hierarchy:
    """A tree of control groups.

    Attributes:
        top: where it is mounted.
        shown: the group that is mounted there: "/", or another one in a container.
        controllers: what its groups may limit, in the words of version 2: "memory", "cpu", "io", "cpuset".
    """

    version: Version
    top: Path
    shown: str
    controllers: frozenset[str]

    def group_of(self, pid: int | Literal["self"], proc: Path = PROC) -> Path | None:
        """Return the directory of a process's group; None if the process is gone or the group cannot be seen."""
        for line in _lines(proc / str(pid) / "cgroup"):
            _, names, path = line.split(":", 2)
            is_own = not names if self.version == 2 else self.controllers & _controllers_1(names)
            if is_own:
                inside = path.removeprefix(self.shown.rstrip("/"))
                found = Path(os.path.normpath(f"{self.top}/{inside}"))
                return found if found.is_relative_to(self.top) else None
        return None

    def place_for_groups(self, controllers: Collection[str], proc: Path = PROC) -> Path | str:
        """Return the group nearest to this process's below which groups with these controllers can be made.

        Of version 1 that is its own. Of version 2 only one that hands the controllers down, and such a
        group has no processes of its own.

        Returns:
            Its directory, or why there is none.
        """
        own = self.group_of("self", proc) or self.top
        if self.version == 1:
            return own
        for group in (own, *own.parents):
            if group.is_relative_to(self.top) and (
                set(controllers) <= _words(group / "cgroup.subtree_control")
            ):
                return group
        names = " and ".join(sorted(controllers))
        return f"no control group above pgdrag delegates {names} (cgroup.subtree_control)"


def hierarchies(proc: Path = PROC) -> list[Hierarchy]:
    """Return the trees that are mounted here, each once; none: this kernel has no control groups."""
    found: dict[frozenset[str], Hierarchy] = {}
    for line in _lines(proc / "self" / "mountinfo"):
        # … ROOT PLACE OPTIONS … - TYPE SOURCE SUPER
        before, _, after = line.partition(" - ")
        kind, _, options = [*after.split(), "", "", ""][:3]
        root, place = map(unescaped, before.split()[3:5])
        top = Path(place)
        if kind == "cgroup2":
            controllers = frozenset(_words(top / "cgroup.controllers"))
            tree = Hierarchy(2, top, root, controllers)
        elif kind == "cgroup":
            tree = Hierarchy(1, top, root, _controllers_1(options))
        else:
            continue
        if tree.controllers:
            found.setdefault(tree.controllers, tree)
    return list(found.values())


def hierarchy_with(controller: str, trees: Sequence[Hierarchy]) -> Hierarchy | None:
    """Return the tree that has a controller; version 2 first, though a kernel has it in one tree only."""
    having = [tree for tree in trees if controller in tree.controllers]
    return max(having, key=lambda tree: tree.version, default=None)


def new_name() -> str:
    """Return a name for a new group."""
    return f"{PREFIX}{secrets.token_hex(4)}"


def members(group: Path) -> list[int]:
    """Return the processes in a group; none if it is gone."""
    return [int(pid) for pid in _lines(group / "cgroup.procs")]


def remove_group(group: Path, elsewhere: Path) -> bool:
    """Move a group's processes into another one of its tree, and remove it; False: it was not there.

    Raises:
        OSError: processes are left in it that cannot be moved.
    """
    assert group.name.startswith(PREFIX), f"not a group of pgdrag's: {group}"

    def is_gone() -> bool:
        for pid in members(group):
            try:
                (elsewhere / "cgroup.procs").write_text(str(pid))
            except ProcessLookupError:
                continue  # it has ended meanwhile
        try:
            group.rmdir()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    if not group.is_dir():
        return False
    if not wait_until(is_gone, _LEAVE_TIMEOUT_S):
        left = ", ".join(str(pid) for pid in members(group)) or "none that it shows"
        raise OSError(errno.EBUSY, f"processes are left in it ({left})")
    return True


@dataclass(frozen=True)
class Write:
    """A value to write into a group's file, in one call."""

    file: str
    value: str


@dataclass(frozen=True)
class Limit(ABC):
    """One limit of a group. A device is a whole disk's number, "8:0".

    Attributes:
        value: as version 2 takes it, without a device.
    """

    name: ClassVar[str]
    controller: ClassVar[str]
    needs_device: ClassVar[bool] = False
    # How it reads without a limit.
    default: ClassVar[str] = MAX
    # What version 1 does not do of it; "" where it does all.
    less_in_1: ClassVar[str] = ""

    value: str

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """Return the limit that a person wrote.

        Raises:
            UsageError: it cannot be; the hint says how to write it.
        """

    def writes(self, version: Version, device: str) -> list[Write]:
        """Return what to write into a new group, in order; none: this version has no such limit."""
        if version == 2:
            return [Write(self.name, f"{device} {self.value}" if self.needs_device else self.value)]
        return [Write(file, value) for file, value in self._in_1(device)]

    @abstractmethod
    def _in_1(self, device: str) -> list[tuple[str, str]]:
        """Return version 1's files, and what to write into each."""

    @abstractmethod
    def shown(self, group: Path, version: Version, device: str) -> str:
        """Return what the kernel says of it now, in the words of version 2, sizes with units.

        Raises:
            OSError: the group is gone, or does not have it.
        """


class _MemoryMax(Limit):
    """What all processes of the group may have, its page cache included; beyond that, the kernel kills."""

    name = "memory.max"
    controller = "memory"
    file_1: ClassVar[str] = "memory.limit_in_bytes"

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(MAX if text.strip() == MAX else str(parse_bytes(text)))

    def _in_1(self, device: str) -> list[tuple[str, str]]:
        return [(self.file_1, "-1" if self.value == MAX else self.value)]

    def shown(self, group: Path, version: Version, device: str) -> str:
        # Whole pages: the kernel rounds down.
        text = _text(group / (self.name if version == 2 else self.file_1))
        return MAX if text == MAX or int(text) >= NO_LIMIT_1 else exact_bytes(int(text))


class _MemoryHigh(_MemoryMax):
    """Where the kernel begins to hold back and reclaim, and does not kill; of version 2 alone."""

    name = "memory.high"

    def _in_1(self, device: str) -> list[tuple[str, str]]:
        return []


class _CpuMax(Limit):
    """Microseconds on processors in each period, whose length is also in microseconds."""

    name = "cpu.max"
    controller = "cpu"
    default = "max 100000"

    @classmethod
    def parse(cls, text: str) -> Self:
        match = re.fullmatch(r"(max|\d+)(?:\s+(\d+))?", text.strip())
        quota, period = match.groups("100000") if match else ("0", "0")
        if not ((quota == MAX or int(quota) >= 1000) and 1000 <= int(period) <= 1_000_000):
            raise UsageError(
                f'"{text}" is not a valid {cls.name}',
                hint="Write microseconds of processor time (1000 or more) and the period (1000 to "
                '1000000), such as "150000 100000" for one and a half processors, or "max".',
            )
        return cls(f"{quota if quota == MAX else int(quota)} {int(period)}")

    def _in_1(self, device: str) -> list[tuple[str, str]]:
        quota, period = self.value.split()
        # The period first: a quota is judged by it.
        return [(_CPU_1[0], period), (_CPU_1[1], "-1" if quota == MAX else quota)]

    def shown(self, group: Path, version: Version, device: str) -> str:
        if version == 2:
            return _text(group / self.name)
        period, quota = (_text(group / file) for file in _CPU_1)
        return f"{MAX if quota == '-1' else quota} {period}"


class _CpusetCpus(Limit):
    """On which processors its processes may run."""

    name = "cpuset.cpus"
    controller = "cpuset"
    default = "all"

    @classmethod
    def parse(cls, text: str) -> Self:
        spelt = "".join(text.split())
        if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", spelt) or not processors_of(spelt):
            raise UsageError(
                f'"{text}" is not a list of processors',
                hint='Write it as the kernel does: "0-1,3".',
            )
        return cls(spelt)

    def _in_1(self, device: str) -> list[tuple[str, str]]:
        return [(self.name, self.value)]  # see `first_writes`

    def shown(self, group: Path, version: Version, device: str) -> str:
        # A group without a limit shows nothing of its own.
        return _text(group / self.name) or effective_processors(group)


class _IoMax(Limit):
    """Bytes and requests a second, of the device that the cluster's data lie on."""

    name = "io.max"
    controller = "io"
    needs_device = True
    less_in_1 = (
        "what the kernel writes back by itself, without a process that waits for it, is not limited"
    )

    @classmethod
    def parse(cls, text: str) -> Self:
        found: dict[str, str] = {}
        for key, _, value in (pair.partition("=") for pair in text.split()):
            is_number = value == MAX or key.endswith("bps") or value.isdecimal()
            if key not in _IO_1 or key in found or not is_number:
                raise cls._refused(text)
            found[key] = MAX if value == MAX else str(parse_bytes(value))
        if not found or "0" in found.values():
            raise cls._refused(text)
        return cls(" ".join(f"{key}={found[key]}" for key in _IO_1 if key in found))

    @classmethod
    def _refused(cls, text: str) -> UsageError:
        return UsageError(
            f'"{text}" is not a valid {cls.name}',
            hint='Write "rbps=100MB wbps=50MB riops=500 wiops=500", any of these, above 0: bytes and '
            "requests a second, of reads and of writes. The device is the one that the data lie on.",
        )

    def _in_1(self, device: str) -> list[tuple[str, str]]:
        # 0 takes a limit away.
        return [
            (_IO_1[key], f"{device} {'0' if value == MAX else value}")
            for key, _, value in (pair.partition("=") for pair in self.value.split())
        ]

    def shown(self, group: Path, version: Version, device: str) -> str:
        found = io_limits_of(group, device)
        shown = [
            f"{key}={exact_bytes(value) if key.endswith('bps') else value}"
            for key, value in found.items()
        ]
        return " ".join(shown) or MAX


LIMITS: Mapping[str, type[Limit]] = {
    kind.name: kind for kind in (_MemoryMax, _MemoryHigh, _CpuMax, _IoMax, _CpusetCpus)
}


def first_writes(controller: str, version: Version, around: Path) -> list[Write]:
    """Return what must be written to a new group in `around` before a process enters it, to set limits of a controller.

    Raises:
        OSError: the group around it does not tell.
    """
    if controller != "cpuset" or version == 2:
        return []
    # Of version 1, a group begins without processors and memory, and nothing can enter it.
    return [Write(name, _text(around / name)) for name in ("cpuset.mems", "cpuset.cpus")]


def io_limits_of(group: Path, device: str) -> dict[str, int]:
    """Return the limits of a group of either version on a device, of rbps, wbps, riops and wiops."""
    found: dict[str, int] = {}
    # Version 2: "8:0 rbps=1048576 wbps=max riops=max wiops=max", a line a device.
    for number, *pairs in map(str.split, _lines(group / "io.max")):
        limits = dict(pair.split("=") for pair in pairs if number == device)
        found |= {key: int(limits[key]) for key in _IO_1 if limits.get(key, MAX) != MAX}
    # Version 1: "8:0 1048576", a file a kind.
    for key, file in _IO_1.items():
        for number, value in map(str.split, _lines(group / file)):
            if number == device:
                found[key] = int(value)
    return found


def effective_processors(group: Path) -> str:
    """Return the processors that a group's processes may run on, "0-1,3".

    Raises:
        OSError: it has no such controller.
    """
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    return _text(next((x for name in names if (x := group / name).exists()), group / names[-1]))


def processors_of(spelt: str) -> set[int]:
    """Return the processors of a list such as "0-1,3"; none where a range goes backwards."""
    found: set[int] = set()
    for part in spelt.split(",") if spelt else []:
        first, _, last = part.partition("-")
        between = range(int(first), int(last or first) + 1)
        if not between:
            return set()
        found.update(between)
    return found


def exact_bytes(size: int) -> str:
    """Return a size in the largest unit that gives a whole number, "64MB", in a form that can be read again."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    return f"{size}B"


def _controllers_1(names: str) -> frozenset[str]:
    """Return the controllers among version 1's names, which commas separate."""
    return frozenset(_CONTROLLERS_1[x] for x in names.split(",") if x in _CONTROLLERS_1)


def _text(path: Path) -> str:
    return path.read_text().strip()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _words(path: Path) -> set[str]:
    return {word for line in _lines(path) for word in line.split()}
