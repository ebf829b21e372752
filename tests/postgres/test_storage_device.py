"""A scratch device: made as it was asked for, looked after, taken away whatever happened to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from devices import (
    backing_file,
    delete_file,
    detach_under_lazy_unmount,
    every_file_system,
    fill_device,
    left_of_devices,
    lose_mount,
    make_read_only,
    mounts_of,
    needs_devices,
    needs_mkfs,
    stop_writing,
    truncate_file,
)

from pgdrag.errors import ScratchDeviceError, StorageError, UsageError
from pgdrag.host.loop_devices import attach, detach, devices_on, uses_direct_io
from pgdrag.host.mounts import kernel_messages, mount, mount_at, remount, unmount
from pgdrag.host.programs import find_program, run_program
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo.remount import Remount
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.storage import ScratchDevice
from pgdrag.servers.storage_spec import StorageSpec
from pgdrag.servers.sweep import sweep_devices
from stand_ins import NO_GUARDIAN

pytestmark = needs_devices

SIZE = 320 * 2**20  # xfs has no smaller ones


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[UndoJournal]:
    journal = UndoJournal.open(tmp_path / "undo")
    yield journal
    journal.close()


@pytest.fixture
def base(open_directory: Path) -> Iterator[Scratch]:
    base = Scratch.open(open_directory / "devices")
    yield base
    assert left_of_devices(base) == []


@pytest.fixture
def make(base: Scratch, journal: UndoJournal) -> Iterator[Callable[..., ScratchDevice]]:
    made = []

    def make(**levels: str) -> ScratchDevice:
        needs_mkfs(levels.get("file_system", "ext4"))
        spec = StorageSpec.of({"size": f"{SIZE}", **levels})
        assert spec is not None
        made.append(ScratchDevice.make(spec, base, journal))
        return made[-1]

    yield make
    for device in made:
        device.remove()


@pytest.mark.parametrize("file_system", every_file_system())
def test_a_device_has_its_file_system_and_leaves_nothing(make, base, journal, file_system):
    device = make(file_system=file_system)
    (found,) = mounts_of(base)
    assert (found.mount_point, found.file_system) == (device.mount_point, file_system)
    assert device.scratch.root == device.mount_point
    device.refuse_spoilt()
    assert [step.change.name for step in journal.steps()] == ["made_file", "loop_device", "mounted"]
    device.remove()
    assert left_of_devices(base) == []
    assert journal.steps() == []


def test_nothing_on_a_device_is_a_way_to_become_root(make):
    """Also mounted afresh with options of a treatment's own."""
    device = make()
    for options in ([], ["noatime"]):
        device.mount_with(options)
        found = mount_at(device.mount_point)
        assert found is not None
        assert {"nosuid", "nodev"} <= set(found.options)


def test_a_device_that_is_mounted_without_the_deciding_options_is_refused(make, monkeypatch):
    monkeypatch.setattr(
        "pgdrag.servers.storage.mount",
        lambda device, place, kind, options: mount(device, place, kind, options[:-2]),
    )
    with pytest.raises(ScratchDeviceError, match="it is mounted without nosuid,nodev"):
        make()


def test_all_of_its_room_is_taken_beforehand_and_stays_so(make):
    device = make()
    # mkfs gives blocks back to the disk below unless it is told not to.
    assert backing_file(device.mount_point).stat().st_blocks * 512 >= SIZE


def test_direct_io_is_as_asked_for_where_the_disk_can(make):
    assert not uses_direct_io(make(direct_io="off").block_device)
    device = make(direct_io="on")
    assert uses_direct_io(device.block_device) == (device.notes == ())


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ({"mkfs_options": "-O nonsense"}, "could not make 320 MB of ext4"),
        ({"file_system": "xfs", "size": "200MB"}, "could not make 200 MB of xfs"),
    ],
)
def test_what_mkfs_refuses_is_told_and_leaves_nothing(make, base, levels, words):
    with pytest.raises(ScratchDeviceError, match=words):
        make(**levels)
    assert left_of_devices(base) == []


def test_options_of_mkfs_are_added_to_ours(make):
    device = make(mkfs_options="-E stride=16 -b 1024 -L 'by pgdrag'")
    said = run_program("dumpe2fs", "-h", device.block_device).output
    assert "RAID stride:              16" in said
    assert "by pgdrag" in said
    assert os.statvfs(device.mount_point).f_bsize == 1024


