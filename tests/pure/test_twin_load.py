"""A twin's load without a server: what statements do with their parameters, which transactions there are, how scripts read."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.data_twin.load.conditions import Conditions, conditions
from pgdrag.data_twin.load.constants import Home, homes, session_constants
from pgdrag.data_twin.load.fresh import Fresh
from pgdrag.data_twin.load.kinds import Constant, Link, Loop, Part, Step, TransactionType
from pgdrag.data_twin.load.leading import with_leading_steps
from pgdrag.data_twin.load.links import (
    Foreign,
    agreeing,
    alike_in_a_call,
    belonging,
    foreign_keys,
    linked,
    most_absent,
)
from pgdrag.data_twin.load.mix import mix_of
from pgdrag.data_twin.load.owned import OwnedRows, homes_of_owned, owned_rows, with_owned
from pgdrag.data_twin.load.pending_lists import listed_share
from pgdrag.data_twin.load.scripts import (
    Draw,
    Sendable,
    counters_of,
    script_of,
    with_variables,
)
from pgdrag.data_twin.load.statements import Analysed, Result, Root, Table
from pgdrag.data_twin.load.texts import (
    change_of,
    limits,
    refusal,
    sendable,
    unnested,
    with_constants,
    with_types,
)
from pgdrag.data_twin.load.work import Work, balanced, best_shares, work_of
from pgdrag.twins.fidelity import statement_key
from pgdrag.twins.mending import typed_texts
from pgdrag.twins.model import Activity, Constraint, Index, Relation, Schema, Statement, Twin
from pgdrag.twins.transactions import (
    LoggedStatement,
    LoggedTransactions,
    Parameter,
    ParameterLink,
    Spread,
    TransactionShape,
)
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
        ("((o.w = $1) AND (ROW($2, $3) > ROW(o.at, o.id)))", [(1, "=", "o.w"), (2, "<", "o.at"), (3, "ROW <", "o.id")]),
    ],
)  # fmt: skip
def test_a_plan_says_which_columns_parameters_are_compared_with(
    condition: str, found: list[tuple[int, str, str]]
) -> None:
    plan = {"Node Type": "Seq Scan", "Schema": "s", "Relation Name": "orders", "Alias": "o", "Filter": condition}  # fmt: skip
    said = conditions(plan)
    assert [(x.parameter, x.operator, x.columns) for x in said.comparisons] == found
    assert said.tables == {"o": ("s", "orders")}


def test_what_is_computed_has_a_first_parameter_and_may_have_a_divisor() -> None:
    found = change_of("INSERT INTO t (a, b, c) VALUES ($1, ($2 + $3) % $4, $5 - $6)").assignments
    assert [x.parameter for x in found if x.is_leading] == [2]
    assert [x.parameter for x in found if x.is_divisor] == [4]
    assert [x.parameter for x in found if x.is_plain or x.is_first] == [1, 5]


def test_a_call_in_from_is_what_its_column_is_compared_with() -> None:
    call = {
        "Node Type": "Function Scan",
        "Alias": "q",
        "Output": ["q.q"],
        "Function Call": "plainto_tsquery($2)",
    }
    scan = {"Node Type": "Seq Scan", "Schema": "s", "Relation Name": "note", "Alias": "n"}
    plan = {"Node Type": "Nested Loop", "Join Filter": "((n.words @@ q.q) AND (n.q <> aq.q.q))", "Plans": [scan, call]}  # fmt: skip
    [found] = conditions(plan).comparisons
    assert (found.parameter, found.operator, found.value, found.columns) == (2, "@@", "plainto_tsquery($2)", "n.words")  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "fixed"),
    [
        ("((o.a = $1) AND (o.ended IS NULL))", [("o", "(o.ended IS NULL)")]),
        ("((o.ended IS NULL) AND (NOT o.is_old))", [("o", "(o.ended IS NULL)"), ("o", "(NOT o.is_old)")]),
        ("((o.a IS NULL) OR (o.b IS NULL))", [("o", "(o.a IS NULL) OR (o.b IS NULL)")]),
        ("((o.a IS NULL) OR (o.b = $1))", []),
        ("((o.a = p.b) AND (o.at < now()))", [("o", "(o.at < now())")]),
        ("(NOT (ANY (o.a = (hashed SubPlan 1).col1)))", []),
        ("o.is_open", [("o", "o.is_open")]),
    ],
)  # fmt: skip
def test_a_plan_says_what_is_asked_of_rows_besides(
    condition: str, fixed: list[tuple[str, str]]
) -> None:
    assert conditions({"Filter": condition}).fixed == fixed
    assert conditions({"Join Filter": condition}).fixed == []


def test_an_array_whose_entries_are_rows_is_a_list_of_what_they_are_compared_with() -> None:
    arrays = unnested("SELECT * FROM bike b JOIN unnest($1::uuid[], $2) AS u(i, l) ON b.id = u.i")
    assert arrays == {"u.i": 1, "i": 1, "u.l": 2, "l": 2}
    bike = {"Node Type": "Index Scan", "Schema": "s", "Relation Name": "bike", "Alias": "b", "Index Cond": "(b.id = u.i)"}  # fmt: skip
    [found] = conditions(bike, arrays).comparisons
    assert (found.parameter, found.operator, found.value, found.columns) == (1, "= ANY", "$1", "b.id")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("UPDATE bike AS b SET battery = u.l FROM unnest($1::uuid[], $2::real[]) AS u(i, l) WHERE b.id = u.i", [(2, "battery")]),
        ("INSERT INTO t (a, b, c) SELECT u.x, $1, y FROM unnest($2::int[], $3::numeric(8,2)[]) WITH ORDINALITY u (x, y, n)", [(2, "a"), (3, "c")]),
        ("INSERT INTO t (a) SELECT i FROM unnest($1) AS i", [(1, "a")]),
        ('INSERT INTO t (a, b) SELECT unnest($1::int[]), pg_catalog.unnest($2::"Kind"[])', [(1, "a"), (2, "b")]),
        ("INSERT INTO t (a) SELECT u.x + 1 FROM unnest($1::int[]) AS u(x)", []),
    ],
)  # fmt: skip
def test_an_array_may_have_the_value_of_each_row(text: str, found: list[tuple[int, str]]) -> None:
    lists = [x for x in change_of(text).assignments if x.is_list]
    assert [(x.parameter, x.column) for x in lists] == found
    assert not any(x.is_plain for x in lists)


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
    text = (
        "SELECT 1 FROM t WHERE a BETWEEN $1::date - $2::int - $3 AND ($4 + $5) % $6 OR b = $7 * $8"
    )
    first = next(typed_texts(text))
    assert first == "SELECT 1 FROM t WHERE a BETWEEN $1::date - $2::int - $3::integer AND ($4::integer + $5::integer) % $6::integer OR b = $7::integer * $8::integer"  # fmt: skip
    assert statement_key(first) == statement_key(text)
    assert [*typed_texts("SELECT $1 FROM t WHERE a = $2")] == []


def test_what_a_log_tells_to_be_a_constant_is_one_in_the_text() -> None:
    text = "SELECT a FROM t WHERE b = $1 AND state IN ($2 /*, ... */) AND kind <> $3 LIMIT $4"
    told = (("other", "{e3,e2}"), ("text", "it's"), ("number", "5"))
    constants = [
        Parameter(n, kind, 9, 0.0, 1, (1.0, 1.0, 1.0), 0.0, common=((value, 1.0),), is_constant=True)
        for n, (kind, value) in enumerate(told, start=2)
    ]  # fmt: skip
    assert with_constants(text, constants) == "SELECT a FROM t WHERE b = $1 AND state IN ('e3', 'e2') AND kind <> 'it''s' LIMIT 5"  # fmt: skip
    assert with_constants(text, [replace(x, is_constant=False) for x in constants]) == text


def test_a_statement_says_the_types_of_numbers_where_it_says_none() -> None:
    found = with_types("SELECT $1, $2::bigint FROM t WHERE a = $3", dict.fromkeys((1, 2, 3), "numeric"))  # fmt: skip
    assert found == "SELECT $1::numeric, $2::bigint FROM t WHERE a = $3::numeric"


def test_a_list_that_was_cut_short_is_sent_as_an_array() -> None:
    text = "SELECT 1 FROM t WHERE a IN ($1 /*, ... */) AND b NOT IN ($2 /*, ... */) LIMIT $3"
    assert sendable(text) == "SELECT 1 FROM t WHERE a = ANY ($1) AND b <> ALL ($2) LIMIT $3"
    assert limits(text) == {3: "limit"}
    of_each = "SELECT FROM a, LATERAL (SELECT t FROM b WHERE b.x = a.x LIMIT $1) AS l LIMIT $2 OFFSET $3"  # fmt: skip
    assert limits(of_each) == {1: "inner", 2: "limit", 3: "offset"}
    # As many as that removes, this removes.
    assert limits("DELETE FROM a WHERE x IN (SELECT x FROM a LIMIT $1)") == {1: "limit"}


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


@pytest.mark.parametrize(
    ("idle_s", "median_age_s", "pause_s"),
    [(16.0, 1.0, 0.004), (1.6, 1.0, None), (600.0, 0.01, 0.005), (0.0, 0.0, None)],
)
def test_without_a_log_each_pause_in_a_transaction_is_as_long_as_on_average(
    idle_s: float, median_age_s: float, pause_s: float | None
) -> None:
    """A thousand blocks of three statements have four thousand pauses; a session that stood still for ten minutes has none."""
    ages = (0.0, 0.0, *(median_age_s,) * 4)
    twin = twin_of(
        called(ADD, number=1, calls=1000), called(READ, number=2, calls=1000), called(NOTE, number=3, calls=1000),
        control("BEGIN", 1000, 4), control("END", 1000, 5), called("SELECT 2 + $1", number=6, calls=300),
    )  # fmt: skip
    activity = Activity(idle_in_transaction_s=idle_s, transaction_ages_s=ages)
    block, alone = mix_of(replace(twin, activity=activity)).types
    expected = () if pause_s is None else pytest.approx((pause_s,) * 8)
    assert [x.pause_s for x in block.steps] == [expected] * 3
    assert (block.last_pause_s, alone.steps[0].pause_s) == (expected, ())


def test_two_transactions_of_nearly_as_many_calls_stay_two() -> None:
    """Of New-Order and Payment of TPC-C there are almost as many."""
    twin = twin_of(
        called(ADD, number=1, calls=5900), called(READ, number=2, calls=5901),
        called(NOTE, number=3, calls=5800), called("SELECT 2 + $1", number=4, calls=5801),
        called("SELECT 3 + $1", number=5, calls=5790),  # some end before it
        control("BEGIN", 11_701, 6), control("END", 11_701, 7),
    )  # fmt: skip
    found = sorted([x.statement for x in kind.steps] for kind in mix_of(twin).types)
    assert found == [[2, 1], [4, 5, 3]]


def test_a_change_that_waited_comes_before_those_that_did_not() -> None:
    """Who waits for a row must not hold what others want, as nobody waited for that."""
    hot, cold = called(ADD, number=1, exec_s=9.0, shared_hit=5), called(ADD.replace("a", "z"), number=2, exec_s=0.01, shared_hit=5)  # fmt: skip
    relations = (Relation("s", "z", "table", 1, 20.0), Relation("s", "a", "table", 1, 2000.0))
    small = called("SELECT 2 + $1", number=3, exec_s=0.01, shared_hit=5)
    twin = twin_of(hot, cold, small, control("BEGIN", 100, 4), control("END", 100, 5), relations=relations)  # fmt: skip

    def order(waits: dict[str, float]) -> list[int]:
        [kind] = mix_of(replace(twin, activity=Activity(waits=waits))).types
        return [x.statement for x in kind.steps]

    assert order({}) == [3, 1, 2]  # the small table last
    twin = replace(twin, relations=(replace(relations[0], tuples=5000.0), relations[1]))
    assert order({}) == [3, 2, 1]
    assert order({"Lock:transactionid": 0.4}) == [3, 1, 2]


@pytest.mark.parametrize(("records", "order"), [(2.0, [3, 2, 1]), (3.0, [3, 1, 2])])
def test_a_row_that_wrote_no_lock_of_what_is_updated_comes_before_that(
    records: float, order: list[int]
) -> None:
    """The lines of an order, and the stock that they are taken from: which was locked, and is updated later."""
    updated = called("UPDATE stock SET n = n - $1 WHERE id = $2", number=1)
    line = called("INSERT INTO line VALUES ($1, $2)", number=2, wal_records=records)
    locked = called("SELECT n FROM stock WHERE id = $1 FOR UPDATE", number=3)
    twin = twin_of(
        updated, line, locked, control("BEGIN", 100, 4), control("END", 100, 5),
        relations=(Relation("s", "line_pkey", "index", 1, 20.0, table="line"),),
    )  # fmt: skip
    key = Constraint("s", "line", "f", "f", "", ("stock",), ("s", "stock", ("id",)))
    [kind] = mix_of(replace(twin, schema=Schema(constraints=(key,)))).types
    assert [x.statement for x in kind.steps] == order


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


PAY, NOTE_IT = (
    "UPDATE desk SET paid = paid + $1 WHERE id = $2",
    "INSERT INTO book (what) VALUES ($1)",
)
GOOD, BAD = "UPDATE client SET due = due - $1 WHERE id = $2", "UPDATE client SET due = due - $1, warned = $2 WHERE id = $3"  # fmt: skip
OLD, BY_NUMBER, BY_NAME = "SELECT old FROM client WHERE id = $1", "SELECT * FROM person WHERE id = $1", "SELECT * FROM person WHERE name = $1"  # fmt: skip
LOOK, LAST = "SELECT * FROM visit WHERE id = $1", "SELECT max(at) FROM visit_line WHERE visit = $1"


def test_two_statements_of_a_kind_that_ran_as_often_as_a_transaction_are_its_branches() -> None:
    texts = {PAY: 1000, NOTE_IT: 1000, GOOD: 900, BAD: 100, OLD: 100, BY_NUMBER: 840, BY_NAME: 560, LOOK: 400, LAST: 400}  # fmt: skip
    numbers = {text: at for at, text in enumerate(texts, start=1)}
    statements = [called(x, number=numbers[x], calls=calls) for x, calls in texts.items()]
    twin = twin_of(*statements, control("BEGIN", 1400, 99))
    pays, looks = mix_of(twin).types
    shares = {x.statement: (x.share, x.begins) for x in pays.steps}
    assert shares[numbers[PAY]] == shares[numbers[NOTE_IT]] == (1.0, None)
    assert shares[numbers[GOOD]] == (0.9, 0.0)
    assert shares[numbers[BAD]] == shares[numbers[OLD]] == (pytest.approx(0.1), 0.9)
    assert shares[numbers[BY_NUMBER]] == (0.6, 0.0)
    assert {x.statement for x in looks.steps} == {numbers[x] for x in (LOOK, LAST, BY_NUMBER, BY_NAME)}  # fmt: skip
    assert calls_of(twin) == pytest.approx({numbers[x]: calls for x, calls in texts.items()})


def test_what_ran_more_often_belongs_to_what_it_is_inserted_beneath_or_to_what_nothing_explains() -> None:  # fmt: skip
    sale, count = "INSERT INTO sale (id) VALUES ($1)", "UPDATE shop SET sales = sales + $1 WHERE id = $2"  # fmt: skip
    line, stock = "INSERT INTO line (sale, n) VALUES ($1, $2)", "UPDATE stock SET n = n - $1 WHERE id = $2"  # fmt: skip
    oldest, gone = "SELECT id FROM queue WHERE shop = $1 ORDER BY id LIMIT $2", "DELETE FROM queue WHERE id = $1"  # fmt: skip
    tell = "UPDATE other SET n = n + $1 WHERE id = $2"
    foreign = Constraint("s", "line", "f", "f", "", ("sale",), ("s", "sale", ("id",)))
    calls = ((sale, 1000), (count, 1000), (line, 5000), (stock, 5000), (tell, 900), (gone, 900), (oldest, 900))  # fmt: skip
    twin = twin_of(
        *(called(x, number=at, calls=n) for at, (x, n) in enumerate(calls, start=1)), control("BEGIN", 1300, 99)
    )  # fmt: skip
    twin = replace(twin, schema=Schema(constraints=(foreign,)), activity=Activity(commits=1300))
    sells, serves = mix_of(twin).types
    assert (len(sells.steps), sells.loops) == (4, (Loop(2, 3, ((5, 1.0),)),))
    # Who takes from a queue looks for its first row and removes it at once.
    assert [x.statement for x in serves.steps] == [7, 6, 5]
    assert serves.loops == (Loop(0, 2, ((3, 1.0),)),)


def test_loops_of_a_transaction_that_ran_nearly_as_often_are_one() -> None:
    """What a transaction locks it updates, but in the few that are rolled back."""
    sale, count = "INSERT INTO sale (id) VALUES ($1)", "UPDATE shop SET sales = sales + $1 WHERE id = $2"  # fmt: skip
    lock, price = "SELECT n FROM stock WHERE id = $1 FOR UPDATE", "SELECT price FROM thing WHERE id = $1"  # fmt: skip
    line, stock = "INSERT INTO line (sale, n) VALUES ($1, $2)", "UPDATE stock SET n = n - $1 WHERE id = $2"  # fmt: skip
    calls = ((sale, 1000), (count, 1000), (lock, 5050), (price, 5050), (line, 5000), (stock, 5000))
    keys = (
        Constraint("s", "line", "f", "f", "", ("sale",), ("s", "sale", ("id",))),
        Constraint("s", "thing", "g", "f", "", ("sale",), ("s", "sale", ("id",))),
    )
    twin = twin_of(
        *(called(x, number=at, calls=n) for at, (x, n) in enumerate(calls, start=1)), control("BEGIN", 1000, 99)
    )  # fmt: skip
    twin = replace(twin, schema=Schema(constraints=keys), activity=Activity(commits=1000))
    [sells] = mix_of(twin).types
    assert [x.statement for x in sells.steps] == [2, 1, 3, 4, 6, 5]
    assert sells.loops == (Loop(2, 5, ((5, pytest.approx(0.95)), (6, pytest.approx(0.05)))),)
    assert [(x.share, x.begins) for x in sells.steps[2:]] == [(1.0, None)] * 2 + [(pytest.approx(1 / 1.01), 0.0)] * 2  # fmt: skip
    assert calls_of(twin) == pytest.approx({at: n for at, (_, n) in enumerate(calls, start=1)})


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


def logged_shape(number: int, count: int, statement: int, *follows: tuple[int, float], links: tuple[ParameterLink, ...] = (), **more: bool) -> TransactionShape:  # fmt: skip
    return TransactionShape(number, (LoggedStep(statement),), count, Spread(1.0, (1.0,) * 8), links=links, follows=follows, **more)  # fmt: skip


def test_what_a_session_always_does_after_a_transaction_about_the_same_row_is_part_of_it() -> None:
    """A page of a list is followed by the next one in half of the cases, and that by one more in a fifth."""
    same = ParameterLink(1, 1, "session", 1, 1, 1.0, from_shape=2)
    shapes = (
        logged_shape(1, 100, 1, (2, 0.6), (1, 0.4), is_block=True),
        logged_shape(2, 100, 2, (1, 1.0)),
        logged_shape(3, 62, 3, (2, 0.8), (3, 0.2), links=(same,)),
    )
    log = LoggedTransactions("csvlog", 60.0, 100, 262, shapes=shapes)
    page, next_ = "SELECT id FROM u WHERE k = $1 ORDER BY id LIMIT 9", "SELECT id FROM u WHERE k = $1 AND id > $2 ORDER BY id LIMIT 9"  # fmt: skip
    twin = replace(twin_of(called(ADD, number=1), called(page, number=2), called(next_, number=3)), transactions=log)  # fmt: skip
    alone, both = mix_of(twin).types
    assert (alone.steps, both.steps) == ((Step(1),), (Step(2), Step(3)))
    assert (both.weight, both.links) == (100, (Link(1, 1, 0, 1),))
    [part] = both.later
    assert (part.first, part.last, part.is_block) == (1, 1, False)
    assert dict(part.repeats)[0] == pytest.approx(1 - 0.8 * 0.62)
    assert sum(times * share for times, share in part.repeats) == pytest.approx(0.62, rel=1e-3)
    results = (Result("id", "u", "id", True),)
    statements = {
        2: about(2, page, "(u.k = $1)", *results), 3: about(3, next_, "((u.k = $1) AND (u.id > $2))", *results),
    }  # fmt: skip
    kind = linked(both, statements, twin)
    assert Link(1, 2, 0, 0, returned="id", is_bound=True) in kind.links
    two = replace(kind, later=(replace(part, repeats=((0, 0.5), (2, 0.5))),))
    text = script_of(two, {n: Sendable(x.text, x.types, f"s{n}") for n, x in statements.items()}).text  # fmt: skip
    # Each page begins behind the last row of the one before.
    assert re.findall(r"WHERE k = (\S+)(?: AND id > (\S+))?.* \\aset (\w+)", text) == [
        (":s1_p1", "", "s1_r2_"), (":s1_p1", ":s1_r2_id", "s2_r3_"), (":s1_p1", ":s2_r3_id", "s2r2_r3_"),
    ]  # fmt: skip


def test_what_mostly_follows_a_transaction_or_has_nothing_of_it_stays_one_of_its_own() -> None:
    same = ParameterLink(1, 1, "session", 1, 1, 1.0, from_shape=1)
    for share, links in ((0.9, (same,)), (1.0, ()), (1.0, (replace(same, share=0.9),))):
        shapes = (logged_shape(1, 100, 1), logged_shape(2, 80, 2, (1, share), links=links))
        log = LoggedTransactions("csvlog", 60.0, 100, 180, shapes=shapes)
        twin = replace(twin_of(called(ADD, number=1), called(READ, number=2)), transactions=log)
        assert [x.later for x in mix_of(twin).types] == [(), ()]


def test_a_transaction_that_follows_has_its_own_begin() -> None:
    kind = TransactionType("t", 1, (Step(1), Step(2)), links=(Link(1, 1, 0, 2),), later=(Part(1, 1, is_block=True),))  # fmt: skip
    statements = {1: Sendable(ADD, ("int", "int"), "s1"), 2: Sendable(READ, ("int",), "s2")}
    text = script_of(kind, statements).text
    assert re.findall("BEGIN|END|UPDATE|SELECT", text) == ["BEGIN", "UPDATE", "END", "BEGIN", "SELECT", "END"]  # fmt: skip
    assert re.findall(r" a = (:\w+)", text) == [":s1_p2"] * 2


def test_what_a_log_has_equal_to_a_key_is_a_foreign_key_that_nobody_declared() -> None:
    link = ParameterLink(2, 1, "transaction", 1, 1, 1.0)
    shape = TransactionShape(1, (LoggedStep(1), LoggedStep(2)), 40, Spread(1.0, (1.0,) * 8), links=(link,))  # fmt: skip
    rider = about(1, "SELECT * FROM rider WHERE id = $1", "(rider.id = $1)", unique=("id",))
    ride = about(2, "INSERT INTO ride (who, km) VALUES ($1, $2)")
    ride = replace(ride, roots={"ride": Root("s", "ride", 300.0)})
    for distinct, found in ((50, (Foreign("ride", ("who",), "rider", ("id",)),)), (3, ())):
        told = LoggedStatement(2, 40, (Parameter(1, "number", 40, 0.0, distinct, (1, 1, 1), 0.0),))
        log = LoggedTransactions("csvlog", 60.0, 100, 40, statements=(told,), shapes=(shape,))
        assert foreign_keys(replace(twin_of(), transactions=log), [rider, ride]) == found


def shape_with(number: int, *links: ParameterLink) -> TransactionShape:
    return TransactionShape(number, (LoggedStep(1), LoggedStep(2)), 40, Spread(1.0, (1.0,) * 8), links=links)  # fmt: skip


def test_what_a_query_returned_is_asked_for_though_rounds_mostly_had_the_same() -> None:
    """The first in the queues of all districts have the same number, mostly."""
    first = about(1, "SELECT ticket FROM waiting WHERE site = $1 LIMIT 1", "(waiting.site = $1)", Result("ticket", "waiting", "ticket", True))  # fmt: skip
    gone = about(2, "DELETE FROM waiting WHERE site = $1 AND ticket = $2", "((waiting.site = $1) AND (waiting.ticket = $2))")  # fmt: skip
    for is_exact in (True, False):
        kind = TransactionType(
            "t", 1, (Step(1), Step(2)), (Loop(0, 1, ((3, 1.0),)),),
            (Link(1, 1, 0, 1), Link(1, 2, 1, 2, is_of_round=True, is_exact=is_exact)), knows_order=True,
        )  # fmt: skip
        found = linked(kind, {1: first, 2: gone}, replace(twin_of(), schema=QUEUE)).links
        last = {(x.step, x.parameter): x for x in found}[1, 2]
        assert last.returned == ("" if is_exact else "ticket")


def test_a_session_keeps_what_is_equal_to_its_transaction_before_whatever_that_was() -> None:
    shapes = (
        shape_with(
            1,
            ParameterLink(1, 1, "session", 1, 1, 1.0, from_shape=1),
            ParameterLink(2, 2, "transaction", 1, 1, 1.0),
            ParameterLink(
                2, 1, "session", 2, 1, 1.0, from_shape=2
            ),  # what shape 2 made is new there
            ParameterLink(1, 2, "session", 1, 2, 0.7, from_shape=1),  # mostly the same
        ),
        shape_with(
            2,
            ParameterLink(1, 1, "session", 2, 2, 0.99, from_shape=1),
            ParameterLink(2, 3, "session", 2, 3, 1.0, from_shape=2),
        ),
    )
    found = session_constants(shapes)
    assert found.keys() == {(1, 1, 1), (2, 1, 1), (2, 2, 3)}
    assert found[1, 1, 1] == found[2, 1, 1] != found[2, 2, 3]


def test_what_a_session_keeps_comes_from_one_statement_and_once_for_each_column() -> None:
    kinds = [
        TransactionType("a", 1, (Step(1), Step(2)), constants=(Constant(0, 1, 0), Constant(1, 1, 0), Constant(1, 2, 1))),
        TransactionType("b", 1, (Step(3),), constants=(Constant(0, 1, 2), Constant(0, 2, 3))),
    ]  # fmt: skip
    assert homes(kinds, {1, 2}) == {0: Home(2, 1), 1: Home(2, 2)}  # statement 3 cannot be sent
    assert homes(kinds, {1, 2, 3}) == {0: Home(2, 1), 1: Home(2, 2), 2: Home(3, 1), 3: Home(3, 2)}
    shop, both = {(1, 1): "shop", (2, 1): "shop", (3, 1): "shop"}, {(3, 2): "shop"}
    assert homes(kinds, {1, 2, 3}, shop)[2] == Home(2, 1)
    # Two shops of one statement are not the same one.
    found = homes(kinds, {1, 2, 3}, shop | both)
    assert (found[2], found[3]) == (Home(2, 1), Home(3, 2))


def test_a_script_takes_what_the_session_keeps_once_and_what_belongs_to_it() -> None:
    kind = TransactionType(
        "t", 1, (Step(1), Step(1)), links=(Link(1, 1, 0, 1),), constants=(Constant(0, 1, 0),)
    )
    one = Sendable("SELECT b FROM a WHERE a = $1 AND c = $2", ("integer", "integer"), "s1", belonging=lambda _: {1})  # fmt: skip
    script = script_of(kind, {1: one}, homes={0: Home(9, 3)})
    assert script.draws == [
        Draw("home9", "home9_", {"p3": "home9_p3"}),
        Draw("s1", "s1_", {"p1": "home9_p3"}),
        Draw("s1", "s2_", {"p1": "home9_p3"}),
    ]
    assert script.text.splitlines()[1:] == [
        "SELECT b FROM a WHERE a = :home9_p3 AND c = :s1_p2;",
        "SELECT b FROM a WHERE a = :home9_p3 AND c = :s2_p2;",
        "END;",
    ]


DESKS = Activity(commits=20_000, active_s=60.0, idle_in_transaction_s=20.0, most_active=4)


def changing(*, exec_s: float, locking_s: float = 0.0) -> dict[int, Analysed]:
    """Return two statements on 20 desks of two sites, of 10,000 calls each, as a server says what they are about."""
    condition = "((desk.site = $1) AND (desk.number = $2))"
    texts = ("UPDATE desk SET n = n + 1 WHERE site = $1 AND number = $2", exec_s), ("SELECT n FROM desk WHERE site = $1 AND number = $2 FOR UPDATE", locking_s)  # fmt: skip
    found = {}
    for number, (text, seconds) in enumerate(texts, start=1):
        one = about(number, text, condition, unique=("site", "number"))
        roots = {x: replace(root, rows=20.0) for x, root in one.roots.items()}
        found[number] = replace(
            one, roots=roots, wanted=called(text, number=number, calls=10_000, exec_s=seconds)
        )
    return found


def test_few_rows_that_are_always_in_use_and_nobody_waits_for_are_each_sessions_own() -> None:
    """Of 20 rows, changed 167 times a second for 4 ms, four sessions would wait for 50 µs each time."""
    twin = replace(twin_of(), activity=DESKS)
    [own] = owned_rows(changing(exec_s=0.1), twin)
    assert (own.table, own.statement, own.parameters) == ("desk", 1, {"site": 1, "number": 2})
    assert owned_rows(changing(exec_s=0.1, locking_s=9.0), twin) == [], "they wait to lock them"
    assert owned_rows(changing(exec_s=9.0), twin) == []
    one_session = replace(twin, activity=replace(DESKS, most_active=1))
    assert owned_rows(changing(exec_s=0.1), one_session) == []
    rare = replace(twin, workload=replace(twin.workload, window_s=600.0))
    assert owned_rows(changing(exec_s=0.1), rare) == []


def test_what_a_transaction_locks_first_is_of_the_sessions_own_rows() -> None:
    known = changing(exec_s=0.1)
    own = OwnedRows("desk", 1, {"site": 1, "number": 2})
    links = (Link(1, 1, 0, 1), Link(1, 2, 0, 2))
    kind = TransactionType("t", 1, (Step(2), Step(1)), links=links)
    found = with_owned(kind, [own], known)
    assert found.constants == (
        Constant(0, 1, own.group("site")),
        Constant(0, 2, own.group("number")),
    )
    of_counter = replace(kind, links=(Link(0, 2, 0, 2, is_of_round=True, differences=(1,)),))
    assert with_owned(of_counter, [own], known) == of_counter
    kept = homes_of_owned([own], {7: Home(2, 1), 8: Home(9, 1)}, known, twin_of())
    assert (kept[7], kept[8]) == (own.home("site"), Home(9, 1)), (
        "the session's site is that of its desks"
    )
    statements = {n: Sendable(x.text, x.types, f"s{n}") for n, x in known.items()}
    script = script_of(found, statements, homes=kept)
    assert script.draws[0] == Draw("own1", "own1_", {"owner": "client_id"})
    assert "\\set session :client_id\n" in script.text
    assert "WHERE site = :own1_p1 AND number = :own1_p2 FOR UPDATE" in script.text


def test_the_end_of_a_range_is_as_far_from_its_beginning_as_it_was() -> None:
    link = Link(0, 2, 0, 1, differences=(-20,))
    kind = TransactionType("t", 1, (Step(1),), links=(link,), is_block=False)
    for type_, end in (("integer", "s1_p2d"), ("timestamp with time zone", "s1_p2")):
        one = Sendable("SELECT b FROM a WHERE n < $1 AND n >= $2", (type_, type_), "s1")
        text = script_of(kind, {1: one}).text
        assert text.endswith(f"SELECT b FROM a WHERE n < :s1_p1 AND n >= :{end};\n")
        assert ("\\set s1_p2d :s1_p1 + -20\n" in text) == (type_ == "integer")


# --- scripts --------------------------------------------------------------------------------


def test_a_script_repeats_links_and_makes_new_keys() -> None:
    kind = TransactionType(
        "t", 1, (Step(2), Step(1, 0.25)), (Loop(1, 1, ((1, 0.5), (2, 0.5))),), (Link(1, 2, 0, 1),)
    )  # fmt: skip
    keys = [[Fresh(1, "number", 100)]]
    statements = {1: Sendable("INSERT INTO h VALUES ($1, $2)", ("integer", "integer"), "s1", keys), 2: Sendable(READ, ("integer",), "s2")}  # fmt: skip
    script = script_of(kind, statements)
    assert script.draws == [Draw("s2", "s1_"), Draw("s1", "s2_"), Draw("s1", "s2r2_")]
    first, second = re.findall(r"INSERT INTO h VALUES \((.*)\)", script.text)
    assert (first, second) == (":s2_f1, :s1_p1", ":s2r2_f1, :s1_p1")
    assert "\\set s2_f1 100 + (:fresh * :clients + :client_id) * 1 + 0" in script.text
    assert script.text.count("\\if") == script.text.count("\\endif") == 3


def test_a_row_refers_to_the_one_that_was_inserted_before_it() -> None:
    """By the number that the server gave that, which is new, so that the row's key need not be."""
    parent, child = "INSERT INTO sale (at) VALUES ($1) RETURNING id", "INSERT INTO line SELECT $1, $2 FROM p WHERE a = $3"  # fmt: skip
    tables = {
        1: Table("s", "sale", ("id", "at"), {}, (("id",),)),
        2: Table("s", "line", ("sale", "number"), {}, (("sale", "number"),), (("sale",),)),
    }
    statements = {
        n: Analysed(n, text, ("int",) * 3, change_of(text), tables[n], Conditions(), {}, {}, called(text, number=n), results)
        for n, text, results in ((1, parent, (Result("id", "sale", "id", True),)), (2, child, ()))
    }  # fmt: skip
    foreign = Constraint("s", "line", "f", "f", "", ("sale",), ("s", "sale", ("id",)))
    twin = replace(twin_of(), schema=Schema(constraints=(foreign,)))
    kind = linked(TransactionType("t", 1, (Step(1), Step(2))), statements, twin)
    assert kind.links == (Link(1, 1, 0, 0, returned="id"),)
    keys = [[Fresh(2, "number", 100), Fresh(1, "number", 100)]]
    script = script_of(kind, {1: Sendable(parent, ("date",), "s1"), 2: Sendable(child, ("int",) * 3, "s2", keys)})  # fmt: skip
    first, second = (x for x in script.text.splitlines() if "INSERT" in x)
    assert first.endswith("RETURNING id \\aset s1_r1_")
    assert second == "INSERT INTO line SELECT :s1_r1_id, :s2_p2 FROM p WHERE a = :s2_p3;"


