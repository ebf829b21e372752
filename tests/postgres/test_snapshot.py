from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.errors import ServerError, StorageError
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot, SnapshotStore

pytestmark = pytest.mark.postgres


@pytest.fixture
def store(scratch: Scratch) -> SnapshotStore:
    return SnapshotStore(scratch)


def with_rows(cluster: Cluster, count: int) -> Cluster:
    cluster.start()
    with cluster.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT generate_series(1, {count}) AS i")
    assert cluster.stop() == "fast"
    return cluster


def rows(cluster: Cluster) -> int:
    with cluster.connect() as connection:
        row = connection.execute("SELECT count(*) FROM t").fetchone()
    assert row is not None
    return int(row[0])


def test_a_restored_cluster_has_the_rows_and_the_snapshot_keeps_them(
    store: SnapshotStore, scratch: Scratch, binaries: Binaries, cluster: Cluster
) -> None:
    snapshot = store.create("rows", with_rows(cluster, 1000), {"rows": 1000})
    for _ in range(2):
        restored = snapshot.restore(scratch, binaries)
        assert restored.cost.bytes == snapshot.bytes
        assert restored.cost.seconds > 0
        with restored.cluster as copy:
            copy.start()
            assert rows(copy) == 1000
            with copy.connect() as connection:
                connection.execute("DELETE FROM t")


def test_postgres_15_restores_what_it_stored(
    store: SnapshotStore, new_cluster: Callable[[str], Cluster], binaries: Binaries
) -> None:
    with new_cluster("15") as cluster:
        snapshot = store.create("older", with_rows(cluster, 7), {})
        with snapshot.restore(store.scratch, cluster.binaries).cluster as copy:
            copy.start()
            assert rows(copy) == 7
    with pytest.raises(ServerError, match='cannot run snapshot "older", which version 15 made'):
        snapshot.restore(store.scratch, binaries)


def test_a_snapshot_is_found_under_its_key_with_what_was_said_of_it(
    store: SnapshotStore, cluster: Cluster
) -> None:
    assert store.get("described") is None
    said = {"warehouses": 3, "seed": 2**64 - 1}
    created = store.create("described", cluster, said, warnings=["it was made in a hurry"])
    assert store.get("described") == created
    assert created.warnings == ("it was made in a hurry",)
    assert created.describe == {"warehouses": 3, "seed": 2**64 - 1}
    assert created in store.list()
    store.remove("described")
    store.remove("described")
    assert store.get("described") is None
    assert created not in store.list()
    assert not created.directory.exists()


def test_the_first_of_two_snapshots_under_one_key_stays(
    store: SnapshotStore, cluster: Cluster
) -> None:
    first = store.create("twice", cluster, {"number": 1})
    assert store.create("twice", cluster, {"number": 2}) == first
    assert not list(store.scratch.snapshots.glob("half-made-*"))


def test_a_running_cluster_cannot_be_stored(store: SnapshotStore, running_cluster: Cluster) -> None:
    with pytest.raises(ServerError, match="not shut down cleanly") as raised:
        store.create("running", running_cluster, {})
    assert "in production" in str(raised.value.detail)
    assert store.get("running") is None


def test_a_crashed_cluster_cannot_be_stored(store: SnapshotStore, running_cluster: Cluster) -> None:
    assert running_cluster.stop(fast_timeout_s=0) == "immediate"
    with pytest.raises(ServerError, match="not shut down cleanly"):
        store.create("crashed", running_cluster, {})


def test_a_cluster_with_files_elsewhere_cannot_be_stored(
    store: SnapshotStore, cluster: Cluster, open_directory: Path
) -> None:
    elsewhere = open_directory / "elsewhere"
    cluster.scratch.make_private(elsewhere)
    cluster.start()
    with cluster.connect() as connection:
        connection.execute(f"CREATE TABLESPACE elsewhere LOCATION '{elsewhere}'".encode())
    cluster.stop()
    with pytest.raises(ServerError, match="outside of its data directory"):
        store.create("elsewhere", cluster, {})
    assert not list(store.scratch.snapshots.glob("half-made-*"))


def test_a_snapshot_in_use_is_not_removed(store: SnapshotStore, cluster: Cluster) -> None:
    snapshot = store.create("used", cluster, {})
    fd = os.open(snapshot.directory / "lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_SH)  # what a restore holds
    with pytest.raises(StorageError, match='snapshot "used" is being restored'):
        store.remove("used")
    os.close(fd)
    store.remove("used")
    assert store.get("used") is None


def test_a_snapshot_that_vanished_is_a_storage_error_and_leaves_no_cluster(
    store: SnapshotStore, cluster: Cluster, binaries: Binaries
) -> None:
    snapshot = store.create("vanishing", cluster, {})
    before = set(store.scratch.clusters.iterdir())
    shutil.rmtree(snapshot.directory / "data")
    with pytest.raises(StorageError, match="could not restore a snapshot"):
        snapshot.restore(store.scratch, binaries)
    assert set(store.scratch.clusters.iterdir()) == before
    store.remove("vanishing")


@pytest.fixture(scope="module")
def damaged(
    scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot
) -> Iterator[SnapshotStore]:
    """A store with a snapshot "damaged", whose description anybody may overwrite."""
    store = SnapshotStore(scratch)
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        store.create("damaged", cluster, {})
    yield store
    store.remove("damaged")


@pytest.mark.parametrize("content", ["", "{}", "[]", json.dumps({"format": 99})])
def test_a_damaged_description_is_named(damaged: SnapshotStore, content: str) -> None:
    directory = damaged.scratch.snapshots / "damaged"
    (directory / "snapshot.json").write_text(content)
    with pytest.raises(StorageError, match="cannot read the description") as raised:
        damaged.get("damaged")
    assert str(directory) in str(raised.value.hint)


def test_nobody_else_can_read_a_snapshot(empty_snapshot: Snapshot) -> None:
    data = empty_snapshot.directory / "data"
    found = [path.lstat() for path in [data, *data.rglob("*")]]
    assert all(each.st_mode & 0o077 == 0 for each in found)
    # Not even the user that runs servers: later trials start from it.
    assert {each.st_uid for each in found} == {os.geteuid()}


def test_a_snapshot_of_another_place_is_refused_by_version_alone(
    empty_snapshot: Snapshot, scratch: Scratch, binaries: Binaries
) -> None:
    newer_minor = replace(binaries, version_num=binaries.version_num + 1)
    empty_snapshot.restore(scratch, newer_minor).cluster.remove()
    newer_major = replace(binaries, version_num=binaries.version_num + 10000)
    with pytest.raises(ServerError, match="cannot run snapshot"):
        empty_snapshot.restore(scratch, newer_major)
