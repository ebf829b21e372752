"""Values of which writing one changes others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pgdrag.host.undo import Change, PutBack
from pgdrag.host.undo.written_value import WrittenValue, put_values_back


@dataclass(frozen=True)
class LinkedValues(Change):
    """Files that the kernel keeps in step: vm.dirty_ratio and vm.dirty_bytes, a queue's scheduler and
    its number of requests.

    Attributes:
        values: in the order in which they are put back: one that changes others comes before them.
    """

    name: ClassVar[str] = "linked_values"

    values: tuple[WrittenValue, ...]

    def words(self) -> str:
        """Return the files and their values."""
        return "; ".join(value.words() for value in self.values)

    def put_back(self, *, overwrite: bool) -> PutBack:
        """Put all of them back, or none where somebody else changed one."""
        return put_values_back(self.values, overwrite=overwrite)
