"""Files of empty relations with the sizes of full ones, and B-trees that are high and empty."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from pgdrag.errors import ServerError
from pgdrag.planning.btree_height import btree_height
from pgdrag.planning.relation_files import GinCounts, Layout, WantedFile, first_pages, resize

SMALL = Layout(block_bytes=8192, segment_blocks=4)
META = bytes(8192)


def test_a_relation_has_as_many_segments_as_it_needs_and_takes_no_room(tmp_path: Path) -> None:
    first = tmp_path / "16384"
    first.write_bytes(b"")
    resize([WantedFile(first, 9)], SMALL)
    sizes = {path.name: path.stat().st_size // 8192 for path in tmp_path.iterdir()}
    assert sizes == {"16384": 4, "16384.1": 4, "16384.2": 1}
    assert not any(path.stat().st_blocks for path in tmp_path.iterdir())


def test_a_file_is_never_made_smaller(tmp_path: Path) -> None:
    first = tmp_path / "16384"
    first.write_bytes(bytes(3 * 8192))
    resize([WantedFile(first, 0, "gin")], SMALL)
    assert first.stat().st_size == 3 * 8192


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "16384"
    target.write_bytes(b"")
    link.symlink_to(target)
    with pytest.raises(OSError, match="16384"):
        resize([WantedFile(link, 1)], SMALL)
    assert target.stat().st_size == 0


def test_a_segment_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    for name in ("16384", "16384.1"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(FileExistsError):
        resize([WantedFile(tmp_path / "16384", 9)], SMALL)


def test_more_than_any_server_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="too large"):
        resize([WantedFile(tmp_path / "16384", 2**32)], Layout())


@pytest.mark.parametrize("height", [0, 1, 3])
def test_each_inner_page_of_a_btree_leads_to_the_next_and_the_last_to_an_empty_leaf(
    height: int,
) -> None:
    pages = dict(first_pages(WantedFile(Path(), 10, "btree", height), SMALL, META))
    assert struct.unpack("=IIII", pages.pop(32)) == (1, height, 1, height)
    assert sorted(pages) == [8192 * at for at in range(1, height + 2)]
    for number, page in ((at // 8192, pages[at]) for at in pages):
        lower, upper, special = struct.unpack_from("=HHH", page, 12)
        level, flags = struct.unpack_from("=IH", page, special + 8)
        assert level == height + 1 - number
        assert bool(flags & 2) is (number == 1)  # BTP_ROOT
        assert bool(flags & 1) is (level == 0)  # BTP_LEAF
        assert (lower - 24) // 4 == (0 if level == 0 else 1)
        if level:
            high, low = struct.unpack_from("=HH", page, upper)
            assert high << 16 | low == number + 1


def test_a_btree_is_no_higher_than_it_has_pages() -> None:
    pages = first_pages(WantedFile(Path(), 3, "btree", 9), SMALL, META)
    assert struct.unpack("=IIII", pages[32]) == (1, 1, 1, 1)


def test_a_brin_index_has_the_pages_of_a_range_map_that_its_table_needs() -> None:
    meta = bytearray(META)
    struct.pack_into("=II", meta, 32, 128, 1)
    wanted = WantedFile(Path(), 10, "brin", table_blocks=128 * 1360 + 1)
    assert struct.unpack("=II", first_pages(wanted, SMALL, bytes(meta))[32]) == (128, 2)


def test_a_gin_index_has_its_counts_where_they_are_known() -> None:
    wanted = WantedFile(Path(), 10, "gin", gin=GinCounts(10, 7, 2, 700))
    assert struct.unpack("=III4xq", first_pages(wanted, SMALL, META)[48]) == (10, 7, 2, 700)
    assert not first_pages(WantedFile(Path(), 10, "gin"), SMALL, META)


# Counted by pageinspect: (blocks, widths of the keys) and the level of the root.
COUNTED = {
    (2, (4,)): 0,  # one leaf
    (30, (4,)): 1,
    (2745, (4,)): 2,  # a million integers
    (276, (4,)): 1,  # 100,000 integers
}


@pytest.mark.parametrize(("known", "height"), COUNTED.items())
def test_height_follows_from_size_and_width(
    known: tuple[int, tuple[int, ...]], height: int
) -> None:
    blocks, widths = known
    assert btree_height(blocks, widths, block_bytes=8192) == height


def test_a_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "16384")
    with pytest.raises(OSError, match="regular"):
        resize([WantedFile(tmp_path / "16384", 1)], SMALL)
