"""How large will a data twin be, and what shrinks with it?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_twin_file import TWIN

from pgdrag.data_twin.sizes import (
    at_the_beginning,
    bytes_before,
    data_twin_bytes,
    rows_of,
    scaled_rows,
    scaled_settings,
    table_blocks,
)
from pgdrag.data_twin.unvacuumed import Unseen, unseen
from pgdrag.twins.model import Relation, Setting

TABLE = Relation("s", "t", "table", 1000, 1e5, bytes=8_192_000, live_rows=100_000)
INDEX = Relation("s", "i", "index", 300, 1e5, bytes=2_457_600, table="t")
SMALL = Relation("s", "code", "table", 5, 250.0, bytes=40_960, live_rows=250)
SHOP = replace(TWIN, relations=(TABLE, INDEX, SMALL))


@pytest.mark.parametrize(
    ("rows", "scale", "scaled"),
    [(250, 0.1, 250), (1000, 0.1, 1000), (5000, 0.1, 1000), (10**6, 0.1, 10**5), (10**6, 1, 10**6)],
)
def test_small_tables_stay_as_they_are(rows: int, scale: float, scaled: int) -> None:
    assert scaled_rows(rows, scale) == scaled


def test_an_index_shrinks_with_its_table() -> None:
    whole, tenth = data_twin_bytes(SHOP, 1), data_twin_bytes(SHOP, 0.1)
    assert whole - tenth == round(0.9 * (8_192_000 + 2_457_600))
    assert table_blocks(SHOP, ("s", "t"), 0.1) == 100
    assert table_blocks(SHOP, ("s", "code"), 0.1) == 5


def test_a_data_twin_has_the_rows_of_the_windows_beginning() -> None:
    """Its load begins there: what was inserted in the window, that inserts again."""
    moved = {"n_tup_ins": 25_000, "n_tup_del": 5_000}
    growing = replace(TABLE, moved=moved)
    assert rows_of(growing) == 80_000
    assert table_blocks(replace(SHOP, relations=(growing,)), ("s", "t"), 1) == 800
    assert rows_of(replace(TABLE, moved={"n_tup_ins": 10**6})) == 100_000  # most were rolled back


def test_a_table_that_was_updated_in_the_window_begins_as_small_as_it_was() -> None:
    """Else pages have room that they had not, and updates stay on them that went elsewhere."""
    updated = replace(TABLE, bytes_before=4_096_000)
    assert table_blocks(replace(SHOP, relations=(updated,)), ("s", "t"), 1) == 500
    assert bytes_before(replace(INDEX, bytes_before=0), updated) == 0
    assert bytes_before(INDEX, replace(TABLE, moved={"n_tup_ins": 50_000})) == 1_228_800
    assert bytes_before(replace(INDEX, bytes=None), TABLE) is None


def test_a_small_table_that_grew_without_more_rows_is_as_large_as_in_the_middle_of_the_window() -> None:  # fmt: skip
    branches = replace(SMALL, bytes=6 * 8192, bytes_before=2 * 8192, moved={"n_tup_upd": 900})
    assert table_blocks(replace(SHOP, relations=(branches,)), ("s", "code"), 1) == 4
    with_more = replace(branches, moved={"n_tup_ins": 100})
    assert table_blocks(replace(SHOP, relations=(with_more,)), ("s", "code"), 1) == 2


def test_plans_are_those_of_tables_as_large_as_when_the_window_began() -> None:
    """A session keeps a plan, whatever the table grows to."""
    grown = replace(SMALL, bytes_before=8192)
    before = at_the_beginning(replace(SHOP, relations=(replace(TABLE, bytes=None), grown, replace(INDEX, table="code"))))  # fmt: skip
    assert [x.bytes for x in before.relations] == [None, 8192, INDEX.bytes]


def test_rows_that_no_page_has_room_for_count() -> None:
    """Else a stranger's file could fill the disk."""
    liar = replace(TABLE, live_rows=10**12)
    assert data_twin_bytes(replace(TWIN, relations=(liar,)), 1) > 10**12


def test_caches_shrink_and_memory_of_an_operation_does_not() -> None:
    settings = (
        Setting("shared_buffers", "131072", "8kB"),
        Setting("work_mem", "4096", "kB"),
        Setting("effective_cache_size", None, "8kB"),
    )
    assert scaled_settings(settings, 0.5) == {"shared_buffers": "524288kB"}


def test_pages_with_dead_rows_and_pages_that_came_later_are_not_known_to_be_visible() -> None:
    vacuumed = replace(TABLE, pages=1000, all_visible_pages=1000, bytes=8192 * 1000, bytes_before=8192 * 1000)  # fmt: skip
    assert unseen(vacuumed, 8192) == Unseen(0, 0, 0)
    dead = replace(vacuumed, dead_rows=700, moved={"n_tup_upd": 200})
    assert unseen(dead, 8192).dead == pytest.approx(0.5)
    # Those of the window are of the time since it was vacuumed.
    again = replace(dead, moved={**dead.moved, "autovacuum_count": 1})
    assert unseen(again, 8192).dead == pytest.approx(0.7)
    assert unseen(replace(dead, all_visible_pages=800), 8192).told == pytest.approx(0.2)
    assert unseen(replace(vacuumed, bytes_before=8192 * 1250), 8192).behind == pytest.approx(0.2)
    never = replace(vacuumed, pages=0, all_visible_pages=0)
    assert unseen(never, 8192) == Unseen(0, 0, 1)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.63])
@pytest.mark.parametrize("updates", [200, 20_000])
def test_how_many_updates_are_hot_tells_on_how_many_pages_there_was_room(share: float, updates: int) -> None:  # fmt: skip
    """Each that finds no room leaves some on its page for the next one."""
    lot = np.random.default_rng(1)
    has_room = lot.random(5000) < share
    hot = 0
    for page in lot.integers(0, 5000, updates):
        hot += has_room[page]
        has_room[page] = True
    moved = {"n_tup_upd": updates, "n_tup_hot_upd": int(hot)}
    size = 8192 * 5000
    one = replace(TABLE, pages=5000, all_visible_pages=5000, bytes=size, bytes_before=size, moved=moved)  # fmt: skip
    assert unseen(one, 8192).dead == pytest.approx(share, abs=0.08)
