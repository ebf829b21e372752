"""Where does pgdrag live that suffers, and what is there of it: processes, files, mounts, shared memory?"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
from commands import dsn
from existing import digest, give_settings, started_alone, stopped_alone
from machine import PREFIX, Machine

from in_process import libpq_variables
from pgdrag.host.undo import UndoJournal
from pgdrag.servers.binaries import executable_binaries, find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch

# A busy machine may take long for anything; what never ends has failed.
END_TIMEOUT_S = 600.0
SETTLE_S = 120.0
DISK_BYTES = 4 << 30
MEMORY, VAR = Path("/dev/shm"), Path("/var/tmp")
IS_ROOT = os.geteuid() == 0
_GROUP = re.compile(r"/sys/fs/cgroup/[^\"]*")
# What a directory of pgdrag's own keeps.
_OF_HOME = ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "reports", "live", "lock")


class Failed(Exception):
    """A round did not end as it must."""


@dataclass
class Changes:
    """Counts changes of what outlives a pgdrag: its journal, what runs show of themselves, its undo journal."""

    home: Path
    undo: Path
    count: int = 0
    _sizes: dict[str, int] = field(default_factory=dict)

    def look(self) -> int:
        """Return how many have been seen, with those since the last look."""
        paths = [str(self.undo), f"{self.home}/journal.sqlite-wal"]
        with suppress(FileNotFoundError), os.scandir(self.home / "live") as entries:
            paths += [x.path for x in entries if x.name.endswith(".jsonl")]
        for path in paths:
            with suppress(OSError):
                size = os.stat(path).st_size  # noqa: PTH116 -- hundreds of times a second
                self.count += self._sizes.get(path) != size
                self._sizes[path] = size
        return self.count


@dataclass
class Command:
    """A pgdrag that was started, and what it wrote."""

    words: tuple[str, ...]
    process: subprocess.Popen[bytes]
    output: Path
    changes: Changes

    @property
    def said(self) -> str:
        """All that it wrote so far."""
        return self.output.read_text(errors="replace")

    def has_ended(self) -> bool:
        """Tell whether it has."""
        return self.process.poll() is not None

    def end(self) -> int:
        """Wait for its end, and return its status; one that does not end has failed."""
        try:
            return self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            tree = [f"{x.pid} {role_of(x)} {x.status()}" for x in descendants(self.process.pid)]
            self.process.kill()
            self.process.wait()
            raise Failed(
                f"{self} did not end within {END_TIMEOUT_S:g} s; running: {', '.join(tree)}"
            ) from None

    def __str__(self) -> str:
        return f"pgdrag {' '.join(self.words)}"


@dataclass
class Server:
    """A server of somebody's, which lives by itself.

    Attributes:
        restart_command: that restarts it.
    """

    cluster: Cluster
    restart_command: str = ""

    @property
    def dsn(self) -> str:
        """Its connection string."""
        return dsn(self.cluster)

    @property
    def restoring(self) -> tuple[str, ...]:
        """The command that gives back what was changed here."""
        return ("restore", self.dsn, "--restart-command", self.restart_command)

    def start(self) -> None:
        """Start it, where it does not run; what somebody has killed or is restarting has a moment for that."""

        def is_settled() -> bool:
            roles = [role_of(x) for x in self.processes()]
            return "server" in roles or not roles

        wait(END_TIMEOUT_S, is_settled, poll_s=0.05)
        if not self.restart_command or not wait(2.0, lambda: bool(self.processes()), poll_s=0.1):
            try:
                self.restart_command = started_alone(self.cluster)
            except subprocess.CalledProcessError:
                if not self.processes():  # else pgdrag was faster
                    raise

    def processes(self) -> list[psutil.Process]:
        """Return its processes, the first one first."""
        found = (_seen(x.pid) for x in self.cluster.server_pids())
        return [x for x in found if x is not None]

    def state(self) -> dict[str, object]:
        """Return what pgdrag must give back: settings, the file that ALTER SYSTEM writes, databases, what holds the horizon."""
        with psycopg.connect(self.dsn, connect_timeout=20, application_name="campaign") as session:
            return {"file": digest(self.cluster)} | {
                name: sorted(map(str, session.execute(sql).fetchall()))
                for name, sql in _STATE.items()
            }


_STATE = {
    "settings": """SELECT name, setting, source, pending_restart FROM pg_settings
                    WHERE name !~ 'transaction|application_name|in_hot_standby|client_|DateStyle|TimeZone'""",
    "roles": "SELECT * FROM pg_db_role_setting",
    "databases": "SELECT datname FROM pg_database",
    "slots": "SELECT slot_name FROM pg_replication_slots",
    "prepared": "SELECT gid FROM pg_prepared_xacts",
    "sessions": "SELECT application_name FROM pg_stat_activity WHERE application_name ^@ 'pgdrag'",
}


@dataclass
class Place:
    """A directory with all of a pgdrag, whose scratch directory lies on a file system of its own.

    Attributes:
        disk: the block device under that; None: it is in memory.
        control_groups: that its runs made.
        noted: processes of the round, whose end is waited for, and names of shared memory.
    """

    directory: Path
    disk: Path | None = None
    control_groups: set[str] = field(default_factory=set)
    noted: dict[psutil.Process, None] = field(default_factory=dict)
    noted_memory: set[str] = field(default_factory=set)
    home: Path = Path()
    _server: Server | None = None

    @property
    def scratch(self) -> Path:
        """Its scratch directory."""
        return self.directory / "disk" / "s"

    @property
    def undo(self) -> Path:
        """Its undo journal's file."""
        return self.directory / "undo" / "undo.jsonl"

    @property
    def server(self) -> Server:
        """A server that runs here, made when it is first asked for."""
        if self._server is None:
            scratch = Scratch.open(self.directory / "existing")
            cluster = Cluster.create(scratch, executable_binaries(find_binaries(None), scratch))
            cluster.initdb()
            cluster.configure(
                {
                    "shared_buffers": "16MB",
                    "max_connections": "30",
                    "shared_preload_libraries": "pg_stat_statements",
                }
            )
            give_settings(cluster)
            self._server = Server(cluster)
            self._server.start()
            with psycopg.connect(self._server.dsn, autocommit=True) as session:
                session.execute("CREATE SCHEMA extensions")
                session.execute("CREATE EXTENSION pg_stat_statements SCHEMA extensions")
        self._server.start()
        return self._server

    def begin_round(self, number: int) -> None:
        """Begin with an empty journal."""
        self.home = self.directory / "home" / str(number)
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True, mode=0o700)
        self.noted.clear()
        self.noted_memory.clear()
        for output in self.directory.glob("output-*"):
            output.unlink()

    def start(self, *words: str) -> Command:
        """Start pgdrag; what it writes goes to a file."""
        output = Path(tempfile.mkstemp(prefix="output-", dir=self.directory)[1])
        kept = {name: value for name, value in os.environ.items() if name not in libpq_variables()}
        places = {
            "PGDRAG_HOME": str(self.home),
            "PGDRAG_SCRATCH": str(self.scratch),
            "PGDRAG_UNDO": str(self.undo.parent),
            "PGDRAG_MACHINE": self.directory.name,
            "COLUMNS": "120",
        }
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "pgdrag", *words],
                env=kept | places,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Command(words, process, output, Changes(self.home, self.undo))

    def run(self, *words: str, expected: tuple[int, ...] = (0,)) -> Command:
        """Run pgdrag to its end, which must be a good one."""
        command = self.start(*words)
        status = command.end()
        if status not in expected:
            raise Failed(f"{command} ended with {status}:\n{command.said}")
        return command

    def results(self) -> int:
        """Return how many results are on disk."""
        count = "SELECT count(*) FROM attempt WHERE result IS NOT NULL"
        with (
            suppress(sqlite3.OperationalError),  # there is no journal yet, or it has no tables
            closing(sqlite3.connect(f"file:{self.home}/journal.sqlite?mode=ro", uri=True)) as db,
        ):
            return int(db.execute(count).fetchone()[0])
        return 0

    def processes(self) -> list[psutil.Process]:
        """Return all that runs here, children of the dead among it, but not the server that lives by itself."""
        mark = os.fsencode(self.directory)
        own = set() if self._server is None else {x.pid for x in self._server.processes()}
        own.add(os.getpid())
        pids = [int(x.name) for x in Path("/proc").glob("[0-9]*")]
        marked = (pid for pid in pids if pid not in own and _is_marked(pid, mark))
        return [x for pid in marked if (x := _seen(pid)) is not None]

    def note(self, processes: Iterable[psutil.Process]) -> None:
        """Remember processes, the shared memory that servers among them use, and control groups."""
        for process in processes:
            self.noted[process] = None
            if role_of(process) == "server":
                self.noted_memory |= _memory_of(process.pid)
        with suppress(FileNotFoundError):
            self.control_groups.update(_GROUP.findall(self.undo.read_text()))

    def left(
        self, before: Machine, *, is_last: bool, but: Collection[str] = frozenset()
    ) -> list[str]:
        """Return what is otherwise than before, or left, once it has had time to settle.

        Args:
            is_last: what the next run removes has been removed, too: what pages show of a run that was killed.
            but: what may be left.
        """
        found: list[str] = []

        def is_clean() -> bool:
            found[:] = [x for x in self.left_now(before, is_last=is_last) if x not in but]
            return not found

        wait(SETTLE_S, is_clean, poll_s=0.2)
        return found

    def look(self) -> Machine:
        """Look at the machine."""
        return Machine.look(self.scratch, with_values=self.disk is not None)

    def left_now(self, before: Machine, *, is_last: bool) -> list[str]:
        """Return what is otherwise than before, or left, at this moment."""
        running = {x.pid: x for x in (*self.processes(), *self.noted) if _runs(x)}
        own = (str(self.directory), str(self.disk), *sorted(self.control_groups))
        memory = self.noted_memory & _memory()
        home = [x for x in self.home.iterdir() if x.name not in _OF_HOME]
        home += [*(self.home / "live").glob("*")] if is_last else []
        return [
            *(f"process {x.pid} ({role_of(x) or ' '.join(_words(x))[:80]})" for x in running.values()),
            *before.differences(self.look(), own),
            *(f"shared memory {name}" for name in sorted(memory)),
            *(f"file {path}" for path in home),
            *(["a change in the undo journal"] if UndoJournal.has_leftovers(self.undo.parent) else []),
        ]  # fmt: skip

    def clear(self) -> None:
        """End and remove what a failed round has left, so that the next one begins as it should."""
        for process in (*self.processes(), *self.noted):
            with suppress(psutil.Error):
                process.kill()
        self.start("clean").process.wait(END_TIMEOUT_S)
        if self._server is not None:
            self._server.start()
            self.start(*self._server.restoring, "--overwrite").process.wait(END_TIMEOUT_S)


