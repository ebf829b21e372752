"""What does the undo journal say, line by line, and what does a line that was cut off mean?

Each line is one JSON object, appended and forced to the disk before the next step::

    {"step": 7, "change": "written_value", "with": {...}, "owner": {"pid": 1, "started": 2, "boot": "…"}}
    {"step": 7, "told": true}          it is left as it is, and somebody was told
    {"step": 7, "done": "restored"}

A later line of a step replaces what an earlier one says of the same. A last line without its end was
being written when the process died: its step was not begun, so it says nothing. Any prefix of a JSON
object is no JSON object, so that a line cut off is never taken for a whole one.
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
    """A process of one boot of this machine; numbers are used again, start times of a boot are not.

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
class Noted:
    """A change in the journal.

    Attributes:
        step: its number, ascending in the order in which changes were made.
        was_told: it could not be put back, and somebody has been told.
    """

    step: int
    change: Change
    owner: Owner
    was_told: bool = False


@dataclass(frozen=True)
class Contents:
    """What a journal's file says.

    Attributes:
        open_steps: changes that are not put back, oldest first.
        unreadable: numbers of lines, from 1, that say nothing to this pgdrag though others follow or
            they are whole; with the reason.
        valid_bytes: up to where the file consists of whole lines.
        last_step: the highest number of any step, also of one that cannot be read.
    """

    open_steps: tuple[Noted, ...]
    unreadable: tuple[tuple[int, str], ...]
    valid_bytes: int
    last_step: int


def note_line(noted: Noted) -> bytes:
    """Return the line that notes a change, or what is now known of it."""
    owner = noted.owner
    return _line(
        step=noted.step,
        change=noted.change.name,
        owner={"pid": owner.pid, "started": owner.started, "boot": owner.boot},
        **{"with": noted.change.content()},
    )


def told_line(step: int) -> bytes:
    """Return the line that says that somebody was told."""
    return _line(step=step, told=True)


def done_line(step: int, state: str) -> bytes:
    """Return the line that says that nothing is left to put back."""
    return _line(step=step, done=state)


def read_contents(content: bytes) -> Contents:
    """Return what a journal's file says, whatever is in it."""
    valid_bytes = content.rfind(b"\n") + 1
    steps: dict[int, Noted] = {}
    unreadable = []
    last_step = 0
    # A carriage return ends no line: one line that is damaged is told once.
    for number, line in enumerate(content[:valid_bytes].split(b"\n")[:-1], 1):
        try:
            said = json.loads(line)
            step = _step(said)
            last_step = max(last_step, step)
            _read_line(step, said, steps)
        except KeyError as error:
            unreadable.append((number, f"this pgdrag knows nothing of {error}"))
        except (ValueError, TypeError, ValidationError) as error:
            unreadable.append((number, str(error).splitlines()[0]))
    ordered = tuple(steps[step] for step in sorted(steps))
    return Contents(ordered, tuple(unreadable), valid_bytes, last_step)


def whole_file(steps: Iterable[Noted]) -> bytes:
    """Return a file that says the same in the fewest lines."""
    return b"".join(note_line(x) + (told_line(x.step) if x.was_told else b"") for x in steps)


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _step(line: object) -> int:
    step = line["step"] if isinstance(line, dict) else None
    if not isinstance(step, int) or isinstance(step, bool):
        raise TypeError(f"step {step!r} is no number")
    return step


def _read_line(step: int, line: Mapping[str, object], steps: dict[int, Noted]) -> None:
    if "done" in line:
        steps.pop(step, None)
    elif "told" in line:
        if step in steps:
            steps[step] = replace(steps[step], was_told=True)
    else:
        owner = line["owner"]
        if not isinstance(owner, dict):
            raise TypeError(f"owner {owner!r} is no process")
        change = change_from(str(line["change"]), line["with"])
        own = Owner(int(owner["pid"]), int(owner["started"]), str(owner["boot"]))
        steps[step] = Noted(step, change, own)


def _line(**content: object) -> bytes:
    return json.dumps(content, ensure_ascii=True).encode() + b"\n"


def _started(pid: int) -> int | None:
    """Return when a living process was started, in ticks since boot; None: it is gone."""
    fields = stat_fields(pid)
    return None if fields is None else int(fields[19])
