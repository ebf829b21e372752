"""No password of a connection string is shown, stored or repeated in an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from pgdrag.cli.ending import print_error, status_of
from pgdrag.driver.process import Target
from pgdrag.driver.security import Tls
from pgdrag.errors import PgdragError, SettingError
from pgdrag.experiment.applicable import applicable
from pgdrag.experiment.formats import read_configuration
from pgdrag.passwords import has_password, without_passwords
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.workloads.command import Command


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("host=db1 password=hush user=me", "host=db1 password=*** user=me"),
        ("password = 'it''s hush' x", "password = *** x"),
        (r"password='it\'s hush' user=me", "password=*** user=me"),
        ("PASSWORD=hush", "PASSWORD=***"),
        ("sslpassword=hush sslkey=/k", "sslpassword=*** sslkey=/k"),
        ('"host=db1 password=hush"', '"host=db1 password=***"'),
        ("postgresql://me:hush@db1/x", "postgresql://me:***@db1/x"),
        ("postgres://me:hu@sh/hush@db1/x", "postgres://me:***@db1/x"),
        ("postgresql://db1/x?user=me&password=hush&port=1", "postgresql://db1/x?user=me&password=***&port=1"),
        ("password=hu'sh", "password=***"),
        ("PGPASSWORD=hush psql", "PGPASSWORD=*** psql"),
        ('PGPASSWORD="hu sh" psql', "PGPASSWORD=*** psql"),
        ("go-tpc --password hush --host db1", "go-tpc --password *** --host db1"),
        ("sysbench --pgsql-password=hush run", "sysbench --pgsql-password=*** run"),
        ("postgresql+psycopg://me:hush@db1/x", "postgresql+psycopg://me:***@db1/x"),
        # Nothing to hide.
        ("postgresql://me@db1:5432/x", "postgresql://me@db1:5432/x"),
        ("passfile=/root/.pgpass user=me", "passfile=/root/.pgpass user=me"),
        ("the server asks for a password", "the server asks for a password"),
        ("password_encryption = md5", "password_encryption = md5"),
        ("psql --password --host db1", "psql --password --host db1"),
    ],
)  # fmt: skip
def test_a_password_is_hidden_and_the_rest_is_shown(text: str, shown: str) -> None:
    assert without_passwords(text) == shown
    assert has_password(text) == (text != shown)


COMMAND = {"profile": "pgbench", "setup": "true", "check": "true", "directory": "/"}


@pytest.mark.parametrize("where", ["command", "setup", "check"])
@pytest.mark.parametrize(
    "text",
    [
        "run postgresql://me:hush@db1/x",
        "run postgresql+psycopg://me:hush@db1/x",
        "PGPASSWORD=hush run",
        "run --password hush",
        "run --password 'hush hush'",
    ],
)
def test_a_command_with_a_password_is_refused_before_it_is_stored(where: str, text: str) -> None:
    with pytest.raises(ValidationError, match="there is a password in it") as found:
        Command.model_validate({"command": "true", **COMMAND, where: text})
    assert "environment" in str(found.value)


@pytest.mark.parametrize(
    "text",
    [
        'run --password "$PGPASSWORD" --host db1',
        "PGPASSWORD=$SECRET run",
        "PGPASSWORD=${SECRET} run",
        "PGPASSWORD=$(cat /secret) run",
        "run postgresql://me:$SECRET@db1/x",
        "psql -h $PGHOST",
        "PGPASSWORD= psql -w",
    ],
)
def test_a_command_may_name_where_its_password_is(text: str) -> None:
    assert Command.model_validate({**COMMAND, "command": text}).command == text


def test_an_error_repeats_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(
        PgdragError(
            'no such file "postgresql://me:hush@db1/x"',
            detail="It is password=hush.",
            hint="Not hush: password='hush hush'.",
        )
    )
    assert capsys.readouterr().err.count("hush") == 1  # where nothing says that it is one


def test_an_internal_error_repeats_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("connection to postgresql://me:hush@db1/x")

    assert status_of(fail) == 70
    assert "hush" not in capsys.readouterr().err


def test_the_repr_of_a_target_and_of_its_tls_has_no_secrets() -> None:
    target = Target("db1", 5432, "me", "x", password="hush")
    assert "hush" not in repr(target)
    assert "hush" not in repr(Tls(certificate="shown", key="hush"))


NAMES = ("primary_conninfo", "my_app.conninfo")
SETTINGS = SettingsCatalog.from_rows(
    180006, [(name, "string", None, None, None, None, "sighup", "", "", "") for name in NAMES]
)
REPLICATION = "host=10.0.0.5 user=replicator password=hush"


def test_a_setting_with_a_password_is_refused_before_it_is_stored() -> None:
    with pytest.raises(SettingError, match="has a password in it") as found:
        SETTINGS.check("primary_conninfo", REPLICATION)
    assert "hush" not in str(vars(found.value))
    SETTINGS.check("primary_conninfo", "host=10.0.0.5 passfile=/root/.pgpass")


def test_of_a_file_a_setting_with_a_password_is_left_out_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "my.conf"
    file.write_text(f"my_app.conninfo = '{REPLICATION}'\nprimary_conninfo = '{REPLICATION}'\n")
    given, skipped = applicable(read_configuration(file), SETTINGS)
    assert given == ()
    assert {x.name for x in skipped} == set(NAMES)
    assert "hush" not in str(skipped)