QUEUE = Schema(
    constraints=(
        Constraint("s", "lane", "f1", "f", "", ("site",), ("s", "site", ("id",))),
        Constraint("s", "ticket", "f2", "f", "", ("site", "lane"), ("s", "lane", ("site", "number"))),
        Constraint("s", "ticket", "f3", "f", "", ("site", "owner"), ("s", "owner", ("site", "number"))),
        Constraint("s", "waiting", "f4", "f", "", ("site", "lane", "ticket"), ("s", "ticket", ("site", "lane", "number"))),
        Constraint("s", "friend", "f5", "f", "", ("of_site", "of"), ("s", "owner", ("site", "number"))),
        Constraint("s", "friend", "f6", "f", "", ("is_site", "is"), ("s", "owner", ("site", "number"))),
    )
)  # fmt: skip


def about(number: int, text: str, filter_: str = "", *results: Result, unique: tuple[str, ...] = ()) -> Analysed:  # fmt: skip
    """Return a statement of one table, as a server would say what it is about."""
    change = change_of(text)
    table = change.table[-1] if change.table else re.findall(r"FROM (\w+)", text)[0]
    plan = {"Node Type": "Seq Scan", "Schema": "s", "Relation Name": table, "Alias": table, "Filter": filter_}  # fmt: skip
    of = Table("s", table, tuple(x.column for x in change.assignments), {}, ()) if change.table else None  # fmt: skip
    types = ("integer",) * len(set(re.findall(r"\$\d+", text)))
    return Analysed(
        number, text, types, change, of, conditions(plan), {table: Root("s", table, 100.0, (unique,) if unique else ())},
        {}, called(text, number=number), results,
    )  # fmt: skip


