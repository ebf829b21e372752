"""What a process held is free once it is dead, a moment later where it had just forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pgdrag.errors import UsageError
from pgdrag.host import process_alive
from pgdrag.host.machine_lock import MACHINE_VARIABLE, measuring_alone
from pgdrag.host.undo import UndoJournal
from pgdrag.servers.scratch import OwnedDirectory, Scratch
from stand_ins import NO_GUARDIAN

# It holds all three, forks, and is killed before the child executes a program or ends.
HOLDER = (
    NO_GUARDIAN
    + """
import os, signal, sys, time
from pathlib import Path
from pgdrag.host.machine_lock import measuring_alone
from pgdrag.servers.scratch import Scratch
from pgdrag.host.undo import UndoJournal

with measuring_alone():
    UndoJournal.open(Path(sys.argv[1]))
    scratch = Scratch(Path(sys.argv[2]), user=None)
    scratch.clusters.mkdir(parents=True)
    owned = scratch.own_directory(scratch.clusters, "cluster-")
    child = os.fork()
    if child == 0:
        time.sleep(float(sys.argv[3]))
        os._exit(0)
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
)


@pytest.fixture
def killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[float], tuple[int, Path]]]:
    """Makes a holder that is dead, with a child that lives for a while; answers its pid and journal."""
    monkeypatch.setenv(MACHINE_VARIABLE, f"living-{os.getpid()}")
    children = []

    def make(child_s: float) -> tuple[int, Path]:
        places = [str(tmp_path / "undo"), str(tmp_path / "scratch")]
        command = [sys.executable, "-c", HOLDER, *places, str(child_s)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            children.append(int(process.stdout.readline()))
            assert process.wait(60) == -signal.SIGKILL
        return process.pid, tmp_path / "undo"

    yield make
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_what_a_dead_process_held_is_taken_over_from_its_child(killed):
    _, undo = killed(0.5)
    UndoJournal.open(undo).release()
    with measuring_alone():
        pass


def test_a_directory_of_a_dead_process_is_taken_over_from_its_child(killed, tmp_path):
    killed(0.5)
    assert len(abandoned_clusters(tmp_path)) == 1
    assert abandoned_clusters(tmp_path) == []


def abandoned_clusters(root: Path) -> list[OwnedDirectory]:
    scratch = Scratch(root / "scratch", user=None)
    return scratch.abandoned_directories(scratch.clusters, "cluster-")


def test_a_child_that_stays_is_waited_for_no_longer_than_a_person_waits(killed, monkeypatch):
    monkeypatch.setattr(process_alive, "_FORKED_CHILD_S", 0.2)
    pid, undo = killed(60)
    assert abandoned_clusters(undo.parent) == []
    with pytest.raises(UsageError, match=rf"another pgdrag \(process {pid}\) is changing"):
        UndoJournal.open(undo)
    with (
        pytest.raises(UsageError, match=rf"is measuring on this machine \(process {pid}\)"),
        measuring_alone(),
    ):
        pass


def test_who_lives_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(process_alive, "_FORKED_CHILD_S", 3600)
    assert not process_alive.take_over(lambda: False, os.getpid)


def test_a_process_that_is_gone_or_only_to_be_reaped_has_no_fields():
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process_alive.stat_fields(process.pid) is None
        assert process_alive.has_ended(process.pid)
    assert process_alive.stat_fields(process.pid) is None
    assert process_alive.has_ended(process.pid)
    assert not process_alive.has_ended(os.getpid())
    assert int(process_alive.stat_fields(os.getpid())[1]) == os.getppid()


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])
def test_a_process_that_proc_hides_has_not_ended(error, monkeypatch):
    """As with hidepid=2, and with hidepid=1."""

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(process_alive, "_fields", refuse)
    assert not process_alive.has_ended(os.getpid())


def test_a_process_that_exits_has_ended_though_it_is_not_dead_yet(monkeypatch, tmp_path):
    monkeypatch.setattr(process_alive, "_PROC", tmp_path)
    (tmp_path / "7").mkdir()
    # PF_EXITING is among its flags, and its name is no text.
    (tmp_path / "7/stat").write_bytes(b"7 (odd) \xff name) R 1 2 3 0 -1 4194308 0")
    assert process_alive.has_ended(7)
