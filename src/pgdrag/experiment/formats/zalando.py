"""A cluster of Zalando's Postgres Operator."""

from __future__ import annotations

from pgdrag.experiment.formats._parameters import ResourceFormat


class Zalando(ResourceFormat):
    """`spec.postgresql.parameters`."""

    name = "zalando"
    summary = "a postgresql of Zalando's operator (spec.postgresql.parameters)"
    api = "acid.zalan.do"
    kinds = ("postgresql",)
    path = ("spec", "postgresql", "parameters")
