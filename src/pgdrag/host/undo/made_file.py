"""A file that was made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pgdrag.host.undo import Change, PutBack


@dataclass(frozen=True)
class MadeFile(Change):
    """A file where there was none."""

    name: ClassVar[str] = "made_file"
    survives_boot: ClassVar[bool] = True

    path: str

    def words(self) -> str:
        """Return its name."""
        return f'file "{self.path}" was made'

    def put_back(self, *, overwrite: bool) -> PutBack:
        """Delete it."""
        try:
            Path(self.path).unlink()
        except FileNotFoundError:
            return PutBack("was so", f'There is no file "{self.path}".')
        return PutBack("restored", f'File "{self.path}" was deleted.')
