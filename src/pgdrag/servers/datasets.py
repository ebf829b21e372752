"""Where does a trial's data come from? Loaded once, kept as a snapshot, restored for each trial."""

from __future__ import annotations

import hashlib
import json
import os
import time

from pgdrag.driver.contract import Line, ProgressLine
from pgdrag.driver.process import Driver, Target
from pgdrag.english import as_sentence
from pgdrag.errors import DriverError, ServerLost
from pgdrag.model.events import Listener, PhaseStarted, Progress
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch, full_disk
from pgdrag.servers.server_log import is_full_disk
from pgdrag.servers.snapshot import Snapshot, SnapshotStore
from pgdrag.workloads import Loading, Workload

# All runs load the same rows, whatever their own seed, so that a snapshot serves them all.
DATASET_SEED = 1
# A load may be slow on a poor disk; it must end all the same.
LOAD_TIMEOUT_S = 4 * 3600.0
# Once for the snapshot, once for the cluster of a trial, and as much again for its WAL.
ROOM_FACTOR = 3
# Of loading, where nothing was loaded here yet: bytes/s, and seconds for the cluster itself.
_ASSUMED_RATE, _CLUSTER_S = 40e6, 3.0
# Nothing here is measured: load as fast as the disk allows. A crash while loading loses nothing,
# since a half-made dataset is thrown away.
LOAD_SETTINGS = {
    "shared_buffers": "1GB",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
}


def dataset_key(workload: Workload, binaries: Binaries) -> str:
    """Return what names the snapshot of this workload's dataset for these binaries."""
    parts = {
        "dataset": dict(workload.dataset()),
        "seed": DATASET_SEED,
        "source": binaries.source,
        "version": binaries.version,
        "owner": role_for(workload),
        # Raised when a new cluster has other roles, or gives them other rights.
        "roles": 2,
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    return f"{workload.name}-{digest}"


def provide_snapshot(
    workload: Workload, scratch: Scratch, binaries: Binaries, driver: Driver, listen: Listener
) -> Snapshot:
    """Return the snapshot of the workload's dataset; load it when there is none.

    Raises:
        StorageError: there is not enough room for it.
        DriverError: it could not be loaded.
    """
    store = SnapshotStore(scratch)
    key = dataset_key(workload, binaries)
    snapshot = store.get(key)
    if snapshot is not None:
        return snapshot
    require_room(workload, scratch)
    began_s = time.monotonic()
    with Cluster.create(scratch, binaries) as cluster:
        listen(PhaseStarted("initialize a cluster"))
        cluster.initdb()
        cluster.configure(LOAD_SETTINGS)
        let_in(workload, cluster)
        cluster.start()
        warnings = _load(workload, cluster, driver, listen)
        listen(PhaseStarted("write the snapshot"))
        cluster.stop(fast_timeout_s=600)
        load_s = round(time.monotonic() - began_s, 3)
        return store.create(key, cluster, describe=dict(workload.dataset()), load_s=load_s, warnings=warnings)  # fmt: skip


def role_for(workload: Workload) -> str:
    """Return who connects for a workload: a superuser only where it says that it needs one."""
    return Cluster.load_superuser if workload.needs_superuser else Cluster.load_role


def let_in(workload: Workload, cluster: Cluster) -> None:
    """Open the way by which a workload reaches a cluster, before this is started.

    Raises:
        ServerError: it needs TCP, and no port can be opened.
    """
    if workload.needs_tcp:
        cluster.open_tcp(role_for(workload))


def target_for(workload: Workload, cluster: Cluster) -> Target:
    """Return a workload's way to a running cluster: by TCP and as a superuser only where it says that it needs that."""
    target = cluster.superuser_target if workload.needs_superuser else cluster.target
    return cluster.over_tcp(target) if workload.needs_tcp else target


def is_loaded(workload: Workload, scratch: Scratch, binaries: Binaries) -> bool:
    """Tell whether there is a snapshot of the workload's dataset."""
    return SnapshotStore(scratch).get(dataset_key(workload, binaries)) is not None


def loading_s(workload: Workload, scratch: Scratch) -> float:
    """Return how long it takes to load a workload's dataset, in seconds: at the rate of those loaded before.

    At that of the same kind of workload, if there is one.
    """
    known = [one for one in SnapshotStore(scratch).list() if one.load_s]
    same = [one for one in known if one.key.rpartition("-")[0] == workload.name] or known
    rates = [one.bytes / one.load_s for one in same if one.load_s]
    rate = sum(rates) / len(rates) if rates else _ASSUMED_RATE
    return _CLUSTER_S + workload.dataset_bytes() / rate


def require_room(workload: Workload, scratch: Scratch) -> None:
    """Refuse to load a dataset for which there is no room.

    Raises:
        StorageError: with how much it needs.
    """
    needed = ROOM_FACTOR * workload.dataset_bytes()
    scratch.require_free(needed, f"load the dataset of {workload.name}")


def populate(
    workload: Workload, target: Target, driver: Driver, listen: Listener
) -> tuple[str, ...]:
    """Fill an empty database with a workload's dataset.

    Returns:
        What trials with it have to warn of, in clauses.

    Raises:
        DriverError: that could not be done.
    """
    phase, warnings = "", list[str]()

    def note(line: Line) -> None:
        nonlocal phase
        if isinstance(line, ProgressLine):
            if line.phase != phase:
                phase = line.phase
                listen(PhaseStarted(f"load {workload.name}: {phase.replace('_', ' ')}"))
            unit = "rows" if phase == "populate" else "steps"
            listen(Progress(line.done, line.total, unit))

    def warn(clause: str) -> None:
        warnings.append(clause)
        listen(PhaseStarted(f"load {workload.name}", explanation=as_sentence(clause)))

    parallelism = min(8, os.cpu_count() or 1)
    workload.populate(
        Loading(driver, target, DATASET_SEED, parallelism, LOAD_TIMEOUT_S, note, warn)
    )
    return tuple(warnings)


def _load(
    workload: Workload, cluster: Cluster, driver: Driver, listen: Listener
) -> tuple[str, ...]:
    try:
        return populate(workload, target_for(workload, cluster), driver, listen)
    except DriverError as error:
        # Not by the SQLSTATE: 53100 also stands for shared memory that is used up.
        if is_full_disk(f"{error.message}\n{cluster.log_tail()}"):
            raise full_disk(
                f"load the dataset of {workload.name}",
                cluster.directory,
                wanted_bytes=ROOM_FACTOR * workload.dataset_bytes(),
            ) from error
        if not cluster.is_running():
            raise ServerLost(
                "the server went away while the dataset was loaded", detail=cluster.log_tail()
            ) from error
        raise
