"""Mount options: which replace each other, what the kernel says of them, who may ask for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pgdrag.factors import Here, Problem
from pgdrag.factors.mount import MountOptions, options_of
from pgdrag.factors.storage import Storage
from pgdrag.host import mounts
from pgdrag.host.mounts import Mount, choice_of, is_of_mount, merged, mount_at, mount_holding
from pgdrag.model import Level
from pgdrag.servers.settings import SettingsCatalog

NO_SETTINGS = SettingsCatalog(180000, {})
MOUNTINFO = r"""
20 1 254:1 / / rw,relatime shared:1 - xfs /dev/root rw,attr2
30 20 7:0 / /mnt/a\040disk rw,nodev,noatime - btrfs /dev/loop0 rw,compress=zstd:3,subvol=/
31 20 7:1 / /mnt/twice rw - xfs /dev/loop1 rw
32 20 7:2 / /mnt/twice ro - xfs /dev/loop2 rw,lazytime
""".lstrip()


@pytest.fixture
def mountinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTINFO)
    monkeypatch.setattr(mounts, "_MOUNTINFO", path)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the kernel tell these mounts: "PLACE - TYPE SOURCE", in the order mounted."""
    path = tmp_path / "mountinfo"
    monkeypatch.setattr(mounts, "_MOUNTINFO", path)

    def tell(*each: str) -> None:
        parts = (one.partition(" - ") for one in each)
        path.write_text("".join(f"1 1 7:0 / {at} rw - {what} rw\n" for at, _, what in parts))

    return tell


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("relatime", "noatime"),
        ("noatime", "strictatime"),
        ("ro", "rw"),
        ("sync", "async"),
        ("barrier=0", "nobarrier"),
        ("nodiratime", "diratime"),
        ("data=ordered", "data=writeback"),
    ],
)
def test_options_of_one_choice_replace_each_other(one, other):
    assert choice_of(one) == choice_of(other)
    assert merged([one, "nodev"], [other]) == [other, "nodev"]


def test_diratime_is_another_choice_than_atime():
    assert merged(["relatime"], ["noatime", "nodiratime"]) == ["noatime", "nodiratime"]


def test_a_mount_is_found_by_place_and_the_last_one_hides_the_others(mountinfo):
    found = mount_holding(Path("/mnt/a disk/somewhere"))
    assert found == mount_at(Path("/mnt/a disk"))
    assert found is not None
    assert (found.source, found.file_system, found.device) == ("/dev/loop0", "btrfs", "7:0")
    twice = mount_at(Path("/mnt/twice"))
    assert twice is not None
    assert twice.source == "/dev/loop2"
    assert mount_at(Path("/mnt")) is None
    root = mount_holding(Path("/mnt/twice2"))
    assert root is not None
    assert root.mount_point == Path("/")


@pytest.mark.parametrize(
    ("path", "holder"),
    [("/nowhere/data/base", "/dev/vdb"), ("/nowhere/dat", "/dev/vda"), ("/", "/dev/vda")],
)
def test_the_longest_prefix_holds_a_path(told, path, holder):
    told("/nowhere/data - xfs /dev/vdb", "/ - rootfs rootfs", "/ - ext4 /dev/vda")
    told_by = mount_holding(Path(path))
    assert told_by is not None
    assert told_by.source == holder


def test_a_host_that_tells_no_mount_has_none(told):
    told()
    assert mount_holding(Path("/nowhere")) is None


def test_what_nobody_shows_is_as_it_is_by_default(mountinfo):
    found = mount_at(Path("/mnt/a disk"))
    assert found is not None
    in_force = found.in_force
    assert (in_force["atime"], in_force["dev"], in_force["suid"]) == ("noatime", "nodev", "suid")
    assert found.state_of("noacl") == "acl"
    assert found.state_of("commit=60") is None
    twice = mount_at(Path("/mnt/twice"))
    assert twice is not None
    # Neither relatime nor noatime is what strictatime looks like.
    assert twice.in_force["atime"] == "strictatime"
    assert (twice.in_force["write"], twice.in_force["lazytime"]) == ("ro", "lazytime")


@pytest.mark.parametrize(
    ("asked", "is_heeded"),
    [
        ("noatime", True),
        ("relatime", False),
        ("compress=zstd", True),
        ("compress=lzo", False),
        ("nobarrier", True),
        ("barrier=0", True),
        ("barrier", False),
        ("nobh", False),
        ("dev", True),
    ],
)
def test_an_option_is_heeded_however_the_kernel_spells_it(asked, is_heeded):
    shown = ("rw", "compress=zstd:3", "nobarrier")
    found = Mount(Path("/m"), "/dev/x", "btrfs", "0:1", ("rw", "noatime"), shown)
    assert found.has_option(asked) == is_heeded


