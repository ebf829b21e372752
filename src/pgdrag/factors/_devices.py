"""Which disk lies under a directory, and which files of /sys tune it?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pgdrag.host.block_devices import Device, device_at, device_under, number_of
from pgdrag.host.mounts import mount_holding

READ_AHEAD = "read_ahead_kb"
# Each layer splits requests by its own.
_OF_EVERY_LAYER = frozenset({"max_sectors_kb"})
_BTRFS = Path("/sys/fs/btrfs")


@dataclass(frozen=True)
class Disk:
    """A whole disk or volume, whose queue the kernel lets one tune.

    Attributes:
        device: the disk.
        numbers: of the devices by which it may be named: itself and the partition in use.
        mount_point: where the file system is mounted that lies on it; "" for a disk below a volume.
    """

    device: Device
    numbers: tuple[str, ...]
    mount_point: str = ""

    @classmethod
    def of(cls, device: Device, mount_point: str = "") -> Disk:
        """Return the disk that a device is, or is a partition of."""
        numbers = dict.fromkeys((device.number, device.disk.number))
        return cls(device.disk, tuple(numbers), mount_point)

    @property
    def path(self) -> Path:
        """Of the device itself, "/dev/vda" or "/dev/mapper/vg-data"."""
        return self.device.path

    @property
    def queue(self) -> Path:
        """Its attributes, "/sys/block/vda/queue"."""
        return self.device.queue

    @property
    def below(self) -> tuple[Disk, ...]:
        """The disks at which the requests of a volume are queued; none for a disk that has requests itself."""
        found = {x: Disk.of(x) for x in self.device.physical if x != self.device}
        for slave in _slaves(self.device):
            if slave.disk in found:
                found[slave.disk] = Disk.of(slave)
        return tuple(found.values())

    def tuned_by(self, attribute: str) -> tuple[Disk, ...]:
        """Return the disks whose queues an attribute has its effect at.

        A volume reads ahead by its own setting, and passes requests on to the disks below.
        """
        if attribute == READ_AHEAD or not self.below:
            return (self,)
        return (self, *self.below) if attribute in _OF_EVERY_LAYER else self.below

    def files(self, attribute: str) -> tuple[Path, ...]:
        """Return the files of an attribute on all devices where it has an effect."""
        if attribute == READ_AHEAD:
            return self.readers()
        return tuple(disk.queue / attribute for disk in self.tuned_by(attribute))

    def is_named_in(self, allowed: Collection[str]) -> bool:
        """Tell whether one of these is the disk, by any of its paths, or the mount point."""
        return self.mount_point in allowed or any(number_of(x) in self.numbers for x in allowed)

    def readers(self) -> tuple[Path, ...]:
        """Return the files that say how far is read ahead on it: btrfs has one of its own beside the queue's."""
        return (
            self.queue / READ_AHEAD,
            *(
                device.parent.parent / "bdi" / READ_AHEAD
                for device in sorted(_BTRFS.glob("*/devices/*"))
                if number_of(f"/dev/{device.name}") in self.numbers
            ),
        )


def disk_under(directory: Path) -> Disk | str:
    """Return the disk under a directory, or why there is none."""
    found, mount = device_under(directory), mount_holding(directory)
    if isinstance(found, str):
        return found
    return Disk.of(found, "" if mount is None else str(mount.mount_point))


def disk_at(path: str) -> Disk | str:
    """Return the disk that a device is, or is a part of; or why it is none."""
    found = device_at(path)
    return found if isinstance(found, str) else Disk.of(found)


def _slaves(device: Device) -> list[Device]:
    """Return all devices that a volume is made of, at any depth."""
    return [x for slave in device.slaves for x in (slave, *_slaves(slave.disk))]
