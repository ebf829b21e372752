"""Pages are drawn and told as they were read, within the room that there is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from pgdrag.model.recordings import PageStrip
from pgdrag.report.page_picture import page_picture, pages_text

NOTHING = (0.0,)


def strip(at_s: float, pages: int, old: tuple[float, ...], *, read: int = 0) -> PageStrip:
    """Each column has one newest version and so many old ones."""
    count = len(old)
    rest = NOTHING * count
    free = (819,) * count
    return PageStrip(
        "public.t", at_s, pages, read or pages, 8192, (1.0,) * count, old, rest, rest, rest, free
    )


def drawn(*strips: PageStrip, room_bytes: float = 1e9) -> str:
    return page_picture(strips, name="p", title="pages", room_bytes=room_bytes)


def test_pages_that_are_alike_are_one_step() -> None:
    assert '<path class="page-old" d="M0 100V0H2V50H4V100Z"/>' in drawn(
        strip(0, 4, (3.0, 3.0, 1.0, 1.0))
    )


def test_a_state_is_drawn_up_to_the_top_of_those_below_it() -> None:
    picture = drawn(strip(0, 1, (3.0,)))
    heights = re.findall(r'class="page-(\w+)" d="M0 100V(\d+)', picture)
    assert heights == [("old", "0"), ("live", "75"), ("free", "90")]


def test_all_moments_are_on_one_scale_and_one_page_is_still_seen() -> None:
    picture = drawn(strip(-1, 1, (0.0,)), strip(0, 500, (9.0,)), strip(9, 1000, (9.0,)))
    assert re.findall(r'width="([\d.]+)%" height="30"', picture) == ["0.50", "50.00", "100.00"]


@given(integers(1, 200))
def test_the_picture_keeps_to_its_room_by_drawing_columns_together(columns: int) -> None:
    noisy = strip(0, columns, tuple(float(at * 7919 % 180) for at in range(columns)))
    picture = drawn(noisy, noisy, room_bytes=4_000)
    assert len(picture) <= 4_000
    ElementTree.fromstring(picture)


def test_moments_are_left_out_where_there_is_no_room_but_not_the_ends() -> None:
    many = [strip(at, at + 1, (1.0,)) for at in range(6)]
    assert drawn(*many).count("<path class") > drawn(*many, room_bytes=1).count("<path class")
    assert "at 0 s, 1 page" in drawn(*many, room_bytes=1)
    assert "at 5 s, 6 pages" in drawn(*many, room_bytes=1)


def test_the_words_say_what_is_on_a_page_and_how_much_was_read() -> None:
    words = pages_text([strip(-0.5, 1, (0.0,)), strip(12, 2000, (150.0,), read=300)])
    first, second, *_ = words.splitlines()
    assert first.strip("█ ") == "before the window, 1 page: 1 live, 10 % free"
    assert second.strip("▓ ") == "at 12 s, 300 of 2,000 pages: 150 old, 1 live, 10 % free"
    assert second.count("▓") == 40


def test_a_table_without_line_pointers_is_told_as_free() -> None:
    empty = PageStrip("t", 0, 1, 1, 8192, *[NOTHING] * 5, (8168,))
    assert "1 page: 100 % free" in pages_text([empty])
    assert "page-old" not in drawn(empty).replace('<rect class="page-old"', "")


def test_columns_that_do_not_fit_each_other_are_no_strip() -> None:
    with pytest.raises(AssertionError, match="public"):
        PageStrip("public.t", 0, 2, 2, 8192, NOTHING * 2, *[NOTHING] * 4, (1,))
