"""Wherever Ctrl-C comes while a cluster is made or removed, its directory is gone when pgdrag has ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pgdrag.cli.place import clear_own
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo.written_value import WrittenValue
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import CLUSTER_PREFIX, Scratch
from pgdrag.servers.sweep import sweep

# Where a signal may come: between any two lines of these.
FILES = ("servers/cluster.py", "servers/scratch.py")
BINARIES = Binaries(Path("/nowhere/bin"), "18.6", 180006, "installed", "none")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    monkeypatch.setenv("PGDRAG_UNDO", str(tmp_path / "undo"))
    monkeypatch.setattr("pgdrag.servers.cluster.executable_binaries", lambda known, _: known)
    # No server was started: looking for its processes takes most of the time.
    monkeypatch.setattr("pgdrag.servers.processes.server_processes", lambda *_: [])
    (tmp_path / "scratch").mkdir()
    for module in ("cluster", "scratch"):
        monkeypatch.setattr(f"pgdrag.servers.{module}.SHORT_SOCKET_ROOT", tmp_path / "sockets")
    (tmp_path / "sockets").mkdir()
    monkeypatch.setattr("pgdrag.servers.scratch.server_user", lambda: None)
    return Scratch.open(tmp_path / "scratch")


class Held:
    """Whether signals are held back: then a real one would come later."""

    is_held = False


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    state = Held()

    @contextmanager
    def holding() -> Iterator[None]:
        outer, state.is_held = state.is_held, True
        try:
            yield
        finally:
            state.is_held = outer

    monkeypatch.setattr("pgdrag.servers.scratch.uninterrupted", holding)
    return state


@contextmanager
def interrupted_at(line: int, state: Held) -> Iterator[None]:
    """Raise KeyboardInterrupt as the numbered line begins, not counting where signals are held back."""
    left = line

    def look(frame: FrameType, event: str, found: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        if event == "line" and not state.is_held and (left := left - 1) == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)
    assert left > 0, "an interruption went unnoticed"


def made_and_removed(scratch: Scratch) -> None:
    with Cluster.create(scratch, BINARIES):
        pass


def test_no_moment_leaves_a_cluster(scratch: Scratch, held: Held) -> None:
    sockets = scratch.root.parent / "sockets"
    for line in count(1):
        try:
            with interrupted_at(line, held):
                made_and_removed(scratch)
        except KeyboardInterrupt:
            clear_own()
            assert list(scratch.clusters.iterdir()) == [], f"after line {line}"
            assert list(sockets.iterdir()) == [], f"after line {line}"
        else:
            break
    assert line > 30, "too few lines were tried"
    assert sweep(scratch) == []


@pytest.mark.usefixtures("any_value")
def test_what_clearing_cannot_undo_is_told(
    scratch: Scratch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "value").write_text("30")
    UndoJournal.open().note(WrittenValue(str(tmp_path / "value"), "20", "10"))
    scratch.own_directory(scratch.clusters, CLUSTER_PREFIX)
    clear_own()
    assert "someone else has changed it since" in capfd.readouterr().err
