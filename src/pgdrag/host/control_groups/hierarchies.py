"""Which trees of control groups does this host have, and where in them is a process?"""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PROC = Path("/proc")
# Of all groups that pgdrag makes, so that no other is taken for one of them.
PREFIX = "pgdrag-"
# What version 1 calls the controllers of version 2, where it has another word.
_NAMES_1 = {"io": "blkio"}
_OCTAL = re.compile(r"\\([0-7]{3})")
_POLL_S = 0.02
# So that a child that is made while its parent is moved is found, too.
_LEAVE_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Hierarchy:
    """A tree of control groups.

    Attributes:
        top: where it is mounted.
        shown: the group that is mounted there: "/", or another one in a container.
        controllers: what its groups may limit, in the words of version 2: "memory", "cpu", "io", "cpuset".
    """

    version: Literal[1, 2]
    top: Path
    shown: str
    controllers: frozenset[str]

    def group_of(self, pid: int | Literal["self"], proc: Path = PROC) -> Path | None:
        """Return the directory of a process's group; None: it is gone, or its group is not to be seen."""
        try:
            lines = (proc / str(pid) / "cgroup").read_text(errors="replace").splitlines()
        except OSError:
            return None
        for line in lines:
            _, names, path = line.split(":", 2)
            if self._is_named(names):
                inside = path.removeprefix(self.shown.rstrip("/"))
                found = Path(os.path.normpath(f"{self.top}/{inside}"))
                return found if found.is_relative_to(self.top) else None
        return None

    def place_for_groups(self, controllers: Collection[str], proc: Path = PROC) -> Path | str:
        """Return the group nearest to this process's below which groups with these controllers can be made.

        Of version 1 that is its own. Of version 2 only one that hands the controllers down, and such a
        group has no processes of its own.

        Returns:
            Its directory, or why there is none.
        """
        own = self.group_of("self", proc) or self.top
        if self.version == 1:
            return own
        around = [x for x in (own, *own.parents) if x.is_relative_to(self.top)]
        for group in around:
            if set(controllers) <= set(_words(group / "cgroup.subtree_control")):
                return group
        names = " and ".join(sorted(controllers))
        return f"no group around pgdrag hands {names} down (cgroup.subtree_control)"

    def make_name(self) -> str:
        """Return a name for a new group."""
        return f"{PREFIX}{secrets.token_hex(4)}"

    def _is_named(self, names: str) -> bool:
        """Tell whether a line of /proc/PID/cgroup with these controllers is of this tree."""
        if self.version == 2:
            return not names
        return bool(self.controllers & {_name_2(x) for x in names.split(",")})


def hierarchies(proc: Path = PROC) -> list[Hierarchy]:
    """Return the trees that are mounted here, each once; none: this kernel has no control groups."""
    try:
        lines = (proc / "self" / "mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []
    found: dict[frozenset[str], Hierarchy] = {}
    for line in lines:
        tree = _hierarchy(line)
        if tree is not None and tree.controllers:
            found.setdefault(tree.controllers, tree)
    return list(found.values())


def hierarchy_with(controller: str, trees: Sequence[Hierarchy]) -> Hierarchy | None:
    """Return the tree that has a controller; version 2 first, though a kernel has it in one tree only."""
    having = [tree for tree in trees if controller in tree.controllers]
    return max(having, key=lambda tree: tree.version, default=None)


def members(group: Path) -> list[int]:
    """Return the processes in a group; none where it is gone."""
    return [int(pid) for pid in _words(group / "cgroup.procs")]


def remove_group(group: Path, elsewhere: Path) -> bool:
    """Move a group's processes into another one of its tree, and remove it; False: it was not there.

    Raises:
        OSError: processes are left in it that cannot be moved.
    """
    assert group.name.startswith(PREFIX), f"not a group of pgdrag's: {group}"

    def is_gone() -> bool:
        for pid in members(group):
            _move(pid, elsewhere)
        try:
            group.rmdir()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    if not group.is_dir():
        return False
    if not _wait_until(is_gone, _LEAVE_TIMEOUT_S):
        left = ", ".join(str(pid) for pid in members(group)) or "none that it shows"
        raise OSError(errno.EBUSY, f"processes are left in it ({left})")
    return True


def _move(pid: int, group: Path) -> None:
    try:
        (group / "cgroup.procs").write_text(str(pid))
    except ProcessLookupError:
        return  # it has ended meanwhile


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _hierarchy(line: str) -> Hierarchy | None:
    """Return the tree that a line of mountinfo mounts: `… ROOT PLACE OPTIONS … - TYPE SOURCE SUPER`."""
    before, _, after = line.partition(" - ")
    kind, _, options = [*after.split(), "", "", ""][:3]
    if kind not in ("cgroup", "cgroup2"):
        return None
    root, place = (_OCTAL.sub(lambda x: chr(int(x[1], 8)), word) for word in before.split()[3:5])
    top = Path(place)
    if kind == "cgroup2":
        return Hierarchy(2, top, root, frozenset(_words(top / "cgroup.controllers")))
    known = frozenset({"memory", "cpu", "io", "cpuset"})
    return Hierarchy(1, top, root, known & {_name_2(x) for x in options.split(",")})


def _name_2(name_1: str) -> str:
    return next((name for name, other in _NAMES_1.items() if other == name_1), name_1)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
