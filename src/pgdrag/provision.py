"""Which servers, datasets and running clusters are at hand for trials?

What trials share is made once: a dataset's snapshot for each server, and the cluster that one trial
leaves to the next if it was not written to. So is the scratch device of treatments that have one
in common; one that a trial spoilt is made anew for the next.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Self

from pgdrag.driver.process import Driver, find_driver
from pgdrag.driver.progress import TrialLog
from pgdrag.errors import DatasetDamaged, PgdragError, ScratchDeviceError, ServerError, StorageError
from pgdrag.factors import Here, Phase, Problem, all_factors, is_of, levels_of
from pgdrag.factors.programs import lacking_consent, programs_of, refuse_without_consent
from pgdrag.factors.treated_workload import workload_of
from pgdrag.host.machine import this_host
from pgdrag.host.undo import UndoJournal
from pgdrag.model import Host, Level, RestoreCost, Study, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import Listener, PhaseStarted
from pgdrag.servers.binaries import Binaries, executable_binaries, find_binaries
from pgdrag.servers.catalog import load_settings_catalog
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.datasets import is_loaded, let_in, loading_s, provide_snapshot, require_room
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot, SnapshotStore
from pgdrag.servers.storage import ScratchDevice, Storage
from pgdrag.servers.storage_spec import StorageSpec
from pgdrag.workloads import Workload


@dataclass(frozen=True)
class Provided:
    """A cluster with the dataset as it was loaded, for one trial.

    Attributes:
        storage: what the cluster lies on.
        restored: what restoring the dataset cost; None: the trial before left the cluster.
        is_cold: none of the dataset is in the page cache.
    """

    cluster: Cluster
    snapshot: Snapshot
    storage: Storage
    restored: RestoreCost | None
    is_cold: bool


@dataclass
class Provision:
    """Throw-away clusters of one PostgreSQL, or of others that a treatment names."""

    scratch: Scratch
    binaries: Binaries
    driver: Driver
    here: Here
    _snapshots: dict[tuple[Scratch, str, str], Snapshot] = field(default_factory=dict)
    _devices: dict[StorageSpec, ScratchDevice] = field(default_factory=dict)
    _kept: tuple[Snapshot, Cluster] | None = None
    _others: dict[str, tuple[Binaries, Here]] = field(default_factory=dict)
    _is_cold: bool = False
    _discarded: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, scratch: Scratch, binaries: Binaries, *, allowed: Collection[str] = ()) -> Self:
        """Return a bench on these binaries, with the driver that is installed.

        Args:
            allowed: what of this machine may be changed: see `Here`.

        Raises:
            DriverError: there is no driver.
            ServerError: the binaries do not run.
        """
        here = look_here(scratch, binaries, allowed=allowed)
        return cls(scratch, binaries, Driver(find_driver()), here)

    def allow(self, names: Iterable[str]) -> None:
        """Let trials also do this: see `Here.allowed`."""
        self.here = replace(self.here, allowed=self.here.allowed.union(names))
        self._others.clear()

    def check(self, levels: Sequence[Level], workload: WorkloadSpec | None = None) -> list[Problem]:
        """Return which levels of one treatment cannot be applied here, and why.

        Args:
            workload: what its levels are parameters of; without one, those are not checked.
        """
        treatment = Treatment("", tuple(levels))
        _, here = self.server_of(treatment)
        return problems_of(levels, replace(here, workload=workload))

    def prepare(self, study: Study, listen: Listener) -> None:
        """Make the storage that rungs name, and load the dataset for each server, or find its snapshot.

        Raises:
            UsageError: levels of this study change the operating system, as another pgdrag does now.
        """
        if changes_host(study):
            UndoJournal.open()
        self._is_cold = _treats_host(study.levels)
        if any(storage_of(rung.treatment, self.here) for rung in study.rungs):
            listen(PhaseStarted("make the scratch devices"))
        for rung in study.rungs:
            # A device that cannot be had as it was asked for spoils its own trials, which tell so.
            with suppress(ScratchDeviceError), self.storage(rung.treatment):
                pass
        for rung in study.rungs:
            self._snapshot_of(rung.treatment, study, listen)
        for rung in study.rungs:
            with suppress(ScratchDeviceError), self.storage(rung.treatment) as storage:
                self._snapshot_of(rung.treatment, study, listen, storage.scratch)

    def loading_s(self, study: Study) -> float:
        """Return how long it takes to load the datasets that are not there yet, in seconds.

        Raises:
            StorageError: there is no room for one of them.
        """
        wanted = {}
        for rung in study.rungs:
            workload = workload_of(study.workload, rung.treatment)
            binaries, _ = self.server_of(rung.treatment)
            wanted[repr(workload.dataset()), binaries.identity] = workload, binaries
        missing = [x for x, of in wanted.values() if not is_loaded(x, self.scratch, of)]
        for workload in missing:
            require_room(workload, self.scratch)
        return sum(loading_s(workload, self.scratch) for workload in missing)

    def _snapshot_of(
        self, treatment: Treatment, study: Study, listen: Listener, scratch: Scratch | None = None
    ) -> None:
        workload = workload_of(study.workload, treatment)
        binaries, _ = self.server_of(treatment)
        self.snapshot(workload, listen, binaries, scratch)

    @contextmanager
    def cluster(self, trial: Trial, log: TrialLog) -> Iterator[Provided]:
        """Provide a trial's cluster: restored, unless the one that the last trial left is as good.

        It is removed at the end, unless it is left to the next trial: see `keep`.
        """
        binaries, _ = self.server_of(trial.treatment)
        workload = workload_of(trial.workload, trial.treatment)
        # All arms of a study with a factor of the host start with none of their data in the page cache.
        is_cold = self._is_cold or _treats_host(trial.treatment.levels)
        with self.storage(trial.treatment) as storage:
            log.warnings.extend(storage.notes)
            snapshot = self.snapshot(workload, log.listen, binaries, storage.scratch)
            if is_cold:
                self.remove_kept()
            cluster, cost = self._take_kept(snapshot), None
            if cluster is None:
                with log.phase("restore"):
                    # Copied for the server's user, where they must be, to where they are found again.
                    executable = executable_binaries(binaries, self.scratch)
                    restored = snapshot.restore(storage.scratch, executable)
                cluster, cost = restored.cluster, restored.cost
            try:
                if cost is not None:  # one that was left has its way in
                    let_in(workload, cluster)
                if is_cold:
                    with log.phase("empty page cache"):
                        cluster.drop_pages()
                yield Provided(cluster, snapshot, storage, cost, is_cold)
            finally:
                if self._kept is None:
                    with log.phase("remove"):
                        _remove(cluster, log)

    def close(self) -> None:
        """Remove the cluster that the last trial left, if any, and the scratch devices, one by one."""
        with ExitStack() as stack:
            for spec in list(self._devices):
                stack.callback(self._remove_device, spec)
            stack.callback(self.remove_kept)

    @contextmanager
    def storage(self, treatment: Treatment) -> Iterator[Storage]:
        """Provide what a treatment's clusters lie on; a device that turns out spoilt is removed at the end.

        Raises:
            ScratchDeviceError: the treatment's own device cannot be made, or was spoilt within the block.
            StorageError: the disk is full.
            UsageError: a real device must not be used.
        """
        spec = storage_of(treatment, self.here)
        if spec is None:
            yield Storage(self.scratch)
            return
        device = self._devices.get(spec)
        if device is None:
            device = ScratchDevice.make(
                spec, self.scratch, UndoJournal.open(), allowed=self.here.allowed
            )
            self._devices[spec] = device
        try:
            options = [
                option
                for name, kind in all_factors().items()
                for option in kind.mount_options(treatment.of_kind(name))
            ]
            if not device.is_mounted_with(options):
                self.remove_kept()
                device.mount_with(options)
            yield device
        except Exception as error:
            spoilt = device.spoilt(error)
            if spoilt is None:
                raise
            self._remove_device(spec)
            raise spoilt from error

    def host(self, study: Study) -> Host:
        """Return the machine, with the file systems that the clusters of a study lie on."""
        here = this_host(self.scratch.root)
        specs = (storage_of(rung.treatment, self.here) for rung in study.rungs)
        places = dict.fromkeys(here.file_system if x is None else x.place for x in specs)
        return replace(here, file_system=", ".join(places))

    def remove_kept(self) -> None:
        """Remove the cluster that the last trial left, if it did."""
        if self._kept is not None:
            _, cluster = self._kept
            self._kept = None
            cluster.remove()

    def _remove_device(self, spec: StorageSpec) -> None:
        device = self._devices.pop(spec)
        self._snapshots = {x: y for x, y in self._snapshots.items() if x[0] != device.scratch}
        device.remove()

    def keep(self, provided: Provided) -> None:
        """Keep a running cluster with unchanged data for the next trial, unless that starts cold."""
        assert self._kept is None, "one cluster at a time"
        if not provided.is_cold:
            self._kept = provided.snapshot, provided.cluster

    def _take_kept(self, snapshot: Snapshot) -> Cluster | None:
        """Return the cluster that the last trial left, if it is of this snapshot and running."""
        if self._kept is None or self._kept[0] is not snapshot or not self._kept[1].is_running():
            self.remove_kept()
            return None
        _, cluster = self._kept
        self._kept = None
        return cluster

    def server_of(self, treatment: Treatment) -> tuple[Binaries, Here]:
        """Return the server that a treatment names, where it is there; else the bench's own."""
        wanted = next(iter(levels_of(Phase.SERVER, treatment.levels).values()), None)
        if wanted is None:
            return self.binaries, self.here
        if wanted not in self._others:
            own = [level for level in treatment.levels if is_of(Phase.SERVER, level.kind)]
            if lacking_consent(programs_of(None, own), self.here.allowed):
                return self.binaries, self.here  # a problem of that level, too
            try:
                binaries = find_binaries(wanted)
            except ServerError:  # a problem of that level, and told as such
                return self.binaries, self.here
            here = look_here(self.scratch, binaries, allowed=self.here.allowed)
            self._others[wanted] = binaries, here
        return self._others[wanted]

    def snapshot(
        self,
        workload: Workload,
        listen: Listener,
        binaries: Binaries | None = None,
        scratch: Scratch | None = None,
    ) -> Snapshot:
        """Return the snapshot of a workload's dataset, by default for the bench's own server.

        One on a device is a copy of that in the bench's own scratch directory, which outlives the run.

        Raises:
            UsageError: the workload runs programs that were not allowed; every trial is checked here.
        """
        refuse_without_consent(workload.programs(), self.here.allowed)
        binaries, scratch = binaries or self.binaries, scratch or self.scratch
        key = (scratch, repr(workload.dataset()), binaries.identity)
        if key not in self._snapshots:
            self._snapshots[key] = (
                provide_snapshot(workload, scratch, binaries, self.driver, listen)
                if scratch == self.scratch
                else self._copied(workload, scratch, binaries, listen)
            )
        return self._snapshots[key]

    def _copied(
        self, workload: Workload, scratch: Scratch, binaries: Binaries, listen: Listener
    ) -> Snapshot:
        snapshot = self.snapshot(workload, listen, binaries)
        listen(PhaseStarted("copy the dataset to the scratch device"))
        try:
            return SnapshotStore(scratch).adopt(snapshot)
        except DatasetDamaged:
            if snapshot.key in self._discarded:
                raise
            self.discard(snapshot.key)
            return SnapshotStore(scratch).adopt(self.snapshot(workload, listen, binaries))

    @property
    def discarded(self) -> frozenset[str]:
        """The keys of snapshots that turned out damaged."""
        return frozenset(self._discarded)

    def discard(self, key: str) -> None:
        """Delete a damaged snapshot and all copies of it, so that it is recreated; once per key.

        Damage that occurs again is not an accident of the disk.
        """
        if key in self._discarded:
            return
        if self._kept is not None and self._kept[0].key == key:
            self.remove_kept()
        for at, snapshot in list(self._snapshots.items()):
            if snapshot.key == key:
                try:
                    SnapshotStore(at[0]).remove(key)
                except StorageError:  # another process restores it, and will find out, too
                    return
                del self._snapshots[at]
        self._discarded.add(key)


