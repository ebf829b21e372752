"""What is on the pages of a table? Line pointers by state, old row versions, and HOT chains, from pages as they are stored.

The layout is the same in PostgreSQL 14 to 18 (page layout version 4: bufpage.h, itemid.h, htup_details.h).
Pages are read here and not by heap_page_items(), which takes the server eight times as long as to copy
them, in time that the workload pays for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pgdrag.model.recordings import ChainLink

Numbers = NDArray[np.int64]

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
        longest_chain: the line pointers of the longest of all pages, the last of several; none where no page
            has a chain.
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
    longest_chain: tuple[ChainLink, ...] = field(default=(), kw_only=True)

    @property
    def longest_block(self) -> int:
        """The number of the page that has the longest chain; -1 where none has a chain."""
        return int(self.blocks[_last_of_largest(self.longest)]) if self.longest_chain else -1


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
    # A page that was added and not yet written to has nothing but zeros.
    is_written = upper > 0
    for stamp in np.unique((words[:, 4] >> 16)[is_written]):
        if stamp != len(pages[0]) | _LAYOUT_VERSION:
            raise NotPages(f"pages are stamped {int(stamp):#06x}, which is another layout")

    # All line pointers, one row a page; those that a page does not have are unused there.
    count = np.where(is_written, (lower - _HEADER_BYTES) // _POINTER_BYTES, 0)
    most = max(int(count.max()), 0)
    pointers = words[:, _HEADER_BYTES // 4 :][:, :most]
    is_there = np.arange(most) < count[:, None]
    offset = pointers & 0x7FFF
    # What points outside of its page points to nothing that could be read.
    is_outside = (offset < _HEADER_BYTES) | (offset > len(pages[0]) - _TUPLE_BYTES)
    state = np.where(is_there, pointers >> 15 & 3, _UNUSED)
    state = np.where((state == _NORMAL) & is_outside, _UNUSED, state)

    # The headers of all stored versions, in the order of their line pointers, page after page.
    page, place = np.nonzero(state == _NORMAL)
    # Versions are aligned, so that their fields can be read as words.
    first = offset[page, place] // 4 + page * words.shape[1]
    xmin, xmax, block, item, flags = (words.reshape(-1)[first + at] for at in (0, 1, 3, 4, 5))
    flags, flags2 = flags & 0xFFFF, item >> 16
    # Its transaction was seen to have rolled back; or somebody has updated or deleted it, and was not.
    is_aborted = flags & _XMIN_FROZEN == _XMIN_INVALID
    is_superseded = (xmax != 0) & (flags & (_XMAX_INVALID | _XMAX_LOCK_ONLY) == 0)
    is_newest = ~is_superseded & ~is_aborted
    version_at = np.full((len(pages), most), -1, dtype=np.int64)
    version_at[page, place] = np.arange(len(page))

    # The next version in each one's HOT chain, -1 where there is none. As the server follows it
    # (heap_hot_search_buffer): as long as the next was made by what ended this.
    next_block = (block & 0xFFFF) << 16 | block >> 16
    next_place = (item & 0xFFFF).astype(np.int64) - 1  # they are counted from 1
    may = (flags2 & _HOT_UPDATED != 0) & (flags & _XMAX_INVALID == 0) & ~is_aborted
    may &= (next_block == numbers[page]) & (next_place >= 0) & (next_place < most)
    following = np.full(len(page), -1, dtype=np.int64)
    following[may] = version_at[page[may], next_place[may]]
    # Where several transactions hold it, the page does not say which one updated it.
    is_same = (xmin[following] == xmax) | (flags & _XMAX_IS_MULTI != 0)
    is_next = (following >= 0) & (flags2[following] & _HEAP_ONLY != 0) & is_same
    following = np.where(is_next, following, -1)

    # A chain begins with a version that is not heap-only, or with the one that a redirect points to.
    of, redirect = np.nonzero(state == _REDIRECT)
    target = offset[of, redirect].astype(np.int64) - 1
    is_inside = (target >= 0) & (target < most)
    redirected = version_at[of[is_inside], target[is_inside]]
    begins = np.concatenate([redirected[redirected >= 0], np.flatnonzero(flags2 & _HEAP_ONLY == 0)])
    lengths = _lengths(begins, following, most)
    begin_at = np.concatenate([redirect[is_inside][redirected >= 0], np.full(len(begins), -1)])
    longest = np.zeros(len(pages), dtype=np.int64)
    np.maximum.at(longest, page[begins], lengths)

    def per_page(of: Numbers, weights: Numbers | None = None) -> Numbers:
        return np.bincount(of, weights, minlength=len(pages)).astype(np.int64)

    def in_state(wanted: int) -> Numbers:
        found: Numbers = np.count_nonzero(is_there & (state == wanted), axis=1)
        return found

    chain: list[ChainLink] = []
    if len(begins):
        of_page = np.flatnonzero(page[begins] == _last_of_largest(longest))
        chosen = of_page[lengths[of_page].argmax()]
        at = int(begins[chosen])
        if (by := int(begin_at[chosen])) >= 0:
            link = ChainLink(by + 1, "redirect", int(numbers[page[at]]), int(place[at]) + 1)
            chain.append(link)
        for _ in range(int(lengths[chosen])):
            link = ChainLink(
                line_pointer=int(place[at]) + 1,
                state="live" if is_newest[at] else "old",
                next_block=int(next_block[at]),
                next_line_pointer=int(next_place[at]) + 1,
                xmin=int(xmin[at]),
                xmax=int(xmax[at]),
                is_heap_only=bool(flags2[at] & _HEAP_ONLY),
            )
            chain.append(link)
            at = int(following[at])

    row_bytes = (pointers >> 17)[page, place].astype(np.int64)
    stored = -(-row_bytes // _ALIGNMENT) * _ALIGNMENT + _POINTER_BYTES
    return Pages(
        blocks=numbers,
        live=per_page(page[is_newest]),
        old=per_page(page[~is_newest]),
        redirect=in_state(_REDIRECT),
        dead=in_state(_DEAD),
        unused=in_state(_UNUSED),
        free_bytes=np.maximum(upper - lower, 0),
        live_bytes=per_page(page[is_newest], stored[is_newest]),
        chains=per_page(page[begins]),
        steps=per_page(page[begins], lengths),
        longest=longest,
        longest_chain=tuple(chain),
    )


def _last_of_largest(numbers: Numbers) -> int:
    return len(numbers) - 1 - int(numbers[::-1].argmax())


def _lengths(begins: Numbers, following: Numbers, most: int) -> Numbers:
    """Return how many versions are in each chain; one of a damaged page may be a circle: none is longer than `most`."""
    lengths = np.zeros(len(begins), dtype=np.int64)
    walking, at = np.arange(len(begins)), begins
    for _ in range(most):
        lengths[walking] += 1
        at = following[at]
        goes_on = at >= 0
        walking, at = walking[goes_on], at[goes_on]
        if not len(at):
            break
    return lengths
