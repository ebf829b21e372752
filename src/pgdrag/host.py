"""Which machine is this? Runs on different hosts are not compared."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

from pgdrag.plan import Host


@dataclass(frozen=True)
class Mount:
    """A file system in its place.

    Attributes:
        source: what is mounted: a device, or a word where there is none.
        file_system: its type, as mount(8) names it.
    """

    source: str
    file_system: str


def this_host(storage: Path) -> Host:
    """Return the machine as a value; `storage` is where the clusters' data lies."""
    mount = mount_of(storage)
    return Host(
        cpu_model=_cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        file_system=mount.file_system if mount is not None else "unknown",
    )


def mount_of(path: Path) -> Mount | None:
    """Return the mount that holds `path`, the one with the longest prefix; None where none is known.

    Raises:
        OSError: the host does not tell its mounts.
    """
    resolved = path.resolve()
    holding = [x for x in psutil.disk_partitions(all=True) if resolved.is_relative_to(x.mountpoint)]
    # Of mounts on one place the last hides the others, and of equals `max` has the first.
    found = max(reversed(holding), key=lambda x: len(x.mountpoint), default=None)
    return None if found is None else Mount(found.device, found.fstype)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
