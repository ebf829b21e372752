"""Which transactions book, since a query found no room taken, is told by how many rows all calls found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.data_twin.load.kinds import Loop, Step, TransactionType
from pgdrag.data_twin.load.outcomes import Outcomes, outcomes, with_outcome
from pgdrag.data_twin.load.scripts import Sendable
from pgdrag.data_twin.load.statements import Analysed, Conditions
from pgdrag.data_twin.load.texts import change_of
from twin_statements import called

LOOK = "SELECT 1 FROM stay WHERE room = $1 AND day = $2"


def kinds_of(*weights: float) -> list[TransactionType]:
    """Return transactions that run statement 1, and then one that the others do not."""
    return [
        TransactionType(f"t{at}", weight, (Step(1), Step(at)), knows_order=True)
        for at, weight in enumerate(weights, start=2)
    ]


def found(kinds: Sequence[TransactionType], *, rows: int, calls: int, text: str = LOOK) -> Outcomes:
    one = replace(called(text), calls=calls, rows=rows)
    known = Analysed(
        1, text, ("int4", "int4"), change_of(text), None, Conditions((), {}), {}, {}, one
    )
    return outcomes(kinds, {1: known}, at_once=5)


def test_a_query_finds_a_row_in_as_many_transactions_as_it_found_rows() -> None:
    assert found(kinds_of(7000, 3000), rows=3000, calls=10_000) == {1: {0: False, 1: True}}
    assert found(kinds_of(7000, 3000), rows=7000, calls=10_000) == {1: {0: True, 1: False}}
    # The log and the server's counters have nearly the same window.
    assert found(kinds_of(7000, 3000), rows=3030, calls=10_100) == {1: {0: False, 1: True}}
    assert found(kinds_of(5000, 3000, 2000), rows=5000, calls=10_000) == {}, "two may be as many"
    assert found(kinds_of(6000, 3000, 1000), rows=4000, calls=10_000) == {
        1: {0: False, 1: True, 2: True}
    }


@pytest.mark.parametrize(
    ("kinds", "rows", "calls"),
    [
        (kinds_of(7000, 3000), 4000, 10_000),
        (kinds_of(7000, 3000), 0, 10_000),
        (kinds_of(7000, 3000), 3000, 12_000),
        (kinds_of(70, 30), 30, 100),
        (kinds_of(10_000), 3000, 10_000),
        (kinds_of(*[1000.0 + x for x in range(60)]), 1000, 61_770),
        ([replace(x, knows_order=False) for x in kinds_of(7000, 3000)], 3000, 10_000),
        ([replace(x, loops=(Loop(0, 0, ((2, 1.0),)),)) for x in kinds_of(7000, 3000)], 3000, 10_000),
        ([replace(x, steps=(Step(1), Step(1))) for x in kinds_of(7000, 3000)], 3000, 10_000),
        ([replace(x, steps=(Step(1, 0.5), Step(2))) for x in kinds_of(7000, 3000)], 3000, 10_000),
    ],
    ids=["other rows", "no rows", "others call it", "few", "one kind", "many", "guessed", "loop", "twice", "not always"],
)  # fmt: skip
def test_no_outcome_is_guessed_where_chance_may_explain_the_counts(
    kinds: list[TransactionType], rows: int, calls: int
) -> None:
    assert found(kinds, rows=rows, calls=calls) == {}


def test_a_change_is_no_look() -> None:
    text = "UPDATE stay SET day = $2 WHERE room = $1"
    assert found(kinds_of(7000, 3000), rows=3000, calls=10_000, text=text) == {}


@given(
    st.lists(st.integers(1, 50_000), min_size=2, max_size=4),
    st.integers(0, 200_000),
    st.integers(-5, 5),
)
def test_those_that_find_a_row_are_as_many_as_the_rows(
    weights: list[int], rows: int, more: int
) -> None:
    calls = max(sum(weights) + more, 1)
    for finds in found(kinds_of(*weights), rows=min(rows, calls), calls=calls).values():
        finding = sum(weight for at, weight in enumerate(weights) if finds[at])
        assert 0 < finding < sum(weights)
        assert abs(finding - min(rows, calls)) <= 5 + 0.003 * sum(weights) + abs(more)


def test_it_leads_the_statements_before_it() -> None:
    one = Sendable(LOOK, ("int4", "int4"), "s1")
    there, none = (with_outcome(one, finds=x) for x in (True, False))
    assert (there.pool, there.is_in_turn, there.deviation) == ("s1found", False, math.inf)
    assert (none.pool, none.is_in_turn, none.deviation) == ("s1none", True, math.inf)
