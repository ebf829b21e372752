"""What do tests need of scratch devices: who may make them, and what is left of them?"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from pgdrag.host.loop_devices import devices_on
from pgdrag.host.mounts import Mount, mounts
from pgdrag.host.programs import find_program, run_program
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.storage_spec import FILE_SYSTEMS

_CAN = os.geteuid() == 0 and Path("/dev/loop-control").exists()
needs_devices = pytest.mark.skipif(
    not _CAN, reason="only root can make loop devices and mount them"
)


def needs_mkfs(file_system: str) -> None:
    """Skip where the programs of a file system are not installed."""
    if find_program(f"mkfs.{file_system}") is None:
        pytest.skip(f'there is no program "mkfs.{file_system}" here')


def every_file_system() -> list[str]:
    """Return those that a scratch device can have."""
    return list(FILE_SYSTEMS)


def mounts_of(scratch: Scratch) -> list[Mount]:
    """Return what is mounted below a scratch directory."""
    return [each for each in mounts() if each.mount_point.is_relative_to(scratch.root)]


def left_of_devices(scratch: Scratch) -> list[str]:
    """Return the mounts, loop devices and files that are left of scratch devices, as words."""
    attached = [
        line.removesuffix(" (deleted)")
        for path in Path("/sys/block").glob("loop*/loop/backing_file")
        if (line := path.read_text().strip()).startswith(f"{scratch.root}/")
    ]
    return [
        *(f"mounted: {each.mount_point}" for each in mounts_of(scratch)),
        *(f"attached: {each} to {devices_on(Path(each))}" for each in attached),
        *(f"file: {each}" for each in scratch.storage.rglob("*")),
    ]


def backing_file(mount_point: Path) -> Path:
    """Return the file of the device that is mounted there."""
    return mount_point.parent / "device"


def lose_mount(mount_point: Path) -> None:
    """Let the mount vanish from sight, as somebody's umount -l does."""
    run_program("umount", "--lazy", mount_point)


def detach_under_lazy_unmount(mount_point: Path) -> None:
    """Let the mount vanish, and the device with its last user."""
    (device,) = devices_on(backing_file(mount_point))
    lose_mount(mount_point)
    run_program("losetup", "--detach", device)


def truncate_file(mount_point: Path) -> None:
    """Take the device's blocks away from under it."""
    os.truncate(backing_file(mount_point), 0)


def delete_file(mount_point: Path) -> None:
    """Delete the device's file, which goes on under no name."""
    backing_file(mount_point).unlink()


def stop_writing(mount_point: Path) -> None:
    """Have ext4 do what it does after an error."""
    _remount(mount_point, "abort")


def make_read_only(mount_point: Path) -> None:
    """Remount read-only; the kernel refuses it while somebody has a file open for writing."""
    _remount(mount_point, "ro")


def shut_down(mount_point: Path) -> None:
    """Have XFS do what it does after an error."""
    run_program("xfs_io", "-x", "-c", "shutdown", mount_point)


def fill_device(mount_point: Path) -> None:
    """Leave no room, not even what is reserved for root."""
    with (mount_point / "filler").open("wb", buffering=0) as file:
        for block in (bytes(2**20), bytes(2**16)):
            with contextlib.suppress(OSError):
                while True:
                    file.write(block)


def _remount(mount_point: Path, option: str) -> bool:
    (device,) = devices_on(backing_file(mount_point))
    return run_program("mount", "-o", f"remount,{option}", device, mount_point).succeeded
