"""Changes of storage in the undo journal: kept through JSON, told in words, put back though never made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdrag.host.undo import Change, UndoJournal
from pgdrag.host.undo.created import LoopDevice, MadeFile, Mounted
from pgdrag.host.undo.remount import Remount

NOWHERE = "/nowhere/at all"
CHANGES = [
    (MadeFile(NOWHERE), 'file "/nowhere/at all" was created', "already restored"),
    (LoopDevice(NOWHERE), 'a loop device was attached to "/nowhere/at all"', "already restored"),
    (Mounted(NOWHERE), 'a file system was mounted at "/nowhere/at all"', "already restored"),
    (
        Remount(NOWHERE, "/dev/vda", {"atime": "relatime", "diratime": "diratime"}),
        'mount options of "/nowhere/at all", changed from relatime,diratime',
        "gone",
    ),
    (
        Remount(NOWHERE, "/dev/vda", {"atime": "relatime"}, {"atime": "noatime"}),
        'mount options of "/nowhere/at all", set to noatime from relatime',
        "gone",
    ),
]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[UndoJournal]:
    journal = UndoJournal.open(tmp_path / "undo")
    yield journal
    journal.release()


@pytest.mark.parametrize(("change", "words", "state"), CHANGES)
def test_a_change_is_kept_told_and_put_back(
    journal: UndoJournal, change: Change, words: str, state: str
) -> None:
    journal.note(change)
    journal.release()
    again = UndoJournal.open(journal.directory)
    (step,) = again.steps()
    assert step.change == change
    assert step.change.words() == words
    assert [each.state for each in again.restore_all()] == [state]
    assert again.steps() == []
    again.release()


def test_a_file_that_was_made_is_deleted_and_once_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    change = MadeFile(str(file))
    assert change.restore(overwrite=False).state == "restored"
    assert not file.exists()
    assert change.restore(overwrite=False).state == "already restored"
    assert MadeFile.survives_boot
    assert not any(kind.survives_boot for kind in (LoopDevice, Mounted, Remount))
