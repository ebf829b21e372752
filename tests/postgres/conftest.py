"""Throw-away clusters for tests: a scratch directory, the embedded server, and clusters in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import psutil
import pytest
from watching import NO_INTERFERENCE

from pgdrag.errors import ServerError
from pgdrag.host.process_alive import locked, open_lock
from pgdrag.host.undo import UndoJournal
from pgdrag.servers.binaries import OLDEST_MAJOR, Binaries, executable_binaries, find_binaries
from pgdrag.servers.catalog import load_settings_catalog
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.copying import copy_data_directory
from pgdrag.servers.fetched import fetch
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot, SnapshotStore
from pgdrag.servers.sweep import sweep
from pgdrag.trial import ServerTrialRunner

NEWEST_MAJOR = 18
VERSIONS = [str(major) for major in range(NEWEST_MAJOR, OLDEST_MAJOR - 1, -1)]
# Where each test has a server of its own, the ends: a few minutes less. That every collector reads every
# version's views is tested on all of them.
TELLING_VERSIONS = [VERSIONS[0], VERSIONS[-1]]


DISK, MEMORY = Path("/var/tmp"), Path("/dev/shm")
MEMORY_BYTES = 6 << 30
# For tests of devices, page caches and what takes time on a disk: their servers are on one.
on_disk = pytest.mark.parametrize("open_directory", ["disk"], indirect=True, scope="session")


@pytest.fixture(autouse=True)
def _no_lock_of_the_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let tests side by side change what is theirs; what all share is changed under `host_alone`.

    With patches of its own: the test's are undone before its other fixtures end.
    """
    with pytest.MonkeyPatch.context() as patches:
        if "is_refused" not in request.node.name:
            patches.setattr(UndoJournal, "hold_kernel", lambda _: None)
        yield


