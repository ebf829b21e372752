"""`pgdrag horizon show`, `pgdrag horizon hold` and `pgdrag capture horizon` as a person runs them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from commands import dsn, heard, outcome, start
from loads import PACED
from watching import asked

from in_process import pgdrag
from pgdrag.findings.holds.analysis import replay_finding
from pgdrag.horizon.distribution_file import inlined, read_distribution
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo import UNDO_VARIABLE, UndoJournal
from pgdrag.host.undo.prepared_transaction import GID_PREFIX, PreparedTransaction
from pgdrag.model import Level, Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import ignore
from pgdrag.model.load import LoadProfile
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot
from pgdrag.stats.hold_lengths import SeenHold, distance
from pgdrag.trial import ServerTrialRunner, run_trial
from stand_ins import kill_with_guardian

HOLDERS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgdrag horizon hold until %'"
PREPARED = "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'pgdrag horizon holder %'"


@pytest.fixture(scope="module")
def server(scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot) -> Iterator[Cluster]:
    """One running cluster for the tests of this file, with a role that may see little."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.configure(
            {"autovacuum": "off", "max_prepared_transactions": "5", "wal_level": "logical"}
        )
        cluster.start()
        with cluster.connect() as connection:
            connection.execute("CREATE ROLE guest LOGIN")
            connection.execute("CREATE TABLE hot AS SELECT 0 AS n FROM generate_series(1, 100)")
        yield cluster


def shown(cluster: Cluster, user: str = "pgdrag") -> dict[str, Any]:
    status, out, err = pgdrag("horizon", "show", "--json", dsn(cluster, user))
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_nobody_holds(server: Cluster) -> None:
    status, out, err = pgdrag("horizon", "show", dsn(server))
    assert (status, err) == (0, "")
    assert "Nothing holds back the horizon." in out
    assert "Wraparound: " in out


def test_show_tells_each_kind_with_the_statement_that_ends_it(server: Cluster) -> None:
    gid = 'o\'clock \\ "now"'
    with server.connect() as other:
        # It waits for all transactions that run, and so comes first.
        other.execute("SELECT pg_create_logical_replication_slot('left', 'test_decoding')")
    reader = server.connect()  # is terminated, and must not be asked to commit
    with server.connect() as writer:
        writer.execute("BEGIN")
        writer.execute("SELECT pg_current_xact_id()")
        reader.execute("BEGIN")
        reader.execute("DECLARE c CURSOR FOR SELECT generate_series(1, 9)")
        reader.execute("FETCH c")
        with server.connect() as other:
            other.execute("BEGIN")
            other.execute("SELECT pg_current_xact_id()")
            other.execute(psycopg.sql.SQL("PREPARE TRANSACTION {}").format(gid))
            other.execute("UPDATE hot SET n = n + 1")
            other.execute("SELECT pg_stat_force_next_flush()")
        try:
            found = shown(server)
            status, out, _ = pgdrag("horizon", "show", dsn(server))
        finally:
            with server.connect() as other:
                by_kind = {x["kind"]: x for x in found["holders"]}
                # What it says would end them does.
                for kind in ("prepared", "slot", "cursor"):
                    other.execute(by_kind[kind]["ended_by"].encode())
    reader.close()
    assert status == 0
    assert set(by_kind) == {"transaction", "cursor", "prepared", "slot"}
    assert by_kind["prepared"]["name"] == gid
    assert by_kind["slot"]["age"] is None
    assert by_kind["slot"]["catalog_age"] >= 0
    assert by_kind["transaction"]["doing"].startswith("idle in transaction")
    assert by_kind["transaction"]["held_s"] >= by_kind["prepared"]["held_s"]
    assert (found["tables"][0]["table"], found["dead"]) == ("public.hot", 100)
    assert "public.hot: 100 dead, 100 live" in out
    assert f"prepared transaction {gid}" in out
    assert found["left_until_stop"] > 2_000_000_000
    assert not asked(server, "SELECT count(*) FROM pg_prepared_xacts")


def test_show_says_what_a_role_without_rights_is_not_shown(server: Cluster) -> None:
    with server.connect() as writer:
        writer.execute("BEGIN")
        writer.execute("SELECT pg_current_xact_id()")
        found = shown(server, "guest")
    [holder] = found["holders"]
    assert (holder["kind"], holder["held_s"]) == ("transaction", None)
    assert "pg_monitor" in found["cannot_see"][0]