def test_a_disk_without_room_for_it_is_no_fault_of_the_treatment(make, base):
    with pytest.raises(StorageError, match="it needs 1,000 TB, and") as raised:
        make(size="1000TB")
    assert not isinstance(raised.value, ScratchDeviceError)
    assert left_of_devices(base) == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lose_mount, "has vanished: nothing of it is mounted at"),
        (detach_under_lazy_unmount, "has vanished: nothing of it is mounted at"),
        (truncate_file, "has vanished: its file was truncated to 0 B of 320 MB"),
        (delete_file, "has vanished: "),
        (stop_writing, r"is read-only: ext4 has given up writing \("),
        (make_read_only, "is read-only: it was remounted so"),
        (fill_device, r"is full: .* of 2\d\d MB free"),
    ],
)
def test_what_is_wrong_with_it_has_a_word_and_it_can_still_be_removed(make, base, spoil, words):
    device = make()
    spoil(device.mount_point)
    with pytest.raises(ScratchDeviceError, match=f"the scratch device {words}"):
        device.refuse_spoilt()
    device.remove()
    assert left_of_devices(base) == []


@pytest.fixture
def plain_disk(open_directory: Path) -> Iterator[Path]:
    """The mount point of a file system that cannot reserve blocks beforehand (ext2)."""
    file, place = open_directory / "plain-disk", open_directory / "plain"
    with file.open("wb") as opened:
        opened.truncate(2 * SIZE)
    place.mkdir()
    device = attach(file, direct_io=False)
    assert run_program("mkfs.ext2", "-q", "-F", "-m", "0", device).succeeded
    if (refusal := mount(device, place, "ext2", ())) is not None:
        detach(device)
        pytest.skip(f"this kernel does not mount ext2: {refusal}")
    yield place
    assert unmount(place, or_hide=False) is None
    assert detach(device) is None
    file.unlink()
    place.rmdir()


def write_through(path: Path, count: int) -> None:
    with path.open("wb", buffering=0) as file:
        file.write(bytes(count))
        os.fsync(file.fileno())


def test_a_disk_that_runs_full_under_a_sparse_device_is_no_fault_of_the_treatment(
    plain_disk, journal
):
    spec = StorageSpec.of({"size": f"{SIZE}"})
    assert spec is not None
    device = ScratchDevice.make(spec, Scratch.open(plain_disk / "scratch"), journal)
    try:
        assert any("cannot reserve room" in note for note in device.notes)
        fill_device(plain_disk)
        with pytest.raises(OSError, match=r"Errno (28|5)"):
            write_through(device.mount_point / "file", 100 * 2**20)
        with pytest.raises(StorageError, match="could not write to the scratch device") as raised:
            device.refuse_spoilt()
        assert not isinstance(raised.value, ScratchDeviceError)
    finally:
        device.remove()


def test_errors_elsewhere_are_not_put_down_to_it(make, base):
    device = make()
    elsewhere = StorageError("could not write", path=base.root)
    assert device.spoilt(elsewhere) is None
    assert device.spoilt(ValueError("ours")) is None
    here = StorageError("could not write", path=device.mount_point / "x", is_full=True)
    assert "the scratch device is full: " in str(device.spoilt(here))


def test_who_still_works_on_a_lost_device_is_ended_before_it_is_removed(make, base):
    device = make()
    assert base.user is not None
    place = device.mount_point / "work"
    device.scratch.make_private(place)
    with subprocess.Popen(
        ["sleep", "60"], cwd=place, user=base.user.uid, group=base.user.gid
    ) as process:
        lose_mount(device.mount_point)
        device.remove()
        assert process.wait(10) == -signal.SIGKILL


def test_a_device_in_use_by_a_person_goes_out_of_sight_and_with_them(make, base, journal):
    device = make()
    kept = os.open(device.mount_point, os.O_RDONLY)
    device.remove()
    assert mounts_of(base) == []
    os.close(kept)
    journal.restore_all()
    assert sweep_devices(base)
    assert left_of_devices(base) == []


@pytest.mark.parametrize(
    ("file_system", "options", "in_force"),
    [
        ("ext4", ["data=writeback", "commit=60"], ["data=writeback", "commit=60"]),
        ("ext4", ["no_such_option", "commit=60"], ["commit=60"]),
        ("xfs", ["logbsize=256k", "allocsize=1m"], ["logbsize=256k", "allocsize=1024k"]),
        ("btrfs", ["compress=zstd", "commit=60"], ["compress=zstd:3", "commit=60"]),
    ],
)
def test_it_is_mounted_afresh_with_options_of_its_file_system(make, file_system, options, in_force):
    device = make(file_system=file_system)
    before = mount_at(device.mount_point)
    (device.mount_point / "kept").write_text("as it was")
    device.mount_with(options)
    assert device.is_mounted_with(options)
    found = mount_at(device.mount_point)
    assert found is not None
    assert set(in_force) <= set(found.in_force.values())
    device.refuse_spoilt()
    assert (device.mount_point / "kept").read_text() == "as it was"
    device.mount_with([])
    assert mount_at(device.mount_point) == before or file_system == "btrfs"


