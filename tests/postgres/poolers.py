"""PgBouncer before a cluster, where it is installed: https://www.pgbouncer.org."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest

from pgdrag.host.process_alive import wait_until
from pgdrag.host.spawn import spawn
from pgdrag.servers.cluster import Cluster

# In the directory of the cluster's socket; several may stand before it.
PORTS = itertools.count(6432)


@contextmanager
def pgbouncer(
    cluster: Cluster, mode: str, *, is_open: bool = True, **settings: str | int
) -> Iterator[str]:
    """Run PgBouncer in a pool mode; yields a connection string that leads through it.

    Args:
        is_open: it lets somebody in; else it is enough that it listens.
        settings: more of its own.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("needs the program pgbouncer")
    directory, scratch, port = cluster.socket_directory, cluster.scratch, next(PORTS)
    file = directory / f"pgbouncer-{port}.ini"
    server = f"host={directory} port={cluster.port}"
    kept = {
        "pool_mode": mode,
        "unix_socket_dir": directory,
        "listen_port": port,
        "auth_type": "trust",
        "auth_file": directory / "pgbouncer.users",
        "logfile": directory / f"pgbouncer-{port}.log",
        **settings,
    }
    lines = [
        "[databases]",
        f"* = {server}",
        "[pgbouncer]",
        *(f"{x} = {y}" for x, y in kept.items()),
    ]
    scratch.write_private(file, "\n".join(lines) + "\n")
    scratch.write_private(directory / "pgbouncer.users", '"pgdrag" ""\n')
    process = spawn(
        [program, "-q", file],
        user=cluster.user,
        cwd=directory,
        death_signal=signal.SIGKILL,
        output=subprocess.DEVNULL,
    )
    where = f"host={directory} port={port} user=pgdrag dbname=pgdrag"
    try:
        ready = partial(_lets_in, where) if is_open else (directory / f".s.PGSQL.{port}").exists
        assert wait_until(lambda: process.poll() is not None or ready(), 20)
        assert process.poll() is None, (directory / f"pgbouncer-{port}.log").read_text()
        yield where
    finally:
        process.kill()
        process.wait(10)
        (directory / f".s.PGSQL.{port}").unlink(missing_ok=True)


def _lets_in(where: str) -> bool:
    try:
        psycopg.connect(where).close()
    except psycopg.OperationalError:
        return False
    return True