def _remove(cluster: Cluster, log: TrialLog) -> None:
    try:
        cluster.remove()
    except PgdragError as error:
        # What was measured stands; the next start sweeps what is left, or it goes with its device.
        cluster.abandon()
        log.warnings.append(f"the cluster was not removed: {error.message}")


def problems_of(levels: Sequence[Level], here: Here) -> list[Problem]:
    """Return which levels cannot be applied here, and why.

    A storage that cannot be had leaves the data on somebody's disk, where others need consent.
    """
    kinds = all_factors()
    of_kind = {kind: [level for level in levels if level.kind == kind] for kind in kinds}
    storage = [level for level in levels if is_of(Phase.STORAGE, level.kind)]
    settings = {name.lower(): x for name, x in levels_of(Phase.SETTINGS, levels).items()}
    here = replace(
        here, storage={level.name: level.value for level in storage}, settings_asked=settings
    )
    problems: list[Problem] = []
    # By phase: a storage that cannot be had leaves the others without it.
    for phase in Phase:
        for kind in kinds.values():
            if kind.phase is phase:
                problems += kind().check(of_kind[kind.name], here)
        if phase is Phase.STORAGE and problems and os.geteuid() == 0:
            here = replace(here, storage={})
    return problems


def storage_of(treatment: Treatment, here: Here) -> StorageSpec | None:
    """Return the device that a treatment asks for; None: it asks for none, or cannot have it here."""
    levels = [x for x in treatment.levels if is_of(Phase.STORAGE, x.kind)]
    return None if problems_of(levels, here) else StorageSpec.of(levels_of(Phase.STORAGE, levels))


def changes_host(study: Study) -> bool:
    """Tell whether levels of a study, had they their way, change the operating system."""
    return os.geteuid() == 0 and _treats_host(study.levels)


def _treats_host(levels: Sequence[Level]) -> bool:
    kinds = all_factors()
    return any(kinds[level.kind].changes_host for level in levels)


def look_here(scratch: Scratch, binaries: Binaries, *, allowed: Collection[str] = ()) -> Here:
    """Return what is known of the place: the settings of its server and of the newest one."""
    newest = find_binaries(None)
    settings = load_settings_catalog(binaries, scratch)
    return Here(
        settings=settings,
        newest_settings=settings if newest == binaries else load_settings_catalog(newest, scratch),
        scratch_root=scratch.root,
        allowed=frozenset(allowed),
    )
