"""What was the whole machine busy with, and what did it wait for?

All processes count, not only the server's (for those see `cpu` and `reads`). In a container these are
the host's numbers, where the kernel shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import psutil

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window, attempt
from pgdrag.collectors._cgroups import (
    MemoryLimit,
    io_limits,
    lines_of,
    memory_limit,
    table_of,
    throttling,
)
from pgdrag.collectors._metric import NO_READING, series_of
from pgdrag.collectors._proc import PROC
from pgdrag.collectors.counters import CounterCollector, Counters, Drawn
from pgdrag.collectors.disk import device_of
from pgdrag.host.clock import CLOCK
from pgdrag.model.recordings import Recordings
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
_PRESSURES = {"cpu": "a processor", "io": "I/O", "memory": "memory"}
# Before Linux 5.9 the first.
_REFAULTS = ("workingset_refault", "workingset_refault_file")
_FAULTS = ("pgmajfault", "pswpin", "pswpout")
_PAGE_BYTES = 4096
# What a control group may limit on a device, as version 2 calls it: name and label.
_IO_LIMITS = {
    "rbps": ("storage_read_bytes_limit_per_s", "limit on bytes read from the device"),
    "wbps": ("storage_written_bytes_limit_per_s", "limit on bytes written to the device"),
    "riops": ("storage_reads_limit_per_s", "limit on reads from the device"),
    "wiops": ("storage_writes_limit_per_s", "limit on writes to the device"),
}


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
            [f"{kind} pressure" for kind in _PRESSURES], "this kernel does not report pressure"
        ),
        "pgmajfault": "this kernel does not report faults",
        "pswpin": "this kernel does not report swapping",
        "pswpout": "this kernel does not report swapping",
        "refaults": "this kernel does not report refaults",
        "nr_throttled": "no control group limits the server's processors",
        **dict.fromkeys(_IO_LIMITS, "no control group limits it"),
    }
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(
            Metric(f"host_{mode}_share", label, mode, "ratio", tuple(_MODES), detail=f"{{{mode} s}} s.")
            for mode, label in (
                ("user", "share of processor time in programs"),
                ("system", "share of processor time in the kernel"),
                ("iowait", "share of processor time idle with I/O under way"),
                ("steal", "share of processor time that the hypervisor gave to others"),
                ("idle", "share of idle processor time"),
            )
        ),
        Metric("context_switches_per_transaction", "context switches of the machine per transaction", "switches"),
        Metric("context_switches_per_s", "context switches of the machine per second", "switches", "1/s"),
        Metric(
            "runnable_processes", "processes running or ready to run, on average", "runnable", "count", "runnable moments", detail="{runnable words}",
        ),
        *(
            Metric(
                f"{kind}_pressure_share", f"time in which some process waited for {what}", f"{kind} pressure", "ratio", "observed us",
                detail=f"{{{kind} pressure s}} s.",
            )
            for kind, what in _PRESSURES.items()
        ),
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
            "memory_limit_bytes", "memory limit of the server's control group", "memory limit", "bytes", step=_PAGE_BYTES,
            detail="{memory words}",
        ),
        Metric(
            "memory_used_share", "share of the memory limit in use at the window's end, page cache included", "memory used", "ratio", "memory limit",
            nothing="the limit is 0", detail="{memory words}",
        ),
        Metric("page_cache_bytes", "page cache of the server's control group at the window's end", "page cache", "bytes", step=_PAGE_BYTES),
        *(
            Metric(name, f"{label} per second, by the server's control group", kind, "1/s", "one", detail=f"{{{kind} words}}")
            for kind, (name, label) in _IO_LIMITS.items()
        ),
        Metric("dirty_memory_bytes", "memory written, but not yet on storage, at the window's end", "dirty", "bytes", step=_PAGE_BYTES),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._last_us: dict[str, int] = {}
        self._dirty: int | Unseen = NO_READING
        self._memory: MemoryLimit | Unseen = NO_READING
        self._io_limits: Mapping[str, int] | Unseen = NO_READING
        self._held_back: dict[str, int] | Unseen = NO_READING
        self._runnable: list[tuple[float, int]] = []
        self._memory_samples: list[tuple[float, MemoryLimit]] = []
        self._why_not_runnable = Unseen("no sample was taken within the window")

    def read(self, observer: Observer) -> Counters:
        """Microseconds of processors by mode, context switches, pressure, faults and swapping."""
        # It is the server's machine only as long as the server is on it.
        postmaster, user = observer.postmaster(), observer.cluster.user
        memory = table_of(PROC / "meminfo")
        self._dirty = Unseen("this kernel does not report dirty pages")
        if "Dirty" in memory:  # both in kB, which are 1,024 bytes each
            self._dirty = 1024 * (memory["Dirty"] + memory["Writeback"])
        self._memory = attempt(lambda: memory_limit(postmaster, user))
        directory = observer.cluster.data_directory
        self._io_limits = attempt(
            lambda: io_limits(postmaster, device_of(directory).disk.number, user)
        )
        counters = dict(self.read_drawn(observer))
        for kind in _PRESSURES:
            # "some avg10=0.00 … total=123": for how long some process has waited since the start.
            lines = lines_of(PROC / "pressure" / kind)
            totals = [line.rpartition("total=")[2] for line in lines if line.startswith("some ")]
            counters |= {f"{kind} pressure": int(total) for total in totals}
        vmstat = table_of(PROC / "vmstat")
        counters |= {name: vmstat[name] for name in _FAULTS if name in vmstat}
        for name in _REFAULTS:
            if name in vmstat:
                counters["refaults"] = vmstat[name]
        if isinstance(self._memory, MemoryLimit) and self._memory.refaults is not None:
            counters["group refaults"] = self._memory.refaults
        self._held_back = attempt(lambda: throttling(postmaster, user))
        return counters if isinstance(self._held_back, Unseen) else counters | self._held_back

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
            self._runnable.append((CLOCK.unix_s(), found))
        # Not looked for again where there is no limit: it takes a file for each group around the server.
        if isinstance(self._memory, MemoryLimit):
            memory = attempt(lambda: memory_limit(observer.postmaster(), observer.cluster.user))
            if isinstance(memory, MemoryLimit):
                self._memory_samples.append((CLOCK.unix_s(), memory))

    def recordings(self, window: Window) -> Recordings:
        used = ((at, found.used_bytes) for at, found in self._memory_samples)
        cached = ((at, found.page_cache_bytes or 0) for at, found in self._memory_samples)
        return Recordings(
            (
                *super().recordings(window).series,
                *series_of(
                    "runnable_processes",
                    "processes that run or want to",
                    "count",
                    self._runnable,
                    window,
                    is_of_machine=True,
                ),
                *series_of("control_group_memory_bytes", "in use", "bytes", used, window),
                *series_of(
                    "control_group_page_cache_bytes", "of that, page cache", "bytes", cached, window
                ),
            )
        )

    def _cpu_us(self) -> dict[str, int]:
        times = psutil.cpu_times()
        for mode, names in _MODES.items():
            now = round(sum(getattr(times, name, 0.0) for name in names) * _PER_S)
            # The kernel's idle and iowait may go back by a tick: proc(5).
            self._last_us[mode] = max(now, self._last_us.get(mode, 0))
        return dict(self._last_us)

    def amounts(self, window: Window) -> Amounts:
        moved = attempt(self.moved)
        found: dict[str, float | str | Unseen] = {
            "observed us": round(self.observed_s * _PER_S),
            "dirty": self._dirty,
            "one": 1,
            "group refaults words": "",
        }
        if isinstance(moved, Unseen):
            found |= dict.fromkeys(_COUNTERS, moved)
        else:
            found |= {**moved, **{f"{x} s": f"{us / _PER_S:.2f}" for x, us in moved.items()}}
            if "group refaults" in moved:
                words = f"{moved['group refaults']:,} of the server's control group."
                found["group refaults words"] = words
        if isinstance(self._held_back, Unseen):
            found["nr_throttled"] = self._held_back
        counts = [count for _, count in self._runnable]
        found["runnable"] = sum(counts) if counts else self._why_not_runnable
        found["runnable moments"] = len(counts)
        if counts:
            found["runnable words"] = (
                f"Between {min(counts)} and {max(counts)} at {len(counts)} moments,"
                f" on {psutil.cpu_count() or 1} processors."
            )
        memory, limits = self._memory, self._io_limits
        if isinstance(memory, Unseen):
            found |= dict.fromkeys(("memory limit", "memory used", "page cache"), memory)
        else:
            used, limit = format_bytes(memory.used_bytes), format_bytes(memory.limit_bytes)
            no_cache = Unseen("this kernel does not report the page cache per control group")
            cache = memory.page_cache_bytes
            found |= {
                "memory limit": memory.limit_bytes,
                "memory used": min(memory.used_bytes, memory.limit_bytes),
                "page cache": no_cache if cache is None else cache,
                "memory words": f"{used} of {limit}.",
            }
        if isinstance(limits, Unseen):
            found |= dict.fromkeys(_IO_LIMITS, limits)
        else:
            for kind, rate in limits.items():
                found[kind] = rate
                is_bytes = kind.endswith("bps")
                found[f"{kind} words"] = f"{format_bytes(rate)}/s." if is_bytes else ""
        return found


# Everything in `Host.absent` and more that a reading has.
_COUNTERS = (
    *_MODES,
    *("switches", *_FAULTS, "refaults", "nr_throttled", "nr_periods"),
    *(f"{kind} pressure" for kind in _PRESSURES),
)


def _runnable(observer: Observer) -> int:
    """Count the machine's processes and threads on a processor, or waiting for one, without the reader."""
    observer.postmaster()
    table = table_of(PROC / "stat")
    if "procs_running" not in table:
        raise Unseen("this kernel does not report runnable processes")
    return max(table["procs_running"] - 1, 0)
