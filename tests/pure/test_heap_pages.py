"""A table's pages are read for what is on them: states of line pointers, old versions, HOT chains."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from heap_page_writing import (
    DEAD,
    HEAP_ONLY,
    HOT_UPDATED,
    IS_MULTI,
    LOCK_ONLY,
    UNUSED,
    XMAX_INVALID,
    XMIN_INVALID,
    Item,
    Redirect,
    Version,
    page,
)
from hypothesis import given
from hypothesis.strategies import binary, integers, lists, randoms

from pgdrag.collectors._heap_pages import NotPages, Pages, parse
from pgdrag.collectors._table_samples import spread
from pgdrag.model.recordings import ChainLink

BLOCK = 7


def read(*items: Item) -> Pages:
    return parse([page(items)], [BLOCK])


def chain(places: list[int], first_xid: int = 100) -> dict[int, Version]:
    """Return the versions of one row that was updated on its page, by place: each made by the end of the last."""
    found = {}
    for at, place in enumerate(places):
        is_last = at == len(places) - 1
        flags2 = (HEAP_ONLY if at else 0) | (0 if is_last else HOT_UPDATED)
        xmax = 0 if is_last else first_xid + at + 1
        following = places[at] if is_last else places[at + 1]
        flags = XMAX_INVALID if is_last else 0
        found[place] = Version(first_xid + at, xmax, following, BLOCK, flags, flags2)
    return found


def test_line_pointers_are_counted_by_state() -> None:
    found = read(*[one for _, one in sorted(chain([1, 3]).items())], DEAD)
    assert found.live.tolist() == [1]
    several = read(Version(flags=XMAX_INVALID), DEAD, UNUSED, UNUSED, Redirect(1))
    states = (several.live, several.old, several.dead, several.unused, several.redirect)
    assert [one.item() for one in states] == [1, 0, 1, 2, 1]
    assert several.free_bytes.item() == 8192 - 40 - 24 - 5 * 4
    assert several.live_bytes.item() == 40 + 4


@pytest.mark.parametrize(
    ("version", "is_old"),
    [
        (Version(), False),
        (Version(xmax=9), True),
        (Version(xmax=9, flags=XMAX_INVALID), False),  # whoever ended it has rolled back
        (Version(xmax=9, flags=LOCK_ONLY), False),  # SELECT FOR UPDATE
        (Version(flags=XMIN_INVALID), True),  # made by somebody who has rolled back
    ],
)
def test_a_version_is_old_where_it_was_ended_or_never_came_to_be(
    version: Version, is_old: bool
) -> None:
    found = read(version)
    assert (found.old.item(), found.live.item()) == (is_old, not is_old)


@given(lists(integers(1, 12), min_size=1, max_size=12), randoms())
def test_every_chain_is_followed_to_its_end_wherever_its_versions_lie(
    lengths: list[int], chance: Random
) -> None:
    order = list(range(1, sum(lengths) + 1))
    chance.shuffle(order)
    items: dict[int, Version] = {}
    for at, length in enumerate(lengths):
        places, order = order[:length], order[length:]
        items |= chain(places, first_xid=1000 * (at + 1))
    found = read(*[items[place] for place in sorted(items)])
    assert found.chains.item() == len(lengths)
    assert found.steps.item() == sum(lengths)
    assert found.longest.item() == max(lengths)
    assert found.live.item() == len(lengths)


def test_a_chain_whose_first_versions_are_gone_begins_at_its_redirect() -> None:
    kept = {place: one for place, one in chain([5, 1, 2, 3]).items() if place != 5}
    found = read(*[kept[place] for place in (1, 2, 3)], UNUSED, Redirect(1))
    assert (found.chains.item(), found.steps.item(), found.redirect.item()) == (1, 3, 1)


def test_the_longest_chain_is_read_link_by_link_from_its_redirect() -> None:
    kept = {place: one for place, one in chain([5, 1, 2, 3]).items() if place != 5}
    alone = Version(xmin=50, flags=XMAX_INVALID, next_place=4, next_block=BLOCK)
    found = read(*[kept[place] for place in (1, 2, 3)], alone, Redirect(1))
    assert found.longest_block == BLOCK
    assert found.longest_chain == (
        ChainLink(5, "redirect", BLOCK, 1),
        ChainLink(1, "old", BLOCK, 2, 101, 102, is_heap_only=True),
        ChainLink(2, "old", BLOCK, 3, 102, 103, is_heap_only=True),
        ChainLink(3, "live", BLOCK, 3, 103, 0, is_heap_only=True),
    )


def test_of_chains_that_are_as_long_the_last_pages_is_read() -> None:
    pages = [page([one for _, one in sorted(chain([1, 2], xid).items())]) for xid in (100, 200)]
    found = parse([*pages, page([Version()])], [BLOCK, BLOCK, 9])
    assert [link.xmin for link in found.longest_chain] == [200, 201]
    assert (parse([bytes(8192)], [3]).longest_chain, read().longest_block) == ((), -1)


def broken_off(**changed: int) -> int:
    first = dict.fromkeys(("xmin", "xmax"), 5) | {"next_place": 2, "next_block": BLOCK}
    first |= {"flags2": HOT_UPDATED, "flags": 0} | changed
    second = Version(xmin=5, next_place=2, next_block=BLOCK, flags2=HEAP_ONLY, flags=XMAX_INVALID)
    return int(read(Version(**first), second).steps.item())


@pytest.mark.parametrize(
    "changed",
    [
        {"next_block": BLOCK + 1},  # on another page
        {"next_block": BLOCK + (1 << 16)},
        {"xmax": 6},  # its place has been taken by somebody else's row
        {"flags2": 0},  # an update that was not HOT
        {"flags": XMAX_INVALID},
        {"next_place": 0},
        {"next_place": 3},  # there is no such line pointer
    ],
)
def test_a_chain_ends_where_the_server_would_end_it(changed: dict[str, int]) -> None:
    assert broken_off(**changed) == 1


def test_a_chain_goes_on_where_several_transactions_held_a_version() -> None:
    assert broken_off() == broken_off(xmax=77, flags=IS_MULTI) == 2


def test_a_damaged_page_that_points_in_a_circle_is_read_to_an_end() -> None:
    going_round = Version(5, 5, 2, BLOCK, 0, HOT_UPDATED)
    back = Version(5, 5, 2, BLOCK, 0, HOT_UPDATED | HEAP_ONLY)
    assert read(going_round, back).longest.item() <= 3


@given(binary(min_size=400, max_size=400))
def test_no_bytes_break_the_reading(noise: bytes) -> None:
    whole = bytearray(page([Version()] * 60))
    whole[24 : 24 + 60] = noise[:60]
    whole[-340:] = noise[60:]
    found = parse([bytes(whole)], [0])
    assert found.live.item() + found.old.item() <= 60


def test_a_page_that_nobody_has_written_to_holds_nothing() -> None:
    found = parse([bytes(8192), page([Version()])], [0, 1])
    assert found.live.tolist() == [0, 1]
    assert found.free_bytes.tolist() == [0, 8192 - 40 - 28]
    assert parse([], []).live.tolist() == []


def test_pages_of_another_layout_are_refused() -> None:
    other = bytearray(page([Version()]))
    other[18:20] = (8192 | 3).to_bytes(2, "little")
    with pytest.raises(NotPages, match="pages are stamped 0x2003, which is another layout"):
        parse([bytes(other)], [0])


@given(integers(1, 5000), integers(1, 300), integers(0, 99))
def test_pages_are_spread_one_to_each_stretch(pages: int, count: int, hundredths: int) -> None:
    found = spread(pages, count, hundredths / 100)
    assert len(found) == len(set(found)) == min(pages, count)
    assert found == sorted(found)
    assert found[0] >= 0
    assert found[-1] < pages
    assert max(pages - found[-1], *(b - a for a, b in pairwise([-1, *found]))) <= 2 * max(
        pages / count, 1
    )
