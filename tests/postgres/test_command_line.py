"""pgdrag as a person runs it: whole commands on real servers, and what goes wrong with them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import TIMEOUT_S, heard, outcome, start
from living import owner_of

from in_process import OURS, pgdrag
from pgdrag.host.machine_lock import MACHINE_VARIABLE, measuring_alone
from pgdrag.host.process_sight import seeing_as
from pgdrag.servers.scratch import Scratch

EXPERIMENT = """
pgdrag = 1
name = "tiny"
title = "A tiny ladder"
question = "Does the road hold from end to end?"

[workload]
kind = "pgbench"

[design]
kind = "ladder"

[baseline]
name = "T0"
title = "as it is"
claim = { tps = 1000 }

[baseline.setting]
shared_buffers = "64MB"

[[rungs]]
name = "T1"
title = "tiny cache"
claim = { tps = 500 }
setting = { shared_buffers = "1MB" }

[scales.test]
summary = "seconds"
[scales.test.workload]
scale = 1
[scales.test.load]
connections = 2
warm_up_s = 0.5
measure_s = 1.5
budget_s = 2
rate_per_s = 100
"""
# Shorter where nobody interferes.
SHORT = EXPERIMENT.replace("warm_up_s = 0.5", "warm_up_s = 0").replace(
    "measure_s = 1.5", "measure_s = 1"
)
# Neither Rich's markup nor one of its emojis.
TITLE = "A [bold]tiny[/oops] ladder :100:"


@dataclass
class Shell:
    """Runs pgdrag with a journal of its own; clusters and the dataset's snapshot are shared."""

    home: Path
    scratch: Path

    def start(self, *arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
        return start(*arguments, **self._environment() | environment)

    def run(self, *arguments: str | Path) -> tuple[int, str, str]:
        return pgdrag(*arguments, **self._environment())

    def _environment(self) -> dict[str, str]:
        places = {"PGDRAG_HOME": str(self.home), "PGDRAG_SCRATCH": str(self.scratch)}
        return places | {"COLUMNS": "160"}

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.home / "journal.sqlite") as db:
            return db.execute(sql).fetchall()

    def wait_for(self, sql: str) -> None:
        """Wait until a query on the journal has a row."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                if self.query(sql):
                    return
            except sqlite3.OperationalError:  # no journal yet
                pass
            time.sleep(0.05)
        raise AssertionError(f"no row within {TIMEOUT_S} s: {sql}")

    def processes(self) -> list[str]:
        """What still runs inside of the scratch directory."""
        found = []
        for _ in as_each_owner(self.scratch.glob("clusters/*")):
            for directory in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if (directory / "cwd").readlink().is_relative_to(self.scratch):
                        found.append((directory / "cmdline").read_text())
        return found

    def leftovers(self) -> list[Path]:
        return list((self.scratch / "clusters").iterdir())


def unused_memory_and_sockets() -> set[str]:
    """Shared memory that no process has attached and directories of sockets that none listens in."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    unattached = {f"segment {x.split()[1]}" for x in lines if x.split()[6] == "0"}
    posix = {str(path) for path in Path("/dev/shm").glob("PostgreSQL.*")}
    sockets = {str(path) for path in Path("/tmp").glob("pgdrag-socket-*")}
    used = Path("/proc/net/unix").read_text().split()
    listened = {str(Path(path).parent) for path in used if path.startswith("/tmp/pgdrag-socket-")}
    return unattached | (posix - mapped_memory()) | (sockets - listened)


def mapped_memory() -> set[str]:
    found = set()
    for _ in as_each_owner(Path("/dev/shm").glob("PostgreSQL.*")):
        for maps in Path("/proc").glob("[0-9]*/maps"):
            with contextlib.suppress(OSError):
                words = maps.read_text().split()
                found |= {x for x in words if x.startswith("/dev/shm/PostgreSQL.")}
    return found


def as_each_owner(paths: Iterable[Path]) -> Iterator[None]:
    """See processes as root, and as each owner of these paths: in a container root sees no other user's."""
    yield
    owners = set()
    for path in paths:
        with contextlib.suppress(OSError):
            owners.add(owner_of(path))
    for owner in owners:
        with seeing_as(owner):
            yield


def left_unused_since(before: set[str]) -> set[str]:
    """What became unused and stays so: what other tests' servers leave, they free in a moment."""
    left = unused_memory_and_sockets() - before
    deadline = time.monotonic() + 30
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        left &= unused_memory_and_sockets()
    return left


@pytest.fixture
def shell(tmp_path: Path, new_scratch: Callable[[str], Scratch]) -> Shell:
    # With a space, and shared by all tests so that the dataset is loaded once.
    return Shell(tmp_path / "home", new_scratch("with space").root)


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(EXPERIMENT)
    return path


