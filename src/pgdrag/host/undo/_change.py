"""A change that can be undone, and the result of undoing it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import TypeAdapter

from pgdrag import registry

State = Literal["restored", "already restored", "gone", "changed since", "failed"]


@dataclass(frozen=True)
class RestoreResult:
    """The result of undoing a change.

    Attributes:
        state: "restored"; "already restored": it was as before; "gone": the object no longer exists; "changed
            since": someone else has changed it since pgdrag did, so it was left alone; "failed".
        sentence: what was restored, or what was not and why; a sentence for people.
    """

    state: State
    sentence: str

    @property
    def is_settled(self) -> bool:
        """Whether nothing remains to be undone."""
        return self.state not in ("changed since", "failed")


@dataclass(frozen=True)
class Change(ABC):
    """One change that outlives the process. Its fields are JSON values.

    Attributes:
        survives_boot: it is on disk; a reboot undoes all others.
    """

    name: ClassVar[str]
    survives_boot: ClassVar[bool] = False

    @abstractmethod
    def words(self) -> str:
        """Return a clause: what was changed, and from what."""

    @abstractmethod
    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Undo the change; safe to repeat, and safe for a change that was never made.

        Args:
            overwrite: restore it even if someone else has changed it since.
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
    """Return the change in a journal entry.

    Raises:
        KeyError: the kind is unknown to this version.
        ValidationError: the content is not of that kind.
    """
    return TypeAdapter(all_changes()[kind]).validate_python(content)
