"""Which machine is this? Runs on different hosts are not compared."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from pgdrag.plan import Host


def this_host(storage: Path) -> Host:
    """Return the machine as a value; `storage` is where the clusters' data lies."""
    return Host(
        cpu_model=_cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        file_system=_file_system(storage),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _file_system(path: Path) -> str:
    """Return the type of the file system that holds `path`: the mount with the longest prefix."""
    resolved = path.resolve()
    holding = [
        mount
        for mount in psutil.disk_partitions(all=True)
        if resolved.is_relative_to(mount.mountpoint)
    ]
    # Of mounts on one place the last hides the others.
    return (
        max(enumerate(holding), key=lambda x: (len(x[1].mountpoint), x[0]))[1].fstype
        if holding
        else "unknown"
    )
