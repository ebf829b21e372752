"""`pgdrag bench`: on a server of one's own, and on one made for the run."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import dsn, outcome, start

from in_process import pgdrag
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.workloads.scripts import BUILTINS

SHORT = ("-T", "0.3", "--warm-up", "0.1", "--random-seed", "7")
# Where it is not asked how fast it goes, or how a window ends.
FEW = ("-t", "20", "--warm-up", "0")


@pytest.fixture(scope="module")
def tables(server: Cluster) -> Cluster:
    """The same, with pgbench's tables at scale 1, which a first test of them has made."""
    status, _, err = pgdrag("bench", "-i", dsn(server))
    assert status == 0, err
    return server


def unwrapped(text: str) -> str:
    """Return a text without its line breaks, which come where the numbers' lengths put them."""
    return " ".join(text.split())


def bench_json(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    status, out, err = pgdrag("bench", "--json", *arguments)
    assert out, err
    return status, json.loads(out)


def test_tables_are_made_at_a_scale(server: Cluster) -> None:
    status, out, err = pgdrag(
        "bench", "-i", "-s", "2", "-F", "90", "--partitions", "3", dsn(server)
    )
    assert (status, out) == (0, ""), err
    assert "scale 2" in err
    with server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM pgbench_accounts").fetchall() == [
            (200_000,)
        ]
        (count,) = connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'pgbench_accounts'::regclass"
        ).fetchall()
        assert count == (3,)


def test_a_run_prints_rate_percentiles_and_the_drivers_cost(tables: Cluster) -> None:
    status, out, err = pgdrag(
        "bench",
        "-c",
        "2",
        "-b",
        "tpcb@3",
        "-S",
        *SHORT,
        "-T",
        "1",
        "-R",
        "200",
        "-P",
        "1",
        dsn(tables),
    )
    assert status == 0, err
    for words in ("/s committed (95 % interval", "tpcb-like", "select-only", "p99", "a transaction", "seed 7"):  # fmt: skip
        assert words in unwrapped(out)
    assert "1.0 s: " in err


def test_json_counts_what_the_server_has(tables: Cluster) -> None:
    arguments = ("-c", "2", "-N", "-M", "prepared", "--warm-up", "0", dsn(tables))
    status, found = bench_json(*SHORT, *arguments)
    assert status == 0
    committed = found["trials"][0]["counts"]["simple-update"]["committed"]
    with tables.connect() as connection:
        ((rows,),) = connection.execute("SELECT count(*) FROM pgbench_history").fetchall()
    # The load goes on between warm-up and window, and what was in flight may have been committed.
    assert 0 < committed <= rows
    workload = found["study"]["workload"]["parameters"]
    assert (workload["scale"], workload["statements"]) == (1, "prepared")


def test_each_client_runs_its_transactions_as_pgbenchs_do(
    tables: Cluster, binaries: Binaries
) -> None:
    arguments = ("-N", "-c", "2", "-t", "60")
    theirs = subprocess.run(
        [binaries.bin_dir / "pgbench", *arguments, dsn(tables)], capture_output=True, text=True
    )
    assert "number of transactions actually processed: 120/120" in theirs.stdout, theirs.stderr
    status, out, err = pgdrag("bench", "--warm-up", "0.2", "--json", *arguments, dsn(tables))
    assert status == 0, err
    found = json.loads(out)
    (trial,), (rung,) = found["trials"], found["rungs"]
    assert (trial["stopped_by"], found["study"]["load"]["transactions"]) == ("transactions", 60)
    assert rung["counts"]["scheduled"] == rung["counts"]["committed"] == 120
    assert sum(sample["committed"] for sample in rung["samples"]) == 120
    status, out, err = pgdrag("bench", "--warm-up", "0", "-S", "-t", "1", dsn(tables))
    assert status == 0, err
    assert "1 client, closed loop; 1 transaction;" in unwrapped(out)


def test_connection_time_is_separate_from_latency_as_in_pgbench(
    tables: Cluster, binaries: Binaries
) -> None:
    arguments = ("-S", "-C", "-t", "50")
    theirs = subprocess.run(
        [binaries.bin_dir / "pgbench", *arguments, dsn(tables)], capture_output=True, text=True
    )
    assert "average connection time" in theirs.stdout, theirs.stderr
    status, out, err = pgdrag("bench", "--warm-up", "0", "--json", *arguments, dsn(tables))
    assert status == 0, err
    found = json.loads(out)
    (rung,) = found["rungs"]
    assert rung["counts"]["committed"] == 50
    connecting, latency = found["found"]["connecting"], rung["latency"]["select-only"]
    # The first transaction's connection may have been made before the window opened, and counted or not.
    assert connecting["count"] in {49, 50}
    connecting_us = connecting["count"] * connecting["mean_us"] - connecting["max_us"]
    # Whatever connecting took, it is not in the latency: both fit into the window side by side.
    rounding = 1.01  # histograms keep three significant figures
    assert (
        connecting_us + 50 * latency["mean_us"] <= found["trials"][0]["elapsed_s"] * 1e6 * rounding
    )
    status, out, err = pgdrag("bench", "--warm-up", "0", *arguments, dsn(tables))
    assert status == 0, err
    assert re.search(
        "(49|50) connections; not included in the latency, included in the rate", unwrapped(out)
    )


