"""What is left when a program is killed in the middle: of a load, and of a server under load?"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import psycopg
import pytest

from pgdrag.driver.contract import HelloLine, IntervalLine, Line, ProgressLine
from pgdrag.driver.process import Driver, find_driver
from pgdrag.errors import DriverError
from pgdrag.host.process_alive import wait_until
from pgdrag.model.load import LoadProfile
from pgdrag.servers.cluster import Cluster
from pgdrag.workloads.tpcc import Tpcc

pytestmark = pytest.mark.postgres

TPCC = Tpcc(warehouses=1)
TIMEOUT_S = 120.0
PROFILE = LoadProfile(connections=4, warm_up_s=0, measure_s=60, budget_s=60, min_commits=0)


@pytest.fixture
def driver() -> Driver:
    return Driver(find_driver())


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


@pytest.mark.parametrize("phase", ["populate", "index"])
def test_a_load_that_was_killed_is_noticed_and_can_be_repeated(
    driver: Driver, running_cluster: Cluster, phase: str
) -> None:
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

        def copies(what: str, table: str) -> int:
            row = connection.execute(
                f"SELECT count({what}) FROM pg_stat_activity "  # type: ignore[arg-type]
                f"WHERE application_name = 'pgdrag' AND query LIKE 'COPY {table}%'"
            ).fetchone()
            assert row is not None
            return int(row[0])

        def listen(line: Line) -> None:
            if isinstance(line, ProgressLine) and line.phase == "populate" and line.done:
                copies("pg_terminate_backend(pid)", "order_line")

        with pytest.raises(DriverError, match="terminating connection"):
            load(driver, running_cluster, listen)
        assert wait_until(lambda: copies("*", "") == 0, timeout_s=20)


def test_a_server_killed_under_load_recovers_to_a_consistent_dataset(
    driver: Driver, running_cluster: Cluster
) -> None:
    load(driver, running_cluster)
    orders_before = orders(running_cluster)
    killed = threading.Event()

    def listen(line: Line) -> None:
        if isinstance(line, IntervalLine) and line.committed and not killed.is_set():
            for process in running_cluster.server_pids():
                os.kill(process.pid, signal.SIGKILL)
            killed.set()
            raise _Enough

    with pytest.raises(_Enough):
        driver.run(running_cluster.target, TPCC.job(), PROFILE, seed=1, listen=listen)
    assert killed.is_set()
    running_cluster.stop(fast_timeout_s=0)
    running_cluster.start()
    assert "database system was not properly shut down" in running_cluster.log_tail(200)
    assert orders(running_cluster) > orders_before
    assert check(driver, running_cluster) == ()


class _Enough(Exception):
    """Ends a run from within its listener."""


def orders(cluster: Cluster) -> int:
    with cluster.connect() as connection:
        row = connection.execute("SELECT count(*) FROM oorder").fetchone()
    assert row is not None
    return int(row[0])


def test_a_load_of_a_server_with_a_statement_timeout_ends(
    driver: Driver, running_cluster: Cluster
) -> None:
    with running_cluster.connect() as connection:
        connection.execute("ALTER ROLE CURRENT_USER SET statement_timeout = '40ms'")
        connection.execute("ALTER ROLE CURRENT_USER SET lc_messages = 'C'")
    load(driver, running_cluster)
    assert check(driver, running_cluster) == ()
    with pytest.raises(psycopg.errors.QueryCanceled), running_cluster.connect() as connection:
        connection.execute("SELECT pg_sleep(5)")
