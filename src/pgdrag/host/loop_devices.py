"""Which loop devices are attached to a file? How is one attached, and taken away?"""

from __future__ import annotations

import time
from pathlib import Path

from pgdrag.errors import StorageError
from pgdrag.host.programs import run_program

_BLOCK = Path("/sys/block")
_DELETED = " (deleted)"
_DETACH_TIMEOUT_S = 5.0
_POLL_S = 0.02


def attach(backing_file: Path, *, direct_io: bool) -> Path:
    """Make a block device of a file, and return it; see `uses_direct_io` for what became of that.

    Raises:
        StorageError: none is free, or the kernel has none.
    """
    wanted = "on" if direct_io else "off"
    ran = run_program("losetup", "--find", "--show", f"--direct-io={wanted}", backing_file)
    found = devices_on(backing_file)
    if not found:
        raise StorageError(
            f'could not make a loop device of "{backing_file}": {ran.last_line}',
            hint='See what takes them with "losetup --all", and whether the kernel has the module "loop".',
            path=backing_file,
        )
    return found[-1]


def devices_on(backing_file: Path) -> list[Path]:
    """Return the loop devices that are attached to a file, also to one that was deleted since."""
    names = {str(backing_file), f"{backing_file}{_DELETED}"}
    return [
        Path("/dev") / loop.parent.name
        for loop in sorted(_BLOCK.glob("loop*/loop"))
        if _line(loop / "backing_file") in names
    ]


def uses_direct_io(device: Path) -> bool:
    """Whether a loop device goes past the page cache to its file."""
    return _line(_BLOCK / device.name / "loop" / "dio") == "1"


def backing_file_of(device: Path) -> Path | None:
    """Return the file that a loop device is made of; None: it is no loop device, or has none."""
    file = _line(_BLOCK / device.name / "loop" / "backing_file")
    return Path(file) if file else None


def detach(device: Path) -> str | None:
    """Take a loop device away from its file.

    Returns:
        Why it is still there; None: it is gone.
    """
    ran = run_program("losetup", "--detach", device)
    attached = _BLOCK / device.name / "loop" / "backing_file"
    deadline = time.monotonic() + _DETACH_TIMEOUT_S
    # It goes with its last user; whoever looks at new devices may be one for a moment.
    while attached.exists():
        if time.monotonic() >= deadline:
            return f"{device} is still in use, and goes with its last user" + (
                "" if ran.succeeded else f" ({ran.last_line})"
            )
        time.sleep(_POLL_S)
    return None


def _line(path: Path) -> str:
    try:
        return path.read_text().rstrip("\n")
    except OSError:
        return ""
