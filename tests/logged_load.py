"""A server that logs all statements, and a load on it for as long as a test captures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pgdrag.driver.process import Driver, find_driver
from pgdrag.errors import DriverError
from pgdrag.model.load import LoadProfile
from pgdrag.servers.cluster import Cluster

LOGGED = {
    "fsync": "off", "autovacuum": "off", "shared_preload_libraries": "pg_stat_statements",
    "log_destination": "csvlog", "log_min_duration_statement": "0",
}  # fmt: skip


@contextmanager
def load_running(cluster: Cluster, job: dict[str, object], load: LoadProfile) -> Iterator[None]:
    """Drive a load until the test has seen enough of it."""
    driver = Driver(find_driver())
    with driver.driving(cluster.target, job, load, seed=1, listen=lambda _: None) as driving:
        driving.warm_up()

        def measure() -> None:
            try:
                driving.measure()
            except (DriverError, OSError, ValueError):
                return

        threading.Thread(target=measure, daemon=True).start()
        yield
