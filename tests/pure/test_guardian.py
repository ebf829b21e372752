"""What a killed pgdrag leaves is ended and undone though nobody starts another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdrag.cli.aftermath import clear_up_after
from pgdrag.host.guardian import _start, end_session, guarded_session
from pgdrag.host.process_alive import has_ended, start_ticks, wait_until
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo.created import MadeFile
from pgdrag.servers.scratch import Scratch
from stand_ins import guardians_of

# It takes a second; the machine may be busy with other tests.
TIMEOUT_S = 60
HOLDER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from pgdrag.host.guardian import guarded_session
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo.created import MadeFile
from pgdrag.servers.scratch import Scratch

root, mishap = Path(sys.argv[1]), sys.argv[2]
scratch = Scratch.open(root / "scratch")
owned = scratch.own_directory(scratch.clusters, "cluster-")
journal = UndoJournal.open(root / "undo")
if mishap == "guardian killed before":
    from pgdrag.host import guardian
    guardian._process.kill()
    guardian._process.wait()
noted = journal.note(MadeFile(str(root / "pgdrag-file")))
(root / "pgdrag-file").touch()
# A shell that has ended leaves what it started; nobody can tell whose that is but by its session.
load = subprocess.Popen(
    ["sh", "-c", "sleep 600 & echo $!; read line"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True,
)
with guarded_session(load.pid):
    print(load.stdout.readline().strip(), flush=True)
    if mishap == "shell ended":
        load.stdin.close()
        time.sleep(600)
    sys.stdin.read()
os.killpg(load.pid, signal.SIGKILL)
owned.remove()
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="test-", dir="/var/tmp") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


def begun(root: Path, mishap: str = "none") -> tuple[subprocess.Popen[str], int, int]:
    """Start a pgdrag with something at stake; with it come its guardian and a process of its load."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root), mishap],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    load = int(process.stdout.readline())
    (guardian,) = guardians_of(process.pid)
    return process, guardian, load


def is_alive(pid: int) -> bool:
    return not has_ended(pid)


def end_process(process: subprocess.Popen[str]) -> None:
    process.kill()


def end_group(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def end_session_with_all_signals(process: subprocess.Popen[str]) -> None:
    """Whatever can be sent to a group, and to the guardian itself, before the end."""
    for guardian in guardians_of(process.pid):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(guardian, number)
    os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("end", "mishap"),
    [
        (end_process, "none"),
        (end_process, "shell ended"),
        (end_process, "guardian killed before"),
        (end_group, "none"),
        (end_session_with_all_signals, "none"),
    ],
)
def test_what_was_killed_leaves_nothing_though_nobody_starts_pgdrag(
    root: Path, end: Callable[[subprocess.Popen[str]], None], mishap: str
) -> None:
    """Faults 12 and 21."""
    process, guardian, load = begun(root, mishap)
    assert is_alive(load)
    end(process)
    _, said = process.communicate(timeout=TIMEOUT_S)
    # It was the last to have the stream: it has ended now.
    assert wait_until(lambda: not is_alive(guardian), TIMEOUT_S)
    assert not is_alive(load)
    assert not (root / "pgdrag-file").exists()
    assert (root / "undo" / "undo.jsonl").read_bytes() == b""
    assert list((root / "scratch" / "clusters").iterdir()) == []
    assert f"process {process.pid} was killed. Removed cluster" in said
    assert "Could not" not in said


def test_one_that_ends_well_takes_its_guardian_with_it(root: Path) -> None:
    process, guardian, load = begun(root)
    _, said = process.communicate("", timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert not Path(f"/proc/{guardian}").exists(), "it was waited for, too"
    assert said == ""
    assert not (root / "pgdrag-file").exists()
    assert wait_until(lambda: not is_alive(load), TIMEOUT_S)


def test_a_guardian_that_is_interrupted_as_it_starts_lives_on() -> None:
    started = _start()
    assert started is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        started.send_signal(number)
    assert started.communicate(b"end\0", timeout=TIMEOUT_S) == (None, None)
    assert started.returncode == 0


def test_a_session_whose_leader_cannot_be_seen_yet_is_guarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stakes, unseen = [], iter([None, None])
    monkeypatch.setattr(
        "pgdrag.host.guardian._tell", lambda stake, is_at_stake: stakes.append(is_at_stake)
    )
    monkeypatch.setattr("pgdrag.host.guardian.start_ticks", lambda pid: next(unseen, 7))
    leader = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        with guarded_session(leader.pid):
            assert stakes == [True]
    finally:
        leader.kill()
        leader.wait()


def test_where_nothing_is_at_stake_there_is_none(root: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pgdrag.host.undo import UndoJournal\n"
        "from pgdrag.servers.scratch import Scratch\n"
        "Scratch.open(Path(sys.argv[1]) / 'scratch'); UndoJournal.open(Path(sys.argv[1]) / 'undo')\n"
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        assert guardians_of(process.pid) == []
        process.communicate("")


def test_a_place_that_cannot_be_cleared_up_spoils_no_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        journal = UndoJournal.open(root / name)
        journal.note(MadeFile(str(root / f"pgdrag-{name}")))
        (root / f"pgdrag-{name}").touch()
        # As its death would: its owner is no process of now.
        journal.path.write_text(journal.path.read_text().replace('"started": ', '"started": 9'))
        journal.release()
    (root / "one").chmod(0o777)
    scratch = Scratch.open(root / "scratch")
    owned = scratch.own_directory(scratch.clusters, "cluster-")
    owned.release()
    stakes = [f"undo={root / 'one'}", f"undo={root / 'two'}", f"scratch={scratch.root}"]
    said = list(clear_up_after([*stakes, "scratch=/nowhere", "session=1:1"]))
    assert [x for x in said if "Could not clean up: others could replace" in x]
    assert (root / "pgdrag-one").exists()
    assert not (root / "pgdrag-two").exists()
    assert not owned.path.exists()


def test_a_failed_undo_is_reported_again_at_the_next_start(root: Path) -> None:
    journal = UndoJournal.open(root / "undo")
    (root / "pgdrag-file").mkdir()  # no file, so that it cannot be deleted as one
    journal.note(MadeFile(str(root / "pgdrag-file")))
    journal.path.write_text(journal.path.read_text().replace('"started": ', '"started": 9'))
    journal.release()
    for _ in range(2):
        (said,) = clear_up_after([f"undo={root / 'undo'}"])
        assert "could not be restored" in said
    journal = UndoJournal.open(root / "undo")
    assert not journal.steps()[0].was_reported
    journal.release()


def test_a_session_whose_number_is_another_processs_now_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        try:
            # Under hidepid it is in sight a moment after it runs its program.
            assert wait_until(lambda: start_ticks(other.pid) is not None, 10)
            started = start_ticks(other.pid)
            assert started is not None
            assert end_session(f"{other.pid}:{started - 1}") == 0
            assert is_alive(other.pid)
            assert end_session(f"{other.pid}:{started}") == 1
        finally:
            other.kill()
