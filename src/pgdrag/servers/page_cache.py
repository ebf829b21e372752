"""How does a server start from storage, and not from what the last copy left in memory?

What restores a dataset has just written all of it, so that all of it is in the page cache: counted to
whoever copied, not to the server's control group, and as large as the machine's memory lets it be. A
treatment that limits memory, or changes how the kernel reads, would be measured without its effect.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from pgdrag.host.loop_devices import backing_file_of, uses_direct_io
from pgdrag.host.mounts import mount_holding
from pgdrag.servers.copying import flush_file_system


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
    below = _cached_below(directory)
    if below is not None:
        with contextlib.suppress(PermissionError, FileNotFoundError):
            _drop_pages_of_file(below)


def _drop_pages_of_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _cached_below(directory: Path) -> Path | None:
    """Return the file of the loop device that a directory is on, where it is read through the page cache."""
    mount = mount_holding(directory)
    if mount is None or uses_direct_io(Path(mount.source)):
        return None
    return backing_file_of(Path(mount.source))
