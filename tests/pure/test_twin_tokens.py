"""Do tokens keep what a planner needs of values, and nothing else?"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from ipaddress import ip_interface

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.twins.array_text import array_elements, array_text
from pgdrag.twins.json_tokens import JsonTokens
from pgdrag.twins.range_text import RangeText, read_range
from pgdrag.twins.tokens import (
    address_tokens,
    bytea_tokens,
    is_address,
    is_telling,
    length_tokens,
    moment_of,
    number_tokens,
    spread_tokens,
    text_tokens,
    time_tokens,
    uuid_form,
)

NOW = datetime(2026, 11, 25, 14, 30, tzinfo=UTC)
words = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


def rng() -> random.Random:
    return random.Random(1)


@given(st.sets(words))
def test_texts_keep_their_order_and_width(values: set[str]) -> None:
    ascending = sorted(values)
    tokens = text_tokens(ascending)
    assert list(tokens.values()) == sorted(tokens.values())
    assert len(set(tokens.values())) == len(values)


@given(st.sets(st.text(alphabet="abcXYZ019", min_size=6, max_size=12)))
def test_texts_of_some_width_keep_it(values: set[str]) -> None:
    assert all(len(value) == len(token) for value, token in text_tokens(sorted(values)).items())


def test_short_codes_keep_their_width() -> None:
    codes = sorted(f"{a}{b}" for a in "ABCDEFGH" for b in "MNOPQR")
    assert {len(token) for token in text_tokens(codes).values()} == {2}


def test_between_two_tokens_there_is_room_for_the_values_that_statistics_do_not_show() -> None:
    first, second, *_ = text_tokens([f"user{at:04}@example.org" for at in range(100)]).values()
    assert first[:5] < second[:5]


numbers = st.integers(-(2**31), 2**31 - 1)


@given(st.sets(numbers), st.randoms(use_true_random=False))
def test_whole_numbers_keep_order_sign_and_room(values: set[int], lot: random.Random) -> None:
    tokens = number_tokens(map(str, values), lot, largest=Decimal(2**31 - 1))
    found = [int(tokens[str(x)]) for x in sorted(values)]
    assert found == sorted(set(found))
    assert all((token > 0) == (x > 0) for x, token in zip(sorted(values), found, strict=True))
    assert all(abs(x) <= 2**31 - 1 for x in found) or -(2**31) in values


@given(st.sets(st.decimals(-1000, 1000, places=2)))
def test_decimals_keep_their_places(values: set[Decimal]) -> None:
    tokens = number_tokens((str(x) for x in values), rng())
    assert all(Decimal(t).as_tuple().exponent == Decimal(x).as_tuple().exponent for x, t in tokens.items())  # fmt: skip
    ordered = [Decimal(tokens[str(x)]) for x in sorted(values)]
    assert ordered == sorted(ordered)


def test_small_whole_numbers_are_their_own_tokens() -> None:
    assert number_tokens(["0", "1", "99", "-7"], rng()) == {x: x for x in ("0", "1", "99", "-7")}


def test_no_number_is_one_of_the_original() -> None:
    values = [str(x) for x in range(100, 400)]
    tokens = number_tokens(values, rng(), avoid=set(map(Decimal, values)))
    assert set(tokens.values()).isdisjoint(values)


def test_numbers_that_fill_their_type_still_fit() -> None:
    tokens = number_tokens(["32000", "32766", "32767"], rng(), largest=Decimal(32767))
    assert [int(tokens[x]) for x in ("32000", "32766", "32767")] == sorted(map(int, tokens.values()))  # fmt: skip
    assert max(map(int, tokens.values())) <= 32767


def test_numbers_of_many_digits_keep_their_order_and_become_others() -> None:
    values = ["-" + "8" * 60, "1" * 35 + ".25", "1" * 35 + ".75", "9" * 38]
    tokens = number_tokens(values, rng(), avoid=set(map(Decimal, values)))
    found = [Decimal(tokens[x]) for x in values]
    assert found == sorted(set(found))
    assert set(tokens.values()).isdisjoint(values)


def test_numbers_of_many_digits_that_fill_their_type_fit() -> None:
    values = [str(10**38 - 1 - at) for at in range(5)]
    tokens = number_tokens(values, rng(), largest=Decimal("9" * 38))
    assert len(set(tokens.values())) == 5
    assert all(len(x) <= 38 for x in tokens.values())


def test_a_number_that_is_too_long_has_no_token() -> None:
    assert number_tokens(["1" * 200, "NaN", "0"], rng()) == {"NaN": "NaN", "0": "0"}


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-05:00"])
def test_a_time_that_utc_does_not_have_is_none(text: str) -> None:
    assert moment_of(text) is None


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("10.0.0.1", True), ("10.0.0.0/8", True), ("fe80::1/64", True), ("unknown", False), ("10.0.0.0/255.0.0.0", False), ("10.0.0.1/33", False)],
)  # fmt: skip
def test_an_address_is_told_from_other_texts(text: str, is_one: bool) -> None:
    assert is_address(text) is is_one


def test_distances_of_numbers_change_by_a_fifth_at_most() -> None:
    tokens = number_tokens(["1000", "2000", "1000000"], rng())
    assert 998_000 <= int(tokens["1000000"]) - int(tokens["2000"]) <= 1_198_000


@given(st.sets(st.integers(0, 10**9) | st.decimals(0, 10**6, places=3)), st.randoms())
def test_lengths_keep_their_order_and_are_none_of_the_original(
    values: set[Decimal | int], lot: random.Random
) -> None:
    originals = {Decimal(x) for x in values}
    tokens = length_tokens([*map(str, values), "Infinity"], lot, avoid={x for x in originals if x > 99})  # fmt: skip
    found = [Decimal(tokens[str(x)]) for x in sorted(values)]
    assert found == sorted(found)
    assert all(x <= 99 or x not in originals for x in found)
    assert all(abs(token - x) <= Decimal("0.09") * x + 1 for x, token in zip(sorted(originals), found, strict=True))  # fmt: skip
    assert tokens["Infinity"] == "Infinity"


bounds = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(bounds, bounds, st.sampled_from(["[]", "[)", "(]", "()"]))
def test_a_range_is_read_as_it_was_written(lower: str | None, upper: str | None, ends: str) -> None:
    one = RangeText(lower, upper, ends)
    assert read_range(str(one)) == one


@pytest.mark.parametrize("text", ["empty", "[1,2", "1,2", "[1,2,3)", "{[1,2)}", ""])
def test_anything_else_is_no_range(text: str) -> None:
    assert read_range(text) is None


moments = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))


@given(st.sets(moments))
def test_times_keep_order_and_which_side_of_now_they_are(values: set[datetime]) -> None:
    texts = [x.isoformat(sep=" ") for x in sorted(values)]
    tokens = time_tokens(texts, rng(), now=NOW)
    found = [tokens[x] for x in texts]
    assert found == sorted(set(found))
    assert [x < "2026-11-25" for x in texts] == [x < "2000-01-01" for x in found]


@given(st.lists(st.integers(1, 86_000), min_size=1, max_size=200, unique=True))
def test_the_moment_of_the_capture_is_its_own_token(seconds: list[int]) -> None:
    """What happened before it on the day has room there, however many distances come together."""
    texts = [f"{datetime(2026, 11, 25) + timedelta(seconds=x)}" for x in sorted(seconds)]
    now = datetime(2026, 11, 25, 12, 30, tzinfo=UTC)
    tokens = time_tokens([*texts, "2026-11-25 12:30:00"], rng(), now=now)
    assert tokens["2026-11-25 12:30:00"] == "2000-01-01 12:30:00"
    for text in texts:
        assert (text < "2026-11-25 12:30") <= (tokens[text] < "2000-01-01 12:30:01"), text


def test_days_stay_days_and_today_is_today() -> None:
    tokens = time_tokens(["2026-11-25", "2026-11-24", "2026-11-25 00:00:00+00", "infinity", "9999-12-31"], rng(), now=NOW)  # fmt: skip
    assert tokens["2026-11-25"] == "2000-01-01"
    assert tokens["2026-11-24"] == "1999-12-31"
    assert tokens["2026-11-25 00:00:00+00"] == "2000-01-01 00:00:00+00"
    assert (tokens["infinity"], tokens["9999-12-31"]) == ("infinity", "9999-12-31")


def test_values_of_fixed_forms_keep_form_and_order() -> None:
    uuids = spread_tokens(["a", "b", "c"], rng(), uuid_form, 128)
    assert list(uuids.values()) == sorted(uuids.values())
    assert all([len(x) for x in token.split("-")] == [8, 4, 4, 4, 12] for token in uuids.values())
    assert [len(x) for x in bytea_tokens(["\\x", "\\x01", "\\x0102"]).values()] == [2, 4, 6]


def test_addresses_keep_their_order_and_masks_and_are_none_of_the_original() -> None:
    values = ["10.0.0.0/8", "11.0.0.0/8", *(f"10.1.{at}.0/24" for at in range(200)), "2001:db8::1"]
    tokens = address_tokens(values, rng(), avoid=values)
    assert len(set(tokens.values())) == len(values)
    assert set(tokens.values()).isdisjoint(values)
    assert all(x.partition("/")[2] == token.partition("/")[2] for x, token in tokens.items())
    networks = [ip_interface(tokens[x]) for x in values[2:-1]]
    assert [x.ip for x in networks] == sorted(x.ip for x in networks)


def test_documents_keep_their_shape_and_equal_parts_stay_equal() -> None:
    one = '{"name": "Alice Miller", "age": 37, "tags": ["red wine", "Alice Miller"], "paid": 1234.50, "ok": true}'
    two = '{"name": "Alice Miller", "extra": null}'
    tokens = JsonTokens([one, two], rng(), kept_keys={"name"})
    first, second = json.loads(tokens.of(one)), json.loads(tokens.of(two))
    assert first["name"] == second["name"] == next(x for x in first.values() if isinstance(x, list))[1]  # fmt: skip
    assert len(first["name"]) == len("Alice Miller")
    assert 37 in first.values()
    assert "Alice" not in tokens.of(one)
    assert "1234.5" not in tokens.of(one)


@given(st.lists(st.none() | st.text(alphabet=st.characters(codec="utf-8"))))
def test_an_array_is_read_as_it_was_written(elements: list[str | None]) -> None:
    assert array_elements(array_text(elements)) == elements


def test_an_array_of_several_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match="dimensions"):
        array_elements("{{1,2},{3,4}}")
    assert array_elements("[0:1]={a,NULL}") == ["a", None]


@pytest.mark.parametrize("value", ["", "GC", "USA", "99", "-1", "0.00", "true", "infinity", "9999-12-31", "----"])  # fmt: skip
def test_what_tells_nothing_is_not_searched_for(value: str) -> None:
    assert not is_telling(value)


@pytest.mark.parametrize("value", ["open", "1234", "12.50", "2026-11-25", "a@b.c"])
def test_what_tells_something_is_searched_for(value: str) -> None:
    assert is_telling(value)
