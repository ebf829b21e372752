"""A Cluster of CloudNativePG."""

from __future__ import annotations

from collections.abc import Iterator

from pgdrag.experiment.formats import Given, Skipped
from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._parameters import ResourceFormat, parameters, place_of


class CloudNativePG(ResourceFormat):
    """`spec.postgresql.parameters`, and the libraries beside it."""

    name = "cloudnativepg"
    summary = "a Cluster of CloudNativePG (spec.postgresql.parameters)"
    example = """
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
spec:
  postgresql:
    parameters:
      work_mem: "64MB"
"""
    api = "postgresql.cnpg.io"
    kinds = ("cluster",)
    path = ("spec", "postgresql", "parameters")

    def settings(self, document: Entry) -> Iterator[Given | Skipped]:
        """Yield the parameters, and the list of libraries as the setting into which the operator turns it."""
        yield from parameters(document.get(*self.path))
        libraries = document.get("spec", "postgresql", "shared_preload_libraries")
        names = [] if libraries is None else [x.text for x in libraries.elements() if x.text]
        if libraries is not None and names:
            yield Given("shared_preload_libraries", ", ".join(names), place_of(libraries))
