"""Is a tree of files still what was stored, or did a cleaner, a power failure or a bad disk get at it?

Names and sizes are compared at each use, which costs nothing worth mentioning. Contents are compared where a
file's time has changed, and all of them once a day: CRC-32 reads some GB/s.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pgdrag.english import counted
from pgdrag.host.foreign_files import opened_foreign

_CONTENTS_EVERY_S = 24 * 3600.0
_PIECE_BYTES = 2**20


@dataclass(frozen=True)
class FileMark:
    """By what a file is known.

    Attributes:
        modified_ns: None: an older pgdrag did not note it.
        checksum: CRC-32 of its content; None: it is not known.
    """

    bytes: int
    modified_ns: int | None = None
    checksum: int | None = None

    @classmethod
    def of(cls, found: os.stat_result) -> FileMark:
        """Return what the file system says of a file."""
        return cls(found.st_size, found.st_mtime_ns)


# What a directory has of its own changes with what is in it, which is noted by itself.
DIRECTORY = FileMark(0)


@dataclass(frozen=True)
class Manifest:
    """The regular files and directories of a tree, by their paths in it, those of directories with a "/" at the end.

    Links are not noted. An older pgdrag noted no directories: nothing is known of them then.
    """

    files: Mapping[str, FileMark]

    @classmethod
    def of(cls, tree: Path) -> Manifest:
        """Read all files of a tree.

        Raises:
            OSError: one cannot be read.
        """
        marks = _marks(tree).items()
        return cls(
            {
                name: mark if name.endswith("/") else replace(mark, checksum=_checksum(tree / name))
                for name, mark in marks
            }
        )

    @classmethod
    def from_json(cls, content: Mapping[str, int | list[int]]) -> Manifest:
        """Return what `to_json` wrote, or an older pgdrag, which noted sizes alone.

        Raises:
            TypeError: it is something else.
        """
        if not isinstance(content, Mapping):
            raise TypeError("files have no names")
        marks = {
            name: FileMark(*mark) if isinstance(mark, list) else FileMark(mark)
            for name, mark in content.items()
        }
        if not all(isinstance(mark.bytes, int) for mark in marks.values()):
            raise TypeError("a file has no size")
        return cls(marks)

    def to_json(self) -> dict[str, list[int | None]]:
        """Return it for a JSON document."""
        return {
            name: [mark.bytes, mark.modified_ns, mark.checksum] for name, mark in self.files.items()
        }

    def damage(self, tree: Path, note: Path, found: Mapping[str, FileMark] | None = None) -> str:
        """Return what has changed in a tree since it was stored: a clause; "": nothing.

        Once a day all files are read, else only those that were written to.

        Args:
            note: a file whose time says when all were read last.
            found: what the file system said of the tree's files and directories; None: it is asked.

        Raises:
            OSError: a file cannot be read.
        """
        if not self.files:
            return ""
        contents = _is_due(note)
        found = _marks(tree) if found is None else found
        if not any(name.endswith("/") for name in self.files):
            found = {name: mark for name, mark in found.items() if not name.endswith("/")}
        wrong = sorted(
            name
            for name in self.files.keys() | found.keys()
            if not _is_same(tree, name, self.files.get(name), found.get(name), contents=contents)
        )
        if not wrong:
            if contents:
                _put_off(note)
            return ""
        stored, now = self.files.get(wrong[0]), found.get(wrong[0])
        if now is None:
            what = "is missing"
        elif stored is None:
            what = "was not stored with it"
        elif now.bytes != stored.bytes:
            what = f"has {now.bytes:,} bytes and not {stored.bytes:,}"
        else:
            what = "has another content"
        more = f", and {counted(len(wrong) - 1, 'other file')} too" if len(wrong) > 1 else ""
        kind = "directory" if wrong[0].endswith("/") else "file"
        return f'{kind} "{wrong[0].rstrip("/")}" {what}{more}'


def manifest_of(tree: Path) -> Path:
    """Return where the manifest of a tree of programs is: beside it."""
    return tree.with_name(f"{tree.name}.json")


def write_manifest(tree: Path, file: Path) -> None:
    """Note what a tree consists of; `file` is best not in it.

    Raises:
        OSError: a file cannot be read, or the note not be written.
    """
    file.write_text(json.dumps(Manifest.of(tree).to_json()), encoding="utf-8")


def tree_damage(tree: Path, file: Path) -> str:
    """Return what in a tree differs from what `write_manifest` recorded, as a clause; "" if nothing does."""
    try:
        manifest = Manifest.from_json(json.loads(file.read_text(encoding="utf-8")))
        return manifest.damage(tree, file)
    except (OSError, ValueError, TypeError) as error:
        return f"its list of files cannot be used: {error}"


def _is_due(file: Path) -> bool:
    """Whether it is time to compare all contents: `file` has the time when they last were."""
    try:
        # A clock that was set back puts nothing off.
        return abs(time.time() - file.stat().st_mtime) > _CONTENTS_EVERY_S
    except OSError:
        return True


def _put_off(file: Path) -> None:
    """Note that all contents have been compared."""
    with suppress(OSError):
        os.utime(file)


def _is_same(
    tree: Path, name: str, stored: FileMark | None, now: FileMark | None, *, contents: bool
) -> bool:
    if stored is None or now is None or stored.bytes != now.bytes:
        return False
    is_untouched = stored.modified_ns == now.modified_ns
    if stored.checksum is None or (is_untouched and not contents):
        return True
    return _checksum(tree / name) == stored.checksum


def _marks(tree: Path) -> dict[str, FileMark]:
    marks = {}
    for entry in entries_below(tree):
        name = entry.path.removeprefix(f"{tree}/")
        if entry.is_dir(follow_symlinks=False):
            marks[f"{name}/"] = DIRECTORY
        elif entry.is_file(follow_symlinks=False):
            marks[name] = FileMark.of(entry.stat(follow_symlinks=False))
    return marks


def entries_below(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Yield all files, links and directories of a tree, in the order of their names."""
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from entries_below(Path(entry.path))


def _checksum(path: Path) -> int:
    found = 0
    with opened_foreign(path) as file:
        while piece := file.read(_PIECE_BYTES):
            found = zlib.crc32(piece, found)
    return found
