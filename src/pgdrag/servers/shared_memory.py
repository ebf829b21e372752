"""What shared memory did a killed server leave behind?

A server that ends by itself frees it, and the next start in the same data directory would. A cluster
that is thrown away has no next start, so the same is done here: its System V segment names the
control segment of its dynamic shared memory, and that one names all the others.

Layouts: PGShmemHeader (storage/pg_shmem.h) and dsm_control_header (storage/ipc/dsm.c), unchanged
in versions 15 to 18. Both begin with a magic number; what does not match is left alone.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from pathlib import Path

_SYSV = Path("/proc/sysvipc/shm")
_POSIX = Path("/dev/shm")
_IPC_RMID = 0
_SHM_RDONLY = 0o10000

_SEGMENT_MAGIC = 679834894
# magic, creator's pid, total size, offset of free space, control handle, index, device, inode
_SEGMENT = struct.Struct("@iiNNIPQQ")
_CONTROL_MAGIC = 0x9A503D32
_CONTROL = struct.Struct("@III")
_CONTROL_ITEMS_OFFSET = 16
# handle, reference count, first page, pages, private pointer, is it pinned
_CONTROL_ITEM = struct.Struct("@IINNP?7x")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p
_libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
_libc.shmdt.argtypes = [ctypes.c_void_p]


@dataclass(frozen=True)
class _Segment:
    uid: int
    attached: int
    bytes: int


def free_shared_memory(data_directory: Path) -> list[str]:
    """Remove the shared memory that the dead server of `data_directory` left.

    Nothing is touched that a process still uses, that belongs to another user than the directory, or
    whose header names another directory. Call it before the data directory is deleted.

    Returns:
        The names of what was removed; nothing, after a server that ended by itself.
    """
    segment_id = _segment_id(data_directory)
    segment = None if segment_id is None else _segments().get(segment_id)
    if segment_id is None or segment is None or segment.attached:
        return []
    place = data_directory.stat()
    if segment.uid != place.st_uid:
        return []
    header = _read_header(segment_id, segment)
    if header is None:
        return []
    magic, _, _, _, control_handle, _, device, inode = header
    if (magic, device, inode) != (_SEGMENT_MAGIC, place.st_dev, place.st_ino):
        return []
    removed = [
        path.name for path in _dynamic_segments(control_handle) if _unlink_owned(path, segment.uid)
    ]
    if _libc.shmctl(segment_id, _IPC_RMID, None) == 0:
        removed.append(f"System V segment {segment_id}")
    return removed


def _segment_id(data_directory: Path) -> int | None:
    # Line 7 of postmaster.pid holds the segment's key and its number.
    try:
        fields = (data_directory / "postmaster.pid").read_text().split("\n")[6].split()
        return int(fields[1])
    except (OSError, IndexError, ValueError):
        return None


def _segments() -> dict[int, _Segment]:
    try:
        lines = _SYSV.read_text().splitlines()
    except OSError:
        return {}
    column = {name: index for index, name in enumerate(lines[0].split())}
    rows = [line.split() for line in lines[1:]]
    return {
        int(row[column["shmid"]]): _Segment(
            uid=int(row[column["uid"]]),
            attached=int(row[column["nattch"]]),
            bytes=int(row[column["size"]]),
        )
        for row in rows
    }


def _read_header(segment_id: int, segment: _Segment) -> tuple[int, ...] | None:
    if segment.bytes < _SEGMENT.size:
        return None
    address = _libc.shmat(segment_id, None, _SHM_RDONLY)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    try:
        return _SEGMENT.unpack(ctypes.string_at(address, _SEGMENT.size))
    finally:
        _libc.shmdt(address)


def _dynamic_segments(control_handle: int) -> list[Path]:
    control = _posix_path(control_handle)
    try:
        content = control.read_bytes()
    except OSError:  # dynamic_shared_memory_type is not posix, or it is already gone
        return []
    if len(content) < _CONTROL_ITEMS_OFFSET:
        return []
    magic, used, _ = _CONTROL.unpack_from(content)
    if magic != _CONTROL_MAGIC:
        return []
    paths = []
    for index in range(used):
        offset = _CONTROL_ITEMS_OFFSET + index * _CONTROL_ITEM.size
        if offset + _CONTROL_ITEM.size > len(content):
            break
        handle, references, *_ = _CONTROL_ITEM.unpack_from(content, offset)
        if references:
            paths.append(_posix_path(handle))
    return [*paths, control]


def _posix_path(handle: int) -> Path:
    return _POSIX / f"PostgreSQL.{handle}"


def _unlink_owned(path: Path, uid: int) -> bool:
    try:
        if path.lstat().st_uid != uid:
            return False
        path.unlink()
    except OSError:
        return False
    return True
