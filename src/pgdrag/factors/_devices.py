"""Which disk lies under a directory?"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pgdrag.host.mounts import mount_holding

_BY_NUMBER = Path("/sys/dev/block")
_BTRFS = Path("/sys/fs/btrfs")
_READ_AHEAD = "read_ahead_kb"


@dataclass(frozen=True)
class Disk:
    """A whole disk, whose queue the kernel lets one tune.

    Attributes:
        path: of the device itself, "/dev/vda".
        queue: its attributes, "/sys/block/vda/queue".
        numbers: of the devices by which it may be named: itself and the partition in use.
        mount_point: where the file system is mounted that lies on it.
    """

    path: Path
    queue: Path
    numbers: tuple[int, ...]
    mount_point: str

    def is_named_in(self, allowed: Collection[str]) -> bool:
        """Tell whether one of these is the disk, by any of its paths, or the mount point."""
        return self.mount_point in allowed or any(_number(x) in self.numbers for x in allowed)

    def readers(self) -> tuple[Path, ...]:
        """Return the files that say how far is read ahead on it: btrfs has one of its own beside the queue's."""
        return (
            self.queue / _READ_AHEAD,
            *(
                device.parent.parent / "bdi" / _READ_AHEAD
                for device in sorted(_BTRFS.glob("*/devices/*"))
                if _number(f"/dev/{device.name}") in self.numbers
            ),
        )


def disk_under(directory: Path) -> Disk | str:
    """Return the disk under a directory, or why there is none."""
    mount = mount_holding(directory)
    try:
        number = directory.stat().st_dev
        # Some file systems (btrfs) have a number of their own, which is no device's.
        if os.major(number) == 0 and mount is not None and mount.source.startswith("/dev/"):
            number = Path(mount.source).stat().st_rdev
        return _disk(number, "" if mount is None else str(mount.mount_point))
    except OSError:
        kind = "unknown" if mount is None else mount.file_system
        return f'the file system of "{directory}" ({kind}) is on no block device'


def disk_at(path: str) -> Disk | str:
    """Return the disk that a device is, or is a part of; or why it is none."""
    number = _number(path)
    try:
        return f'"{path}" is no block device' if number is None else _disk(number, "")
    except OSError:
        return f'the kernel does not show the disk of "{path}"'


def _disk(number: int, mount_point: str) -> Disk:
    place = (_BY_NUMBER / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    disk = place.parent if (place / "partition").exists() else place
    path = Path("/dev", disk.name.replace("!", "/"))
    own = _number(str(path))
    numbers = tuple({x for x in (number, own) if x is not None})
    return Disk(path, disk / "queue", numbers, mount_point)


def _number(path: str) -> int | None:
    """Return the number of a block device; None: it is none."""
    try:
        found = Path(path).stat() if path.startswith("/") else None
    except OSError:
        return None
    return found.st_rdev if found is not None and found.st_rdev else None