@dataclass(frozen=True)
class Finished:
    """A run that has ended, and what its command wrote."""

    shell: Shell
    html: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory, new_scratch: Callable[[str], Scratch]
) -> Finished:
    """The run that several tests look at."""
    place = tmp_path_factory.mktemp("finished")
    shell = Shell(place / "home", new_scratch("with space").root)
    html = place / "out" / "r.html"
    file = place / "tiny.toml"
    file.write_text(SHORT.replace("A tiny ladder", TITLE))
    run = shell.start("run", file, "--seed", "7", "--html", html, "--json")
    status, out, err = outcome(run)
    assert status == 0, err
    return Finished(shell, html, out, err)


def second_trial_runs(shell: Shell) -> None:
    shell.wait_for("SELECT 1 FROM attempt WHERE number = 2 AND outcome IS NULL")
    time.sleep(1.0)  # into its warm-up or window: any moment of the trial will do


def test_a_run_ends_with_a_report_and_can_be_looked_at_again(finished: Finished) -> None:
    shell = finished.shell
    assert json.loads(finished.out)["pgdrag_report"] == 2
    assert TITLE in finished.html.read_text()
    assert shell.leftovers() == []
    assert shell.query("SELECT outcome FROM attempt") == [("measured",)] * 2
    _, runs, _ = shell.run("runs", "--json")
    assert [(x["status"], x["finished_trials"]) for x in json.loads(runs)] == [("done", 2)]
    for command in (["show", "last"], ["report", "last", "--format", "markdown"]):
        status, out, _ = shell.run(*command)
        assert status == 0
        assert "T1" in out
    status, out, _ = shell.run("report", "last")
    assert status == 0
    assert Path(out.strip()).stat().st_size < 500_000


def test_after_kill_9_resume_completes_the_run_and_nothing_is_left(
    shell: Shell, experiment: Path
) -> None:
    before = unused_memory_and_sockets()
    process = shell.start("run", experiment)
    second_trial_runs(shell)
    process.kill()
    outcome(process)
    kept = shell.query("SELECT result FROM attempt WHERE number = 1")
    _, runs, _ = shell.run("runs", "--json")
    assert [x["status"] for x in json.loads(runs)] == ["interrupted"]
    status, _, err = shell.run("resume", "last")
    assert status == 0, err
    assert shell.query("SELECT status FROM run") == [("done",)]
    assert shell.query("SELECT number, attempt, outcome FROM attempt ORDER BY 1, 2") == [
        (1, 1, "measured"),
        (2, 1, None),
        (2, 2, "measured"),
    ]
    assert shell.query("SELECT result FROM attempt WHERE number = 1") == kept
    assert shell.leftovers() == []
    assert shell.processes() == []
    assert left_unused_since(before) == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_cleanly_keeps_what_was_measured_and_says_how_to_go_on(
    shell: Shell, experiment: Path, number: signal.Signals
) -> None:
    process = shell.start("run", experiment)
    second_trial_runs(shell)
    process.send_signal(number)
    status, _, err = outcome(process)
    ((run_id, run_status),) = shell.query("SELECT run_id, status FROM run")
    assert (status, run_status) == (130, "interrupted"), err
    assert f"pgdrag resume {run_id}" in err
    assert shell.leftovers() == []
    assert shell.processes() == []


def test_a_rung_whose_server_does_not_start_is_reported_and_the_run_goes_on(
    shell: Shell, experiment: Path
) -> None:
    text = SHORT.replace('setting = { shared_buffers = "1MB" }', 'setting.wal_level = "minimal"')
    experiment.write_text(text)
    status, out, err = shell.run("run", experiment)
    assert status == 0, err
    assert "did not start" in out
    assert sorted(shell.query("SELECT outcome FROM attempt")) == [("did not start",), ("measured",)]


def test_text_in_brackets_and_line_100_are_printed_as_they_stand(
    shell: Shell, experiment: Path, finished: Finished
) -> None:
    lines_before = SHORT[: SHORT.index("[[rungs]]")].count("\n")
    experiment.write_text(
        SHORT.replace("[[rungs]]", "\n" * (98 - lines_before) + "[[rungs]]\nnam = 1")
    )
    status, _, err = shell.run("run", experiment)
    assert status == 2
    assert "tiny.toml:100: " in err
    assert TITLE in finished.err
    assert TITLE in finished.shell.run("show", "last")[1]


def test_resuming_a_complete_run_runs_nothing(finished: Finished) -> None:
    shell = finished.shell
    before = shell.query("SELECT * FROM run"), shell.query("SELECT * FROM attempt")
    status, out, err = shell.run("resume", "last")
    assert status == 0
    assert "nothing is left to run" in err
    assert "T1" in out
    assert (shell.query("SELECT * FROM run"), shell.query("SELECT * FROM attempt")) == before


