"""What is on the pages of a table? Line pointers by state, old row versions, and HOT chains, from pages as they are stored.

The layout is the same in PostgreSQL 14 to 18 (page layout version 4: bufpage.h, itemid.h, htup_details.h).
Pages are read here and not by heap_page_items(), which takes the server eight times as long as to copy
them, in time that the workload pays for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Words = NDArray[np.uint32]
Flags = NDArray[np.bool_]

_LAYOUT_VERSION = 4
_HEADER_BYTES = 24
_POINTER_BYTES = 4
_TUPLE_BYTES = 24  # at least, with its header
_UNUSED, _NORMAL, _REDIRECT, _DEAD = range(4)
_ALIGNMENT = 8
# Of t_infomask.
_XMAX_LOCK_ONLY = 0x0080
_XMIN_INVALID, _XMIN_FROZEN = 0x0200, 0x0300
_XMAX_INVALID = 0x0800
_XMAX_IS_MULTI = 0x1000
# Of t_infomask2.
_HOT_UPDATED, _HEAP_ONLY = 0x4000, 0x8000


class NotPages(Exception):
    """These bytes are no pages that this module knows; its text says why, without a full stop."""


@dataclass(frozen=True)
class Pages:
    """What was found on each of several pages, an element a page, in the order of `blocks`.

    Attributes:
        blocks: their numbers in the table.
        live: line pointers to the newest version of a row; one that a transaction under way has made counts.
        old: to a version that is still stored, and that a later one has replaced, or that was deleted or
            rolled back.
        redirect: to the first version that is left of a HOT chain.
        dead: to no version any more, but index entries may still point to them.
        unused: free to be used again.
        free_bytes: between line pointers and versions.
        live_bytes: of the newest versions with their line pointers.
        chains: row versions and redirects that index entries may point to.
        steps: versions in all these chains together.
        longest: versions in the longest of them; 0 where there is none.
    """

    blocks: Numbers
    live: Numbers
    old: Numbers
    redirect: Numbers
    dead: Numbers
    unused: Numbers
    free_bytes: Numbers
    live_bytes: Numbers
    chains: Numbers
    steps: Numbers
    longest: Numbers


def parse(pages: Sequence[bytes], blocks: Sequence[int]) -> Pages:
    """Read pages of one table.

    Args:
        pages: each as get_raw_page() returns it, all of one size.
        blocks: the number of each in the table.

    Raises:
        NotPages: they are of another layout, or of a machine with another order of bytes.
    """
    numbers = np.asarray(blocks, dtype=np.int64)
    if not pages:
        return Pages(numbers, *[np.zeros(0, dtype=np.int64)] * 10)
    words = np.frombuffer(b"".join(pages), dtype="<u4").reshape(len(pages), -1)
    lower, upper = (words[:, 3] & 0xFFFF).astype(np.int64), (words[:, 3] >> 16).astype(np.int64)
    _refuse_others((words[:, 4] >> 16).astype(np.int64), upper, page_bytes=len(pages[0]))
    # A page that was added and not yet written to has nothing but zeros.
    count = np.where(upper > 0, (lower - _HEADER_BYTES) // _POINTER_BYTES, 0)
    return _counted(_Pointers(words, count), numbers, np.maximum(upper - lower, 0))


def _refuse_others(stamps: Numbers, upper: Numbers, *, page_bytes: int) -> None:
    for stamp in np.unique(stamps[upper > 0]):
        if stamp != page_bytes | _LAYOUT_VERSION:
            raise NotPages(f"pages are stamped {int(stamp):#06x}, which is another layout")


class _Pointers:
    """All line pointers of all pages, one row a page; those that a page does not have are unused there."""

    def __init__(self, words: Words, count: Numbers) -> None:
        self.words = words
        self.most = max(int(count.max()), 0)
        first = _HEADER_BYTES // 4
        pointers = words[:, first : first + self.most]
        self.is_there: Flags = np.arange(self.most) < count[:, None]
        self.offset = pointers & 0x7FFF
        self.length = pointers >> 17
        state = np.where(self.is_there, pointers >> 15 & 3, _UNUSED).astype(np.uint8)
        # What points outside of its page points to nothing that could be read.
        last = 4 * words.shape[1] - _TUPLE_BYTES
        is_outside = (self.offset < _HEADER_BYTES) | (self.offset > last)
        self.state = np.where((state == _NORMAL) & is_outside, _UNUSED, state)

    def per_page(self, state: int) -> Numbers:
        """Count the pointers of one state on each page."""
        found: Numbers = np.count_nonzero(self.is_there & (self.state == state), axis=1)
        return found


class _Versions:
    """The headers of all stored versions, in the order of their line pointers, page after page."""

    def __init__(self, pointers: _Pointers) -> None:
        self.page, self.place = np.nonzero(pointers.state == _NORMAL)
        # Versions are aligned, so that their fields can be read as words.
        first = pointers.offset[self.page, self.place] // 4
        first = first + self.page * pointers.words.shape[1]
        words = pointers.words.reshape(-1)
        self.xmin, self.xmax, block, place, flags = (words[first + at] for at in (0, 1, 3, 4, 5))
        self.next_block = (block & 0xFFFF) << 16 | block >> 16
        self.next_place = (place & 0xFFFF).astype(np.int64) - 1  # they are counted from 1
        self.flags, self.flags2 = flags & 0xFFFF, place >> 16
        self.bytes = pointers.length[self.page, self.place].astype(np.int64)
        self.at = np.full((len(pointers.state), pointers.most), -1, dtype=np.int64)
        self.at[self.page, self.place] = np.arange(len(self.page))

    @property
    def is_aborted(self) -> Flags:
        """Whether the transaction that made it was seen to have rolled back."""
        found: Flags = self.flags & _XMIN_FROZEN == _XMIN_INVALID
        return found

    @property
    def is_superseded(self) -> Flags:
        """Whether somebody has updated or deleted it, and was not seen to roll that back."""
        is_locked_only = self.flags & _XMAX_LOCK_ONLY != 0
        found: Flags = (self.xmax != 0) & (self.flags & _XMAX_INVALID == 0) & ~is_locked_only
        return found

    def following(self, blocks: Numbers) -> Numbers:
        """Return the next version in each one's HOT chain, -1 where there is none.

        As the server follows it (heap_hot_search_buffer): as long as the next was made by what ended this.
        """
        is_updated = (self.flags2 & _HOT_UPDATED != 0) & (self.flags & _XMAX_INVALID == 0)
        is_here = self.next_block == blocks[self.page]
        is_inside = (self.next_place >= 0) & (self.next_place < self.at.shape[1])
        may = is_updated & ~self.is_aborted & is_here & is_inside
        found = np.full(len(self.page), -1, dtype=np.int64)
        found[may] = self.at[self.page[may], self.next_place[may]]
        # Where several transactions hold it, the page does not say which one updated it.
        is_multi = self.flags & _XMAX_IS_MULTI != 0
        is_same = (self.xmin[found] == self.xmax) | is_multi
        is_next = (found >= 0) & (self.flags2[found] & _HEAP_ONLY != 0) & is_same
        return np.where(is_next, found, -1)


def _counted(pointers: _Pointers, blocks: Numbers, free_bytes: Numbers) -> Pages:
    versions = _Versions(pointers)
    pages = len(blocks)

    def per_page(of: Numbers, weights: Numbers | None = None) -> Numbers:
        return np.bincount(of, weights, minlength=pages).astype(np.int64)

    is_newest = ~versions.is_superseded & ~versions.is_aborted
    stored = -(-versions.bytes // _ALIGNMENT) * _ALIGNMENT + _POINTER_BYTES
    of, lengths = _chains(pointers, versions, blocks)
    longest = np.zeros(pages, dtype=np.int64)
    np.maximum.at(longest, of, lengths)
    return Pages(
        blocks=blocks,
        live=per_page(versions.page[is_newest]),
        old=per_page(versions.page[~is_newest]),
        redirect=pointers.per_page(_REDIRECT),
        dead=pointers.per_page(_DEAD),
        unused=pointers.per_page(_UNUSED),
        free_bytes=free_bytes,
        live_bytes=per_page(versions.page[is_newest], stored[is_newest]),
        chains=per_page(of),
        steps=per_page(of, lengths),
        longest=longest,
    )


def _chains(pointers: _Pointers, versions: _Versions, blocks: Numbers) -> tuple[Numbers, Numbers]:
    """Return the page of each chain that index entries may point to, and how many versions are in it.

    It begins with a version that is not heap-only, or with the one that a redirect points to.
    """
    page, place = np.nonzero(pointers.state == _REDIRECT)
    target = pointers.offset[page, place].astype(np.int64) - 1
    is_inside = (target >= 0) & (target < pointers.most)
    redirected = versions.at[page[is_inside], target[is_inside]]
    roots = np.flatnonzero(versions.flags2 & _HEAP_ONLY == 0)
    begins = np.concatenate([redirected[redirected >= 0], roots])
    lengths = np.zeros(len(begins), dtype=np.int64)
    following = versions.following(blocks)
    walking, at = np.arange(len(begins)), begins
    # A page that is damaged may point in a circle: no chain is longer than its page.
    for _ in range(pointers.most):
        lengths[walking] += 1
        at = following[at]
        goes_on = at >= 0
        walking, at = walking[goes_on], at[goes_on]
        if not len(at):
            break
    return versions.page[begins], lengths
