"""Collectors of the host see what its kernel does for the server and beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from watching import watching

from conftest import on_disk
from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors import _cgroups as cgroups
from pgdrag.collectors import host as host_module
from pgdrag.collectors._cgroups import MemoryLimit, io_limits, memory_limit, throttling
from pgdrag.collectors.disk import Disk, device_of
from pgdrag.collectors.host import Host
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo import UndoJournal
from pgdrag.servers.cluster import Cluster

pytestmark = pytest.mark.postgres

SPIN = "while True: pass"


def test_what_others_do_on_the_machine_is_seen(shared_cluster: Cluster) -> None:
    with watching(Host(), shared_cluster) as watch:
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            pass
    modes = ("user", "system", "iowait", "steal", "idle")
    assert sum(watch[f"host_{mode}_share"] for mode in modes) == pytest.approx(1)
    assert watch["host_user_share"] > 0
    assert watch["context_switches_per_s"] > 0
    assert watch["dirty_memory_bytes"] >= 0


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="no account of pressure here")
def test_more_work_than_processors_is_pressure(shared_cluster: Cluster) -> None:
    count = len(os.sched_getaffinity(0)) + 2
    with watching(Host(), shared_cluster) as watch:
        spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
        try:
            time.sleep(1)
        finally:
            for each in spinning:
                each.kill()
                each.wait()
    assert watch["cpu_pressure_share"] > 0.1


def test_a_kernel_without_the_account_of_pressure_is_named(
    shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(host_module, "PROC", tmp_path)
    with watching(Host(), shared_cluster) as watch:
        time.sleep(0.2)
    assert watch.missing("io_pressure_share") == "this kernel does not report pressure"
    assert watch["host_idle_share"] >= 0


def test_who_wants_a_processor_is_counted_without_the_one_who_looks(
    shared_cluster: Cluster,
) -> None:
    host = Host()
    with shared_cluster.connect() as connection:
        observer = Observer(shared_cluster, connection)
        command = [sys.executable, "-c", f"print(flush=True)\n{SPIN}"]
        spinning = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
        try:
            for each in spinning:
                assert each.stdout is not None
                each.stdout.readline()  # it spins from now on
            for _ in range(5):
                host.sample(observer)
        finally:
            for each in spinning:
                each.kill()
                each.communicate()
    window = Window(1.0, 1, time.time() - 1, time.time())
    [queue] = [one for one in host.recordings(window).series if one.name == "runnable_processes"]
    [mean] = [one for one in host.observations(window) if one.name == "runnable_processes"]
    assert len(queue.values) == 5
    assert min(queue.values) >= 3
    assert mean.value == pytest.approx(sum(queue.values) / 5)
    assert " at 5 moments, on " in mean.detail


def test_a_kernel_that_does_not_count_who_can_run_is_named(
    shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "stat").write_text("ctxt 7\n")
    host = Host()
    with shared_cluster.connect() as connection:
        monkeypatch.setattr(host_module, "PROC", tmp_path)
        host.sample(Observer(shared_cluster, connection))
    seen = {one.name: one.missing for one in host.observations(Window(1.0, 1, 0.0, 1.0))}
    reason = "this kernel does not report runnable processes"
    assert seen["runnable_processes"] == reason


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group with a fifth of a processor."""
    top = Path("/sys/fs/cgroup")
    quota, where = (
        ("cpu.max", top) if (top / "cpu.stat").exists() else ("cpu.cfs_quota_us", top / "cpu")
    )
    group = where / f"test-pgdrag-{os.getpid()}"
    try:
        group.mkdir()
        (group / quota).write_text("20000 100000" if quota == "cpu.max" else "20000")
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield group
    group.rmdir()


def test_periods_in_which_a_group_was_held_back_are_counted(small_group: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN]) as spinning:
        try:
            (small_group / "cgroup.procs").write_text(str(spinning.pid))
            assert wait_until(lambda: throttled(spinning.pid) > 1, 10)
            assert throttling(spinning.pid)["throttled_us"] > 0
        finally:
            spinning.kill()


def throttled(pid: int) -> int:
    return throttling(pid).get("nr_throttled", 0)