def test_a_device_in_use_cannot_be_mounted_afresh(make):
    device = make()
    with (
        (device.mount_point / "file").open("w"),
        pytest.raises(
            ScratchDeviceError, match=r"the scratch device could not be mounted afresh: .*busy"
        ),
    ):
        device.mount_with(["commit=60"])


@pytest.mark.parametrize("file_system", every_file_system())
def test_options_are_remounted_and_put_back_exactly(make, journal, file_system):
    device = make(file_system=file_system)
    before = mount_at(device.mount_point)
    assert before is not None
    change = Remount(
        str(device.mount_point),
        before.source,
        {"atime": "relatime", "diratime": "diratime", "lazytime": "nolazytime"},
    )
    noted = journal.note(change)
    assert remount(before, ["noatime", "nodiratime", "lazytime"]).is_accepted
    found = mount_at(device.mount_point)
    assert found is not None
    assert {"noatime", "nodiratime"} <= set(found.options)
    assert "lazytime" in found.super_options
    assert journal.restore(noted).state == "restored"
    assert mount_at(device.mount_point) == before
    assert change.restore(overwrite=False).state == "already restored"


def test_an_option_that_somebody_else_changed_meanwhile_is_left(make):
    device = make()
    before = mount_at(device.mount_point)
    assert before is not None
    change = Remount(
        str(device.mount_point), before.source, {"atime": "relatime"}, {"atime": "noatime"}
    )
    remount(before, ["strictatime"])
    assert change.restore(overwrite=False).state == "changed since"
    assert change.restore(overwrite=True).state == "restored"
    assert mount_at(device.mount_point) == before
    device.remove()
    assert change.restore(overwrite=False).state == "gone"


def test_options_that_are_not_named_stay_as_they_are(make):
    device = make()
    found = mount_at(device.mount_point)
    assert found is not None
    for option in ("nodev", "nosuid", "commit=60", "strictatime", "lazytime"):
        found = mount_at(device.mount_point)
        assert found is not None
        assert remount(found, [option]).is_accepted
    found = mount_at(device.mount_point)
    assert found is not None
    assert {"nodev", "nosuid"} <= set(found.options)
    assert not {"relatime", "noatime"} & set(found.options)
    assert {"commit=60", "lazytime"} <= set(found.super_options)


def test_the_kernels_own_reason_is_told_where_its_log_can_be_read(make):
    device = make()
    found = mount_at(device.mount_point)
    assert found is not None
    answer = remount(found, ["data=journal"])
    assert not answer.is_accepted
    assert "data mode" in answer.message or not kernel_log_is_heard(device)


def kernel_log_is_heard(device: ScratchDevice) -> bool:
    with kernel_messages("ext4", device.block_device) as messages:
        run_program("mount", "-o", "remount,commit=6", device.block_device, device.mount_point)
    return bool(messages)


@pytest.fixture
def loop(open_directory: Path) -> Iterator[Path]:
    """A real device, as far as anybody can tell."""
    file = open_directory / "a-disk"
    with file.open("wb") as opened:
        opened.truncate(SIZE)
    yield attach(file, direct_io=False)
    for device in devices_on(file):
        detach(device)
    file.unlink()


def on_device(device: Path, **levels: str) -> StorageSpec:
    spec = StorageSpec.of({"device": str(device), **levels})
    assert spec is not None
    return spec


def test_a_real_device_is_used_where_it_is_allowed_and_left_empty(base, journal, loop):
    with pytest.raises(UsageError, match="is not pgdrag's to use"):
        ScratchDevice.make(on_device(loop), base, journal)
    allowed = frozenset({str(loop)})
    for _ in range(2):
        device = ScratchDevice.make(on_device(loop), base, journal, allowed=allowed)
        assert [each.source for each in mounts_of(base)] == [str(loop)]
        device.refuse_spoilt()
        device.remove()


