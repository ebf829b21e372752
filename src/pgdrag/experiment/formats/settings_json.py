"""Rows of pg_settings as JSON, as json_agg or an editor's export makes them."""

from __future__ import annotations

from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._rows import why_not_set
from pgdrag.experiment.formats._service import ServiceFormat


class SettingsJson(ServiceFormat):
    """A list of objects with `name` and `setting`."""

    name = "pg_settings-json"
    summary = "rows of pg_settings as JSON"
    example = '[{"name": "work_mem", "setting": "65536", "unit": "kB"}]'
    keys = ("name", "setting")

    def elements(self, document: Entry) -> list[Entry]:
        return [x for x in document.elements() if x.get("setting") is not None]

    def unit(self, element: Entry) -> str:
        return element.word("unit")

    def why_not(self, element: Entry) -> str:
        return why_not_set(element.word("source"))
