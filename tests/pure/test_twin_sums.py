"""What a parameter has to be, so that what is computed with it comes to a value: of whole numbers, computed by Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.data_twin.load.sums import in_range, is_range, is_sum, solved


@given(
    st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 99)), max_size=4),
    st.integers(0, 4),
    st.sampled_from("+-"),
    st.integers(-99, 99),
    st.booleans(),
)
def test_a_sum_comes_to_the_value(
    terms: list[tuple[str, int]], at: int, sign: str, wanted: int, is_nested: bool
) -> None:
    pieces = [f"{own} {number}" for own, number in terms]
    pieces.insert(min(at, len(pieces)), f"{sign} $3")
    # A sum begins with a term, not with a sign.
    text = "0 " + " ".join(pieces)
    if is_nested:
        text = f"(7 - ({text}))"
    found = eval(solved(3, text, str(wanted)))
    assert eval(text.replace("$3", f"({found})")) == wanted


@pytest.mark.parametrize("text", ["$1", "($1)::date", "lower($1)", "$1 * 2", "(now() - $2)"])
def test_what_is_in_no_sum_is_the_value_itself(text: str) -> None:
    assert solved(1, text, "wanted") == "wanted"


@pytest.mark.parametrize("text", ["$1 - $2", "((($3)::date - $1) - 7)", "now() - ($1 + $2)"])
def test_several_parameters_may_make_a_sum(text: str) -> None:
    assert is_sum(text)


@pytest.mark.parametrize("text", ["$1", "$1 - 7", "$1 + 2 * $2", "lower($1) + $2", "7 - 5"])
def test_a_product_and_what_has_one_parameter_is_no_such_sum(text: str) -> None:
    assert not is_sum(text)


def test_the_first_of_a_sum_makes_it_come_to_the_value() -> None:
    # Days: what the others are is 0.
    assert eval(solved(3, "((($3) - $1) - 7)", "20")) == 27


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("daterange($1, $2)", {1: 10, 2: 14}),
        ("pg_catalog.int4range($1, $2, $3)", {1: 10, 2: 14, 3: "'[)'"}),
        ("daterange((5 + $1), ((5 + $2) + $3))", {1: 5, 2: 5, 3: 4}),
        ("DATERANGE(5 + $1::integer, 5 + $2::integer)", {1: 5, 2: 9}),
        ("tsrange($1, ($1 + $2))", {1: 10, 2: 4}),
        ("tsrange(($1 - $2), $1)", {1: 14, 2: 4}),
    ],
)
def test_parameters_of_a_range_make_its_bounds(text: str, values: dict[int, object]) -> None:
    assert is_range(text)
    for number, value in values.items():
        found = in_range(number, text, "10", "14")
        assert (found if found == "'[)'" else eval(found.strip("'"))) == value


@pytest.mark.parametrize("text", ["circle($1, $2)", "int4range($1, $2) * int4range($3, $4)", "$1"])
def test_nothing_else_is_a_range(text: str) -> None:
    assert not is_range(text)