def test_a_real_device_with_something_on_it_takes_another_word(base, journal, loop):
    allowed = frozenset({str(loop)})
    assert run_program("mkfs.ext4", "-q", "-F", loop).succeeded
    with pytest.raises(UsageError, match="is not empty: blkid finds ext4"):
        ScratchDevice.make(on_device(loop), base, journal, allowed=allowed)
    device = ScratchDevice.make(on_device(loop, overwrite="yes"), base, journal, allowed=allowed)
    device.remove()


def test_a_mounted_device_is_refused_whatever_is_allowed(base, journal, loop, open_directory):
    assert run_program("mkfs.ext4", "-q", "-F", loop).succeeded
    place = open_directory / "somebodys"
    place.mkdir()
    assert mount(loop, place, "ext4", ()) is None
    try:
        with pytest.raises(UsageError, match=f'it is mounted at "{place}"'):
            ScratchDevice.make(
                on_device(loop, overwrite="yes"), base, journal, allowed=frozenset({str(loop)})
            )
    finally:
        assert unmount(place) is None
        place.rmdir()


def test_a_device_that_is_held_is_refused_whatever_is_allowed(base, journal, loop):
    held = os.open(loop, os.O_RDWR | os.O_EXCL)
    try:
        with pytest.raises(UsageError, match="busy"):
            ScratchDevice.make(
                on_device(loop, overwrite="yes"), base, journal, allowed=frozenset({str(loop)})
            )
    finally:
        os.close(held)


SIGNALLED = """
import os, sys
from pathlib import Path
import pgdrag.cli.place
from pgdrag.cli.ending import run_to_end
from pgdrag.host.undo import UndoJournal
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.storage import ScratchDevice
from pgdrag.servers.storage_spec import StorageSpec

def command():
    base = Scratch.open(Path(sys.argv[1]))
    ScratchDevice.make(StorageSpec.of({"size": sys.argv[2]}), base, UndoJournal.open()).remove()

run_to_end(command)
"""
# As another process would, in the moment in which the program has done its work.
SIGNALLING = """#!/bin/sh
{program} "$@"
status=$?
kill -TERM $PPID
exit $status
"""


@pytest.mark.parametrize("name", ["losetup", "mkfs.ext4", "mount", "umount"])
def test_sigterm_as_a_program_ends_leaves_nothing_and_ends_with_130(
    base: Scratch, tmp_path: Path, name: str
) -> None:
    """Faults 13 and 14: between mount and the next line, and while it is unmounted."""
    program = find_program(name)
    if program is None:
        pytest.skip(f"there is no {name}")
    signalling = tmp_path / "bin" / name
    signalling.parent.mkdir()
    signalling.write_text(SIGNALLING.format(program=program))
    signalling.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{signalling.parent}:{os.environ['PATH']}",
        "PGDRAG_UNDO": str(tmp_path / "undo"),
    }
    argv = [sys.executable, "-c", SIGNALLED, str(base.root), str(SIZE)]
    done = subprocess.run(
        argv, timeout=120, check=False, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert left_of_devices(base) == []
    assert (tmp_path / "undo" / "undo.jsonl").read_bytes() == b""


DIES_AFTER = (
    NO_GUARDIAN
    + """
import os, signal, sys
from pathlib import Path
from pgdrag.servers.scratch import Scratch
from pgdrag.servers import storage
from pgdrag.host.undo import UndoJournal
from pgdrag.servers.storage_spec import StorageSpec

made = []
class Deadly(UndoJournal):
    def note(self, change):
        if len(made) == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        made.append(change)
        return super().note(change)

journal = Deadly.open(Path(sys.argv[2]))
device = storage.ScratchDevice.make(
    StorageSpec.of({"size": sys.argv[4]}), Scratch.open(Path(sys.argv[1])), journal
)
os.kill(os.getpid(), signal.SIGKILL)
"""
)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
@pytest.mark.parametrize("by", ["journal", "sweep"])
def test_a_process_killed_after_any_step_leaves_nothing_to_the_next(
    base: Scratch, tmp_path: Path, steps: int, by: str
) -> None:
    undo = tmp_path / "undo"
    argv = [sys.executable, "-c", DIES_AFTER, base.root, undo, str(steps), str(SIZE)]
    assert subprocess.run(argv, timeout=60, check=False).returncode == -signal.SIGKILL
    assert left_of_devices(base)
    if by == "journal":
        next_journal = UndoJournal.open(undo)
        assert all(each.is_settled for each in next_journal.restore_all())
        assert mounts_of(base) == []
        assert not list(base.storage.rglob("device"))
        next_journal.close()
    assert any("Removed scratch device" in sentence for sentence in sweep_devices(base))
    assert left_of_devices(base) == []