def links_of(*statements: Analysed, loops: tuple[Loop, ...] = ()) -> dict[tuple[int, int], tuple[int, int | str]]:  # fmt: skip
    """Return of each linked parameter, by step and number, the step and parameter or result that it is equal to."""
    kind = TransactionType("t", 1, tuple(Step(x.number) for x in statements), loops)
    found = linked(kind, {x.number: x for x in statements}, replace(twin_of(), schema=QUEUE)).links
    return {(x.step, x.parameter): (x.from_step, x.returned or x.from_parameter) for x in found}


FIRST = about(
    1, "SELECT ticket FROM waiting WHERE site = $1 AND lane = $2 ORDER BY ticket LIMIT $3",
    "((waiting.site = $1) AND (waiting.lane = $2))", Result("ticket", "waiting", "ticket", True),
)  # fmt: skip
OWNER = about(
    3, "SELECT owner AS who FROM ticket WHERE number = $1 AND lane = $2 AND site = $3",
    "((ticket.number = $1) AND (ticket.lane = $2) AND (ticket.site = $3))", Result("who", "ticket", "owner", True),
)  # fmt: skip


def test_what_a_query_finds_is_what_the_rest_of_the_transaction_is_about() -> None:
    gone = about(2, "DELETE FROM waiting WHERE ticket = $1 AND site = $2 AND lane = $3", "((waiting.ticket = $1) AND (waiting.site = $2) AND (waiting.lane = $3))")  # fmt: skip
    tell = about(4, "UPDATE owner SET n = n + $1 WHERE site = $2 AND number = $3", "((owner.site = $2) AND (owner.number = $3))")  # fmt: skip
    site = about(5, "SELECT * FROM site WHERE id = $1", "(site.id = $1)")
    assert links_of(FIRST, gone, OWNER, tell, site) == {
        (1, 1): (0, "ticket"), (1, 2): (0, 1), (1, 3): (0, 2),
        (2, 1): (0, "ticket"), (2, 2): (0, 2), (2, 3): (0, 1),
        (3, 2): (0, 1), (3, 3): (2, "who"),
        (4, 1): (0, 1),
    }  # fmt: skip


