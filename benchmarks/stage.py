"""On which server do the contestants meet?

A throw-away cluster of the embedded PostgreSQL, made by pgdrag's own `servers` package. Beside
its Unix socket it listens on the loopback interface, with a password of its own, for programs that know
no Unix sockets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil
import psycopg
from psycopg import sql

from benchmarks.clients import BenchmarkError, Counter
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep
from pgdrag.servers.tcp_port import LOOPBACK

GIB = 2**30
LEAVE_TIMEOUT_S = 20.0


class Stage:
    """One running server, with connections for counting.

    Attributes:
        user, password: of the superuser; through the Unix socket no password is asked for.
        host: the directory of the Unix socket.
        tcp_host, port: the same server for clients that need TCP.
        bin_dir: its programs, pgbench among them.
        version: of the server.
    """

    tcp_host = LOOPBACK

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.tcp is not None, "opened for clients that need TCP"
        self._cluster = cluster
        self.user = cluster.load_superuser
        self.database = cluster.database
        self.password = cluster.tcp.password
        self.host = str(cluster.socket_directory)
        self.port = cluster.port
        self.bin_dir = cluster.binaries.bin_dir
        self.version = cluster.binaries.version
        self.directory = cluster.directory

    def execute(self, text: str, *, database: str | None = None) -> list[tuple[object, ...]]:
        """Execute statements without parameters and return the rows of the last one."""
        with self._connect(database or self.database) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def create_database(self, name: str) -> None:
        """Make an empty database; one of that name is dropped first."""
        with self._connect("postgres") as connection:
            quoted = sql.Identifier(name)
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(quoted))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(quoted))

    def tidy(self, database: str) -> None:
        """Bring the tables into the same order before each run: vacuum, then a checkpoint."""
        self.execute("VACUUM (ANALYZE)", database=database)
        self.execute("CHECKPOINT")

    @contextmanager
    def counting(self, query: str, *, database: str) -> Iterator[Counter]:
        """A function that asks the server for a number, through one connection that stays open."""
        with self._connect(database) as connection:
            connection.execute("SET max_parallel_workers_per_gather = 0")

            def count() -> int:
                row = connection.execute(query.encode()).fetchone()
                return 0 if row is None or row[0] is None else int(str(row[0]))

            yield count

    @contextmanager
    def counting_statistics(self, query: str, *, database: str) -> Iterator[Counter]:
        """The same for the server's statistics, which a session publishes when it ends.

        The function waits until all other sessions have ended.
        """
        with self.counting(query, database=database) as ask:

            def count() -> int:
                self._wait_until_alone(database)
                return ask()

            yield count

    def _wait_until_alone(self, database: str) -> None:
        deadline = time.monotonic() + LEAVE_TIMEOUT_S
        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' "
            "AND pid <> pg_backend_pid() AND datname = current_database()"
        )
        # The counting connection is the one that may stay.
        while int(str(self.execute(others, database=database)[0][0])) > 1:
            if time.monotonic() > deadline:
                raise BenchmarkError("sessions of a client that ended are still there")
            time.sleep(0.05)

    def _connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            dbname=database,
            application_name="pgdrag benchmarks",
            autocommit=True,
        )


@contextmanager
def stage(
    settings: Mapping[str, str] | None = None, *, scratch: Scratch | None = None
) -> Iterator[Stage]:
    """Make a cluster with the benchmarks' settings and `settings`, start it, and remove it after."""
    scratch = scratch or Scratch.open()
    sweep(scratch)
    binaries = find_binaries(None)
    with Cluster.create(scratch, binaries) as cluster:
        cluster.initdb()
        cluster.configure({**server_settings(), **(settings or {})})
        cluster.open_tcp(cluster.load_superuser)
        cluster.start()
        yield Stage(cluster)


def server_settings(memory_bytes: int | None = None) -> dict[str, str]:
    """Return the settings of all comparisons; those with which the goals were set.

    The tables fit into shared_buffers, and no checkpoint and no autovacuum falls into one contestant's
    run and not into another's: both are done between the runs.
    """
    memory_bytes = memory_bytes or psutil.virtual_memory().total
    shared_mb = min(4 * GIB, memory_bytes // 4) // 2**20
    return {
        "shared_buffers": f"{shared_mb}MB",
        "max_wal_size": "16GB",
        "checkpoint_timeout": "1h",
        "autovacuum": "off",
        "synchronous_commit": "on",
    }
