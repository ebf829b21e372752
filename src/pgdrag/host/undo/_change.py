"""Changes that can be undone, and the file that keeps them.

Each line is one JSON object, appended and forced to the disk before the next step::

    {"step": 7, "change": "written_value", "with": {...}, "owner": {"pid": 1, "started": 2, "boot": "…"}}
    {"step": 7, "told": true}          it could not be undone, and this was reported
    {"step": 7, "done": "restored"}

A later line of a step replaces an earlier one. A last line without a newline was being written when the
process died; its change had not been made, so it is ignored. No proper prefix of a JSON object is valid JSON,
so a truncated line is never taken for a whole one.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal

from pydantic import ValidationError

from pgdrag import registry
from pgdrag.adapters import adapter_of
from pgdrag.host.process_alive import start_ticks

# How the names start of what pgdrag makes; directories of devices are "device-" in any scratch directory.
OWN_PREFIXES = ("pgdrag-", "device-")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class RestoreResult:
    """The result of undoing a change.

    Attributes:
        state: "restored"; "already restored": it was as before; "gone": the object no longer exists; "changed
            since": someone else has changed it since pgdrag did, so it was left alone; "failed"; "forgotten": either of
            these, and the user does not want it undone.
        sentence: what was restored, or what was not and why; a sentence for people.
    """

    state: Literal["restored", "already restored", "gone", "changed since", "failed", "forgotten"]
    sentence: str

    @property
    def is_settled(self) -> bool:
        """Whether nothing remains to be undone."""
        return self.state not in ("changed since", "failed")


@dataclass(frozen=True)
class Change(ABC):
    """One change that outlives the process. Its fields are JSON values.

    Attributes:
        clause: what was changed, with fields in braces, where `words` does not say it otherwise.
        survives_boot: it is on disk; a reboot undoes all others.

    What a change may touch is checked as it is made, also from a line of the journal: `__post_init__`
    raises ValueError for any other place, and the line counts as unreadable.
    """

    name: ClassVar[str]
    clause: ClassVar[str] = ""
    survives_boot: ClassVar[bool] = False

    def words(self) -> str:
        """Return a clause: what was changed, and from what."""
        return self.clause.format_map(vars(self))

    @abstractmethod
    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Undo the change; safe to repeat, and safe for a change that was never made.

        Args:
            overwrite: restore it even if someone else has changed it since.
        """

    def is_kernel_wide(self) -> bool:
        """Whether it changes what a kernel has once for all its containers."""
        return False

    def content(self) -> dict[str, object]:
        """Return the fields as JSON values."""
        found = adapter_of(type(self)).dump_python(self, mode="json")
        assert isinstance(found, dict)
        return found


def all_changes() -> dict[str, type[Change]]:
    """Return every registered kind of change, by name."""
    return registry.registered("pgdrag.host.undo", Change)  # type: ignore[type-abstract]


@dataclass(frozen=True)
class Owner:
    """A process of one boot of this machine: PIDs are reused, but not together with a start time.

    Attributes:
        started: when, in the kernel's ticks since it booted.
        boot: the kernel's id of that boot.
    """

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Owner | None:
        """Return a process of this boot; None: it has ended."""
        started = start_ticks(pid)
        return None if started is None else cls(pid, started, _BOOT_ID.read_text().strip())

    @classmethod
    def this_process(cls) -> Owner:
        """Return the process that asks."""
        own = cls.of(os.getpid())
        assert own is not None, "it lives"
        return own

    def is_of_this_boot(self) -> bool:
        """Tell whether the machine has not been booted since."""
        return self.boot == _BOOT_ID.read_text().strip()

    def is_alive(self) -> bool:
        """Tell whether the process itself, not another of its number, is still there."""
        return Owner.of(self.pid) == self


@dataclass(frozen=True)
class NotedChange:
    """A change in the journal.

    Attributes:
        step: its number, ascending in the order in which changes were made.
        was_reported: it could not be undone, and the user was told.
    """

    step: int
    change: Change
    owner: Owner
    was_reported: bool = False

    def lines(self) -> bytes:
        """Return the lines for it, or for what is now known of it."""
        first = line(
            step=self.step,
            change=self.change.name,
            owner=asdict(self.owner),
            **{"with": self.change.content()},
        )
        return first + line(step=self.step, told=True) if self.was_reported else first


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"unknown to this version: {error}"
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        words = first["msg"].removeprefix("Value error, ")
        return f"{where}: {words}" if where else words
    return str(error).partition("\n")[0] or type(error).__name__


def require_own_name(path: str) -> None:
    """Refuse a path unless its name, or that of a directory above it, is one that pgdrag gives.

    Raises:
        ValueError: undoing must not delete, detach or unmount it.
    """
    found = PurePosixPath(path)
    is_own = any(part.startswith(OWN_PREFIXES) for part in found.parts)
    if not is_own or not found.is_absolute() or ".." in found.parts:
        names = " or ".join(OWN_PREFIXES)
        raise ValueError(f'"{path}" is not pgdrag\'s: no name on the way to it starts with {names}')


def line(**content: object) -> bytes:
    """Return one line of the file."""
    return json.dumps(content).encode() + b"\n"


class Contents:
    """The contents of a journal file, however damaged.

    Attributes:
        open_steps: changes that are not undone, by their number, oldest first.
        unreadable: numbers, from 1, of complete lines that this version cannot read, with the reason.
        valid_bytes: length of the complete lines.
        last_step: the highest step number, including those of unreadable lines.
    """

    def __init__(self, content: bytes) -> None:
        self.open_steps: dict[int, NotedChange] = {}
        self.unreadable: list[tuple[int, str]] = []
        self.valid_bytes = content.rfind(b"\n") + 1
        self.last_step = 0
        # Split at newlines only, so that a damaged line is reported once.
        for number, each in enumerate(content[: self.valid_bytes].split(b"\n")[:-1], 1):
            try:
                self._read(json.loads(each))
            except Exception as error:  # a plug-in may raise anything
                self.unreadable.append((number, _reason(error)))
        self.open_steps = dict(sorted(self.open_steps.items()))

    def _read(self, said: Mapping[str, object]) -> None:
        step = said["step"] if isinstance(said, dict) else None
        if not isinstance(step, int) or isinstance(step, bool):
            raise TypeError(f"step {step!r} is not a number")
        self.last_step = max(self.last_step, step)
        if "done" in said:
            self.open_steps.pop(step, None)
        elif "told" in said:
            if step in self.open_steps:
                self.open_steps[step] = replace(self.open_steps[step], was_reported=True)
        else:
            kind = all_changes()[str(said["change"])]
            change = adapter_of(kind).validate_python(said["with"])
            owner = adapter_of(Owner).validate_python(said["owner"])
            self.open_steps[step] = NotedChange(step, change, owner)
