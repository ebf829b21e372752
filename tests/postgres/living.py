"""What do tests ask of a running server that pgdrag itself does not?"""

from __future__ import annotations

from pgdrag.host.process_alive import parent_pid, wait_until
from pgdrag.servers.cluster import Cluster


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be reaped does not."""
    return parent_pid(pid) is not None


def reload(cluster: Cluster) -> None:
    """Make the server read its configuration again, and wait until it has."""
    with cluster.connect() as connection:

        def load_time() -> object:
            return connection.execute("SELECT pg_conf_load_time()").fetchone()

        before = load_time()
        connection.execute("SELECT pg_reload_conf()")
        assert wait_until(lambda: load_time() != before, 10)
