"""What ALTER SYSTEM wrote is read, changed and put back in its order."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.host.auto_conf import (
    AutoConf,
    list_parts,
    loads_nothing,
    out_of_place,
    same_text,
    text_of,
    value_of,
    with_values,
)
from pgdrag.host.logins import Login, keep_login, login_of, take_entrusted
from pgdrag.host.undo.altered_role import AlteredRole
from pgdrag.host.undo.altered_system import AlteredSystem
from pgdrag.host.undo.created_database import CreatedDatabase
from pgdrag.host.undo.reaching import firm_options, is_refusal

NAMES = st.from_regex(r"[a-z_]{1,12}(\.[a-z_]{1,5})?", fullmatch=True)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=20)


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_what_is_written_is_read_as_it_was(values: dict[str, str]) -> None:
    conf = AutoConf(text_of(values))
    assert conf.is_plain
    assert list(conf.values.items()) == list(values.items())
    assert text_of(conf.values) == conf.content


@pytest.mark.parametrize(
    ("content", "is_plain"),
    [
        (b"", True),
        (b"work_mem = '4MB'\n", True),
        (b"# by hand\nwork_mem = '4MB'\n", False),
        (b"work_mem = 4MB\n", False),
        (b"work_mem = '4MB'\nWORK_MEM = '5MB'\n", False),
    ],
)
def test_a_file_that_alter_system_would_write_otherwise_is_known(
    content: bytes, is_plain: bool
) -> None:
    assert AutoConf(content).is_plain is is_plain


def test_a_name_is_found_in_any_case() -> None:
    conf = AutoConf(b"TimeZone = 'UTC'\n")
    assert (value_of(conf.values, "timezone"), value_of(conf.values, "work_mem")) == ("UTC", None)


def test_changes_are_put_back_in_the_order_of_before() -> None:
    now = {"a": "1", "c": "3", "b": "20", "new": "4"}
    found = with_values(now, {"b": "2", "new": None}, ("a", "b", "c"))
    assert list(found.items()) == [("a", "1"), ("b", "2"), ("c", "3")]


def test_only_lines_behind_the_first_that_is_out_of_place_are_set_again() -> None:
    assert list(out_of_place(["a", "c", "b"], ["a", "b", "c"])) == ["b", "c"]
    assert list(out_of_place(["a", "b"], ["a", "b"])) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a", ["a"]),
        ('a, "B c" ,d', ["a", "B c", "d"]),
        ('"$user", public', ["$user", "public"]),
        ('"a""b"', ['a"b']),
    ],
)
def test_a_list_has_the_parts_that_the_server_reads(text: str, parts: list[str]) -> None:
    assert list_parts(text) == parts


def test_no_change_is_noted_with_a_password() -> None:
    conninfo = "host=db1 password=hush"
    with pytest.raises(ValueError, match="no password"):
        AlteredSystem("1", conninfo, "db1", "s", before={}, data_directory="")
    with pytest.raises(ValueError, match="no password"):
        AlteredRole("1", conninfo, "db1", "s", before={}, role="me", database="shop")
    with pytest.raises(ValueError, match="no password"):
        CreatedDatabase("1", conninfo, "db1", "s", "pgdrag_0123456789abcdef")


def test_a_journal_makes_pgdrag_drop_no_database_of_others() -> None:
    with pytest.raises(ValueError, match="not a database of pgdrag's"):
        CreatedDatabase("1", "host=db1", "db1", "s", "shop")


def test_what_is_entrusted_is_known_to_whoever_clears_up() -> None:
    line = json.dumps({"system_identifier": "7", "conninfo": "x", "restart_command": "y"})
    take_entrusted(["no JSON", "{}", line])
    assert login_of("7") == Login("x", "y")
    assert "x" not in repr(login_of("7"))
    keep_login("8", Login("z"))
    assert login_of("8") == Login("z")


@pytest.mark.parametrize(
    ("name", "asked", "stored"),
    [
        ("shared_preload_libraries", "a,b", "a, b"),
        ("Search_Path", "$user, public", '"$user", public'),
        ("search_path", "", '""'),
        ("work_mem", None, None),
    ],
)
def test_a_list_is_the_same_in_the_spelling_that_the_server_stores(
    name: str, asked: str | None, stored: str | None
) -> None:
    assert same_text(name, asked, stored)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("shared_preload_libraries", "a,b", "b, a"),
        ("search_path", "a", None),
        ("application_name", "a,b", "a, b"),
    ],
)
def test_another_order_another_text_or_none_is_another_value(
    name: str, one: str | None, other: str | None
) -> None:
    assert not same_text(name, one, other)


def test_a_list_without_a_library_cannot_be_stored() -> None:
    assert loads_nothing("shared_preload_libraries", "")
    assert not loads_nothing("shared_preload_libraries", "auto_explain")
    assert not loads_nothing("shared_preload_libraries", None)
    assert not loads_nothing("search_path", "")


def test_an_undo_says_what_no_treatment_may_change_beside_the_options_that_are_given() -> None:
    options = firm_options("host=db1 options='-c geqo=off'", 130000)
    assert options.startswith("-c geqo=off -c default_transaction_read_only=off ")
    assert "-c statement_timeout=30s -c lock_timeout=10s" in options
    assert "idle_session_timeout" not in options
    assert "idle_session_timeout=0" in firm_options("host=db1")
    assert "lock_timeout" not in firm_options("host=db1", without=["lock_timeout"])
    unlimited = firm_options("host=db1", is_limited=False)
    assert "-c statement_timeout=0 -c lock_timeout=10s" in unlimited


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        ('connection failed: FATAL:  password authentication failed for user "me"', True),
        ("connection failed: fe_sendauth: no password supplied", True),
        ("connection failed: Connection refused", False),
        ("connection failed: FATAL:  sorry, too many clients already", False),
        ("connection failed: FATAL:  the database system is starting up", False),
    ],
)
def test_an_answer_is_not_waited_for_again(words: str, is_one: bool) -> None:
    assert is_refusal(psycopg.OperationalError(words)) is is_one


def without_a_server(
    directory: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> AlteredSystem:
    """Return a change of a server that does not run, whose file has this content."""
    monkeypatch.setattr("pgdrag.host.undo.altered_system._COMES_BACK_S", 0.0)
    (directory / "global").mkdir()
    (directory / "global" / "pg_control").write_bytes((77).to_bytes(8, "little"))
    (directory / "postgresql.auto.conf").write_text(content)
    return AlteredSystem(
        *("77", f"host={directory}", "db1", "s"),
        data_directory=str(directory),
        before={"work_mem": "5MB", "jit": None},
        written={"work_mem": ("7MB",), "jit": ("off",)},
    )


def test_lines_that_somebody_wrote_by_hand_are_not_dropped_while_the_server_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "# mine\nwork_mem = '7MB'\njit = 'off'\n"
    result = without_a_server(tmp_path, content, monkeypatch).restore(overwrite=False)
    assert result.state == "failed"
    assert "set work_mem = '5MB', remove jit" in result.sentence
    assert (tmp_path / "postgresql.auto.conf").read_text() == content


def test_what_somebody_else_changed_in_the_file_is_named_while_the_server_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "work_mem = '9MB'\njit = 'off'\n"
    result = without_a_server(tmp_path, content, monkeypatch).restore(overwrite=False)
    assert result.state == "failed"
    assert "except what someone else has changed (work_mem is 9MB)" in result.sentence
    assert AutoConf((tmp_path / "postgresql.auto.conf").read_bytes()).values == {"work_mem": "9MB"}
