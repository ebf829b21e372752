"""Options of the file system that the cluster's data lie on, changed by remounting it.

What a mount has whatever its file system (noatime) is changed by remount. What the file system itself
has (data=writeback) a scratch device is mounted with afresh, because much of it cannot be changed
afterwards; a disk is remounted, with the options that the kernel accepts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pgdrag.factors import Example, Factor, Here, Problem
from pgdrag.factors._devices import Disk, disk_under
from pgdrag.host.mounts import (
    Mount,
    choice_of,
    is_of_mount,
    merged,
    mount_at,
    mount_holding,
    remount,
)
from pgdrag.host.undo import NotedChange, UndoJournal
from pgdrag.host.undo.remount import Remount
from pgdrag.model import Applied, Level
from pgdrag.servers.storage import is_scratch_device

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

OPTIONS = "options"
# Words for fstab and mount(8), which the kernel never hears of; and what would end the trial.
_NOT_OPTIONS = frozenset(
    {
        "remount",
        "bind",
        "rbind",
        "move",
        "loop",
        "sizelimit",
        "auto",
        "noauto",
        "user",
        "nouser",
        "users",
    }
    | {"owner", "group", "nofail", "helper", "uhelper", "encryption", "comment", "ro"}
    | {"private", "rprivate", "shared", "rshared", "slave", "rslave", "unbindable", "runbindable"}
    | {"norecovery", "noload", "abort"}
)
# Nothing that mount(8) reads otherwise than as a name and its value: no quotes, no files, no names like x-systemd.
_FORM = re.compile(r"(?!x-)[a-z0-9][a-z0-9_-]*(=[A-Za-z0-9_.:+-]*)?")
# What reaches beyond the file system: a way to become root, another device, an end of the whole machine.
_REACHING = frozenset(
    {
        "suid",
        "dev",
        "device",
        "journal_dev",
        "journal_path",
        "logdev",
        "rtdev",
        "degraded",
        "offset",
    }
)


class MountOptions(Factor):
    """Mount options by their own names, all in one level: options = "noatime,nodiratime"."""

    name = "mount"
    summary = 'mount options of the file system with the data: options = "noatime,nodiratime"'
    # What can be changed, and whether it may, depends on what the cluster lies on: see test_storage_trials.
    examples: ClassVar[tuple[Example, ...]] = ()
    changes_host = True

    def __init__(self) -> None:
        self._noted: list[NotedChange] = []
        self._before: Mount | None = None
        self._words: dict[str, str] = {}

    @classmethod
    def mount_options(cls, levels: Mapping[str, str]) -> list[str]:
        return [x for x in options_of(levels) if not is_of_mount(x)]

    def problem(self, level: Level, here: Here) -> Problem | None:
        """Return what is not an option as a mistake; without root or consent a level is untestable."""
        if level.name != OPTIONS:
            message = f'a mount has no "{level.name}"'
            return Problem(level, True, message, f'Write {OPTIONS} = "noatime,nodiratime".')
        options = options_of({level.name: level.value})
        wrong = [x for x in options if _is_refused(x)]
        if wrong or not options:
            what = f'"{wrong[0]}"' if wrong else f'"{level.value}"'
            message = f"mount options cannot be {what}"
            return Problem(
                level, True, message, "Name options that the kernel can change: noatime."
            )
        if here.storage:
            return _without_root(level, "the scratch device")
        found = mount_holding(here.scratch_root)
        if found is None:
            return Problem(
                level, False, "mount options cannot be set here: the host hides its mounts"
            )
        without_root = _without_root(level, str(found.mount_point))
        if without_root is not None:
            return without_root
        disk = disk_under(here.scratch_root)
        if str(found.mount_point) in here.allowed or (
            isinstance(disk, Disk) and disk.is_named_in(here.allowed)
        ):
            return None
        message = (
            f'mount options cannot be set to "{level.value}" here: '
            f'"{found.mount_point}" is not pgdrag\'s to remount'
        )
        hint = (
            f"Give the baseline a storage of its own, or add --allow-change {found.mount_point}. "
            f"Its options are {','.join(found.options)} now."
        )
        return Problem(level, False, message, hint)

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        """Remount with the options that are not in force yet."""
        found = mount_holding(cluster.data_directory) if levels else None
        if found is None:
            return
        self._before = found
        asked = options_of(levels)
        if wanted := [x for x in asked if not found.has_option(x)]:
            self._remount(found, wanted)
        # Together they may have been refused; alone, each shows whether it is the one.
        for option in wanted:
            now = mount_at(found.mount_point) or found
            if not now.has_option(option):
                self._words[option] = self._remount(now, [option])

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return those asked for as they are in force, with the kernel's reason for what is not."""
        found = mount_holding(cluster.data_directory) if levels else None
        return [
            self._applied(Level(self.name, name, value), found) for name, value in levels.items()
        ]

    def undo(self, cluster: Cluster) -> None:
        while self._noted:
            UndoJournal.open().restore(self._noted.pop())

    def _remount(self, found: Mount, options: Sequence[str]) -> str:
        """Remount, noted beforehand, and return what there is to say of it."""
        before = {choice_of(x): found.state_of(x) for x in options}
        unknown = [x for x in options if before[choice_of(x)] is None]
        if unknown and not is_scratch_device(found.mount_point):
            return f"the kernel does not say what {unknown[0]} is now, so it could not be restored"
        known = {choice: state for choice, state in before.items() if state is not None}
        journal = UndoJournal.open()
        change = Remount(str(found.mount_point), found.source, known)
        self._noted.append(journal.note(change))
        answer = remount(found, options)
        now = mount_at(found.mount_point) or found
        after = {choice: now.in_force.get(choice, choice) for choice in known}
        self._noted[-1] = journal.settle(self._noted[-1], replace(change, after=after))
        return answer.message

    def _applied(self, level: Level, found: Mount | None) -> Applied:
        if found is None or self._before is None:
            return Applied(level, None, "the kernel does not show what the cluster is on")
        asked = options_of({level.name: level.value})
        missing = [x for x in asked if not found.has_option(x)]
        kept = f"{found.file_system} does not show it"
        notes = [f"{x} is not in force: {self._words.get(x) or kept}" for x in missing]
        in_force = [found.state_of(x) or x for x in asked if x not in missing]
        # What a scratch device was mounted with shows no more how it would be without.
        is_fresh = is_scratch_device(found.mount_point)
        before = [
            None if is_fresh and not is_of_mount(x) else self._before.state_of(x) for x in asked
        ]
        default = ",".join(filter(None, before)) if all(before) else None
        return Applied(level, ",".join(in_force) or None, "; ".join(notes), default)


def options_of(levels: Mapping[str, str]) -> list[str]:
    """Return the mount options that levels name; of two of one choice the later one."""
    written = levels.get(OPTIONS, "").replace(" ", "").split(",")
    return merged((), [x for x in written if x and x != "defaults"])


def _is_refused(option: str) -> bool:
    name, _, value = option.partition("=")
    is_known_to_reach = name in _NOT_OPTIONS | _REACHING or value == "panic"
    return is_known_to_reach or not _FORM.fullmatch(option)


def _without_root(level: Level, place: str) -> Problem | None:
    if os.geteuid() == 0:
        return None
    message = f'mount options cannot be set to "{level.value}" here: only root may'
    hint = f"As root, pgdrag would remount {place} with them, and put back at the end what was."
    return Problem(level, False, message, hint)
