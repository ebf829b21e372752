"""Behind PgBouncer: which modes of statements get through is found out, and what needs a session of its own is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import dsn, heard, outcome, start
from poolers import pgbouncer
from watching import asked

from in_process import pgdrag
from pgdrag.driver.connection_string import reach
from pgdrag.driver.pooler import Pooler
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot

pytestmark = pytest.mark.postgres

FEW = ("--yes", "-c", "4", "-t", "25", "--warm-up", "0")
MODES = ("session", "transaction", "statement")


@pytest.fixture(scope="module")
def server(scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot) -> Iterator[Cluster]:
    """A running cluster with pgbench's tables."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.configure({"fsync": "off", "autovacuum": "off"})
        cluster.start()
        status, _, err = pgdrag("bench", "-i", "-q", dsn(cluster))
        assert status == 0, err
        yield cluster


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pooled(server: Cluster, mode: str) -> Iterator[str]:
    """Leads to the server through PgBouncer."""
    with pgbouncer(server, mode) as where:
        yield where


def only(mode: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mode", [mode], indirect=True, scope="module")


def test_a_pooler_and_its_mode_are_found_out(server: Cluster, pooled: str, mode: str) -> None:
    found = reach(pooled).pooler
    assert found is not None
    assert found.mode == mode
    # Debian's 1.18 knows nothing of what clients prepare; 1.21 does, if it is told to.
    assert found.keeps_prepared or mode != "session"
    assert reach(dsn(server)).pooler is None
    probes = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle'"
    assert asked(server, f"{probes} AND pid <> pg_backend_pid() AND usename = 'pgdrag'") == 0


@only("session")
@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_a_pooler_in_session_mode_lets_all_statements_through(pooled: str, protocol: str) -> None:
    status, out, err = pgdrag("bench", *FEW, "-M", protocol, "-n", "--json", pooled)
    assert status == 0, err
    found = json.loads(out)
    assert found["rungs"][0]["counts"]["committed"] == 100
    assert "a pooler in session mode before the server" in out


@only("transaction")
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_a_pooler_in_transaction_mode_lets_text_and_unnamed_statements_through(
    pooled: str, protocol: str
) -> None:
    status, out, err = pgdrag("bench", *FEW, "-M", protocol, "--json", pooled)
    assert status == 0, err
    counts = json.loads(out)["rungs"][0]["counts"]
    assert (counts["committed"], counts["failed"]) == (100, 0)


@only("transaction")
def test_prepared_statements_are_refused_where_a_pooler_loses_them(pooled: str) -> None:
    if reach(pooled).pooler == Pooler("transaction", keeps_prepared=True):
        pytest.skip("this PgBouncer keeps prepared statements")
    status, out, err = pgdrag("bench", *FEW, "-M", "prepared", pooled)
    assert (status, out) == (2, "")
    assert err.startswith(
        "error: prepared statements do not get through a pooler in transaction mode\n"
    )
    assert "hint: Send simple or extended statements" in err


@only("transaction")
@pytest.mark.parametrize(
    "command",
    [("horizon", "show"), ("horizon", "hold", "--yes"), ("capture", "horizon", "--for", "3s"), ("doctor", "--for", "1s"), ("bench", "-i"), ("tpcc", "load", "--warehouses", "1"), ("tpcc", "check"), ("compare", "default", "work_mem=8MB", "--dsn")],
    ids=" ".join,
)  # fmt: skip
def test_what_needs_a_session_of_its_own_is_refused(
    server: Cluster, pooled: str, command: tuple[str, ...]
) -> None:
    status, out, err = pgdrag(*command, pooled)
    assert (status, out) == (2, "")
    assert "needs a session of its own" in err
    assert "hint: Name the server itself." in err
    # And nobody else's session has become read-only.
    assert asked(server, "SHOW default_transaction_read_only") == "off"


@only("session")
def test_a_pooler_in_session_mode_gives_each_client_a_session(pooled: str) -> None:
    status, _, err = pgdrag("horizon", "show", pooled)
    assert status == 0, err


@only("session")
@pytest.mark.parametrize(
    "command",
    [
        ("doctor", "--for", "1s"),
        ("observe", "--for", "1s"),
        ("capture", "twin", "--for", "1s"),
        ("compare", "default", "work_mem=8MB", "--dsn"),
    ],
    ids=lambda command: command[0],
)
def test_a_session_that_others_had_before_is_refused_where_settings_matter(
    pooled: str, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = pgdrag(*command, pooled)
    assert (status, out) == (2, "")
    assert "needs a session of its own, and there is a pooler in session mode" in err
    assert not list(tmp_path.glob("*.*"))


@only("statement")
def test_a_pooler_in_statement_mode_lets_single_statements_through(pooled: str) -> None:
    status, out, err = pgdrag("bench", *FEW, "-S", "-n", "--json", pooled)
    assert status == 0, err
    assert json.loads(out)["rungs"][0]["counts"]["committed"] == 100
    status, out, err = pgdrag("bench", *FEW, "-n", pooled)
    assert (status, out) == (2, "")
    assert "allows no transaction of several statements" in err
    assert "hint: Run scripts without BEGIN, such as -S" in err


def test_tpcc_is_sent_in_a_mode_that_gets_through(server: Cluster) -> None:
    status, _, err = pgdrag("tpcc", "load", "--warehouses", "1", "--quiet", "--yes", dsn(server))
    assert status == 0, err
    with pgbouncer(server, "transaction") as pooled:
        load = ("--yes", "-c", "4", "-T", "1", "-R", "100", "--warm-up", "0", "--json")
        status, out, err = pgdrag("tpcc", "run", *load, pooled)
        assert status == 0, err
        found = json.loads(out)
        expected = "prepared" if reach(pooled).pooler.keeps_prepared else "extended"  # type: ignore[union-attr]
        assert found["study"]["workload"]["parameters"]["statements"] == expected
        assert found["rungs"][0]["counts"]["committed"] > 0
        status, _, err = pgdrag("tpcc", "run", "--isolation", "serializable", *load, pooled)
        assert status == 2
        assert "cannot run at isolation level serializable through a pooler" in err


def test_sessions_that_a_pooler_ends_are_reported_in_one_sentence(
    server: Cluster, tmp_path: Path
) -> None:
    # The pooler replaces a session that nobody uses, and nobody is told.
    in_use = tmp_path / "in_use.sql"
    in_use.write_text("SELECT pg_sleep(0.2);\n")
    with pgbouncer(server, "transaction") as pooled:
        load = ("-c", "2", "-T", "3", "--warm-up", "0", "-P", "1")
        process = start("bench", "--yes", "-f", str(in_use), "-n", *load, pooled)
        heard(process, "1.0 s: ")
        ended = asked(
            server,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'pgdrag' AND pid <> pg_backend_pid()",
        )
        assert ended > 0
        status, out, _ = outcome(process)
    assert status == 1
    told = " ".join(out.split())
    assert "sessions were ended " in told
    assert "a pooler in transaction mode or something between closed them" in told


@pytest.mark.parametrize(
    ("settings", "database", "words"),
    [
        ({"server_login_retry": 1, "query_wait_timeout": 2}, "nothing_like_it", 'database "nothing_like_it" does not exist'),
        ({}, "pgdrag options='-c work_mem=1MB'", "unsupported startup parameter"),
        ({"max_client_conn": 0}, "pgdrag", "no more connections allowed"),
    ],
)  # fmt: skip
def test_a_refusal_has_the_words_of_the_pooler(
    server: Cluster, settings: dict[str, int], database: str, words: str
) -> None:
    with pgbouncer(server, "session", is_open=False, **settings) as pooled:
        where = pooled.replace("dbname=pgdrag", f"dbname={database}")
        answers = {pgdrag(*command, where) for command in (("bench", "-S"), ("horizon", "show"))}
    ((status, out, err),) = answers
    assert (status, out) == (2, "")
    assert err.startswith("error: could not connect to socket ")
    assert words in err