def test_hold_is_seen_named_and_let_go(server: Cluster) -> None:
    with server.connect():
        status, out, err = pgdrag(
            "horizon", "hold", dsn(server), "--for", "1s", "--kind", "snapshot", "--yes"
        )
    assert (status, out) == (0, ""), err
    assert re.search(r'as "pgdrag horizon hold until \d\d:\d\d:\d\d UTC"', err)
    assert "Released after" in err
    assert asked(server, HOLDERS) == 0


def started(
    cluster: Cluster, *arguments: str, for_: str = "1h", **environment: str
) -> subprocess.Popen[str]:
    """Start a hold and wait until it says that it holds."""
    # The question itself may be another session.
    always = ("--for", for_, "--yes")
    process = start("horizon", "hold", dsn(cluster), *always, *arguments, **environment)
    heard(process, "Ctrl-C releases it.")
    return process


def test_ctrl_c_lets_go(server: Cluster) -> None:
    process = started(server, "--kind", "cursor")
    process.send_signal(signal.SIGINT)
    status, _, err = outcome(process)
    assert status == 130
    assert "Released after" in err
    assert wait_until(lambda: asked(server, HOLDERS) == 0, 10)


def test_kill_9_lets_go(server: Cluster) -> None:
    process = started(server)
    assert asked(server, HOLDERS) == 1
    process.kill()
    process.communicate()
    assert wait_until(lambda: asked(server, HOLDERS) == 0, 10)


def test_a_hold_that_hangs_is_ended_by_the_server(server: Cluster) -> None:
    process = started(server, for_="1s")
    process.send_signal(signal.SIGSTOP)
    try:
        with server.connect() as other:
            assert wait_until(lambda: other.execute(HOLDERS.encode()).fetchone() == (0,), 30)
    finally:
        process.send_signal(signal.SIGCONT)
        outcome(process)


def test_who_ends_it_is_told(server: Cluster) -> None:
    process = started(server)
    asked(server, HOLDERS.replace("count(*)", "count(pg_terminate_backend(pid))"))
    status, _, err = outcome(process)
    assert status == 1
    assert "no longer holds the horizon: terminating connection due to administrator command" in err


def test_a_prepared_transaction_is_rolled_back_at_the_end(server: Cluster, tmp_path: Path) -> None:
    undo = {UNDO_VARIABLE: str(tmp_path)}
    process = started(server, "--kind", "prepared", **undo)
    process.send_signal(signal.SIGTERM)
    assert outcome(process)[0] == 130
    assert asked(server, PREPARED) == 0
    assert not (tmp_path / "undo.jsonl").read_bytes()


def test_after_kill_9_restore_rolls_it_back(server: Cluster, tmp_path: Path) -> None:
    undo = {UNDO_VARIABLE: str(tmp_path)}
    process = started(server, "--kind", "prepared", **undo)
    kill_with_guardian(process)
    process.communicate()
    assert asked(server, PREPARED) == 1
    noted = (tmp_path / "undo.jsonl").read_text()
    assert "prepared_transaction" in noted
    assert "password=" not in noted
    status, out, err = pgdrag("restore", **undo)
    assert status == 0, err
    assert "was rolled back" in out
    assert asked(server, PREPARED) == 0


def test_one_on_a_server_that_is_gone_stays_noted_with_the_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UNDO_VARIABLE, str(tmp_path / "undo"))
    journal = UndoJournal.open()
    change = PreparedTransaction(
        f"{GID_PREFIX} o'clock", f"host={tmp_path} dbname=x", 'database "x"'
    )
    noted = journal.note(change)
    found = journal.restore(noted)
    assert found.state == "failed"
    assert "End it there with: ROLLBACK PREPARED 'pgdrag horizon holder o''clock'" in found.sentence
    assert "No such file or directory" in found.sentence
    assert [step.change for step in journal.steps()] == [change]
    journal.take_warnings()
    journal.release()


