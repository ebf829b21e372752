"""A kernel parameter, as sysctl(8) names it: written to /proc/sys, read back, and restored."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from pgdrag.factors import Example, Here, Problem
from pgdrag.factors.kernel_files import Batch, KernelFiles, Writing, untouchable, unwritable_value
from pgdrag.host.undo.written_value import shown_value
from pgdrag.model import Level

ROOT = Path("/proc/sys")

# Without --allow-change: no value of these breaks another program, takes a right away or gives one,
# and each has to do with how a database runs. Beside the parameter why one would change it.
HARMLESS: Mapping[str, str] = {
    "vm.dirty_ratio": "how much may be dirty before writers have to write themselves",
    "vm.dirty_bytes": "the same in bytes",
    "vm.dirty_background_ratio": "how much may be dirty before the kernel writes in the background",
    "vm.dirty_background_bytes": "the same in bytes",
    "vm.dirty_expire_centisecs": "how old dirty pages get before they are written",
    "vm.dirty_writeback_centisecs": "how often the kernel looks for dirty pages",
    "vm.dirtytime_expire_seconds": "when lazily kept times of inodes are written",
    "vm.vfs_cache_pressure": "what is given up first: names and inodes, or pages",
    "vm.vfs_cache_pressure_denom": "the scale of it (Linux 6.16 and later)",
    "vm.swappiness": "what is given up first: pages of files or of programs",
    "vm.page-cluster": "how many pages are read from swap at once",
    "vm.watermark_scale_factor": "how early the kernel begins to free memory",
    "vm.watermark_boost_factor": "how much more it frees when memory is in pieces",
    "vm.compaction_proactiveness": "how eagerly memory is made contiguous in the background",
    "vm.extfrag_threshold": "when memory is made contiguous rather than freed",
    "vm.percpu_pagelist_high_fraction": "how many free pages a processor keeps for itself",
    "vm.zone_reclaim_mode": "whether a NUMA node frees its own memory before it takes another's",
    "vm.stat_interval": "how often counters of memory are brought up to date",
    "vm.page_lock_unfairness": "how often a waiter for a page may be overtaken",
    "vm.min_unmapped_ratio": "what a NUMA node keeps of pages of files",
    "vm.min_slab_ratio": "what a NUMA node keeps of the kernel's own objects",
    "kernel.numa_balancing": "whether pages move to where they are used",
    "kernel.sched_autogroup_enabled": "whether sessions of terminals share processors as groups",
    "kernel.sched_cfs_bandwidth_slice_us": "in what pieces a control group gets its processor time",
    "kernel.timer_migration": "whether timers move away from idle processors",
    # Of kernels before 5.13; later ones have them below /sys/kernel/debug.
    "kernel.sched_latency_ns": "within which time every process runs once",
    "kernel.sched_migration_cost_ns": "how long a process is held to be warm on its processor",
    "kernel.sched_min_granularity_ns": "how long a process runs at least",
    "kernel.sched_wakeup_granularity_ns": "how far a process that wakes may go before others",
}
# Writing one sets the other to 0.
_EITHER = (
    ("vm.dirty_ratio", "vm.dirty_bytes"),
    ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
)
# Writing these triggers an action, and there is nothing to restore.
_ACTIONS = ("vm.drop_caches", "vm.compact_memory", "vm.stat_refresh")
_ALIKE = 0.9


class Sysctl(KernelFiles):
    """The kernel's parameters below /proc/sys."""

    name = "sysctl"
    summary = 'a kernel parameter (sysctl): "vm.dirty_ratio" = 10; harmless ones, others with --allow-change'
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            Level(name, "vm.vfs_cache_pressure", "93"),
            "93",
            Level(name, "vm.vfs_cache_presure", "93"),
            needs_root=True,
        ),
        Example(
            Level(name, "vm.dirty_bytes", "1073741824"),
            "1073741824",
            Level(name, "vm.dirty_bytes", "1GB"),
            needs_root=True,
        ),
    )

    # Defaults of kernels and distributions, and what guides for PostgreSQL name beside them.
    search_values: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "kernel.numa_balancing": ("0", "1"),
        "kernel.sched_autogroup_enabled": ("0", "1"),
        "vm.dirty_background_ratio": ("1", "3", "10", "20"),
        "vm.dirty_expire_centisecs": ("300", "1000", "3000", "6000"),
        "vm.dirty_ratio": ("5", "10", "20", "40", "80"),
        "vm.dirty_writeback_centisecs": ("100", "500", "1500"),
        "vm.swappiness": ("1", "10", "60"),
        "vm.vfs_cache_pressure": ("50", "100", "200"),
    }

    def problem(self, level: Level, here: Here) -> Problem | None:
        """Return typos and actions as mistakes, and as untestable what this kernel lacks or what was not consented to."""
        what = f'sysctl "{level.name}"'
        path = path_of(level.name)
        if path is None:
            hint = 'Write it as sysctl(8) does, such as "vm.dirty_ratio".'
            return Problem(level, True, f"{what} is not the name of a kernel parameter", hint)
        name = name_of(path)
        if name in _ACTIONS:
            return Problem(
                level, True, f"{what} is an action, not a value", "There is nothing to put back."
            )
        if not path.is_file():
            return _missing(level, path, here)
        blocked = unwritable_value(level, what, shown_value(path)) if _is_readable(path) else None
        return (
            blocked or untouchable(level, what, [path]) or _without_consent(level, name, path, here)
        )

    def file_of(self, name: str, here: Here) -> Path | None:
        return path_of(name)

    def batches(self, data_directory: Path, levels: Mapping[str, str]) -> Iterable[Batch]:
        """Return each parameter by itself, but the two of a pair that exclude each other together."""
        left = {name: Writing(name, value, (_path(name),)) for name, value in levels.items()}
        for pair in _EITHER:
            paths = tuple(ROOT.joinpath(*name.split(".")) for name in pair)
            writings = [left.pop(x.name) for x in list(left.values()) if x.paths[0] in paths]
            if writings:
                yield Batch(tuple(writings), paths, is_linked=True)
        for _, writing in sorted(left.items()):
            yield Batch((writing,))

    def note(self, writing: Writing, shown: str) -> str:
        """Say which of two parameters that exclude each other is in force."""
        name = name_of(writing.paths[0])
        other = next((x for pair in _EITHER if name in pair for x in pair if x != name), None)
        if other is not None and shown == "0":
            return f"{other} is in force and takes precedence"
        return super().note(writing, shown)


