"""What may a control group limit, and in which files of which version?

The names are those of version 2, the values are written as it takes them, with units: the kernel's
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

from pgdrag.errors import UsageError
from pgdrag.units import parse_bytes

Version = Literal[1, 2]
MAX = "max"
# Version 1 says "no limit" as the largest number of whole pages.
NO_LIMIT_1 = (1 << 63) - (1 << 20)


@dataclass(frozen=True)
class Write:
    """A value to write into a group's file, in one call."""

    file: str
    value: str


@dataclass(frozen=True)
class Limit(ABC):
    """One limit of a group. A device is a whole disk's number, "8:0"."""

    name: ClassVar[str]
    controller: ClassVar[str]
    needs_device: ClassVar[bool] = False
    # How it reads where nobody limits anything.
    default: ClassVar[str] = MAX
    # What version 1 does not do of it; "" where it does all.
    less_in_1: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """Return the limit that a person wrote.

        Raises:
            UsageError: it cannot be; the hint says how to write it.
        """

    @abstractmethod
    def writes(self, version: Version, device: str) -> list[Write]:
        """Return what to write into a new group, in order; none: this version has no such limit."""

    @abstractmethod
    def shown(self, group: Path, version: Version, device: str) -> str:
        """Return what the kernel says of it now, in the words of version 2, sizes with units.

        Raises:
            OSError: the group is gone, or does not have it.
        """


@dataclass(frozen=True)
class MemoryMax(Limit):
    """What all processes of the group may have, its page cache included; beyond that, the kernel kills."""

    name: ClassVar[str] = "memory.max"
    controller: ClassVar[str] = "memory"
    file_1: ClassVar[str] = "memory.limit_in_bytes"

    bytes: int | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take "512MB", or "max"."""
        return cls(None if text.strip() == MAX else parse_bytes(text))

    def writes(self, version: Version, device: str) -> list[Write]:
        """One file."""
        if version == 1:
            return [Write(self.file_1, "-1" if self.bytes is None else str(self.bytes))]
        return [Write(self.name, MAX if self.bytes is None else str(self.bytes))]

    def shown(self, group: Path, version: Version, device: str) -> str:
        """Whole pages: the kernel rounds down."""
        text = (group / (self.file_1 if version == 1 else self.name)).read_text().strip()
        return MAX if text == MAX or int(text) >= NO_LIMIT_1 else exact_bytes(int(text))


@dataclass(frozen=True)
class MemoryHigh(MemoryMax):
    """Where the kernel begins to hold back and reclaim, and does not kill; of version 2 alone."""

    name: ClassVar[str] = "memory.high"

    def writes(self, version: Version, device: str) -> list[Write]:
        """None of version 1."""
        return [] if version == 1 else super().writes(version, device)


@dataclass(frozen=True)
class CpuMax(Limit):
    """Microseconds on processors in each period of so many microseconds."""

    name: ClassVar[str] = "cpu.max"
    controller: ClassVar[str] = "cpu"
    default: ClassVar[str] = "max 100000"
    _files_1: ClassVar[tuple[str, str]] = ("cpu.cfs_quota_us", "cpu.cfs_period_us")

    quota_us: int | None
    period_us: int = 100_000

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take "150000 100000" (one and a half processors), "150000", or "max"."""
        match = re.fullmatch(r"(max|\d+)(?:\s+(\d+))?", text.strip())
        quota_us = None if match is None or match[1] == MAX else int(match[1])
        period_us = int(match[2]) if match is not None and match[2] else 100_000
        is_possible = (quota_us is None or quota_us >= 1000) and 1000 <= period_us <= 1_000_000
        if match is None or not is_possible:
            raise UsageError(
                f'"{text}" is no {cls.name}',
                hint="Write microseconds on processors, from 1000 on, and of which period (1000 to "
                '1000000), such as "150000 100000" for one and a half processors, or "max".',
            )
        return cls(quota_us, period_us)

    def writes(self, version: Version, device: str) -> list[Write]:
        """The period first: a quota is judged by it."""
        if version == 2:
            return [Write(self.name, str(self))]
        quota, period = self._files_1
        quota_us = -1 if self.quota_us is None else self.quota_us
        return [Write(period, str(self.period_us)), Write(quota, str(quota_us))]

    def shown(self, group: Path, version: Version, device: str) -> str:
        """Quota and period."""
        if version == 2:
            return (group / self.name).read_text().strip()
        quota, period = ((group / file).read_text().strip() for file in self._files_1)
        return f"{MAX if quota == '-1' else quota} {period}"

    def __str__(self) -> str:
        return f"{MAX if self.quota_us is None else self.quota_us} {self.period_us}"


