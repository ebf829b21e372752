"""What does a treatment ask of the device that its cluster lies on, and can that be understood?

Nothing here looks at the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pgdrag.errors import UsageError
from pgdrag.servers.mkfs_options import known_options, words_of
from pgdrag.units import format_bytes, parse_bool, parse_bytes

FILE_SYSTEMS = ("ext4", "xfs", "btrfs")
_NAMES = ("size", "file_system", "mkfs_options", "device", "direct_io", "overwrite")
# A server's own files and WAL, before there is any data.
LEAST_BYTES = 128 * 2**20


@dataclass(frozen=True)
class StorageSpec:
    """A file system to be made for a cluster.

    Attributes:
        size_bytes: of a file that becomes a loop device; 0 with a `device`.
        mkfs_options: more words for mkfs, beside pgdrag's own: see `known_options`.
        device: a real device by path, all of which is taken.
        direct_io: the loop device bypasses the page cache on the way to its file.
        overwrite: what is on the device may be lost.
    """

    size_bytes: int = 0
    file_system: str = "ext4"
    mkfs_options: tuple[str, ...] = ()
    device: Path | None = None
    direct_io: bool = True
    overwrite: bool = False

    @classmethod
    def of(cls, levels: Mapping[str, str]) -> StorageSpec | None:
        """Return the device that the `storage` levels of one treatment describe; None if they name none.

        Raises:
            UsageError: one of them cannot be understood, or two contradict each other.
        """
        parsed = dict(parse_level(name, value) for name, value in levels.items())
        if not parsed:
            return None
        spec = cls(**parsed)  # type: ignore[arg-type]
        if spec.device is None and not spec.size_bytes:
            raise UsageError("a scratch device needs a size", hint='Write size = "20GB".')
        if spec.device is not None and spec.size_bytes:
            raise UsageError(
                f'storage "{spec.device}" cannot have a size: all of the device is taken',
                hint="Leave out size, or device.",
            )
        return replace(spec, mkfs_options=known_options(spec.mkfs_options, spec.file_system))

    @property
    def can_reflink(self) -> bool:
        """Whether copies can share their blocks with the original until they are written."""
        return self.file_system in ("xfs", "btrfs")

    @property
    def place(self) -> str:
        """What a cluster lies on, for people: "ext4 on a loop device"."""
        return f"{self.file_system} on {self.device or 'a loop device'}"

    @property
    def words(self) -> str:
        """The same with its size, where it has one of its own: "1 GB of ext4 on a loop device"."""
        size = f"{format_bytes(self.size_bytes)} of " if self.size_bytes else ""
        return f"{size}{self.place}"


def parse_level(name: str, value: str) -> tuple[str, object]:
    """Return the field of `StorageSpec` that a level sets, and to what.

    Raises:
        UsageError: there is no such level, or none of that value.
    """
    what = f'storage "{name}" cannot be'
    match name:
        case "size":
            return "size_bytes", _size(value)
        case "file_system":
            if value not in FILE_SYSTEMS:
                hint = f"pgdrag makes {', '.join(FILE_SYSTEMS)}."
                raise UsageError(f'{what} "{value}"', hint=hint)
            return name, value
        case "mkfs_options":
            return name, words_of(value)
        case "device":
            if not value.startswith("/dev/"):
                raise UsageError(f'{what} "{value}"', hint='Name it by its path: "/dev/sdb".')
            return name, Path(value)
        case "direct_io" | "overwrite":
            is_on = parse_bool(value)
            if is_on is None:
                raise UsageError(f'{what} "{value}"', hint='Write "on" or "off".')
            return name, is_on
    raise UsageError(f'storage has no "{name}"', hint=f"It has {', '.join(_NAMES)}.")


def _size(value: str) -> int:
    size_bytes = parse_bytes(value)
    if size_bytes < LEAST_BYTES:
        least = format_bytes(LEAST_BYTES)
        raise UsageError(f'storage "size" cannot be {value}: a cluster alone needs {least}')
    # Whole pages, since direct I/O knows nothing smaller.
    return size_bytes // 4096 * 4096