def test_what_statements_join_with_a_key_is_a_foreign_key_that_nobody_declared() -> None:
    """Of a report that joins lines with their sale, a transaction learns that the line it inserts is of the sale before."""
    plan = {
        "Node Type": "Hash Join", "Hash Cond": "(l.sale = s.id)",
        "Plans": [{"Node Type": "Seq Scan", "Schema": "s", "Relation Name": x, "Alias": x[0]} for x in ("line", "sale")],
    }  # fmt: skip
    report = replace(
        about(9, "SELECT * FROM line AS l JOIN sale AS s ON l.sale = s.id"), conditions=conditions(plan),
        roots={"l": Root("s", "line", 300.0, (("sale", "number"),)), "s": Root("s", "sale", 100.0, (("id",),))},
    )  # fmt: skip
    sale = about(1, "SELECT * FROM sale WHERE id = $1", "(sale.id = $1)", unique=("id",))
    line = about(2, "INSERT INTO line (sale, number) VALUES ($1, $2)")
    kind = TransactionType("t", 1, (Step(1), Step(2)))
    known = {1: sale, 2: line, 9: report}
    assert linked(kind, known, twin_of()).links == (Link(1, 1, 0, 1),)
    assert linked(kind, {1: sale, 2: line}, twin_of()).links == ()
    assert foreign_keys(twin_of(), known.values()) == (Foreign("line", ("sale",), "sale", ("id",)),)


