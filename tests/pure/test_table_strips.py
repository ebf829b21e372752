"""Of many looks at a table's pages a few are kept, and the first and the last are among them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from heap_page_writing import Version, page

from pgdrag.collectors import Window
from pgdrag.collectors._heap_pages import Pages, parse
from pgdrag.collectors._table_samples import MOST_COLUMNS, TableSample, strip_of
from pgdrag.collectors.row_versions import MOST_MOMENTS, Strips
from pgdrag.model.recordings import PageStrip


def pages(count: int) -> Pages:
    """Every second page has two newest versions, the others none."""
    return parse([page([Version()] * 2 * (at % 2)) for at in range(count)], range(count))


def strip(count: int, at_unix_s: float = 0.0) -> PageStrip:
    table = TableSample(7, "public.t", count, count, 1.0, 0.0, count * 8192, 8192.0, 0, 0, 0, 0, 0)
    return strip_of(table, pages(count), at_unix_s, 8192)


@pytest.mark.parametrize("looks", [1, 2, 6, 7, 40, 500])
def test_the_first_and_the_last_look_are_kept_and_others_evenly(looks: int) -> None:
    strips = Strips()
    for at in range(looks):
        strips.add([strip(1, 1000.0 + at)])
    moments = [one.at_s for one in strips.chosen(Window(1.0, 1, 1000.0, 2000.0))]
    assert len(moments) == min(looks, MOST_MOMENTS)
    assert (moments[0], moments[-1]) == (0, looks - 1)
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert not gaps or max(gaps) <= 2 * (looks - 1) / (len(moments) - 1) + 1


def test_a_strip_has_a_column_a_page_until_there_are_too_many() -> None:
    assert strip(4).live == (0, 2, 0, 2)
    assert strip(2 * MOST_COLUMNS).live == (1.0,) * MOST_COLUMNS, "the mean of two pages"
