"""The flags of an instance of Google Cloud SQL, as `gcloud sql instances describe` prints them."""

from __future__ import annotations

from pgdrag.errors import ConfError
from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._service import ServiceFormat

_KEYS = {"name", "value"}


class CloudSql(ServiceFormat):
    """`settings.databaseFlags`, in YAML or JSON, or the list alone."""

    name = "cloud-sql"
    summary = "the flags of Google Cloud SQL (gcloud sql instances describe)"
    example = """
databaseVersion: POSTGRES_16
settings:
  databaseFlags:
  - name: work_mem
    value: '65536'
"""

    def elements(self, document: Entry) -> list[Entry]:
        """Return the flags, or nothing where it is no instance."""
        version = document.get("databaseVersion")
        if version is not None and version.text and not version.text.startswith("POSTGRES"):
            message = f"is an instance of {version.text}, not of PostgreSQL"
            hint = "Describe an instance of PostgreSQL."
            raise ConfError(message, path=document.path, line=version.line, hint=hint)
        for above in (("settings", "databaseFlags"), ("databaseFlags",)):
            if flags := document.get(*above):
                return flags.elements()
        return [x for x in document.elements() if x.items().keys() == _KEYS]
