"""Factors of the operating system on the real kernel: harmless values, and disks of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from loads import PACED

from conftest import on_disk
from pgdrag.existing.operating_system import host_in_force
from pgdrag.factors import Factor, all_factors
from pgdrag.factors._devices import disk_under
from pgdrag.factors.huge_pages import HugePages
from pgdrag.host.undo import UndoJournal, take_warnings
from pgdrag.host.undo.written_value import shown_value, write_value
from pgdrag.model import Applied, Level, LoadProfile, Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.trial import ServerTrialRunner

PRESSURE = Path("/proc/sys/vm/vfs_cache_pressure")
RATIO = Path("/proc/sys/vm/dirty_ratio")
BYTES = Path("/proc/sys/vm/dirty_bytes")
# Not what the kernel has: tests that were killed may have left one of them.
PRESSED, PRESSED_MORE = [x for x in ("93", "94", "95") if x != shown_value(PRESSURE)][:2]
POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")


@dataclass(frozen=True)
class Place:
    """What these factors need to know of a cluster."""

    data_directory: Path

    def stop(self, *, fast_timeout_s: float) -> None:
        """Do as if a server ended."""


@dataclass(frozen=True)
class Device:
    """A disk of the test's own, with a file system on it."""

    path: Path
    mount_point: Path

    @property
    def queue(self) -> Path:
        """Its attributes."""
        return Path("/sys/block") / self.path.name / "queue"


