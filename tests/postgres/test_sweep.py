from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from living import is_alive, memory_maps

from pgdrag.host.process_alive import wait_until
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.processes import send_signal
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot
from pgdrag.servers.sweep import sweep
from stand_ins import NO_GUARDIAN

pytestmark = pytest.mark.postgres
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def scratch_root(open_directory: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A scratch directory of this test's own, under a short name."""
    root = open_directory / f"sweep-{zlib.crc32(request.node.name.encode())}"
    yield root
    sweep(Scratch.open(root))


Held = tuple[subprocess.Popen[str], list[str]]
Hold = Callable[..., contextlib.AbstractContextManager[Held]]

HOLDER = (
    NO_GUARDIAN
    + """
import sys, time
from pathlib import Path
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import SnapshotStore
root, session, key, sql = sys.argv[1:]
snapshot = SnapshotStore(Scratch.open(Path(session))).get(key)
cluster = snapshot.restore(Scratch.open(Path(root)), find_binaries(None)).cluster
cluster.start()
connection = cluster.connect()
connection.execute(sql)
pids = [str(each.pid) for each in cluster.server_pids()]
print(cluster.directory, cluster.socket_directory, *pids, sep="\t", flush=True)
time.sleep(120)
"""
)


@pytest.fixture
def hold(kept: Scratch, empty_snapshot: Snapshot) -> Hold:
    """Starts another pgdrag process that holds a running cluster until it is killed.

    With the process comes what it printed: the cluster's directory, the directory of its socket,
    and its processes, postmaster first.
    """

    @contextlib.contextmanager
    def holding(root: Path, sql: str = "SELECT 1") -> Iterator[Held]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(root), str(kept.root), empty_snapshot.key, sql],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split("\t")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    return holding


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def memory_of(pid: int, directory: str) -> list[Path]:
    maps = memory_maps(pid, Path(directory, "data"))
    return [Path(line.split()[5]) for line in maps if "/dev/shm/PostgreSQL." in line]


def sysv_of(pid: int, directory: str) -> str:
    [line] = [x for x in memory_maps(pid, Path(directory, "data")) if "/SYSV" in x]
    return line.split()[4]


def sysv_segments() -> list[str]:
    return [x.split()[1] for x in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]


def test_servers_die_with_the_process_that_started_them(hold: Hold, scratch_root: Path) -> None:
    with hold(scratch_root) as (process, [directory, _, *pids]):
        postmaster, *children = [int(pid) for pid in pids]
        memory, sysv = memory_of(postmaster, directory), sysv_of(postmaster, directory)
        assert memory
        kill(process)
        assert wait_until(lambda: not any(map(is_alive, [postmaster, *children])), 20)
    # It was an immediate shutdown, after which no shared memory is left.
    assert not any(path.exists() for path in memory)
    assert sysv not in sysv_segments()


@pytest.mark.parametrize("name", ["plain", "odd ' näme"])
def test_a_sweep_after_kill_9_leaves_no_directory(
    hold: Hold, scratch_root: Path, name: str
) -> None:
    root = Scratch.open(scratch_root).root / name
    with hold(root) as (process, [directory, sockets, *_]):
        assert (Path(sockets).parent == Path(directory)) == (name == "plain")
        kill(process)
        [sentence] = sweep(Scratch.open(root))
    assert Path(directory).name in sentence
    assert f"process {process.pid}, which is gone" in sentence
    assert not Path(directory).exists()
    assert not Path(sockets).exists()
    assert sweep(Scratch.open(root)) == []


def test_a_sweep_ends_a_server_that_survived_its_owner_and_frees_its_memory(
    hold: Hold,
    scratch_root: Path,
) -> None:
    with hold(scratch_root) as (process, [directory, _, *pids]):
        postmaster, *children = [int(pid) for pid in pids]
        memory, sysv = memory_of(postmaster, directory), sysv_of(postmaster, directory)
        os.kill(postmaster, signal.SIGSTOP)  # deaf to the signal of its owner's death
        kill(process)
        assert is_alive(postmaster)
        [sentence] = sweep(Scratch.open(scratch_root))
    assert "processes" in sentence
    assert f"System V segment {sysv}" in sentence
    # One that exits has neither program nor directory any more, and is not gone yet.
    assert wait_until(lambda: not any(map(is_alive, [postmaster, *children])), 5)
    assert not any(path.exists() for path in memory)
    assert sysv not in sysv_segments()
    assert not Path(directory).exists()


def test_memory_that_only_the_control_segment_names_is_freed(
    hold: Hold, scratch_root: Path
) -> None:
    # The statistics of many tables fill segments that the postmaster has not mapped.
    many = """
        DO $$ BEGIN
          FOR i IN 1..1500 LOOP EXECUTE format('CREATE TABLE t%s ()', i); END LOOP;
        END $$;
        SELECT pg_stat_force_next_flush()"""
    with hold(scratch_root, many) as (process, [directory, _, *pids]):
        postmaster, *children = [int(pid) for pid in pids]
        memory = {path for child in children for path in memory_of(child, directory)}
        assert memory > set(memory_of(postmaster, directory))
        os.kill(postmaster, signal.SIGSTOP)
        kill(process)
        [sentence] = sweep(Scratch.open(scratch_root))
    assert all(path.name in sentence for path in memory)
    assert not any(path.exists() for path in memory)