def test_each_statement_has_its_latency_and_failures_as_with_pgbench(
    tables: Cluster, binaries: Binaries, tmp_path: Path
) -> None:
    script = tmp_path / "mine.sql"
    script.write_text("\\set n 1\nSELECT pg_sleep(0.002);\nSELECT 1\n  / :n;\n")
    arguments = ("-n", "-f", script, "-r", "-t", "20")
    theirs = subprocess.run(
        [binaries.bin_dir / "pgbench", *arguments, dsn(tables)], capture_output=True, text=True
    )
    assert "statement latencies in milliseconds and failures" in theirs.stdout, theirs.stderr
    status, out, err = pgdrag("bench", "--warm-up", "0", "--json", *arguments, dsn(tables))
    assert status == 0, err
    slow, fast = json.loads(out)["found"]["statements"]
    assert [(x["line"], x["succeeded"], x["failed"], x["retried"]) for x in (slow, fast)] == [
        (2, 20, 0, 0),
        (3, 20, 0, 0),
    ]
    assert (slow["mean_us"] >= 2000, fast["text"]) == (True, "SELECT 1\n  / :n;")
    status, out, err = pgdrag("bench", "--warm-up", "0", *arguments, dsn(tables))
    assert status == 0, err
    assert "SELECT pg_sleep(0.002)" in out
    status, found = bench_json(*FEW, "-S", dsn(tables))
    assert (status, found["found"]["statements"]) == (0, [])


def test_a_rate_is_kept_and_its_arrivals_add_up(tables: Cluster) -> None:
    status, found = bench_json(*SHORT, "-S", "-c", "4", "-R", "100", "-L", "1000", dsn(tables))
    assert status == 0
    assert found["study"]["load"]["pacing"] == {"kind": "open", "rate_per_s": 100, "arrivals": "poisson", "backlog_limit": 10000}  # fmt: skip
    (rung,) = found["rungs"]
    assert rung["arrivals"]["scheduled"] == rung["counts"]["scheduled"]
    assert found["found"]["latency_counts_from"] == "due"


def test_a_ramp_works_step_by_step(tables: Cluster) -> None:
    status, out, err = pgdrag(
        "bench", "-S", "--sessions", "1..3+2/0.3s", "--warm-up", "0", dsn(tables)
    )
    assert status == 0, err
    assert "1 to 3 of 3 clients" in unwrapped(out)
    assert "Throughput" not in err