def test_what_a_later_statement_finds_by_the_same_key_is_there() -> None:
    """A discount is found for 60 of 100 customers, and each of them is a customer."""
    discount = about(1, "SELECT * FROM discount WHERE customer = $1", "(discount.customer = $1)", unique=("customer",))  # fmt: skip
    customer = about(
        2, "SELECT * FROM customer WHERE id = $1", "(customer.id = $1)", unique=("id",)
    )
    found = {1: replace(discount, wanted=called("", number=1, rows=0.6)), 2: replace(customer, wanted=called("", number=2, rows=0.95))}  # fmt: skip
    both = TransactionType(
        "both", 3, (Step(1), Step(2)), links=(Link(1, 1, 0, 1),), knows_order=True
    )
    alone = TransactionType("alone", 1, (Step(1),), knows_order=True)
    assert most_absent([both], found)[1] == pytest.approx(0.05)
    assert most_absent([both, alone], found)[1] == pytest.approx((3 * 0.05 + 1) / 4)
    assert most_absent([alone], found) == {1: 1.0}


def test_rows_of_one_insert_have_the_values_in_common_that_a_log_told() -> None:
    links = (
        Link(1, 3, 1, 1),
        Link(1, 4, 1, 2, differences=(1,)),
        Link(1, 1, 0, 1),
        Link(1, 5, 1, 1, is_exact=False),
    )
    kind = TransactionType("t", 1, (Step(1), Step(2)), links=links, knows_order=True)
    assert alike_in_a_call([kind], 2) == {3: 1}
    assert alike_in_a_call([kind], 1) == {}


