"""What holds for all tests."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from pgdrag.undo import UNDO_VARIABLE, UndoJournal

# An example that takes long on a busy machine has found nothing.
settings.register_profile("pgdrag", deadline=None)
settings.load_profile("pgdrag")

HOST_LOCK = Path("/var/tmp/pgdrag-test-host.lock")


@pytest.fixture
def host_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[UndoJournal]:
    """The undo journal of a test that changes the operating system, as no other test does meanwhile."""
    if os.geteuid() != 0:
        pytest.skip("only root may change the operating system")
    with HOST_LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setenv(UNDO_VARIABLE, str(tmp_path / "undo"))
        journal = UndoJournal.open()
        yield journal
        journal.close()
