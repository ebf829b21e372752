"""What is left when a program is killed in the middle: of a load, and of a server under load?"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pgdrag.driver.contract import HelloLine, IntervalLine, Line, ProgressLine
from pgdrag.driver.process import Driver, find_driver
from pgdrag.errors import DriverError
from pgdrag.host.process_alive import wait_until
from pgdrag.model.load import LoadProfile
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.processes import send_signal
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot
from pgdrag.workloads.tpcc import Tpcc

pytestmark = pytest.mark.postgres

TPCC = Tpcc(warehouses=1)
TIMEOUT_S = 120.0
PROFILE = LoadProfile(connections=4, warm_up_s=0, measure_s=60, budget_s=60, min_commits=0)


@pytest.fixture(scope="module")
def driver() -> Driver:
    return Driver(find_driver())


@pytest.fixture(scope="module")
def loaded(
    driver: Driver, scratch: Scratch, binaries: Binaries, empty_snapshot: Snapshot
) -> Iterator[Cluster]:
    """A running cluster with a dataset, whose load took longer than a statement may there."""
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:
        cluster.start()
        with cluster.connect() as connection:
            connection.execute(
                f"ALTER ROLE {cluster.load_role} SET statement_timeout = '40ms'".encode()
            )
        load(driver, cluster)
        yield cluster


def load(driver: Driver, cluster: Cluster, listen: Callable[[Line], None] = lambda _: None) -> None:
    driver.load(
        cluster.target, TPCC.job(), seed=1, parallelism=2, timeout_s=TIMEOUT_S, listen=listen
    )


def check(driver: Driver, cluster: Cluster) -> tuple[str, ...]:
    return driver.check(cluster.target, TPCC.job(), timeout_s=TIMEOUT_S)


def kill_at(phase: str) -> Callable[[Line], None]:
    """A listener that kills the driver with SIGKILL when a load is in the middle of `phase`."""
    pid = 0

    def listen(line: Line) -> None:
        nonlocal pid
        if isinstance(line, HelloLine):
            pid = line.pid
        if isinstance(line, ProgressLine) and line.phase == phase and line.done < line.total:
            os.kill(pid, signal.SIGKILL)

    return listen


def test_a_load_that_was_killed_is_noticed_and_can_be_repeated(
    driver: Driver, running_cluster: Cluster
) -> None:
    for phase in ("populate", "index"):
        with pytest.raises(DriverError):
            load(driver, running_cluster, kill_at(phase))
        for attempt in (
            lambda: check(driver, running_cluster),
            lambda: driver.run(running_cluster.target, TPCC.job(), PROFILE, seed=1),
        ):
            with pytest.raises(DriverError, match="dataset is not whole: its load was stopped"):
                attempt()
    load(driver, running_cluster)
    assert check(driver, running_cluster) == ()


def test_a_load_that_loses_one_session_fails_at_once_and_ends_the_others(
    driver: Driver, running_cluster: Cluster
) -> None:
    with running_cluster.connect() as connection:
        copying = (
            "FROM pg_stat_activity WHERE application_name = 'pgdrag' AND state = 'active' "
            "AND query LIKE 'COPY %'"
        )

        def end_one() -> bool:
            found = connection.execute(f"SELECT pg_terminate_backend(pid) {copying} LIMIT 1")
            return found.rowcount == 1

        with ThreadPoolExecutor() as pool:
            is_ended = pool.submit(wait_until, end_one, timeout_s=20)
            with pytest.raises(DriverError, match="terminating connection"):
                load(driver, running_cluster)
            assert is_ended.result()
        assert wait_until(
            lambda: not connection.execute(f"SELECT pid {copying}").rowcount, timeout_s=20
        )


def test_a_server_killed_under_load_recovers_to_a_consistent_dataset(
    driver: Driver, loaded: Cluster
) -> None:
    orders_before = orders(loaded)
    killed = threading.Event()

    def listen(line: Line) -> None:
        if isinstance(line, IntervalLine) and line.committed and not killed.is_set():
            for process in loaded.server_pids():
                send_signal(process.pid, signal.SIGKILL)  # it may have ended with its siblings
            killed.set()
            raise _Enough

    with pytest.raises(_Enough):
        driver.run(loaded.target, TPCC.job(), PROFILE, seed=1, listen=listen)
    assert killed.is_set()
    loaded.stop(fast_timeout_s=0)
    loaded.start()
    assert "database system was not properly shut down" in loaded.log_tail(200)
    assert orders(loaded) > orders_before
    assert check(driver, loaded) == ()


class _Enough(Exception):
    """Ends a run from within its listener."""


def orders(cluster: Cluster) -> int:
    with cluster.connect() as connection:
        row = connection.execute("SELECT count(*) FROM oorder").fetchone()
    assert row is not None
    return int(row[0])


def test_a_load_of_a_server_with_a_statement_timeout_ends(driver: Driver, loaded: Cluster) -> None:
    assert check(driver, loaded) == ()
    with (
        pytest.raises(psycopg.errors.QueryCanceled),
        loaded.connect(role=loaded.load_role) as connection,
    ):
        connection.execute("SELECT pg_sleep(5)")
