"""A file system that was mounted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pgdrag.host.mounts import mount_at, unmount
from pgdrag.host.undo import Change, PutBack


@dataclass(frozen=True)
class Mounted(Change):
    """A mount in a place where there was none.

    Attributes:
        mount_point: without links, as the kernel names it.
    """

    name: ClassVar[str] = "mounted"

    mount_point: str

    def words(self) -> str:
        """Return where it was mounted."""
        return f'a file system was mounted at "{self.mount_point}"'

    def put_back(self, *, overwrite: bool) -> PutBack:
        """Unmount it; from one that is in use it is taken out of sight, and goes with its last user."""
        place = Path(self.mount_point)
        if mount_at(place) is None:
            return PutBack("was so", f'Nothing is mounted at "{place}".')
        left = None
        while mount_at(place) is not None:
            left = unmount(place)
            if left is not None and mount_at(place) is not None:
                return PutBack("failed", f'"{place}" could not be unmounted: {left}.')
        return PutBack(
            "restored", f'"{place}" was unmounted.' if left is None else f"{left.capitalize()}."
        )
