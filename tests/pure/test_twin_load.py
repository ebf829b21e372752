"""A twin's load without a server: what statements do with their parameters, which transactions there are, how scripts read."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.data_twin.load.calibration import Work, balanced, best_shares, work_of
from pgdrag.data_twin.load.conditions import Conditions, conditions
from pgdrag.data_twin.load.fresh import Fresh
from pgdrag.data_twin.load.links import linked
from pgdrag.data_twin.load.mix import Link, Loop, Step, TransactionType, mix_of
from pgdrag.data_twin.load.scripts import Sendable, script_of, with_variables
from pgdrag.data_twin.load.statements import Analysed, Table
from pgdrag.data_twin.load.texts import change_of, limits, refusal, sendable
from pgdrag.twins.fidelity import statement_key
from pgdrag.twins.mending import typed_texts
from pgdrag.twins.model import Activity, Constraint, Schema, Statement, Twin
from pgdrag.twins.transactions import LoggedTransactions, ParameterLink, Spread, TransactionShape
from pgdrag.twins.transactions import Loop as LoggedLoop
from pgdrag.twins.transactions import Step as LoggedStep
from twin_statements import called, twin_of


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("((o.w = $1) AND ($2 > o.id))", [(1, "=", "o.w"), (2, "<", "o.id")]),
        ("(lower((o.name)::text) = lower($1))", [(1, "=", "lower((o.name)::text)")]),
        ("((o.doc ->> $1) = $2)", [(2, "=", "(o.doc ->> $1)"), (1, "->>", "o.doc")]),
        ("(o.kind = ANY (ARRAY[$1, $2]))", [(1, "= ANY", "o.kind"), (2, "= ANY", "o.kind")]),
        ('((o."At" >= (now() - $1)) OR (NOT (o.a <> $2)))', [(1, ">=", 'o."At"'), (2, "<>", "o.a")]),
        ("((o.name)::text ~~ $1)", [(1, "~~", "(o.name)::text")]),
        ("(public.f($1) AND (1 = $2))", []),
    ],
)  # fmt: skip
def test_a_plan_says_which_columns_parameters_are_compared_with(
    condition: str, found: list[tuple[int, str, str]]
) -> None:
    plan = {"Node Type": "Seq Scan", "Schema": "s", "Relation Name": "orders", "Alias": "o", "Filter": condition}  # fmt: skip
    said = conditions(plan)
    assert [(x.parameter, x.operator, x.columns) for x in said.comparisons] == found
    assert said.tables == {"o": ("s", "orders")}


def test_a_plan_says_which_tables_belong_together() -> None:
    assert conditions({"Hash Cond": "(a.x = b.y)"}).joins == [("a.x", "b.y")]
    assert conditions({"Filter": "(a.x = a.y)"}).joins == []


def test_insert_and_update_say_which_columns_get_parameters() -> None:
    change = change_of('INSERT INTO s.t (a, "B") VALUES ($1, $2), ($3, $4 + 1) ON CONFLICT (a) DO UPDATE SET c = $5')  # fmt: skip
    assert (change.kind, change.table, change.has_conflict) == ("insert", ("s", "t"), True)
    assert [(x.parameter, x.column, x.row, x.is_plain, x.is_inserted) for x in change.assignments] == [
        (1, "a", 0, True, True), (2, "B", 0, True, True), (3, "a", 1, True, True), (4, "B", 1, False, True),
        (5, "c", 0, True, False),
    ]  # fmt: skip
    change = change_of("UPDATE t SET a = a + $1, (b, c) = ($2, $3) WHERE id = $4")
    assert [(x.parameter, x.column, x.is_plain) for x in change.assignments] == [
        (1, "a", False),
        (2, "b", True),
        (3, "c", True),
    ]


def test_rows_that_a_query_inserts_get_its_parameters() -> None:
    change = change_of("INSERT INTO t (a, b, c) SELECT $1, v + $2, $3::int FROM u WHERE k = $4")
    assert [(x.parameter, x.column, x.is_plain) for x in change.assignments] == [
        (1, "a", True),
        (2, "b", False),
        (3, "c", True),
    ]


@pytest.mark.parametrize(
    ("text", "returned"),
    [
        ("INSERT INTO t (a) VALUES ($1) RETURNING id, lower(x), \"At\"", ("id", "At")),
        ("INSERT INTO t VALUES ($1) ON CONFLICT (a) DO UPDATE SET b = $2 RETURNING *", ("*",)),
        ("INSERT INTO t VALUES ($1) ON CONFLICT DO NOTHING RETURNING id", ()),  # there may be no row
        ("INSERT INTO t VALUES ($1), ($2) RETURNING id", ()),
        ("INSERT INTO t SELECT $1 FROM u RETURNING id", ()),
    ],
)  # fmt: skip
def test_what_an_insert_of_one_row_returns_is_known(text: str, returned: tuple[str, ...]) -> None:
    assert change_of(text).returned == returned


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("SELECT CURRENT_TIMESTAMP, current_date - $1", "SELECT now(), now()::date - $1"),
        ("SELECT localtimestamp(3), t.current_date", "SELECT now()::timestamp(3), t.current_date"),
        ("SELECT 'current_date', \"current_date\"", "SELECT 'current_date', \"current_date\""),
    ],
)
def test_the_present_moment_comes_from_a_function_that_a_twin_can_have(text: str, sent: str) -> None:  # fmt: skip
    assert sendable(text) == sent
    assert statement_key(text) == statement_key(sent)


def test_a_sum_of_parameters_has_a_first_one() -> None:
    text = "INSERT INTO t VALUES ($1::date - $2::int, $3 + a, repeat($4, $5))"
    found = {x.parameter: (x.is_first, x.is_more) for x in change_of(text).assignments}
    assert found == {1: (True, False), 2: (False, True), 3: (False, False), 4: (False, False), 5: (False, False)}  # fmt: skip


def test_operands_without_a_type_may_have_been_numbers() -> None:
    text = "SELECT 1 FROM t WHERE a BETWEEN $1::date - $2::int - $3 AND ($4 + $5) % $6"
    first = next(typed_texts(text))
    assert first == "SELECT 1 FROM t WHERE a BETWEEN $1::date - $2::int - $3::integer AND ($4::integer + $5::integer) % $6"  # fmt: skip
    assert statement_key(first) == statement_key(text)
    assert [*typed_texts("SELECT $1 FROM t WHERE a = $2")] == []


def test_a_list_that_was_cut_short_is_sent_as_an_array() -> None:
    text = "SELECT 1 FROM t WHERE a IN ($1 /*, ... */) AND b NOT IN ($2 /*, ... */) LIMIT $3"
    assert sendable(text) == "SELECT 1 FROM t WHERE a = ANY ($1) AND b <> ALL ($2) LIMIT $3"
    assert limits(text) == {3: "limit"}


@pytest.mark.parametrize("text", ["SELECT 1; DROP TABLE t", "SELECT 1 \\shell id", "SELECT 'x :name'"])  # fmt: skip
def test_what_the_drivers_language_would_read_otherwise_is_not_sent(text: str) -> None:
    assert refusal(text)


PIECES = st.sampled_from(["$1", "$2", ":", "::int ", "[", "]", " a ", " ", "(", ")", "'x'", ","])


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_script_has_no_variables_but_the_statements_parameters(text: str) -> None:
    """As the driver finds them: a colon that no colon is before, and a name behind it."""
    sent = with_variables(text, {1: ":p1", 2: ":p2"}, ())
    found = re.findall(r"(?<!:):(\w+)", sent)
    assert found == [f"p{x[1:]}" for x in re.findall(r"\$\d", text)]
    assert re.sub(r":p(\d)", r"$\1", sent).replace(" ", "") == text.replace(" ", "")


def test_a_parameter_in_several_places_says_its_type() -> None:
    sent = with_variables("SELECT $1 IS NULL OR a = $1", {1: ":p1"}, ("character",))
    assert sent == "SELECT :p1::pg_catalog.bpchar IS NULL OR a = :p1::pg_catalog.bpchar"


# --- which transactions ---------------------------------------------------------------------


def control(text: str, calls: int, number: int) -> Statement:
    return replace(called(text, number=number, calls=calls), is_plannable=False)


READ, ADD, NOTE = "SELECT b FROM a WHERE a = $1", "UPDATE a SET b = b + $1 WHERE a = $2", "INSERT INTO h VALUES ($1)"  # fmt: skip


def calls_of(twin: Twin) -> dict[int, float]:
    """Return how often each statement runs, over all transactions."""
    found: dict[int, float] = {}
    for kind in mix_of(twin).types:
        for at, step in enumerate(kind.steps):
            rounds = 1.0
            for loop in kind.loops:
                if loop.first <= at <= loop.last:
                    rounds = sum(n * share for n, share in loop.repeats)
            found[step.statement] = found.get(step.statement, 0.0) + kind.weight * step.share * rounds  # fmt: skip
    return found


def test_statements_that_ran_equally_often_in_blocks_are_one_transaction() -> None:
    twin = twin_of(
        called(ADD, number=1, calls=1000), called(READ, number=2, calls=1000), called(NOTE, number=3, calls=999),
        control("BEGIN", 1000, 4), control("END", 1000, 5), called("SELECT 2 + $1", number=6, calls=300),
    )  # fmt: skip
    block, alone = mix_of(twin).types
    assert [x.statement for x in block.steps] == [2, 1, 3]
    assert (block.name, block.is_block) == ("s1 UPDATE a + 2", True)
    assert (alone.name, alone.is_block, alone.weight) == ("s6 SELECT", False, 300)


def test_without_begin_each_statement_is_a_transaction() -> None:
    twin = twin_of(called(ADD, number=1, calls=70), called(READ, number=2, calls=70))
    assert [(x.is_block, len(x.steps)) for x in mix_of(twin).types] == [(False, 1), (False, 1)]


def test_as_many_statements_as_transactions_are_left_for_single_ones_where_begin_is_not_counted() -> (
    None
):
    twin = twin_of(
        called(ADD, number=1, calls=1000), called(NOTE, number=2, calls=1000),
        called(READ, number=3, calls=500), called("SELECT 2 + $1", number=4, calls=300),
    )  # fmt: skip
    twin = replace(twin, activity=Activity(commits=1800))
    found = [
        (x.is_block, x.weight, [step.statement for step in x.steps]) for x in mix_of(twin).types
    ]
    assert found == [(True, 1000, [1, 2]), (False, 500, [3]), (False, 300, [4])]


@given(st.lists(st.integers(1, 30_000), min_size=1, max_size=6), st.integers(0, 3_000))
def test_each_statement_runs_as_often_as_it_did(calls: list[int], begins: int) -> None:
    statements = [called(f"SELECT {n} + $1", number=n, calls=x) for n, x in enumerate(calls, start=1)]  # fmt: skip
    commits = begins + sum(calls) // 3 if begins else sum(calls)
    twin = replace(twin_of(*statements, control("BEGIN", begins, 99)), activity=Activity(commits=commits))  # fmt: skip
    found = calls_of(twin)
    for one in statements:
        assert found[one.number] == pytest.approx(one.calls, rel=0.02, abs=3)


def test_a_log_says_order_loops_and_links() -> None:
    spread = Spread(1.0, (1.0,) * 8)
    shape = TransactionShape(
        1, (LoggedStep(2), LoggedStep(9), LoggedStep(1)), 40, spread, is_block=True,
        loops=(LoggedLoop(3, 3, ((5, 0.5), (7, 0.5))),),
        links=(ParameterLink(3, 2, "transaction", 1, 1, 1.0), ParameterLink(3, 1, "round", 3, 1, 1.0, differences=(1.0,))),
    )  # fmt: skip
    log = LoggedTransactions("csvlog", 60.0, 100, 40, shapes=(shape,))
    twin = replace(twin_of(called(ADD, number=1), called(READ, number=2)), transactions=log)
    [kind] = mix_of(twin).types
    assert kind.steps == (Step(2), Step(1))  # statement 9 is not known
    assert kind.loops == (Loop(1, 1, ((5, 0.5), (7, 0.5))),)
    assert kind.links == (Link(1, 2, 0, 1), Link(1, 1, 1, 1, is_of_round=True, differences=(1,)))


# --- scripts --------------------------------------------------------------------------------


def test_a_script_repeats_links_and_makes_new_keys() -> None:
    kind = TransactionType(
        "t", 1, (Step(2), Step(1, 0.25)), (Loop(1, 1, ((1, 0.5), (2, 0.5))),), (Link(1, 2, 0, 1),)
    )  # fmt: skip
    keys = [[Fresh(1, "number", 100)]]
    statements = {1: Sendable("INSERT INTO h VALUES ($1, $2)", ("integer", "integer"), "s1", keys), 2: Sendable(READ, ("integer",), "s2")}  # fmt: skip
    script = script_of(kind, statements)
    assert script.draws == [("s2", "s1_"), ("s1", "s2_"), ("s1", "s2r2_")]
    first, second = re.findall(r"INSERT INTO h VALUES \((.*)\)", script.text)
    assert (first, second) == (":s2_f1, :s1_p1", ":s2r2_f1, :s1_p1")
    assert "\\set s2_f1 100 + (:fresh * :clients + :client_id) * 1 + 0" in script.text
    assert script.text.count("\\if") == script.text.count("\\endif") == 3


def test_a_row_refers_to_the_one_that_was_inserted_before_it() -> None:
    """By the number that the server gave that, which is new, so that the row's key need not be."""
    parent, child = "INSERT INTO sale (at) VALUES ($1) RETURNING id", "INSERT INTO line SELECT $1, $2 FROM p WHERE a = $3"  # fmt: skip
    tables = {
        1: Table("s", "sale", ("id", "at"), {}, (("id",),), frozenset()),
        2: Table("s", "line", ("sale", "number"), {}, (("sale", "number"),), frozenset(["sale"])),
    }
    statements = {
        n: Analysed(n, text, ("int",) * 3, change_of(text), tables[n], Conditions(), {}, {}, called(text, number=n))
        for n, text in ((1, parent), (2, child))
    }  # fmt: skip
    foreign = Constraint("s", "line", "f", "f", "", ("sale",), ("s", "sale", ("id",)))
    twin = replace(twin_of(), schema=Schema(constraints=(foreign,)))
    kind = linked(TransactionType("t", 1, (Step(1), Step(2))), statements, twin)
    assert kind.links == (Link(1, 1, 0, 0, returned="id"),)
    keys = [[Fresh(2, "number", 100), Fresh(1, "number", 100)]]
    script = script_of(kind, {1: Sendable(parent, ("date",), "s1"), 2: Sendable(child, ("int",) * 3, "s2", keys)})  # fmt: skip
    first, second = (x for x in script.text.splitlines() if "INSERT" in x)
    assert first.endswith("RETURNING id \\gset s1_r_")
    assert second == "INSERT INTO line SELECT :s1_r_id, :s2_p2 FROM p WHERE a = :s2_p3;"


