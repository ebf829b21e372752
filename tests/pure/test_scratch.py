"""What is said when a file cannot be written."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

from pgdrag.errors import StorageError
from pgdrag.host.mounts import mount_holding
from pgdrag.servers.scratch import full_disk, spread_directories, storage_errors


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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_whoever_writes_elsewhere_names_a_remedy_of_its_own(tmp_path: Path, number: int) -> None:
    with (
        pytest.raises(StorageError) as raised,
        storage_errors("write the report", tmp_path, hint="Name another file with --output."),
    ):
        raise OSError(number, "no")
    assert raised.value.hint == "Name another file with --output."


def test_directories_of_clusters_are_spread_where_the_file_system_can(tmp_path: Path) -> None:
    spread_directories(tmp_path)
    spread_directories(tmp_path)
    found = subprocess.run(["lsattr", "-d", tmp_path], capture_output=True, text=True, check=False)
    mount = mount_holding(tmp_path)
    if mount is not None and mount.file_system == "ext4":
        assert "T" in found.stdout.split()[0]
    spread_directories(tmp_path / "absent")  # is not worth an error
