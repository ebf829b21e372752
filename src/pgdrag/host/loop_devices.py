"""Attach, find and detach loop devices."""

from __future__ import annotations

import os
from pathlib import Path

from pgdrag.errors import StorageError
from pgdrag.host.process_alive import wait_until
from pgdrag.host.programs import run_program

_BLOCK = Path("/sys/block")
_DETACH_TIMEOUT_S = 5.0


def attach(backing_file: Path, *, direct_io: bool) -> Path:
    """Attach a loop device to a file, and return it; `uses_direct_io` tells whether direct I/O was possible.

    Raises:
        StorageError: none is free, or the kernel has no loop devices.
    """
    wanted = "on" if direct_io else "off"
    ran = run_program("losetup", "--find", "--show", f"--direct-io={wanted}", backing_file)
    found = devices_on(backing_file)
    if not found:
        raise StorageError(
            f'could not attach a loop device to "{backing_file}": {ran.last_line}',
            hint='Run "losetup --all" to see which are in use, and "modprobe loop" if the module is missing.',
            path=backing_file,
        )
    return found[-1]


def devices_on(backing_file: Path) -> list[Path]:
    """Return the loop devices that are attached to a file, including a deleted one."""
    names = {str(backing_file), f"{backing_file} (deleted)"}
    return [
        Path("/dev") / loop.parent.name
        for loop in sorted(_BLOCK.glob("loop*/loop"))
        if _line(loop / "backing_file") in names
    ]


def uses_direct_io(device: Path) -> bool:
    """Whether a loop device uses direct I/O on its file."""
    return _line(_BLOCK / device.name / "loop" / "dio") == "1"


def backing_file_of(device: Path) -> Path | None:
    """Return the file of a loop device; None if it is not one, or not attached."""
    file = _line(_BLOCK / device.name / "loop" / "backing_file")
    return Path(file) if file else None


def detach(device: Path) -> str | None:
    """Detach a loop device from its file.

    Returns:
        Why it is still attached; None once it is detached.
    """
    ran = run_program("losetup", "--detach", device)
    attached = _BLOCK / device.name / "loop" / "backing_file"
    # The kernel detaches it after its last user, which may briefly be udev.
    if wait_until(lambda: not attached.exists(), _DETACH_TIMEOUT_S):
        return None
    why = "" if ran.succeeded else f" ({ran.last_line})"
    return f"{device} is still in use and is detached when its last user ends{why}"


def _line(path: Path) -> str:
    """Return a line of the kernel's; a name of a file in it, which may be no UTF-8, as Python spells it."""
    try:
        return os.fsdecode(path.read_bytes()).rstrip("\n")
    except OSError:
        return ""
