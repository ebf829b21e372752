"""How are a file and a file system made that stay quiet while trials run?"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from pgdrag.errors import ScratchDeviceError
from pgdrag.host.programs import run_program
from pgdrag.servers.storage_spec import StorageSpec

_MKFS_TIMEOUT_S = 3600.0
_libc = ctypes.CDLL(None, use_errno=True)


def allocate(file: Path, size_bytes: int) -> bool:
    """Make a file of that size; whether the disk has reserved all of it.

    A file with holes would be allocated block by block while a trial writes, and the disk below could
    run full under it.

    Raises:
        OSError: as the kernel says, such as ENOSPC.
    """
    with file.open("xb") as opened:
        file.chmod(0o600)
        if _libc.fallocate(opened.fileno(), 0, ctypes.c_long(0), ctypes.c_long(size_bytes)) == 0:
            return True
        number = ctypes.get_errno()
        if number not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(number, os.strerror(number), str(file))
        opened.truncate(size_bytes)
        return False


def make_file_system(spec: StorageSpec, block_device: Path) -> None:
    """Make an empty file system; what was on the device is lost.

    Raises:
        ScratchDeviceError: mkfs refused, with its words.
    """
    program, *options = _mkfs_command(spec)
    ran = run_program(program, *options, block_device, timeout_s=_MKFS_TIMEOUT_S)
    if not ran.succeeded:
        # Its reason; what follows says how to use it.
        reason = next(iter(ran.output.strip().splitlines()), f"it ended with {ran.status}")
        raise ScratchDeviceError(
            f"could not make {spec.words}: {reason}",
            detail=f"The command was: {program} {' '.join(options)} {block_device}.",
        )


def _mkfs_command(spec: StorageSpec) -> list[str]:
    """Return mkfs with what keeps the kernel from writing, or giving blocks back, in the background."""
    own = list(spec.mkfs_options)
    match spec.file_system:
        case "ext4":
            extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
            # Only the last -E counts.
            while "-E" in own[:-1]:
                at = own.index("-E")
                extended = f"{extended},{own[at + 1]}"
                del own[at : at + 2]
            return ["mkfs.ext4", "-q", "-F", "-E", extended, *own]
        case "xfs":
            reflink = [] if any("reflink=" in word for word in own) else ["-m", "reflink=1"]
            return ["mkfs.xfs", "-q", "-f", "-K", *reflink, *own]
        case _:
            return ["mkfs.btrfs", "-q", "-f", "-K", *own]