def path_of(name: str) -> Path | None:
    """Return the file of a parameter; None: that is no name.

    As in sysctl(8), the first separator tells which one it is: "net.ipv4.conf.eth0/1.forwarding" and
    "net/ipv4/conf/eth0.1/forwarding" are the same.
    """
    separator = next((letter for letter in name if letter in "./"), "")
    if not separator:
        return None
    parts = name.split(separator)
    if not all(part.isprintable() and part.strip() == part and part for part in parts):
        return None
    if separator == ".":
        parts = [part.replace("/", ".") for part in parts]
    if any(part in (".", "..") for part in parts):
        return None
    return ROOT.joinpath(*parts)


def name_of(path: Path) -> str:
    """Return the usual name of a parameter, with points between the parts."""
    parts = path.relative_to(ROOT).parts
    return ".".join(part.replace(".", "/") for part in parts)


def _path(name: str) -> Path:
    path = path_of(name)
    assert path is not None, f"{name!r} was checked"
    return path


def _is_readable(path: Path) -> bool:
    try:
        shown_value(path)
    except OSError:
        return False
    return True


def _missing(level: Level, path: Path, here: Here) -> Problem:
    name = name_of(path)
    message = f'sysctl "{level.name}" is not in this kernel'
    is_known = name in HARMLESS or name in _allowed(here)
    beside = [name_of(each) for each in path.parent.glob("*")]
    alike = difflib.get_close_matches(name, beside, n=1, cutoff=_ALIKE)
    if alike and not is_known:
        return Problem(level, True, message, f'Did you mean "{alike[0]}"?')
    return Problem(level, False, message, f"There is no {path}.")


def _without_consent(level: Level, name: str, path: Path, here: Here) -> Problem | None:
    if name in HARMLESS or name in _allowed(here):
        return None
    message = f'sysctl "{level.name}" is not changed without consent'
    hint = f"It is {shown_value(path)} now. To let pgdrag change it: --allow-change {name}"
    return Problem(level, False, message, hint)


def _allowed(here: Here) -> set[str]:
    paths = (path_of(name) for name in here.allowed)
    return {name_of(path) for path in paths if path is not None}