def test_shares_have_what_is_not_there_at_most_as_often_as_is_said() -> None:
    works = [Work(1, 3), Work(0, 2)]
    limit = ([False, True], 0.1)
    _, shares = best_shares(
        works, Work(0.6, 3), weighs_blocks=False, costs=[0.0, 0.0], at_most=limit
    )
    assert shares == pytest.approx([0.9, 0.1])


def test_what_may_be_null_or_missing_and_what_has_no_plain_name_is_not_passed_on() -> None:
    gone = about(2, "DELETE FROM waiting WHERE ticket = $1", "(waiting.ticket = $1)")
    for result in (Result("ticket", "waiting", "ticket"), Result("no name", "waiting", "ticket", True)):  # fmt: skip
        assert links_of(replace(FIRST, results=(result,)), gone) == {}
    # Nor is what is seldom found: the queue was empty.
    assert links_of(replace(FIRST, wanted=replace(FIRST.wanted, rows=20)), gone) == {}


def test_a_new_row_belongs_to_the_rows_before_it_and_two_of_one_kind_are_different_ones() -> None:
    lane = about(1, "UPDATE lane SET next = next + $1 WHERE site = $2 AND number = $3", "((lane.site = $2) AND (lane.number = $3))")  # fmt: skip
    ticket = about(2, "INSERT INTO ticket (site, lane, number, owner) VALUES ($1, $2, $3, $4)")
    assert links_of(lane, ticket) == {(1, 1): (0, 2), (1, 2): (0, 3)}
    # Of owners there must be one of that site.
    foreign = foreign_keys(replace(twin_of(), schema=QUEUE), [])
    assert belonging(ticket, [1, 2], foreign) == {1}
    # And of stays in a room there must be none at that time.
    stay = about(5, "INSERT INTO stay (room, guest, during) VALUES ($1, $2, daterange($3, $4))")
    assert stay.table is not None
    apart = replace(stay, table=replace(stay.table, without_overlaps={"during": ("room",)}))
    assert [belonging(x, [1, 2], ()) for x in (stay, apart)] == [frozenset(), {1}]
    owner = about(3, "SELECT * FROM owner WHERE site = $1 AND number = $2", "((owner.site = $1) AND (owner.number = $2))")  # fmt: skip
    friend = about(4, "INSERT INTO friend (of_site, of, is_site, is) VALUES ($1, $2, $3, $4)")
    assert links_of(owner, friend) == {(1, 1): (0, 1), (1, 2): (0, 2)}


