"""How is a data directory copied, quickly and onto the disk?

On XFS and Btrfs a copy shares its blocks with the original until one of them is written (a reflink), in
milliseconds. Elsewhere the kernel copies, without a way through this process.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pgdrag.errors import ServerError
from pgdrag.model import CopyMethod

_FICLONE = 0x40049409  # linux/fs.h
_CHUNK_BYTES = 1 << 30
_UNSUPPORTED = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
)
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Copied:
    """The size of all files, and how they were copied."""

    bytes: int
    method: CopyMethod


def copy_data_directory(
    source: Path,
    target: Path,
    *,
    give: Callable[[Path], None],
    leave_out: frozenset[str],
    make_room: Callable[[], None],
) -> Copied:
    """Copy what is in `source` into the existing directory `target`, and wait for the disk.

    Without the wait the writes would go on during a measurement.

    Args:
        source: the data directory of a cluster that is not running.
        target: an existing, empty directory.
        give: makes the server's user the owner of one new file or directory.
        leave_out: names at the top that are not copied.
        make_room: called once, before anything takes new space; it may raise.

    Raises:
        ServerError: the cluster has tablespaces, which lie elsewhere.
        OSError: as the kernel says, such as ENOSPC.
    """
    copier = _Copier(give, make_room)
    for entry in _entries(source):
        if entry.name not in leave_out:
            copier.copy(entry, target / entry.name)
    flush_file_system(target)
    return Copied(copier.bytes, "reflink" if copier.can_reflink else "copy")


def directory_bytes(directory: Path) -> int:
    """The size of all files below `directory`."""
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file())


def flush_file_system(path: Path) -> None:
    """Wait until all that was written to the file system of `path` is on its disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        if _libc.syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(fd)


class _Copier:
    def __init__(self, give: Callable[[Path], None], make_room: Callable[[], None]) -> None:
        self.give = give
        self.make_room = make_room
        self.bytes = 0
        self.can_reflink = True  # until the file system says otherwise

    def copy(self, source: os.DirEntry[str], target: Path) -> None:
        if source.is_symlink():
            # Two clusters that share a tablespace would write to the same files.
            raise ServerError(
                f'cannot copy a cluster with "{source.name}" outside of its data directory',
                detail=f'"{source.path}" is a link to "{Path(source.path).readlink()}".',
            )
        if source.is_dir():
            target.mkdir(mode=0o700)
            self.give(target)
            for entry in _entries(Path(source.path)):
                self.copy(entry, target / entry.name)
        elif source.is_file():
            self._copy_file(Path(source.path), target)
            self.give(target)

    def _copy_file(self, source: Path, target: Path) -> None:
        source_fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            target_fd = os.open(target, flags, 0o600)
            try:
                size = os.fstat(source_fd).st_size
                if size and not self._reflink(source_fd, target_fd):
                    _copy_bytes(source_fd, target_fd)
                self.bytes += size
            finally:
                os.close(target_fd)
        finally:
            os.close(source_fd)

    def _reflink(self, source_fd: int, target_fd: int) -> bool:
        if self.can_reflink:
            try:
                fcntl.ioctl(target_fd, _FICLONE, source_fd)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self.can_reflink = False
                self.make_room()
        return self.can_reflink


def _copy_bytes(source_fd: int, target_fd: int) -> None:
    try:
        while os.copy_file_range(source_fd, target_fd, _CHUNK_BYTES):
            pass
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        with (
            os.fdopen(source_fd, "rb", closefd=False) as source,
            os.fdopen(target_fd, "wb", closefd=False) as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        # In a fixed order, so that every restore is laid out alike.
        yield from sorted(entries, key=lambda entry: entry.name)
