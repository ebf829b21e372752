"""How high is a B-tree if only its size and the width of its keys are known?

Scans pay for each level that they descend. Only the index's own first page says how many there are, and that a role
without privileges cannot read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_PAGE_OVERHEAD_BYTES = 24 + 16  # header and special space
_ENTRY_OVERHEAD_BYTES, _LINE_POINTER_BYTES, _ALIGNED_BYTES = 8, 4, 8
_INNER_FILL = 0.7  # BTREE_NONLEAF_FILLFACTOR


def btree_height(blocks: int, key_widths: Sequence[float], *, block_bytes: int) -> int:
    """Return how many levels are above the leaves.

    Args:
        blocks: of the index, with its first page, which is none of the tree's.
        key_widths: the mean width of each key column, in bytes.
    """
    entry = _ENTRY_OVERHEAD_BYTES + sum(key_widths)
    entry = math.ceil(entry / _ALIGNED_BYTES) * _ALIGNED_BYTES + _LINE_POINTER_BYTES
    fan_out = max(2.0, (block_bytes - _PAGE_OVERHEAD_BYTES) * _INNER_FILL / entry)
    pages, height = blocks - 1, 0
    while pages > 1:
        pages = math.ceil(pages / fan_out)
        height += 1
    return height
