"""What do tests ask of a running server that pgdrag itself does not?"""

from __future__ import annotations

from pathlib import Path

import psycopg

from pgdrag.host.process_alive import has_ended, wait_until
from pgdrag.host.process_sight import seeing_as
from pgdrag.host.server_user import ServerUser
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner


def is_alive(pid: int) -> bool:
    """Whether a process still runs, in sight or not; one that only waits to be reaped does not."""
    return not has_ended(pid)


def memory_maps(pid: int, data_directory: Path) -> list[str]:
    """What a process of a server has mapped, a line each: seen as its user, as root of a container may not see it."""
    with seeing_as(owner_of(data_directory)):
        return Path(f"/proc/{pid}/maps").read_text().splitlines()


def owner_of(path: Path) -> ServerUser:
    """The user whose a file is, as whom its processes can be seen."""
    found = path.stat()
    return ServerUser("", found.st_uid, found.st_gid)


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
