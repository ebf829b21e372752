"""How is a data directory copied, quickly and onto the disk, and read from there afterwards?

On XFS and Btrfs a copy shares its blocks with the original until one of them is written (a reflink), in
milliseconds. Elsewhere the kernel copies, without a way through this process.

A copy is all in the page cache: charged to the process that copied, not to the server's control group, and as large
as the machine's memory lets it be. A treatment that limits memory, or changes how the kernel reads, would be
measured without its effect, unless those pages are dropped.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdrag.errors import ServerError
from pgdrag.host.loop_devices import backing_file_of, uses_direct_io
from pgdrag.host.mounts import mount_holding
from pgdrag.model import CopyMethod
from pgdrag.servers.manifest import DIRECTORY, FileMark, entries_below, manifest_of, write_manifest
from pgdrag.servers.scratch import Scratch, remove_tree

_LEAVE_OUT = frozenset({"postmaster.pid", "postmaster.opts"})
# Room for what a server writes first, beyond the copy itself.
_SPARE_BYTES = 32 * 2**20
_FICLONE = 0x40049409  # linux/fs.h
_CHUNK_BYTES = 1 << 30
_UNSUPPORTED = frozenset(
    {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
)
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Copied:
    """What a copy of a data directory consists of.

    Attributes:
        files: what the file system said of each file that was copied, and directories, as in a `Manifest`.
    """

    files: Mapping[str, FileMark]
    method: CopyMethod

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(each.bytes for each in self.files.values())


def copy_data_directory(scratch: Scratch, source: Path, target: Path, *, purpose: str) -> Copied:
    """Copy what is in `source` into the existing directory `target`, and wait for the disk.

    Without the wait the writes would go on during a measurement.

    Args:
        scratch: whose user is to own the copy, and where there must be room for it.
        source: the data directory of a cluster that is not running.
        target: an existing, empty directory.
        purpose: completes "cannot …" where there is no room.

    Raises:
        ServerError: the cluster has tablespaces, which lie elsewhere.
        StorageError: there is not enough room.
        OSError: as the kernel says, such as ENOSPC.
    """
    files: dict[str, FileMark] = {}
    can_reflink = True  # until the file system says otherwise
    for entry in entries_below(source):
        # Texts, since a thousand files are copied for each trial, and a Path of each takes as long as the kernel.
        relative = entry.path.removeprefix(f"{source}/")
        if relative in _LEAVE_OUT:
            continue
        copy = f"{target}/{relative}"
        if entry.is_symlink():
            # Two clusters that share a tablespace would write to the same files.
            raise ServerError(
                f'cannot copy a cluster with "{entry.name}" outside of its data directory',
                detail=f'"{entry.path}" is a link to "{Path(entry.path).readlink()}".',
            )
        if entry.is_dir():
            os.mkdir(copy, mode=0o700)  # noqa: PTH102
            files[f"{relative}/"] = DIRECTORY
        elif entry.is_file():
            with (
                _opened(entry.path, os.O_RDONLY) as source_fd,
                _opened(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as target_fd,
            ):
                found = os.fstat(source_fd)
                if found.st_size and can_reflink and not _reflink(source_fd, target_fd):
                    can_reflink = False
                    room_bytes = directory_bytes(source) + _SPARE_BYTES
                    scratch.require_free(room_bytes, purpose)
                while not can_reflink and os.sendfile(target_fd, source_fd, None, _CHUNK_BYTES):
                    pass
                files[relative] = FileMark.of(found)
        else:
            continue
        scratch.give(copy)
    flush_file_system(target)
    return Copied(files, "reflink" if can_reflink else "copy")


def directory_bytes(directory: Path) -> int:
    """The size of all files below `directory`."""
    return sum(
        entry.stat(follow_symlinks=False).st_size
        for entry in entries_below(directory)
        if entry.is_file(follow_symlinks=False)
    )


def flush_file_system(path: Path) -> None:
    """Wait until all that was written to the file system of `path` is on its disk."""
    with _opened(path, os.O_RDONLY) as fd:
        if _libc.syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))


def keep_tree(tree: Path, target: Path) -> None:
    """Give a finished tree of programs its place, with a manifest beside it; what was there is removed.

    It is on its disk before it has its name, which says that all is there.

    Raises:
        OSError: a file cannot be read, or the tree not be moved.
    """
    remove_tree(target)
    write_manifest(tree, manifest_of(target))
    flush_file_system(tree)
    tree.rename(target)
    flush_file_system(target.parent)


def drop_pages(directory: Path) -> None:
    """Flush the files below a directory, and take their pages out of the page cache.

    It needs no rights but to read them, and leaves all other files' pages alone. What some process
    has mapped stays. Where the directory lies on a loop device that reads its file through the page
    cache, the file's pages go, too, if this user may read it.

    Raises:
        OSError: as the kernel says, such as EIO.
    """
    # First, since a page that is still to be written stays.
    flush_file_system(directory)
    for place, _, names in os.walk(directory):
        for name in names:
            path = Path(place) / name
            if stat.S_ISREG(path.lstat().st_mode):
                _drop_pages_of_file(path)
    mount = mount_holding(directory)
    if mount is not None and not uses_direct_io(Path(mount.source)):
        below = backing_file_of(Path(mount.source))
        with contextlib.suppress(PermissionError, FileNotFoundError):
            if below is not None:
                _drop_pages_of_file(below)


def _drop_pages_of_file(path: Path) -> None:
    with _opened(path, os.O_RDONLY) as fd:
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _reflink(source_fd: int, target_fd: int) -> bool:
    try:
        fcntl.ioctl(target_fd, _FICLONE, source_fd)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return False
    return True


@contextlib.contextmanager
def _opened(path: str | Path, flags: int) -> Iterator[int]:
    # Without waiting for the other end of a FIFO that the server's user put there a moment ago.
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)