def test_a_report_cannot_take_the_place_of_a_directory(
    shell: Shell, experiment: Path, tmp_path: Path
) -> None:
    status, _, err = shell.run("run", experiment, "--html", tmp_path)
    assert status == 2
    assert "which is a directory" in err
    assert not shell.home.exists()


MISTAKES: list[tuple[str, str, str, str]] = [
    ("1MB", "1 MB of it", "tiny.toml:25:", "shared_buffers"),
    ("1MB", "64kB", "tiny.toml:25:", "outside the valid range"),
    ('shared_buffers = "1MB"', 'shared_bufers = "1MB"', "tiny.toml:25:", "shared_buffers"),
    ("warm_up_s", "warmup_s", "tiny.toml:", "warm_up_s"),
]


@pytest.mark.parametrize(("old", "new", "where", "what"), MISTAKES)
def test_a_mistake_in_the_file_is_reported_with_its_line_before_anything_runs(
    shell: Shell, experiment: Path, old: str, new: str, where: str, what: str
) -> None:
    experiment.write_text(EXPERIMENT.replace(old, new))
    status, out, err = shell.run("run", experiment)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert where in err
    assert what in err
    assert not shell.home.exists() or shell.query("SELECT * FROM run") == []


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["run", "missing.toml"], "missing.toml"),
        (["run", "slow-42"], "slow-42k"),
        (["run", "slow-42k", "--scale", "demos"], "demo"),
        (["run", "slow-42k", "--postgres", "/nowhere"], "/nowhere"),
        (["show", "nothing"], "nothing"),
        (["resume", "last"], "last"),
        (["rum"], "rum"),
    ],
)
def test_misuse_is_reported_in_a_few_lines(shell: Shell, arguments: list[str], what: str) -> None:
    status, out, err = shell.run(*arguments)
    assert (status, out) == (2, "")
    assert what in err
    assert len(err.splitlines()) < 12


def test_two_measurements_at_once_are_refused(shell: Shell, experiment: Path) -> None:
    # Longer than the other takes to start on a busy machine.
    long = experiment.with_name("long.toml")
    windows = {"measure_s = 1.5": "measure_s = 120", "budget_s = 2": "budget_s = 120"}
    text = experiment.read_text()
    for brief, longer in windows.items():
        assert brief in text
        text = text.replace(brief, longer)
    long.write_text(text)
    process = shell.start("run", long)
    try:
        shell.wait_for("SELECT * FROM run")
        status, _, err = shell.run("run", experiment)
        assert status == 2
        assert "another pgdrag is measuring on this machine" in err
    finally:
        process.terminate()
        outcome(process)


def test_who_waits_for_another_measurement_says_for_whom_until_ctrl_c(
    shell: Shell, experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MACHINE_VARIABLE, OURS[MACHINE_VARIABLE])
    with measuring_alone():
        waiting = shell.start("run", experiment, "--wait")
        heard(waiting, f"Waiting up to 1 h for process {os.getpid()}")
        waiting.send_signal(signal.SIGINT)
        assert outcome(waiting)[0] == 130
    assert shell.query("SELECT * FROM run") == []
    assert shell.leftovers() == []


def test_a_disk_too_small_for_the_dataset_is_reported_before_it_is_loaded(
    shell: Shell,
    experiment: Path,
    open_directory: Path,
    make_small_disk: Callable[[Path, int], Path],
    opened: Callable[[Path], Scratch],
) -> None:
    scratch = make_small_disk(open_directory / "small", 200)
    opened(scratch)
    # Its process, unlike this one, has nothing open there when the disk is taken away.
    run = shell.start("run", experiment, PGDRAG_SCRATCH=str(scratch))
    status, _, err = outcome(run)
    assert status == 2
    assert "error: " in err
    assert "PGDRAG_SCRATCH" in err
    assert shell.query("SELECT status FROM run") == []


def test_a_disk_that_fills_up_in_a_trial_makes_it_invalid_and_resume_runs_it_again(
    shell: Shell,
    experiment: Path,
    open_directory: Path,
    make_small_disk: Callable[[Path, int], Path],
    opened: Callable[[Path], Scratch],
) -> None:
    scratch = make_small_disk(open_directory / "small", 450)
    opened(scratch)
    process = shell.start("run", experiment, PGDRAG_SCRATCH=str(scratch))
    shell.wait_for("SELECT 1 FROM attempt WHERE number = 1 AND outcome IS NOT NULL")
    ballast = scratch / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    status, _, err = outcome(process)
    assert status == 2, err
    assert "error: " in err
    assert shell.query("SELECT outcome FROM attempt WHERE number = 2") == [("invalid",)]
    ballast.unlink()
    resume = shell.start("resume", "last", PGDRAG_SCRATCH=str(scratch))
    status, _, err = outcome(resume)
    assert status == 0, err
    assert shell.query("SELECT outcome FROM attempt WHERE number = 2 AND attempt = 2") == [
        ("measured",)
    ]