def test_the_rounds_of_a_loop_are_about_different_rows() -> None:
    owner = about(1, "SELECT * FROM owner WHERE site = $1 AND number = $2", "((owner.site = $1) AND (owner.number = $2))")  # fmt: skip
    again = about(2, "UPDATE owner SET n = $1 WHERE site = $2 AND number = $3", "((owner.site = $2) AND (owner.number = $3))", unique=("site", "number"))  # fmt: skip
    more = about(3, "DELETE FROM owner WHERE site = $1 AND number = $2", "((owner.site = $1) AND (owner.number = $2))")  # fmt: skip
    loop = Loop(1, 2, ((2, 1.0),))
    assert links_of(owner, again, more, loops=(loop,)) == {(1, 2): (0, 1), (2, 1): (0, 1), (2, 2): (1, 3)}  # fmt: skip


def test_a_script_keeps_results_draws_rows_that_agree_and_runs_one_branch() -> None:
    kind = TransactionType(
        "t", 1, (Step(1), Step(2, 0.4, 0.0), Step(3, 0.6, 0.4)),
        links=(Link(1, 1, 0, 0, returned="x"), Link(2, 1, 0, 1), Link(2, 2, 1, 1)),
    )  # fmt: skip
    statements = {
        1: Sendable("SELECT x FROM a WHERE b = $1", ("integer",), "s1"),
        2: Sendable("DELETE FROM a WHERE x = $1", ("integer",), "s2"),
        3: Sendable("UPDATE c SET n = $3 WHERE b = $1 AND x = $2", ("integer",) * 3, "s3", belonging=lambda linked: set(linked) & {1, 2}),
    }  # fmt: skip
    script = script_of(kind, statements)
    assert "SELECT x FROM a WHERE b = :s1_p1 \\aset s1_r1_\n" in script.text
    assert "DELETE FROM a WHERE x = :s1_r1_x;" in script.text
    # What the server returns is not known when the row is drawn.
    assert script.draws == [Draw("s1", "s1_"), Draw("s2", "s2_"), Draw("s3", "s3_", {"p1": "s1_p1"})]  # fmt: skip
    assert script.text.startswith("\\set branch random(1, 1000000)\nBEGIN;\n")
    assert [x for x in script.text.splitlines() if x.startswith("\\if")] == [
        "\\if :branch > 0 and :branch <= 400000",
        "\\if :branch > 400000 and :branch <= 1000000",
    ]


SEEN = Sendable("SELECT * FROM ticket WHERE id = $1", ("integer",), "s1", deviation=0.5)
HEAVY = Sendable(
    "SELECT * FROM comment WHERE ticket = $1 AND public = $2",
    ("integer", "boolean"),
    "s2",
    deviation=40.0,
)


def test_equal_values_are_those_of_the_statement_whose_work_differs_most() -> None:
    kind = TransactionType("t", 1, (Step(1), Step(2)), links=(Link(1, 1, 0, 1),))
    found = with_leading_steps(kind, {1: SEEN, 2: HEAVY})
    assert found.links == (Link(0, 1, 1, 1),)
    script = script_of(found, {1: SEEN, 2: HEAVY})
    assert script.draws == [Draw("s2", "s2_"), Draw("s1", "s1_")]
    assert "ticket WHERE id = :s2_p1;" in script.text
    assert "ticket = :s2_p1 AND public = :s2_p2;" in script.text
    # What agrees with the others agrees with those values.
    asked = replace(SEEN, types=("integer", "integer"), belonging=lambda linked: linked)
    assert script_of(found, {1: asked, 2: HEAVY}).draws[1] == Draw("s1", "s1_", {"p1": "s2_p1"})


@pytest.mark.parametrize(
    ("kind", "heavy"),
    [
        (TransactionType("nearly as much", 1, (Step(1), Step(2))), replace(HEAVY, deviation=0.9)),
        (TransactionType("not always run", 1, (Step(1), Step(2, 0.5))), HEAVY),
        (TransactionType("in a loop", 1, (Step(1), Step(2)), (Loop(1, 1, ((3, 1.0),)),)), HEAVY),
        (TransactionType("the session's", 1, (Step(1), Step(2)), constants=(Constant(0, 1, 7),)), HEAVY),
        (TransactionType("not there", 1, (Step(1), Step(2))), replace(HEAVY, is_there=False)),
        (TransactionType("new", 1, (Step(1), Step(2))), replace(HEAVY, text="INSERT INTO comment VALUES ($1, $2)")),
    ],
)  # fmt: skip
def test_values_stay_those_of_the_first_statement_where_the_other_cannot_have_them(
    kind: TransactionType, heavy: Sendable
) -> None:
    kind = replace(kind, links=(Link(1, 1, 0, 1),))
    assert with_leading_steps(kind, {1: SEEN, 2: heavy}) == kind


@given(st.lists(st.floats(0, 100), min_size=2, max_size=6), st.data())
def test_whoever_has_the_values_all_that_were_equal_still_are(
    deviations: list[float], data: st.DataObject
) -> None:
    steps = range(1, len(deviations))
    links = tuple(
        Link(x, 1, data.draw(st.integers(0, x - 1)), 1) for x in steps if data.draw(st.booleans())
    )
    kind = TransactionType("t", 1, tuple(Step(x + 1) for x in range(len(deviations))), links=links)
    one = {
        at: replace(SEEN, pool=f"s{at}", deviation=x) for at, x in enumerate(deviations, start=1)
    }

    def groups(of: TransactionType) -> set[frozenset[int]]:
        variables = re.findall(r"id = :(\w+);", script_of(of, one).text)
        return {frozenset(at for at, x in enumerate(variables) if x == name) for name in variables}

    found = with_leading_steps(kind, one)
    assert groups(found) == groups(kind)
    assert len(found.links) == len(links)


def test_loops_that_ran_alike_have_as_many_rounds_each_about_the_same_and_loops_can_be_nested() -> None:  # fmt: skip
    repeats = ((1, 0.5), (2, 0.5))
    kind = TransactionType(
        "t", 1, (Step(1), Step(1)), (Loop(0, 0, repeats), Loop(1, 1, repeats, like=(0, 0))),
        (Link(1, 1, 0, 1, is_in_step=True),),
    )  # fmt: skip
    one = {1: Sendable("SELECT x FROM a WHERE b = $1", ("integer",), "s1")}
    text = script_of(kind, one).text
    assert re.findall(r"b = (:\w+)", text) == [":s1_p1", ":s1r2_p1", ":s1_p1", ":s1r2_p1"]
    assert text.count("\\set rounds1_1 ") == 1
    assert "rounds2" not in text
    nested = TransactionType("t", 1, (Step(1), Step(1)), (Loop(0, 0, ((2, 1.0),)), Loop(0, 1, ((2, 1.0),))))  # fmt: skip
    text = script_of(nested, one).text
    assert len(set(re.findall(r"b = (:\w+)", text))) == text.count("SELECT") == 6


def test_a_counter_of_a_loop_begins_where_it_is_said_to() -> None:
    link = Link(0, 1, 0, 1, is_of_round=True, differences=(2,))
    kind = TransactionType("t", 1, (Step(1),), (Loop(0, 0, ((3, 1.0),)),), (link,))
    assert [*counters_of(kind)] == [((0, 1), 2, 3)]
    one = {1: Sendable("SELECT x FROM a WHERE b = $1", ("integer",), "s1")}
    text = script_of(kind, one, {(0, 1): 10}).text
    assert re.findall(r"b = (:\w+)", text) == [":s1_p1b", ":s1r2_p1d", ":s1r3_p1d"]
    assert re.findall(r"\\set (\w+ .*)", text)[1:] == ["s1_p1b 10", "s1r2_p1d :s1_p1b + 2", "s1r3_p1d :s1r2_p1d + 2"]  # fmt: skip


