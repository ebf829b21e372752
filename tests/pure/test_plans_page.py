"""The answer of `pgdrag plans` for a terminal, a browser and a program."""

from __future__ import annotations

import json
from dataclasses import replace

from pgdrag.findings.plan_flips import (
    ExplainedStatement,
    GuiltyChange,
    PlanFlip,
    PlanFlips,
    PlannedChange,
    TwinPlans,
    Unplanned,
)
from pgdrag.report.plans_page import plans_blocks, render_plans_html, render_plans_json
from pgdrag.report.terminal import blocks_as_text

LINE = PlannedChange("random_page_cost", "4 (default)", "1.1", "my.conf:12")
OTHER = PlannedChange("work_mem", "4 MB (default)", "64 MB", "my.conf:13")
STATEMENT = ExplainedStatement(1, "SELECT *\n  FROM orders <b> WHERE id = $1", 1000, 2.5, 0.25)
FLIP = PlanFlip(
    STATEMENT,
    {"Node Type": "Seq Scan", "Relation Name": "orders", "Total Cost": 5000.0},
    {"Node Type": "Index Scan", "Relation Name": "orders", "Index Name": "k", "Total Cost": 50.0},
    "sequential scan of orders → index scan of orders by k; cost 5,000 → 50",
    (GuiltyChange(LINE, is_enough=True, is_needed=True),),
)
FLIPS = PlanFlips(
    (LINE, OTHER), (FLIP,), 41, (Unplanned(replace(STATEMENT, text="SELECT x"), "no such column"),)
)
FOUND = TwinPlans(
    "shop.twin",
    "2026-11-25",
    "18.6",
    "PostgreSQL 18.6 as captured",
    "my.conf",
    FLIPS,
    same=("jit",),
    not_read=("shared_buffers",),
    utilities=3,
    notes=("extension postgis is not here",),
)


def words(found: TwinPlans) -> str:
    return " ".join(blocks_as_text(plans_blocks(found)).split())


def test_the_verdict_comes_first_and_then_the_guilty_lines() -> None:
    text = words(FOUND)
    verdict = "1 of 42 statements, 25 % of the load, are planned in another way with my.conf than with PostgreSQL 18.6 as captured."
    assert text.startswith(verdict)
    assert "random_page_cost 4 (default) 1.1 1 1 25 %" in text
    assert "no plan changes because of: work_mem" in text
    assert "As in the original: jit." in text
    assert "Not read by the planner: shared_buffers." in text


def test_the_verdict_counts_statements_without_a_plan() -> None:
    assert "captured. 1 statement has no plan here." in words(FOUND)
    lost = tuple(replace(x, is_lost=True) for x in FLIPS.unplanned)
    found = replace(FOUND, flips=replace(FLIPS, flips=(), unplanned=lost))
    assert words(found).startswith(
        "41 statements with a plan of the same form. 1 statement has no plan with my.conf."
    )


def test_a_statement_has_its_load_its_cost_and_what_is_guilty() -> None:
    text = words(FOUND)
    assert "25 % of the load 1,000 calls of 2.5 ms" in text
    assert "expected cost 5,000 → 50" in text
    assert "guilty: random_page_cost (alone)" in text
    assert "SELECT x: no such column" in text
    assert "3 statements of a kind that has no plan" in text
    assert "Extension postgis is not here." in text


def test_without_another_plan_it_says_so_and_no_more() -> None:
    found = replace(FOUND, flips=replace(FLIPS, flips=(), unplanned=()))
    assert words(found).startswith(
        "No plan changes: all 41 statements keep the form of their plan."
    )
    assert "slower" not in words(found)
    found = replace(FOUND, flips=PlanFlips((), (), 42, ()))
    assert words(found).startswith("Nothing that the planner reads differs from the original.")


def test_the_page_has_both_plans_and_escapes_statements() -> None:
    page = render_plans_html(FOUND)
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "Seq Scan on orders" in page
    assert "Index Scan using k on orders" in page


def test_json_has_everything() -> None:
    found = json.loads(render_plans_json(FOUND))
    assert (found["pgdrag_plans"], found["flipped_share"]) == (1, 0.25)
    [flip] = found["flips"]["flips"]
    assert flip["before"]["Node Type"] == "Seq Scan"
    assert flip["guilty"][0]["change"]["place"] == "my.conf:12"
    assert flip["statement"]["text"] == STATEMENT.text