@dataclass(frozen=True)
class CpusetCpus(Limit):
    """On which processors its processes may run."""

    name: ClassVar[str] = "cpuset.cpus"
    controller: ClassVar[str] = "cpuset"
    default: ClassVar[str] = "all"

    processors: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take "0-1,3"."""
        spelt = "".join(text.split())
        if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", spelt) or not processors_of(spelt):
            raise UsageError(
                f'"{text}" is no list of processors', hint='Write it as the kernel does: "0-1,3".'
            )
        return cls(spelt)

    def writes(self, version: Version, device: str) -> list[Write]:
        """One file, the same of both versions; see `first_writes`."""
        return [Write(self.name, self.processors)]

    def shown(self, group: Path, version: Version, device: str) -> str:
        """What was written, in the kernel's spelling; of a group that nobody set, what it has."""
        own = (group / self.name).read_text().strip()
        return own or effective_processors(group)


@dataclass(frozen=True)
class IoMax(Limit):
    """Bytes and requests a second, of the device that the cluster's data lie on."""

    name: ClassVar[str] = "io.max"
    controller: ClassVar[str] = "io"
    needs_device: ClassVar[bool] = True
    less_in_1: ClassVar[str] = (
        "what the kernel writes back by itself, without a process that waits for it, is not limited"
    )
    files_1: ClassVar[Mapping[str, str]] = {
        "rbps": "blkio.throttle.read_bps_device",
        "wbps": "blkio.throttle.write_bps_device",
        "riops": "blkio.throttle.read_iops_device",
        "wiops": "blkio.throttle.write_iops_device",
    }

    limits: tuple[tuple[str, int | None], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take "riops=500 wbps=50MB": rbps and wbps are sizes, riops and wiops numbers, each or "max"."""
        found: dict[str, int | None] = {}
        for pair in text.split():
            key, _, value = pair.partition("=")
            if key not in cls.files_1 or key in found:
                raise cls._refused(text)
            if value == MAX:
                found[key] = None
            elif key.endswith("iops") and not value.isdecimal():
                raise cls._refused(text)
            else:
                found[key] = parse_bytes(value)
        if not found or 0 in found.values():
            raise cls._refused(text)
        return cls(tuple((key, found[key]) for key in cls.files_1 if key in found))

    @classmethod
    def _refused(cls, text: str) -> UsageError:
        return UsageError(
            f'"{text}" is no {cls.name}',
            hint='Write "rbps=100MB wbps=50MB riops=500 wiops=500", any of these, above 0: bytes and '
            "requests a second, of reads and of writes. The device is the one that the data lie on.",
        )

    def writes(self, version: Version, device: str) -> list[Write]:
        """One line of all, or a file each."""
        if version == 2:
            pairs = " ".join(f"{key}={MAX if x is None else x}" for key, x in self.limits)
            return [Write(self.name, f"{device} {pairs}")]
        # 0 takes a limit away.
        return [Write(self.files_1[key], f"{device} {x or 0}") for key, x in self.limits]

    def shown(self, group: Path, version: Version, device: str) -> str:
        """All limits of the device, in the order of the kernel; "max" where there is none."""
        found = dict(io_limits_in(group, version, device))
        shown = (f"{key}={_io_words(key, found[key])}" for key in self.files_1 if key in found)
        return " ".join(shown) or MAX


def io_limits_in(group: Path, version: Version, device: str) -> Iterator[tuple[str, int]]:
    """Yield the limits of a device that a group has, by their names in version 2.

    Raises:
        OSError: it has no such controller.
    """
    if version == 2:
        for line in (group / IoMax.name).read_text().splitlines():
            number, *pairs = line.split()
            for key, _, value in (pair.partition("=") for pair in pairs):
                if number == device and key in IoMax.files_1 and value != MAX:
                    yield key, int(value)
        return
    for key, file in IoMax.files_1.items():
        for line in (group / file).read_text().splitlines():
            number, value = line.split()
            if number == device:
                yield key, int(value)


def _io_words(key: str, value: int) -> str:
    return exact_bytes(value) if key.endswith("bps") else str(value)


LIMITS: Mapping[str, type[Limit]] = {
    kind.name: kind for kind in (MemoryMax, MemoryHigh, CpuMax, IoMax, CpusetCpus)
}


def first_writes(controller: str, version: Version, around: Path) -> list[Write]:
    """Return what a new group must be told before anything enters it.

    Args:
        controller: which of its limits is to be set.
        version: of its tree.
        around: the group that it is made in.

    Raises:
        OSError: the group around it does not tell.
    """
    if controller != CpusetCpus.controller or version == 2:
        return []
    # Of version 1, a group begins without processors and memory, and nothing can enter it.
    return [
        Write(name, (around / name).read_text().strip()) for name in ("cpuset.mems", "cpuset.cpus")
    ]


def effective_processors(group: Path) -> str:
    """Return the processors that a group's processes may run on, "0-1,3".

    Raises:
        OSError: it has no such controller.
    """
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):
        if (group / name).exists():
            return (group / name).read_text().strip()
    return (group / CpusetCpus.name).read_text().strip()


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
    """Return a size in the largest unit of which it is a whole number, "64MB", as it may be written again."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    return f"{size}B"
