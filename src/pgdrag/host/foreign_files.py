"""What is in a file that another user may have put there, or that a stranger's file names?

Such as the server's user, whom root watches. Opened plainly, a FIFO would wait for a writer for ever, a device
might never end, and a link would lead to a file that only the reader may read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def opened_foreign(path: Path, *, owner: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file that belongs to one user, in bounded time; a link is not followed.

    Args:
        owner: the number of the user; by default the owner of its directory.

    Raises:
        OSError: there is none, it is something else, or it belongs to another user.
    """
    try:
        fd = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            error.strerror = "it is a symbolic link"
        raise
    with _regular(fd, path) as file:
        found = os.fstat(fd)
        if found.st_uid != (path.parent.stat().st_uid if owner is None else owner):
            raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
        yield file


def read_foreign(path: Path, most_bytes: int, *, owner: int | None = None) -> bytes:
    """Return the beginning of such a file, up to a number of bytes.

    Raises:
        OSError: as of `opened_foreign`, or it cannot be read.
    """
    with opened_foreign(path, owner=owner) as file:
        return file.read(most_bytes)


def read_named(path: Path, most_bytes: int) -> bytes:
    """Return the beginning of a regular file that a person named, up to a number of bytes; a link is followed.

    Raises:
        OSError: it cannot be read, or is something else, such as a device or a FIFO.
    """
    with opened_named(path) as file:
        return file.read(most_bytes)


@contextmanager
def opened_named(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file that a person named; a link is followed.

    Raises:
        OSError: as of `read_named`.
    """
    with _regular(os.open(path, _FLAGS & ~os.O_NOFOLLOW), path) as file:
        yield file


def as_text(content: bytes) -> str:
    """Return UTF-8 as text whose lines end in newlines.

    Raises:
        UnicodeDecodeError: it is none.
    """
    return content.decode().replace("\r\n", "\n").replace("\r", "\n")


def foreign_bytes(path: Path) -> int:
    """Return the size of a regular file, in bytes; 0 for anything else, or nothing."""
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


@contextmanager
def _regular(fd: int, path: Path) -> Iterator[BinaryIO]:
    """Have what was opened as a file, if it is a regular one, and close it."""
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise OSError(errno.EINVAL, f"it is {kind}", str(path))
        with open(fd, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(fd)
