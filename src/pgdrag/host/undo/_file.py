"""The file format of the undo journal.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from pgdrag.host.process_alive import stat_fields
from pgdrag.host.undo._change import Change, change_from

_PROC = Path("/proc")


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
    def this_process(cls) -> Owner:
        """Return the process that asks."""
        return cls(os.getpid(), _started(os.getpid()) or 0, boot_id())

    def is_of_this_boot(self) -> bool:
        """Tell whether the machine has not been booted since."""
        return self.boot == boot_id()

    def is_alive(self) -> bool:
        """Tell whether the process itself, not another of its number, is still there."""
        return self.is_of_this_boot() and _started(self.pid) == self.started


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


@dataclass(frozen=True)
class Contents:
    """The contents of a journal file.

    Attributes:
        open_steps: changes that are not undone, oldest first.
        unreadable: numbers, from 1, of complete lines that this version cannot read, with the reason.
        valid_bytes: length of the complete lines.
        last_step: the highest step number, including those of unreadable lines.
    """

    open_steps: tuple[NotedChange, ...]
    unreadable: tuple[tuple[int, str], ...]
    valid_bytes: int
    last_step: int


def note_line(noted: NotedChange) -> bytes:
    """Return the line for a change, or for what is now known of it."""
    owner = noted.owner
    return _line(
        step=noted.step,
        change=noted.change.name,
        owner={"pid": owner.pid, "started": owner.started, "boot": owner.boot},
        **{"with": noted.change.content()},
    )


def reported_line(step: int) -> bytes:
    """Return the line that marks a step as reported."""
    return _line(step=step, told=True)


def done_line(step: int, state: str) -> bytes:
    """Return the line that marks a step as undone."""
    return _line(step=step, done=state)


def read_contents(content: bytes) -> Contents:
    """Return the contents of a journal file, however damaged."""
    valid_bytes = content.rfind(b"\n") + 1
    steps: dict[int, NotedChange] = {}
    unreadable = []
    last_step = 0
    # Split at newlines only, so that a damaged line is reported once.
    for number, line in enumerate(content[:valid_bytes].split(b"\n")[:-1], 1):
        try:
            said = json.loads(line)
            step = _step(said)
            last_step = max(last_step, step)
            _read_line(step, said, steps)
        except KeyError as error:
            unreadable.append((number, f"unknown to this version: {error}"))
        except (ValueError, TypeError, ValidationError) as error:
            unreadable.append((number, str(error).splitlines()[0]))
    ordered = tuple(steps[step] for step in sorted(steps))
    return Contents(ordered, tuple(unreadable), valid_bytes, last_step)


def whole_file(steps: Iterable[NotedChange]) -> bytes:
    """Return the shortest file with the same contents."""
    return b"".join(
        note_line(x) + (reported_line(x.step) if x.was_reported else b"") for x in steps
    )


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _step(line: object) -> int:
    step = line["step"] if isinstance(line, dict) else None
    if not isinstance(step, int) or isinstance(step, bool):
        raise TypeError(f"step {step!r} is not a number")
    return step


def _read_line(step: int, line: Mapping[str, object], steps: dict[int, NotedChange]) -> None:
    if "done" in line:
        steps.pop(step, None)
    elif "told" in line:
        if step in steps:
            steps[step] = replace(steps[step], was_reported=True)
    else:
        owner = line["owner"]
        if not isinstance(owner, dict):
            raise TypeError(f"owner {owner!r} is not a process")
        change = change_from(str(line["change"]), line["with"])
        own = Owner(int(owner["pid"]), int(owner["started"]), str(owner["boot"]))
        steps[step] = NotedChange(step, change, own)


def _line(**content: object) -> bytes:
    return json.dumps(content, ensure_ascii=True).encode() + b"\n"


def _started(pid: int) -> int | None:
    """Return when a process was started, in ticks since boot; None if it has ended."""
    fields = stat_fields(pid)
    return None if fields is None else int(fields[19])
