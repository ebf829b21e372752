"""Volumes of device-mapper and RAIDs lead down to their disks, and each attribute is set where it has its effect.

On a tree of files that looks like /sys: few machines that run tests have such volumes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pgdrag.collectors import Unseen, Window
from pgdrag.collectors import disk as disk_collector
from pgdrag.errors import UsageError
from pgdrag.factors import Here, Problem, all_factors
from pgdrag.factors._devices import Disk
from pgdrag.host import block_devices, mounts
from pgdrag.host.block_devices import Device, device_at, device_under
from pgdrag.host.undo import UNDO_VARIABLE, UndoJournal, take_warnings
from pgdrag.model import Level
from pgdrag.servers.real_device import refuse_strange_device
from pgdrag.servers.settings import SettingsCatalog

pytestmark = pytest.mark.usefixtures("any_value")
NOTHING = SettingsCatalog(180000, {})
# Name: number, slaves, whether it has a queue of requests, name and UUID for device-mapper.
DEVICES: dict[str, tuple[str, list[str], bool, str, str]] = {
    "sda": ("8:0", [], True, "", ""),
    "sda/sda3": ("8:3", [], False, "", ""),
    "sdb": ("8:16", [], True, "", ""),
    "dm-1": ("253:1", ["sda/sda3"], False, "luks-home", "CRYPT-LUKS2-1-luks-home"),
    "dm-0": ("253:0", ["dm-1", "sdb"], False, "vg-data", "LVM-abc"),
    "dm-2": ("253:2", ["sda", "sdb"], True, "mpatha", "mpath-360"),
    "dm-3": ("253:3", ["sda/sda3"], False, "zero", ""),
    "md0": ("9:0", ["sda", "sdb"], False, "", ""),
}
NAMES = {
    **{f"/dev/{place.rpartition('/')[2]}": found[0] for place, found in DEVICES.items()},
    "/dev/mapper/vg-data": "253:0",
    "/dev/vg/data": "253:0",
}
QUEUED = {"scheduler": "[none] mq-deadline", "nr_requests": "256", "wbt_lat_usec": "75000"}
OF_ANY = {"read_ahead_kb": "128", "max_sectors_kb": "1280"}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The devices in a directory of their own; what has no queue of requests has no attributes of one."""
    by_number = tmp_path / "by-number"
    by_number.mkdir()
    for place, (number, slaves, has_queue, name, uuid) in DEVICES.items():
        at = tmp_path / "devices" / place
        (at / "slaves").mkdir(parents=True)
        (at / "dev").write_text(f"{number}\n")
        for slave in slaves:
            (at / "slaves" / slave.rpartition("/")[2]).symlink_to(tmp_path / "devices" / slave)
        if "/" in place:
            (at / "partition").write_text("3\n")
        else:
            (at / "queue").mkdir()
            for file, text in {**OF_ANY, **(QUEUED if has_queue else {})}.items():
                (at / "queue" / file).write_text(f"{text}\n")
        if has_queue:
            (at / "mq").mkdir()
        if name:
            (at / "dm").mkdir()
            (at / "dm/name").write_text(f"{name}\n")
            (at / "dm/uuid").write_text(f"{uuid}\n")
        if place == "md0":
            (at / "md").mkdir()
        (by_number / number).symlink_to(at)
    monkeypatch.setattr(block_devices, "_BY_NUMBER", by_number)
    monkeypatch.setattr(mounts, "_BY_NUMBER", by_number)
    for module in ("host.block_devices", "factors._devices", "servers.real_device"):
        monkeypatch.setattr(f"pgdrag.{module}.number_of", NAMES.get)
    monkeypatch.setenv(UNDO_VARIABLE, str(tmp_path / "undo"))
    return tmp_path


def device(path: str) -> Device:
    found = device_at(path)
    assert isinstance(found, Device), found
    return found


@pytest.mark.parametrize(
    ("path", "disks"),
    [
        ("/dev/sda", ["sda"]),
        ("/dev/sda3", ["sda"]),
        ("/dev/dm-1", ["sda"]),
        ("/dev/vg/data", ["sda", "sdb"]),
        ("/dev/dm-2", ["dm-2"]),  # multipath queues requests itself
        ("/dev/md0", ["sda", "sdb"]),
    ],
)
def test_requests_are_queued_at_the_disks_below(machine: Path, path: str, disks: list[str]) -> None:
    assert [disk.name for disk in device(path).physical] == disks


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/dev/sda3", "/dev/sda3"),
        ("/dev/dm-0", "/dev/mapper/vg-data (LVM on /dev/mapper/luks-home, /dev/sdb)"),
        ("/dev/dm-1", "/dev/mapper/luks-home (dm-crypt on /dev/sda3)"),
        ("/dev/dm-2", "/dev/mapper/mpatha (multipath on /dev/sda, /dev/sdb)"),
        ("/dev/dm-3", "/dev/mapper/zero (device-mapper on /dev/sda3)"),
        ("/dev/md0", "/dev/md0 (RAID on /dev/sda, /dev/sdb)"),
    ],
)
def test_a_volume_is_named_as_people_know_it(machine: Path, path: str, words: str) -> None:
    assert device(path).words == words


