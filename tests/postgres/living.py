"""What do tests ask of a running server that pgdrag itself does not?"""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from pgdrag.host.process_alive import parent_pid, wait_until
from pgdrag.host.process_sight import has_ptrace, hides_processes
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be reaped does not."""
    if hides_processes():
        pytest.skip("/proc hides processes here (hidepid)")
    return parent_pid(pid) is not None


def memory_maps(pid: int) -> list[str]:
    """What a server's process has mapped, a line each."""
    if os.geteuid() == 0 and not has_ptrace():
        pytest.skip("root may not look at other users' processes here (CAP_SYS_PTRACE)")
    return Path(f"/proc/{pid}/maps").read_text().splitlines()


def reload(cluster: Cluster) -> None:
    """Make the server read its configuration again, and wait until it has."""
    with cluster.connect() as connection:

        def load_time() -> object:
            return connection.execute("SELECT pg_conf_load_time()").fetchone()

        before = load_time()
        connection.execute("SELECT pg_reload_conf()")
        assert wait_until(lambda: load_time() != before, 10)


def connected(bench: ServerTrialRunner) -> psycopg.Connection:
    """Return a session with the server of the trial that runs."""
    (directory,) = bench.scratch.clusters.iterdir()
    lines = (directory / "data" / "postmaster.pid").read_text().splitlines()
    return psycopg.connect(host=lines[4], port=lines[3], user="pgdrag", dbname="pgdrag")