def test_an_application_waits_within_a_transaction_as_it_did_where_it_does_so_on_purpose() -> None:
    long = Spread(0.01, (0.002, 0.003, 0.004, 0.008, 0.01, 0.02, 0.03, 0.05))
    short = Spread(0.002, (0.0, 0.0, 0.0001, 0.0002, 0.0005, 0.01, 0.03, 0.05))
    shape = TransactionShape(
        1, (LoggedStep(1, short), LoggedStep(2, long)), 40, Spread(1.0, (1.0,) * 8), is_block=True, last_pause_s=long,
    )  # fmt: skip
    log = LoggedTransactions("csvlog", 60.0, 100, 40, shapes=(shape,))
    twin = replace(twin_of(called(ADD, number=1), called(READ, number=2)), transactions=log)
    [kind] = mix_of(twin).types
    statements = {1: Sendable(ADD, ("int", "int"), "s1"), 2: Sendable(READ, ("int",), "s2")}
    lines = script_of(kind, statements).text.splitlines()
    words = [x.split()[0] for x in lines]
    assert words == ["BEGIN;", "UPDATE", "\\set", "\\set", "\\sleep", "SELECT", "\\set", "\\set", "\\sleep", "END;"]  # fmt: skip
    assert "WHEN :drawn <= 100000 THEN random(2000, 3000) WHEN :drawn <= 250000 THEN" in lines[3]


def test_a_transaction_of_which_nothing_can_be_sent_does_nothing() -> None:
    script = script_of(TransactionType("t", 1, (Step(1),)), {})
    assert (script.text, script.draws) == ("\\set nothing 0\n", [])


# --- shares ---------------------------------------------------------------------------------


def test_shares_hit_rows_and_blocks_where_strata_span_them() -> None:
    works = [Work(0, 2), Work(10, 12), Work(100, 400)]
    _, shares = best_shares(works, Work(7, 9), weighs_blocks=True, costs=[0, 0, 0])
    assert sum(shares) == pytest.approx(1)
    assert sum(x * w.rows for x, w in zip(shares, works, strict=True)) == pytest.approx(7)


def test_rows_that_are_near_give_way_to_blocks_and_others_do_not() -> None:
    """One of 15 calls found nothing, all others twenty rows: no mix of values that find nineteen is meant."""
    near, far = [Work(20, 650), Work(18.7, 270)], [Work(23, 650), Work(18.7, 270)]
    target = Work(18.7, 650)
    assert best_shares(near, target, weighs_blocks=True, costs=[0, 0])[1] == pytest.approx([1, 0])
    assert best_shares(far, target, weighs_blocks=True, costs=[0, 0])[1][0] < 0.4


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e6)), min_size=1, max_size=8),
    st.tuples(st.floats(0, 1e5), st.floats(0, 1e6)),
)
def test_rows_are_hit_where_any_shares_can(
    pairs: list[tuple[float, float]], target: tuple[float, float]
) -> None:
    works = [Work(*x) for x in pairs]
    _, shares = best_shares(works, Work(*target), weighs_blocks=False, costs=[0.0] * len(works))
    rows = sum(x * w.rows for x, w in zip(shares, works, strict=True))
    low, high = min(x.rows for x in works), max(x.rows for x in works)
    nearest = min(max(target[0], low), high)
    assert rows == pytest.approx(nearest, rel=0.02, abs=0.02)


def test_a_few_calls_take_on_average_what_they_should() -> None:
    """Of calls that take 10 to 10,000 blocks any six in a row of the beginning, and not only all of them together."""
    executed = [((str(x),), Work(1, x)) for x in (10, 20, 40, 80, 160, 500, 2000, 3000, 4000, 10_000)]  # fmt: skip
    found = [work.blocks for _, work in balanced(executed, Work(1, 1000))]
    assert 6 <= len(found) == len(set(found)) < 10  # too many are above it
    for count in range(6, len(found) + 1):
        assert sum(found[:count]) / count == pytest.approx(1000, rel=0.05)


def test_of_many_calls_as_many_are_kept_as_do_together_what_they_should() -> None:
    """Seven calls cannot come near an average of 10.4, as none takes between 1 and 50; sixty can."""
    executed = [((str(x),), Work(1, 1.0 if x % 5 else 50.0)) for x in range(60)]
    found = balanced(executed, Work(1, 10.4))
    assert len(found) > 40
    assert sum(work.blocks for _, work in found) / len(found) == pytest.approx(10.4, rel=0.05)


def test_values_agree_with_earlier_ones_where_they_do_so_in_most_calls() -> None:
    both = TransactionType("both", 3, (Step(1), Step(2)), links=(Link(1, 1, 0, 1),))
    alone = TransactionType("alone", 2, (Step(2),))
    assert agreeing([both, alone]) == {2}
    assert agreeing([both, replace(alone, weight=4)]) == frozenset()


def test_where_no_calls_do_what_they_should_many_that_come_as_near_are_kept() -> None:
    executed = [((str(x),), Work(1, 20.0 + x % 3)) for x in range(60)]
    assert len(balanced(executed, Work(1, 10.0))) == 60  # 21 blocks on average, at least 20


def test_rows_changed_are_told_where_explain_says_none_were_returned() -> None:
    fed = {"Node Type": "Index Scan", "Actual Rows": 3.0, "Actual Loops": 1, "Parent Relationship": "Outer"}  # fmt: skip
    plan = {"Node Type": "ModifyTable", "Actual Rows": 0.0, "Shared Hit Blocks": 5, "Shared Read Blocks": 2, "WAL Bytes": 90, "Plans": [fed]}  # fmt: skip
    assert work_of(plan) == Work(3, 7, 0, 90, 0)


@pytest.mark.parametrize(("hot", "shares"), [(0, [1.0, 1.0]), (800, [1.0, 0.2]), (1000, [1.0, 0.0])])  # fmt: skip
def test_updates_that_are_hot_add_nothing_to_lists(hot: int, shares: list[float]) -> None:
    """Half of the updates write a column of an index, so that they never are."""
    indexes = (
        Index("public", "note_words", "note", "CREATE INDEX note_words ON note USING gin (words)", "gin"),
        Index("public", "note_kind", "note", "CREATE INDEX note_kind ON note USING btree (kind)", "btree"),
    )  # fmt: skip
    updates = [
        replace(called(text, number=n, calls=1000), rows=1000)
        for n, text in enumerate(("UPDATE note SET kind = $1 WHERE id = $2", "UPDATE note SET views = views + $1 WHERE id = $2"), start=1)
    ]  # fmt: skip
    moved = {"n_tup_upd": 2000, "n_tup_hot_upd": hot}
    table = Relation("public", "note", "table", 10, 1000.0, 0, 81920, moved=moved)
    twin = replace(twin_of(*updates, relations=(table,)), schema=Schema(indexes=indexes))
    assert [listed_share(x, updates, twin) for x in updates] == shares
    insert = called("INSERT INTO note (id, words) VALUES ($1, $2)", number=3)
    query = called("SELECT * FROM note WHERE id = $1", number=4)
    assert [listed_share(x, updates, twin) for x in (insert, query)] == [1.0, 0.0]
