"""Which machine is this? Runs on different hosts are not compared."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
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
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