def test_what_is_prepared_is_noted_first_or_not_prepared(server: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    undo = {UNDO_VARIABLE: str(tmp_path / "file" / "undo")}
    status, _, err = pgdrag("horizon", "hold", dsn(server), "--kind", "prepared", "--yes", **undo)
    assert status == 2
    assert "undo journal" in err
    assert asked(server, PREPARED) == 0


def test_a_server_that_others_use_is_not_held_unless_told(server: Cluster) -> None:
    with server.connect():
        status, _, err = pgdrag("horizon", "hold", dsn(server), "--for", "1s")
    assert status == 2
    assert "it has 1 other session" in err
    assert "Give --yes to hold its horizon for 1 s anyway." in err


def scripted(cluster: Cluster, lengths_s: list[float], over: threading.Event) -> Callable[[], None]:
    """Return what holds for each of the lengths, one after the other, until it is over."""

    def hold() -> None:
        with cluster.connect() as connection:
            while not over.is_set():
                for length_s in lengths_s:
                    connection.execute("BEGIN")
                    connection.execute("SELECT pg_current_xact_id()")
                    over.wait(length_s)
                    connection.execute("COMMIT")
                    over.wait(0.05)

    return hold


def test_two_modes_are_captured_and_replayed_in_the_laboratory(
    server: Cluster, bench: ServerTrialRunner, tmp_path: Path
) -> None:
    """Three holds of half a second to one of two, from four sessions, looked at four times a second."""
    file = tmp_path / "shop.toml"
    over = threading.Event()
    lengths_s = [0.5, 0.5, 2.0, 0.5]
    threads = [threading.Thread(target=scripted(server, lengths_s, over)) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        status, out, err = pgdrag(
            "capture", "horizon", dsn(server), "--for", "8s", "--every", "250ms", "--output", file
        )
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert (status, out) == (0, ""), err
    assert "of the time, in one session that held nothing between them" in err
    found = read_distribution(file)
    assert set(found.kinds) == {"transaction"}
    assert found.kinds["transaction"].seen >= 20
    assert found.at_once.get("4", 0) > 0.3
    assert "pg_current_xact_id" not in file.read_text()
    wanted = [SeenHold(x) for x in lengths_s] * 6
    captured = distance(found.lengths, wanted, longest_s=60, seed=1)
    assert captured.is_alike, captured

    level = Level("horizon", "replay", inlined(file.name, tmp_path))
    file.unlink()
    load = LoadProfile(
        connections=1, warm_up_s=0.5, measure_s=6, budget_s=6, min_commits=1, pacing=PACED
    )
    workload = WorkloadSpec("pgbench", {"scale": 1, "scripts": ["simple-update"]})
    trial = Trial(1, 1, 1, Treatment("as in the shop", (level,)), workload, load, seed=5)
    result = run_trial(trial, bench, ignore)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert result.measurement is not None
    replayed = replay_finding(trial.treatment, [(result, result.measurement)])
    assert replayed is not None
    assert replayed.distance.holds >= 5
    assert replayed.distance.is_alike, replayed.distance


def test_capture_keeps_what_it_has_when_stopped(server: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "stopped.toml"
    with server.connect() as writer:
        writer.execute("BEGIN")
        writer.execute("SELECT pg_current_xact_id()")
        process = start(
            "capture", "horizon", dsn(server, "guest"), "--every", "100ms", "-o", str(file)
        )
        pid = looking(server)
        # It loses its connection meanwhile, and makes another one.
        asked(server, f"SELECT pg_terminate_backend({pid})")
        heard(process, "unreachable, retrying")
        heard(process, "1 holds the horizon")
        process.send_signal(signal.SIGINT)
        status, out, _ = outcome(process)
    assert (status, out) == (130, "")
    found = read_distribution(file)
    assert found.kinds["transaction"].in_progress_at_end == 1
    assert 'Role "guest" cannot see' in found.capture.cannot_see[0]


def looking(cluster: Cluster) -> int:
    """Wait until a capture has asked the server time and again, and return its session's process."""
    query = (
        "SELECT pid, query_start FROM pg_stat_activity"
        " WHERE application_name = 'pgdrag capture horizon' AND state = 'idle'"
    )
    seen: set[tuple[int, Any]] = set()
    with cluster.connect() as other:

        def has_looked() -> bool:
            seen.update(other.execute(query.encode()).fetchall())
            return len(seen) >= 8  # of which some are from before the first look

        assert wait_until(has_looked, 60)
    ((pid,),) = {(pid,) for pid, _ in seen}
    return int(pid)


def test_capture_never_holds_what_it_watches(server: Cluster) -> None:
    process = start("capture", "horizon", dsn(server), "--for", "2s", "--every", "50ms", "--json")
    held = []
    with server.connect() as watcher:
        while process.poll() is None:
            held += watcher.execute(
                "SELECT backend_xid IS NOT NULL OR state LIKE 'idle in %' FROM pg_stat_activity"
                " WHERE application_name = 'pgdrag capture horizon'"
            ).fetchall()
            time.sleep(0.001)  # a look takes longer
    status, out, err = outcome(process)
    assert status == 0, err
    assert json.loads(out)["capture"]["looks"] > 10
    assert held
    assert not any(is_held for (is_held,) in held)
