"""What libpq negotiated is what the load driver is told to ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdrag.driver.process import Target, driver_job
from pgdrag.driver.security import Security, Tls, parameters_of, security_of
from pgdrag.errors import UsageError

PEM = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"


@pytest.fixture(autouse=True)
def home(no_libpq_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, Tls()),
        ({"sslmode": "require"}, Tls()),
        # Root certificates that are there are used in any mode.
        ({"sslmode": "require", "sslrootcert": "root.pem"}, Tls("ca", PEM)),
        ({"sslmode": "verify-ca", "sslrootcert": "root.pem"}, Tls("ca", PEM)),
        ({"sslmode": "verify-full", "sslrootcert": "root.pem"}, Tls("full", PEM)),
        ({"sslmode": "verify-full", "sslrootcert": "system"}, Tls("full", "system")),
        ({"sslnegotiation": "direct", "sslsni": "0"}, Tls(is_direct=True, names_host=False)),
        ({"sslcert": "root.pem", "sslkey": "root.pem"}, Tls(certificate=PEM, key=PEM)),
        ({"sslcert": "root.pem", "sslkey": "root.pem", "sslcertmode": "disable"}, Tls()),
    ],
)
def test_sessions_are_encrypted_as_libpqs_connection_is(
    known: dict[str, str], expected: Tls, home: Path
) -> None:
    (home / "root.pem").write_text(PEM)
    named = {x: str(home / y) if y == "root.pem" else y for x, y in known.items()}
    assert security_of(named, is_encrypted=True).tls == expected
    assert security_of(named, is_encrypted=False).tls is None


def test_the_usual_files_are_found(home: Path) -> None:
    (home / ".postgresql").mkdir()
    for name in ("root.crt", "postgresql.crt", "postgresql.key"):
        (home / ".postgresql" / name).write_text(PEM)
    assert security_of({}, is_encrypted=True).tls == Tls("ca", PEM, PEM, PEM)


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        ("", None),
        ("scram-sha-256", ("scram-sha-256",)),
        ("md5,scram-sha-256", ("md5", "scram-sha-256")),
        ("!password,!md5", ("none", "scram-sha-256")),
        ("none", ("none",)),
        ("gss", ()),  # which the driver does not have
    ],
)
def test_required_methods_are_handed_on(required: str, expected: tuple[str, ...] | None) -> None:
    assert security_of({"require_auth": required}, is_encrypted=False).auth_methods == expected


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"client_encoding": "latin1"}, "client_encoding"),
        ({"sslcrl": "/crl"}, "sslcrl"),
        ({"gssencmode": "require"}, "gssencmode"),
        ({"ssl_max_protocol_version": "TLSv1.2"}, "TLSv1.2"),
        ({"ssl_min_protocol_version": "TLSv1.3"}, "TLSv1.3"),
        ({"sslcert": "der.crt"}, "not in PEM form"),
        ({"sslcert": "root.pem", "sslkey": "locked.key"}, "encrypted"),
    ],
)
def test_what_the_driver_lacks_is_refused(known: dict[str, str], words: str, home: Path) -> None:
    (home / "root.pem").write_text(PEM)
    (home / "der.crt").write_bytes(b"0\x82\x01\xff")
    (home / "locked.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    named = {x: str(home / y) if (home / y).is_file() else y for x, y in known.items()}
    with pytest.raises(UsageError, match=words) as refused:
        security_of(named, is_encrypted=True)
    assert refused.value.hint


def test_a_list_of_revoked_certificates_in_its_usual_place_is_refused_where_it_counts(
    home: Path,
) -> None:
    (home / ".postgresql").mkdir()
    (home / ".postgresql" / "root.crl").write_text(PEM)
    older = {"ssl_min_protocol_version": "TLSv1.2"}
    assert security_of(older, is_encrypted=True).tls == Tls()
    (home / ".postgresql" / "root.crt").write_text(PEM)
    with pytest.raises(UsageError, match=r"root\.crl"):
        security_of({}, is_encrypted=True)
    assert security_of({}, is_encrypted=False).tls is None


def test_libpq_says_what_counts_without_connecting(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = home / "services"
    services.write_text("[bench]\nsslmode=verify-full\nrequire_auth=md5\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGSSLMODE", "require")
    assert parameters_of("dbname=x")["sslmode"] == "require"
    found = parameters_of("service=bench")
    assert (found["sslmode"], found["require_auth"]) == ("verify-full", "md5")
    assert parameters_of("service=bench sslmode=disable")["sslmode"] == "disable"


def test_a_job_leaves_out_security_settings_that_are_the_drivers_defaults() -> None:
    plain = Target("/socket", 5432, "me", "db")
    told = driver_job("run", plain, None, 0)["server"]
    assert not {"address", "tls", "channel_binding", "auth_methods"} & told.keys()
    security = Security(Tls("full", PEM), "require", ("scram-sha-256",))
    told = driver_job(
        "run", Target("db1", 1, "me", "db", security=security, address="::1"), None, 0
    )
    assert told["server"]["tls"]["roots"] == {"pem": PEM}
    assert told["server"]["channel_binding"] == "require"
    assert (told["server"]["address"], told["server"]["auth_methods"]) == ("::1", ["scram-sha-256"])


def test_what_keeps_connections_alive_is_passed_on_where_it_is_given() -> None:
    given = {"keepalives_idle": "9", "keepalives_count": "0", "tcp_user_timeout": "5000"}
    found = security_of(given, is_encrypted=False).job()
    assert found == {"keep_alive": {"idle_s": 9, "user_timeout_ms": 5000}}
    assert security_of({**given, "keepalives": "0"}, is_encrypted=False).job() == {}
    assert security_of({"keepalives_idle": "soon"}, is_encrypted=False).job() == {}
