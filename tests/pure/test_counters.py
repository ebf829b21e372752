"""Counters without a server: scripts, datasets, and the words for updates that were lost."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pgdrag.model.measurement import Sum
from pgdrag.workloads.counters import CATALOGUE, Counters, lost_updates

VARIANTS = tuple(CATALOGUE)


def script_of(variant: Any, **parameters: Any) -> str:
    job: Any = Counters(variant=variant, **parameters).job()
    (script,) = job["scripts"]
    assert script["name"] == "add"
    return str(script["text"])


def test_the_catalogue_is_that_of_the_model() -> None:
    assert Counters.model_json_schema()["properties"]["variant"]["enum"] == list(VARIANTS)


def test_a_script_draws_a_counter_and_a_delta_and_adds_it() -> None:
    assert script_of("C1") == (
        "\\set b_id random(1, 100)\n\\set v_delta random(-10, 10)\n"
        "UPDATE global_counters SET cnt = cnt + :v_delta WHERE id = :b_id;\n"
    )


@pytest.mark.parametrize(("variant", "key"), [("C4", "123"), ("C6", "123"), ("C7", ":b_id")])
def test_locks_stand_around_the_statement_and_a_failure_gives_them_back(
    variant: Any, key: str
) -> None:
    lines = script_of(variant).splitlines()
    assert lines[2] == f"SELECT pg_advisory_lock({key});"
    assert lines[-1] == f"SELECT pg_advisory_unlock({key});"
    assert "unlock_all" in str(Counters(variant=variant).job()["after_failure"])


def test_variants_that_lock_nothing_send_nothing_after_a_failure() -> None:
    quiet = [x for x in VARIANTS if "after_failure" not in Counters(variant=x).job()]  # type: ignore[arg-type]
    assert quiet == ["C1", "C2", "C3", "C5", "C8", "C9", "talk", "branches", "locks"]


def test_variants_that_differ_in_statement_or_locks_alone_share_their_dataset() -> None:
    shared: dict[str, list[str]] = {}
    for name in VARIANTS:
        dataset = Counters(variant=name).dataset()  # type: ignore[arg-type]
        shared.setdefault(str(dataset), []).append(name)
    assert list(shared.values()) == [
        ["C1", "C2", "talk", "locks"],
        ["C3", "C4"],
        ["C5", "C6", "C7"],
        ["C8"],
        ["C9"],
        ["C10"],
        ["branches"],
    ]


@pytest.mark.parametrize(
    ("variant", "filled"),
    [
        ("C2", "SELECT i, 1000000 FROM"),
        # In the order of last a version without a time would be the newest for ever.
        ("C5", "SELECT i, 1000000, now() FROM"),
        ("C10", "SELECT i, 0, 1000000 FROM"),
    ],
)
def test_counters_begin_as_published(variant: Any, filled: str) -> None:
    assert f"{filled} generate_series(1, 100)" in str(Counters(variant=variant).dataset())


def test_the_script_of_the_talk_counts_nothing_and_is_not_summed() -> None:
    assert script_of("talk") == (
        "\\set b_id random(1, 100)\nUPDATE global_counters SET id = id WHERE id = :b_id;\n"
    )
    assert "sums" not in Counters(variant="talk").job()


def test_a_share_of_the_transactions_reads_and_another_bloats_the_catalogs() -> None:
    mixed = Counters(reads=50, temporary_tables=10)
    assert mixed.transactions == ("add", "read", "temporary table")
    job: Any = mixed.job()
    assert [one["weight"] for one in job["scripts"]] == [40, 50, 10]
    _, reads, makes = (one["text"] for one in job["scripts"])
    assert reads.endswith("SELECT cnt FROM global_counters WHERE id = :b_id;\n")
    assert "CREATE TEMPORARY TABLE" in makes
    assert Counters(reads=50).dataset() == Counters().dataset()


def test_a_transaction_with_several_locks_takes_neighbours_that_are_there() -> None:
    text = script_of("locks", rows=1000, counters_per_transaction=300)
    assert "\\set b_id random(1, 701)\n" in text
    assert text.count(":b_id + 300 - 1") == 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"reads": 60, "temporary_tables": 40}, "leave no transaction that adds"),
        ({"counters_per_transaction": 2}, 'goes with variant = "locks" alone'),
        ({"variant": "locks", "rows": 5, "counters_per_transaction": 6}, "at most rows"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Counters(**parameters)


@pytest.mark.parametrize(
    ("skew", "drawn"),
    [
        ("uniform", "random(1, 7)"),
        ("zipfian(1.2)", "random_zipfian(1, 7, 1.2)"),
        ("exponential(5)", "random_exponential(1, 7, 5.0)"),
        ("gaussian(2)", "random_gaussian(1, 7, 2.0)"),
    ],
)
def test_counters_are_drawn_by_pgbenchs_functions(skew: str, drawn: str) -> None:
    assert f"\\set b_id {drawn}\n" in script_of("C2", rows=7, skew=skew)


@pytest.mark.parametrize("skew", ["", "zipf(2)", "zipfian", "zipfian(1)", "gaussian(1.9)", "zipfian(1.2)\n"])  # fmt: skip
def test_other_ways_to_draw_are_refused(skew: str) -> None:
    with pytest.raises(ValidationError, match="skew"):
        Counters(skew=skew)


def test_a_report_says_what_the_variant_is() -> None:
    words = Counters.words({"variant": "C5", "rows": 100})
    assert words == "variant = C5, rows = 100: C3 without the primary key"
    assert Counters.words({"variant": "C99"}) == "variant = C99"  # of another pgdrag


@pytest.mark.parametrize(
    ("deltas", "total", "sentence"),
    [
        (Sum(5, 45_678), 5, ""),
        (Sum(5, 45_678), 6, "updates were lost: the deltas sum to 5, the table to 6"),
        (
            Sum(-1500, 45_678, untouched=1234),
            20_000,
            "1,234 of 45,678 updates were lost: the deltas sum to -1,500, the table to 20,000",
        ),
        # They may have been deltas of 0, or have made up for each other.
        (
            Sum(5, 9, untouched=2),
            5,
            "2 of 9 updates were lost: the deltas sum to 5, the table to 5",
        ),
        (Sum(5, 9, 0, 2, -3, 4), 2, ""),
        (Sum(5, 9, 0, 2, -3, 4), 9, ""),
        (
            Sum(5, 9, 0, 2, -3, 4),
            10,
            "updates were lost: the deltas sum to 5, the table to 10; 2 more may have committed, as their "
            "connections broke, and add between -3 and 4",
        ),
    ],
)
def test_what_does_not_add_up_is_told(deltas: Sum, total: int, sentence: str) -> None:
    assert lost_updates(deltas, total) == sentence
