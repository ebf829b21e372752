"""How much of the machine may the server have? A way to make a machine smaller for one trial.

The server starts inside a control group of its own, so that its shared memory and its page cache are
counted there from the first page on. pgdrag itself, its driver and its collectors stay outside.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pgdrag.errors import UsageError
from pgdrag.factors import Example, Factor, Here, Problem
from pgdrag.factors._devices import disk_under
from pgdrag.host.control_groups import (
    LIMITS,
    Hierarchy,
    Limit,
    effective_processors,
    first_writes,
    hierarchies,
    hierarchy_with,
    members,
    new_name,
    processors_of,
)
from pgdrag.host.process_alive import has_ended, wait_until
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo.created import ControlGroup
from pgdrag.model import Applied, Level

if TYPE_CHECKING:
    from pgdrag.host.undo import NotedChange
    from pgdrag.servers.cluster import Cluster

_KILLED = re.compile(r"\(PID (\d+)\) was terminated by signal 9\b")
_LOG_LINES = 500
_END_TIMEOUT_S = 2.0


@dataclass
class _Group:
    """A group that this trial made; several limits may share it."""

    tree: Hierarchy
    path: Path
    noted: NotedChange
    limits: dict[str, Limit] = field(default_factory=dict)


class Cgroup(Factor):
    """Limits of the control group that the server runs in, by their names in version 2."""

    name = "cgroup"
    summary = 'limits on what the server uses of the machine: "memory.max" = "512MB", "cpu.max", "io.max", "cpuset.cpus"'
    examples = (
        Example(
            Level(name, "memory.max", "600MB"),
            "600MB",
            Level(name, "memory.max", "lots"),
            needs_root=True,
        ),
        Example(
            Level(name, "cpu.max", "150000"),
            "150000 100000",
            Level(name, "cpu.max", "50%"),
            needs_root=True,
        ),
    )
    changes_host = True

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        self._refused: dict[str, str] = {}
        self._device = ""

    def problem(self, level: Level, here: Here) -> Problem | None:
        kind = LIMITS.get(level.name)
        if kind is None:
            message = f'a control group has no "{level.name}" that pgdrag could set'
            return Problem(level, True, message, f"It sets {', '.join(LIMITS)}.")
        try:
            limit = kind.parse(level.value)
        except UsageError as error:
            message = f'cgroup "{level.name}" cannot be "{level.value}"'
            return Problem(level, True, message, error.hint or "")
        tree = hierarchy_with(limit.controller, hierarchies())
        reason = _lacking(limit, tree, here)
        if reason is None:
            return None
        message = f'cgroup "{level.name}" cannot be set to {level.value} here: {reason}'
        return Problem(level, False, message, _would_do(limit, tree))

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        cluster.control_groups = ()
        trees = hierarchies() if levels else []
        for name, value in sorted(levels.items()):
            limit = LIMITS[name].parse(value)
            try:
                self._apply(limit, trees, cluster, {LIMITS[x].controller for x in levels})
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                self._refused[name] = f"the kernel refuses {value}: {reason}"
        cluster.control_groups = tuple(group.path for group in self._groups if group.limits)

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return what the kernel says of each limit, if all processes of the server are under it."""
        if not levels:
            return []
        # So that one process that serves a client is among them.
        with cluster.connect(application_name="pgdrag read back"):
            return [self._applied(Level(self.name, *level), cluster) for level in levels.items()]

    def failure(self, cluster: Cluster) -> str:
        """Return that the kernel ended processes of the server because its memory was full."""
        for group in self._groups:
            limit = group.limits.get("memory.max")
            if limit is not None and _oom_kills(group.path):
                killed = _killed(cluster)
                whom = f"process {', '.join(killed)}" if killed else "a process"
                shown = limit.shown(group.path, group.tree.version, self._device)
                return (
                    f"the kernel killed {whom}: its control group's memory.max of {shown} was full"
                )
        return ""

    def undo(self, cluster: Cluster) -> None:
        cluster.control_groups = ()
        for group in reversed(self._groups):
            UndoJournal.open().restore(group.noted)
        self._groups.clear()

    def _apply(
        self, limit: Limit, trees: Sequence[Hierarchy], cluster: Cluster, controllers: set[str]
    ) -> None:
        tree = hierarchy_with(limit.controller, trees)
        assert tree is not None, "checked before the run"
        if limit.needs_device and not self._device:
            disk = disk_under(cluster.data_directory)
            if isinstance(disk, str):
                self._refused[limit.name] = disk
                return
            self._device = disk.device.number
        group = self._group_in(tree, controllers & tree.controllers)
        if isinstance(group, str):
            self._refused[limit.name] = group
            return
        writes = first_writes(limit.controller, tree.version, group.path.parent)
        for write in (*writes, *limit.writes(tree.version, self._device)):
            _write(group.path / write.file, write.value)
        group.limits[limit.name] = limit

    def _group_in(self, tree: Hierarchy, controllers: set[str]) -> _Group | str:
        """Return this trial's group in a tree, made when missing; or why there can be none."""
        for group in self._groups:
            if group.tree == tree:
                return group
        place = tree.place_for_groups(controllers)
        if isinstance(place, str):
            return place
        path = place / new_name()
        group = _Group(tree, path, UndoJournal.open().note(ControlGroup(str(path))))
        self._groups.append(group)
        path.mkdir()
        return group

    def _applied(self, level: Level, cluster: Cluster) -> Applied:
        limit = LIMITS[level.name].parse(level.value)
        if level.name in self._refused:
            return Applied(level, None, self._refused[level.name])
        tree = hierarchy_with(limit.controller, hierarchies())
        assert tree is not None, "checked before the run"
        default = _shown(limit, tree, tree.group_of("self"), self._device)
        group = next((x for x in self._groups if level.name in x.limits), None)
        if group is None:
            return Applied(level, default, "the server was not started with it", default)
        outside = _outside(cluster, group.path)
        note = f"processes {', '.join(map(str, outside))} are not in the group" if outside else ""
        shown = _shown(limit, tree, group.path, self._device)
        return Applied(level, shown, note, default, _how(limit, tree, self._device))


