"""What was the whole machine busy with, and what did it wait for? Whoever's doing it was.

Beside the server's own account (`cpu`, `reads`) this says what the server had to share, and what the
kernel did on everybody's behalf. In containers it is the host's account where the kernel shows that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import psutil

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._cgroups import (
    MemoryLimit,
    io_limits,
    kernel_table,
    memory_limit,
    read_kernel,
    throttling,
)
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
from pgdrag.collectors._proc import PROC
from pgdrag.collectors.disk import device_of, number_of_disk
from pgdrag.model import Observation
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
_MODE_LABELS = {
    "user": "processors' time in programs, of all there was",
    "system": "processors' time in the kernel",
    "iowait": "processors idle while I/O was under way",
    "steal": "processors' time that the hypervisor gave to others",
    "idle": "processors idle",
}
_PRESSURES = {
    "cpu": "time in which some process waited for a processor",
    "io": "time in which some process waited for I/O",
    "memory": "time in which some process waited for memory",
}
_THROTTLED = (
    "cpu_throttled_share",
    "periods in which the control group had used up its processors",
)
_MEMORY_LIMIT = ("memory_limit_bytes", "memory that the server's control group may have")
_MEMORY_USED = ("memory_used_share", "of that, in use at the window's end, page cache included")
_PAGE_CACHE = ("page_cache_bytes", "of that, page cache at the window's end")
_REFAULTS = (
    "page_cache_refaults_per_transaction",
    "pages of files read again soon after they were dropped from memory, per transaction",
)
# Series of moments: the quantity's name and label.
_MEMORY_SERIES = (
    ("control_group_memory_bytes", "in use"),
    ("control_group_page_cache_bytes", "of that, page cache"),
)
# What a control group may limit on a device, as version 2 calls it.
_IO_LIMITS = {
    "rbps": ("storage_read_bytes_limit_per_s", "bytes that it may read from the device"),
    "wbps": ("storage_written_bytes_limit_per_s", "bytes that it may write to the device"),
    "riops": ("storage_reads_limit_per_s", "reads from the device that it may do"),
    "wiops": ("storage_writes_limit_per_s", "writes to the device that it may do"),
}
_RUNNABLE = ("runnable_processes", "processes that ran or wanted to, on average")
_DIRTY = ("dirty_memory_bytes", "written, but not yet on storage, at the window's end")


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

    def __init__(self) -> None:
        super().__init__()
        self._last_us: dict[str, int] = {}
        self._dirty: int | Unseen = Unseen("no reading was taken")
        self._memory: MemoryLimit | Unseen = Unseen("no reading was taken")
        self._io_limits: Mapping[str, int] | Unseen = Unseen("no reading was taken")
        self._runnable: list[tuple[float, int]] = []
        self._memory_samples: list[tuple[float, MemoryLimit]] = []
        self._why_not_runnable = Unseen("nobody looked within the window")

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
        if isinstance(self._memory, MemoryLimit) and self._memory.refaults is not None:
            counters["group refaults"] = self._memory.refaults
        held_back = attempt(lambda: throttling(postmaster))
        return counters if isinstance(held_back, Unseen) else counters | held_back

    def read_drawn(self, observer: Observer) -> Counters:
        """Only processors and context switches: the rest is as dear as these, each second."""
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
            yield Series(_RUNNABLE[0], label, "count", times_s, values, is_of_machine=True)

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

    def observations(self, window: Window) -> Sequence[Observation]:
        """Modes as shares of all processor time, then switches, pressure, and memory."""
        moved = self.moved()
        whole = pick(moved, *_MODES)
        seen = (
            *(
                share(
                    f"host_{mode}_share",
                    label,
                    pick(moved, mode),
                    whole,
                    nothing="the window has no length",
                    detail=_seconds(pick(moved, mode)),
                )
                for mode, label in _MODE_LABELS.items()
            ),
            per_transaction(
                "context_switches_per_transaction",
                "context switches of the machine per transaction",
                pick(moved, "switches"),
                window,
            ),
            per_second(
                "context_switches_per_s",
                "context switches of the machine per second",
                pick(moved, "switches"),
                self.observed_s,
            ),
            self._run_queue(),
            *(self._pressure(kind, label, moved) for kind, label in _PRESSURES.items()),
            per_transaction(
                "major_faults_per_transaction",
                "page faults that read from storage per transaction",
                _kernels(moved, "faults", "pgmajfault"),
                window,
            ),
            per_transaction(
                "swapped_pages_per_transaction",
                "pages swapped in and out per transaction",
                _kernels(moved, "swapping", "pswpin", "pswpout"),
                window,
            ),
            self._refaults(moved, window),
            self._throttled(moved),
            *self._memory_limits(),
            *self._limits_of_io(),
            self._dirty_memory(),
        )
        return tuple(replace(one, is_of_machine=True) for one in seen)

    def _run_queue(self) -> Observation:
        seen = [count for _, count in self._runnable]
        if not seen:
            return missing(*_RUNNABLE, "count", self._why_not_runnable)
        detail = (
            f"Between {min(seen)} and {max(seen)} at {len(seen)} moments,"
            f" on {psutil.cpu_count() or 1} processors."
        )
        return Observation(*_RUNNABLE, sum(seen) / len(seen), "count", 1 / len(seen), detail=detail)

    def _pressure(self, kind: str, label: str, moved: Counters | Unseen) -> Observation:
        name = f"{kind}_pressure_share"
        waited = _kernels(moved, "pressure", f"{kind} pressure")
        if isinstance(waited, Unseen):
            return missing(name, label, "ratio", waited)
        observed_us = round(self.observed_s * _PER_S)
        detail = _seconds(waited)
        nothing = "the window has no length"
        return share(
            name, label, min(waited, observed_us), observed_us, nothing=nothing, detail=detail
        )

    def _throttled(self, moved: Counters | Unseen) -> Observation:
        throttled, periods = pick(moved, "nr_throttled"), pick(moved, "nr_periods")
        if isinstance(throttled, Unseen) and not isinstance(moved, Unseen):
            throttled = Unseen("no control group limits the server's processors")
        nothing = "the server's control group was idle"
        held_us = pick(moved, "throttled_us")
        detail = (
            "" if isinstance(held_us, Unseen) else f"{_seconds(held_us)[:-1]} of all processors."
        )
        return share(*_THROTTLED, throttled, periods, nothing=nothing, detail=detail)

    def _refaults(self, moved: Counters | Unseen, window: Window) -> Observation:
        """Return what the page cache lost too soon: the whole machine's, as all arms can be compared by it."""
        name = next((x for x in _REFAULT_NAMES if not isinstance(moved, Unseen) and x in moved), "")
        again = _kernels(moved, "refaults", name)
        groups = pick(moved, "group refaults")
        detail = "" if isinstance(groups, Unseen) else f"{groups:,} of the server's control group."
        return per_transaction(*_REFAULTS, again, window, detail=detail)

    def _memory_limits(self) -> tuple[Observation, Observation, Observation]:
        found = self._memory
        if isinstance(found, Unseen):
            return (
                missing(*_MEMORY_LIMIT, "bytes", found),
                missing(*_MEMORY_USED, "ratio", found),
                missing(*_PAGE_CACHE, "bytes", found),
            )
        used = min(found.used_bytes, found.limit_bytes)
        detail = f"{format_bytes(found.used_bytes)} of {format_bytes(found.limit_bytes)}."
        nothing = "the limit is 0"
        return (
            Observation(*_MEMORY_LIMIT, found.limit_bytes, "bytes", _PAGE_BYTES, detail=detail),
            share(*_MEMORY_USED, used, found.limit_bytes, nothing=nothing, detail=detail),
            _page_cache(found),
        )

    def _limits_of_io(self) -> Iterator[Observation]:
        for kind, (name, what) in _IO_LIMITS.items():
            label = f"{what} per second, by the server's control group"
            found = self._io_limits
            if isinstance(found, Unseen):
                yield missing(name, label, "1/s", found)
            elif kind not in found:
                yield missing(name, label, "1/s", Unseen("no control group limits it"))
            else:
                detail = f"{format_bytes(found[kind])}/s." if kind.endswith("bps") else ""
                yield Observation(name, label, found[kind], "1/s", 1, detail=detail)

    def _dirty_memory(self) -> Observation:
        if isinstance(self._dirty, Unseen):
            return missing(*_DIRTY, "bytes", self._dirty)
        return Observation(*_DIRTY, self._dirty, "bytes", _PAGE_BYTES)


# Before Linux 5.9 the second.
_REFAULT_NAMES = ("workingset_refault_file", "workingset_refault")
_PAGE_BYTES = 4096
_FAULTS = ("pgmajfault", "pswpin", "pswpout", *_REFAULT_NAMES)


def _page_cache(found: MemoryLimit) -> Observation:
    if found.page_cache_bytes is None:
        why = Unseen("this kernel does not account page cache by control group")
        return missing(*_PAGE_CACHE, "bytes", why)
    return Observation(*_PAGE_CACHE, found.page_cache_bytes, "bytes", _PAGE_BYTES)


def _kernels(moved: Counters | Unseen, what: str, *names: str) -> int | Unseen:
    """Return the sum of counters that not every kernel has."""
    if not isinstance(moved, Unseen) and not moved.keys() >= set(names):
        return Unseen(f"this kernel does not account {what}")
    return pick(moved, *names)


def _seconds(us: int | Unseen) -> str:
    return "" if isinstance(us, Unseen) else f"{us / _PER_S:.2f} s."


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