def test_what_a_file_system_has_of_its_own_a_device_is_mounted_with():
    level = Level(
        "mount", "options", "noatime, data=writeback,relatime,commit=60,lazytime,defaults"
    )
    assert options_of({"options": level.value}) == [
        "relatime",
        "data=writeback",
        "commit=60",
        "lazytime",
    ]
    assert MountOptions.mount_options({"options": level.value}) == ["data=writeback", "commit=60"]
    assert is_of_mount("nodiratime")
    assert not is_of_mount("discard")


def here(root: Path = Path("/"), *allowed: str, **storage: str) -> Here:
    return Here(NO_SETTINGS, NO_SETTINGS, root, frozenset(allowed), storage)


def problem_of(level: Level, place: Here) -> Problem | None:
    kind = {"mount": MountOptions, "storage": Storage}[level.kind]
    return next(iter(kind().check([level], place)), None)


@pytest.mark.parametrize(
    "options",
    [
        *("ro", "remount", "loop", "x-systemd.automount", "", "nofail"),
        # Beyond the file system: a way to become root, another device, an end of the whole machine.
        *("noatime,suid", "dev", "journal_path=/dev/sdb", "device=/dev/sdb", "errors=panic"),
        # A quote would swallow what is written behind it: nosuid,nodev.
        *('data=writeback,"', 'errors="panic"', "data='x", "noatime\\", "commit=$(id)"),
        *(
            "loop=/dev/loop7",
            "loop=",
            "sizelimit=512",
            "uhelper=udisks2",
            "user=bob",
            "X-mount.mkdir",
        ),
        *("rshared", "=", "verity.hashdevice=x"),
    ],
)
def test_what_is_no_option_for_a_trial_is_a_mistake(options):
    found = problem_of(Level("mount", "options", options), here(size="1GB"))
    assert found is not None
    assert found.is_mistake


@pytest.mark.parametrize(
    "options", ["noatime", "data=writeback", "compress-force=zstd:3", "allocsize=64k", "commit=60"]
)
def test_options_of_file_systems_are_none(monkeypatch, options):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert problem_of(Level("mount", "options", options), here(size="1GB")) is None


def test_a_mount_has_options_and_nothing_else():
    found = problem_of(Level("mount", "option", "noatime"), here(size="1GB"))
    assert found is not None
    assert (found.is_mistake, found.message) == (True, 'a mount has no "option"')


def test_somebodys_mount_needs_consent(monkeypatch, mountinfo):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    level = Level("mount", "options", "noatime")
    found = problem_of(level, here(Path("/")))
    assert found is not None
    assert not found.is_mistake
    assert found.message == (
        'mount options cannot be set to "noatime" here: "/" is not pgdrag\'s to remount'
    )
    assert "--allow-change /." in found.hint
    assert problem_of(level, here(Path("/"), "/")) is None
    assert problem_of(level, here(size="1GB")) is None


@pytest.mark.parametrize(
    ("level", "hint"),
    [
        (Level("mount", "options", "noatime"), "As root, pgdrag would remount"),
        (Level("storage", "size", "1GB"), "As root, pgdrag would make 1 GB of ext4 on a loop"),
    ],
)
def test_without_root_it_is_told_what_would_have_been_done(monkeypatch, mountinfo, level, hint):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = problem_of(level, here(size="1GB"))
    assert found is not None
    assert not found.is_mistake
    assert "here: only root may" in found.message
    assert found.hint.startswith(hint)


def test_a_mistake_in_storage_is_one_also_without_root(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = problem_of(Level("storage", "file_system", "zfs"), here())
    assert found is not None
    assert found.is_mistake
    alone = problem_of(Level("storage", "file_system", "ext4"), here())
    assert alone is not None
    assert (alone.is_mistake, alone.message) == (True, "a scratch device needs a size")


def test_levels_of_several_treatments_are_checked_one_by_one(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    levels = [Level("storage", "file_system", kind) for kind in ("ext4", "xfs", "zfs")]
    found = Storage().check(levels, here())
    assert [(x.level.value, x.is_mistake) for x in found] == [("zfs", True)]
    assert not any(x.is_mistake for x in Storage().check(levels[:2], here()))


def test_a_file_system_without_its_programs_is_untestable_here(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("pgdrag.factors.storage._lacking_here", lambda: None)
    monkeypatch.setattr("pgdrag.factors.storage.find_program", lambda name: None)
    levels = [Level("storage", "size", "1GB"), Level("storage", "file_system", "btrfs")]
    (found,) = Storage().check(levels, here())
    assert (found.level, found.is_mistake) == (levels[1], False)
    assert 'there is no program "mkfs.btrfs"' in found.message
    assert found.hint == "Install btrfs-progs."