def test_a_script_of_ones_own_has_its_variables(tables: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "mine.sql"
    script.write_text("\\set n :low + 1\nSELECT 1 / (:n - 5);\n")
    status, found = bench_json(*FEW, "-f", script, "-D", "low=5", dsn(tables))
    assert status == 0
    assert found["trials"][0]["counts"]["mine.sql"]["committed"] > 0


def test_a_run_with_failures_says_so_and_ends_with_1(tables: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "fails.sql"
    script.write_text("SELECT 1 / (:client_id - :client_id);\n")
    status, out, err = pgdrag("bench", "-f", script, *SHORT, dsn(tables))
    assert status == 1, err
    assert "22012: division by zero" in unwrapped(out)
    assert "Nothing was committed" in unwrapped(out)


def test_a_mistake_in_a_script_is_shown_where_it_is(tables: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "bad.sql"
    script.write_text("SELECT 1;\n\\set a 1 +\nSELECT :a;\n")
    status, out, err = pgdrag("bench", "-f", script, *SHORT, dsn(tables))
    assert (status, out) == (2, "")
    assert 'script "bad.sql", line 2' in err
    assert "\\set a 1 +" in err


def test_a_mistake_in_a_script_is_found_before_anything_is_made_or_emptied(
    tables: Cluster, tmp_path: Path
) -> None:
    script = tmp_path / "bad.sql"
    script.write_text("SELECT 1;\n\\sett a 1\n")
    with tables.connect() as connection:
        connection.execute("INSERT INTO pgbench_history (tid, bid) VALUES (1, 1)")
    scratch = tmp_path / "scratch"
    status, _, err = pgdrag(
        "bench", "--throw-away", "-f", script, *SHORT, PGDRAG_SCRATCH=str(scratch)
    )
    assert (status, scratch.exists()) == (2, False), err
    assert 'script "bad.sql", line 2' in err
    status, _, err = pgdrag("bench", "-S", "-f", script, *SHORT, dsn(tables))
    assert status == 2, err
    with tables.connect() as connection:
        ((rows,),) = connection.execute("SELECT count(*) FROM pgbench_history").fetchall()
    assert rows > 0


def test_a_shell_command_needs_leave(tables: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "shell.sql"
    script.write_text("\\setshell n echo 5\nSELECT 1 / :n;\n")
    status, _, err = pgdrag("bench", "-f", script, *SHORT, dsn(tables))
    assert status == 2
    assert "shell" in err
    status, _, err = pgdrag("bench", "-f", script, *FEW, "--allow-shell", dsn(tables))
    assert status == 0, err


def test_tables_that_are_missing_are_reported_with_the_remedy(server: Cluster) -> None:
    status, _, err = pgdrag(
        "bench", *SHORT, dsn(server).replace("dbname=pgdrag", "dbname=postgres")
    )
    assert status == 2
    assert "has no table pgbench_branches" in err
    assert "pgdrag bench -i" in err


def test_a_server_with_other_sessions_is_asked_about(tables: Cluster) -> None:
    with tables.connect():
        status, _, err = pgdrag("bench", "-S", *SHORT, dsn(tables))
        assert status == 2
        assert "it has 1 other session" in err
        assert "--yes" in err
        status, _, err = pgdrag("bench", "-S", *FEW, "--yes", dsn(tables))
        assert status == 0, err


def test_a_dry_run_says_what_would_be_done_and_neither_asks_nor_does_it(
    tables: Cluster, open_directory: Path
) -> None:
    with tables.connect() as connection:
        connection.execute("INSERT INTO pgbench_history (tid, bid) VALUES (1, 1)")
        status, out, err = pgdrag("bench", "-N", *SHORT, "--dry-run", dsn(tables))
        assert (status, err) == (0, "")
        ((rows,),) = connection.execute("SELECT count(*) FROM pgbench_history").fetchall()
        assert rows > 0
        status, told, err = pgdrag("bench", "-i", "-s", "7", "--dry-run", dsn(tables))
        assert (status, err) == (0, "")
        ((scale,),) = connection.execute("SELECT count(*) FROM pgbench_branches").fetchall()
    text = unwrapped(out)
    assert "simple-update, scale" in text
    assert "Before the load: TRUNCATE pgbench_history" in text
    assert "Time: 100 ms warm-up, 300 ms measured" in text
    assert "Create pgbench's tables at scale 7" in unwrapped(told)
    assert "drop those that exist" in unwrapped(told)
    assert scale != 7
    scratch = open_directory / "dry"
    status, out, err = pgdrag(
        "bench", "--throw-away", "--dry-run", "--json", PGDRAG_SCRATCH=str(scratch)
    )
    assert (status, scratch.exists()) == (0, False), err
    assert json.loads(out)["workload"] == "tpcb-like, scale 10, simple statements"


def test_a_server_that_is_not_there_is_reported(tmp_path: Path) -> None:
    status, _, err = pgdrag("bench", "-h", tmp_path, "-d", "nothing")
    assert status == 2
    assert "could not connect" in err


def test_the_environment_names_the_server(tables: Cluster) -> None:
    where = {"PGHOST": str(tables.socket_directory), "PGPORT": str(tables.port), "PGUSER": "pgdrag", "PGDATABASE": "pgdrag"}  # fmt: skip
    status, out, err = pgdrag("bench", "-S", *FEW, **where)
    assert status == 0, err
    assert "committed" in out


def test_one_command_makes_a_server_and_gives_a_number(
    open_directory: Path, tmp_path: Path
) -> None:
    scratch = open_directory / "throw-away"
    page = tmp_path / "report.html"
    arguments = ("bench", "--throw-away", "-s", "1", *SHORT, "--html", page)
    status, out, err = outcome(start(*arguments, PGDRAG_SCRATCH=str(scratch)))
    assert status == 0, err
    assert "The measured window" in page.read_text()
    assert "on a throw-away server" in unwrapped(out)
    assert not list((scratch / "clusters").iterdir())


def test_the_builtin_scripts_are_pgbenchs_own(binaries: Binaries) -> None:
    program = binaries.bin_dir / "pgbench"
    for name, builtin in BUILTINS.items():
        shown = subprocess.run([program, f"--show-script={name}"], capture_output=True, text=True)
        text = (shown.stdout + shown.stderr).partition("\n")[2]
        assert text.strip() == builtin.text.strip()