@pytest.fixture(scope="session")
def open_directory(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory for scratch directories; pytest's own keeps the server's user out.

    In memory where there is plenty: servers of several tests at once would wait for one disk.
    """
    is_on_disk = getattr(request, "param", "") == "disk"
    place = DISK if is_on_disk else _roomy()
    directory = Path(tempfile.mkdtemp(prefix="pgdrag-test-", dir=place))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory)


def _roomy() -> Path:
    is_memory = any(one.mountpoint == str(MEMORY) for one in psutil.disk_partitions(all=True))
    if not is_memory or shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        return DISK
    return MEMORY if psutil.virtual_memory().available > 2 * MEMORY_BYTES else DISK


@pytest.fixture(scope="session")
def kept(testrun_uid: str) -> Iterator[Scratch]:
    """What takes long to make and no test changes, made once for all workers of a run."""
    with _directory_of_all(_roomy() / f"pgdrag-test-{testrun_uid}") as place:
        kept = Scratch.open(place / "kept")
        yield kept
        sweep(kept)


@contextlib.contextmanager
def _directory_of_all(place: Path) -> Iterator[Path]:
    """A directory that several processes use; the last one removes it."""
    lock = place.with_suffix(".lock")
    while True:
        fd = open_lock(lock)
        fcntl.flock(fd, fcntl.LOCK_SH)
        if lock.exists() and os.fstat(fd).st_ino == lock.stat().st_ino:
            break
        os.close(fd)  # another process has just removed it
    try:
        place.mkdir(exist_ok=True)
        place.chmod(0o711)
        yield place
    finally:
        os.close(fd)
        # Those of runs that were killed, too.
        for each in place.parent.glob("pgdrag-test-*.lock"):
            _remove_if_unused(each)


def _remove_if_unused(lock: Path) -> None:
    with contextlib.suppress(OSError), lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
        lock.unlink()


@pytest.fixture(scope="session", autouse=True)
def _initdb_once(kept: Scratch) -> Iterator[None]:
    """Let initdb make a cluster of each version once, and copy that: it takes longer than most tests."""

    def initdb(cluster: Cluster, *, options: Sequence[str] = ()) -> None:
        if options:
            _INITDB(cluster, options=options)
            return
        made = _made_by_initdb(kept, cluster.binaries).directory / "data"
        copy_data_directory(cluster.scratch, made, cluster.data_directory, purpose="make a cluster")
        cluster.configure({})

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(Cluster, "initdb", initdb)
        yield


@pytest.fixture
def real_initdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of initdb itself."""
    monkeypatch.setattr(Cluster, "initdb", _INITDB)


_INITDB = Cluster.initdb


def _made_by_initdb(kept: Scratch, binaries: Binaries) -> Snapshot:
    store, key = SnapshotStore(kept), f"initdb-{binaries.identity}"
    # Other workers wait for the one that makes it.
    with locked(kept.root / f"{key}.lock"):
        if (found := store.get(key)) is not None:
            return found
        with Cluster.create(kept, binaries) as cluster:
            _INITDB(cluster)
            return store.create(key, cluster, {"dataset": "none"})


@pytest.fixture(scope="session")
def opened(kept: Scratch) -> Callable[[Path], Scratch]:
    """Opens a scratch directory; what servers say of their settings is known there."""

    def opened(root: Path) -> Scratch:
        scratch = Scratch.open(root)
        if not scratch.settings.is_symlink():
            scratch.settings.rmdir()
            scratch.settings.symlink_to(kept.settings)
        return scratch

    return opened


@pytest.fixture(scope="session")
def new_scratch(
    open_directory: Path, opened: Callable[[Path], Scratch]
) -> Iterator[Callable[[str], Scratch]]:
    """Gives scratch directories by name, which are swept in the end."""
    named: dict[str, Scratch] = {}

    def new(name: str) -> Scratch:
        if name not in named:
            named[name] = opened(open_directory / name)
        return named[name]

    yield new
    for scratch in named.values():
        sweep(scratch)


@pytest.fixture(scope="session")
def scratch(new_scratch: Callable[[str], Scratch]) -> Scratch:
    """One scratch directory for the whole session."""
    return new_scratch("session")


@pytest.fixture(scope="session")
def binaries(kept: Scratch) -> Binaries:
    """The embedded PostgreSQL, where the server's user can execute it: the checkout may be closed."""
    try:
        found = executable_binaries(find_binaries(None), kept)
    except ServerError as error:
        pytest.skip(f"no embedded PostgreSQL: {error}")
    with locked(kept.root / "settings.lock"):
        load_settings_catalog(found, kept)
    return found


@pytest.fixture(scope="session")
def bench(scratch: Scratch, binaries: Binaries) -> ServerTrialRunner:
    """Where trials are run on the embedded PostgreSQL."""
    return ServerTrialRunner.open(scratch, binaries)


@pytest.fixture(scope="session")
def empty_snapshot(kept: Scratch, binaries: Binaries) -> Snapshot:
    """What a server finds that has run once, for clusters whose tests name no schema."""
    return _initialised(kept, binaries)


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


def _initialised(kept: Scratch, binaries: Binaries) -> Snapshot:
    store = SnapshotStore(kept)
    key = f"empty-{binaries.identity}"
    with locked(kept.root / f"{key}.lock"):
        if (found := store.get(key)) is not None:
            return found
        with Cluster.create(kept, binaries) as cluster:
            cluster.initdb()
            cluster.start()
            with cluster.connect() as connection:
                # What tests make and look at as the superuser, they name without a schema.
                connection.execute(f"ALTER ROLE {cluster.superuser} RESET search_path".encode())
            cluster.stop()
            return store.create(key, cluster, {"dataset": "none"})


@pytest.fixture(scope="module")
def server(scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot) -> Iterator[Cluster]:
    """One running cluster for the tests of a file that asks for it."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.configure({"fsync": "off", "autovacuum": "off"})
        cluster.start()
        yield cluster


@pytest.fixture(scope="module")
def shared_cluster(
    scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot
) -> Iterator[Cluster]:
    """A running cluster that no test stops or configures."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.configure(NO_INTERFERENCE)
        cluster.start()
        yield cluster


@pytest.fixture(scope="session")
def new_cluster(
    scratch: Scratch, kept: Scratch, binaries: Binaries, empty_snapshot: Snapshot
) -> Callable[[str], Cluster]:
    """Makes a new cluster, not started, of a major version that is installed or fetched; skips where neither can be."""

    @cache
    def of(version: str) -> tuple[Binaries, Snapshot] | str:
        if version == str(binaries.major):
            return binaries, empty_snapshot
        try:
            found = executable_binaries(_found_or_fetched(version), kept)
        except ServerError as error:
            return f"no PostgreSQL {version} here: {error} {error.detail or ''}"
        return found, _initialised(kept, found)

    def new(version: str) -> Cluster:
        found = of(version)
        if isinstance(found, str):
            pytest.skip(found)
        its_binaries, snapshot = found
        return snapshot.restore(scratch, its_binaries).cluster

    return new


def _found_or_fetched(version: str) -> Binaries:
    try:
        return find_binaries(version)
    except ServerError:
        return find_binaries(str(fetch(version)))


@pytest.fixture(params=TELLING_VERSIONS)
def any_cluster(
    request: pytest.FixtureRequest, new_cluster: Callable[[str], Cluster]
) -> Iterator[Cluster]:
    """A new cluster of each telling version, not started."""
    with new_cluster(request.param) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=VERSIONS)
def any_shared_cluster(
    request: pytest.FixtureRequest, new_cluster: Callable[[str], Cluster]
) -> Iterator[Cluster]:
    """A running cluster of each version supported that no test stops or configures."""
    with new_cluster(request.param) as cluster:
        cluster.configure(NO_INTERFERENCE)
        cluster.start()
        yield cluster


@pytest.fixture(scope="module", params=TELLING_VERSIONS)
def telling_version(request: pytest.FixtureRequest) -> str:
    """Each telling version; `newest` asks for one alone."""
    return str(request.param)


newest = pytest.mark.parametrize("telling_version", VERSIONS[:1], indirect=True, scope="module")


@pytest.fixture(scope="module")
def running(
    telling_version: str, new_cluster: Callable[[str], Cluster]
) -> Iterator[Callable[..., Cluster]]:
    """Gives a running cluster with some settings, emptied, for tests that neither stop nor configure it.

    All tests of a file that ask for the same settings have the same one.
    """
    with contextlib.ExitStack() as stack:

        @cache
        def started(settings: frozenset[tuple[str, str]]) -> Cluster:
            cluster = stack.enter_context(new_cluster(telling_version))
            cluster.configure({**NO_INTERFERENCE, **dict(settings)})
            cluster.start()
            return cluster

        def with_settings(**settings: str) -> Cluster:
            cluster = started(frozenset(settings.items()))
            _empty(cluster)
            return cluster

        yield with_settings


def _empty(cluster: Cluster) -> None:
    """Remove what tests have left: all that they make is in one schema."""
    with cluster.connect() as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute(f"CREATE SCHEMA public AUTHORIZATION {cluster.load_role}".encode())
        connection.execute("GRANT USAGE ON SCHEMA public TO public")
