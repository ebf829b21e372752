"""A mapping from name to value: an object of JSON, or `parameters:` cut out of a longer document."""

from __future__ import annotations

from collections.abc import Iterator

from pgdrag.experiment.formats import Given, Skipped
from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._parameters import DocumentFormat, parameters

_KEY = "parameters"


class PlainMapping(DocumentFormat):
    """Nothing but names and values, or one key above them."""

    name = "mapping"
    summary = "a mapping from name to value (JSON, or parameters: in YAML)"
    example = "parameters:\n  work_mem: 64MB\n"

    def has_settings(self, document: Entry) -> bool:
        """Tell whether all values are scalars, of the document or of its only key."""
        items = document.items()
        inner = items[_KEY].items() if items.keys() == {_KEY} else items
        return bool(inner) and all(not x.is_collection for x in inner.values())

    def settings(self, document: Entry) -> Iterator[Given | Skipped]:
        yield from parameters(document.get(_KEY) or document)
