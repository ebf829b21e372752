"""What do factors share whose levels are values in files of the kernel's, below /proc/sys and /sys?

Every value is noted in the undo journal before it is written, with what stood there, and read back.
A value that the kernel refuses is not applied, with the kernel's reason; the others are.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pgdrag.factors import Factor, Here, Problem
from pgdrag.host.undo import Change, NotedChange, UndoJournal
from pgdrag.host.undo.written_value import (
    LinkedValues,
    WrittenValue,
    is_tunable,
    shown_value,
    write_value,
)
from pgdrag.model import Applied, Level

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

_WORDS = {
    errno.EINVAL: "the kernel refuses it: invalid argument",
    errno.EACCES: "only root may",
    errno.EPERM: "only root may",
    errno.EROFS: "it is mounted read-only",
    errno.ENOENT: "this kernel does not have it",
}


@dataclass(frozen=True)
class Writing:
    """One level, and the files that it is written to."""

    name: str
    value: str
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Batch:
    """Files that are written and restored together.

    Attributes:
        writings: in the order in which they are written.
        kept: further files that writing these changes, and that are restored with them.
        is_linked: writing one changes others, so that all or none are restored, what has a value
            before what is 0; False: each by itself.
    """

    writings: tuple[Writing, ...]
    kept: tuple[Path, ...] = ()
    is_linked: bool = False


class KernelFiles(Factor):
    """A kind of factor whose levels are values in files of the kernel's."""

    changes_host: ClassVar[bool] = True
    # Why a server that runs already cannot have these, as a clause; "": it can.
    not_while_running: ClassVar[str] = ""

    def __init__(self) -> None:
        self._noted: list[NotedChange] = []
        self._refusals: dict[str, str] = {}
        self._before: dict[Path, str] = {}

    @abstractmethod
    def problem(self, level: Level, here: Here) -> Problem | None:
        """Return what this kernel lacks or only root may set, and mistakes where they can be recognised."""

    @abstractmethod
    def file_of(self, name: str, here: Here) -> Path | None:
        """Return a file that shows what a level has now, whether or not it is there; None: it has none."""

    def value_now(self, name: str, here: Here) -> str | None:
        path = self.file_of(name, here)
        return None if path is None else _shown_or_none(path)

    @abstractmethod
    def batches(self, data_directory: Path, levels: Mapping[str, str]) -> Iterable[Batch]:
        """Return what to write for a server whose data are there, in order."""

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        if levels:
            self.write(cluster.data_directory, levels)

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        return self.shown(cluster.data_directory, levels) if levels else []

    def undo(self, cluster: Cluster) -> None:
        self.take_back()

    def write(self, data_directory: Path, levels: Mapping[str, str]) -> None:
        """Write the values for a server whose data are there, each noted first."""
        journal = UndoJournal.open()
        for batch in self.batches(data_directory, levels):
            self._apply(batch, journal)

    def shown(self, data_directory: Path, levels: Mapping[str, str]) -> list[Applied]:
        """Return what the kernel shows, and what it showed before."""
        return [
            self._applied(writing)
            for batch in self.batches(data_directory, levels)
            for writing in batch.writings
        ]

    def take_back(self) -> None:
        """Restore the values, newest first."""
        if not self._noted:
            return
        journal = UndoJournal.open()
        while self._noted:
            journal.restore(self._noted.pop())

    @property
    def has_applied(self) -> bool:
        """Whether something that was or may have been written is not restored."""
        return bool(self._noted)

    def note(self, writing: Writing, shown: str) -> str:
        """Return a note on a value that reads back differently from what was asked for."""
        return f"the kernel shows {shown} instead of {writing.value}"

    def _apply(self, batch: Batch, journal: UndoJournal) -> None:
        written = [path for writing in batch.writings for path in writing.paths]
        files = [
            WrittenValue(str(path), before) for path, before in _shown([*batch.kept, *written])
        ]
        self._before.update({Path(x.path): x.before for x in files})
        if all(self._before.get(path) == x.value for x in batch.writings for path in x.paths):
            return  # as it is already, and some files do something even then
        changes: list[Change] = [*files]
        if batch.is_linked and files:
            changes = [LinkedValues(tuple(sorted(files, key=lambda x: x.before == "0")))]
        first = len(self._noted)
        for change in changes:
            self._noted.append(journal.note(change))
        for writing in batch.writings:
            if all(path in self._before for path in writing.paths):
                self._write(writing)
            else:
                self._refusals[writing.name] = "it cannot be read, so it could not be restored"
        for noted in self._noted[first:]:
            settled = _settled(noted.change)
            if settled == _unchanged(noted.change):
                # All was refused: later changes are not pgdrag's.
                journal.restore(noted)
                self._noted.remove(noted)
            else:
                journal.settle(noted, settled)

    def _write(self, writing: Writing) -> None:
        for path in writing.paths:
            try:
                if _shown_or_none(path) != writing.value:
                    write_value(path, writing.value)
            except OSError as error:
                self._refusals[writing.name] = reason_of(error)

    def _applied(self, writing: Writing) -> Applied:
        level = Level(self.name, writing.name, writing.value)
        default = _together(self._before.get(path) for path in writing.paths)
        if (why := self._refusals.get(writing.name)) is not None:
            return Applied(level, None, why, default)
        shown = _together(_shown_or_none(path) for path in writing.paths)
        if shown is None:
            return Applied(level, None, _WORDS[errno.ENOENT], default)
        is_same = shown == " ".join(writing.value.split())
        return Applied(level, shown, "" if is_same else self.note(writing, shown), default)


