"""What does a cluster lie on? The device is made before there is a cluster; here it is checked and read back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pgdrag.errors import UsageError
from pgdrag.factors import Example, Factor, Here, Phase, Problem
from pgdrag.host.loop_devices import uses_direct_io
from pgdrag.host.mounts import Mount, mount_holding
from pgdrag.host.programs import find_program
from pgdrag.model import Applied, Level
from pgdrag.servers.real_device import refuse_strange_device
from pgdrag.servers.storage_spec import StorageSpec, parse_level
from pgdrag.units import format_bytes

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

_LOOP_CONTROL = Path("/dev/loop-control")
_PACKAGES = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}
_ALL_BYTES_OF = Path("/sys/class/block")
_SECTOR_BYTES = 512


class Storage(Factor):
    """A file system made for the clusters of a treatment, on a loop device or a real one."""

    name = "storage"
    phase = Phase.STORAGE
    summary = "a scratch device: size, file_system = ext4, xfs or btrfs, mkfs_options, direct_io; or device"
    # A cluster is on its storage from the beginning, so there is nothing to try on one that is made.
    examples: ClassVar[tuple[Example, ...]] = ()
    changes_host = True

    def check(self, levels: Sequence[Level], here: Here) -> list[Problem]:
        """Return as mistakes what is invalid or was not allowed, and the rest as untestable."""
        mistakes = [x for level in levels if (x := _mistake(level, here)) is not None]
        if mistakes or not levels:
            return mistakes
        try:
            # Those of several treatments may be contrary to each other.
            is_one = len({level.name for level in levels}) == len(levels)
            spec = StorageSpec.of({x.name: x.value for x in levels}) if is_one else None
        except UsageError as error:
            return [Problem(levels[0], True, error.message, error.hint or "")]
        lacking = _lacking_here()
        if lacking is None:
            return [x for level in levels if (x := _lacking_file_system(level)) is not None]
        what = "a scratch device" if spec is None else spec.words
        hint = f'As root, pgdrag would make {what} below "{here.scratch_root}", and remove it at the end.'
        message = 'storage "{}" cannot be set to {} here: {}'
        return [Problem(x, False, message.format(x.name, x.value, lacking), hint) for x in levels]

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        found = mount_holding(cluster.data_directory) if levels else None
        return [_applied(Level(self.name, name, value), found) for name, value in levels.items()]


def _mistake(level: Level, here: Here) -> Problem | None:
    try:
        field, _ = parse_level(level.name, level.value)
        if field == "device" and os.geteuid() == 0:
            refuse_strange_device(Path(level.value), allowed=here.allowed)
    except UsageError as error:
        hint = " ".join(filter(None, (error.detail, error.hint)))
        return Problem(level, True, error.message, hint)
    return None


def _lacking_here() -> str | None:
    if os.geteuid() != 0:
        return "only root may make and mount a file system"
    if not _LOOP_CONTROL.exists() or find_program("losetup") is None:
        return "this machine has no loop devices"
    return None


def _lacking_file_system(level: Level) -> Problem | None:
    program = f"mkfs.{level.value}"
    if level.name != "file_system" or find_program(program) is not None:
        return None
    message = f'storage "file_system" cannot be {level.value} here: there is no program "{program}"'
    return Problem(level, False, message, f"Install {_PACKAGES[level.value]}.")


def _applied(level: Level, found: Mount | None) -> Applied:
    """Return the parts of a level that can be read back; the others count as applied."""
    if found is None:
        return Applied(level, None, "the kernel does not show what the cluster is on")
    device = Path(found.source)
    if level.name == "file_system":
        return Applied(level, found.file_system)
    if level.name == "size":
        return Applied(level, format_bytes(_size_bytes(device)))
    if level.name == "direct_io":
        is_direct = uses_direct_io(device)
        effective = "on" if is_direct else "off"
        _, asked = parse_level(level.name, level.value)
        note = "" if asked == is_direct else "the file system below the device takes no direct I/O"
        return Applied(level, effective, note)
    return Applied(level, level.value)


def _size_bytes(device: Path) -> int:
    try:
        return int((_ALL_BYTES_OF / device.name / "size").read_text()) * _SECTOR_BYTES
    except (OSError, ValueError):
        return 0
