"""What is said of a connection that failed, from psycopg's and libpq's words alone."""

from __future__ import annotations

import dataclasses
import stat
from pathlib import Path

import psycopg
import pytest

from pgdrag.driver.connect_errors import Asked, connect_error, session_refused, why_ignored
from pgdrag.driver.pooler import Pooler, refuse_shared_sessions, sendable
from pgdrag.errors import DriverError, ServerLost, UsageError
from pgdrag.host.error_words import words_of

ASKED = Asked("db1", "5432", "me", "shop", timeout_s="10")
TRY = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '


def test_words_that_nobody_knows_are_passed_on() -> None:
    found = connect_error(f"{TRY}FATAL:  the moon is full\nDETAIL:  It rises.", ASKED)
    assert isinstance(found, ServerLost)
    assert found.message == "could not connect to db1, port 5432: the moon is full"
    assert found.detail == "It rises."


def test_the_way_that_was_wanted_is_told_and_not_the_one_after_it() -> None:
    both = "\n".join(
        f'{TRY}FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "me", database "shop", {end}'
        for end in ("SSL encryption", "no encryption")
    )
    found = connect_error(both, ASKED)
    assert found.message.endswith("SSL encryption")
    assert found.hint == (
        'On the server, add a line such as "host shop me 10.0.0.9/32 scram-sha-256" to pg_hba.conf and reload.'
    )


def test_several_servers_with_one_reason_are_one_sentence() -> None:
    words = f"{TRY}Connection refused\n\tIs the server running?"
    several = "\n".join(
        f"- host: '{host}', port: '5432', hostaddr: '10.0.0.1': {words}" for host in ("a", "b")
    )
    text = f"{words}\nMultiple connection attempts failed. All failures were:\n{several}"
    found = connect_error(text, ASKED)
    assert found.message == "could not connect to a, port 5432 and b, port 5432: connection refused"


def test_the_name_that_was_meant_is_asked_of_the_server_only_if_it_matters() -> None:
    asked = dataclasses.replace(ASKED, databases=lambda: ["shop", "store"])
    words = f'{TRY}FATAL:  database "shpo" does not exist'
    assert connect_error(words, asked).hint == 'Did you mean "shop"?'

    def never() -> list[str]:
        raise AssertionError("asked")

    connect_error(f"{TRY}Connection refused", dataclasses.replace(ASKED, databases=never))


@pytest.mark.parametrize(("mode", "is_said"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_password_file_is_ignored_where_others_may_read_it(
    tmp_path: Path, mode: int, is_said: bool
) -> None:
    file = tmp_path / "pgpass"
    file.touch()
    file.chmod(mode)
    assert bool(why_ignored(file)) == is_said
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert why_ignored(tmp_path) == "it is not a plain file"
    assert why_ignored(tmp_path / "nothing") == ""


def test_a_session_that_the_driver_cannot_open_is_told_as_a_connection() -> None:
    full = DriverError("sorry, too many clients already", sqlstate="53300", phase="connect")
    found = session_refused(full, ASKED)
    assert found is not None
    assert found.message == "could not connect to db1, port 5432: sorry, too many clients already"
    assert found.hint == "End sessions, use fewer clients, or raise max_connections."
    # Later, and for other reasons, it is the load's own failure.
    assert session_refused(DriverError("full", sqlstate="53300", phase="run"), ASKED) is None
    assert (
        session_refused(DriverError("no table", sqlstate="42P01", phase="connect"), ASKED) is None
    )


SESSION, TRANSACTION = (
    Pooler("session", keeps_prepared=True),
    Pooler("transaction", keeps_prepared=False),
)
STATEMENT, NEWER = (
    Pooler("statement", keeps_prepared=False),
    Pooler("transaction", keeps_prepared=True),
)


@pytest.mark.parametrize("pooler", [None, SESSION, NEWER])
def test_what_keeps_prepared_statements_gets_any(pooler: Pooler | None) -> None:
    assert sendable(pooler, "prepared", is_default=False, has_blocks=True) == "prepared"


def test_prepared_statements_are_replaced_where_nobody_asked_for_them() -> None:
    assert sendable(TRANSACTION, "prepared", is_default=True, has_blocks=True) == "extended"
    assert sendable(TRANSACTION, "simple", is_default=True, has_blocks=True) == "simple"
    with pytest.raises(UsageError, match="pipelined statements do not get through"):
        sendable(TRANSACTION, "pipelined", is_default=False, has_blocks=True)


def test_transactions_of_several_statements_do_not_get_through_statement_mode() -> None:
    assert sendable(STATEMENT, "extended", is_default=False, has_blocks=False) == "extended"
    with pytest.raises(UsageError, match="no transaction of several statements"):
        sendable(STATEMENT, "extended", is_default=False, has_blocks=True)


def test_sessions_given_out_in_turn_are_refused_only_where_settings_matter() -> None:
    refuse_shared_sessions(SESSION, "horizon show")
    with pytest.raises(
        UsageError, match="doctor needs a session of its own, and there is a pooler in session mode"
    ):
        refuse_shared_sessions(SESSION, "doctor", even_in_turn=True)
    with pytest.raises(UsageError, match="there is a pooler in transaction mode before"):
        refuse_shared_sessions(TRANSACTION, "horizon show")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("connection is bad: no such file\nIs it running?", "no such file"),
        ("connection failed: FATAL:  the moon is full", "the moon is full"),
        ("", "OperationalError"),
    ],
)
def test_an_error_is_told_in_the_words_of_libpq_or_the_server(said: str, words: str) -> None:
    assert words_of(psycopg.OperationalError(said)) == words
