"""A program is bounded in time and output, leaves nothing behind, and its CPU time is counted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.driver.process import Target
from pgdrag.errors import DriverError
from pgdrag.host.process_alive import has_ended, wait_until
from pgdrag.host.server_user import ServerUser
from pgdrag.workloads import _program
from pgdrag.workloads._program import Ended, program_environment, run_program

TARGET = Target("/tmp/socket", 5433, "me", "bench", password="it's secret", bin_dir=Path("/b"))


def run(
    command: str,
    *,
    timeout_s: float = 30,
    directory: str = "/",
    environment: Mapping[str, str] | None = None,
) -> Ended:
    return run_program(
        command,
        directory=directory,
        environment=environment or {"PATH": os.defpath},
        timeout_s=timeout_s,
        purpose="the command",
    )


def test_a_program_ends_with_its_status_and_its_words() -> None:
    ended = run("echo tps = 5; echo oh no >&2; exit 3")
    assert (ended.status, ended.output, ended.said) == (3, "tps = 5\n", "oh no")


def test_it_runs_where_it_is_told_to(tmp_path: Path) -> None:
    assert run("pwd", directory=str(tmp_path)).output.strip() == str(tmp_path)
    with pytest.raises(DriverError, match="could not start the command: No such file"):
        run("pwd", directory=str(tmp_path / "gone"))


def test_cpu_time_of_what_it_waited_for_counts() -> None:
    ended = run("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'")
    assert ended.user_cpu_s + ended.system_cpu_s > 0
    assert run("true").user_cpu_s < ended.user_cpu_s


def test_one_that_hangs_is_ended_with_all_its_children() -> None:
    with pytest.raises(DriverError, match="did not end within 1 s") as found:
        run("sleep 1000 & echo $!; wait", timeout_s=0.8)
    assert wait_until(lambda: has_ended(int(found.value.detail or "")), 10)


def test_a_child_that_it_leaves_behind_is_ended() -> None:
    left = int(run("sleep 1000 & echo $!").output)
    assert wait_until(lambda: has_ended(left), 10)


def test_one_that_prints_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_program, "LARGEST_OUTPUT_BYTES", 1 << 20)
    monkeypatch.setattr(_program, "_LOOK_S", 0.01)
    with pytest.raises(DriverError, match="printed more than 1 MB"):
        run("yes")


def test_only_the_end_of_a_long_output_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_program, "_READ_BYTES", 8)
    assert run("seq 1000").output == "99\n1000\n"


# Runs a command in the background of a shell, once the shell is waited for, and tells which process that is.
COMMAND = """
from pathlib import Path
from pgdrag.workloads import _program
has_exited = _program._has_exited
_program._has_exited = lambda *args: Path("{told}.begin").touch() or has_exited(*args)
command = "until [ -e {told}.begin ]; do sleep 0.05; done; sleep 1000 & echo $! > {told}; wait"
_program.run_program(command, directory="/", environment={{}}, timeout_s=60, purpose="it")
"""
# Drives a server that is no throw-away cluster with a script of \\shell.
DRIVER = """
from pathlib import Path
from pgdrag.driver.process import Driver, Target
from pgdrag.model.load import LoadProfile
load = LoadProfile(connections=1, warm_up_s=0, measure_s=1, budget_s=1)
target = Target("/nowhere", 5432, "me", "bench")
workload = {{"kind": "pgbench", "allow_shell": True}}
with Driver(Path("{driver}")).driving(target, workload, load, seed=1) as driving:
    driving.warm_up()
"""


@pytest.mark.parametrize("code", [COMMAND, DRIVER], ids=["a command", "a script's"])
def test_what_it_started_dies_with_pgdrag(code: str, tmp_path: Path) -> None:
    told, driver = tmp_path / "told", tmp_path / "driver"
    driver.write_text(f"#!/bin/sh\nread job\nsleep 1000 &\necho $! > {told}\nwait\n")
    driver.chmod(0o700)
    code = code.format(told=told, driver=driver)
    with subprocess.Popen([sys.executable, "-c", code]) as pgdrag:
        assert wait_until(lambda: told.exists() and told.read_text().endswith("\n"), 30)
        assert not has_ended(int(told.read_text()))
        pgdrag.kill()
    assert wait_until(lambda: has_ended(int(told.read_text())), 30)


def test_the_environment_says_where_the_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSERVICE", "another")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("JAVA_HOME", "/usr/lib/jvm/java")
    found = program_environment(TARGET, {"PGDRAG_SEED": "7"}, also=["JAVA_HOME"])
    assert not {"PGSERVICE", "AWS_SECRET_ACCESS_KEY"} & found.keys()
    assert found["JAVA_HOME"] == "/usr/lib/jvm/java"
    assert found["PGDRAG_DSN"] == "host=/tmp/socket port=5433 user=me dbname=bench"
    assert found["PGPASSWORD"] == "it's secret"
    assert found["PATH"].startswith("/b:")
    assert found["PGDRAG_SEED"] == "7"
    assert "PGDRAG_JDBC_URL" not in found  # of a Unix socket there is none


def test_by_tcp_the_environment_has_a_url_for_jdbc_and_the_home_is_a_directory() -> None:
    user = ServerUser("own", 4711, 4711)
    target = replace(TARGET, host="127.0.0.1", run_as=user, home=Path("/tmp/socket"))
    found = program_environment(target, {})
    assert found["PGHOST"] == "127.0.0.1"
    assert found["PGDRAG_JDBC_URL"] == "jdbc:postgresql://127.0.0.1:5433/bench"
    assert found["HOME"] == "/tmp/socket"
    shown = {name: value for name, value in found.items() if name != "PGPASSWORD"}
    assert "secret" not in str(shown)


def test_a_password_is_hidden_in_what_a_program_said() -> None:
    environment = {"PATH": os.defpath, "PGPASSWORD": "hush"}
    ended = run('echo "no $PGPASSWORD" >&2; echo "$PGPASSWORD"', environment=environment)
    assert ended.said == "no ***"
    with pytest.raises(DriverError) as found:
        run("echo $PGPASSWORD; sleep 1000", timeout_s=0.8, environment=environment)
    assert found.value.detail == "***"
