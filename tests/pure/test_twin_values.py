"""Do made values keep to what statistics say, in order and in number?"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis.strategies import booleans, floats, integers, lists, sampled_from, text

from pgdrag.data_twin.combinations import distinct_combinations, ordered
from pgdrag.data_twin.domains import (
    Domain,
    Form,
    Wide,
    address_domain,
    number_domain,
    text_domain,
    time_domain,
    uuid_domain,
)
from pgdrag.data_twin.estimates import distinct_behind, expected_estimate
from pgdrag.data_twin.filling import fill_steps, moved_rows
from pgdrag.data_twin.ranges import Ranges, keep_apart, kept_apart
from pgdrag.data_twin.spreads import Wanted, arranged, order_correlation, spread
from pgdrag.twins.model import ColumnStatistics
from pgdrag.twins.range_text import read_range
from pgdrag.twins.tokens import uuid_form

TOKENS = lists(text("bdfgkmprtvx", min_size=3, max_size=12), min_size=2, max_size=8, unique=True)
COUNTS = lists(integers(1, 40), min_size=1, max_size=12)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@given(TOKENS, integers(1, 2000))
def test_texts_between_two_tokens_are_different_and_in_order(tokens: list[str], count: int) -> None:
    domain = text_domain(tokens, longest=0, width=10)
    ends = sorted(domain.code(x) or 0 for x in tokens)
    codes = domain.between(ends[0], ends[-1], count, Form())
    texts = domain.texts(np.array([ends[0], *codes, ends[-1]]), Form())
    assert len(codes) == count
    assert texts == sorted(set(texts))


@given(lists(integers(-(10**9), 10**9), min_size=2, max_size=6, unique=True), integers(1, 500))
def test_whole_numbers_between_two_stay_whole_and_are_as_many_as_there_is_room(
    numbers: list[int], count: int
) -> None:
    domain, decimals = number_domain(map(str, numbers))
    low, high = min(numbers), max(numbers)
    codes = domain.between(low, high, count, Form())
    found = [int(x) for x in domain.texts(codes, Form(decimals=decimals))]
    assert found == sorted(set(found))
    assert all(low < x < high for x in found)
    assert len(found) == min(count, high - low - 1)


@pytest.mark.parametrize(
    "domain",
    [
        uuid_domain([uuid_form(5), uuid_form(2**120)]),
        address_domain(["10.0.0.0/8", "2001:db8::1"]),
        time_domain(["1999-01-01", "2001-01-01"]),
    ],
)
def test_values_of_other_forms_are_different(domain: Domain) -> None:
    known = {
        "10.0.0.0/8": "2001:db8::1",
        uuid_form(5): uuid_form(2**120),
        "1999-01-01": "2001-01-01",
    }
    low, high = next((a, b) for x, y in known.items() if (a := domain.code(x)) is not None and (b := domain.code(y)) is not None)  # fmt: skip
    codes = domain.between(low, high, 300, Form())
    assert len(set(domain.texts(codes, Form()))) == 300


def test_values_in_a_toast_table_are_as_many_and_as_wide_as_wanted() -> None:
    domain = text_domain(["b" * 900, "k" * 900], longest=0, width=90, wide=Wide(0.8, 4000))
    codes = domain.between(domain.code("b" * 900) or 0, domain.code("k" * 900) or 0, 2000, Form())
    widths = [len(x) for x in domain.texts(codes, Form())]
    assert set(widths) == {900, 4000}
    assert 0.75 < widths.count(4000) / 2000 < 0.85


def test_a_short_type_has_no_more_values_than_there_are() -> None:
    domain = text_domain(["aa", "ac"], longest=2, width=2)
    assert domain.texts(domain.between(*codes_of(domain, "aa", "ac"), 50, Form()), Form()) == ["ab"]


def codes_of(domain: Domain, *tokens: str) -> list[int]:
    return [domain.code(x) or 0 for x in tokens]


@given(
    rows=integers(1, 3000),
    null_share=floats(0, 1),
    distinct=integers(1, 500),
    common=lists(integers(0, 1000), max_size=5, unique=True),
    bounds=lists(integers(0, 10**6), min_size=0, max_size=12),
    is_even=booleans(),
)
def test_a_spread_has_all_rows_and_no_more_values_than_wanted(
    rows: int, null_share: float, distinct: int, common: list[int], bounds: list[int], is_even: bool
) -> None:
    nulls = round(rows * null_share)
    domain, _ = number_domain(["0", "1000000"])
    shares = [0.9 / len(common) * (1 - null_share)] * len(common) if common else []
    wanted = Wanted(rows, nulls, distinct, common, shares, sorted(bounds), is_even=is_even)
    found = spread(wanted, domain, Form(), rng())
    assert found.rows == rows
    assert list(found.codes) == sorted(set(found.codes))
    assert (found.counts >= 0).all()
    assert len(found.codes) <= max(distinct, len(common), 1)


@given(integers(2, 400), lists(integers(0, 10**6), min_size=2, max_size=12, unique=True))
def test_a_unique_column_has_as_many_values_as_rows(rows: int, bounds: list[int]) -> None:
    domain, _ = number_domain(["0"])
    found = spread(Wanted(rows, 0, rows, bounds=sorted(bounds), is_unique=True), domain, Form(), rng())  # fmt: skip
    assert len(found.codes) == rows
    assert set(found.counts) == {1}


@given(lists(integers(0, 10**6), min_size=1, max_size=300, unique=True), integers(1, 400))
def test_a_foreign_key_has_only_values_of_its_table(parents: list[int], distinct: int) -> None:
    source = np.array(sorted(parents))
    domain, _ = number_domain(["0"])
    found = spread(Wanted(1000, 0, distinct, bounds=[0, 10**6]), domain, Form(), rng(), source)
    assert set(found.codes) <= set(parents)
    assert len(found.codes) == min(distinct, len(parents))


@settings(max_examples=20)
@given(floats(-1, 1), sampled_from([3, 100, 20_000]))
def test_rows_lie_so_that_analyze_finds_the_correlation(correlation: float, values: int) -> None:
    wanted = Wanted(20_000, 0, values, bounds=[0, 10**6])
    domain, _ = number_domain(["0"])
    found = arranged(spread(wanted, domain, Form(), rng()), correlation, rng())
    # Equal values count in the order of the table, so that few values never seem to lie the wrong way round.
    least = -1 + 2 / values**2
    assert order_correlation(found) == pytest.approx(max(correlation, least), abs=0.06)


@given(lists(COUNTS, min_size=2, max_size=3), integers(1, 500))
@example([[1, 13], [1, 1, 1, 1], [1, 1, 1, 1]], 1)
def test_no_combination_of_a_key_is_there_twice(counts: list[list[int]], rows: int) -> None:
    parts = [np.array(x) for x in counts]
    places, _ = distinct_combinations(parts, rows, rng())
    total = int(np.prod([len(x) for x in parts]))
    assert len({tuple(x) for x in places.tolist()}) == len(places) <= max(rows, 1) or len(places) == total  # fmt: skip
    assert all(place.max() < len(part) for place, part in zip(places.T, parts, strict=True))


def test_lines_lie_beneath_their_orders() -> None:
    """Each of 100 orders has line 1; those with line n have all lines before it."""
    lines = np.array([100, 90, 60, 20])
    places, _ = distinct_combinations([np.full(100, 3), lines], 270, rng())
    assert len(places) == 270
    by_order: dict[int, set[int]] = {}
    for order, line in places.tolist():
        by_order.setdefault(order, set()).add(line)
    assert len(by_order) == 100
    assert all(x == set(range(len(x))) for x in by_order.values())


def test_lines_begin_at_the_first_though_a_sample_has_seen_it_too_often() -> None:
    """Orders of 5 to 15 lines, of which ANALYZE says that a little more than all have a second one."""
    numbers = np.array(
        [1000, 1044, 995, 1000, 990, 910, 820, 730, 640, 550, 450, 360, 270, 180, 90]
    )
    places, _ = distinct_combinations([np.full(1000, 10), numbers], int(numbers.sum()), rng())
    orders, lines = np.unique(places[:, 0], return_counts=True)
    assert len(orders) == 1000
    assert (np.bincount(lines, minlength=16)[[5, 10, 15]] > 50).all()
    assert all(
        places[places[:, 0] == x, 1].max() == n - 1
        for x, n in zip(orders[:50], lines[:50], strict=True)
    )


def test_pages_with_room_are_in_all_parts_of_a_table() -> None:
    steps = fill_steps(2000 * 20 + 500, 2000, 23.0)
    assert [fill for fill, _ in steps] == [93, 88] * 8
    assert sum(number for _, number in steps) == 2000 * 20 + 500
    assert moved_rows(2000 * 20 + 500, 2000, 23.0) == 0


def test_rows_left_full_pages_where_these_lack_few_rows() -> None:
    """On a full page are 23 or 24 rows. Of 2,000 pages 1,100 lack one."""
    rows = round(2000 * 23.45 - 1100)
    assert fill_steps(rows, 2000, 23.45) == [(None, rows)]
    assert moved_rows(rows, 2000, 23.45) == pytest.approx(1100, rel=0.03)
    assert moved_rows(2000 * 23 - 100, 2000, 23.0) == 0  # the last page is seldom full


def test_a_table_in_the_order_of_its_key_is_found_to_be() -> None:
    first, second = (x.ravel() for x in np.indices((20, 500)))
    mixed = rng().permutation(10_000)
    order = ordered([first[mixed], second[mixed]], [1.0, 0.05], rng())
    assert (first[mixed][order] == first).all()
    assert (second[mixed][order] == second).all()


@given(integers(100_000, 5_000_000), floats(0.0005, 0.9), floats(0, 0.9))
def test_analyze_would_estimate_the_same_number_of_values(
    rows: int, share: float, common_share: float
) -> None:
    others = rows * (1 - common_share)
    true = max(share * others, 10.0)
    estimate = expected_estimate(true, rows=rows, sample=30_000, common=3, others=others)
    found = distinct_behind(estimate, rows=rows, sample=30_000, common=3, common_share=common_share)
    if estimate < 0.9 * rows and estimate > 10:
        again = expected_estimate(max(found - 3, 1), rows=rows, sample=30_000, common=3, others=others)  # fmt: skip
        assert again == pytest.approx(estimate, rel=0.02)


@given(integers(17, 5000), integers(2, 120), floats(0.12, 1.0))
def test_pages_are_as_full_as_the_size_asks_for(blocks: int, full: int, share: float) -> None:
    """Whole rows to a page: what is reckoned here is what heap_multi_insert does."""
    rows = max(round(blocks * min(full, full * share)), 1)
    taken, done = 0, 0
    for fill, number in fill_steps(rows, blocks, full):
        of_page = max(int(full * (fill or 100) / 100 + 1e-9), 1)
        taken += -(-number // of_page)
        done += number
    taken += round(moved_rows(rows, blocks, full) / full)
    assert done == rows
    if rows / blocks >= 1:
        assert taken == pytest.approx(blocks, rel=0.25, abs=3)


STAYS = ColumnStatistics(
    "s", "stay", "during", 2, False, "daterange", 0.0, 13, -1.0,
    range_bounds=("[2000-01-01,2000-01-03)", "[2000-02-01,2000-02-04)", "[2000-06-01,2000-07-01)"), range_lengths=("1", "2", "30"),
    empty_share=0.0,
)  # fmt: skip


@given(integers(1, 400), integers(1, 40), integers(0, 1000))
def test_ranges_of_one_room_do_not_overlap(rows: int, rooms: int, seed: int) -> None:
    lot = np.random.default_rng(seed)
    ranges = Ranges(replace(STAYS, range_bounds=(*STAYS.range_bounds, "[2000-07-01,)")), "daterange")  # fmt: skip
    codes, of_rooms = ranges.draw(rows, lot), lot.integers(0, rooms, rows)
    dealt = keep_apart(ranges, codes, of_rooms, lot)
    assert sorted(dealt) == sorted(codes)
    for room in range(rooms):
        own = sorted(zip(ranges.lows[dealt[of_rooms == room]].tolist(), ranges.highs[dealt[of_rooms == room]].tolist(), strict=True))  # fmt: skip
        assert all(low < high for low, high in own)
        assert all(high <= low for (_, high), (low, _) in pairwise(own))


@given(integers(1, 400), integers(1, 40), integers(0, 1000))
def test_ranges_that_are_moved_apart_end_no_later_than_any_did(rows: int, rooms: int, seed: int) -> None:  # fmt: skip
    """Where the histogram of ranges ends decides about plans for times behind it."""
    lot = np.random.default_rng(seed)
    ranges = Ranges(STAYS, "daterange")
    codes, of_rooms = ranges.draw(rows, lot), lot.integers(0, rooms, rows)
    latest = ranges.highs[codes].max()
    lengths = sorted((ranges.highs - ranges.lows)[codes].tolist())
    dealt = keep_apart(ranges, codes, of_rooms, lot)
    assert ranges.highs[dealt].max() <= latest
    assert sorted((ranges.highs - ranges.lows)[dealt].tolist()) == lengths


def test_ranges_begin_where_and_are_as_long_as_their_statistics_tell() -> None:
    ranges = Ranges(replace(STAYS, empty_share=0.2), "daterange")
    texts = ranges.texts(ranges.draw(1000, rng()), Form())
    known = [x for text in texts if (x := read_range(text)) is not None]
    assert texts.count("empty") == 200
    days = [date.fromisoformat(x.upper or "") - date.fromisoformat(x.lower or "") for x in known]
    assert sorted(x.days for x in days)[len(days) // 2] == 2
    assert 0.45 < sum(x.lower < "2000-02-01" for x in known if x.lower) / len(known) < 0.55


@pytest.mark.parametrize(
    ("definition", "found"),
    [
        ("EXCLUDE USING gist (room WITH =, during WITH &&) WHERE ((state <> 'x'::text))", (("room",), "during")),
        ('EXCLUDE USING gist ("Room" gist_int4_ops WITH =, during WITH &&)', (("Room",), "during")),
        ("EXCLUDE USING gist (during WITH &&)", ((), "during")),
        ("EXCLUDE USING gist (lower(a) WITH =, during WITH &&)", None),
        ("EXCLUDE USING btree (a WITH =)", None),
    ],
)  # fmt: skip
def test_what_keeps_ranges_apart_is_read(definition: str, found: object) -> None:
    assert kept_apart("x", definition, ()) == found
    key = "PRIMARY KEY (id, valid WITHOUT OVERLAPS)"
    assert kept_apart("p", key, ("id", "valid")) == (("id",), "valid")