@contextmanager
def loop_device(directory: Path, file_system: str) -> Iterator[Device]:
    """A loop device with a file system that is mounted."""
    if shutil.which(f"mkfs.{file_system}") is None:
        pytest.skip(f"no mkfs.{file_system}")
    backing, mount_point = directory / "disk", directory / "mounted"
    mount_point.mkdir()
    with backing.open("wb") as file:
        file.truncate(128 << 20)
    made = subprocess.run(
        ["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    path = Path(made.stdout.strip())
    try:
        subprocess.run([f"mkfs.{file_system}", "-q", str(path)], check=True)
        subprocess.run(["mount", "-t", file_system, str(path), str(mount_point)], check=True)
        yield Device(path, mount_point)
    finally:
        subprocess.run(["umount", str(mount_point)], check=False)
        subprocess.run(["losetup", "--detach", str(path)], check=True)


@pytest.fixture
def device(host_alone: UndoJournal, tmp_path: Path) -> Iterator[Device]:
    """A disk of the test's own."""
    with loop_device(tmp_path, "ext4") as device:
        yield device


def attributes(queue: Path) -> dict[str, str]:
    """Return all that a queue shows."""
    files = [path for path in sorted(queue.rglob("*")) if path.is_file()]
    shown = {}
    for path in files:
        try:
            shown[str(path)] = path.read_text()
        except OSError as error:
            shown[str(path)] = str(error.errno)
    return shown


def applied(factor: Factor, place: object, levels: dict[str, str]) -> list[Applied]:
    """Apply levels and read them back; they are still in force."""
    factor.before_start(place, levels)  # type: ignore[arg-type]
    return factor.read_back(place, levels)  # type: ignore[arg-type]


def undone(factor: Factor, place: object) -> list[str]:
    """Undo what was applied, and return what could not be."""
    factor.undo(place)  # type: ignore[arg-type]
    return take_warnings()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_writing_one_of_a_pair_sets_the_other_and_both_come_back(host_alone, place):
    before = RATIO.read_text(), BYTES.read_text()
    factor = all_factors()["sysctl"]()
    (found,) = applied(factor, place, {"vm.dirty_bytes": "1073741824"})
    assert (found.effective, found.note, found.default) == ("1073741824", "", before[1].strip())
    assert RATIO.read_text() == "0\n"
    assert undone(factor, place) == []
    assert (RATIO.read_text(), BYTES.read_text()) == before


def test_a_pair_comes_back_where_bytes_were_in_force(host_alone, place):
    first, second = all_factors()["sysctl"](), all_factors()["sysctl"]()
    applied(first, place, {"vm.dirty_bytes": "1073741824"})
    (found,) = applied(second, place, {"vm.dirty_ratio": "17"})
    assert (found.effective, BYTES.read_text()) == ("17", "0\n")
    assert undone(second, place) == []
    assert (RATIO.read_text(), BYTES.read_text()) == ("0\n", "1073741824\n")
    assert undone(first, place) == []


def test_what_the_kernel_refuses_is_not_applied_and_the_rest_is(host_alone, place):
    before = PRESSURE.read_text(), shown_value(Path("/proc/sys/vm/dirty_background_ratio"))
    factor = all_factors()["sysctl"]()
    levels = {"vm.dirty_background_ratio": "4000", "vm.vfs_cache_pressure": PRESSED}
    refused, taken = applied(factor, place, levels)
    assert refused == Applied(
        Level("sysctl", "vm.dirty_background_ratio", "4000"),
        None,
        "the kernel refuses it: invalid argument",
        before[1],
    )
    assert (taken.effective, taken.note) == (PRESSED, "")
    assert undone(factor, place) == []
    assert (
        PRESSURE.read_text(),
        shown_value(Path("/proc/sys/vm/dirty_background_ratio")),
    ) == before


def test_what_somebody_else_changed_meanwhile_is_told_and_left(host_alone, place):
    before = shown_value(PRESSURE)
    factor = all_factors()["sysctl"]()
    applied(factor, place, {"vm.vfs_cache_pressure": PRESSED})
    write_value(PRESSURE, PRESSED_MORE)
    (doubt,) = undone(factor, place)
    assert f"{PRESSURE} is {PRESSED_MORE}: someone else has changed it" in doubt
    assert shown_value(PRESSURE) == PRESSED_MORE
    host_alone.restore_all(overwrite=True)
    assert shown_value(PRESSURE) == before


def test_a_scheduler_and_what_it_sets_anew_come_back(device):
    write_value(device.queue / "nr_requests", "100")
    before = attributes(device.queue)
    place, factor = Place(device.mount_point), all_factors()["block_device"]()
    levels = {"read_ahead_kb": "256", "nr_requests": "64", "scheduler": "mq-deadline"}
    found = {x.level.name: x for x in applied(factor, place, levels)}
    if found["scheduler"].effective is None:
        pytest.skip(f"no mq-deadline: {found['scheduler'].note}")
    assert {name: x.effective for name, x in found.items()} == levels
    assert found["nr_requests"].default == "100"
    assert attributes(device.queue) != before
    assert undone(factor, place) == []
    assert attributes(device.queue) == before


def test_a_tuned_scheduler_comes_back_as_it_was_tuned(device):
    write_value(device.queue / "scheduler", "mq-deadline")
    write_value(device.queue / "iosched" / "read_expire", "123")
    write_value(device.queue / "nr_requests", "70")
    before = attributes(device.queue)
    place, factor = Place(device.mount_point), all_factors()["block_device"]()
    (found,) = applied(factor, place, {"scheduler": "none"})
    assert found.effective == "none"
    assert undone(factor, place) == []
    assert attributes(device.queue) == before


def test_every_attribute_that_can_be_written_is_put_back(device):
    """Each with the value that it has, and one more where that is a number."""
    before = attributes(device.queue)
    place = Place(device.mount_point)
    for path in sorted(device.queue.iterdir()):
        if not path.is_file() or not path.stat().st_mode & 0o200 or path.name == "scheduler":
            continue
        factor = all_factors()["block_device"]()
        shown = shown_value(path)
        wanted = str(int(shown) + 1) if shown.isdecimal() else shown
        applied(factor, place, {path.name: wanted})
        assert undone(factor, place) == [], path.name
    assert attributes(device.queue) == before


def test_btrfs_reads_ahead_by_a_value_of_its_own_which_is_set_too(host_alone, tmp_path):
    with loop_device(tmp_path, "btrfs") as device:
        own, queue = disk_under(device.mount_point).readers()[::-1]
        before = shown_value(own), shown_value(queue)
        assert own.parent.name == "bdi"
        place, factor = Place(device.mount_point), all_factors()["block_device"]()
        (found,) = applied(factor, place, {"read_ahead_kb": "252"})
        assert (found.effective, found.note) == ("252", "")
        assert (shown_value(own), shown_value(queue)) == ("252", "252")
        assert undone(factor, place) == []
        assert (shown_value(own), shown_value(queue)) == before


def test_the_disk_under_a_directory_is_named_by_its_path_or_its_mount_point(device):
    disk = disk_under(device.mount_point)
    assert not isinstance(disk, str)
    assert disk.queue.resolve() == device.queue.resolve()
    assert disk.is_named_in({str(device.path)})
    assert disk.is_named_in({str(device.mount_point)})
    assert not disk.is_named_in({"/dev/null", "vm.swappiness", "/nowhere"})


@on_disk
def test_the_disk_of_somebody_is_changed_with_consent_only(bench: ServerTrialRunner):
    level = Level("block_device", "read_ahead_kb", "256")
    if isinstance(disk := disk_under(bench.scratch.root), str):
        pytest.skip(disk)
    if os.geteuid() != 0:
        pytest.skip("only root may change a disk")
    (problem,) = bench.check([level])
    assert f"of {disk.path} is not changed without consent" in problem.message
    assert f"--allow-change {disk.path}" in problem.hint
    assert not problem.is_mistake
    allowed = replace(bench.here, allowed=frozenset({str(disk.path)}))
    assert all_factors()["block_device"]().check([level], allowed) == []


def test_fewer_huge_pages_than_asked_for_are_told(host_alone, place, monkeypatch, tmp_path):
    """No machine gives as many as this, and none is asked: the file only looks like the kernel's."""
    pool = tmp_path / "hugepages-2048kB"
    pool.mkdir()
    (pool / "nr_hugepages").write_text("0\n")
    monkeypatch.setattr("pgdrag.factors.huge_pages.ROOT", tmp_path)
    monkeypatch.setattr("pgdrag.host.undo.written_value.PLACES", (f"{tmp_path}/",))
    monkeypatch.setattr(
        "pgdrag.factors.kernel_files.write_value", lambda path, value: write_value(path, "212")
    )
    (found,) = applied(HugePages(), place, {"hugepages-2048kB": "300"})
    assert (found.effective, found.note) == ("212", "the kernel found 212 of 300 pages")


def test_a_trial_has_its_levels_and_the_kernel_has_them_no_longer(
    host_alone, bench: ServerTrialRunner
):
    before = shown_value(PRESSURE), shown_value(POOL)
    levels = (
        Level("sysctl", "vm.vfs_cache_pressure", PRESSED),
        Level("sysctl", "net.core.somaxconn", "4097"),
        Level("cpu_governor", "scaling_governor", "performance"),
        Level("huge_pages", "hugepages-2048kB", "3"),
        Level("transparent_hugepage", "khugepaged/max_ptes_swap", "61"),
    )
    trial = Trial(
        number=1,
        block=1,
        replicate=1,
        treatment=Treatment("tuned", levels),
        workload=WorkloadSpec("pgbench", {"scale": 1}),
        load=LoadProfile(connections=1, warm_up_s=0, measure_s=1, budget_s=1, pacing=PACED),
        seed=1,
    )
    result = bench.run(trial, lambda event: None)
    assert result.outcome is Outcome.MEASURED, result.reason
    found = {x.level.name: x.effective for x in result.applied}
    assert found["vm.vfs_cache_pressure"] == PRESSED
    assert found["hugepages-2048kB"] == "3"
    assert found["khugepaged/max_ptes_swap"] == "61"
    assert found["net.core.somaxconn"] is None
    assert [x for x in result.warnings if "put back" in x or "changed" in x] == []
    assert host_alone.steps() == []
    assert (shown_value(PRESSURE), shown_value(POOL)) == before


def test_the_disk_under_an_existing_servers_data_is_changed_and_put_back(device):
    before = attributes(device.queue)
    level = Level("block_device", "read_ahead_kb", "512")
    with host_in_force(str(device.mount_point), [level]) as shown:
        assert [(x.level, x.effective) for x in shown] == [(level, "512")]
        assert shown_value(device.queue / "read_ahead_kb") == "512"
    assert attributes(device.queue) == before
    assert take_warnings() == []
