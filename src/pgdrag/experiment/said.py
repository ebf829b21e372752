"""What does a text say of settings? The words that all formats share: given, skipped, mended, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file; of text that stands in none, `file` is `Path()`."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Given:
    """One setting: the name as written, the value as postgresql.conf would have it, without quotes."""

    name: str
    value: str
    place: Place


@dataclass(frozen=True)
class Skipped:
    """What a file says and pgdrag leaves out. Its value is not kept: it may be a password.

    Attributes:
        name: of the setting, or the words of a statement.
        why: a clause.
    """

    name: str
    why: str
    place: Place


@dataclass(frozen=True)
class Mended:
    """One liberty that was taken with pasted text; `what` is a clause."""

    what: str
    place: Place

    @property
    def words(self) -> str:
        """Return `postgresql.conf, line 3: read 50 ms as 50ms`."""
        file = f"{self.place.file.name}, " if self.place.file.name else ""
        return f"{file}line {self.place.line}: {self.what}"
