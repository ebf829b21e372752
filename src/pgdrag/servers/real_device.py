"""May a real block device be taken for a file system of pgdrag's own? What is on it would be lost."""

from __future__ import annotations

import os
from pathlib import Path

from pgdrag.errors import UsageError
from pgdrag.host.block_devices import number_of
from pgdrag.host.mounts import mounts
from pgdrag.host.programs import run_program

_SYS_DEV = Path("/sys/dev/block")
_SWAPS = Path("/proc/swaps")
_BLKID_FOUND_NOTHING = 2


def refuse_strange_device(device: Path, *, allowed: frozenset[str]) -> None:
    """Refuse what is not a device, and a device that was not allowed.

    Raises:
        UsageError: it is refused, and why.
    """
    real = device.resolve()
    if not real.is_block_device():
        raise UsageError(f'there is no block device "{device}"')
    number = number_of(str(real))
    if number is None or not any(number_of(name) == number for name in allowed):
        raise UsageError(
            f'device "{device}" is not pgdrag\'s to use',
            detail="All that is on it would be lost.",
            hint=f"If that is what you want, add --allow-change {device}.",
        )


def refuse_taken_device(device: Path, *, allowed: frozenset[str], overwrite: bool) -> None:
    """Refuse a device also if it is in use, or if something is on it.

    Args:
        device: as it was written.
        allowed: what `--allow-change` names.
        overwrite: what is on it may be lost. It never makes up for the other two.
    """
    refuse_strange_device(device, allowed=allowed)
    real = device.resolve()
    use = _use_of(real)
    if use is not None:
        raise UsageError(f'device "{device}" cannot be used: {use}')
    found = None if overwrite else _content_of(real)
    if found is not None:
        raise UsageError(
            f'device "{device}" is not empty: {found}',
            hint='If that may be lost, give the storage overwrite = "yes".',
        )


def _use_of(device: Path) -> str | None:
    """Return who uses a device or part of it; None if no one does."""
    number = device.stat().st_rdev
    home = _SYS_DEV / f"{os.major(number)}:{os.minor(number)}"
    parts = [each.parent for each in home.glob("*/partition")]
    if parts:
        return f"it has partitions, {', '.join(sorted(each.name for each in parts))}"
    holders = sorted(each.name for each in home.glob("holders/*"))
    if holders:
        return f"{', '.join(holders)} is made of it"
    links = (link for link in Path("/dev/disk").glob("*/*") if link.resolve() == device)
    names = {str(device), *map(str, links)}
    for found in mounts():
        if found.device == home.name or found.source in names:
            return f'it is mounted at "{found.mount_point}"'
    if names & {line.split()[0] for line in _SWAPS.read_text().splitlines()[1:]}:
        return "the system swaps to it"
    try:
        # The kernel's own answer to all who claim a device as a whole.
        os.close(os.open(device, os.O_RDWR | os.O_EXCL))
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _content_of(device: Path) -> str | None:
    """Return what a device seems to hold; None: nothing that anybody knows."""
    ran = run_program("blkid", "--probe", "--output", "export", device)
    if ran.status == _BLKID_FOUND_NOTHING:
        return None
    said = dict(line.partition("=")[::2] for line in ran.output.splitlines() if "=" in line)
    kind = said.get("TYPE") or said.get("PTTYPE")
    return f"blkid finds {kind}" if kind else f"blkid does not say what is on it: {ran.last_line}"
