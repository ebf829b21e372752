"""How the kernel treats requests to the disk under the data: scheduler, read-ahead, queue.

Under a volume of device-mapper or a RAID an attribute is set where it has its effect: read-ahead at the volume, all that
is of queues at the disks that it lies on.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from pgdrag.factors import Example, Here, Problem
from pgdrag.factors._devices import Disk, disk_at, disk_under
from pgdrag.factors.kernel_files import (
    Batch,
    KernelFiles,
    Writing,
    choices_of,
    untouchable,
    unwritable_value,
)
from pgdrag.host.undo.written_value import shown_value
from pgdrag.model import Applied, Level

SCHEDULER = "scheduler"
# The kernel sets these anew with another scheduler.
_BY_SCHEDULER = ("nr_requests", "wbt_lat_usec")
# Of any kernel, to tell a typo from a scheduler that is not built in here.
_SCHEDULERS = frozenset({"none", "mq-deadline", "kyber", "bfq", "noop", "deadline", "cfq"})
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LOOP_QUEUES = "loop*/queue"
_BLOCK = Path("/sys/block")


class BlockDevice(KernelFiles):
    """The attributes of the queue of the disk that the cluster's data lie on."""

    name = "block_device"
    summary = 'the disk under the data: scheduler = "none", read_ahead_kb = 256, nr_requests, rq_affinity …'
    # It changes the disk under the data, which is not a test's to change: tests have disks of their own.
    examples: ClassVar[tuple[Example, ...]] = ()

    search_values: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "nr_requests": ("32", "64", "128", "256", "1024"),
        "read_ahead_kb": ("0", "16", "128", "512", "4096"),
        "rq_affinity": ("0", "1", "2"),
        SCHEDULER: ("none", "mq-deadline", "kyber", "bfq"),
    }

    def problem(self, level: Level, here: Here) -> Problem | None:
        what = f'block device attribute "{level.name}"'
        if not _NAME.fullmatch(level.name):
            hint = 'Write it as /sys/block/DISK/queue does, such as "read_ahead_kb".'
            return Problem(level, True, f"{what} is not the name of an attribute", hint)
        if level.name == SCHEDULER and level.value not in _known_schedulers():
            message = f'"{level.value}" is not a {SCHEDULER}'
            return Problem(
                level, True, message, f"Schedulers are {', '.join(sorted(_SCHEDULERS))}."
            )
        device = here.storage.get("device")
        if here.storage and device is None:
            return _problem_of_loop(level, what)
        disk = disk_under(here.scratch_root) if device is None else disk_at(device)
        if isinstance(disk, str):
            return Problem(level, False, f"{what} cannot be set here: {disk}")
        tuned = disk.tuned_by(level.name)
        for one in tuned:
            if blocked := _problem_of_queue(level, what, one.queue):
                return blocked
        # Of a device that is a storage's, the storage asks for consent; not of disks below it.
        foreign = [x for x in tuned if device is None or x is not disk]
        lacking = [x for x in foreign if not x.is_named_in(here.allowed)]
        return _without_consent(level, lacking, disk) if lacking else None

    def file_of(self, name: str, here: Here) -> Path | None:
        if here.storage:
            return None  # it is not made yet
        disk = disk_under(here.scratch_root)
        return None if isinstance(disk, str) else disk.files(name)[0]

    def batches(self, data_directory: Path, levels: Mapping[str, str]) -> Iterable[Batch]:
        """Return the scheduler first, since setting it resets others; these are restored after it."""
        disk = disk_under(data_directory)
        assert not isinstance(disk, str), disk
        left = {name: Writing(name, value, disk.files(name)) for name, value in levels.items()}
        if SCHEDULER in left:
            names = (SCHEDULER, *_BY_SCHEDULER)
            linked = tuple(left.pop(name) for name in names if name in left)
            kept = [
                path
                for one in disk.tuned_by(SCHEDULER)
                for path in (
                    *(one.queue / name for name in names),
                    *sorted((one.queue / "iosched").glob("*")),
                )
            ]
            yield Batch(linked, tuple(kept), is_linked=True)
        for _, writing in sorted(left.items()):
            yield Batch((writing,))

    def shown(self, data_directory: Path, levels: Mapping[str, str]) -> list[Applied]:
        """Return what the kernel shows; of a volume, also at which disks."""
        disk = disk_under(data_directory)
        found = super().shown(data_directory, levels)
        if isinstance(disk, str) or not disk.below:
            return found
        return [replace(x, how=_place_words(x.level, disk)) for x in found]


def _known_schedulers() -> set[str]:
    """Return the names of schedulers, also of such as this kernel alone knows."""
    here = {name for path in _BLOCK.glob("*/queue/scheduler") for name in choices_of(path)}
    return here | _SCHEDULERS


def _problem_of_loop(level: Level, what: str) -> Problem | None:
    """Return why a scratch device cannot have this: it does not exist yet, but all are the same."""
    queue = next(iter(sorted(_BLOCK.glob(_LOOP_QUEUES))), None)
    # Without any, the storage itself is the problem.
    return None if queue is None else _problem_of_queue(level, what, queue)


def _problem_of_queue(level: Level, what: str, queue: Path) -> Problem | None:
    path = queue / level.name
    if not path.is_file():
        return Problem(level, False, f"{what} is not in this kernel", f"There is no {path}.")
    try:
        now = shown_value(path)
    except OSError:
        return untouchable(level, what, [path])
    mistake = unwritable_value(level, what, now)
    return mistake or untouchable(level, what, [path]) or _problem_of_scheduler(level, path)


def _problem_of_scheduler(level: Level, path: Path) -> Problem | None:
    if level.name != SCHEDULER:
        return None
    if level.value in choices_of(path) or _is_module(f"{level.value}-iosched", level.value):
        return None
    offered = ", ".join(choices_of(path))
    message = f'scheduler "{level.value}" is not in this kernel'
    return Problem(level, False, message, f"{path} offers {offered}.")


def _is_module(*names: str) -> bool:
    """Tell whether the kernel can load one of these when it is asked for."""
    listed = Path("/lib/modules", platform.release(), "modules.dep")
    try:
        text = listed.read_text(errors="replace")
    except OSError:
        return False
    return any(f"/{name}.ko" in text for name in names)


def _place_words(level: Level, disk: Disk) -> str:
    """Say at which disks an attribute of a volume was set."""
    paths = ", ".join(str(x.path) for x in disk.tuned_by(level.name))
    return f"at {paths}; the data are on {disk.device.words}"


def _without_consent(level: Level, lacking: Sequence[Disk], disk: Disk) -> Problem:
    paths = " and ".join(str(x.path) for x in lacking)
    message = f'"{level.name}" of {paths} is not changed without consent'
    options = " ".join(f"--allow-change {x.path}" for x in lacking)
    if lacking == [disk]:
        hint = "The disk is not pgdrag's own; throw-away servers can have a storage instead. To allow it, add"
    else:
        hint = (
            f"The data are on {disk.device.words}, which passes requests on: this attribute has its effect there, and on "
            "all that is on the same disk. To allow it, add"
        )
    return Problem(level, False, message, f"{hint} {options}")
