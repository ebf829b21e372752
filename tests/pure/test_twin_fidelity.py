"""How far a data twin is like its original, from two captures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdrag.model.load import Closed, Open
from pgdrag.twin_check import longest_s, pacing_of
from pgdrag.twins.column_fidelity import column_differences
from pgdrag.twins.fidelity import Verdict, fidelity, statement_key
from pgdrag.twins.model import Activity, ColumnStatistics, Relation
from twin_statements import ORIGINAL, READ, WRITE, called, twin_of


def test_a_twin_that_does_the_same_in_another_time_is_faithful() -> None:
    found = fidelity(
        ORIGINAL,
        twin_of(
            called(WRITE, calls=50, exec_s=2.0, shared_hit=9, shared_read=1, wal_bytes=210),
            called(READ, calls=50, exec_s=7.0, shared_hit=4),
        ),
    )
    assert found.verdict is Verdict.FAITHFUL
    assert not found.warnings
    assert found.mix_distance == 0
    assert [x.number for x in found.statements] == [1, 2]
    assert "statements that take 100 %" in found.sentence


def test_a_statement_that_writes_more_is_named_in_the_warning() -> None:
    found = fidelity(
        ORIGINAL,
        twin_of(
            called(WRITE, calls=50, shared_hit=10, wal_bytes=400),
            called(READ, calls=50, shared_hit=4),
        ),
    )
    assert found.verdict is Verdict.NOT
    assert found.faithful_share == pytest.approx(0.1)
    [off] = found.off
    assert off.off == ("WAL bytes 2×",)
    assert "statement 1 (UPDATE t" in found.warnings[0]


def test_a_statement_of_little_time_that_is_off_makes_an_exception_or_none() -> None:
    twin = twin_of(
        called(WRITE, calls=50, shared_hit=10, wal_bytes=200),
        called(READ, calls=50, shared_hit=40),
    )
    assert fidelity(ORIGINAL, twin).verdict is Verdict.FAITHFUL  # 90 % of the time
    slower = twin_of(
        replace(ORIGINAL.workload.statements[0], exec_s=6.0),
        replace(ORIGINAL.workload.statements[1], exec_s=4.0),
    )
    found = fidelity(slower, twin)
    assert found.verdict is Verdict.EXCEPT
    assert "except for statement 2" in found.sentence


def test_a_mix_that_differs_is_seen_and_so_is_what_does_not_run() -> None:
    found = fidelity(ORIGINAL, twin_of(called(WRITE, shared_hit=10, wal_bytes=200)))
    assert found.mix_distance == pytest.approx(0.5)
    assert found.statements[1].off == ("it does not run",)
    assert found.statements[0].off == ("100 % of the calls instead of 50 %",)
    extra = fidelity(ORIGINAL, twin_of(*ORIGINAL.workload.statements, called("SELECT $1")))
    assert [text for text, _ in extra.invented] == ["SELECT $1"]


def test_what_a_query_writes_where_it_prunes_pages_is_no_difference() -> None:
    was = twin_of(called(READ, shared_hit=100, wal_bytes=20), called(WRITE, shared_hit=100, wal_bytes=200))  # fmt: skip
    now = twin_of(called(READ, shared_hit=100, wal_bytes=800), called(WRITE, shared_hit=100, wal_bytes=800))  # fmt: skip
    assert {x.text: x.off for x in fidelity(was, now).statements} == {READ: (), WRITE: ("WAL bytes 4×",)}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("WITH few AS (SELECT id FROM a WHERE b = $1) SELECT count(*) FROM few", ()),
        ("WITH gone AS (DELETE FROM a RETURNING b) SELECT count(*) FROM gone", ("WAL bytes 4×",)),
    ],
)
def test_a_query_in_with_prunes_and_a_change_in_it_writes(text: str, off: tuple[str, ...]) -> None:
    was = twin_of(called(text, shared_hit=100, wal_bytes=200))
    now = twin_of(called(text, shared_hit=100, wal_bytes=800))
    [one] = fidelity(was, now).statements
    assert one.off == off


def test_a_difference_too_small_to_matter_is_none() -> None:
    was = twin_of(called(READ, calls=1000, shared_hit=1.0))
    now = twin_of(called(READ, calls=1000, shared_hit=1.4))  # of a block
    assert not fidelity(was, now).off
    now = twin_of(called(READ, calls=1000, shared_hit=1.6))
    assert fidelity(was, now).off


def test_another_plan_is_no_twin() -> None:
    scan = {"Node Type": "Seq Scan", "Relation Name": "t", "Total Cost": 1.0}
    index = {
        "Node Type": "Index Scan",
        "Relation Name": "t",
        "Index Name": "k",
        "Total Cost": 1.0,
    }
    found = fidelity(ORIGINAL, ORIGINAL, plans={1: (index, scan), 2: (scan, scan)})
    assert found.statements[0].off == ("another plan",)
    assert not found.statements[1].off
    assert found.statements[1].is_planned


def test_sizes_are_expected_at_the_scale() -> None:
    def sized(of_bytes: int) -> tuple[Relation, ...]:
        index = Relation("s", "i", "index", 1, 1.0, bytes=of_bytes // 2, table="t")
        return (Relation("s", "t", "table", 1, 1.0, bytes=of_bytes), index)

    was = twin_of(relations=sized(100_000_000))
    tenth = fidelity(was, twin_of(relations=sized(10_000_000)), table_scale=lambda _: 0.1)
    assert (tenth.relations, tenth.relations_compared) == ((), 2)
    half = fidelity(was, twin_of(relations=sized(20_000_000)), table_scale=lambda _: 0.1)
    assert [x.ratio for x in half.relations] == [2.0, 2.0]


@pytest.mark.parametrize(
    "other",
    [
        "select v from t where k = $3",
        "SELECT v FROM t WHERE k = $1::bigint;",
        "SELECT v /* x */ FROM t\nWHERE k = 17",
        "SELECT v FROM t WHERE k = $1::character varying(20)[]",
        "SELECT v FROM t WHERE k = $1::pg_catalog.int4",
    ],
)
def test_one_statement_written_otherwise_is_the_same(other: str) -> None:
    assert statement_key(other) == statement_key(READ)


@pytest.mark.parametrize("other", ["SELECT v FROM t WHERE j = $1", "SELECT v FROM t WHERE k = w"])
def test_another_statement_is_another(other: str) -> None:
    assert statement_key(other) != statement_key(READ)


def test_a_transaction_ends_in_several_ways_of_writing_it() -> None:
    assert statement_key("END") == statement_key("COMMIT;")
    assert statement_key("START TRANSACTION") == statement_key("begin")
    assert statement_key("ROLLBACK") != statement_key("COMMIT")


COLUMN = ColumnStatistics(
    "s", "t", "k", 1, False, "integer", 0.1, 4, -0.5, correlation=0.9,
    most_common=("a", "b"), most_common_shares=(0.3, 0.2),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"null_share": 0.2}, "s.t.k: NULLs 20 % instead of 10 %"),
        ({"width": 9}, "s.t.k: width 9 instead of 4"),
        ({"n_distinct": -0.05}, "s.t.k: distinct values 50 instead of 500"),
        ({"n_distinct": 510.0}, ""),
        ({"correlation": -0.9}, "s.t.k: correlation -0.90 instead of 0.90"),
        ({"most_common_shares": (0.2, 0.1)}, "s.t.k: most common values differ by 10 %"),
    ],
)
def test_a_column_with_other_statistics_is_told(changes: dict[str, object], words: str) -> None:
    table = Relation("s", "t", "table", 1, 1000.0)
    was = replace(twin_of(relations=(table,)), statistics=(COLUMN,))
    now = replace(was, statistics=(replace(COLUMN, **changes),))  # type: ignore[arg-type]
    assert column_differences(was, now, lambda _: 1.0) == ((words,) if words else (), 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("now() - interval $3", "now() - $1::interval"),
        ("extract($1 FROM at)", "date_part($1, at)"),
        ("tags @> ARRAY[$1 /*, ... */]", "tags @> $1"),
    ],
)
def test_a_parameter_where_the_grammar_wants_a_constant_is_the_same(one: str, other: str) -> None:
    assert statement_key(one) == statement_key(other)


def test_pages_that_are_logged_whole_after_a_checkpoint_are_no_difference() -> None:
    was = twin_of(called(WRITE, wal_bytes=200, wal_records=2))
    images = twin_of(called(WRITE, wal_bytes=4200, wal_records=2, wal_full_pages=0.5))
    assert not fidelity(was, images).off
    more = twin_of(called(WRITE, wal_bytes=4096 + 225, wal_records=2, wal_full_pages=0.5))
    assert not fidelity(was, more).off, "the rest is within 15 %, too"
    more = twin_of(called(WRITE, wal_bytes=4200, wal_records=4, wal_full_pages=0.5))
    assert fidelity(was, more).off


def test_a_load_without_transactions_has_the_same_mix_of_statements() -> None:
    begin = replace(called("BEGIN", number=3, calls=1000, exec_s=0.1), is_plannable=False)
    found = fidelity(twin_of(*ORIGINAL.workload.statements, begin), ORIGINAL)
    assert found.mix_distance == 0
    assert [x.number for x in found.off] == [3]
    assert found.off[0].off == ("it does not run",)
    assert found.statements[0].calls_share == 0.5


def test_a_check_runs_as_many_transactions_as_there_were_in_the_originals_window() -> None:
    """500 reads and 500 writes in a minute, each a transaction: in ten seconds 100 each second."""
    assert pacing_of(ORIGINAL, 10.0) == Open(100.0)
    assert pacing_of(twin_of(), 10.0) == Closed()


def test_a_check_runs_no_slower_than_the_original_did() -> None:
    """Its window of a minute had 1,000 transactions: with the warm-up, which counts twice, it is as long."""
    for_s = longest_s(ORIGINAL, warm_up_s=3.0)
    assert pacing_of(ORIGINAL, for_s, warm_up_s=3.0) == Open(pytest.approx(1000 / 60))
    assert longest_s(replace(ORIGINAL, workload=replace(ORIGINAL.workload, window_s=2.0))) == 5.0


def test_a_check_has_run_half_of_the_originals_transactions_by_the_middle_of_its_window() -> None:
    pacing = pacing_of(ORIGINAL, 10.0, warm_up_s=5.0)
    assert isinstance(pacing, Open)
    assert pacing.rate_per_s * (5.0 + 10.0 / 2) == 500


@pytest.mark.parametrize(
    ("lock_waits", "exec_s", "blocks", "is_said"),
    [(0.5, 1.0, 5, True), (0.5, 9.0, 5, False), (0.5, 30.0, 5, False), (0.5, 30.0, 20, True), (0.0, 1.0, 5, False)],
)  # fmt: skip
def test_blocks_that_are_read_again_after_waits_are_told_from_others(
    lock_waits: float, exec_s: float, blocks: float, is_said: bool
) -> None:
    """If it waits as long there, or for longer and reads less, waiting is no reason."""
    waits = {"Lock:tuple": lock_waits} if lock_waits else {"LWLock:WALWrite": 1.0}
    reads = [called(x, calls=500, exec_s=0.1, shared_hit=4) for x in (READ, "SELECT 1 FROM t")]
    waiting = called(WRITE, calls=500, exec_s=9.0, shared_hit=10, wal_bytes=200)
    original = replace(twin_of(waiting, *reads), activity=Activity(waits=waits))
    twin = twin_of(
        called(WRITE, calls=500, exec_s=exec_s, shared_hit=blocks, wal_bytes=200), *reads
    )
    found = fidelity(original, twin)
    words = "a call waits for rows that others change, 18 ms in the original"
    assert (words in found.warnings[0]) == is_said
