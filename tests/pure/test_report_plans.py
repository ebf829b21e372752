"""Plans and statements in the report: what changed, and for each transaction by how much."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis_runs import result, run_of, rung
from pgdrag.findings.find import find
from pgdrag.findings.plan_diff import PlanChanges
from pgdrag.findings.statement_diff import statement_changes
from pgdrag.findings.values import Findings
from pgdrag.model.recordings import Recordings, StatementPlan, StatementUse
from pgdrag.report.html import render_html
from pgdrag.report.markdown import render_markdown
from pgdrag.report.plan_text import plan_text
from pgdrag.report.story import story
from pgdrag.report.terminal import terminal_text

BY_INDEX = {
    "Node Type": "Index Scan",
    "Relation Name": "stock",
    "Alias": "stock",
    "Index Name": "stock_pkey",
    "Index Cond": "(s_i_id < 17)",
    "Total Cost": 8.44,
    "Plan Rows": 1,
}
WHOLE = {"Node Type": "Seq Scan", "Relation Name": "stock", "Alias": "stock", "Total Cost": 2500.0}
RAN = {**WHOLE, "Plan Rows": 1, "Actual Rows": 100_000, "Actual Loops": 1}
QUERY = "SELECT *\n  FROM stock WHERE s_i_id < $1"


def use(query: str, calls: int, exec_s: float, **more: int) -> StatementUse:
    counts = {"rows": 0, "blocks_hit": 0, "blocks_read": 0, "blocks_dirtied": 0}
    counts |= {"temp_blocks_written": 0, "wal_bytes": 0, **more}
    return StatementUse(query=query, calls=calls, exec_s=exec_s, plan_s=None, **counts)


def findings(
    *,
    is_changed: bool = True,
    missing: str = "",
    versions: tuple[str, str] = ("18.6", "18.6"),
) -> Findings:
    plan = StatementPlan(QUERY, BY_INDEX, BY_INDEX, transaction="stock_level")
    other = StatementPlan(QUERY, WHOLE, WHOLE, RAN, missing, transaction="stock_level")
    sides = (
        Recordings((plan, use("SELECT 1", 60_000, 6.0))),
        Recordings(
            (
                other if is_changed else plan,
                use("SELECT 1", 6000, 12.0, wal_bytes=6_000_000),
                use("SELECT 2", 1, 0.1),
            )
        ),
    )
    results = [
        replace(
            result(name, committed, number=number),
            recordings=recordings,
            server_version=version,
        )
        for number, (name, committed, recordings, version) in enumerate(
            zip(("A0", "A1"), (60_000, 6000), sides, versions, strict=True), start=1
        )
    ]
    return find(run_of([rung("A0"), rung("A1")], results))


def test_the_answer_counts_the_plans_that_another_version_makes() -> None:
    words = "PostgreSQL 18.6 plans 1 of 1 statement in another way than 15.18."
    assert words in findings(versions=("15.18", "18.6")).answer
    words = "PostgreSQL 18.6 plans none of 1 statement in another way than 15.18."
    assert words in findings(is_changed=False, versions=("15.18", "18.6")).answer
    assert "in another way" not in findings().answer


def test_a_changed_plan_is_told_everywhere() -> None:
    found = findings()
    (change,) = found.rungs[1].get(PlanChanges).changes
    words = "index scan of stock by stock_pkey → sequential scan of stock"
    assert change.words.startswith(words)
    assert "rows estimated 1, actual 100,000" in change.words
    sentence = f"1 statement has another plan than on A0: {words}."
    assert any(sentence in line for line in story(found))
    assert sentence in story(found, "A1")
    assert words in terminal_text(found, width=400)
    markdown = render_markdown(found)
    assert "Seq Scan on stock  (cost 2,500.00, rows 1)  (actual rows 100,000)" in markdown
    assert "FROM stock WHERE" in markdown


def test_the_same_plans_are_said_to_be_the_same() -> None:
    found = findings(is_changed=False)
    assert found.rungs[1].get(PlanChanges) is None
    assert "No plan changed on any rung." in render_markdown(found)
    assert not any("planned" in line for line in story(found))


def test_why_a_plan_is_not_there_is_in_the_report() -> None:
    assert "not run: it took more than 0.5 s" in render_markdown(
        findings(missing="not run: it took more than 0.5 s")
    )


def test_conditions_are_shown_as_text() -> None:
    page = render_html(findings())
    assert "<pre>Index Scan using stock_pkey on stock  (cost 8.44, rows 1)" in page
    assert "Index Cond: (s_i_id &lt; 17)" in page


def test_statements_are_told_for_each_transaction() -> None:
    markdown = render_markdown(findings())
    (row,) = re.findall(r"^\| SELECT 1 \|.*→.*$", markdown, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:4] == ["100 µs → 2 ms", "+1.9 ms", "1 → 1"]
    assert cells[6].endswith("→ 1,000 B")


def test_a_plan_is_text_with_what_each_node_says() -> None:
    inner = {"Node Type": "Seq Scan", "Relation Name": "item", "Alias": "i", "Actual Loops": 0}
    plan = {
        "Node Type": "Hash Join",
        "Join Type": "Left",
        "Hash Cond": "(a = b)",
        "Plan Rows": 3,
        "Total Cost": 12.5,
        "Shared Read Blocks": 1234,
        "JIT": {"Functions": 3},
        "Plans": [
            {"Node Type": "Aggregate", "Strategy": "Hashed", "Group Key": ["a", "b"]},
            inner,
        ],
    }
    assert plan_text(plan).splitlines() == [
        "Hash Join (left)  (cost 12.50, rows 3)",
        "  Hash Cond: (a = b)",
        "  Buffers: shared read blocks 1,234",
        "    Hashed Aggregate  (cost 0.00, rows 0)",
        "      Group Key: a, b",
        "    Seq Scan on item i  (cost 0.00, rows 0)  (never run)",
        "JIT: compiled",
    ]


# the differential table


def test_what_added_most_time_comes_first() -> None:
    before = [use("a", 10, 1.0), use("b", 10, 1.0), use("gone", 10, 1.0)]
    after = [use("a", 5, 1.0), use("b", 5, 5.0), use("new", 5, 2.0)]
    changes = statement_changes(before, 10, after, 5)
    assert [(x.query, pytest.approx(x.added_s)) for x in changes] == [
        ("b", 0.9),
        ("new", 0.4),
        ("a", 0.1),
        ("gone", -0.1),
    ]
    assert changes[1].before is None
    assert changes[3].after is None


USES = st.lists(
    st.builds(use, st.sampled_from("abc"), st.integers(1, 9), st.floats(0, 9)),
    unique_by=lambda one: one.query,
)


@given(USES, USES, st.integers(0, 3), st.integers(0, 3))
def test_what_was_added_turns_round_with_the_sides(
    one: list[StatementUse], other: list[StatementUse], first: int, second: int
) -> None:
    there = {x.query: x.added_s for x in statement_changes(one, first, other, second)}
    back = {x.query: -x.added_s for x in statement_changes(other, second, one, first)}
    assert there == back
