"""What is said when a file cannot be written."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from capabilities import needs_root
from pgdrag.cli.place import clear_former
from pgdrag.errors import StorageError
from pgdrag.host.mounts import mount_holding
from pgdrag.servers import scratch as scratch_module
from pgdrag.servers.scratch import (
    CLUSTER_PREFIX,
    Scratch,
    default_root,
    former_root,
    full_disk,
    spread_directories,
    storage_errors,
)


def test_a_full_disk_is_named_by_a_place_that_need_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "not" / "made"
    error = full_disk("write it", path)
    assert error.message == f'could not write it: the file system of "{path}" is full'
    assert "B free." in str(error.detail)
    assert "PGDRAG_SCRATCH" in str(error.hint)
    assert "is full" in full_disk("write it", Path("nowhere/at/all")).message
    small = full_disk("load it", path, wanted_bytes=3 << 60)
    assert small.message.startswith(
        f'could not load it: it needs 3 EB, and the file system of "{path}" has '
    )


def test_a_directory_that_the_disk_has_no_room_for_is_not_left(
    tmp_path: Path, make_small_disk: Callable[[Path, int], Path]
) -> None:
    disk = make_small_disk(tmp_path / "disk", 1)
    scratch = Scratch(disk, user=None)
    scratch.clusters.mkdir()
    with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    with pytest.raises(StorageError, match="is full"):
        scratch.own_directory(scratch.clusters, CLUSTER_PREFIX)
    assert [*scratch.clusters.iterdir()] == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_whoever_writes_elsewhere_names_a_remedy_of_its_own(tmp_path: Path, number: int) -> None:
    with (
        pytest.raises(StorageError) as raised,
        storage_errors("write the report", tmp_path, hint="Name another file with --output."),
    ):
        raise OSError(number, "no")
    assert raised.value.hint == "Name another file with --output."


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own: where caches are, and what is aged."""
    for name in ("_ROOTS_CACHE", "_AGED"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(scratch_module, name, tmp_path / name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    monkeypatch.delenv("PGDRAG_SCRATCH", raising=False)
    return tmp_path


def test_datasets_are_where_no_cleaner_ages_files(places: Path) -> None:
    assert default_root(0) == places / "_ROOTS_CACHE" / "pgdrag"
    assert default_root(1000) == places / "home" / "cache" / "pgdrag" / "scratch"


@pytest.mark.parametrize("trouble", ["nfs4", "read-only"])
def test_a_cache_that_serves_for_nothing_is_not_used(
    places: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trouble == "read-only":
        monkeypatch.setattr(os, "access", lambda _, mode: mode == os.F_OK)
    else:
        monkeypatch.setattr(scratch_module, "network_file_system", lambda _: trouble)
    assert default_root(1000) == places / "_AGED" / "pgdrag-1000"


def test_the_former_place_is_swept_and_removed_with_all_datasets(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(clear_former(with_snapshots=True)) == []
    place = default_root(os.geteuid())
    (former_root(os.geteuid()) / "snapshots" / "old").mkdir(parents=True)
    former = Scratch.former()
    assert former is not None
    former.clusters.mkdir()
    former.own_directory(former.clusters, CLUSTER_PREFIX).release()  # as its owner's death
    alive = former.own_directory(former.clusters, CLUSTER_PREFIX)
    (removed,) = clear_former(with_snapshots=True)
    assert removed.startswith("Removed cluster")
    assert (former.snapshots / "old").exists()
    alive.remove()
    assert list(clear_former()) == []
    (removed,) = clear_former(with_snapshots=True)
    assert removed == f'Removed "{former.root}", the former scratch directory.'
    assert not former.root.exists()
    assert not place.exists()


def test_what_a_person_named_has_no_former_place(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former_root(os.geteuid()).mkdir()
    monkeypatch.setenv("PGDRAG_SCRATCH", str(places / "own"))
    assert Scratch.former() is None


def test_anothers_directory_in_the_former_place_is_left_alone(places: Path) -> None:
    own, other = former_root(os.geteuid()), places / "other"
    other.mkdir()
    own.symlink_to(other)
    assert Scratch.former() is None
    if os.geteuid() == 0:
        own.unlink()
        own.mkdir()
        os.chown(own, 12345, 12345)
        assert Scratch.former() is None


def test_a_former_place_that_others_may_write_to_is_left_alone(places: Path) -> None:
    own = former_root(os.geteuid())
    own.mkdir()
    assert Scratch.former() is not None
    own.chmod(0o777)
    assert Scratch.former() is None


@needs_root
def test_a_home_that_a_user_may_not_look_into_is_no_error(places: Path) -> None:
    (places / "home").chmod(0o700)
    places.chmod(0o711)
    pid = os.fork()
    if pid == 0:
        os.setuid(12345)
        os._exit(default_root(12345) != former_root(12345))
    assert os.waitpid(pid, 0)[1] == 0


def test_directories_of_clusters_are_spread_where_the_file_system_can(tmp_path: Path) -> None:
    spread_directories(tmp_path)
    spread_directories(tmp_path)
    found = subprocess.run(["lsattr", "-d", tmp_path], capture_output=True, text=True, check=False)
    mount = mount_holding(tmp_path)
    if mount is not None and mount.file_system == "ext4":
        assert "T" in found.stdout.split()[0]
    spread_directories(tmp_path / "absent")  # is not worth an error
