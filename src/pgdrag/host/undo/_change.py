"""What is a change that can be put back, and how did that go?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import TypeAdapter

from pgdrag import registry

State = Literal["restored", "was so", "gone", "changed by others", "failed"]


@dataclass(frozen=True)
class PutBack:
    """How it went to put a change back.

    Attributes:
        state: "restored": it is as before; "was so": it was as before already; "gone": what was
            changed is not there any more; "changed by others": somebody else changed it meanwhile, and
            it is left; "failed": it is not as before.
        sentence: what was put back, or what is left and why; a whole sentence for people.
    """

    state: State
    sentence: str

    @property
    def is_settled(self) -> bool:
        """Nothing is left to put back."""
        return self.state not in ("changed by others", "failed")


@dataclass(frozen=True)
class Change(ABC):
    """One change of something that outlives the process. Its fields are what JSON can say.

    Attributes:
        survives_boot: it is on a disk; the kernel has forgotten all others after a boot.
    """

    name: ClassVar[str]
    survives_boot: ClassVar[bool] = False

    @abstractmethod
    def words(self) -> str:
        """Return what was changed, and from what, for people: no whole sentence."""

    @abstractmethod
    def put_back(self, *, overwrite: bool) -> PutBack:
        """Make it as it was before; again is fine, and so is a change that was never made.

        Args:
            overwrite: also what somebody else changed meanwhile.
        """

    def content(self) -> dict[str, object]:
        """Return the fields as JSON values."""
        found = TypeAdapter(type(self)).dump_python(self, mode="json")
        assert isinstance(found, dict)
        return found


def all_changes() -> dict[str, type[Change]]:
    """Return every registered kind of change, by name."""
    return registry.registered("pgdrag.host.undo", Change)  # type: ignore[type-abstract]


def change_from(kind: str, content: object) -> Change:
    """Return the change that was noted so.

    Raises:
        KeyError: this pgdrag knows no such kind.
        ValidationError: the content is not of that kind.
    """
    return TypeAdapter(all_changes()[kind]).validate_python(content)
