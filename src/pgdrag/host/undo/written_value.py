"""A value written to a file of /proc/sys or /sys, or several that the kernel keeps in step."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo import Change, RestoreResult

# Where the kernel keeps what may be tuned. Elsewhere in /sys a value can start programs.
PLACES = ("/proc/sys/", "/sys/block/", "/sys/devices/", "/sys/fs/btrfs/", "/sys/kernel/mm/")
# The kernel runs what these name, as root.
_PROGRAMS = re.compile(
    r"/proc/sys/(kernel/(core_pattern|modprobe|hotplug|poweroff_cmd|usermodehelper/.*)|fs/binfmt_misc/.*)"
)
# "always [madvise] never": the one in force.
_CHOSEN = re.compile(r"(?<!\S)\[(\S+)\](?!\S)")
# Huge pages go one by one as the processes that had them end.
SETTLING_S = 3.0


@dataclass(frozen=True)
class WrittenValue(Change):
    """A one-line file of the kernel's.

    Attributes:
        path: in /proc/sys or /sys.
        before: what `shown_value` returned before.
        after: what it returned after the change; None if the process died before it was read, so that any
            value counts as pgdrag's.
    """

    name: ClassVar[str] = "written_value"

    path: str
    before: str
    after: str | None = None

    def __post_init__(self) -> None:
        if not is_tunable(self.path):
            raise ValueError(f'"{self.path}" is not a value that pgdrag changes')

    def is_kernel_wide(self) -> bool:
        """Whether it is a file of the kernel's."""
        return self.path.startswith(("/proc/", "/sys/"))

    def words(self) -> str:
        """Return the file and its values."""
        changed = "changed" if self.after is None else f"set to {self.after}"
        return f"{self.path}, {changed} from {self.before}"

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Write the value of before, where the file still shows what was written."""
        return restore_values((self,), overwrite=overwrite)


@dataclass(frozen=True)
class LinkedValues(Change):
    """Files that the kernel keeps in step: vm.dirty_ratio and vm.dirty_bytes, a queue's scheduler and
    its number of requests.

    Attributes:
        values: in the order in which they are restored: one that changes others comes before them.
    """

    name: ClassVar[str] = "linked_values"

    values: tuple[WrittenValue, ...]

    def is_kernel_wide(self) -> bool:
        """Whether one of them is a file of the kernel's."""
        return any(value.is_kernel_wide() for value in self.values)

    def words(self) -> str:
        """Return the files and their values."""
        return "; ".join(value.words() for value in self.values)

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Restore all of them, or none if someone else has changed one since."""
        return restore_values(self.values, overwrite=overwrite)


def is_tunable(path: str) -> bool:
    """Whether a file is one of the kernel's that only tunes it, and starts no program."""
    # Spelled otherwise it would be another text, but the same file.
    is_there = path.startswith(PLACES) and os.path.normpath(path) == path
    return is_there and _PROGRAMS.fullmatch(path) is None


def restore_values(values: tuple[WrittenValue, ...], *, overwrite: bool) -> RestoreResult:
    """Restore values that belong together, in this order: all, or none if someone else has changed one since."""
    shown = {value.path: _shown_or_none(value) for value in values}
    if shown[values[0].path] is None:
        return RestoreResult("gone", f"{values[0].path} does not exist any more.")
    if all(shown[x.path] == x.before for x in values):
        was = ", ".join(f"{x.path} was {x.before} already" for x in values)
        return RestoreResult("already restored", f"{was}.")
    for value in values:
        now = shown[value.path]
        # A missing value comes back when another one is restored, or belongs to no one.
        ours = (None, value.before, now if value.after is None else value.after)
        if now not in ours and not overwrite:
            return RestoreResult(
                "changed since",
                f"{value.path} is {now}: someone else has changed it since pgdrag set it from "
                f"{value.before} to {value.after}, so it was left alone. To restore it, run "
                '"pgdrag restore --overwrite".',
            )
    for value in values:
        # Writing one may already have restored another, and some values cannot be written.
        if _shown_or_none(value) != value.before:
            try:
                write_value(Path(value.path), value.before)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                return RestoreResult(
                    "failed", f"{value.path} could not be restored to {value.before}: {reason}."
                )
    wrong: list[str] = []

    def is_as_before() -> bool:
        seen = ((x, _shown_or_none(x)) for x in values)
        wrong[:] = [
            f"{x.path} was written back as {x.before} but reads {now}."
            for x, now in seen
            if now != x.before
        ]
        return not wrong

    if not wait_until(is_as_before, SETTLING_S):
        return RestoreResult("failed", wrong[0])
    changed = [x for x in values if shown[x.path] != x.before]
    was = ", ".join(f"{x.path} was restored from {shown[x.path]} to {x.before}" for x in changed)
    return RestoreResult("restored", f"{was}.")


def shown_value(path: Path) -> str:
    """Return what a file of the kernel's says: blanks are one blank, of a choice the one in force.

    Raises:
        OSError: it cannot be read.
    """
    text = " ".join(path.read_text(encoding="utf-8", errors="replace").split())
    chosen = _CHOSEN.findall(text)
    return chosen[0] if len(chosen) == 1 else text


def write_value(path: Path, value: str) -> None:
    """Write a value as `echo` does, in one call, since the kernel reads each call by itself.

    Raises:
        OSError: the kernel refuses it.
    """
    with path.open("wb", buffering=0) as file:
        file.write(value.encode() + b"\n")


def _shown_or_none(value: WrittenValue) -> str | None:
    try:
        return shown_value(Path(value.path))
    except OSError:
        return None
