from __future__ import annotations

import math

import pytest

from pgdrag.english import as_sentence
from pgdrag.findings.values import Answer, ClaimFinding, Comparison, Interval, Verdict
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.cells import (
    NOTHING,
    bounds_words,
    claim_cell,
    published_ratio,
    slowdown_cell,
)
from pgdrag.report.document import Cell, Column, Table, table_of


def compare(verdict: Verdict, low: float, center: float, high: float) -> Comparison:
    return Comparison(verdict, Interval(low, center, high, 0.95, "by hand"), 1.1)


@pytest.mark.parametrize(
    ("comparison", "text", "note"),
    [
        (compare(Verdict.SLOWER, 6.87, 7.18, 7.54), "7.18×", "6.87–7.54"),
        # Turned round together: 1/0.5 = 2, from 1/0.625 to 1/0.4.
        (compare(Verdict.FASTER, 0.4, 0.5, 0.625), "2× faster", "1.6–2.5"),
        (compare(Verdict.EQUIVALENT, 0.99, 1.0, 1.01), "1.00×", "0.99–1.01; no change"),
        (compare(Verdict.INCONCLUSIVE, 0.9, 1.05, 1.2), "1.05×", "0.9–1.2; not significant"),
        (compare(Verdict.INCONCLUSIVE, 0.4, 1.05, 2.5), "1.05×", "0.4–2.5; not significant"),
        (compare(Verdict.SLOWER, 2_000, math.inf, math.inf), "> 2,000×", "lower bound"),
        # The reference committed nothing: a gain without an upper end.
        (compare(Verdict.FASTER, 0.0, 0.0, 0.25), "> 4× faster", "lower bound"),
    ],
)
def test_a_slowdown_says_which_way_round_it_is(comparison, text, note):
    cell = slowdown_cell(comparison)
    assert (cell.text, cell.note) == (text, note)


def test_a_wide_interval_across_no_change_names_both_ways():
    wide = Interval(1 / 17.6, 1.13, 21.1, 0.95, "by hand")
    assert slowdown_words(wide) == "1.13× slower (17.6× faster to 21.1× slower)"
    turned = Interval(1 / 21.1, 1 / 1.13, 17.6, 0.95, "by hand")
    assert slowdown_words(turned) == "1.13× faster (17.6× slower to 21.1× faster)"


def test_a_column_with_nothing_in_it_is_left_out():
    made = table_of("t", [1, 2], {"A": str, ">B": lambda _: NOTHING, "C": lambda x: f"{x}!"})
    assert [column.title for column in made.columns] == ["A", "C"]
    assert [[cell.text for cell in row] for row in made.rows] == [["1", "1!"], ["2", "2!"]]


def test_no_comparison_is_a_dash():
    assert slowdown_cell(None) == NOTHING


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(442_625.0, "442,625×"), (6.7319, "6.73×"), (0.5, "2× faster"), (1.0, "1.00×")],
)
def test_a_published_ratio_keeps_its_whole_digits(ratio, text):
    assert published_ratio(ratio) == text


def test_every_answer_is_a_sign_and_a_word():
    for answer in Answer:
        cell = claim_cell(ClaimFinding(answer, 2.0, None, ""))
        assert cell.text == "2×"
        sign, word = cell.note.split(" ", 1)
        assert (len(sign), word) == (1, answer.value)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(1.0, 2.0, "1–2"), (1.0, math.inf, "over 1"), (0.0, 2.0, "under 2"), (3.0, 3.0, "3")],
)
def test_bounds_name_an_open_end(low, high, text):
    assert bounds_words(Interval(low, low, high, 0.95, ""), lambda x: f"{x:g}") == text


def test_bounds_that_round_alike_are_told_apart():
    close = Interval(1.23401, 1.23402, 1.23403, 0.95, "")
    assert bounds_words(close, lambda x: f"{x:.2f}") == "1.23401–1.23403"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("run 3 or more", "Run 3 or more."),
        ("io_workers (unknown before 18)", "io_workers (unknown before 18)."),
        ("autovacuum = off changed nothing", "autovacuum = off changed nothing."),
        ("It is so.", "It is so."),
    ],
)
def test_words_become_a_sentence_and_names_stay(text, sentence):
    assert as_sentence(text) == sentence


def test_a_table_with_a_short_row_is_refused():
    with pytest.raises(AssertionError, match="1 cells"):
        Table("two columns", (Column("a"), Column("b")), ((Cell("1"),),))
