"""Texts of pg_stat_statements that the server's grammar refuses, and limits that nobody knows."""

from __future__ import annotations

import pytest

from pgdrag.planning.explaining import mended_text, with_limits
from twin_statements import statement

MENDED = {
    "SELECT now() - interval $1": "SELECT now() - $1::interval",
    "SELECT date $2 + $1": "SELECT $2::date + $1",
    "SELECT extract($1 FROM placed)": "SELECT date_part($1, placed)",
    "SELECT a FROM t WHERE interval_s = $1": "",
}


@pytest.mark.parametrize(("text", "mended"), MENDED.items())
def test_what_the_grammar_refuses_is_written_otherwise(text: str, mended: str) -> None:
    assert mended_text(text) == mended


LIMITED = {
    "SELECT a FROM t ORDER BY a LIMIT $1": "SELECT a FROM t ORDER BY a LIMIT 3",
    "SELECT a FROM t LIMIT $1 OFFSET $2;": "SELECT a FROM t LIMIT 3 OFFSET 0",
    "SELECT a FROM t FETCH FIRST $1 ROWS ONLY": "SELECT a FROM t FETCH FIRST 3 ROWS ONLY",
    "SELECT a FROM t WHERE a = $1": "SELECT a FROM t WHERE a = $1",
}


# Limits within parentheses, and those whose number would be missing before a higher one.
KEPT = (
    "SELECT a FROM (SELECT a FROM t LIMIT $1) AS x",
    "SELECT a FROM t WHERE a = $2 LIMIT $1",
    "(SELECT a FROM t LIMIT $1) UNION SELECT $2",
    'SELECT "LIMIT $1" FROM t WHERE a = $1',
    "SELECT a FROM t LIMIT ($1 + 1)",
)


@pytest.mark.parametrize("text", KEPT)
def test_limits_of_which_nothing_is_known_or_that_leave_a_gap_stay(text: str) -> None:
    assert with_limits(statement(text, calls=10, rows=25)) == text


def test_the_outer_limit_is_told_from_the_inner_one() -> None:
    text = "SELECT a FROM (SELECT a FROM t LIMIT $1) AS x WHERE a = $2 LIMIT ($3) OFFSET $4"
    limited = "SELECT a FROM (SELECT a FROM t LIMIT $1) AS x WHERE a = $2 LIMIT 3 OFFSET 0"
    assert with_limits(statement(text, calls=10, rows=25)) == limited


@pytest.mark.parametrize(("text", "limited"), LIMITED.items())
def test_a_limit_is_as_many_rows_as_a_call_returned(text: str, limited: str) -> None:
    assert with_limits(statement(text, calls=10, rows=25)) == limited


def test_a_statement_that_returned_nothing_is_limited_to_one_row() -> None:
    assert with_limits(statement("SELECT a FROM t LIMIT $1", rows=0)) == "SELECT a FROM t LIMIT 1"


def test_a_statement_that_was_never_called_keeps_its_parameter() -> None:
    assert with_limits(statement("SELECT a FROM t LIMIT $1", calls=0)).endswith("LIMIT $1")
