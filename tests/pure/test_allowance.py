"""Limits of control groups of both versions, in directories that stand in for the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from pgdrag.host.allowance import Allowance, allowance

MACHINE = Allowance(psutil.virtual_memory().total, float(len(os.sched_getaffinity(0))))
NO_LIMIT_1 = "9223372036854771712"


def files(directory: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def version_1(directory: Path, contents: dict[str, str]) -> Path:
    files(directory / "groups", contents)
    mounts = (
        f"32 31 0:29 / {directory}/groups/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"35 31 0:32 / {directory}/groups/memory rw - cgroup cgroup rw,memory"
    )
    membership = "4:memory:/pod/a\n1:cpu,cpuacct:/pod"
    files(directory / "proc/self", {"mountinfo": mounts, "cgroup": membership})
    return directory / "proc"


def version_2(directory: Path, contents: dict[str, str]) -> Path:
    files(directory / "groups", {"cgroup.controllers": "cpu memory", **contents})
    mounts = f"41 31 0:38 / {directory}/groups rw - cgroup2 cgroup2 rw"
    files(directory / "proc/self", {"mountinfo": mounts, "cgroup": "0::/user/session"})
    return directory / "proc"


def test_a_machine_without_control_groups_gives_all_it_has(tmp_path: Path) -> None:
    assert allowance(tmp_path) == MACHINE


def test_the_least_limit_up_the_tree_decides_in_version_2(tmp_path: Path) -> None:
    contents = {
        "user/memory.max": "67108864",
        "user/session/memory.max": "134217728",
        "user/cpu.max": "max 100000",
        "user/session/cpu.max": "50000 100000",
    }
    assert allowance(version_2(tmp_path, contents)) == Allowance(64 << 20, 0.5)


def test_another_process_has_limits_of_its_own(tmp_path: Path) -> None:
    contents = {"user/session/cpu.max": "50000 100000", "server/cpu.max": "150000 100000"}
    proc = version_2(tmp_path, contents)
    files(proc / str(os.getpid()), {"cgroup": "0::/server"})
    allowed = float(len(os.sched_getaffinity(0)))
    assert allowance(proc, os.getpid()).processors == min(1.5, allowed)


def test_the_least_limit_up_the_tree_decides_in_version_1(tmp_path: Path) -> None:
    contents = {
        "memory/memory.limit_in_bytes": NO_LIMIT_1,
        "memory/pod/memory.limit_in_bytes": "67108864",
        "memory/pod/a/memory.limit_in_bytes": "134217728",
        "cpu/cpu.cfs_quota_us": "-1",
        "cpu/cpu.cfs_period_us": "100000",
        "cpu/pod/cpu.cfs_quota_us": "25000",
        "cpu/pod/cpu.cfs_period_us": "100000",
    }
    assert allowance(version_1(tmp_path, contents)) == Allowance(64 << 20, 0.25)


@pytest.mark.parametrize(
    "contents",
    [
        {},
        {"user/session/memory.max": "max", "user/session/cpu.max": "max 100000"},
        {"user/session/memory.max": str(1 << 60), "user/session/cpu.max": "100000000 100000"},
    ],
)
def test_no_group_gives_more_than_the_machine(tmp_path: Path, contents: dict[str, str]) -> None:
    assert allowance(version_2(tmp_path, contents)) == MACHINE


def test_groups_beside_and_below_this_process_do_not_limit_it(tmp_path: Path) -> None:
    contents = {"other/memory.max": "67108864", "user/session/below/memory.max": "67108864"}
    assert allowance(version_2(tmp_path, contents)) == MACHINE
