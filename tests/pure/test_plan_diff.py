"""How one plan differs from another, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.findings.plan_diff import plan_changes, plan_diff
from pgdrag.findings.plan_nodes import misestimate, node_words
from pgdrag.model.recordings import StatementPlan

Node = dict[str, Any]


def node(kind: str, *below: Node, **more: Any) -> Node:
    found = {"Node Type": kind, "Plan Rows": 1, "Total Cost": 8.44, **more}
    return {**found, "Plans": list(below)} if below else found


def scan(table: str, index: str = "", kind: str = "", **more: Any) -> Node:
    named = {"Index Name": index} if index else {}
    kind = kind or ("Index Scan" if index else "Seq Scan")
    return node(kind, **{"Relation Name": table, "Alias": table, **named, **more})


def bitmap(table: str, *indexes: str, how: str = "BitmapAnd") -> Node:
    below = [node("Bitmap Index Scan", **{"Index Name": name}) for name in indexes]
    inner = below[0] if len(below) == 1 else node(how, *below)
    return node("Bitmap Heap Scan", inner, **{"Relation Name": table, "Alias": table})


STOCK, ITEM = scan("stock", "stock_pkey"), scan("item", "item_pkey")
WHOLE_STOCK = scan("stock", **{"Total Cost": 2500.0})
AWARE = {"Parallel Aware": True}


def test_a_lost_index_is_told_with_cost_and_rows() -> None:
    ran = {**WHOLE_STOCK, "Actual Rows": 100_000, "Actual Loops": 1}
    assert plan_diff(STOCK, WHOLE_STOCK, ran) == (
        "index scan of stock by stock_pkey → sequential scan of stock; cost 8.44 → 2,500;"
        " rows estimated 1, actual 100,000 (sequential scan of stock)"
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (STOCK, scan("stock", "other"), "index scan of stock by stock_pkey → index scan of stock by other"),
        (STOCK, bitmap("stock", "a", "b"), "index scan of stock by stock_pkey → bitmap scan of stock by a and b"),
        (WHOLE_STOCK, scan("stock", "i", "Index Only Scan"), "sequential scan of stock → index-only scan of stock by i"),
        (STOCK, scan("stock", "stock_pkey", **{"Scan Direction": "Backward"}), "index scan of stock by stock_pkey → backward index scan of stock by stock_pkey"),
        (bitmap("stock", "a"), bitmap("stock", "a", "a", how="BitmapOr"), "bitmap scan of stock by a → bitmap scan of stock by a (BitmapOr of 2)"),
        (WHOLE_STOCK, {**WHOLE_STOCK, **AWARE}, "sequential scan of stock → parallel sequential scan of stock"),
        (node("Hash Join", STOCK, ITEM), node("Hash Join", STOCK, ITEM, **AWARE), "hash join of stock with item → parallel hash join of stock with item"),
        (node("Append", STOCK, ITEM), node("Append", STOCK, ITEM, **AWARE), "Append → Parallel Append"),
        (STOCK, node("Sort", STOCK), "with Sort"),
        (node("Sort", STOCK), node("Incremental Sort", STOCK), "Sort → Incremental Sort"),
        (node("Append", STOCK, node("Sort", ITEM)), node("Append", node("Sort", STOCK), node("Sort", ITEM)), "with Sort"),
        (STOCK, {**STOCK, "JIT": {"Functions": 3}}, "with JIT compilation"),
        ({**STOCK, "JIT": {}}, STOCK, "without JIT compilation"),
        (node("Aggregate", STOCK, Strategy="Sorted"), node("Aggregate", STOCK, Strategy="Hashed"), "sorted aggregate → hashed aggregate"),
        (WHOLE_STOCK, node("Gather", WHOLE_STOCK, **{"Workers Planned": 2}), "parallel workers 0 → 2"),
        (node("Append", STOCK, ITEM), STOCK, "without index scan of item by item_pkey; without Append"),
        (node("ModifyTable", STOCK), node("ModifyTable", STOCK, node("Odd")), "with Odd"),
    ],
)  # fmt: skip
def test_what_changed_is_named(before: Node, after: Node, words: str) -> None:
    assert plan_diff(before, after).partition("; cost ")[0] == words


def test_joins_are_compared_by_the_tables_on_their_sides() -> None:
    loop = node("Nested Loop", STOCK, ITEM, **{"Join Type": "Inner"})
    turned = node("Nested Loop", ITEM, STOCK, **{"Join Type": "Inner"})
    hashed = node("Hash Join", STOCK, node("Hash", ITEM), **{"Join Type": "Left"})
    assert plan_diff(loop, hashed).startswith(
        "nested loop of stock with item → hash join (left) of stock with item; with Hash"
    )
    assert plan_diff(loop, turned).startswith(
        "nested loop of stock with item → nested loop of item with stock;"
    )


def test_another_order_of_joins_is_told_as_a_whole() -> None:
    lines = scan("order_line")

    def loop(outer: Node, inner: Node) -> Node:
        return node("Nested Loop", outer, inner)

    words = plan_diff(loop(loop(STOCK, ITEM), lines), loop(loop(STOCK, lines), ITEM))
    assert words.startswith(
        "nested loop of item and stock with order_line and nested loop of stock with item → "
    )


def test_of_a_table_that_is_read_twice_the_scan_that_changed_is_named() -> None:
    both, one = node("Append", STOCK, WHOLE_STOCK), node("Append", STOCK, STOCK)
    words = "sequential scan of stock → index scan of stock by stock_pkey"
    assert plan_diff(both, one).startswith(words)


def test_many_differences_are_counted() -> None:
    tables = [f"t{number}" for number in range(9)]
    before = node("Append", *(scan(table, "i") for table in tables))
    words = plan_diff(before, node("Append", *(scan(table) for table in tables)))
    assert words.count("→") == 4 + 1
    assert "5 more differences" in words


# estimates


def ran(
    kind: str, *below: Node, rows: float, estimated: float, loops: int = 1, **more: Any
) -> Node:
    seen = {"Actual Rows": rows, "Actual Loops": loops, "Plan Rows": estimated}
    return node(kind, *below, **{**seen, **more})


def test_the_worst_estimate_is_named() -> None:
    right = ran("Seq Scan", rows=100, estimated=90, Alias="a")
    wrong = ran("Seq Scan", rows=2, estimated=1000, **{"Relation Name": "order_line", "Alias": "o"})
    worst = misestimate(ran("Hash Join", right, wrong, rows=1, estimated=1))
    assert worst is not None
    assert worst.factor == 500
    assert worst.words == "rows estimated 1,000, actual 2 (sequential scan of order_line (o))"


@pytest.mark.parametrize(
    "plan",
    [
        ran("Seq Scan", rows=0, estimated=1, Alias="no row, and none fewer can be estimated"),
        ran("Seq Scan", rows=0, estimated=1000, loops=0, Alias="never run"),
        ran("Limit", ran("Seq Scan", rows=1, estimated=1000, Alias="a"), rows=1, estimated=1),
        node("Seq Scan", Alias="not analyzed"),
    ],
)
def test_what_says_nothing_of_an_estimate_is_none(plan: Node) -> None:
    assert misestimate(plan) is None


def test_more_rows_than_expected_below_a_limit_are_told() -> None:
    worst = misestimate(
        ran("Limit", ran("Seq Scan", rows=1000, estimated=1, Alias="a"), rows=1, estimated=1)
    )
    assert worst is not None
    assert worst.factor == 1000


# laws

KINDS = ["Seq Scan", "Index Scan", "Sort", "Nested Loop", "Hash Join", "Aggregate", "Result"]
NODES = st.recursive(
    st.builds(
        lambda kind, table, cost: scan(table, kind=kind, **{"Total Cost": cost}),
        st.sampled_from(["Seq Scan", "Index Scan"]),
        st.sampled_from(["stock", "item", "a'b"]),
        st.floats(0, 1e300),
    ),
    lambda below: st.builds(
        lambda kind, inner: node(kind, *inner),
        st.sampled_from(KINDS),
        st.lists(below, min_size=2, max_size=3),
    ),
    max_leaves=8,
)


@given(NODES)
def test_a_plan_does_not_differ_from_itself(plan: Node) -> None:
    assert plan_diff(plan, plan, plan) == ""


@given(NODES, st.floats(0, 1e300))
def test_costs_alone_are_no_difference(plan: Node, cost: float) -> None:
    assert plan_diff(plan, {**plan, "Total Cost": cost}) == ""


@given(NODES, NODES)
def test_a_difference_has_two_directions(one: Node, other: Node) -> None:
    assert bool(plan_diff(one, other)) == bool(plan_diff(other, one))


@given(NODES)
def test_every_node_has_a_name(plan: Node) -> None:
    assert node_words(plan)


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_an_estimate_is_off_by_the_same_factor_either_way(one: float, other: float) -> None:
    there, back = [
        misestimate(ran("Seq Scan", rows=a, estimated=b)) for a, b in ((one, other), (other, one))
    ]
    assert (there and there.factor) == (back and back.factor)


# statements


def test_a_statement_is_found_again_by_its_text() -> None:
    kept = StatementPlan("SELECT 1", STOCK, STOCK, transaction="a")
    lost = replace(kept, query="SELECT 2")
    gone = replace(kept, query="SELECT 3", generic=None, custom=None, missing="it took too long")
    changed = replace(lost, custom=WHOLE_STOCK)
    (change,) = plan_changes((kept, lost, kept), (kept, changed, gone))
    assert (change.transaction, change.query, change.kind) == ("a", "SELECT 2", "custom")
    (change,) = plan_changes((lost,), (replace(changed, generic=WHOLE_STOCK),))
    assert change.kind == "generic and custom"
    (change,) = plan_changes((lost,), (replace(lost, generic=WHOLE_STOCK),))
    assert change.kind == "generic"
    assert "sequential scan" in change.words
