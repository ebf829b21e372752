"""The parameters of Azure's flexible server, as `az postgres flexible-server parameter list` prints them."""

from __future__ import annotations

from pgdrag.errors import ConfError
from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._service import ServiceFormat

_TYPE = "microsoft.dbfor"


class Azure(ServiceFormat):
    """A list of configurations, in JSON or YAML."""

    name = "azure"
    summary = (
        "the parameters of Azure's flexible server (az postgres flexible-server parameter list)"
    )
    example = """
[
  {
    "name": "work_mem",
    "type": "Microsoft.DBforPostgreSQL/flexibleServers/configurations",
    "unit": "kB",
    "value": "65536"
  }
]
"""

    def elements(self, document: Entry) -> list[Entry]:
        found = document.elements()
        kind = found[0].word("type").lower() if found else ""
        if not kind.startswith(_TYPE):
            return []
        if not kind.startswith(f"{_TYPE}postgresql"):
            message = f'has parameters of "{found[0].word("type")}", not of PostgreSQL'
            hint = "List those of a server of PostgreSQL."
            raise ConfError(message, path=document.path, line=found[0].line, hint=hint)
        return found

    def unit(self, element: Entry) -> str:
        return element.word("unit")
