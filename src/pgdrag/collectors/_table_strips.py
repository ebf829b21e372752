"""Which few of many looks at a table's pages are kept as pictures, and how coarse are they?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pgdrag.collectors._heap_pages import Numbers, Pages
from pgdrag.collectors._table_looks import Look, TableLook
from pgdrag.model.recordings import PageStrip

MOST_COLUMNS = 200
MOST_MOMENTS = 6
MOST_TABLES = 3
# More looks than this are thinned, every second one of them.
_MOST_KEPT = 64


@dataclass
class _Kept:
    """The strips of one table: the last, and of the earlier ones each that has its turn."""

    earlier: list[PageStrip]
    last: PageStrip
    every: int = 1
    seen: int = 1


class Strips:
    """Strips of the tables that are updated most; their times are by the clock until they are chosen."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    def add(self, look: Look, pages: Mapping[int, Pages]) -> None:
        """Take a look, and the pages of its tables by their oid."""
        for table in look.tables[:MOST_TABLES]:
            if table.pages_read:
                self._add(table, pages[table.oid], look.at_unix_s)

    def chosen(self, started_unix_s: float) -> tuple[PageStrip, ...]:
        """Return a few moments of each table, evenly spread: the first and the last among them."""
        return tuple(
            replace(strip, at_s=round(strip.at_s - started_unix_s, 3))
            for kept in self._kept.values()
            for strip in _evenly([*kept.earlier, kept.last])
        )

    def _add(self, table: TableLook, pages: Pages, at_unix_s: float) -> None:
        strip = strip_of(table, pages, at_unix_s)
        kept = self._kept.get(table.oid)
        if kept is None:
            self._kept[table.oid] = _Kept([], strip)
            return
        if (kept.seen - 1) % kept.every == 0:
            kept.earlier.append(kept.last)
        kept.last = strip
        kept.seen += 1
        if len(kept.earlier) > _MOST_KEPT:
            kept.earlier = kept.earlier[::2]
            kept.every *= 2


def strip_of(table: TableLook, found: Pages, at_unix_s: float) -> PageStrip:
    """Return what was found of a table's pages as a strip of at most `MOST_COLUMNS` columns."""
    columns = min(MOST_COLUMNS, len(found.blocks))
    first = np.arange(columns) * len(found.blocks) // columns
    counts = np.diff(np.append(first, len(found.blocks)))

    def means(numbers: Numbers) -> tuple[float, ...]:
        sums = np.add.reduceat(numbers, first)
        return tuple(round(float(x), 1) for x in sums / counts)

    return PageStrip(
        relation=table.name,
        at_s=at_unix_s,
        pages=table.pages,
        pages_read=table.pages_read,
        page_bytes=table.page_bytes,
        live=means(found.live),
        old=means(found.old),
        redirect=means(found.redirect),
        dead=means(found.dead),
        unused=means(found.unused),
        free_bytes=tuple(int(x) for x in means(found.free_bytes)),
    )


def _evenly(strips: list[PageStrip]) -> list[PageStrip]:
    if len(strips) <= MOST_MOMENTS:
        return strips
    step = (len(strips) - 1) / (MOST_MOMENTS - 1)
    return [strips[round(at * step)] for at in range(MOST_MOMENTS)]
