"""Which block devices lie under a directory, down to the disks that carry out its requests?

A volume of LVM, dm-crypt or a RAID is made of other devices, which /sys calls its slaves. The kernel reads ahead by the
setting of the volume; requests are queued, ordered and merged at the disks below, which other volumes may share.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from pgdrag.host.mounts import mount_holding

_BY_NUMBER = Path("/sys/dev/block")
# What made a device-mapper volume says so at the beginning of its UUID.
_MADE_BY = {"LVM-": "LVM", "CRYPT-": "dm-crypt", "mpath-": "multipath"}
_IDENTITY = ("wwid", "device/wwid", "serial", "device/serial", "dm/uuid", "loop/backing_file")


@dataclass(frozen=True)
class Device:
    """A block device, as /sys has it.

    Attributes:
        directory: of it in /sys, without links; its last part is the kernel's name, "vda1" or "dm-0".
        number: "253:0".
        path: as people name it: "/dev/vda1", "/dev/mapper/vg-data".
        kind: "LVM", "dm-crypt", "multipath", "device-mapper" or "RAID"; "" of a disk or a partition.
        whole: the disk that it is a partition of; None: it is not a partition.
        slaves: the devices that it is made of.
        has_queue: requests are queued at it, and not only passed on.
    """

    directory: Path
    number: str
    path: Path
    kind: str
    whole: Device | None
    slaves: tuple[Device, ...]
    has_queue: bool

    @property
    def name(self) -> str:
        """The kernel's name of it."""
        return self.directory.name

    @property
    def disk(self) -> Device:
        """The disk or the volume, itself or what it is a partition of."""
        return self.whole or self

    @property
    def queue(self) -> Path:
        """The attributes of the queue of the whole disk."""
        return self.disk.directory / "queue"

    @property
    def physical(self) -> tuple[Device, ...]:
        """The disks that its requests are queued at: itself, or, of a volume, those below."""
        disk = self.disk
        if disk.has_queue:
            return (disk,)
        return tuple(dict.fromkeys(x for slave in disk.slaves for x in slave.physical))

    @property
    def words(self) -> str:
        """What it is, for people: "/dev/mapper/vg-data (LVM on /dev/sda3)"."""
        if not self.slaves:
            return str(self.path)
        return f"{self.path} ({self.kind} on {', '.join(str(x.path) for x in self.slaves)})"


def device_under(directory: Path) -> Device | str:
    """Return the device that the file system of a directory is on, or why there is none."""
    mount = mount_holding(directory)
    try:
        number = directory.stat().st_dev
        # Some file systems (btrfs) have a number of their own, which is not a device's.
        if os.major(number) == 0 and mount is not None and mount.source.startswith("/dev/"):
            number = Path(mount.source).stat().st_rdev
        return _device((_BY_NUMBER / _written(number)).resolve(strict=True))
    except OSError:
        kind = "unknown" if mount is None else mount.file_system
        return f'the file system of "{directory}" ({kind}) is on no block device'


def device_at(path: str) -> Device | str:
    """Return the device of a path, or why there is none."""
    number = number_of(path)
    try:
        if number is None:
            return f'"{path}" is not a block device'
        return _device((_BY_NUMBER / number).resolve(strict=True))
    except OSError:
        return f'the kernel does not show the disk of "{path}"'


def number_of(path: str) -> str | None:
    """Return the number of a device, "253:0", by any of its names; None: the path is no device's."""
    try:
        found = Path(path).stat() if path.startswith("/") else None
    except (OSError, ValueError):  # no path can have a zero byte
        return None
    is_device = found is not None and stat.S_ISBLK(found.st_mode)
    return _written(found.st_rdev) if found is not None and is_device else None


def disk_identity(path: str) -> tuple[str, ...]:
    """Return what distinguishes a disk from another one that gets its name after a restart, if the kernel knows it.

    Its WWN, its serial number or its file, and its size; nothing where the path is no block device's.
    """
    number = number_of(path)
    if number is None:
        return ()
    home = (_BY_NUMBER / number).resolve()
    whole = home.parent if (home / "partition").exists() else home
    signs = [whole / name for name in _IDENTITY] + [home / "start", home / "size"]
    return tuple(x for sign in signs if (x := _line(sign)))


def _device(directory: Path) -> Device:
    """Return a device with all that are below it.

    Raises:
        OSError: /sys does not show one of them.
    """
    slaves = tuple(
        _device(slave.resolve(strict=True)) for slave in sorted((directory / "slaves").glob("*"))
    )
    mapped = _line(directory / "dm" / "name")
    return Device(
        directory=directory,
        number=(directory / "dev").read_text().strip(),
        path=Path("/dev/mapper", mapped)
        if mapped
        else Path("/dev", directory.name.replace("!", "/")),
        kind=_kind(directory),
        whole=_device(directory.parent) if (directory / "partition").exists() else None,
        slaves=slaves,
        # Multipath has requests of its own, though it is made of others.
        has_queue=not slaves or (directory / "mq").is_dir(),
    )


def _kind(directory: Path) -> str:
    if (directory / "md").is_dir():
        return "RAID"
    if not (directory / "dm").is_dir():
        return ""
    made_by = _line(directory / "dm" / "uuid")
    return next(
        (kind for start, kind in _MADE_BY.items() if made_by.startswith(start)), "device-mapper"
    )


def _line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _written(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"
