"""What must every collector do, whatever it observes? A suite for pytest.

Subclass it in a test module; it asks for two fixtures::

    class TestEveryCollector(CollectorConformance):
        @pytest.fixture(params=list(all_collectors().values()), ids=list(all_collectors()))
        def collector_class(self, request): ...          # type[Collector]
        @pytest.fixture
        def cluster(self): ...                           # Cluster, running, nobody else's

and `monkeypatch`, which is pytest's own. Nothing here needs pytest to be installed.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

from pgdrag.collectors import Collector, Observer, Unseen, Window, all_collectors
from pgdrag.collectors import _proc as proc
from pgdrag.collectors.counters import CounterCollector
from pgdrag.host.clock import CLOCK
from pgdrag.model import Observation, Unit
from pgdrag.model.recordings import Recordings

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

# A name says its unit last; "count" is of whatever the name ends with.
SUFFIXES = {
    "1/s": "_per_s",
    "bytes/s": "_bytes_per_s",
    "1/transaction": "_per_transaction",
    "bytes/transaction": "_bytes_per_transaction",
    "s/transaction": "_s_per_transaction",
    "bytes": "_bytes",
}


class CollectorConformance:
    """Claims about one collector class, on a server that is idle, busy, mute, restarted or gone."""

    name_pattern: ClassVar[str] = r"[a-z][a-z0-9_]*"

    def test_it_says_what_it_is(self, collector_class: type[Collector]) -> None:
        assert re.fullmatch(self.name_pattern, collector_class.name)
        assert collector_class.summary
        assert "\n" not in collector_class.summary

    def test_observations_without_a_reading_are_all_missing(
        self, collector_class: type[Collector]
    ) -> None:
        """A window without readings has reasons only, under the names of every other window."""
        observations = collector_class().observations(window(committed=1))
        assert observations
        assert all(observation.missing for observation in observations)
        check_form(observations)

    def test_no_other_collector_has_its_names(self, collector_class: type[Collector]) -> None:
        own = names(collector_class().observations(window(committed=1)))
        assert len(own) == len(set(own))
        for other in all_collectors().values():
            if other is not collector_class:
                assert not set(own) & set(names(other().observations(window(committed=1))))

    def test_an_idle_server_is_observed(
        self, collector_class: type[Collector], cluster: Cluster
    ) -> None:
        """Nothing happens: values in the usual order, unless more is needed than a server."""
        with cluster.connect() as connection:
            collector = collector_class()
            seen = observe(collector, Observer(cluster, connection), committed=1)
        assert names(seen) == names(collector_class().observations(window(committed=1)))
        assert collector_class.needs or any(one.value is not None for one in seen)

    def test_a_busy_server_is_observed(
        self, collector_class: type[Collector], cluster: Cluster
    ) -> None:
        """Tables come, grow and go while the collector looks."""
        with cluster.connect() as connection, cluster.connect(role=cluster.load_role) as client:
            client.execute("CREATE TABLE doomed AS SELECT 1 AS a")
            collector, observer = collector_class(), Observer(cluster, connection)
            collector.before(observer)
            client.execute("CREATE TABLE IF NOT EXISTS busy (a int PRIMARY KEY)")
            client.execute(
                "INSERT INTO busy SELECT generate_series(1, 1000) ON CONFLICT DO NOTHING"
            )
            client.execute("DROP TABLE doomed")
            client.close()
            collector.after(observer)
            collector.afterwards(observer)
            seen = collector.observations(window(committed=1))
        check_form(seen)
        assert collector_class.needs or any(one.value is not None for one in seen)

    def test_nothing_committed_leaves_no_value_per_transaction(
        self, collector_class: type[Collector], cluster: Cluster
    ) -> None:
        with cluster.connect() as connection:
            seen = observe(collector_class(), Observer(cluster, connection), committed=0)
        for observation in seen:
            if observation.unit.endswith("/transaction"):
                assert observation.value is None
                is_significant = observation.missing == "nothing committed in the window"
                assert is_significant or collector_class.needs

    def test_observations_need_no_server(
        self, collector_class: type[Collector], cluster: Cluster
    ) -> None:
        """They are a function of the readings: the connection is closed by then."""
        collector = collector_class()
        with cluster.connect() as connection:
            collector.before(Observer(cluster, connection))
            collector.after(Observer(cluster, connection))
            collector.afterwards(Observer(cluster, connection))
        once = collector.observations(window(committed=7))
        assert list(once) == list(collector.observations(window(committed=7)))

    def test_a_sampled_window_gives_series_with_a_point_a_reading(
        self, collector_class: type[Collector], cluster: Cluster
    ) -> None:
        """A collector that draws anything draws differences of neighbouring readings."""
        with cluster.connect() as connection:
            collector, observer = collector_class(), Observer(cluster, connection)
            begin = CLOCK.unix_s()
            collector.before(observer)
            for _ in range(3):
                collector.sample(observer)
            collector.after(observer)
            recordings = collector.recordings(Window(1.0, 1, begin, CLOCK.unix_s()))
        drawn = collector.drawn if isinstance(collector, CounterCollector) else ()
        by_name = {series.name: series for series in recordings.series}
        for one in drawn:
            assert len(by_name[one.name].values) == 2, one.name
        for series in recordings.series:
            assert series.label, series.name
            assert min(series.values, default=0) >= 0, series.name

    def test_nobody_looked_at_all_leaves_no_recording(
        self, collector_class: type[Collector]
    ) -> None:
        recordings = collector_class().recordings(window(committed=1))
        assert recordings == Recordings(missing=recordings.missing)

    def test_a_lost_connection_gives_reasons(
        self, collector_class: type[Collector], cluster: Cluster
    ) -> None:
        with cluster.connect() as connection, cluster.connect() as killer:
            collector, observer = collector_class(), Observer(cluster, connection)
            collector.before(observer)
            pid = connection.info.backend_pid
            killer.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            collector.after(observer)
            collector.afterwards(observer)
            check_form(collector.observations(window(committed=1)))

    def test_a_server_gone_before_the_window_gives_reasons(
        self, collector_class: type[Collector], cluster: Cluster
    ) -> None:
        """Neither a session, nor a process, nor a log."""
        with cluster.connect() as connection:
            observer = Observer(cast("Cluster", _Gone()), connection)
            connection.close()
            seen = observe(collector_class(), observer, committed=1)
        assert all(observation.missing for observation in seen)

    def test_a_role_that_may_not_look_at_others_gives_values_or_reasons(
        self, collector_class: type[Collector], cluster: Cluster
    ) -> None:
        with stranger(cluster) as observer, cluster.connect():
            observe(collector_class(), observer, committed=1)

    def test_a_log_that_is_missing_gives_values_or_reasons(
        self, collector_class: type[Collector], cluster: Cluster
    ) -> None:
        with cluster.connect() as connection:
            observer = Observer(cast("Cluster", _Without(cluster, log_files=list)), connection)
            observe(collector_class(), observer, committed=1)

    def test_processes_that_may_not_be_read_give_values_or_reasons(
        self, collector_class: type[Collector], cluster: Cluster, monkeypatch: Any
    ) -> None:

        def refuse(pid: int, name: str) -> str:
            raise Unseen(f"this user may not read {name} of process {pid}")

        monkeypatch.setattr(proc, "read_text", refuse)
        with cluster.connect() as connection:
            observe(collector_class(), Observer(cluster, connection), committed=1)


@contextmanager
def stranger(cluster: Cluster) -> Iterator[Observer]:
    """Observe a cluster as a role that may only connect."""
    import psycopg

    with cluster.connect() as superuser:
        superuser.execute(
            "DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN END $$"
        )
    target = replace(cluster.target, user="stranger")
    with psycopg.connect(cluster.conninfo(), user="stranger", autocommit=True) as connection:
        yield Observer(cast("Cluster", _Without(cluster, target=target)), connection)


def window(*, committed: int) -> Window:
    """A window of ten seconds that ends now."""
    now = CLOCK.unix_s()
    return Window(10.0, committed, now - 10.0, now)


def observe(collector: Collector, observer: Observer, *, committed: int) -> Sequence[Observation]:
    """Both readings at once, and observations of the right form."""
    collector.before(observer)
    collector.after(observer)
    collector.afterwards(observer)
    observations = collector.observations(window(committed=committed))
    check_form(observations)
    return observations


def names(observations: Sequence[Observation]) -> list[str]:
    """Their names, in order."""
    return [observation.name for observation in observations]


def check_form(observations: Sequence[Observation]) -> None:
    """Assert what holds for every observation, seen or not."""
    for observation in observations:
        name = observation.name
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name), name
        assert observation.label, name
        assert observation.unit in get_args(Unit), name
        assert name.endswith(SUFFIXES.get(observation.unit, "")), name
        assert not observation.missing.endswith("."), name
        assert not observation.detail or observation.detail.endswith("."), name
        if observation.value is not None:
            assert observation.value >= 0, name
            assert observation.unit != "ratio" or observation.value <= 1, name


class _Without:
    """A cluster with one attribute replaced."""

    def __init__(self, cluster: Cluster, **replaced: object) -> None:
        self._cluster = cluster
        self._replaced = replaced

    def __getattr__(self, name: str) -> object:
        replaced = self._replaced
        return replaced[name] if name in replaced else getattr(self._cluster, name)


class _Gone:
    """A cluster that does not run and has no log."""

    is_throw_away = True
    postmaster_pid = None
    log_directory = Path(tempfile.gettempdir()) / "pgdrag-no-such-log"

    def log_files(self) -> list[Path]:
        return []

    def log_bytes(self) -> int:
        return 0
