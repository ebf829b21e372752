"""Let a collector look at a real server while a test does something to it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pgdrag.collectors import Collector, Observer, Window
from pgdrag.model import Observation
from pgdrag.model.recordings import Event, Series
from pgdrag.servers.cluster import Cluster

NO_INTERFERENCE = {"autovacuum": "off", "max_wal_size": "1GB"}
EAGER = {
    "autovacuum": "on",
    "autovacuum_naptime": "1",
    "autovacuum_vacuum_threshold": "0",
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_analyze_threshold": "0",
    "autovacuum_analyze_scale_factor": "0",
}
ROWS = 20_000  # of some 110 bytes: 2.5 MB


@dataclass
class Watch:
    """What became of a watched block: `committed` is set in it, the rest is there after it."""

    committed: int = 1
    seen: dict[str, Observation] | None = None
    events: tuple[Event, ...] = ()
    series: tuple[Series, ...] = ()
    length_s: float = 0.0

    def __getitem__(self, name: str) -> float:
        assert self.seen is not None
        observation = self.seen[name]
        assert observation.value is not None, observation.missing
        return observation.value

    def missing(self, name: str) -> str:
        assert self.seen is not None
        return self.seen[name].missing

    def detail(self, name: str) -> str:
        assert self.seen is not None
        return self.seen[name].detail


@contextmanager
def watching(collector: Collector, cluster: Cluster) -> Iterator[Watch]:
    with watching_all([collector], cluster) as [watch]:
        yield watch


@contextmanager
def watching_all(collectors: Sequence[Collector], cluster: Cluster) -> Iterator[list[Watch]]:
    """As a trial does: all look at the same window, through one observer."""
    watches = [Watch() for _ in collectors]
    with cluster.connect() as connection:
        observer = Observer(cluster, connection)
        for collector in collectors:
            collector.before(observer)
        started, started_unix_s = time.monotonic(), time.time()
        yield watches
        elapsed_s, ended_unix_s = time.monotonic() - started, time.time()
        for collector in collectors:
            collector.after(observer)
        for collector in collectors:
            collector.afterwards(observer)
    for watch, collector in zip(watches, collectors, strict=True):
        window = Window(elapsed_s, watch.committed, started_unix_s, ended_unix_s)
        watch.length_s = window.length_s
        recordings = collector.recordings(window)
        watch.events, watch.series = recordings.events, recordings.series
        watch.seen = {each.name: each for each in collector.observations(window)}


def start(cluster: Cluster, **settings: str) -> None:
    cluster.configure({**NO_INTERFERENCE, **settings})
    cluster.start()


def make_table(cluster: Cluster) -> None:
    with cluster.connect() as client:
        client.execute("CREATE TABLE rows (id int PRIMARY KEY, filler char(80))")
        client.execute(f"ALTER TABLE rows OWNER TO {cluster.load_role}".encode())
        client.execute("INSERT INTO rows SELECT n, '' FROM generate_series(1, %s) n", (ROWS,))
        client.execute("VACUUM ANALYZE rows")
        client.execute("CHECKPOINT")


def asked(cluster: Cluster, query: str) -> Any:
    """Return the one value that a query has."""
    with cluster.connect() as connection:
        ((found,),) = connection.execute(query.encode()).fetchall()
    return found


def run_in_session(cluster: Cluster, *statements: str, role: str = Cluster.superuser) -> None:
    """As the driver does: a session that begins and ends within the window."""
    with cluster.connect(role=role) as client:
        for statement in statements:
            client.execute(statement.encode())


def run_as_load(cluster: Cluster, *statements: str) -> None:
    """The same as the role of workloads, so that what it makes is the workload's."""
    run_in_session(cluster, *statements, role=cluster.load_role)
