"""Which servers, datasets and running clusters are at hand for trials?

What trials share is made once: a dataset's snapshot for each server, and the cluster that one trial
leaves to the next where nobody has written to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from pgdrag.datasets import provide_snapshot
from pgdrag.driver import Driver, find_driver
from pgdrag.errors import ServerError
from pgdrag.events import Listener
from pgdrag.factors import Here, Problem, all_factors
from pgdrag.factors.server import wanted_server
from pgdrag.plan import Level, Study, Treatment
from pgdrag.servers.binaries import Binaries, find_binaries
from pgdrag.servers.catalog import load_settings_catalog
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot
from pgdrag.workloads import Workload, all_workloads


@dataclass
class Provision:
    """Throw-away clusters of one PostgreSQL, or of others that a treatment names."""

    scratch: Scratch
    binaries: Binaries
    driver: Driver
    here: Here
    _snapshots: dict[tuple[str, str], Snapshot] = field(default_factory=dict)
    _kept: tuple[Snapshot, Cluster] | None = None
    _others: dict[str, tuple[Binaries, Here]] = field(default_factory=dict)

    @classmethod
    def open(cls, scratch: Scratch, binaries: Binaries) -> Self:
        """Return a bench on these binaries, with the driver that is installed.

        Raises:
            DriverError: there is no driver.
            ServerError: the binaries do not run.
        """
        return cls(scratch, binaries, Driver(find_driver()), look_here(scratch, binaries))

    def check(self, levels: Sequence[Level]) -> list[Problem]:
        """Return which levels, of one treatment, cannot be had here, and why."""
        _, here = self.server_of(Treatment("", tuple(levels)))
        return [
            problem
            for kind, factor in all_factors().items()
            for problem in factor().check([x for x in levels if x.kind == kind], here)
        ]

    def prepare(self, study: Study, listen: Listener) -> None:
        """Load the dataset for each server that a rung names, or find its snapshot."""
        workload = workload_of(study.workload.kind, study.workload.parameters)
        for binaries in {self.server_of(rung.treatment)[0] for rung in study.rungs}:
            self.snapshot(workload, listen, binaries)

    def close(self) -> None:
        """Remove the cluster that the last trial left, if it did."""
        if self._kept is not None:
            _, cluster = self._kept
            self._kept = None
            cluster.remove()

    def keep(self, snapshot: Snapshot, cluster: Cluster) -> None:
        """Leave a running cluster, whose data nobody has changed, for the next trial."""
        assert self._kept is None, "one cluster at a time"
        self._kept = snapshot, cluster

    def take_kept(self, snapshot: Snapshot) -> Cluster | None:
        """Return the cluster that the last trial left, if it is of this snapshot and lives."""
        if self._kept is None or self._kept[0] is not snapshot or not self._kept[1].is_running():
            self.close()
            return None
        _, cluster = self._kept
        self._kept = None
        return cluster

    def server_of(self, treatment: Treatment) -> tuple[Binaries, Here]:
        """Return the server that a treatment names, where it is there; else the bench's own."""
        wanted = wanted_server(treatment)
        if wanted is None:
            return self.binaries, self.here
        if wanted not in self._others:
            try:
                binaries = find_binaries(wanted)
            except ServerError:  # a problem of that level, and told as such
                return self.binaries, self.here
            self._others[wanted] = binaries, look_here(self.scratch, binaries)
        return self._others[wanted]

    def snapshot(
        self, workload: Workload, listen: Listener, binaries: Binaries | None = None
    ) -> Snapshot:
        """Return the snapshot of a workload's dataset, by default for the bench's own server."""
        binaries = binaries or self.binaries
        key = (repr(workload.dataset()), binaries.identity)
        if key not in self._snapshots:
            self._snapshots[key] = provide_snapshot(
                workload, self.scratch, binaries, self.driver, listen
            )
        return self._snapshots[key]


def look_here(scratch: Scratch, binaries: Binaries) -> Here:
    """Return what the server at hand, and the newest one that pgdrag has, say of their settings."""
    newest = find_binaries(None)
    return Here(
        settings=load_settings_catalog(binaries, scratch),
        newest_settings=load_settings_catalog(newest, scratch),
    )


def workload_of(kind: str, parameters: object) -> Workload:
    """Return a registered workload with its parameters."""
    return all_workloads()[kind].model_validate(parameters)