def test_the_cluster_of_a_living_process_is_never_touched(hold: Hold, scratch_root: Path) -> None:
    with hold(scratch_root) as (_, [directory, sockets, *pids]):
        assert sweep(Scratch.open(scratch_root)) == []
        assert Path(directory).is_dir()
        assert Path(sockets).is_dir()
        assert all(is_alive(int(pid)) for pid in pids)


def test_a_cluster_of_this_process_is_never_touched(scratch: Scratch, cluster: Cluster) -> None:
    sweep(scratch)
    cluster.start()
    sweep(scratch)
    cluster.connect().close()


def test_a_process_that_stands_in_the_data_directory_is_not_the_server(
    scratch_root: Path, binaries: Binaries
) -> None:
    # A postmaster.pid with the number of an innocent process, which even works there.
    scratch = Scratch.open(scratch_root)
    cluster = Cluster.create(scratch, binaries)
    data = cluster.data_directory
    with subprocess.Popen(["sleep", "60"], cwd=data) as innocent:
        try:
            (data / "postmaster.pid").write_text(f"{innocent.pid}\n{data}\n1\n5432\n\n\n 1 1\n")
            cluster._owned.release()  # as its death would
            [sentence] = sweep(scratch)
            assert "processes" not in sentence
            assert innocent.poll() is None
        finally:
            innocent.kill()
    assert not data.exists()


def test_the_memory_of_another_cluster_is_not_freed(
    scratch_root: Path, binaries: Binaries, running_cluster: Cluster
) -> None:
    # A postmaster.pid that names a segment of another data directory.
    scratch = Scratch.open(scratch_root)
    cluster = Cluster.create(scratch, binaries)
    theirs = (running_cluster.data_directory / "postmaster.pid").read_text()
    pid = running_cluster.postmaster_pid
    assert pid is not None
    sysv = sysv_of(pid, str(running_cluster.directory))
    os.kill(pid, signal.SIGSTOP)  # else it may mourn its children, and begin anew with other memory
    for each in running_cluster.server_pids()[::-1]:
        send_signal(each.pid, signal.SIGKILL)  # it may have ended with its siblings
    assert wait_until(lambda: not running_cluster.server_pids(), 10)
    (cluster.data_directory / "postmaster.pid").write_text(theirs)
    cluster._owned.release()
    sweep(scratch)
    assert sysv in sysv_segments()
    running_cluster.stop()
    assert sysv not in sysv_segments()


def test_an_owner_that_died_before_it_said_who_it_is_leaves_nothing(scratch_root: Path) -> None:
    scratch = Scratch.open(scratch_root)
    owned = scratch.own_directory(scratch.clusters, "cluster-")
    owned.release()
    [sentence] = sweep(scratch)
    assert sentence == f'Removed cluster "{owned.path.name}".'
    assert not owned.path.exists()


@pytest.mark.parametrize("named", ["/etc", "/tmp", "/tmp/pgdrag-socket-x/../../etc"])
def test_a_sweep_deletes_no_directory_that_is_not_of_pgdrags_making(
    scratch_root: Path, binaries: Binaries, named: str
) -> None:
    scratch = Scratch.open(scratch_root)
    cluster = Cluster.create(scratch, binaries)
    owner = cluster.directory / "owner.json"
    owner.write_text(owner.read_text().replace(str(cluster.socket_directory), named))
    cluster._owned.release()
    assert len(sweep(scratch)) == 1
    assert Path(named).is_dir() or not Path(named).exists()
    assert Path("/etc").is_dir()
    assert Path("/tmp").is_dir()


def test_half_made_snapshots_of_the_dead_go_and_those_of_the_living_stay(
    scratch_root: Path,
) -> None:
    scratch = Scratch.open(scratch_root)
    dead = scratch.own_directory(scratch.snapshots, "half-made-")
    alive = scratch.own_directory(scratch.snapshots, "half-made-")
    (dead.path / "data").mkdir()
    dead.release()
    assert sweep(scratch) == [f'Removed half-made copy "{dead.path}".']
    assert (dead.path.exists(), alive.path.exists()) == (False, True)
    alive.remove()


def test_what_is_being_removed_is_left_to_its_remover(scratch_root: Path) -> None:
    scratch = Scratch.open(scratch_root)
    # The lock goes last: without it there is somebody about to finish, or nothing but the name.
    almost_gone, empty = scratch.clusters / "cluster-1", scratch.clusters / "cluster-2"
    (almost_gone / "data").mkdir(parents=True)
    empty.mkdir()
    assert sweep(scratch) == []
    assert (almost_gone.exists(), empty.exists()) == (True, False)


def test_a_failure_to_sweep_is_a_sentence_and_not_an_error(
    scratch_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = Scratch.open(scratch_root)
    owned = scratch.own_directory(scratch.snapshots, "half-made-")
    (owned.path / "data").mkdir()
    owned.release()
    fail: Callable[[Path], None] = lambda path: (_ for _ in ()).throw(OSError(5, "broken"))  # noqa: E731
    with monkeypatch.context() as broken:
        broken.setattr("pgdrag.servers.scratch.remove_tree", fail)
        [sentence] = sweep(scratch)
    assert sentence.startswith(f'Could not remove what is left in "{owned.path}"')
    assert len(sweep(scratch)) == 1, "the next sweep tries again"