@pytest.mark.parametrize(
    "path", ["/dev/null", "/etc/passwd", "/no/such/thing", "/dev/sd\0a", "sda"]
)
def test_what_is_no_block_device_has_no_number(path: str) -> None:
    """Character devices have numbers, too: that of /dev/null is /dev/ram3's among disks."""
    assert block_devices.number_of(path) is None


def test_the_device_under_a_directory_is_found_by_the_number_of_its_files(machine: Path) -> None:
    number = block_devices._written(machine.stat().st_dev)
    (machine / "by-number" / number).symlink_to(machine / "devices/dm-0")
    found = device_under(machine)
    # Of a file system without a device's number (btrfs, overlay), the number is not the directory's.
    assert isinstance(found, str) or found.name == "dm-0"


def test_what_sys_does_not_show_is_no_device(machine: Path) -> None:
    (machine / "by-number/253:0").unlink()
    assert device_at("/dev/vg/data") == 'the kernel does not show the disk of "/dev/vg/data"'
    assert device_at("/dev/null") == '"/dev/null" is not a block device'


@pytest.mark.parametrize(
    ("attribute", "disks"),
    [
        ("read_ahead_kb", ["dm-0"]),
        ("scheduler", ["sda", "sdb"]),
        ("nr_requests", ["sda", "sdb"]),
        ("max_sectors_kb", ["dm-0", "sda", "sdb"]),
    ],
)
def test_an_attribute_is_set_where_it_has_its_effect(
    machine: Path, attribute: str, disks: list[str]
) -> None:
    volume = Disk.of(device("/dev/vg/data"))
    assert [disk.device.name for disk in volume.tuned_by(attribute)] == disks


@pytest.fixture
def on_volume(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Problem | None]:
    """Ask whether a level of the volume's queue can be had; `allowed` is what the command line allows."""
    volume = Disk.of(device("/dev/vg/data"), "/data")
    monkeypatch.setattr("pgdrag.factors.block_device.disk_under", lambda directory: volume)
    monkeypatch.setattr("pgdrag.factors.block_device.disk_at", lambda path: volume)
    monkeypatch.setattr("os.geteuid", lambda: 0)

    def ask(name: str, value: str, *allowed: str, **storage: str) -> Problem | None:
        here = Here(NOTHING, NOTHING, Path("/data"), frozenset(allowed), storage=storage)
        found = all_factors()["block_device"]().check([Level("block_device", name, value)], here)
        return found[0] if found else None

    return ask


def test_read_ahead_of_a_volume_needs_consent_to_the_volume(on_volume) -> None:
    problem = on_volume("read_ahead_kb", "4096")
    assert problem.message == (
        '"read_ahead_kb" of /dev/mapper/vg-data is not changed without consent'
    )
    assert problem.hint.endswith("--allow-change /dev/mapper/vg-data")
    for name in ("/dev/mapper/vg-data", "/dev/vg/data", "/dev/dm-0", "/data"):
        assert on_volume("read_ahead_kb", "4096", name) is None


def test_a_queue_below_a_volume_needs_consent_to_each_disk(on_volume) -> None:
    """Others may be on the same disk: consent to the volume is none to what is below."""
    problem = on_volume("scheduler", "mq-deadline", "/dev/vg/data", "/data")
    assert problem.message == '"scheduler" of /dev/sda and /dev/sdb is not changed without consent'
    assert problem.hint == (
        "The data are on /dev/mapper/vg-data (LVM on /dev/mapper/luks-home, /dev/sdb), which passes requests on: this "
        "attribute has its effect there, and on all that is on the same disk. To allow it, add "
        "--allow-change /dev/sda --allow-change /dev/sdb"
    )
    problem = on_volume("scheduler", "mq-deadline", "/dev/sdb")
    assert problem.message.startswith('"scheduler" of /dev/sda is not')
    # A partition stands for its disk, as without a volume.
    assert on_volume("scheduler", "mq-deadline", "/dev/sda3", "/dev/sdb") is None


def test_a_volume_of_a_storages_own_is_no_consent_to_the_disks_below(on_volume) -> None:
    own = {"device": "/dev/vg/data"}
    assert on_volume("read_ahead_kb", "4096", **own) is None
    assert on_volume("scheduler", "mq-deadline", **own) is not None


