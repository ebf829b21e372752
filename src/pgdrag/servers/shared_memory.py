"""What shared memory did a killed server leave behind?

A server that ends by itself frees it, and the next start in the same data directory would. A cluster
that is thrown away has no next start, so the same is done here: its System V segment names the
control segment of its dynamic shared memory, and that one names all the others.

Layouts: PGShmemHeader (storage/pg_shmem.h) and dsm_control_header (storage/ipc/dsm.c), unchanged
in versions 14 to 18. Both begin with a magic number; what does not match is left alone.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import NamedTuple

from pgdrag.host.foreign_files import read_foreign
from pgdrag.host.process_alive import has_ended, wait_until

_SYSV = Path("/proc/sysvipc/shm")
_POSIX = Path("/dev/shm")
_IPC_RMID = 0
_SHM_RDONLY = 0o10000
_KEYS_TRIED = 64
_LEAVE_TIMEOUT_S = 2.0

_HEADER_MAGIC = 679834894
# magic, creator's pid, total size, offset of free space, control handle, index, device, inode
_HEADER = struct.Struct("@iiNNIPQQ")
_CONTROL_MAGIC = 0x9A503D32
_CONTROL = struct.Struct("@III")
_CONTROL_ITEMS_OFFSET = 16
_CONTROL_MOST_BYTES = 16 * 2**20  # more than 100,000 items
# handle, reference count, first page, pages, private pointer, is it pinned
_CONTROL_ITEM = struct.Struct("@IINNP?7x")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p
_libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
_libc.shmdt.argtypes = [ctypes.c_void_p]


class _Segment(NamedTuple):
    id: int
    key: int
    uid: int
    creator: int  # 0 for a process of another container
    attached: int
    bytes: int


def free_shared_memory(place: os.stat_result) -> list[str]:
    """Remove the shared memory that the dead server of a data directory left; `place` is what stat(2) says of it.

    Nothing is touched that a process still uses, that belongs to another user than the directory, or
    whose header names another directory. Call it before the data directory is deleted.

    Returns:
        The names of what was removed; nothing, after a server that ended by itself.
    """
    # A killed process may be gone from sight before the kernel has unmapped its memory.
    wait_until(lambda: not any(map(_is_being_left, _candidates(place))), _LEAVE_TIMEOUT_S)
    removed: list[str] = []
    for segment in _candidates(place):
        control_handle = None if segment.attached else _control_handle(segment, place)
        if control_handle is None:
            continue
        paths = _dynamic_segments(control_handle, segment.uid)
        removed += [path.name for path in paths if _unlink_owned(path, segment.uid)]
        if _libc.shmctl(segment.id, _IPC_RMID, None) == 0:
            removed.append(f"System V segment {segment.id}")
    return removed


def _candidates(place: os.stat_result) -> list[_Segment]:
    try:
        names, *lines = (line.split() for line in _SYSV.read_text().splitlines())
    except (OSError, ValueError):
        return []
    rows = (dict(zip(names, map(int, line), strict=True)) for line in lines)
    segments = (
        _Segment(row["shmid"], row["key"], row["uid"], row["cpid"], row["nattch"], row["size"])
        for row in rows
    )
    # A server counts up from its directory's inode number until a key is free. Others' segments
    # are not even looked at: a server that starts just then would take the look for use.
    return [
        each
        for each in segments
        if each.uid == place.st_uid and (each.key - place.st_ino) % 2**32 < _KEYS_TRIED
    ]


def _is_being_left(segment: _Segment) -> bool:
    """Still in use, although the postmaster that made it is dead."""
    is_orphan = segment.creator > 0 and has_ended(segment.creator)
    return segment.attached > 0 and is_orphan


def _control_handle(segment: _Segment, place: os.stat_result) -> int | None:
    """Return which dynamic memory a segment's header names; None: it is not for this directory."""
    if segment.bytes < _HEADER.size:
        return None
    address = _libc.shmat(segment.id, None, _SHM_RDONLY)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    try:
        fields = _HEADER.unpack(ctypes.string_at(address, _HEADER.size))
    finally:
        _libc.shmdt(address)
    magic, _, _, _, control_handle, _, device, inode = fields
    # The server writes down which directory the segment is for.
    is_ours = magic == _HEADER_MAGIC and (device, inode) == (place.st_dev, place.st_ino)
    return int(control_handle) if is_ours else None


def _dynamic_segments(control_handle: int, owner: int) -> list[Path]:
    control = _posix_path(control_handle)
    try:
        content = read_foreign(control, _CONTROL_MOST_BYTES, owner=owner)
        magic, used, _ = _CONTROL.unpack_from(content)
    except (
        OSError,
        struct.error,
    ):  # dynamic_shared_memory_type is not posix, or it is already gone
        return []
    if magic != _CONTROL_MAGIC:
        return []
    items = content[_CONTROL_ITEMS_OFFSET:][: used * _CONTROL_ITEM.size]
    whole = items[: len(items) // _CONTROL_ITEM.size * _CONTROL_ITEM.size]
    named = _CONTROL_ITEM.iter_unpack(whole)
    return [*(_posix_path(handle) for handle, references, *_ in named if references), control]


def _posix_path(handle: int) -> Path:
    return _POSIX / f"PostgreSQL.{handle}"


def _unlink_owned(path: Path, uid: int) -> bool:
    try:
        is_owned = path.lstat().st_uid == uid
        if is_owned:
            path.unlink()
    except OSError:
        return False
    return is_owned