@contextmanager
def place(*, on_disk: bool, home_mb: int = 64) -> Iterator[Place]:
    """Make a place, and take it away: on a disk of its own (a loop device), or in memory where there is plenty.

    Args:
        home_mb: how much fits in the directory of the journal and the live files.
    """
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > DISK_BYTES
    parent = MEMORY if roomy and not on_disk else VAR
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    directory.chmod(0o711)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        for name in ("disk", "home"):
            (directory / name).mkdir()
        here = Place(directory)
        if on_disk:
            here.disk = stack.enter_context(_ext4(directory / "backing", directory / "disk"))
        elif IS_ROOT:
            stack.enter_context(
                _mounted("tmpfs", "size=1500m,mode=0711", "pgdrag", directory / "disk")
            )
        if IS_ROOT:
            stack.enter_context(
                _mounted("tmpfs", f"size={home_mb}m,mode=0700", "pgdrag", directory / "home")
            )
        try:
            yield here
        finally:
            if here._server is not None:
                stopped_alone(here._server.cluster)


@contextmanager
def _ext4(backing: Path, point: Path) -> Iterator[Path]:
    with backing.open("wb") as file:
        file.truncate(DISK_BYTES)
    disk = Path(program("losetup", "--find", "--show", backing).strip())
    try:
        program("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", disk)
        with _mounted("ext4", "defaults", disk, point):
            point.chmod(0o711)
            yield disk
    finally:
        program("losetup", "--detach", disk)


