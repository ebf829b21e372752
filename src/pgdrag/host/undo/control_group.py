"""A control group that was made for a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pgdrag.host.control_groups import PREFIX, hierarchies, remove_group
from pgdrag.host.undo import Change, PutBack


@dataclass(frozen=True)
class ControlGroup(Change):
    """A group below one that was there.

    Attributes:
        path: its directory, with a name of pgdrag's.
    """

    name: ClassVar[str] = "control_group"

    path: str

    def __post_init__(self) -> None:
        if not Path(self.path).name.startswith(PREFIX):
            raise ValueError(f'"{self.path}" is not a control group of pgdrag\'s')

    def words(self) -> str:
        """Return its directory."""
        return f'control group "{self.path}" was made'

    def put_back(self, *, overwrite: bool) -> PutBack:
        """Move whoever is left in it into the group of this process, and remove it."""
        group = Path(self.path)
        tree = next((x for x in hierarchies() if group.is_relative_to(x.top)), None)
        elsewhere = None if tree is None else tree.group_of("self")
        if tree is None or not remove_group(group, elsewhere or tree.top):
            return PutBack("was so", f'There is no control group "{self.path}".')
        return PutBack("restored", f'Control group "{self.path}" was removed.')
