"""A directory is nobody else's only if all on the way to it are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgdrag.errors import StorageError
from pgdrag.host.trusted_path import who_may_swap
from pgdrag.host.undo import UndoJournal
from pgdrag.servers.scratch import Scratch

SOMEBODY = 4711


def test_below_a_sticky_directory_each_user_keeps_his_own(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "mine").mkdir(parents=True)
    shared.chmod(0o1777)
    assert who_may_swap(shared / "mine") is None
    assert who_may_swap(shared) is not None, "others can put something into it"
    shared.chmod(0o777)
    assert who_may_swap(shared / "mine") == (
        f'users other than "{shared.owner()}" can write to "{shared}"'
    )


def test_a_link_that_another_user_could_change_counts(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "mine" / "below").mkdir(parents=True)
    (tmp_path / "shared" / "link").symlink_to(tmp_path / "mine")
    assert who_may_swap(tmp_path / "shared" / "link" / "below") is None
    (tmp_path / "shared").chmod(0o777)
    assert str(tmp_path / "shared") in str(who_may_swap(tmp_path / "shared" / "link" / "below"))


def test_links_that_lead_nowhere_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for missing in ("loop", "none"):
        with pytest.raises(OSError, match=r"loop|none"):
            who_may_swap(tmp_path / missing / "below")


@pytest.fixture
def anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of this user's below one of somebody else's."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    monkeypatch.delenv("SUDO_UID", raising=False)
    tmp_path.chmod(0o755)
    (tmp_path / "home" / "own").mkdir(parents=True)
    os.chown(tmp_path / "home", SOMEBODY, SOMEBODY)
    return tmp_path / "home" / "own"


def test_root_keeps_no_undo_journal_below_somebody_elses_directory(anothers: Path) -> None:
    """F16: he could rename the directory after it was looked at, and put his own in its place."""
    with pytest.raises(StorageError, match="others could replace the undo journal") as refused:
        UndoJournal.open(anothers / "undo")
    assert str(refused.value.detail) == f'"{anothers.parent}" belongs to user "{SOMEBODY}".'
    assert "PGDRAG_UNDO" in str(refused.value.hint)


def test_who_became_root_with_sudo_is_trusted(
    anothers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    assert who_may_swap(anothers) is None


def test_root_keeps_no_scratch_directory_below_somebody_elses(anothers: Path) -> None:
    with pytest.raises(StorageError, match="others could replace scratch directory") as refused:
        Scratch.open(anothers / "scratch")
    assert str(SOMEBODY) in str(refused.value.detail)
    assert "PGDRAG_SCRATCH" in str(refused.value.hint)


def test_a_link_of_somebody_elses_is_not_followed(anothers: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    os.chown(link, SOMEBODY, SOMEBODY, follow_symlinks=False)
    assert who_may_swap(tmp_path / "link") == f'"{link}" belongs to user "{SOMEBODY}"'
