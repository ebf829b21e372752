"""What did the storage under the data directory do, and how long did requests take?

The block device's counters are below the page cache: they show what had to be fetched and what was
written back, by any process. `reads` has the server's own calls, most of which the page cache answers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import psutil

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window, attempt, detailed
from pgdrag.collectors.counters import CounterCollector, Counters, Drawn
from pgdrag.host.loop_devices import backing_file_of, uses_direct_io
from pgdrag.host.mounts import mount_holding

_DEVICES = Path("/sys/dev/block")
_BLOCK_CLASS = Path("/sys/class/block")
_MS = 1 / 1000  # of a second


class Disk(CounterCollector):
    """The kernel's account of the block device that the data directory lies on."""

    name: ClassVar[str] = "disk"
    summary: ClassVar[str] = "requests, bytes, waits and load of the data directory's device"
    drawn: ClassVar[tuple[Drawn, ...]] = (
        Drawn("disk_reads_per_s", "reads from the device", "1/s", ("read_count",)),
        Drawn("disk_writes_per_s", "writes to the device", "1/s", ("write_count",)),
        Drawn("disk_read_bytes_per_s", "read from the device", "bytes/s", ("read_bytes",)),
        Drawn("disk_written_bytes_per_s", "written to the device", "bytes/s", ("write_bytes",)),
        # Waits in milliseconds, a second's worth of which is one request under way: Little's law.
        Drawn("disk_queue_length", "requests under way", "count", ("read_time", "write_time"), _MS),
        Drawn("disk_read_wait_s", "mean wait of reads", "s", ("read_time",), _MS, ("read_count",)),
        Drawn(
            "disk_write_wait_s", "mean wait of writes", "s", ("write_time",), _MS, ("write_count",)
        ),
        Drawn("disk_busy_share", "time with a request under way", "ratio", ("busy_time",), _MS),
    )
    is_of_machine: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{whose}",
        *(
            metric
            for way, done, requests, moved in (
                ("read", "read", "reads from the device", "read from"),
                ("write", "written", "writes to the device", "written to"),
            )
            for metric in (
                Metric(f"disk_{way}s_per_transaction", f"{requests} per transaction", f"{way}_count"),
                Metric(f"disk_{way}s_per_s", f"{requests} per second", f"{way}_count", "1/s"),
                Metric(f"disk_{done}_bytes_per_transaction", f"bytes {moved} the device per transaction", f"{way}_bytes", "bytes/transaction"),
                # From its submission on: what iostat calls r_await and w_await.
                Metric(
                    f"disk_{way}_wait_s", f"mean wait of {requests}", f"{way}_time", "s", f"{way}_count", size=_MS,
                    nothing=f"there were no {requests} in the window",
                ),
            )
        ),
        # Little's law on the waits of all requests.
        Metric("disk_queue_length", "requests under way at the data directory's device", ("read_time", "write_time"), "count", "observed_ms"),
        Metric("disk_busy_share", "time with a request under way at the data directory's device", "busy_time", "ratio", "observed_ms"),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._device = ""
        self._below = ""

    def read(self, observer: Observer) -> Counters:
        """Requests, bytes and milliseconds of reads and writes, and milliseconds with any under way."""
        # It is the server's device only as long as the server is on this host.
        observer.postmaster()
        if not self._device:
            self._device = device_of(observer.cluster.data_directory)
            self._below = _below(self._device)
        seen = psutil.disk_io_counters(perdisk=True, nowrap=False).get(self._device)
        if seen is None:
            raise Unseen(f"this host does not account {self._device}")
        return {name: getattr(seen, name) for name in _FIELDS}

    def amounts(self, window: Window) -> Amounts:
        whose = f"Of {self._device}{self._below}." if self._device else ""
        return {**self.moved(), "observed_ms": round(self.observed_s / _MS), "whose": whose}


_FIELDS = ("read_count", "write_count", "read_bytes", "write_bytes", "read_time", "write_time", "busy_time")  # fmt: skip


def device_of(directory: Path) -> str:
    """Return the kernel's name of the block device under a directory: "vda", "nvme0n1p2", "dm-0".

    Raises:
        Unseen: its file system lies on none, or on several.
    """
    try:
        number = directory.stat().st_dev
        if os.major(number) == 0:
            # Some file systems have a number of their own, which is no device's.
            mount = mount_holding(directory)
            if mount is None or not mount.source.startswith("/dev/"):
                kind = mount.file_system if mount is not None else "unknown"
                raise Unseen(f"the data directory's file system ({kind}) is on no block device")
            number = Path(mount.source).stat().st_rdev
        return (_DEVICES / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True).name
    except OSError as error:
        raise Unseen("the block device under the data directory cannot be determined") from error


def _below(device: str) -> str:
    """Say what a loop device's file lies on, and whether its pages are kept a second time."""
    file = backing_file_of(Path(device))
    if file is None:
        return ""
    below = attempt(lambda: device_of(file.parent))
    where = "no block device" if isinstance(below, Unseen) else below
    is_direct = uses_direct_io(Path(device))
    through = "past the page cache" if is_direct else "through the page cache"
    return f", a file on {where}, {through}"


def number_of_disk(device: str) -> str:
    """Return the number of a block device, "8:0"; of a partition that of the disk that it is on.

    Raises:
        Unseen: the kernel does not show it.
    """
    try:
        directory = (_BLOCK_CLASS / device).resolve(strict=True)
        whole = directory.parent if (directory / "partition").exists() else directory
        return (whole / "dev").read_text().strip()
    except OSError as error:
        raise Unseen(f"the number of the block device {device} cannot be determined") from error
