"""A HOT chain is drawn and told as the page has it, both ends of a long one."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from heap_page_writing import HEAP_ONLY, HOT_UPDATED, XMAX_INVALID, Version, page

from pgdrag.collectors._heap_pages import Pages, parse
from pgdrag.collectors._table_samples import chain_of
from pgdrag.model.recordings import ChainLink, HotChain
from pgdrag.report.chain_picture import chain_picture, chain_text

BLOCK = 7


def pages(versions: int) -> Pages:
    """One row, of which so many versions follow each other on one page."""
    items = [
        Version(
            xmin=100 + at,
            xmax=101 + at if at < versions - 1 else 0,
            next_place=min(at + 2, versions),
            next_block=BLOCK,
            flags=0 if at < versions - 1 else XMAX_INVALID,
            flags2=(HEAP_ONLY if at else 0) | (HOT_UPDATED if at < versions - 1 else 0),
        )
        for at in range(versions)
    ]
    return parse([page(items)], [BLOCK])


def test_a_short_chain_is_told_whole() -> None:
    assert chain_text([chain_of("t", pages(3), -0.5)]) == (
        "before the window, page 7: 3 versions\n"
        "  lp 1  xmin 100  xmax 101  ctid (7,2)  old\n"
        "  lp 2  xmin 101  xmax 102  ctid (7,3)  old\n"
        "  lp 3  xmin 102  xmax 0  ctid (7,3)  live"
    )


def test_of_a_long_chain_both_ends_are_kept_and_the_rest_is_counted() -> None:
    first, *lines = chain_text([chain_of("t", pages(50), 12.0)]).splitlines()
    assert first == "at 12 s, page 7: 50 versions"
    assert len(lines) == 11
    assert lines[5] == "  … 40 more versions"
    assert lines[4].startswith("  lp 5 ")
    assert lines[6].startswith("  lp 46 ")
    whole = chain_text([chain_of("t", pages(10), 12.0)])
    assert "more" not in whole


def test_redirects_and_a_row_that_moved_to_another_page_say_so() -> None:
    links = (ChainLink(1, "redirect", 3, 9), ChainLink(9, "old", 4, 17, 55, 56, is_heap_only=True))
    assert chain_text([HotChain("t", 0, 3, 1, links)]).splitlines()[1:] == [
        "  lp 1  → lp 9  redirect",
        "  lp 9  xmin 55  xmax 56  ctid (4,17)  continues on page 4",
    ]


def test_the_picture_has_a_square_for_each_line_pointer_and_a_link_to_the_next() -> None:
    chain = chain_of("t", pages(50), 12.0)
    drawn = chain_picture([chain, chain], name="c", title="a chain")
    ElementTree.fromstring(drawn)
    assert drawn.count('<rect class="page-') == 2 * 10
    assert drawn.count('<line class="origin"') == 2 * 10, "one more than lines, less one"