def test_a_transaction_of_which_nothing_can_be_sent_does_nothing() -> None:
    script = script_of(TransactionType("t", 1, (Step(1),)), {})
    assert (script.text, script.draws) == ("\\set nothing 0\n", [])


# --- shares ---------------------------------------------------------------------------------


def test_shares_hit_rows_and_blocks_where_strata_span_them() -> None:
    works = [Work(0, 2), Work(10, 12), Work(100, 400)]
    shares = best_shares(works, Work(7, 9), weighs_blocks=True, costs=[0, 0, 0])
    assert sum(shares) == pytest.approx(1)
    assert sum(x * w.rows for x, w in zip(shares, works, strict=True)) == pytest.approx(7)


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e6)), min_size=1, max_size=8),
    st.tuples(st.floats(0, 1e5), st.floats(0, 1e6)),
)
def test_rows_are_hit_where_any_shares_can(
    pairs: list[tuple[float, float]], target: tuple[float, float]
) -> None:
    works = [Work(*x) for x in pairs]
    shares = best_shares(works, Work(*target), weighs_blocks=False, costs=[0.0] * len(works))
    rows = sum(x * w.rows for x, w in zip(shares, works, strict=True))
    low, high = min(x.rows for x in works), max(x.rows for x in works)
    nearest = min(max(target[0], low), high)
    assert rows == pytest.approx(nearest, rel=0.02, abs=0.02)


def test_a_few_calls_take_on_average_what_they_should() -> None:
    """Of calls that take 10 to 10,000 blocks any seven in a row of the beginning, and not only all of them together."""
    executed = [((str(x),), Work(1, x)) for x in (10, 20, 40, 80, 160, 500, 2000, 3000, 4000, 10_000)]  # fmt: skip
    found = [work.blocks for _, work in balanced(executed, Work(1, 1000))]
    assert 7 <= len(found) == len(set(found)) < 10  # too many are above it
    for count in range(7, len(found) + 1):
        assert sum(found[:count]) / count == pytest.approx(1000, rel=0.05)


def test_rows_changed_are_told_where_explain_says_none_were_returned() -> None:
    fed = {"Node Type": "Index Scan", "Actual Rows": 3.0, "Actual Loops": 1, "Parent Relationship": "Outer"}  # fmt: skip
    plan = {"Node Type": "ModifyTable", "Actual Rows": 0.0, "Shared Hit Blocks": 5, "Shared Read Blocks": 2, "WAL Bytes": 90, "Plans": [fed]}  # fmt: skip
    assert work_of(plan) == Work(3, 7, 0, 90, 0)
