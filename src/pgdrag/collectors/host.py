"""What was the whole machine busy with, and what did it wait for?

All processes count, not only the server's (for those see `cpu` and `reads`). In a container these are
the host's numbers, where the kernel shows them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

import psutil

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window
from pgdrag.collectors._cgroups import (
    MemoryLimit,
    io_limits,
    kernel_table,
    memory_limit,
    read_kernel,
    throttling,
)
from pgdrag.collectors._metric import NO_READING, total
from pgdrag.collectors._proc import PROC
from pgdrag.collectors.counters import CounterCollector, Counters, Drawn, attempt
from pgdrag.collectors.disk import device_of, number_of_disk
from pgdrag.model.recordings import Recordings, Series
from pgdrag.units import format_bytes

_PER_S = 1_000_000  # processor time and pressure are kept in microseconds
# Names of psutil.cpu_times that make up a mode; time of guests is part of the user's.
_MODES = {
    "user": ("user", "nice"),
    "system": ("system", "irq", "softirq"),
    "iowait": ("iowait",),
    "steal": ("steal",),
    "idle": ("idle",),
}
_PRESSURES = ("cpu", "io", "memory")
# Before Linux 5.9 the second.
_REFAULTS = ("workingset_refault_file", "workingset_refault")
_FAULTS = ("pgmajfault", "pswpin", "pswpout")
_PAGE_BYTES = 4096
# What a control group may limit on a device, as version 2 calls it: name and label.
_IO_LIMITS = {
    "rbps": ("storage_read_bytes_limit_per_s", "bytes that it may read from the device"),
    "wbps": ("storage_written_bytes_limit_per_s", "bytes that it may write to the device"),
    "riops": ("storage_reads_limit_per_s", "reads from the device that it may do"),
    "wiops": ("storage_writes_limit_per_s", "writes to the device that it may do"),
}
# Series of moments: the quantity's name and label.
_MEMORY_SERIES = (
    ("control_group_memory_bytes", "in use"),
    ("control_group_page_cache_bytes", "of that, page cache"),
)


def _share(mode: str, label: str) -> Metric:
    return Metric(
        f"host_{mode}_share", label, mode, "ratio", tuple(_MODES), detail=f"{{{mode} s}} s."
    )


def _pressure(kind: str, what: str) -> Metric:
    return Metric(
        f"{kind}_pressure_share",
        f"time in which some process waited for {what}",
        f"{kind} pressure",
        "ratio",
        "observed us",
        detail=f"{{{kind} pressure s}} s.",
    )


def _io_limit(kind: str, name: str, label: str) -> Metric:
    return Metric(
        name,
        f"{label} per second, by the server's control group",
        kind,
        "1/s",
        "one",
        detail=f"{{{kind} words}}",
    )


class Host(CounterCollector):
    """The kernel's account of the machine: /proc/stat, pressure, vmstat and meminfo."""

    name: ClassVar[str] = "host"
    summary: ClassVar[str] = "processors, pressure and memory of the whole machine"
    drawn: ClassVar[tuple[Drawn, ...]] = (
        *(
            Drawn(f"host_{mode}_processors", f"processors: {mode}", "count", (mode,), 1 / _PER_S)
            for mode in ("user", "system", "iowait")
        ),
        Drawn("context_switches_per_s", "context switches", "1/s", ("switches",)),
    )
    is_of_machine: ClassVar[bool] = True
    absent: Mapping[str, str] = {
        **dict.fromkeys(
            [f"{kind} pressure" for kind in _PRESSURES], "this kernel does not account pressure"
        ),
        "pgmajfault": "this kernel does not account faults",
        "pswpin": "this kernel does not account swapping",
        "pswpout": "this kernel does not account swapping",
        "refaults": "this kernel does not account refaults",
        "nr_throttled": "no control group limits the server's processors",
        **dict.fromkeys(_IO_LIMITS, "no control group limits it"),
    }
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        _share("user", "processors' time in programs, of all there was"),
        _share("system", "processors' time in the kernel"),
        _share("iowait", "processors idle while I/O was under way"),
        _share("steal", "processors' time that the hypervisor gave to others"),
        _share("idle", "processors idle"),
        Metric("context_switches_per_transaction", "context switches of the machine per transaction", "switches"),
        Metric("context_switches_per_s", "context switches of the machine per second", "switches", "1/s"),
        Metric(
            "runnable_processes", "processes that ran or wanted to, on average", "runnable", "count", "runnable moments", detail="{runnable words}",
        ),
        _pressure("cpu", "a processor"),
        _pressure("io", "I/O"),
        _pressure("memory", "memory"),
        Metric("major_faults_per_transaction", "page faults that read from storage per transaction", "pgmajfault"),
        Metric("swapped_pages_per_transaction", "pages swapped in and out per transaction", ("pswpin", "pswpout")),
        # The whole machine's, as all arms can be compared by it.
        Metric(
            "page_cache_refaults_per_transaction", "pages of files read again soon after they were dropped from memory, per transaction", "refaults",
            detail="{group refaults words}",
        ),
        Metric(
            "cpu_throttled_share", "periods in which the control group had used up its processors", "nr_throttled", "ratio", "nr_periods",
            nothing="the server's control group was idle", detail="{throttled_us s} s of all processors.",
        ),
        Metric(
            "memory_limit_bytes", "memory that the server's control group may have", "memory limit", "bytes", step=_PAGE_BYTES,
            detail="{memory words}",
        ),
        Metric(
            "memory_used_share", "of that, in use at the window's end, page cache included", "memory used", "ratio", "memory limit",
            nothing="the limit is 0", detail="{memory words}",
        ),
        Metric(
            "page_cache_bytes",
            "of that, page cache at the window's end",
            "page cache",
            "bytes",
            step=_PAGE_BYTES,
        ),
        *(_io_limit(kind, *words) for kind, words in _IO_LIMITS.items()),
        Metric("dirty_memory_bytes", "written, but not yet on storage, at the window's end", "dirty", "bytes", step=_PAGE_BYTES),
    )
    # fmt: on

    def __init__(self) -> None:
        super().__init__()
        self._last_us: dict[str, int] = {}
        self._dirty: int | Unseen = NO_READING
        self._memory: MemoryLimit | Unseen = NO_READING
        self._io_limits: Mapping[str, int] | Unseen = NO_READING
        self._runnable: list[tuple[float, int]] = []
        self._memory_samples: list[tuple[float, MemoryLimit]] = []
        self._why_not_runnable = Unseen("no sample was taken within the window")

    def read(self, observer: Observer) -> Counters:
        """Microseconds of processors by mode, context switches, pressure, faults and swapping."""
        # It is the server's machine only as long as the server is on it.
        postmaster = observer.postmaster()
        self._dirty = attempt(_dirty_bytes)
        self._memory = attempt(lambda: memory_limit(postmaster))
        self._io_limits = attempt(
            lambda: io_limits(
                postmaster, number_of_disk(device_of(observer.cluster.data_directory))
            )
        )
        vmstat = attempt(lambda: kernel_table(PROC / "vmstat"))
        counters = {"switches": psutil.cpu_stats().ctx_switches, **self._cpu_us()}
        for kind in _PRESSURES:
            total = attempt(lambda kind=kind: _pressure_us(kind))  # type: ignore[misc]
            if not isinstance(total, Unseen):
                counters[f"{kind} pressure"] = total
        if not isinstance(vmstat, Unseen):
            counters |= {name: vmstat[name] for name in _FAULTS if name in vmstat}
            if again := [vmstat[name] for name in _REFAULTS if name in vmstat]:
                counters["refaults"] = again[0]
        if isinstance(self._memory, MemoryLimit) and self._memory.refaults is not None:
            counters["group refaults"] = self._memory.refaults
        held_back = attempt(lambda: throttling(postmaster))
        return counters if isinstance(held_back, Unseen) else counters | held_back

    def read_drawn(self, observer: Observer) -> Counters:
        """Only processors and context switches: reading the rest each second costs as much again."""
        observer.postmaster()
        return {"switches": psutil.cpu_stats().ctx_switches, **self._cpu_us()}

    def sample(self, observer: Observer) -> None:
        """Read what is drawn, and count those who run or wait for a processor at this moment."""
        super().sample(observer)
        found = attempt(lambda: _runnable(observer))
        if isinstance(found, Unseen):
            self._why_not_runnable = found
        else:
            self._runnable.append((time.time(), found))
        # Not looked for again where there is no limit: it takes a file for each group around the server.
        if isinstance(self._memory, MemoryLimit):
            memory = attempt(lambda: memory_limit(observer.postmaster()))
            if isinstance(memory, MemoryLimit):
                self._memory_samples.append((time.time(), memory))

    def recordings(self, window: Window) -> Recordings:
        """Return the series, and those of moments and not of intervals: run queue, memory."""
        drawn = super().recordings(window)
        moments = (*self._run_queue_series(window), *self._memory_series(window))
        return Recordings((*drawn.series, *moments))

    def _run_queue_series(self, window: Window) -> Iterator[Series]:
        if self._runnable:
            moments, values = zip(*self._runnable, strict=True)
            times_s = tuple(moment - window.started_unix_s for moment in moments)
            label = "processes that run or want to"
            yield Series("runnable_processes", label, "count", times_s, values, is_of_machine=True)

    def _memory_series(self, window: Window) -> Iterator[Series]:
        times_s = tuple(moment - window.started_unix_s for moment, _ in self._memory_samples)
        used = tuple(float(found.used_bytes) for _, found in self._memory_samples)
        cached = tuple(float(found.page_cache_bytes or 0) for _, found in self._memory_samples)
        for (name, label), values in zip(_MEMORY_SERIES, (used, cached), strict=True):
            if values:
                yield Series(name, label, "bytes", times_s, values)

    def _cpu_us(self) -> dict[str, int]:
        times = psutil.cpu_times()
        for mode, names in _MODES.items():
            now = round(sum(getattr(times, name, 0.0) for name in names) * _PER_S)
            # The kernel's idle and iowait may go back by a tick: proc(5).
            self._last_us[mode] = max(now, self._last_us.get(mode, 0))
        return dict(self._last_us)

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return the counters, and what the last reading showed."""
        moved = self.moved()
        counts = [count for _, count in self._runnable]
        now: dict[str, float | Unseen] = {
            "runnable": sum(counts) if counts else self._why_not_runnable,
            "runnable moments": len(counts),
            "dirty": self._dirty,
            "one": 1,
            **self._memory_amounts(),
        }
        if isinstance(self._io_limits, Unseen):
            now |= dict.fromkeys(_IO_LIMITS, self._io_limits)
        else:
            now |= self._io_limits
        if isinstance(moved, Unseen):
            return now | dict.fromkeys(_COUNTERS, moved)
        return {**moved, **now, "observed us": round(self.observed_s * _PER_S)}

    def _memory_amounts(self) -> dict[str, float | Unseen]:
        found = self._memory
        if isinstance(found, Unseen):
            return dict.fromkeys(("memory limit", "memory used", "page cache"), found)
        cache: float | Unseen | None = found.page_cache_bytes
        if cache is None:
            cache = Unseen("this kernel does not account page cache by control group")
        used = min(found.used_bytes, found.limit_bytes)
        return {"memory limit": found.limit_bytes, "memory used": used, "page cache": cache}

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return times in seconds, and sizes."""
        found = {
            f"{name} s": f"{amount / _PER_S:.2f}"
            for name, amount in amounts.items()
            if not isinstance(amount, Unseen)
        }
        counts = [count for _, count in self._runnable]
        if counts:
            found["runnable words"] = (
                f"Between {min(counts)} and {max(counts)} at {len(counts)} moments,"
                f" on {psutil.cpu_count() or 1} processors."
            )
        again = amounts.get("group refaults")
        known = isinstance(again, int)
        found["group refaults words"] = f"{again:,} of the server's control group." if known else ""
        memory = self._memory
        if not isinstance(memory, Unseen):
            used, limit = format_bytes(memory.used_bytes), format_bytes(memory.limit_bytes)
            found["memory words"] = f"{used} of {limit}."
        for kind in _IO_LIMITS:
            is_bytes = isinstance(amounts.get(kind), int) and kind.endswith("bps")
            found[f"{kind} words"] = f"{format_bytes(total(amounts, kind))}/s." if is_bytes else ""
        return found


# Everything in `Host.absent` and more that a reading has.
_COUNTERS = (
    *_MODES,
    *("switches", *_FAULTS, "refaults", "nr_throttled", "nr_periods"),
    *(f"{kind} pressure" for kind in _PRESSURES),
)


def _pressure_us(kind: str) -> int:
    """Return for how long some process has waited since the start: `some … total=123`."""
    for line in read_kernel(PROC / "pressure" / kind).splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2])
    raise Unseen("this kernel does not account pressure")


def _runnable(observer: Observer) -> int:
    """Count the machine's processes and threads on a processor, or waiting for one, without the reader."""
    observer.postmaster()
    table = kernel_table(PROC / "stat")
    if "procs_running" not in table:
        raise Unseen("this kernel does not account processes that can run")
    return max(table["procs_running"] - 1, 0)


def _dirty_bytes() -> int:
    # Both in kB, which are 1,024 bytes each.
    table = kernel_table(PROC / "meminfo")
    return 1024 * (table["Dirty"] + table["Writeback"])