def _outside(cluster: Cluster, group: Path) -> list[int]:
    """Return the server's processes that are not in a group, beyond those that are just ending."""
    found: list[int] = []

    def all_inside() -> bool:
        # A process leaves its groups a moment before it is seen to have ended. What the group says needs no right
        # to look at processes.
        pids = [x.pid for x in cluster.server_pids()]
        inside = set(members(group))
        found[:] = [pid for pid in pids if pid not in inside and not has_ended(pid)]
        return not found

    wait_until(all_inside, _END_TIMEOUT_S)
    return found


def _shown(limit: Limit, tree: Hierarchy, group: Path | None, device: str) -> str:
    try:
        return limit.shown(group or tree.top, tree.version, device)
    except OSError:
        return limit.default  # the outermost group of version 2 has no limits


def _how(limit: Limit, tree: Hierarchy, device: str) -> str:
    """Say which files were used, if their names differ from the level's."""
    if tree.version == 2:
        return ""
    files = ", ".join(dict.fromkeys(write.file for write in limit.writes(1, device)))
    less = f"; {limit.less_in_1}" if limit.less_in_1 else ""
    return f"through version 1 of control groups ({files}){less}"


def _lacking(limit: Limit, tree: Hierarchy | None, here: Here) -> str | None:
    """Return what this kernel, its control groups or these rights lack for a limit; None: nothing."""
    if tree is None:
        return f'no controller "{limit.controller}" is mounted'
    if not limit.writes(tree.version, "0:0"):
        return f"version {tree.version} of control groups, which this host uses, has none"
    place = tree.place_for_groups({limit.controller})
    if isinstance(place, str):
        return place
    files = [place / write.file for write in limit.writes(tree.version, "0:0")]
    # Those of version 2 are in no outermost group.
    if absent := [file.name for file in files if tree.version == 1 and not file.exists()]:
        return f"this kernel has no {absent[0]}"
    if limit.controller == "cpuset" and (lacking := _lacking_processors(limit, place)):
        return f"there is no processor {min(lacking)}"
    if limit.needs_device and not here.storage:
        disk = disk_under(here.scratch_root)
        if isinstance(disk, str):
            return disk
    if not all(os.access(x, os.W_OK) for x in (place, place / "cgroup.procs")):
        return f'"{place}" is read-only' if os.geteuid() == 0 else "only root may"
    return None


def _lacking_processors(limit: Limit, around: Path) -> set[int]:
    """Return the processors that a group around does not have, where it tells."""
    with contextlib.suppress(OSError):
        there = processors_of(effective_processors(around))
        return processors_of(limit.value) - there
    return set()


def _would_do(limit: Limit, tree: Hierarchy | None) -> str:
    if tree is None or os.geteuid() == 0:
        return ""
    written = " and ".join(f"{x.value} to {x.file}" for x in limit.writes(tree.version, "DEVICE"))
    if not written:
        return ""
    return f'As root, pgdrag would start the server in a control group below "{tree.top}", and write {written}.'


def _write(path: Path, value: str) -> None:
    # In one call, since the kernel reads each call by itself, and not made where the kernel has none.
    with path.open("r+b", buffering=0) as file:
        file.write(value.encode())


def _oom_kills(group: Path) -> int:
    """Return how many processes the kernel has ended in a group for want of memory: both versions' word."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            lines = (group / name).read_text().splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return 0


def _killed(cluster: Cluster) -> list[str]:
    """Return the processes of the server that ended by SIGKILL: those that it told of, else its first."""
    told = list(dict.fromkeys(_KILLED.findall(cluster.log_tail(_LOG_LINES))))
    if told or cluster.is_running():
        return told
    first = cluster.pid_file_lines()[:1]
    return [*told, *first]
