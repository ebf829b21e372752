"""Is every byte of a dataset what it was, whichever way it is restored?"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgdrag.model import CopyMethod
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot, SnapshotStore

pytestmark = pytest.mark.postgres

# Written anew by every restore: a configuration is a treatment's, not a dataset's.
CONFIGURATION = frozenset({"postgresql.conf", "postgresql.auto.conf"})
FIEMAP = 0xC020660B  # linux/fs.h, FS_IOC_FIEMAP
FIEMAP_FLAG_SYNC = 0x1
FIEMAP_EXTENT_SHARED = 0x2000
EXTENTS_MAX = 64
HEADER = struct.Struct("=QQLLLL")
EXTENT = struct.Struct("=QQQQQLLLL")


def checksums(data_directory: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a stopped cluster, by its path."""
    return {
        str(path.relative_to(data_directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data_directory.rglob("*")
        if path.is_file() and path.name not in CONFIGURATION
    }


def shared_share(path: Path) -> float:
    """Return which share of a file's extents the kernel says are another file's, too."""
    room = bytearray(HEADER.size + EXTENTS_MAX * EXTENT.size)
    HEADER.pack_into(room, 0, 0, 2**64 - 1, FIEMAP_FLAG_SYNC, 0, EXTENTS_MAX, 0)
    with path.open("rb") as file:
        fcntl.ioctl(file, FIEMAP, room)
    count = HEADER.unpack_from(room)[3]
    extents = [EXTENT.unpack_from(room, HEADER.size + at * EXTENT.size) for at in range(count)]
    return sum(bool(extent[5] & FIEMAP_EXTENT_SHARED) for extent in extents) / count


@dataclass(frozen=True)
class Road:
    """One way in which a restore may be done."""

    name: str
    scratch: Scratch
    method: CopyMethod
    was_taken: Callable[[Path], bool]


@contextlib.contextmanager
def mounted_disk(directory: Path, make: list[str]) -> Iterator[Path]:
    """A file system that blocks can be shared on, in a file of 400 MB that takes no space."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    place = Path(tempfile.mkdtemp(dir=directory))
    place.chmod(0o711)
    image, disk = place / "disk.img", place / "disk"
    with image.open("wb") as file:
        file.truncate(400 * 2**20)
    disk.mkdir()
    for command in ([*make, str(image)], ["mount", "-o", "loop", str(image), str(disk)]):
        if shutil.which(command[0]) is None:
            pytest.skip(f"there is no {command[0]} here")
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode != 0:
            pytest.skip(f"{command[0]} does not work here: {ended.stderr.strip()}")
    disk.chmod(0o711)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
        image.unlink()


@pytest.fixture(
    params=[
        pytest.param(["mkfs.xfs", "-q", "-m", "reflink=1"], id="reflink on XFS"),
        pytest.param(["mkfs.btrfs", "-q"], id="reflink on Btrfs"),
        pytest.param("copy", id="copied"),
    ]
)
def road(
    request: pytest.FixtureRequest,
    open_directory: Path,
    scratch: Scratch,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Road]:
    """Each way in turn; the copying ones whatever the file system here can do."""
    if isinstance(request.param, list):
        with mounted_disk(open_directory, request.param) as disk:
            apart = Scratch.open(disk / "scratch")
            yield Road(request.param[0], apart, "reflink", lambda one: shared_share(one) > 0)
        return

    def refuse(*_: object) -> int:
        raise OSError(95, "not supported")

    monkeypatch.setattr("pgdrag.servers.copying.fcntl.ioctl", refuse)
    yield Road(request.param, scratch, "copy", lambda _: True)


def with_rows(cluster: Cluster) -> Cluster:
    cluster.start()
    with cluster.connect() as connection:
        connection.execute(
            "CREATE TABLE public.t AS SELECT i, repeat(md5(i::text), 20) AS filler "
            "FROM generate_series(1, 10000) AS i"
        )
    assert cluster.stop() == "fast"
    return cluster


def change_all(cluster: Cluster) -> None:
    cluster.start()
    with cluster.connect() as connection:
        connection.execute("UPDATE public.t SET filler = 'changed'")
        connection.execute("VACUUM FULL public.t")
    assert cluster.stop() == "fast"


def largest_file(directory: Path) -> Path:
    return max((path for path in directory.rglob("*") if path.is_file()), key=_size)


def _size(path: Path) -> int:
    return path.stat().st_size


def test_every_file_of_a_restored_dataset_has_its_checksum_and_so_has_the_next_one(
    road: Road, binaries: Binaries
) -> None:
    scratch, store = road.scratch, SnapshotStore(road.scratch)
    with Cluster.create(scratch, binaries) as cluster:
        cluster.initdb()
        original = checksums(with_rows(cluster).data_directory)
        del original["postmaster.opts"]  # of a server that runs, as its pid is
        snapshot = store.create(f"bytes-{road.name}", cluster, {})
    assert len(original) > 500
    # What one trial does to its copy reaches neither the snapshot nor the copy of the next.
    for _ in range(2):
        restored = snapshot.restore(scratch, binaries)
        with restored.cluster as copy:
            assert checksums(copy.data_directory) == original
            assert restored.cost.bytes == snapshot.bytes == total_bytes(snapshot)
            assert restored.cost.method == road.method
            table = largest_file(copy.data_directory / "base")
            assert road.was_taken(table)
            largest = table.read_bytes()
            change_all(copy)
            assert largest_file(copy.data_directory / "base").read_bytes() != largest
    assert checksums(snapshot.directory / "data") == original


def total_bytes(snapshot: Snapshot) -> int:
    files = (snapshot.directory / "data").rglob("*")
    return sum(_size(path) for path in files if path.is_file())


def test_a_reflink_takes_no_room_for_the_bytes(open_directory: Path, binaries: Binaries) -> None:
    with mounted_disk(open_directory, ["mkfs.xfs", "-q", "-m", "reflink=1"]) as disk:
        scratch = Scratch.open(disk / "scratch")
        with Cluster.create(scratch, binaries) as cluster:
            cluster.initdb()
            snapshot = SnapshotStore(scratch).create("shared", cluster, {})
        used = shutil.disk_usage(disk).used
        with snapshot.restore(scratch, binaries).cluster:
            assert shutil.disk_usage(disk).used - used < snapshot.bytes / 2
