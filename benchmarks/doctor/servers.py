"""A server to be made sick: a throw-away cluster with pgbench's tables, and loads of pgbench on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from pgdrag.driver.connection_string import Server, reach
from pgdrag.servers.binaries import Binaries, executable_binaries, find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot, SnapshotStore

SCALE = 10
_LOAD_FOR_S = 120


class Patient:
    """A running server, and what a scenario does to it; all of it ends with the scenario."""

    def __init__(self, cluster: Cluster, bin_dir: Path, stack: ExitStack, directory: Path) -> None:
        self.cluster = cluster
        self._bin_dir = bin_dir
        self._stack = stack
        self._directory = directory

    def connect(self) -> psycopg.Connection:
        """Return a session that lasts as long as the scenario."""
        connection = self.cluster.connect(
            application_name="application", role=self.cluster.load_superuser
        )
        self._stack.callback(connection.close)
        return connection

    def sql(self, *statements: str) -> None:
        """Run statements in a session of their own."""
        with self.cluster.connect(role=self.cluster.load_superuser) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def pgbench(self, *options: str, script: str = "", clients: int = 4) -> None:
        """Start pgbench; with a script in place of its own transactions."""
        arguments = [*options, "-n", "-c", str(clients), "-j", "1", "-T", str(_LOAD_FOR_S)]
        if script:
            path = self._directory / f"script-{len(list(self._directory.iterdir()))}.sql"
            path.write_text(script)
            arguments += ["-f", str(path)]
        process = subprocess.Popen(
            [self._bin_dir / "pgbench", *arguments, *self._where()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._stack.callback(_end, process)

    def background(self, *statements: str) -> None:
        """Run statements once, in psql, while the scenario goes on."""
        commands = [part for text in statements for part in ("-c", text)]
        process = subprocess.Popen(
            [self._bin_dir / "psql", "-X", *self._where(), *commands],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._stack.callback(_end, process)

    def pgdrag(self, *arguments: str, wait: bool = False) -> None:
        """Run a command of pgdrag's own on it."""
        process = subprocess.Popen(
            [sys.executable, "-m", "pgdrag", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if wait:
            assert process.wait(timeout=120) == 0, arguments
        else:
            self._stack.callback(_end, process)

    @property
    def dsn(self) -> str:
        """Name it as a person does."""
        cluster = self.cluster
        return (
            f"host={cluster.socket_directory} port={cluster.port} user={cluster.load_superuser} "
            f"dbname={cluster.database}"
        )

    def _where(self) -> list[str]:
        cluster = self.cluster
        return [
            *("-h", str(cluster.socket_directory), "-p", str(cluster.port)),
            *("-U", cluster.load_superuser, cluster.database),
        ]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def nothing(patient: Patient) -> None:
    """Do nothing to it."""


@dataclass(frozen=True)
class Scenario:
    """One way in which a server is sick, or healthy.

    Attributes:
        name: of the symptom that is to be found, where it is sick.
        ill: does it to the running server, and starts the load.
        settings: of the server; autovacuum is off, so that nothing else happens.
        before: done to the stopped server.
        lasts_s: for how long it goes on before anyone looks.
        for_s: how long the doctor looks.
        place: where its directory is; None: with all others.
    """

    name: str
    ill: Callable[[Patient], None] = nothing
    settings: dict[str, str] = field(default_factory=dict)
    before: Callable[[Cluster], None] = lambda _: None
    lasts_s: float = 2.0
    for_s: float = 6.0
    version: str = ""
    role: str = ""
    place: Callable[[], AbstractContextManager[Path]] | None = None


QUIET = {"autovacuum": "off"}


class Ward:
    """Where servers are made: one dataset, copied for each."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._datasets: dict[str, tuple[Binaries, Snapshot]] = {}
        self.bin_dir = executable_binaries(find_binaries(None), scratch).bin_dir

    @contextmanager
    def patient(self, scenario: Scenario) -> Iterator[Server]:
        """Yield a server in a state."""
        scratch = self._scratch
        binaries, snapshot = self._dataset(scenario.version)
        directory = Path(tempfile.mkdtemp(prefix="pgdrag-doctor-"))
        with ExitStack() as stack:
            if scenario.place is not None:
                scratch = Scratch.open(stack.enter_context(scenario.place()))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            cluster = stack.enter_context(snapshot.restore(scratch, binaries).cluster)
            cluster.configure({**QUIET, **scenario.settings})
            scenario.before(cluster)
            cluster.start()
            patient = Patient(cluster, self.bin_dir, stack, directory)
            scenario.ill(patient)
            time.sleep(scenario.lasts_s)
            role = scenario.role or cluster.load_superuser
            dsn = patient.dsn.replace(f"user={cluster.load_superuser}", f"user={role}")
            yield reach(dsn, is_for_driver=False)

    def _dataset(self, version: str) -> tuple[Binaries, Snapshot]:
        if version not in self._datasets:
            binaries = executable_binaries(_binaries(version), self._scratch)
            store = SnapshotStore(self._scratch)
            key = f"doctor-{SCALE}-{binaries.identity}"
            snapshot = store.get(key) or self._made(store, key, binaries)
            self._datasets[version] = (binaries, snapshot)
        return self._datasets[version]

    def _made(self, store: SnapshotStore, key: str, binaries: Binaries) -> Snapshot:
        with Cluster.create(self._scratch, binaries) as cluster:
            cluster.initdb()
            cluster.start()
            with ExitStack() as stack:
                patient = Patient(cluster, self.bin_dir, stack, Path(tempfile.gettempdir()))
                command = [str(self.bin_dir / "pgbench"), "-i", "-q", "-s", str(SCALE)]
                subprocess.run([*command, *patient._where()], check=True, capture_output=True)
                patient.sql("CREATE ROLE monitor LOGIN", "GRANT pg_monitor TO monitor")
            cluster.stop()
            return store.create(key, cluster, {"dataset": "doctor"})


def _binaries(version: str) -> Binaries:
    from pgdrag.errors import ServerError
    from pgdrag.servers.fetched import fetch

    try:
        return find_binaries(version or None)
    except ServerError:
        return find_binaries(str(fetch(version)))
