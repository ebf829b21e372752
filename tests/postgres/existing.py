"""A server that somebody else has made: pgdrag's own clusters, taken for one."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from pathlib import Path

from pgdrag.host.auto_conf import FILE, text_of
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo.altered_system import postmaster_runs
from pgdrag.servers.cluster import Cluster

# What somebody has set there before; its order is not the alphabet's.
THEIRS = {"work_mem": "5MB", "random_page_cost": "1.7", "application_name": "it''s"}


def give_settings(cluster: Cluster, values: dict[str, str] | None = None) -> None:
    """Write a postgresql.auto.conf as ALTER SYSTEM does, before the server starts."""
    content = text_of(THEIRS if values is None else values).decode()
    cluster.scratch.write_private(cluster.data_directory / FILE, content)


def digest(cluster: Cluster) -> str:
    """Return what two equal files have in common."""
    return hashlib.sha256((cluster.data_directory / FILE).read_bytes()).hexdigest()


def pg_ctl(cluster: Cluster, *arguments: str) -> str:
    """Return a command for a cluster that lives by itself, as its own user runs it."""
    words = [str(cluster.binaries.bin_dir / "pg_ctl"), "-D", str(cluster.data_directory)]
    user = cluster.user
    if user is not None:
        words = [
            "setpriv",
            f"--reuid={user.uid}",
            f"--regid={user.gid}",
            "--clear-groups",
            *words,
        ]
    return shlex.join([*words, "-w", "-t", "60", *arguments])


def started_alone(cluster: Cluster) -> str:
    """Start a cluster with pg_ctl, which no process of the test's has as a child; return how it is restarted."""
    log = cluster.log_directory / "alone.log"
    options = shlex.join(
        ["-k", str(cluster.socket_directory), "-p", str(cluster.port), "-c", "listen_addresses="]
    )
    subprocess.run(
        ["/bin/sh", "-c", pg_ctl(cluster, "-l", str(log), "-o", options, "start")],
        check=True,
        capture_output=True,
        timeout=90,
        cwd="/",
    )
    return pg_ctl(cluster, "-l", str(log), "-m", "fast", "restart")


def stopped_alone(cluster: Cluster) -> None:
    """Stop what `started_alone` has started, and whatever has restarted it."""
    command = pg_ctl(cluster, "-m", "immediate", "stop")
    subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, timeout=90, check=False, cwd="/"
    )
    assert wait_until(lambda: not postmaster_runs(Path(cluster.data_directory)), 30)
