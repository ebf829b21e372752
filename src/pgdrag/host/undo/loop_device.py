"""A loop device that was attached to a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pgdrag.host.loop_devices import detach, devices_on
from pgdrag.host.undo import Change, PutBack


@dataclass(frozen=True)
class LoopDevice(Change):
    """Whichever loop device is attached to a file of pgdrag's: its number is known only afterwards.

    Attributes:
        backing_file: without links, as the kernel names it.
    """

    name: ClassVar[str] = "loop_device"

    backing_file: str

    def words(self) -> str:
        """Return the file."""
        return f'a loop device was made of "{self.backing_file}"'

    def put_back(self, *, overwrite: bool) -> PutBack:
        """Detach it."""
        found = devices_on(Path(self.backing_file))
        if not found:
            return PutBack("was so", f'No loop device is attached to "{self.backing_file}".')
        left = [words for device in found if (words := detach(device)) is not None]
        if left:
            return PutBack("failed", f"Loop device {'; '.join(left)}.")
        names = ", ".join(map(str, found))
        return PutBack("restored", f'{names} was detached from "{self.backing_file}".')
