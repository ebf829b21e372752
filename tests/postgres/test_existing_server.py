"""Experiments on a server that exists: only what is allowed changes there, and it is undone."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from commands import dsn, heard, outcome, start
from existing import digest, give_settings

from in_process import pgdrag
from pgdrag.driver.connection_string import reach
from pgdrag.existing.permission import Permission, level_problems
from pgdrag.existing.standing import look_at
from pgdrag.factors import Here
from pgdrag.host.process_alive import wait_until
from pgdrag.model import Level
from pgdrag.servers.cluster import Cluster
from stand_ins import kill_with_guardian

LOAD = ("--warm-up", "0", "--measure", "1", "--connections", "1")
SHORT = (*LOAD, "--budget", "4s")  # one pair of trials
TIMEOUT_S = 60
OF_PLAIN = "SELECT * FROM pg_db_role_setting WHERE setrole = 'plain'::regrole"
EXPERIMENT = """
pgdrag = 1
name = "memory"
workload = { kind = "pgbench", scripts = ["select-only"] }
[baseline.setting]
work_mem = "6MB"
[[rungs]]
name = "more"
setting = { work_mem = "8MB" }
[scales.demo]
load = { connections = 1, warm_up_s = 0, measure_s = 1 }
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def environment(
    home: Path, tmp_path: Path, open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDRAG_HOME", str(home))
    monkeypatch.setenv("PGDRAG_UNDO", str(tmp_path / "undo"))
    monkeypatch.setenv("PGDRAG_SCRATCH", str(open_directory / "existing"))


@pytest.fixture(scope="module")
def server(scratch: object, empty_snapshot: object, binaries: object) -> Iterator[Cluster]:
    """A server with pgbench's tables and settings of somebody's, and a role that may do nothing there."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:  # type: ignore[attr-defined]
        give_settings(cluster)
        cluster.start()
        with cluster.connect() as connection:
            connection.execute("CREATE ROLE plain LOGIN")
            connection.execute("CREATE DATABASE shop OWNER plain")
        with psycopg.connect(dsn(cluster, database="shop"), autocommit=True) as connection:
            connection.execute("GRANT ALL ON SCHEMA public TO plain")
        status, _, err = pgdrag(
            "bench", "-i", "-s", "1", "-q", "--yes", dsn(cluster, "plain", database="shop")
        )
        assert status == 0, err
        yield cluster


@pytest.fixture
def patient(tmp_path: Path) -> Path:
    """A load that leaves the processors to the tests beside, however long it goes on."""
    file = tmp_path / "patient.sql"
    file.write_text("SELECT 1;\n\\sleep 10 ms\n")
    return file


def shop(server: Cluster, user: str = "pgdrag") -> str:
    return dsn(server, user, database="shop")


def shown(server: Cluster, name: str) -> str:
    with server.connect() as connection:
        ((value,),) = connection.execute("SELECT current_setting(%s)", [name]).fetchall()
        return str(value)


def ran(*arguments: str | Path) -> tuple[str, str]:
    status, out, err = pgdrag(*arguments)
    assert status == 0, err
    return out, err


def test_without_consent_what_would_be_changed_is_shown_and_refused(server):
    before = digest(server)
    status, _, err = pgdrag("compare", "default", "work_mem=8MB", "--dsn", shop(server), *SHORT)
    assert status == 2
    assert "this would change settings of database" in err
    assert "work_mem = 8MB" in err
    assert "--allow-change settings" in err
    assert "is not enough" not in err
    assert digest(server) == before


def test_the_name_of_a_setting_alone_allows_nothing_and_says_why(server):
    compare = ("compare", "default", "work_mem=8MB", "--dsn", shop(server), *SHORT)
    status, _, err = pgdrag(*compare, "--allow-change", "work_mem")
    assert status == 2
    assert "hint: A setting's name (work_mem) is not enough" in err


def test_a_dry_run_shows_the_changes_and_changes_nothing(server):
    before = digest(server)
    compare = ("compare", "default", "work_mem=8MB", "--dsn", shop(server), *SHORT, "--dry-run")
    out, _ = ran(*compare)
    assert "work_mem: 5 MB (by a reload) -> 8MB" in out
    assert "This run would be refused" in out
    assert "--dry-run shows" not in out
    out, _ = ran(*compare, "--allow-change", "settings")
    assert "refused" not in out
    assert digest(server) == before


@pytest.mark.parametrize(
    "command",
    [
        ("ablate", "work_mem=8MB,enable_seqscan=off"),
        ("bisect", "default", "work_mem=8MB,enable_seqscan=off"),
        ("screen", "work_mem=8MB,enable_seqscan=off"),
        ("boundary", "work_mem", "--min", "1MB", "--max", "8MB"),
        ("search", "--maximize", "--settings", "work_mem,random_page_cost"),
    ],
    ids=lambda command: command[0],
)
def test_every_question_can_be_put_there(server, command):
    before = digest(server)
    where = ("--dsn", shop(server), *LOAD, "--allow-change", "settings", "--dry-run")
    out, _ = ran(*command, *where)
    assert "Set on the server, and undone afterwards:" in out
    assert "work_mem: 5 MB (by a reload)" in out
    assert digest(server) == before


def test_an_experiment_file_runs_there_with_its_own_workload(server, tmp_path):
    file = tmp_path / "memory.toml"
    file.write_text(EXPERIMENT)
    status, _, err = pgdrag("run", file, "--dsn", shop(server))
    assert status == 2
    assert "this would change settings" in err
    out, _ = ran(
        *("run", file, "--dsn", shop(server), "--allow-change", "settings", "--yes", "--json")
    )
    assert {one["outcome"] for one in json.loads(out)["trials"]} == {"measured"}


def test_a_comparison_is_measured_there_and_leaves_nothing(server, home):
    before = digest(server)
    compare = ("compare", "default", "work_mem=8MB", "--dsn", shop(server), *LOAD)
    both = ("--budget", "9s")  # so that one trial of each ends, however busy the machine is
    out, err = ran(*compare, *both, "--allow-change", "settings", "--yes", "--json")
    found = json.loads(out)
    assert found["study"]["workload"]["kind"] == "pgbench"
    assert found["study"]["place"]["system_identifier"]

    assert {one["outcome"] for one in found["trials"]} == {"measured"}
    applied = [x for one in found["rungs"] for x in one["applied"]]
    assert {(x["effective"], x["default"], x["how"]) for x in applied} == {
        ("8192kB", "5120kB", "by ALTER SYSTEM and a reload")
    }
    assert any("existing server" in note for note in found["study"]["notes"])
    assert "are as they were" in err or "were restored: work_mem" in err
    assert digest(server) == before
    assert shown(server, "work_mem") == "5MB"


def test_a_change_that_the_server_refuses_is_left_out_of_its_treatment(server):
    both = "work_mem=8MB,default_text_search_config=no.such"
    words = ("compare", "default", both, "--dsn", shop(server), *LOAD, "--budget", "9s")
    out, _ = ran(*words, "--allow-change", "settings", "--yes", "--json")
    found = json.loads(out)
    assert {one["outcome"] for one in found["trials"]} == {"measured"}
    applied = {x["level"]["name"]: x for one in found["rungs"] for x in one["applied"]}
    assert applied["work_mem"]["effective"] == "8192kB"
    assert applied["default_text_search_config"]["effective"] is None
    assert "this server refuses" in applied["default_text_search_config"]["note"]
    warnings = {x for one in found["trials"] for x in one["warnings"]}
    assert any(x.startswith("left out: this server refuses default_text") for x in warnings)


def test_a_session_of_pgdrags_that_is_ended_costs_a_trial_and_not_the_run(server, monkeypatch):
    def ended(*_: object) -> None:
        raise psycopg.errors.AdminShutdown("terminating connection")

    monkeypatch.setattr("pgdrag.existing.trial.Observer", ended)
    compare = ("compare", "default", "work_mem=8MB", "--dsn", shop(server), *SHORT)
    status, out, err = pgdrag(*compare, "--allow-change", "settings", "--yes", "--json")
    assert "Traceback" not in err
    assert status in (0, 1), err
    assert {one["outcome"] for one in json.loads(out)["trials"]} == {"invalid"}
    assert shown(server, "work_mem") == "5MB"


def test_a_setting_that_the_server_already_has_is_no_difference(server):
    status, _, err = pgdrag("compare", "default", "work_mem=5120kB", "--dsn", shop(server), *SHORT)
    assert status == 2
    assert "the same to this server" in err


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("archive_mode=on", "reaches beyond the server"),
        ("fsync=off", "a crash of the operating system may corrupt the database"),
        ("wal_level=logical", "others depend on it"),
        ("shared_buffers=64MB", "takes effect only when the server is restarted"),
        ("port=5433", "determines the server's location"),
        ("session_preload_libraries=", "cannot be emptied"),
    ],
)
def test_what_is_out_of_reach_is_named_with_the_reason(server, level, words):
    status, _, err = pgdrag(
        *("compare", "default", level, "--dsn", shop(server), *SHORT),
        *("--allow-change", "settings"),
    )
    assert status == 2
    assert words in err


def test_a_log_format_that_an_old_server_lacks_is_left_out_of_a_treatment(server):
    old = replace(look_at(reach(shop(server))), version_num=140023)
    here, permission = Here(old.settings, old.settings), Permission(frozenset({"settings"}))
    levels = [
        Level("setting", "log_destination", "stderr,jsonlog"),
        Level("setting", "log_checkpoints", "on"),
    ]
    [problem] = level_problems(levels, here, old, permission)
    assert (problem.level, problem.is_mistake) == (levels[0], False)
    assert "PostgreSQL 14 writes no jsonlog" in problem.message


def test_a_role_that_may_not_read_the_dataset_is_told_what_to_grant_unless_its_scripts_are_its_own(
    server, tmp_path
):
    with server.connect() as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
    compare = ("compare", "default", "work_mem=8MB", "--dsn", shop(server, "stranger"))
    status, _, err = pgdrag(*compare, "--allow-change", "settings")
    assert status == 2
    assert "refused: permission denied for table pgbench_" in err
    assert 'hint: Grant that to role "stranger", or connect as another one.' in err
    script = tmp_path / "look.sql"
    script.write_text("SELECT count(*) FROM pg_class;\n")
    ran(*compare, "-f", script, "--allow-change", "settings", "--dry-run")


def test_a_role_without_rights_changes_its_own_settings_alone(server):
    before = digest(server)
    plain = shop(server, "plain")
    status, _, err = pgdrag(
        *("compare", "default", "autovacuum_naptime=5s", "--dsn", plain, *SHORT),
        *("--allow-change", "settings"),
    )
    assert status == 2
    assert "out of reach: it is set for the whole server, and ALTER SYSTEM is for superusers" in err
    compare = ("compare", "default", "work_mem=8MB", "--dsn", plain, *LOAD, "--json", "--yes")
    # So that one trial of each ends, however busy the machine is.
    out, err = ran(*compare, "--budget", "9s", "--allow-change", "settings")
    applied = [x for one in json.loads(out)["rungs"] for x in one["applied"]]
    assert {x["effective"] for x in applied} == {"8192kB"}
    assert "ALTER ROLE" in applied[0]["how"]
    assert 'Settings of role "plain" in database "shop"' in err
    assert digest(server) == before
    with server.connect() as connection:
        assert connection.execute(OF_PLAIN).fetchall() == []


def test_a_workload_gets_a_database_of_its_own_that_is_gone_afterwards(server):
    run = ("compare", "default", "work_mem=8MB", "--dsn", dsn(server), *SHORT)
    status, _, err = pgdrag(*run, "--allow-change", "settings")
    assert status == 2
    assert "has no dataset of" in err
    _, err = ran(
        *run,
        "--pgbench-scale",
        "1",
        "--allow-change",
        "settings",
        "--allow-change",
        "database",
        "--yes",
    )
    assert "was dropped" in err
    with server.connect() as connection:
        names = connection.execute("SELECT datname FROM pg_database WHERE datname ~ '^pgdrag_'")
        assert names.fetchall() == []


def test_treatments_with_different_datasets_do_not_share_a_database(server, tmp_path):
    file = tmp_path / "sizes.toml"
    sizes = EXPERIMENT.replace('setting = { work_mem = "8MB" }', "workload = { scale = 2 }")
    file.write_text(sizes)
    run = ("run", file, "--dsn", dsn(server), "--yes")
    status, _, err = pgdrag(*run, "--allow-change", "settings", "--allow-change", "database")
    assert status == 2
    assert "the treatments need different datasets" in err


def test_an_experiment_of_which_nothing_can_be_had_there_is_refused(server):
    run = ("run", "after-upgrade", "--dsn", dsn(server), "--allow-change", "database", "--yes")
    status, _, err = pgdrag(*run)
    assert status == 2
    assert "can have none of the treatments" in err
    assert "statistics planner is changed only on throw-away servers" in err


def test_scripts_of_ones_own_run_on_the_tables_that_are_there(server, tmp_path):
    script = tmp_path / "look.sql"
    script.write_text("SELECT count(*) FROM pg_class;\n")
    compare = ("compare", "default", "work_mem=8MB", "--dsn", dsn(server), "-f", script, *SHORT)
    allowed = ("--allow-change", "settings", "--yes")
    assert "Workload: pgbench, script look.sql, 1 connection" in ran(*compare, "--dry-run")[0]
    out, _ = ran(*compare, *allowed, "--json")
    assert json.loads(out)["study"]["workload"]["kind"] == "pgbench"


def test_a_run_that_is_interrupted_is_undone_and_goes_on_with_the_same_server(
    server, home, patient
):
    before = digest(server)
    words = ("compare", "default", "work_mem=8MB", "--dsn", shop(server), "-f", patient, *LOAD)
    process = start(*words, "--allow-change", "settings", "--yes")
    heard(process, "Run compare")
    assert wait_until(lambda: digest(server) != before, TIMEOUT_S)
    process.send_signal(signal.SIGTERM)
    status, _, err = outcome(process)
    assert status == 130
    assert wait_until(lambda: digest(server) == before, TIMEOUT_S)
    newest, *_ = json.loads(ran("runs", "--json")[0])
    spent_s = newest["finished_unix_s"] - newest["started_unix_s"]  # on a busy machine any time
    status, _, err = pgdrag("resume", "last", "--yes", "--budget", f"{spent_s + 5:.0f}s")
    assert status == 0, err
    assert digest(server) == before


@pytest.mark.parametrize("command", ["restore", "bench"])
def test_what_nobody_is_left_to_undo_is_undone_by_the_next_command_there(server, patient, command):
    """As after the end of the whole machine: neither pgdrag nor its guardian is left."""
    before = digest(server)
    words = ("compare", "default", "work_mem=8MB", "--dsn", shop(server), "-f", patient, *LOAD)
    process = start(*words, "--allow-change", "settings", "--yes")
    heard(process, "Run compare")
    assert wait_until(lambda: digest(server) != before, TIMEOUT_S)
    kill_with_guardian(process)
    process.wait(TIMEOUT_S)
    assert digest(server) != before
    options = ("-n", "-T", "1", "--warm-up", "0", "-f", patient) if command == "bench" else ()
    out, err = ran(command, shop(server), *options)
    assert "were restored: work_mem" in out + err
    assert digest(server) == before
