"""What do the exports of managed services have in common? A list of objects, each a parameter with its value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from pgdrag.experiment.formats import Given, Skipped
from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._parameters import DocumentFormat, parameter, place_of


class ServiceFormat(DocumentFormat):
    """A list of parameters; numbers count in the units of pg_settings.

    Class attributes:
        keys: of each object's name and value.
    """

    is_exported = True
    keys: ClassVar[tuple[str, str]] = ("name", "value")

    @abstractmethod
    def elements(self, document: Entry) -> list[Entry]:
        """Return the list, or nothing where the document is another one.

        Raises:
            ConfError: it is the export of another database's server.
        """

    def unit(self, element: Entry) -> str:
        """Return the unit that a number counts in, or "" where it is the setting's own."""
        return ""

    def why_not(self, element: Entry) -> str:
        """Return why a parameter sets nothing that applies elsewhere, or ""."""
        return ""

    def has_settings(self, document: Entry) -> bool:
        return any(x.word(self.keys[0]) for x in self.elements(document)[:1])

    def settings(self, document: Entry) -> Iterator[Given | Skipped]:
        """Yield each parameter that has a value; the others have the server's default."""
        for element in self.elements(document):
            name, value = (element.get(key) for key in self.keys)
            if name is None or name.text is None or value is None or value.is_null:
                continue
            if why := self.why_not(element):
                yield Skipped(name.text, why, place_of(name))
            else:
                yield parameter(name.text, value, place_of(name), unit=self.unit(element))
