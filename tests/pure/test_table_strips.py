"""Of many looks at a table's pages a few are kept, and the first and the last are among them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from heap_page_writing import Version, page

from pgdrag.collectors._heap_pages import Pages, parse
from pgdrag.collectors._table_looks import Look, TableLook
from pgdrag.collectors._table_strips import MOST_COLUMNS, MOST_MOMENTS, Strips, strip_of
from pgdrag.model.recordings import PageStrip


def pages(count: int) -> Pages:
    """Every second page has two newest versions, the others none."""
    return parse([page([Version()] * 2 * (at % 2)) for at in range(count)], range(count))


def table(count: int) -> TableLook:
    return TableLook(7, "public.t", count, 8192, count, 1.0, 0.0, None, 0, 0, 0, 0, 0)


def kept_of(looks: int) -> list[PageStrip]:
    strips = Strips()
    for at in range(looks):
        look = Look(1000.0 + at, 0.0, (table(1),), {}, 0)
        strips.add(look, {7: pages(1)})
    return list(strips.chosen(1000.0))


@pytest.mark.parametrize("looks", [1, 2, 6, 7, 40, 500])
def test_the_first_and_the_last_look_are_kept_and_others_evenly(looks: int) -> None:
    moments = [one.at_s for one in kept_of(looks)]
    assert len(moments) == min(looks, MOST_MOMENTS)
    assert (moments[0], moments[-1]) == (0, looks - 1)
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert not gaps or max(gaps) <= 2 * (looks - 1) / (len(moments) - 1) + 1


def test_a_strip_has_a_column_a_page_until_there_are_too_many() -> None:
    assert strip_of(table(4), pages(4), 0.0).live == (0, 2, 0, 2)
    many = strip_of(table(2 * MOST_COLUMNS), pages(2 * MOST_COLUMNS), 0.0)
    assert many.live == (1.0,) * MOST_COLUMNS, "the mean of two pages"
