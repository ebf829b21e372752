"""Statements without their constants: no planted secret survives, in whatever form SQL has for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.literals import without_literals

SECRET = "s3cr3t"
# Each has the secret where SQL lets a constant, or a comment, stand.
FORMS = (
    f"'{SECRET}'",
    f"'it''s {SECRET}'",
    f"E'a\\'{SECRET}'",
    f"e'\\\\' || '{SECRET}'",
    f"U&'{SECRET}'",
    f"N'{SECRET}'",
    f"X'{SECRET}'",
    f"$${SECRET}$$",
    f"$body$ begin perform '{SECRET}'; end $body$",
    f"$ü1$ $$ {SECRET} $ü1$",
    f"/* {SECRET} */",
    f"/* a /* b */ {SECRET} */",
    f"-- {SECRET}\n",
    f"'a\\' || {SECRET} || '",  # as standard_conforming_strings = off reads it
)
NUMBERS = ("424242", "0x424242", "42.4242e42", ".424242", "1_424242", "424242.", "4e+4242")
PLAIN = (
    "SELECT a",
    "FROM t1",
    ', "My Table".b',
    "WHERE x =",
    "$1",
    "+",
    "(",
    ")",
    "IN",
    "::text",
    "-",
)


@given(st.lists(st.sampled_from([*FORMS, *PLAIN]), max_size=12))
def test_no_secret_survives_wherever_it_stands(parts: list[str]) -> None:
    found = without_literals(" ".join(parts))
    assert SECRET not in found
    assert without_literals(found) == found


@given(st.sampled_from(FORMS), st.integers(0, 200))
def test_no_secret_survives_a_text_that_is_cut_off(form: str, length: int) -> None:
    # Whatever is left of a secret is less than all of it.
    assert SECRET not in without_literals(f"SELECT 1, {form}, 2"[:length])


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    found = without_literals(text)
    assert "'" not in found
    assert "\n" not in found


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_go(number: str) -> None:
    assert "4242" not in without_literals(f"SELECT * FROM t WHERE a = {number} AND b < -{number}")


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("SELECT  a_1,\n b2 FROM s1.t2 WHERE c = $1", "SELECT a_1, b2 FROM s1.t2 WHERE c = $1"),
        ("SELECT 1 -- who asked\nFROM t", "SELECT ? FROM t"),
        ('SELECT "it\'s", U&"d\\0061t" FROM t', 'SELECT "it\'s", U&"d\\0061t" FROM t'),
        ("CREATE ROLE a PASSWORD 'x' LOGIN", "CREATE ROLE a PASSWORD ? LOGIN"),
        ("SET app.token = abc", "SET app.token = ?"),
        ("set local app.token to abc", "set local app.token to ?"),
        ("ALTER ROLE a SET app.token TO abc", "ALTER ROLE a SET app.token TO ?"),
        ("SET TRANSACTION READ ONLY", "SET TRANSACTION READ ONLY"),
        ("SELECT a$1$b FROM t", "SELECT a$1$b FROM t"),
    ],
)
def test_names_and_parameters_stay(statement: str, found: str) -> None:
    assert without_literals(statement) == found