def untouchable(level: Level, what: str, paths: Sequence[Path]) -> Problem | None:
    """Return why these files cannot be written, or not by this user; None if they can.

    Args:
        what: completes the message: 'sysctl "vm.swappiness"'.
    """
    for path in paths:
        if not is_tunable(str(path)):
            said = "the kernel runs a program that it names, or it is not for tuning"
            return Problem(level, False, f"{what} is not changed: {said}")
        try:
            now = shown_value(path)
            why = _why_unwritable(path)
        except OSError as error:
            return Problem(level, False, f"{what} cannot be read here: {reason_of(error)}")
        if why is not None:
            user = "As root, pgdrag" if os.geteuid() else "pgdrag"
            would = f"{user} would write {level.value} to {path}, which is {now} now."
            return Problem(
                level, False, f"{what} cannot be set to {level.value} here: {why}", would
            )
    return None


def reason_of(error: OSError) -> str:
    """Return why the kernel refused, in words."""
    return _WORDS.get(error.errno or 0, (error.strerror or str(error)).lower())


def choices_of(path: Path) -> tuple[str, ...]:
    """Return what a file such as "always [madvise] never" offers; nothing where it offers no choice."""
    text = path.read_text(encoding="utf-8", errors="replace").split()
    is_choice = sum(word.startswith("[") and word.endswith("]") for word in text) == 1
    return tuple(word.strip("[]") for word in text) if is_choice else ()


def is_number(text: str) -> bool:
    """Tell whether a text is a whole number, as in most of these files."""
    return text.strip().removeprefix("-").isdecimal()


def unwritable_value(level: Level, what: str, now: str) -> Problem | None:
    """Return why no kernel accepts a value: it is not one line, or not a number where numbers are expected."""
    value = level.value.strip()
    if not value or not value.isprintable():
        return Problem(level, True, f'{what} cannot be "{level.value!r}"', "Write one line.")
    numbers = now.split()
    if numbers and all(map(is_number, numbers)) and not all(map(is_number, value.split())):
        hint = f"It is {now} now: write whole numbers without units."
        return Problem(level, True, f'{what} cannot be "{value}", which is not a number', hint)
    return None


def _why_unwritable(path: Path) -> str | None:
    if not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        return "the kernel lets nobody change it"
    if os.geteuid() != 0 and not os.access(path, os.W_OK):
        return "only root may"
    if os.statvfs(path).f_flag & os.ST_RDONLY or not os.access(path, os.W_OK):
        return "it is mounted read-only"
    return None


def _shown(paths: Iterable[Path]) -> list[tuple[Path, str]]:
    """Return what files show, each once, without those that show nothing (of a feature that is off)."""
    shown = ((path, _shown_or_none(path)) for path in dict.fromkeys(paths))
    return [(path, text) for path, text in shown if text is not None]


def _shown_or_none(path: Path) -> str | None:
    try:
        return shown_value(path)
    except OSError:
        return None


def _settled(change: Change) -> Change:
    """Return a change with what its files show now."""
    if isinstance(change, LinkedValues):
        return LinkedValues(tuple(map(_settled_value, change.values)))
    assert isinstance(change, WrittenValue)
    return _settled_value(change)


def _unchanged(change: Change) -> Change:
    """Return a change that has changed nothing."""
    if isinstance(change, LinkedValues):
        return LinkedValues(tuple(replace(x, after=x.before) for x in change.values))
    assert isinstance(change, WrittenValue)
    return replace(change, after=change.before)


def _settled_value(value: WrittenValue) -> WrittenValue:
    return replace(value, after=_shown_or_none(Path(value.path)))


def _together(values: Iterable[str | None]) -> str | None:
    """Return what several files show: once where it is the same."""
    found = dict.fromkeys(value for value in values if value is not None)
    return ", ".join(found) if found else None
