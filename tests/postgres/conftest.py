"""Throw-away clusters for tests: a scratch directory, the embedded server, and clusters in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watching import NO_INTERFERENCE

from pgdrag.errors import ServerError
from pgdrag.servers.binaries import Binaries, executable_binaries, find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot, SnapshotStore
from pgdrag.servers.sweep import sweep
from pgdrag.trial import ServerBench


@pytest.fixture(scope="session")
def open_directory() -> Iterator[Path]:
    """A directory for scratch directories; pytest's own keeps the server's user out."""
    directory = Path(tempfile.mkdtemp(prefix="pgdrag-test-", dir="/var/tmp"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def scratch(open_directory: Path) -> Iterator[Scratch]:
    """One scratch directory for the whole session."""
    scratch = Scratch.open(open_directory / "session")
    yield scratch
    sweep(scratch)


@pytest.fixture(scope="session")
def binaries(scratch: Scratch) -> Binaries:
    """The embedded PostgreSQL, where the server's user can execute it: the checkout may be closed."""
    try:
        return executable_binaries(find_binaries(None), scratch)
    except ServerError as error:
        pytest.skip(f"no embedded PostgreSQL: {error}")


@pytest.fixture(scope="session")
def bench(scratch: Scratch, binaries: Binaries) -> ServerBench:
    """Where trials are run on the embedded PostgreSQL."""
    return ServerBench.open(scratch, binaries)


@pytest.fixture(scope="session")
def empty_snapshot(scratch: Scratch, binaries: Binaries) -> Snapshot:
    """What initdb makes, so that tests need not wait for it."""
    return _initialised(scratch, binaries)


@pytest.fixture
def cluster(scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot) -> Iterator[Cluster]:
    """A new cluster that is not started."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        yield cluster


@pytest.fixture
def running_cluster(cluster: Cluster) -> Cluster:
    """A new cluster that is started, with default settings."""
    cluster.start()
    return cluster


@pytest.fixture(scope="session")
def older_cluster_maker(scratch: Scratch) -> Callable[[], Cluster]:
    """Makes new clusters of PostgreSQL 15, the oldest version supported, not started."""
    try:
        older = find_binaries("15")
    except ServerError as error:
        pytest.skip(str(error))
    snapshot = _initialised(scratch, older)
    return lambda: snapshot.restore(scratch, older).cluster


def _initialised(scratch: Scratch, binaries: Binaries) -> Snapshot:
    store = SnapshotStore(scratch)
    key = f"empty-{binaries.identity}"
    with Cluster.create(scratch, binaries) as cluster:
        cluster.initdb()
        return store.create(key, cluster, {"dataset": "none"})


@pytest.fixture(scope="module")
def shared_cluster(
    scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot
) -> Iterator[Cluster]:
    """A running cluster that no test stops or configures."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.configure(NO_INTERFERENCE)
        cluster.start()
        yield cluster


@pytest.fixture(params=["18", "15"])
def any_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A new cluster of the newest and of the oldest version supported, not started."""
    if request.param == "18":
        yield request.getfixturevalue("cluster")
    else:
        with request.getfixturevalue("older_cluster_maker")() as cluster:
            yield cluster