@contextmanager
def _mounted(kind: str, options: str, source: str | Path, point: Path) -> Iterator[None]:
    program("mount", "-t", kind, "-o", options, source, point)
    try:
        yield
    finally:
        program("umount", "--recursive", "--lazy", point)


def program(*words: str | Path) -> str:
    """Run a program, and return what it wrote."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def wait(timeout_s: float, condition: Callable[[], bool], poll_s: float = 0.003) -> bool:
    """Wait for a condition; False: it did not come true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_s)
    return True


def descendants(pid: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def role_of(process: psutil.Process) -> str:
    """Return what a process of pgdrag's does; "": something else, or it has ended."""
    first, *others = _words(process) or [""]
    name = Path(first).name
    if first.startswith("postgres:"):
        return "backend"
    if name in ("postgres", "pgdrag-driver"):
        return "server" if name == "postgres" else "driver"
    if any("_guardian_process" in x or "aftermath" in x for x in others):
        return "guardian"
    if "fleet" in others and {"join", "worker"} & set(others):
        return "worker" if "worker" in others else "agent"
    return "pgdrag" if "pgdrag" in others else ""


def _words(process: psutil.Process) -> list[str]:
    """Return a process's command line; nothing: it has ended."""
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def strike(process: psutil.Process, number: signal.Signals) -> bool:
    """Send a signal to a process that is still the same one; False: it has ended."""
    try:
        process.send_signal(number)
    except psutil.Error:
        return False
    return True


def _seen(pid: int) -> psutil.Process | None:
    with suppress(psutil.Error):
        return psutil.Process(pid)
    return None


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _is_marked(pid: int, mark: bytes) -> bool:
    """Whether a process has a directory in its environment, arguments, or as its own."""
    directory = Path("/proc", str(pid))
    for name in ("environ", "cmdline"):
        with suppress(OSError):
            if mark in (directory / name).read_bytes():
                return True
    with suppress(OSError):
        return os.fsencode((directory / "cwd").readlink()).startswith(mark)
    return False


def _memory_of(pid: int) -> set[str]:
    """Return the names of the shared memory that a process has mapped."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return set()
    posix = {x.split()[5] for x in lines if "/dev/shm/PostgreSQL." in x}
    return posix | {f"segment {x.split()[4]}" for x in lines if "/SYSV" in x}


def _memory() -> set[str]:
    posix = {str(path) for path in MEMORY.glob("PostgreSQL.*")}
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return posix | {f"segment {x.split()[1]}" for x in lines}
