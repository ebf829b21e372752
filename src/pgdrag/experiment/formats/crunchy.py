"""A cluster of Crunchy's operator, or of Percona's, which is made of it."""

from __future__ import annotations

from collections.abc import Iterator

from pgdrag.experiment.formats import Given, Skipped
from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._parameters import DocumentFormat, parameters

_KINDS = {
    "postgres-operator.crunchydata.com": "postgrescluster",
    "pgv2.percona.com": "perconapgcluster",
}


class Crunchy(DocumentFormat):
    """`spec.config.parameters`, over which Patroni's dynamic configuration has less to say."""

    name = "crunchy"
    summary = "a PostgresCluster of Crunchy or Percona (spec.patroni.dynamicConfiguration)"
    example = """
apiVersion: postgres-operator.crunchydata.com/v1beta1
kind: PostgresCluster
spec:
  patroni:
    dynamicConfiguration:
      postgresql:
        parameters:
          work_mem: 64MB
"""

    def has_settings(self, document: Entry) -> bool:
        api = document.word("apiVersion").partition("/")[0]
        return document.word("kind").lower() == _KINDS.get(api)

    def settings(self, document: Entry) -> Iterator[Given | Skipped]:
        """Yield the dynamic configuration's settings, then those of `spec.config`, which override them."""
        dynamic = ("spec", "patroni", "dynamicConfiguration", "postgresql", "parameters")
        yield from parameters(document.get(*dynamic))
        yield from parameters(document.get("spec", "config", "parameters"))
