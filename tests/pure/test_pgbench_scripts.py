"""Scripts are named as pgbench names them, and what cannot be meant is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from pgdrag.errors import UsageError
from pgdrag.workloads.pgbench import Pgbench
from pgdrag.workloads.scripts import (
    BUILTINS,
    Script,
    any_script,
    builtin_script,
    file_script,
    split_weight,
    with_own_names,
)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("a.sql", ("a.sql", 1)),
        ("a.sql@7", ("a.sql", 7)),
        ("a@b.sql@0", ("a@b.sql", 0)),
    ],
)
def test_a_weight_follows_the_last_at_sign(option: str, expected: tuple[str, int]) -> None:
    assert split_weight(option) == expected


@pytest.mark.parametrize("option", ["a.sql@", "a.sql@x", "a.sql@-1", "a@b.sql", "a@2147483648"])
def test_what_follows_the_at_sign_must_be_a_weight(option: str) -> None:
    with pytest.raises(UsageError, match="is not a whole number"):
        split_weight(option)


def test_a_weight_needs_a_name() -> None:
    with pytest.raises(UsageError, match="no name"):
        split_weight("@3")


def test_the_start_of_a_name_is_enough_where_it_is_of_one_script() -> None:
    assert builtin_script("se@3").name == "select-only"
    with pytest.raises(UsageError, match="several"):
        builtin_script("s")


@pytest.mark.parametrize("name", ["slect-only", "", "SELECT-ONLY"])
def test_an_unknown_builtin_is_told_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match="no built-in script") as found:
        builtin_script(name)
    assert "tpcb-like" in (found.value.hint or "")


def test_the_nearest_builtin_is_offered() -> None:
    with pytest.raises(UsageError) as found:
        builtin_script("slect-only@2")
    assert 'Did you mean "select-only"?' in (found.value.hint or "")


def test_a_file_is_read_relative_to_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    assert file_script("a.sql@2", tmp_path) == Script(name="a.sql", text="SELECT 1;\n", weight=2)
    (tmp_path / "plain").write_text("SELECT 2;\n")
    assert any_script("plain", tmp_path).text == "SELECT 2;\n"
    assert any_script("tpcb-like", tmp_path).is_builtin


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'script file ".*b.sql": no such file'):
        any_script("b.sql", tmp_path)
    with pytest.raises(UsageError, match="is a directory"):
        file_script(".", tmp_path)
    (tmp_path / "latin.sql").write_bytes(b"SELECT 1;\nSELECT '\xe9';\n")
    with pytest.raises(UsageError, match=r"latin.sql:2: the text is not UTF-8"):
        file_script("latin.sql", tmp_path)


def test_scripts_of_one_name_are_told_apart() -> None:
    named = with_own_names([Script(name=name, text="1") for name in "aba"])
    assert [script.name for script in named] == ["a", "b", "a (2)"]


def test_weights_that_are_all_zero_are_refused() -> None:
    with pytest.raises(UsageError, match="weight 0"):
        with_own_names([Script(name="a", text="1", weight=0)])


def test_an_experiments_scripts_are_read_once_and_kept_as_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.sql"
    file.write_text("SELECT 1;\n")
    table = {"scripts": ["mine.sql@2", "select-only"], "variables": {"n": 5}}
    found = Pgbench.model_validate(table, context={"directory": str(tmp_path)})
    file.unlink()
    again = Pgbench.model_validate(found.model_dump(mode="json"))
    assert again == found
    assert again.transactions == ("mine.sql", "select-only")
    job = again.job()
    assert job["variables"] == {"n": "5"}
    assert [x["weight"] for x in job["scripts"]] == [2, 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"scripts": []}, "at least one script"),
        ({"scripts": ["nothing.sql"]}, "no such file"),
        ({"scripts": ["tpcb"], "scale": 0}, "greater than or equal to 1"),
        ({"variables": {"a b": "1"}}, "pattern"),
        ({"variables": {"a": True}}, "string"),
        ({"statements": "pipelined"}, "prepared"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(table: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Pgbench.model_validate(table)


def test_only_what_makes_the_tables_keys_the_dataset() -> None:
    assert Pgbench().dataset() == Pgbench(scripts=("select-only",), max_tries=5).dataset()  # type: ignore[arg-type]
    assert Pgbench().dataset() != Pgbench(fillfactor=90).dataset()


def test_every_builtin_is_described() -> None:
    assert all(x.title and x.text.endswith(";\n") for x in BUILTINS.values())


@pytest.mark.parametrize(
    "text",
    [
        "\\set x 1\nUPDATE t SET a = :x;\n",
        "/* a remark */ select 1",
        "-- a remark\n\n  WITH x AS (SELECT 1) TABLE x;",
        "(SELECT 1);",
        ":statement;",
        "BEGIN; SELECT 1; END",
        "\\sleep 1 ms\n",
        "SHOW POOLS;",
        "\\if true\n\\endif",
    ],
)
def test_whatever_has_a_statement_or_a_meta_command_is_a_script(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.sql").write_text(text)
    assert file_script("a.sql", tmp_path).text == text


@pytest.mark.parametrize("text", ["", "\n\n", "-- nothing yet\n", "Dear all,\nit is slow again.\n"])
def test_what_has_neither_is_no_script(tmp_path: Path, text: str) -> None:
    (tmp_path / "notes.txt").write_text(text)
    with pytest.raises(UsageError, match=r"notes\.txt:1: this is not a script"):
        file_script("notes.txt", tmp_path)


def test_all_built_in_scripts_are_scripts(tmp_path: Path) -> None:
    for name, builtin in BUILTINS.items():
        (tmp_path / name).write_text(builtin.text)
        assert file_script(name, tmp_path).text == builtin.text
