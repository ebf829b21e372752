"""Is a scratch device still fit to measure on? If not, what is the word for it?"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from pgdrag.host.loop_devices import devices_on
from pgdrag.host.mounts import Mount, mount_at
from pgdrag.units import format_bytes

LEAST_FREE_BYTES = 2**20
# Ways in which file systems say that they have given up writing.
_GIVEN_UP = frozenset({"ro", "emergency_ro", "shutdown"})


@dataclass(frozen=True)
class MountedDevice:
    """A scratch device as it was when it was mounted.

    Attributes:
        source: what the kernel says is mounted there; mount(8) may know the device by another name.
        number: `st_dev` of its files.
        file: what the block device is made of; None for a real one.
        file_bytes: the size of that file.
    """

    mount_point: Path
    source: str
    number: int
    block_device: Path
    file: Path | None
    file_bytes: int

    @classmethod
    def found(
        cls, mount_point: Path, block_device: Path, file: Path | None, file_bytes: int
    ) -> MountedDevice:
        """Return the device that was just mounted there."""
        found = mount_at(mount_point)
        assert found is not None, "mount(8) said that it is mounted"
        number = mount_point.stat().st_dev
        return cls(mount_point, found.source, number, block_device, file, file_bytes)

    def trouble(self, *, is_full: bool = False) -> str | None:
        """Return what is wrong with it, to complete "the scratch device …"; None: nothing.

        A small file is written to find out.

        Args:
            is_full: somebody was refused room on it.
        """
        found = mount_at(self.mount_point)
        if found is None or found.source != self.source:
            return f'has vanished: nothing of it is mounted at "{self.mount_point}" any more'
        if (lost := self._lost_file()) is not None:
            return f"has vanished: {lost}"
        given_up = _GIVEN_UP & {*found.options, *found.super_options}
        if given_up:
            return f"is read-only: {_gave_up(found, given_up)}"
        return self._refusal_to_write(found.file_system, is_full=is_full)

    def _lost_file(self) -> str | None:
        if self.file is None:
            return None
        if self.block_device not in devices_on(self.file):
            return f"{self.block_device} is not attached to its file any more"
        try:
            size = self.file.stat().st_size
        except OSError:
            return "its file was deleted"
        if size < self.file_bytes:
            return (
                f"its file was truncated to {format_bytes(size)} of {format_bytes(self.file_bytes)}"
            )
        return None

    def _refusal_to_write(self, file_system: str, *, is_full: bool) -> str | None:
        try:
            _write_and_delete(self.mount_point / "probe")
            seen = os.statvfs(self.mount_point)
        except OSError as error:
            if error.errno == errno.EROFS:
                return f"is read-only: {file_system} does not write any more"
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                return f"does not answer: {(error.strerror or str(error)).lower()}"
            is_full, seen = True, os.statvfs(self.mount_point)
        # What the server's user may take: some of it is kept for root.
        free, size = seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize
        if is_full or free < LEAST_FREE_BYTES:
            return f"is full: {format_bytes(free)} of {format_bytes(size)} free"
        return None


def _gave_up(found: Mount, given_up: frozenset[str]) -> str:
    if given_up == {"ro"}:
        return "it was remounted so"
    return f"{found.file_system} has given up writing ({', '.join(sorted(given_up))})"


def _write_and_delete(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, b"\0" * 4096)
        os.fsync(fd)
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            path.unlink()
