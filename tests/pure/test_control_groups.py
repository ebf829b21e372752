"""Control groups of both versions, as the kernel lays them out, in directories that stand in for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdrag.errors import UsageError
from pgdrag.host.control_groups import (
    LIMITS,
    Hierarchy,
    Write,
    effective_processors,
    exact_bytes,
    first_writes,
    hierarchies,
    hierarchy_with,
    processors_of,
)

DEVICE = "8:0"
# What each name, as a person writes it, becomes in version 1 and in version 2.
WRITTEN = [
    ("memory.max", "64MB", ["memory.limit_in_bytes 67108864"], ["memory.max 67108864"]),
    ("memory.max", "max", ["memory.limit_in_bytes -1"], ["memory.max max"]),
    ("memory.high", "1GB", [], ["memory.high 1073741824"]),
    (
        "cpu.max",
        "150000",
        ["cpu.cfs_period_us 100000", "cpu.cfs_quota_us 150000"],
        ["cpu.max 150000 100000"],
    ),
    (
        "cpu.max",
        "max 50000",
        ["cpu.cfs_period_us 50000", "cpu.cfs_quota_us -1"],
        ["cpu.max max 50000"],
    ),
    ("cpuset.cpus", "0-1, 3", ["cpuset.cpus 0-1,3"], ["cpuset.cpus 0-1,3"]),
    (
        "io.max",
        "riops=500 wbps=50MB",
        [
            "blkio.throttle.write_bps_device 8:0 52428800",
            "blkio.throttle.read_iops_device 8:0 500",
        ],
        ["io.max 8:0 wbps=52428800 riops=500"],
    ),
    (
        "io.max",
        "rbps=max",
        ["blkio.throttle.read_bps_device 8:0 0"],
        ["io.max 8:0 rbps=max"],
    ),
]


@pytest.mark.parametrize(("name", "text", "one", "two"), WRITTEN)
def test_a_limit_is_written_as_each_version_takes_it(
    name: str, text: str, one: list[str], two: list[str]
) -> None:
    limit = LIMITS[name].parse(text)
    assert [f"{x.file} {x.value}" for x in limit.writes(1, DEVICE)] == one
    assert [f"{x.file} {x.value}" for x in limit.writes(2, DEVICE)] == two


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("memory.max", "lots"),
        ("memory.max", ""),
        ("cpu.max", "50%"),
        ("cpu.max", "999"),  # the kernel's least is a millisecond
        ("cpu.max", "1000 2000000"),  # and the longest period a second
        ("cpuset.cpus", "0-"),
        ("cpuset.cpus", "3-1"),
        ("io.max", ""),
        ("io.max", "riops=500 riops=600"),
        ("io.max", "riops=1.5"),
        ("io.max", "riops=0"),
        ("io.max", "iops=500"),
        ("io.max", "wbps=fast"),
    ],
)
def test_what_no_kernel_takes_is_refused(name: str, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        LIMITS[name].parse(text)
    assert refused.value.hint


def group_with(directory: Path, files: dict[str, str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


SHOWN = [
    ("memory.max", 2, {"memory.max": "67108864\n"}, "64MB"),
    ("memory.max", 2, {"memory.max": "max\n"}, "max"),
    ("memory.max", 1, {"memory.limit_in_bytes": "9223372036854771712\n"}, "max"),
    ("memory.max", 1, {"memory.limit_in_bytes": "69632\n"}, "68kB"),
    ("memory.high", 2, {"memory.high": "1073741824\n"}, "1GB"),
    ("cpu.max", 2, {"cpu.max": "max 100000\n"}, "max 100000"),
    ("cpu.max", 1, {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, "max 100000"),
    ("cpu.max", 1, {"cpu.cfs_quota_us": "5000\n", "cpu.cfs_period_us": "9000\n"}, "5000 9000"),
    ("cpuset.cpus", 2, {"cpuset.cpus": "\n", "cpuset.cpus.effective": "0-3\n"}, "0-3"),
    ("cpuset.cpus", 1, {"cpuset.cpus": "1\n"}, "1"),
    (
        "io.max",
        2,
        {
            "io.max": "8:16 rbps=1 wbps=1 riops=1 wiops=1\n8:0 rbps=max wbps=52428800 riops=9 wiops=max\n"
        },
        "wbps=50MB riops=9",
    ),
    ("io.max", 2, {"io.max": ""}, "max"),
    (
        "io.max",
        1,
        {
            "blkio.throttle.read_bps_device": "8:0 1000\n",
            "blkio.throttle.write_bps_device": "",
            "blkio.throttle.read_iops_device": "8:16 5\n",
            "blkio.throttle.write_iops_device": "8:0 7\n",
        },
        "rbps=1000B wiops=7",
    ),
]


@pytest.mark.parametrize(("name", "version", "files", "shown"), SHOWN)
def test_both_versions_are_read_back_in_the_same_words(
    tmp_path: Path, name: str, version: int, files: dict[str, str], shown: str
) -> None:
    group = group_with(tmp_path / "group", files)
    limit = LIMITS[name].parse({"cpuset.cpus": "0", "io.max": "riops=1"}.get(name, "max"))
    assert limit.shown(group, 1 if version == 1 else 2, DEVICE) == shown


def test_a_group_of_processors_of_version_1_begins_with_those_around_it(tmp_path: Path) -> None:
    around = group_with(tmp_path, {"cpuset.mems": "0\n", "cpuset.cpus": "0-1\n"})
    expected = [Write("cpuset.mems", "0"), Write("cpuset.cpus", "0-1")]
    assert first_writes("cpuset", 1, around) == expected
    assert first_writes("cpuset", 2, around) == first_writes("memory", 1, around) == []


def host(directory: Path, mounts: str, membership: str) -> Path:
    """Make what stands in for /proc, with one process, the reader itself."""
    own = group_with(directory / "self", {"mountinfo": mounts, "cgroup": membership})
    (directory / "7").mkdir()
    (directory / "7" / "cgroup").write_text(membership)
    return own.parent


def test_version_1_has_a_tree_for_each_resource(tmp_path: Path) -> None:
    top = tmp_path / "sys fs"
    spelt = str(top).replace(" ", "\\040")
    mounts = (
        f"32 31 0:29 / {spelt}/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        f"35 31 0:32 /pod {spelt}/memory rw - cgroup cgroup rw,memory\n"
        f"38 31 0:35 / {spelt}/blkio rw - cgroup cgroup rw,blkio\n"
        f"40 31 0:37 / {spelt}/systemd rw - cgroup cgroup rw,name=systemd\n"
        "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
    )
    proc = host(tmp_path / "proc", mounts, "4:memory:/pod/a\n7:blkio:/b\n1:cpu,cpuacct:/\n0::/\n")
    trees = hierarchies(proc)
    assert [sorted(tree.controllers) for tree in trees] == [["cpu"], ["memory"], ["io"]]
    own = {"memory": top / "memory" / "a", "io": top / "blkio" / "b", "cpu": top / "cpu,cpuacct"}
    for controller, group in own.items():
        tree = hierarchy_with(controller, trees)
        assert tree is not None
        assert tree.version == 1
        assert tree.group_of("self", proc) == tree.group_of(7, proc) == group
        assert tree.group_of(8, proc) is None
        assert tree.place_for_groups({controller}, proc) == group
    assert hierarchy_with("cpuset", trees) is None


def test_of_version_2_only_a_group_that_hands_controllers_down_has_room(tmp_path: Path) -> None:
    top = tmp_path / "unified"
    files = {"cgroup.controllers": "cpuset cpu io memory", "cgroup.subtree_control": "memory io"}
    group_with(top, files)
    group_with(top / "user.slice", {"cgroup.subtree_control": "memory"})
    group_with(top / "user.slice" / "session", {"cgroup.subtree_control": ""})
    mounts = f"41 31 0:38 / {top} rw - cgroup2 cgroup2 rw\n"
    proc = host(tmp_path / "proc", mounts, "0::/user.slice/session\n")
    (tree,) = hierarchies(proc)
    assert tree.version == 2
    assert tree.group_of("self", proc) == top / "user.slice" / "session"
    assert tree.place_for_groups({"memory"}, proc) == top / "user.slice"
    assert tree.place_for_groups({"memory", "io"}, proc) == top
    lacking = tree.place_for_groups({"cpu"}, proc)
    assert lacking == "no control group above pgdrag delegates cpu (cgroup.subtree_control)"


def test_a_version_2_without_controllers_is_passed_over(tmp_path: Path) -> None:
    group_with(tmp_path / "unified", {"cgroup.controllers": ""})
    mounts = f"41 31 0:38 / {tmp_path}/unified rw - cgroup2 cgroup2 rw\n"
    assert hierarchies(host(tmp_path / "proc", mounts, "0::/\n")) == []
    assert hierarchies(tmp_path / "no proc") == []


def test_a_group_outside_of_what_a_container_sees_is_not_taken_for_another(tmp_path: Path) -> None:
    tree = Hierarchy(2, tmp_path / "top", "/", frozenset({"memory"}))
    proc = host(tmp_path / "proc", "", "0::/../../other\n")
    assert tree.group_of("self", proc) is None


def test_processors_are_counted_as_the_kernel_spells_them(tmp_path: Path) -> None:
    assert processors_of("0-2,5") == {0, 1, 2, 5}
    assert processors_of("3-1") == processors_of("") == set()
    group = group_with(tmp_path, {"cpuset.effective_cpus": "0-1\n"})
    assert effective_processors(group) == "0-1"


def test_sizes_are_told_as_they_may_be_written_again() -> None:
    told = [exact_bytes(size) for size in (0, 1000, 4096, 3 << 20, 3 << 30, (3 << 30) + 4096)]
    assert told == ["0B", "1000B", "4kB", "3MB", "3GB", "3145732kB"]
