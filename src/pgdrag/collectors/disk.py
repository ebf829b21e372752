"""What did the storage under the data directory do, and how long did requests take?

The block device's counters are below the page cache: they show what had to be fetched and what was
written back, by any process. `reads` has the server's own calls, most of which the page cache answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import psutil

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window, attempt, detailed
from pgdrag.collectors._metric import of_kind
from pgdrag.collectors.counters import CounterCollector, Counters, Drawn
from pgdrag.host.block_devices import Device, device_under
from pgdrag.host.loop_devices import backing_file_of, uses_direct_io

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
    metrics: ClassVar[tuple[Metric, ...]] = (*detailed(
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
    ), Metric(
        "physical_disk_busy_share", "time with a request under way at the busiest disk that carries out its requests",
        "busiest", "ratio", "observed_ms", detail="{disks}",
    ))  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._device: Device | None = None
        self._whose = ""
        self._physical: tuple[Device, ...] = ()

    def read(self, observer: Observer) -> Counters:
        """Requests, bytes and milliseconds of reads and writes, and milliseconds with any under way."""
        # It is the server's device only as long as the server is on this host.
        observer.postmaster()
        if self._device is None:
            self._device = device_of(observer.cluster.data_directory)
            self._whose, self._physical = _below(self._device)
        accounts = psutil.disk_io_counters(perdisk=True, nowrap=False)
        seen = accounts.get(self._device.name)
        if seen is None:
            raise Unseen(f"this host has no statistics of {self._device.name}")
        below = {x.name: accounts[x.name].busy_time for x in self._physical if x.name in accounts}
        return {
            **{name: getattr(seen, name) for name in _FIELDS},
            **{f"{_BUSY_BELOW} {name}": busy_ms for name, busy_ms in below.items()},
        }

    def amounts(self, window: Window) -> Amounts:
        moved, observed_ms = self.moved(), max(round(self.observed_s / _MS), 1)
        below = of_kind(moved, _BUSY_BELOW)
        shares = (f"{name} {min(busy / observed_ms, 1):.0%}" for name, busy in below.items())
        return {
            **moved,
            "observed_ms": observed_ms,
            "busiest": max(below.values()) if below else _UNKNOWN_BELOW,
            "whose": self._whose,
            "disks": f"Others may use these disks, too: {', '.join(shares)}." if below else "",
        }


_BUSY_BELOW = "busy below"
_UNKNOWN_BELOW = Unseen("the disks that carry out its requests are unknown")
_FIELDS = ("read_count", "write_count", "read_bytes", "write_bytes", "read_time", "write_time", "busy_time")  # fmt: skip


def device_of(directory: Path) -> Device:
    """Return the block device under a directory.

    Raises:
        Unseen: its file system lies on none, or on several.
    """
    found = device_under(directory)
    if isinstance(found, str):
        raise Unseen(found)
    return found


def _below(device: Device) -> tuple[str, tuple[Device, ...]]:
    """Say what a device is, and return the disks that carry out its requests.

    Of a loop device those are the disks that its file lies on, and the words say whether its pages are kept a
    second time.
    """
    file = backing_file_of(device.path)
    if file is None:
        words = f"Of {device.name}{f', {device.words}' if device.slaves else ''}."
        return words, device.physical
    below = attempt(lambda: device_of(file.parent))
    through = (
        "bypassing the page cache" if uses_direct_io(device.path) else "through the page cache"
    )
    if isinstance(below, Unseen):
        return f"Of {device.name}, a file on no block device, {through}.", ()
    return f"Of {device.name}, a file on {below.name}, {through}.", below.physical
