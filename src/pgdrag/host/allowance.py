"""How much memory and how many processors may a process use?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil

from pgdrag.host.control_groups import LIMITS, MAX, PROC, hierarchies, hierarchy_with
from pgdrag.units import parse_bytes


@dataclass(frozen=True)
class Allowance:
    """What a process may use of its machine.

    Attributes:
        memory_bytes: physical memory, or less where a control group limits it.
        processors: that it may run on, or fewer where a control group limits their time: 1.5.
        memory_source: what says so: the machine, or the file of a control group.
    """

    memory_bytes: int
    processors: float
    memory_source: str = field(default="this machine's memory", compare=False)


def allowance(proc: Path = PROC, pid: int | Literal["self"] = "self") -> Allowance:
    """Return what a process may use: the least of the machine, its affinity and its control groups.

    Args:
        proc: names the mounts of the control groups (self/mountinfo) and the process's own (PID/cgroup).

    Raises:
        OSError: the process is gone.
    """
    machine = (psutil.virtual_memory().total, Allowance.memory_source)
    memory = [
        (parse_bytes(text), f"memory.max of control group {group}")
        for group, text in _limits("memory.max", proc, pid)
    ]
    shares = [text.split() for _, text in _limits("cpu.max", proc, pid)]
    processors = [int(quota) / int(period) for quota, period in shares if quota != MAX]
    least_bytes, source = min([machine, *memory], key=lambda one: one[0])
    return Allowance(
        least_bytes,
        min([float(len(os.sched_getaffinity(0 if pid == "self" else pid))), *processors]),
        source,
    )


def _limits(name: str, proc: Path, pid: int | Literal["self"]) -> Iterator[tuple[str, str]]:
    """Yield what a process's group and those around it set, as version 2 writes it, with the group."""
    limit = LIMITS[name]
    tree = hierarchy_with(limit.controller, hierarchies(proc))
    if tree is None:
        return
    # A group that cannot be seen from here lies below what can.
    own = tree.group_of(pid, proc) or tree.top
    for group in (own, *own.parents):
        if group.is_relative_to(tree.top):
            with suppress(OSError):  # the root group of version 2 has no limits
                shown = limit.parse(MAX).shown(group, tree.version, "")
                if shown != MAX:
                    yield f"/{group.relative_to(tree.top)}".replace("/.", "/"), shown
