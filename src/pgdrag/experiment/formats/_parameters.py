"""Which settings does a YAML or JSON document have, and in which part?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

from pgdrag.errors import ConfError
from pgdrag.experiment.formats import Configuration, Format, Given, Place, Said, Skipped, Source
from pgdrag.experiment.formats._documents import Entry
from pgdrag.servers.conf import is_name
from pgdrag.units import with_base_unit


class DocumentFormat(Format):
    """A format whose settings are in a document of YAML or JSON.

    Class attributes:
        is_exported: as `Configuration` has it.
    """

    is_exported: ClassVar[bool] = False

    @abstractmethod
    def has_settings(self, document: Entry) -> bool:
        """Tell whether this document is what the format reads."""

    @abstractmethod
    def settings(self, document: Entry) -> Iterable[Said]:
        """Yield what the document says, the setting that counts last.

        Raises:
            ConfError: a setting has no value that makes sense.
        """

    def recognises(self, source: Source) -> bool:
        return any(self.has_settings(x) for x in source.documents)

    def read(self, source: Source) -> Configuration:
        first, *others = (x for x in source.documents if self.has_settings(x))
        if others:
            raise ConfError(
                f"holds settings twice: from line {first.line} on and from line {others[0].line} on",
                path=source.path,
                line=others[0].line,
                hint="Write the document that you mean to a file of its own.",
            )
        found = list(self.settings(first))
        if not found:
            hint = "Is it the whole file? The settings of its own server may come from elsewhere."
            raise ConfError("no setting is given", path=source.path, line=first.line, hint=hint)
        return Configuration.of(self, found, is_exported=self.is_exported)


class ResourceFormat(DocumentFormat):
    """Settings in a resource of Kubernetes.

    Class attributes:
        api: the group that its `apiVersion` begins with.
        kinds: its kinds, in lower case.
        path: the keys above the mapping that has the settings.
    """

    api: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    path: ClassVar[tuple[str, ...]]

    def has_settings(self, document: Entry) -> bool:
        is_of_api = document.word("apiVersion").partition("/")[0] == self.api
        return is_of_api and document.word("kind").lower() in self.kinds

    def settings(self, document: Entry) -> Iterable[Given | Skipped]:
        return parameters(document.get(*self.path))


def parameters(mapping: Entry | None) -> Iterator[Given | Skipped]:
    """Yield the settings of a mapping from name to value; None has none.

    Raises:
        ConfError: a key is not the name of a setting, or a value is a mapping or a list.
    """
    if mapping is None or mapping.is_null:
        return
    if not mapping.is_mapping:
        hint = "Write each setting as a line of its own: work_mem: 64MB."
        raise _error("the settings are not a mapping from name to value", mapping, hint)
    for name, value in mapping.items().items():
        yield parameter(name, value, place_of(value))


def parameter(name: str, value: Entry, place: Place, *, unit: str = "") -> Given | Skipped:
    """Return one setting, a number with the unit that it counts in; errors are those of `parameters`."""
    if not is_name(name):
        raise _error(f'"{name}" cannot be the name of a setting', value, "Correct the name.")
    if value.is_null:
        return Skipped(name, "null, which stands for the default", place)
    if value.text is None:
        hint = "Write a number, a word or a string. Is the indentation right?"
        raise _error(f'the value of "{name}" is not a scalar', value, hint)
    return Given(name, with_base_unit(value.text, unit), place)


def place_of(entry: Entry) -> Place:
    """Return where an entry stands."""
    return Place(entry.path, entry.line)


def _error(message: str, entry: Entry, hint: str) -> ConfError:
    return ConfError(message, path=entry.path, line=entry.line, hint=hint)
