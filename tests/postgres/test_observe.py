"""`pgdrag observe` on real servers, under a role with pg_monitor alone: restarts, resets, secrets, kills."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from commands import dsn, heard, outcome, start

from conftest import newest
from in_process import pgdrag
from pgdrag.driver.connection_string import reach
from pgdrag.errors import ServerError
from pgdrag.host.clock import SteadyClock
from pgdrag.host.process_alive import wait_until
from pgdrag.model.observed import (
    BEGAN,
    CLOCK_STEP,
    GAP,
    RESET,
    RESTARTED,
    SETTINGS,
    Stretch,
)
from pgdrag.observations.recorder import Recorder, RecordingProgress
from pgdrag.observations.store import DEFAULT_BYTES, ObservationReader, ObservationWriter
from pgdrag.observations.stretch import read_stretch
from pgdrag.report.stretch.formats import (
    render_stretch_html,
    render_stretch_json,
    render_stretch_markdown,
    stretch_terminal_text,
)
from pgdrag.report.stretch.text import render_stretch_text
from pgdrag.servers.cluster import Cluster

EVERY_S = 0.2
SECRET, NUMBER = "hunter2", "867530942"
WATCHER, GUEST = "watcher", "guest"


class Enough(Exception):
    """Ends a recording."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each query be asked in each sample, however slow this machine is."""
    monkeypatch.setattr("pgdrag.observations.reading.FREE_S", 10.0)


@pytest.fixture(scope="module")
def server(telling_version: str, new_cluster: Callable[[str], Cluster]) -> Iterator[Cluster]:
    """A running cluster of each telling version with statistics of statements, a watcher and a guest."""
    with new_cluster(telling_version) as cluster:
        cluster.configure(
            {
                "shared_preload_libraries": "pg_stat_statements",
                "track_io_timing": "on",
                "autovacuum": "off",
            }
        )
        cluster.start()
        with cluster.connect() as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
            connection.execute(f"CREATE ROLE {WATCHER} LOGIN IN ROLE pg_monitor")
            connection.execute(f"CREATE ROLE {GUEST} LOGIN")
            connection.execute(
                "CREATE TABLE t AS SELECT g AS a, g AS b FROM generate_series(1, 5000) AS g"
            )
        yield cluster


def record(
    cluster: Cluster,
    path: Path,
    *steps: Callable[[], object],
    role: str = WATCHER,
    append: bool = False,
) -> tuple[Stretch, Recorder]:
    """Observe a server, do a step after each sample, and end two samples after the last one."""
    clock = SteadyClock()
    if append:
        file = ObservationWriter.append(path, most_bytes=DEFAULT_BYTES)
    else:
        file = ObservationWriter.create(path, began_unix_s=clock.unix_s(), most_bytes=DEFAULT_BYTES)
    recorder = Recorder(
        reach(dsn(cluster, role), is_for_driver=False), file, every_s=EVERY_S, clock=clock
    )
    left = iter((*steps, lambda: None, lambda: None))

    def listen(progress: RecordingProgress) -> None:
        if progress.latest is not None:
            step = next(left, None)
            if step is None:
                raise Enough
            step()

    try:
        recorder.run(60, listen)
    except Enough:
        pass
    finally:
        file.close()
    return read_stretch(path), recorder


