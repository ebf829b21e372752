"""Which machine is this? Runs on different hosts are not compared."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from pgdrag.host.mounts import mount_holding
from pgdrag.model import Host


def this_host(storage: Path) -> Host:
    """Return the machine as a value; `storage` is where the clusters' data lies."""
    mount = mount_holding(storage)
    return Host(
        cpu_model=_cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        file_system=mount.file_system if mount is not None else "unknown",
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
