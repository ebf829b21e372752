"""`pgdrag runs` has a line a run, `show` has all of it, and `rm` removes it."""

from __future__ import annotations

import errno
import fcntl
import lzma
import os
import pty
import re
import sqlite3
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import NoReturn

import pytest

from in_process import OURS, pgdrag
from pgdrag.host.machine_lock import MACHINE_VARIABLE, measuring_alone
from pgdrag.journal import Journal

OLD = Path(__file__).parent / "journals" / "b74b73b.sqlite.xz"
TABLES = ("run", "trial", "attempt", "sample", "exhibits")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "journal.sqlite").write_bytes(lzma.decompress(OLD.read_bytes()))
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path))
    monkeypatch.setenv(MACHINE_VARIABLE, OURS[MACHINE_VARIABLE])
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def piped(*arguments: str, **environment: str) -> list[str]:
    """Return the lines that a command writes into a pipe, as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pgdrag", *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def on_terminal(columns: int, *arguments: str) -> list[str]:
    """Return the lines that a command prints on a terminal of this width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "pgdrag", *arguments]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command, env=environment, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        text = b""
        while part := _read(master):
            text += part
        process.wait()
    os.close(master)
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).splitlines()


def _read(master: int) -> bytes:
    try:
        return os.read(master, 4096)
    except OSError:  # the other side is closed
        return b""


def ids(home: Path) -> list[str]:
    return [one.run_id for one in Journal(home / "journal.sqlite").summaries()]


@pytest.mark.parametrize("columns", [80, 40, 12])
def test_on_a_terminal_each_run_has_a_line_with_its_whole_name(home: Path, columns: int) -> None:
    head, *lines = on_terminal(columns, "runs")
    assert head.startswith("run ")
    assert [line.split()[0] for line in lines] == ids(home)
    assert max(map(len, lines)) <= max(columns, max(map(len, ids(home))) + 2)
    if columns == 80:
        assert re.search(r"^old-ladder\S* +done +\d+/\d+ +18\.\d", "\n".join(lines), re.MULTILINE)


@pytest.mark.parametrize("environment", [{}, {"COLUMNS": "0"}, {"COLUMNS": "20"}])
def test_in_a_pipe_nothing_of_a_line_is_missing(home: Path, environment: dict[str, str]) -> None:
    lines = piped("runs", **environment)
    assert [line.split()[0] for line in lines[1:]] == ids(home)
    assert not any("…" in line for line in lines)


def test_a_terminal_that_says_it_has_no_columns_has_80(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_terminal(fd: int) -> NoReturn:
        raise OSError(errno.ENOTTY, "not a terminal")

    monkeypatch.setattr("os.get_terminal_size", no_terminal)  # though pytest may have one
    _, shown, _ = pgdrag("show", "compare", COLUMNS="0")
    assert "slower" in shown
    assert 60 < max(map(len, shown.splitlines())) <= 80


def test_a_run_is_removed_with_its_trials_and_its_report(home: Path) -> None:
    (run_id,) = (x for x in ids(home) if x.startswith("ablate"))
    page = home / "reports" / f"{run_id}.html"
    page.parent.mkdir()
    page.write_text("x" * 5000)
    size = (home / "journal.sqlite").stat().st_size
    status, out, err = pgdrag("rm", "ablate", "--yes")
    assert (status, err) == (0, "")
    assert re.fullmatch(
        rf"Removed {run_id}: 46 trials and its report\.\nFreed [\d.]+ [kM]B\.\n", out
    )
    assert run_id not in ids(home)
    assert not page.exists()
    assert (home / "journal.sqlite").stat().st_size < size
    with sqlite3.connect(home / "journal.sqlite") as db:
        for table in TABLES:
            assert not db.execute(
                f"SELECT count(*) FROM {table} WHERE run_id = ?", (run_id,)
            ).fetchone()[0]
    assert pgdrag("show", "bisect")[0] == 0


def test_several_runs_go_at_once_or_none_where_one_is_not_known(home: Path) -> None:
    every = ids(home)
    assert pgdrag("rm", "compare", "nonesuch", "--yes")[0] == 2
    assert ids(home) == every
    assert pgdrag("rm", "last", every[0], "bisect", "-y")[1].count("Removed") == 2
    assert len(ids(home)) == len(every) - 2


def test_without_a_terminal_nothing_is_removed_unasked(home: Path) -> None:
    every = ids(home)
    status, _, err = pgdrag("rm", "last")
    assert status == 2
    assert "hint: Give --yes." in err
    assert ids(home) == every


def test_a_run_in_progress_stays_and_so_does_the_size_of_the_journal(home: Path) -> None:
    newest, other, *_ = ids(home)
    with measuring_alone(), sqlite3.connect(home / "journal.sqlite") as db:
        db.execute(
            "UPDATE run SET status = 'running', pid = ? WHERE run_id = ?", (os.getpid(), newest)
        )
        db.commit()
        status, _, err = pgdrag("rm", newest, "--yes")
        assert status == 2
        assert f'run "{newest}" is in progress (process {os.getpid()})' in err
        assert "a measurement is in progress" in pgdrag("rm", other, "--yes")[2]
    assert newest in ids(home)
    assert other not in ids(home)


def test_a_run_in_progress_is_reported_with_the_trial_that_it_is_at(home: Path) -> None:
    newest, *_ = ids(home)
    begin_trial = """
        INSERT INTO attempt (run_id, number, attempt, started_unix_s)
        SELECT run_id, number, 9, 32472147600 FROM trial WHERE run_id = ? ORDER BY number DESC LIMIT 1
    """
    with sqlite3.connect(home / "journal.sqlite") as db:
        db.execute(begin_trial, (newest,))
        db.execute(
            "UPDATE run SET status = 'running', pid = ? WHERE run_id = ?", (os.getpid(), newest)
        )
        db.commit()
    with measuring_alone():
        shown = pgdrag("show", newest)
        report = pgdrag("report", newest, "--format", "markdown")
    for status, text, err in (shown, report):
        assert status == 0, err
        words = " ".join(text.split())
        assert "The run is still running" in words
        assert ", is in progress" in words
    assert "since 2999-01-01 01:00:00 UTC" in report[1]
    # Nobody measures any more: its process was killed.
    assert "is in progress" not in pgdrag("show", newest)[1]


def test_a_rung_that_a_scale_does_not_have_is_refused_before_anything_starts(home: Path) -> None:
    status, _, err = pgdrag("run", "global-counters", "--scale", "paper", "--only", "C2,D1")
    assert status == 2
    assert 'error: scale paper has no rung "D1"' in err
    _, _, err = pgdrag("run", "slow-42k", "--only", "A1")
    assert "rungs cannot be left out: those of design ladder build upon each other" in err
