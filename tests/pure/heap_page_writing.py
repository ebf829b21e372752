"""Write a table's page as the server stores it, so that a test says what is on it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

PAGE_BYTES = 8192
XMAX_INVALID, XMIN_INVALID, LOCK_ONLY, IS_MULTI = 0x0800, 0x0200, 0x0080, 0x1000
HOT_UPDATED, HEAP_ONLY = 0x4000, 0x8000
UNUSED, DEAD = (0, 0, 0), (0, 3, 0)


@dataclass(frozen=True)
class Version:
    """A stored row version; `next_place` counts from 1, as t_ctid does."""

    xmin: int = 1
    xmax: int = 0
    next_place: int = 1
    next_block: int = 0
    flags: int = 0
    flags2: int = 0


@dataclass(frozen=True)
class Redirect:
    """A line pointer that stands for the one at `place`, from 1."""

    place: int


Item = Version | Redirect | tuple[int, int, int]


def page(items: Sequence[Item]) -> bytes:
    """Return a page with these line pointers; a tuple is an offset, a state and a length."""
    written = bytearray(PAGE_BYTES)
    upper = PAGE_BYTES
    for at, item in enumerate(items):
        if isinstance(item, Version):
            upper -= 40
            written[upper : upper + 24] = _header(item)
            pointer = (upper, 1, 36)
        else:
            pointer = (item.place, 2, 0) if isinstance(item, Redirect) else item
        offset, state, length = pointer
        struct.pack_into("<I", written, 24 + 4 * at, offset | state << 15 | length << 17)
    lower = 24 + 4 * len(items)
    struct.pack_into("<HHHH", written, 12, lower, upper, PAGE_BYTES, PAGE_BYTES | 4)
    return bytes(written)


def _header(one: Version) -> bytes:
    ctid = (one.next_block >> 16, one.next_block & 0xFFFF, one.next_place)
    return struct.pack("<IIIHHHHHBx", one.xmin, one.xmax, 0, *ctid, one.flags2, one.flags, 24)
