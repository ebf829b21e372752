"""What did the storage under the data directory do, and how long did it take over it?

The block device's account: after the page cache, so that it says what had to be fetched and what was
written back, by anybody. `reads` has the server's own calls, most of which the page cache answers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import psutil

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import (
    CounterCollector,
    Counters,
    Drawn,
    attempt,
    missing,
    per_second,
    per_transaction,
    pick,
    share,
)
from pgdrag.host.loop_devices import backing_file_of, uses_direct_io
from pgdrag.host.mounts import mount_holding
from pgdrag.model import Observation

_DEVICES = Path("/sys/dev/block")
_BLOCK_CLASS = Path("/sys/class/block")
_MS_PER_S = 1000
# What psutil calls it, what was done to the bytes, and what the requests were.
_WAYS = (
    ("read", "read from", "reads from the device"),
    ("write", "written to", "writes to the device"),
)
_QUEUE = ("disk_queue_length", "requests under way at the data directory's device")


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
        Drawn(
            "disk_queue_length",
            "requests under way",
            "count",
            ("read_time", "write_time"),
            1 / _MS_PER_S,
        ),
        Drawn(
            *("disk_read_wait_s", "mean wait of reads", "s"),
            ("read_time",),
            1 / _MS_PER_S,
            each=("read_count",),
        ),
        Drawn(
            *("disk_write_wait_s", "mean wait of writes", "s"),
            ("write_time",),
            1 / _MS_PER_S,
            each=("write_count",),
        ),
        Drawn(
            *("disk_busy_share", "time with a request under way", "ratio"),
            ("busy_time",),
            1 / _MS_PER_S,
        ),
    )
    is_of_machine: ClassVar[bool] = True

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

    def observations(self, window: Window) -> Sequence[Observation]:
        """Requests and bytes per transaction, the mean wait of each, and how busy the device was."""
        moved = self.moved()
        seen = (
            *(one for way in _WAYS for one in self._requests(*way, moved, window)),
            self._queue(moved),
            share(
                "disk_busy_share",
                "time with a request under way at the data directory's device",
                _capped(pick(moved, "busy_time"), self._observed_ms),
                self._observed_ms,
                nothing="the window has no length",
                detail=self._whose,
            ),
        )
        return tuple(replace(one, is_of_machine=True) for one in seen)

    @property
    def _observed_ms(self) -> int:
        return round(self.observed_s * _MS_PER_S)

    @property
    def _whose(self) -> str:
        return f"Of {self._device}{self._below}." if self._device else ""

    def _requests(
        self, way: str, done: str, requests: str, moved: Counters | Unseen, window: Window
    ) -> Sequence[Observation]:
        count = pick(moved, f"{way}_count")
        return (
            per_transaction(
                f"disk_{way}s_per_transaction",
                f"{requests} per transaction",
                count,
                window,
                detail=self._whose,
            ),
            per_second(
                f"disk_{way}s_per_s",
                f"{requests} per second",
                count,
                self.observed_s,
                detail=self._whose,
            ),
            per_transaction(
                f"disk_{done.split()[0]}_bytes_per_transaction",
                f"bytes {done} the device per transaction",
                pick(moved, f"{way}_bytes"),
                window,
                unit="bytes/transaction",
                detail=self._whose,
            ),
            self._wait(way, requests, count, pick(moved, f"{way}_time")),
        )

    def _wait(
        self, way: str, requests: str, count: int | Unseen, time_ms: int | Unseen
    ) -> Observation:
        """Return how long a request took from its submission on: what iostat calls r_await and w_await."""
        names = f"disk_{way}_wait_s", f"mean wait of {requests}"
        if isinstance(count, Unseen):
            return missing(*names, "s", count)
        if isinstance(time_ms, Unseen):
            return missing(*names, "s", time_ms)
        if count == 0:
            return missing(*names, "s", Unseen(f"there were no {requests} in the window"))
        value, resolution_s = time_ms / count / _MS_PER_S, 1 / count / _MS_PER_S
        return Observation(*names, value, "s", resolution_s, detail=self._whose)

    def _queue(self, moved: Counters | Unseen) -> Observation:
        """Return how many requests were under way on average: Little's law on their waits."""
        waited = pick(moved, "read_time", "write_time")
        if isinstance(waited, Unseen):
            return missing(*_QUEUE, "count", waited)
        if not self._observed_ms:
            return missing(*_QUEUE, "count", Unseen("the window has no length"))
        length = waited / self._observed_ms
        return Observation(*_QUEUE, length, "count", 1 / self._observed_ms, detail=self._whose)


_FIELDS = (
    *("read_count", "write_count", "read_bytes", "write_bytes"),
    *("read_time", "write_time", "busy_time"),
)


def device_of(directory: Path) -> str:
    """Return the kernel's name of the block device under a directory: "vda", "nvme0n1p2", "dm-0".

    Raises:
        Unseen: its file system lies on none, or on several.
    """
    try:
        number = directory.stat().st_dev
        if os.major(number) == 0:
            number = _mounted_device(directory)
        return (_DEVICES / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True).name
    except OSError as error:
        raise Unseen("the block device under the data directory cannot be told") from error


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
        raise Unseen(f"the number of the block device {device} cannot be told") from error


def _mounted_device(directory: Path) -> int:
    """Return the number of the device that is mounted there: some file systems have one of their own."""
    mount = mount_holding(directory)
    if mount is None or not mount.source.startswith("/dev/"):
        kind = mount.file_system if mount is not None else "unknown"
        raise Unseen(f"the data directory's file system ({kind}) is on no block device")
    return Path(mount.source).stat().st_rdev


def _capped(part: int | Unseen, whole: int) -> int | Unseen:
    return part if isinstance(part, Unseen) else min(part, whole)
