"""A directory is nobody else's only if all on the way to it are."""

from __future__ import annotations

import os
import struct
from grp import struct_group
from pathlib import Path
from pwd import struct_passwd

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


@pytest.mark.parametrize(
    ("entry", "is_open"),
    [
        ((0x02, 0o6, SOMEBODY), True),
        ((0x02, 0o5, SOMEBODY), False),
        ((0x08, 0o7, os.getegid()), True),
        ((0x02, 0o7, os.geteuid()), False),
    ],
)
@pytest.mark.parametrize("mask", [0o7, 0o5])
def test_whom_an_access_control_list_lets_write_counts(
    tmp_path: Path, entry: tuple[int, int, int], is_open: bool, mask: int
) -> None:
    nobody = 0xFFFFFFFF
    entries = [(0x01, 7, nobody), (0x04, 5, nobody), entry, (0x10, mask, nobody), (0x20, 0, nobody)]
    entries.sort(key=lambda each: (each[0], each[2]))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    try:
        os.setxattr(tmp_path, "system.posix_acl_access", packed)
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")
    assert (who_may_swap(tmp_path) is not None) is (is_open and bool(mask & 0o2))


def user(name: str, uid: int, gid: int) -> struct_passwd:
    return struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))


OWN = user("ann", os.geteuid(), 100)


@pytest.mark.parametrize(
    ("group", "members", "users", "is_open"),
    [
        ("ann", [], [OWN], False),
        ("users", [], [OWN], False),
        ("users", [], [OWN, user("bob", SOMEBODY, 100)], True),
        ("users", [], [OWN, user("bob", SOMEBODY, 101)], False),
        ("ann", ["ann", "bob"], [OWN], True),
        # A directory service tells of no users but those asked for by name.
        ("domain users", [], [], True),
        ("ann", [], [], False),
    ],
)
def test_a_group_is_the_users_own_if_nobody_else_is_in_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    group: str,
    members: list[str],
    users: list[struct_passwd],
    is_open: bool,
) -> None:
    """Some systems have one primary group for all users."""
    tmp_path.chmod(0o775)
    monkeypatch.setattr(os, "getegid", lambda: 100)
    lstat = Path.lstat

    def of_the_group(path: Path) -> os.stat_result:
        found = list(lstat(path))
        return os.stat_result([*found[:5], 100, *found[6:]])

    monkeypatch.setattr(Path, "lstat", of_the_group)
    monkeypatch.setattr("pwd.getpwall", lambda: users)
    monkeypatch.setattr(
        "pwd.getpwuid", lambda uid: user("ann" if uid == OWN.pw_uid else "root", uid, 100)
    )
    monkeypatch.setattr("grp.getgrgid", lambda gid: struct_group((group, "x", gid, members)))
    assert (who_may_swap(tmp_path) is not None) is is_open


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