def test_what_a_disk_below_does_not_have_is_told_of_that_disk(machine: Path, on_volume) -> None:
    (machine / "devices/sdb/queue/wbt_lat_usec").unlink()
    problem = on_volume("wbt_lat_usec", "0", "/dev/sda", "/dev/sdb")
    assert problem.message == 'block device attribute "wbt_lat_usec" is not in this kernel'
    assert problem.hint == f"There is no {machine}/devices/sdb/queue/wbt_lat_usec."


class Cluster:
    data_directory = Path("/data")


def test_levels_are_written_to_the_disks_below_and_put_back(machine: Path, on_volume) -> None:
    factor = all_factors()["block_device"]()
    levels = {"scheduler": "mq-deadline", "nr_requests": "64", "read_ahead_kb": "4096"}

    def shown(name: str) -> list[str]:
        files = (machine / "devices" / disk / "queue" / name for disk in ("dm-0", "sda", "sdb"))
        return [file.read_text().strip() for file in files if file.exists()]

    factor.before_start(Cluster(), levels)
    found = {one.level.name: one for one in factor.read_back(Cluster(), levels)}
    assert {name: (one.effective, one.note) for name, one in found.items()} == {
        name: (value, "") for name, value in levels.items()
    }
    assert found["scheduler"].how.startswith(
        "at /dev/sda, /dev/sdb; the data are on /dev/mapper/vg-"
    )
    assert found["read_ahead_kb"].how.startswith("at /dev/mapper/vg-data; ")
    assert shown("scheduler") == ["mq-deadline"] * 2
    assert shown("read_ahead_kb") == ["4096", "128", "128"]
    factor.undo(Cluster())
    assert shown("scheduler") == ["none"] * 2
    assert shown("nr_requests") == ["256"] * 2
    assert shown("read_ahead_kb") == ["128"] * 3
    assert take_warnings() == []
    UndoJournal.open().release()


def test_options_of_ext4_are_read_under_the_kernels_name_of_a_volume(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "_EXT4", machine / "ext4")
    (machine / "ext4/dm-0").mkdir(parents=True)
    (machine / "ext4/dm-0/options").write_text("rw\ndata=ordered\ncommit=5\n")
    found = mounts.Mount(Path("/data"), "/dev/mapper/vg-data", "ext4", "253:0", ("rw",), ("rw",))
    assert found.state_of("data=writeback") == "data=ordered"
    assert found.state_of("commit=60") == "commit=5"


@pytest.mark.parametrize("allowed", ["/dev/vg/data", "/dev/dm-0", "/dev/mapper/vg-data"])
def test_a_storage_may_take_a_volume_that_is_allowed_by_any_of_its_names(
    machine: Path, monkeypatch: pytest.MonkeyPatch, allowed: str
) -> None:
    monkeypatch.setattr(Path, "is_block_device", lambda self: str(self) in NAMES)
    refuse_strange_device(Path("/dev/mapper/vg-data"), allowed=frozenset({allowed}))
    for others in ({"/dev/sda"}, {"vm.swappiness"}, set()):
        with pytest.raises(UsageError, match="is not pgdrag's to use"):
            refuse_strange_device(Path("/dev/mapper/vg-data"), allowed=frozenset(others))


class Account:
    """What the kernel counts of a device."""

    read_count = write_count = read_bytes = write_bytes = read_time = write_time = 0

    def __init__(self, busy_time: int) -> None:
        self.busy_time = busy_time


class Observer:
    cluster = Cluster

    def postmaster(self) -> int:
        return 1


def test_the_evidence_of_a_volume_names_its_disks_and_how_busy_they_are(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = disk_collector.Disk()
    monkeypatch.setattr(disk_collector, "device_under", lambda directory: device("/dev/vg/data"))
    readings = ({"dm-0": 0, "sda": 0, "sdb": 0}, {"dm-0": 300, "sda": 400, "sdb": 100})
    before, after = ({x: Account(ms) for x, ms in each.items()} for each in readings)
    monkeypatch.setattr("psutil.disk_io_counters", lambda **_: before)
    collector._before = collector.read(Observer())
    monkeypatch.setattr("psutil.disk_io_counters", lambda **_: after)
    collector._after, collector.observed_s = collector.read(Observer()), 1.0
    seen = {one.name: one for one in collector.observations(Window(1.0, 1, 0.0, 1.0))}
    assert seen["disk_busy_share"].value == 0.3
    assert seen["disk_busy_share"].detail == f"Of dm-0, {device('/dev/vg/data').words}."
    assert seen["physical_disk_busy_share"].value == 0.4
    assert seen["physical_disk_busy_share"].detail == (
        "Others may use these disks, too: sda 40%, sdb 10%."
    )


def test_a_file_system_on_no_device_has_no_evidence() -> None:
    with pytest.raises(Unseen, match=r"on no block device$"):
        disk_collector.device_of(Path("/proc"))
