"""Which mount holds a path?"""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from pgdrag.host import Mount, mount_of

Partition = namedtuple("Partition", "device mountpoint fstype")


@pytest.fixture
def mounts(monkeypatch: pytest.MonkeyPatch) -> list[Partition]:
    """The mounts of the host, in the order mounted; empty at first."""
    found: list[Partition] = []
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: found)
    return found


def test_the_longest_prefix_holds_a_path(mounts: list[Partition]) -> None:
    mounts += [
        Partition("/dev/vdb", "/nowhere/data", "xfs"),
        Partition("/dev/vda", "/", "ext4"),
        Partition("/dev/vdc", "/nowhere/data2", "btrfs"),
    ]
    assert mount_of(Path("/nowhere/data/base")) == Mount("/dev/vdb", "xfs")
    assert mount_of(Path("/nowhere/dat")) == Mount("/dev/vda", "ext4")


def test_of_mounts_on_one_place_the_last_hides_the_others(mounts: list[Partition]) -> None:
    mounts += [Partition("rootfs", "/", "rootfs"), Partition("/dev/vda", "/", "ext4")]
    assert mount_of(Path("/nowhere")) == Mount("/dev/vda", "ext4")


def test_a_host_that_tells_no_mount_has_none(mounts: list[Partition]) -> None:
    assert mount_of(Path("/nowhere")) is None