def load(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        for number in range(20):
            connection.execute("UPDATE t SET b = b + 1 WHERE a = %s", (number,))
        connection.execute("SELECT count(*) FROM t WHERE b > 0").fetchall()
        connection.execute("SELECT pg_stat_clear_snapshot()")


def kinds(stretch: Stretch) -> list[str]:
    return [event.kind for event in stretch.events]


def mean(stretch: Stretch, name: str) -> float:
    series = stretch.of(name)
    assert series is not None, name
    return series.whole.mean


def test_a_load_shows_in_counters_statements_and_waits(server: Cluster, tmp_path: Path) -> None:
    with server.connect() as holder:
        holder.execute("BEGIN")
        holder.execute("UPDATE t SET b = 0 WHERE a = 4000")
        waiting = psycopg.connect(server.conninfo(application_name="waits"), autocommit=True)
        # A session that waits for a lock the whole time.
        waiting.pgconn.send_query(b"UPDATE t SET b = 1 WHERE a = 4000")
        stretch, recorder = record(server, tmp_path / "x.obs", *[lambda: load(server)] * 3)
        holder.execute("ROLLBACK")
    waiting.close()
    assert stretch.samples == 6
    assert mean(stretch, "commits_per_s") > 0
    assert mean(stretch, "wal_bytes_per_s") > 0
    assert mean(stretch, "rows_changed_per_s") > 0
    assert mean(stretch, "lock_wait_sessions") == pytest.approx(1, abs=0.3)
    assert mean(stretch, "idle_in_transaction_sessions") >= 1
    assert any(x.wait == "Lock:transactionid" for x in stretch.waits)
    texts = {x.text: totals for x, totals in stretch.statements.items()}
    (update,) = (text for text in texts if text.startswith("UPDATE t SET b = b +"))
    assert texts[update].calls == 60
    assert {x.database for x in stretch.statements if x.text == update} == {"pgdrag"}
    # Neither its own statements nor its own session are the server's.
    assert not [text for text in texts if "pg_stat_" in text and "clear_snapshot" not in text]
    assert recorder.cost.queries > 10
    assert "of the time" in recorder.cost.words
    assert kinds(stretch) == [BEGAN]
    assert stretch.server.version.split(".")[0] == str(server.binaries.major)


@newest
def test_its_own_transactions_are_none_of_the_servers(server: Cluster, tmp_path: Path) -> None:
    stretch, recorder = record(server, tmp_path / "x.obs", *[lambda: None] * 3)
    assert recorder.cost.queries > 60
    # Of background processes there are a few.
    assert mean(stretch, "commits_per_s") * stretch.observed_s < 20


def test_no_secret_reaches_the_file_or_what_is_made_of_it(server: Cluster, tmp_path: Path) -> None:
    def plant() -> None:
        with server.connect() as connection:
            for statement in (
                f"CREATE ROLE r LOGIN PASSWORD '{SECRET}'",
                f"ALTER ROLE r PASSWORD $$ {SECRET} $$",
                "DROP ROLE r",
                f"SET pgdrag_test.token = {SECRET}",
                f"DO $do$ BEGIN PERFORM '{SECRET}'; END $do$",
                f"SELECT '{SECRET}', {NUMBER} /* {SECRET} */",
                f"CREATE TABLE s AS SELECT '{SECRET}'::text AS x, {NUMBER} AS n",
                f"DECLARE c CURSOR WITH HOLD FOR SELECT * FROM s WHERE n = {NUMBER} -- {SECRET}",
                f"COMMENT ON TABLE s IS '{SECRET}'",
                "DROP TABLE s CASCADE",
            ):
                connection.execute(statement.encode())
            connection.execute(
                f"ALTER SYSTEM SET archive_command = 'curl -u a:{SECRET} %p'".encode()
            )
            connection.execute(
                f"ALTER SYSTEM SET primary_conninfo = 'host=x password={SECRET}'".encode()
            )
            connection.execute("SELECT pg_reload_conf()")

    path = tmp_path / "x.obs"
    try:
        stretch, _ = record(server, path, lambda: load(server), plant, plant)
    finally:
        with server.connect() as connection:
            connection.execute("ALTER SYSTEM RESET ALL")
            connection.execute("SELECT pg_reload_conf()")
    text = render_stretch_text(stretch)
    rendered = (
        text, render_stretch_json(stretch), render_stretch_html(stretch),
        render_stretch_markdown(stretch), stretch_terminal_text(stretch),
    )  # fmt: skip
    content = [path.read_bytes().decode("latin-1"), *rendered]
    assert not [part for part in content if SECRET in part or NUMBER in part]
    assert any("CREATE ROLE" in x.text for x in stretch.statements)
    assert SETTINGS in kinds(stretch)
    assert "archive_command = ***" in text
    assert len(text) < 12_000


def test_a_restart_is_a_gap_and_observing_goes_on(server: Cluster, tmp_path: Path) -> None:
    def restart() -> None:
        server.stop()
        server.start()

    stretch, _ = record(
        server, tmp_path / "x.obs", lambda: load(server), restart, lambda: load(server)
    )
    assert sorted(x for x in kinds(stretch) if x != SETTINGS) == sorted([BEGAN, GAP, RESTARTED])
    (gap,) = (x for x in stretch.events if x.kind == GAP)
    assert gap.end_s is not None
    assert gap.end_s > gap.start_s
    assert stretch.observed_s < stretch.length_s
    # What was counted before the restart is not counted again after it.
    assert max(x.high for x in stretch.of("commits_per_s").spreads) < 1000  # type: ignore[union-attr]


def test_a_reset_of_statistics_is_noted_and_counts_nothing_backwards(
    server: Cluster, tmp_path: Path
) -> None:
    def reset() -> None:
        with server.connect() as connection:
            before = counted(connection)
            connection.execute("SELECT pg_stat_reset(), pg_stat_reset_shared('bgwriter')")
            connection.execute("SELECT pg_stat_statements_reset()")
            # Before 15 a process of its own does it, some time later.
            assert wait_until(lambda: counted(connection) < before, 30)

    def counted(connection: psycopg.Connection) -> int:
        found = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        ((commits,),) = connection.execute(found).fetchall()
        return int(commits)

    steps = (lambda: load(server), reset, lambda: None, lambda: load(server))
    stretch, _ = record(server, tmp_path / "x.obs", *steps)
    resets = [x.text for x in stretch.events if x.kind == RESET]
    assert "statements" in resets
    assert "databases" in resets
    for series in stretch.series:
        assert min(x.low for x in series.spreads) >= 0, series.quantity


def test_a_changed_setting_is_noted(server: Cluster, tmp_path: Path) -> None:
    def change(value: str) -> None:
        with server.connect() as connection:
            connection.execute(f"ALTER SYSTEM SET work_mem = '{value}'".encode())
            connection.execute("SELECT pg_reload_conf()")

    try:
        stretch, _ = record(server, tmp_path / "x.obs", lambda: change("9MB"), lambda: None)
    finally:
        change("4MB")
    (event,) = (x for x in stretch.events if x.kind == SETTINGS)
    assert event.text == "work_mem = 9216kB (was 4096kB)"
    assert {x.name: x.value for x in stretch.settings}["work_mem"] == "9216kB"


def test_a_guest_sees_what_it_may_and_is_told_what_not(server: Cluster, tmp_path: Path) -> None:
    stretch, recorder = record(server, tmp_path / "x.obs", lambda: load(server), role=GUEST)
    assert "pg_read_all_stats" in recorder.missing["waits"]
    assert mean(stretch, "commits_per_s") > 0
    assert not stretch.waits
    assert stretch.of("active_sessions") is None
    assert not [x for x in stretch.statements if "insufficient" in x.text]


def test_a_later_recording_goes_on_in_the_same_file(server: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "x.obs"
    first, _ = record(server, path)
    both, _ = record(server, path, append=True)
    assert both.samples == 2 * first.samples
    assert kinds(both) == [BEGAN, BEGAN]


def test_a_clock_that_was_set_back_goes_on_behind_the_last_sample(
    server: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "x.obs"
    record(server, path)
    with sqlite3.connect(path) as db:
        db.execute(
            "UPDATE sample SET began_unix_s = began_unix_s + 3600, ended_unix_s = ended_unix_s + 3600"
        )
        db.execute("UPDATE event SET began_unix_s = began_unix_s + 3600")
    db.close()
    both, _ = record(server, path, append=True)
    assert CLOCK_STEP in kinds(both)
    with ObservationReader(path) as reader:
        samples = list(reader.samples(0, 1e12))
    assert all(x.ended_unix_s <= y.began_unix_s for x, y in pairwise(samples))


def test_a_file_of_another_server_is_refused(server: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "x.obs"
    record(server, path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE server SET name = 'another', identifier = '1'")
    db.close()
    with pytest.raises(ServerError, match="of another server: another"):
        record(server, path, append=True)


# --- as a person runs it


def test_a_second_ctrl_c_does_not_lose_what_observing_cost(
    server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Recorder._end_session

    def interrupted(recorder: Recorder) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        end(recorder)

    monkeypatch.setattr(Recorder, "_end_session", interrupted)
    clock = SteadyClock()
    path = tmp_path / "shop.obs"
    file = ObservationWriter.create(path, began_unix_s=clock.unix_s(), most_bytes=DEFAULT_BYTES)
    to = reach(dsn(server, WATCHER), is_for_driver=False)
    recorder = Recorder(to, file, every_s=EVERY_S, clock=clock)
    with pytest.raises(KeyboardInterrupt):
        recorder.run(2 * EVERY_S, lambda _: None)
    file.close()
    assert recorder.cost.queries > 0
    assert recorder.cost.words.startswith("Its own cost")


@newest
def test_the_commands_observe_show_and_go_on(server: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "shop.obs"
    observe = ("observe", dsn(server, WATCHER), "--every", "1s", "--out", file)
    process = start(*observe)
    heard(process, "1 sample")
    # A second one is refused while the first one writes.
    status, _, err = pgdrag(*map(str, observe), "--append")
    assert status == 2
    assert "another pgdrag writes to this file" in err
    process.send_signal(signal.SIGINT)
    status, out, err = outcome(process)
    assert (status, out) == (130, "")
    assert "Its own cost" in err
    assert "see: pgdrag observations" in err
    for form in ("terminal", "markdown", "text"):
        status, out, err = pgdrag("observations", str(file), "--format", form)
        assert (status, err) == (0, "")
        assert f"PostgreSQL {server.binaries.major}" in out
    status, out, err = pgdrag("observations", str(file), "--format", "json")
    assert json.loads(out)["pgdrag_observations"] == 1
    page = tmp_path / "page.html"
    status, out, err = pgdrag(
        "observations", str(file), "--format", "html", "--output", str(page), "--from", "2s"
    )
    assert (status, err) == (0, "")
    assert "<h1>Database" in page.read_text()
    before = read_stretch(file).samples
    process = start(*observe, "--append")
    heard(process, "1 sample")
    process.kill()
    outcome(process)
    assert read_stretch(file).samples >= before + 1


def test_what_people_get_wrong_is_said(tmp_path: Path) -> None:
    place, notes = "host=/nonexistent dbname=x", tmp_path / "notes.txt"
    notes.write_text("Dear all")
    for arguments, words in (
        (("observe", place, "--every", "0.1s"), '--every "0.1s" is out of range'),
        (("observe", place, "--every", "10s", "--for", "5s"), "is longer than --for"),
        (("observe", place, "--size", "10kB"), "--size 10kB is too small"),
        (("observe", place, "--out", str(tmp_path)), "which is a directory"),
        (("observe", place, "--out", str(tmp_path / "x.obs")), "could not connect"),
        (("observe", place, "--out", str(notes)), "this file exists already"),
        (("observe", place, "--out", str(notes), "--append"), "this is not a file of observations"),
        (("observe", str(notes)), "is a file, not a server"),
        (("doctor", str(tmp_path)), "is a directory"),
        (("observations", str(tmp_path / "none.obs")), "there is no such file"),
        (("observations", str(tmp_path)), "this is not a file"),
    ):
        status, out, err = pgdrag(*arguments)
        assert (status, out) == (2, "")
        assert words in err
