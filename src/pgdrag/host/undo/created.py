"""What was created: a file, a loop device, a mount, a control group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pgdrag.host.control_groups import PREFIX, hierarchies, remove_group
from pgdrag.host.loop_devices import detach, devices_on
from pgdrag.host.mounts import mount_at, unmount
from pgdrag.host.trusted_path import who_may_swap
from pgdrag.host.undo import Change, RestoreResult
from pgdrag.host.undo._change import require_own_name


@dataclass(frozen=True)
class MadeFile(Change):
    """A file where there was none.

    Attributes:
        path: its name, or that of a directory above it, starts with "pgdrag-" (or "device-").
    """

    name: ClassVar[str] = "made_file"
    clause: ClassVar[str] = 'file "{path}" was created'
    survives_boot: ClassVar[bool] = True

    path: str

    def __post_init__(self) -> None:
        require_own_name(self.path)

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Delete it, unless others can replace it."""
        path = Path(self.path)
        try:
            if who := who_may_swap(path.parent):
                return RestoreResult("failed", f'File "{path}" was not deleted: {who}.')
            path.unlink()
        except FileNotFoundError:
            return RestoreResult("already restored", f'There is no file "{path}".')
        return RestoreResult("restored", f'File "{self.path}" was deleted.')


@dataclass(frozen=True)
class LoopDevice(Change):
    """The loop device attached to a file of pgdrag's; its number is known only afterwards.

    Attributes:
        backing_file: without links, as the kernel names it.
    """

    name: ClassVar[str] = "loop_device"
    clause: ClassVar[str] = 'a loop device was attached to "{backing_file}"'

    backing_file: str

    def __post_init__(self) -> None:
        require_own_name(self.backing_file)

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Detach it."""
        found = devices_on(Path(self.backing_file))
        if not found:
            return RestoreResult(
                "already restored", f'No loop device is attached to "{self.backing_file}".'
            )
        left = [words for device in found if (words := detach(device)) is not None]
        if left:
            return RestoreResult("failed", f"Loop device {'; '.join(left)}.")
        names = ", ".join(map(str, found))
        return RestoreResult("restored", f'{names} was detached from "{self.backing_file}".')


@dataclass(frozen=True)
class Mounted(Change):
    """A mount in a place where there was none.

    Attributes:
        mount_point: without links, as the kernel names it.
    """

    name: ClassVar[str] = "mounted"
    clause: ClassVar[str] = 'a file system was mounted at "{mount_point}"'

    mount_point: str

    def __post_init__(self) -> None:
        require_own_name(self.mount_point)

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Unmount it, lazily if it is in use."""
        place = Path(self.mount_point)
        if mount_at(place) is None:
            return RestoreResult("already restored", f'Nothing is mounted at "{place}".')
        left = None
        while mount_at(place) is not None:
            left = unmount(place)
            if left is not None and mount_at(place) is not None:
                return RestoreResult("failed", f'"{place}" could not be unmounted: {left}.')
        return RestoreResult(
            "restored", f'"{place}" was unmounted.' if left is None else f"{left.capitalize()}."
        )


@dataclass(frozen=True)
class ControlGroup(Change):
    """A group below one that was there.

    Attributes:
        path: its directory, with a name of pgdrag's.
    """

    name: ClassVar[str] = "control_group"
    clause: ClassVar[str] = 'control group "{path}" was created'

    path: str

    def __post_init__(self) -> None:
        if not Path(self.path).name.startswith(PREFIX):
            raise ValueError(f'"{self.path}" is not a control group of pgdrag\'s')

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Move remaining processes into this process's group, and remove it."""
        group = Path(self.path)
        tree = next((x for x in hierarchies() if group.is_relative_to(x.top)), None)
        elsewhere = None if tree is None else tree.group_of("self")
        if tree is None or not remove_group(group, elsewhere or tree.top):
            return RestoreResult("already restored", f'There is no control group "{self.path}".')
        return RestoreResult("restored", f'Control group "{self.path}" was removed.')
