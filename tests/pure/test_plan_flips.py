"""Which change makes a plan another one: alone, together, or one of several that each would."""

from __future__ import annotations

from collections.abc import Callable

from pgdrag.findings.plan_flips import (
    ExplainedStatement,
    PlanFlips,
    PlannedChange,
    Subset,
    find_flips,
)
from pgdrag.model.recordings import Plan

WHOLE: Plan = {"Node Type": "Seq Scan", "Relation Name": "stock", "Total Cost": 100.0}
INDEX: Plan = {
    "Node Type": "Index Scan",
    "Relation Name": "stock",
    "Index Name": "i",
    "Total Cost": 8.0,
}
BITMAP: Plan = {**WHOLE, "Node Type": "Bitmap Heap Scan"}
A, B, C = (PlannedChange(name, "1", "2") for name in "ABC")


def statement(number: int, share: float = 0.1) -> ExplainedStatement:
    return ExplainedStatement(number, f"SELECT {number}", 10, 1.0, share)


def flips(plan: Callable[[Subset], Plan | str], *changes: PlannedChange) -> PlanFlips:
    return find_flips([statement(1)], changes, lambda _, subset: plan(subset))


def guilt(found: PlanFlips) -> list[tuple[str, bool, bool]]:
    [flip] = found.flips
    return [(x.change.name, x.is_enough, x.is_needed) for x in flip.guilty]


def test_one_change_of_three_is_guilty() -> None:
    found = flips(lambda some: INDEX if 1 in some else WHOLE, A, B, C)
    assert guilt(found) == [("B", True, True)]
    assert found.flips[0].words.startswith("sequential scan of stock → index scan of stock by i")


def test_partners_are_needed_and_not_enough() -> None:
    found = flips(lambda some: INDEX if {0, 2} <= some else WHOLE, A, B, C)
    assert guilt(found) == [("A", False, True), ("C", False, True)]
    assert {x.words for x in found.flips[0].guilty} == {"together with others"}


def test_either_of_two_is_enough_and_not_needed() -> None:
    found = flips(lambda some: INDEX if some & {0, 2} else WHOLE, A, B, C)
    assert guilt(found) == [("A", True, False), ("C", True, False)]


def test_a_group_is_found_where_no_change_is_enough_or_needed() -> None:
    # Any two of three do it.
    found = flips(lambda some: INDEX if len(some) >= 2 else WHOLE, A, B, C)
    assert guilt(found) == [("B", False, False), ("C", False, False)]


def test_what_one_change_does_and_another_takes_back_is_no_flip() -> None:
    found = flips(lambda some: INDEX if some == {0} else WHOLE, A, B)
    assert (found.flips, found.unchanged) == ((), 1)


def test_another_cost_is_no_other_plan() -> None:
    found = flips(lambda some: {**WHOLE, "Total Cost": 100.0 + len(some)}, A)
    assert (found.flips, found.unchanged) == ((), 1)


def test_statements_without_a_plan_are_listed_with_the_reason() -> None:
    found = flips(lambda _: 'relation "x" does not exist', A)
    [one] = found.unplanned
    assert (found.flips, found.unchanged, one.reason) == ((), 0, 'relation "x" does not exist')
    found = flips(lambda some: "no such function" if some else WHOLE, A)
    assert found.unplanned[0].reason == "only with the changes: no such function"
    assert found.lost == found.unplanned


def test_one_that_never_had_a_plan_has_lost_none() -> None:
    assert flips(lambda _: "no such function", A).lost == ()


def test_a_partial_subset_without_a_plan_is_neither_alike_nor_an_error() -> None:
    found = flips(
        lambda some: "refused" if some == {0} else INDEX if len(some) == 2 else WHOLE, A, B
    )
    assert guilt(found) == [("A", True, True), ("B", False, True)]


def test_statements_come_by_their_share_of_the_load() -> None:
    found = find_flips(
        [statement(1, 0.1), statement(2, 0.5), statement(3, 0.4)],
        [A],
        lambda number, some: (INDEX if number != 3 else BITMAP) if some else WHOLE,
    )
    assert [x.statement.number for x in found.flips] == [2, 3, 1]
    assert found.flipped_share == 1.0
