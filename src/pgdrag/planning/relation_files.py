"""How do the files of an empty table or index get the size that the planner is to see?

The planner asks the file system how many blocks a relation has, whatever pg_class says, and asks the first
page of a B-tree how high it is. A block of zeros is a valid empty page, and a file system stores no blocks of
sparse: a table of a terabyte takes a few kilobytes. The server is stopped meanwhile, and
has no data checksums.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdrag.errors import ServerError

MOST_SEGMENTS = 200_000  # of all relations together; a segment has 1 GB
_MOST_BLOCKS = 2**32 - 1  # of one relation: MaxBlockNumber + 1

# bufpage.h: behind the LSN the checksum, flags, where free room begins and ends, where the special room
# begins, size and version, oldest transaction to prune.
_HEADER, _HEADER_BYTES, _LAYOUT_VERSION = struct.Struct("=8xHHHHHHI"), 24, 4
_LINE_POINTER, _IS_NORMAL = struct.Struct("=I"), 1
# The first page of an index begins with a magic number and a version.
_META_AT = _HEADER_BYTES + 8
# nbtree.h: root, its level, and the same of the root by which scans begin.
_BTREE_META = struct.Struct("=IIII")
# The page before, the page after, level, flags, cycle of vacuum.
_BTREE_SPECIAL, _IS_LEAF, _IS_ROOT = struct.Struct("=IIIHH"), 1, 2
# The block below, in two halves; its number of columns; its size with the flag of entries of inner pages.
_DOWNLINK, _IS_PIVOT = struct.Struct("=HHHH"), 0x2000
# brin_page.h: blocks of the table a range, last page of the map of ranges, each of which has so many TIDs.
_BRIN_META, _BRIN_SPECIAL_BYTES, _TID_BYTES = struct.Struct("=II"), 8, 6
# ginblock.h: all pages, those of entries, those of posting trees, entries; behind the list of pending entries.
_GIN_COUNTS, _GIN_COUNTS_AT = struct.Struct("=III4xq"), _HEADER_BYTES + 24


@dataclass(frozen=True)
class Layout:
    """How a server lays relations out in files.

    Attributes:
        segment_blocks: how many blocks a file has at most.
    """

    block_bytes: int = 8192
    segment_blocks: int = 131_072


@dataclass(frozen=True)
class GinCounts:
    """What the first page of a GIN index says of it: counted when it was built or last vacuumed."""

    pages: int
    entry_pages: int
    data_pages: int
    entries: int


@dataclass(frozen=True)
class WantedFile:
    """What a relation's files are to look like.

    Attributes:
        path: of the first segment, which exists.
        blocks: how many it is to have.
        method: the access method: "heap", "btree", "brin", "gin", …
        height: of a B-tree: levels above the leaves.
        table_blocks: of a BRIN index: how many blocks its table has.
        gin: of a GIN index, where they are known.
    """

    path: Path
    blocks: int
    method: str = "heap"
    height: int = 0
    table_blocks: int = 0
    gin: GinCounts | None = None


def resize(files: Sequence[WantedFile], layout: Layout) -> None:
    """Give the files of a stopped cluster their sizes, and their first pages what the planner reads there.

    Raises:
        ServerError: they would take more room than any server has.
        OSError: a file cannot be written, or is not the server's own.
    """
    segments = sum(-(-one.blocks // layout.segment_blocks) for one in files)
    if segments > MOST_SEGMENTS or any(one.blocks > _MOST_BLOCKS for one in files):
        raise ServerError(
            f"the twin's tables and indexes are too large: {segments:,} files of 1 GB"
        )
    for one in files:
        _resize(one, layout)


def first_pages(wanted: WantedFile, layout: Layout, now: bytes) -> Mapping[int, bytes]:
    """Return the bytes to write into a relation's first pages, by offset.

    Args:
        now: its first page as the server made it.
    """
    if wanted.method == "btree" and wanted.blocks > 1:
        return dict(_btree(min(wanted.height, wanted.blocks - 2), layout))
    if wanted.method == "brin" and len(now) == layout.block_bytes:
        range_blocks, _ = _BRIN_META.unpack_from(now, _META_AT)
        room = layout.block_bytes - _HEADER_BYTES - _BRIN_SPECIAL_BYTES
        ranges = -(-max(wanted.table_blocks, 1) // range_blocks)
        last = -(-ranges // (room // _TID_BYTES))
        return {_META_AT: _BRIN_META.pack(range_blocks, last)}
    if wanted.gin is not None:
        counts = wanted.gin
        packed = _GIN_COUNTS.pack(
            counts.pages, counts.entry_pages, counts.data_pages, counts.entries
        )
        return {_GIN_COUNTS_AT: packed}
    return {}


def _btree(height: int, layout: Layout) -> Iterator[tuple[int, bytes]]:
    """Yield a B-tree of this height without an entry: each inner page leads to the next, the last is an empty leaf.

    It has a leaf because the planner looks the column's ends up in it.
    """
    yield _META_AT, _BTREE_META.pack(1, height, 1, height)
    for level in range(height, -1, -1):
        number = height - level + 1
        yield number * layout.block_bytes, _btree_page(level, number, layout)


def _btree_page(level: int, number: int, layout: Layout) -> bytes:
    special_at = layout.block_bytes - _BTREE_SPECIAL.size
    lower, upper = _HEADER_BYTES, special_at
    page = bytearray(layout.block_bytes)
    if level > 0:
        upper -= _DOWNLINK.size
        pointer = upper | _IS_NORMAL << 15 | _DOWNLINK.size << 17
        _LINE_POINTER.pack_into(page, lower, pointer)
        lower += _LINE_POINTER.size
        below = number + 1
        _DOWNLINK.pack_into(page, upper, below >> 16, below & 0xFFFF, 0, _DOWNLINK.size | _IS_PIVOT)
    size_and_version = layout.block_bytes | _LAYOUT_VERSION
    _HEADER.pack_into(page, 0, 0, 0, lower, upper, special_at, size_and_version, 0)
    flags = (_IS_LEAF if level == 0 else 0) | (_IS_ROOT if number == 1 else 0)
    _BTREE_SPECIAL.pack_into(page, special_at, 0, 0, level, flags, 0)
    return bytes(page)


def _resize(wanted: WantedFile, layout: Layout) -> None:
    first = wanted.path
    fd = os.open(first, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        owner = os.fstat(fd)
        if not stat.S_ISREG(owner.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(first))
        pages = first_pages(wanted, layout, os.pread(fd, layout.block_bytes, 0))
        size = min(wanted.blocks, layout.segment_blocks) * layout.block_bytes
        os.ftruncate(fd, max(size, owner.st_size))
        for at, content in pages.items():
            os.pwrite(fd, content, at)
    finally:
        os.close(fd)
    further = range(layout.segment_blocks, wanted.blocks, layout.segment_blocks)
    for number, begin in enumerate(further, start=1):
        blocks = min(wanted.blocks - begin, layout.segment_blocks)
        _make(first.with_name(f"{first.name}.{number}"), blocks * layout.block_bytes, owner)


def _make(path: Path, size_bytes: int, like: os.stat_result) -> None:
    """Make a segment of zeros that belongs to whom the first one belongs to."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchown(fd, like.st_uid, like.st_gid)
        os.ftruncate(fd, size_bytes)
    finally:
        os.close(fd)