def test_a_server_without_a_limit_is_not_said_to_be_held_back(shared_cluster: Cluster) -> None:
    assert shared_cluster.postmaster_pid is not None
    if throttling(shared_cluster.postmaster_pid, shared_cluster.user):
        pytest.skip("this machine's processors are limited")
    with watching(Host(), shared_cluster) as watch:
        pass
    assert watch.missing("cpu_throttled_share") == "no control group limits the server's processors"


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A control group that may have 64 MB."""
    top = Path("/sys/fs/cgroup")
    limit, where = (
        ("memory.limit_in_bytes", top / "memory")
        if (top / "memory").is_dir()
        else ("memory.max", top)
    )
    group = where / f"test-pgdrag-memory-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (group / limit).write_text(str(64 << 20))
    except OSError as error:
        group.rmdir()
        pytest.skip(f"no control group of memory can be made here: {error}")
    yield group
    # Those that were in it have ended, but the kernel may not have let go of them yet.
    assert wait_until(lambda: is_removed(group), 10)


def is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def test_the_memory_that_a_group_around_the_server_may_have_is_told(
    memory_group: Path, cluster: Cluster
) -> None:
    cluster.start()
    (memory_group / "cgroup.procs").write_text(str(cluster.postmaster_pid))
    try:
        collector = Host()
        with watching(collector, cluster) as watch, cluster.connect() as client:
            for _ in range(2):
                collector.sample(Observer(cluster, client))
    finally:
        cluster.stop()
    assert watch["memory_limit_bytes"] == 64 << 20
    assert 0 <= watch["page_cache_bytes"] <= 64 << 20
    assert watch.detail("page_cache_refaults_per_transaction").endswith(
        " of the server's control group."
    )
    drawn = {one.name: one.values for one in watch.series}
    used, cached = drawn["control_group_memory_bytes"], drawn["control_group_page_cache_bytes"]
    assert len(used) == len(cached) == 2
    assert 0 <= max(cached) <= max(used) <= 64 << 20
    assert 0 < watch["memory_used_share"] <= 1
    assert watch.detail("memory_limit_bytes").endswith(" of 64 MB.")


def test_a_server_without_a_limit_of_memory_has_none(
    shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cgroups, "CGROUPS", tmp_path)
    with watching(Host(), shared_cluster) as watch:
        pass
    assert watch["page_cache_refaults_per_transaction"] >= 0
    assert watch.detail("page_cache_refaults_per_transaction") == ""
    for name in ("memory_limit_bytes", "memory_used_share", "page_cache_bytes"):
        assert watch.missing(name) == "no control group limits the server's memory"
    for name in ("storage_read_bytes_limit_per_s", "storage_writes_limit_per_s"):
        assert watch.missing(name)


def process_in_groups(
    monkeypatch: pytest.MonkeyPatch, root: Path, membership: str, files: dict[str, str]
) -> None:
    """Make process 7 a member of control groups with such files."""
    (root / "proc" / "7").mkdir(parents=True)
    (root / "proc" / "7" / "cgroup").write_text(membership)
    for name, text in files.items():
        (root / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "cgroup" / name).write_text(text)
    monkeypatch.setattr("pgdrag.collectors._proc.PROC", root / "proc")
    monkeypatch.setattr(cgroups, "CGROUPS", root / "cgroup")


def test_of_nested_groups_the_one_with_least_left_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {
        "pod/memory.max": "1000\n",
        "pod/memory.current": "990\n",
        "pod/server/memory.max": "500\n",
        "pod/server/memory.current": "100\n",
        "pod/server/inner/memory.max": "max\n",
        "pod/server/inner/memory.current": "100\n",
        "pod/io.max": "8:0 rbps=1000 wbps=max riops=max wiops=9\n8:16 rbps=1 wbps=1\n",
        "pod/server/io.max": "8:0 rbps=2000 wbps=max riops=max wiops=5\n",
    }
    process_in_groups(monkeypatch, tmp_path, "0::/pod/server/inner\n", files)
    assert memory_limit(7) == MemoryLimit(1000, 990)
    assert io_limits(7, "8:0") == {"rbps": 1000, "wiops": 5}
    assert io_limits(7, "8:32") == {}


def test_groups_of_version_1_have_a_tree_for_each_resource(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {
        "memory/a/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/a/memory.usage_in_bytes": "300\n",
        "memory/a/b/memory.limit_in_bytes": "4096\n",
        "memory/a/b/memory.usage_in_bytes": "300\n",
        "blkio/c/blkio.throttle.write_bps_device": "8:0 1048576\n8:16 1\n",
        **{
            f"blkio/c/blkio.throttle.{x}_device": ""
            for x in ("read_bps", "read_iops", "write_iops")
        },
    }
    membership = "4:memory:/a/b\n7:blkio:/c\n1:cpu:/\n0::/\n"
    process_in_groups(monkeypatch, tmp_path, membership, files)
    assert memory_limit(7) == MemoryLimit(4096, 300)
    assert io_limits(7, "8:0") == {"wbps": 1048576}
    process_in_groups(monkeypatch, tmp_path / "other", "4:memory:/a\n", files)
    with pytest.raises(Unseen, match="no control group limits the server's memory"):
        memory_limit(7)


STAT_1 = "cache 1\nshmem 1\ntotal_cache 900\ntotal_shmem 300\ntotal_workingset_refault_file 7\n"
STAT_2 = "anon 5\nfile 900\nshmem 300\nworkingset_refault_file 7\n"


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        (
            "4:memory:/a\n",
            {
                "memory/a/memory.limit_in_bytes": "4096",
                "memory/a/memory.usage_in_bytes": "2000",
                "memory/a/memory.stat": STAT_1,
            },
        ),
        (
            "0::/a\n",
            {"a/memory.max": "4096", "a/memory.current": "2000", "a/memory.stat": STAT_2},
        ),
    ],
    ids=["version 1", "version 2"],
)
def test_page_cache_is_told_without_shared_memory_by_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, membership: str, files: dict[str, str]
) -> None:
    process_in_groups(monkeypatch, tmp_path, membership, files)
    assert memory_limit(7) == MemoryLimit(4096, 2000, page_cache_bytes=600, refaults=7)


# disk


@on_disk
def test_the_disk_of_the_data_directory_has_a_number(shared_cluster: Cluster) -> None:
    try:
        device = device_of(shared_cluster.data_directory)
    except Unseen as unseen:
        pytest.skip(unseen.reason)
    major, _, minor = device.disk.number.partition(":")
    assert int(major) > 0
    assert int(minor) >= 0


@on_disk
def test_bytes_written_through_to_storage_are_the_devices(shared_cluster: Cluster) -> None:
    try:
        device = device_of(shared_cluster.data_directory)
    except Unseen as unseen:
        pytest.skip(unseen.reason)
    size = 16 << 20
    file = shared_cluster.data_directory.parent / "ballast"
    with watching(Disk(), shared_cluster) as watch:
        with file.open("wb") as out:
            out.write(os.urandom(size))
            out.flush()
            os.fsync(out.fileno())
        watch.committed = 4
    file.unlink()
    assert watch["disk_written_bytes_per_transaction"] >= size / 4
    assert watch["disk_writes_per_transaction"] > 0
    assert watch["disk_write_wait_s"] > 0
    assert 0 < watch["disk_busy_share"] <= 1
    assert watch["disk_queue_length"] > 0
    assert watch.detail("disk_busy_share") == f"Of {device.disk.name}."


@pytest.fixture
def loop_mount(tmp_path: Path, host_alone: UndoJournal) -> Iterator[tuple[str, Path]]:
    """A small file system on a loop device: the device's name, and where it is mounted."""
    file, place = tmp_path / "device", tmp_path / "mounted"
    place.mkdir()
    with file.open("wb") as out:
        out.truncate(64 << 20)
    try:
        told = subprocess.run(
            ["losetup", "--find", "--show", file], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loop device can be made here: {error}")
    device = told.stdout.strip()
    try:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        subprocess.run(["mount", device, place], check=True)
        try:
            yield device.removeprefix("/dev/"), place
        finally:
            subprocess.run(["umount", place], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def test_a_loop_device_is_accounted_as_any_other_and_says_what_it_lies_on(
    loop_mount: tuple[str, Path], shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, place = loop_mount
    monkeypatch.setattr(shared_cluster, "data_directory", place)
    collector = Disk()
    with (
        shared_cluster.connect() as connection,
        watching(collector, shared_cluster) as watch,
    ):
        observer = Observer(shared_cluster, connection)
        collector.sample(observer)
        with (place / "ballast").open("wb") as out:
            out.write(os.urandom(8 << 20))
            out.flush()
            os.fsync(out.fileno())
        collector.sample(observer)
    assert watch["disk_written_bytes_per_transaction"] >= 8 << 20
    assert watch.detail("disk_busy_share").startswith(f"Of {device}, a file on ")
    assert watch.detail("disk_busy_share").endswith(" the page cache.")
    assert 0 <= watch["physical_disk_busy_share"] <= 1
    drawn = {one.name: one.values for one in watch.series}
    assert drawn["disk_written_bytes_per_s"][0] > 0
    assert drawn["disk_write_wait_s"][0] > 0
    assert drawn["disk_read_wait_s"][0] >= 0
    assert drawn["disk_busy_share"][0] > 0


def test_a_file_system_in_memory_is_on_no_device() -> None:
    with pytest.raises(Unseen, match=r"\(tmpfs\) is on no block device"):
        device_of(Path("/dev/shm"))
