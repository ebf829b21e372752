"""A cluster of Zalando's Postgres Operator."""

from __future__ import annotations

from pgdrag.experiment.formats._parameters import ResourceFormat


class Zalando(ResourceFormat):
    """`spec.postgresql.parameters`."""

    name = "zalando"
    summary = "a postgresql of Zalando's operator (spec.postgresql.parameters)"
    example = """
apiVersion: acid.zalan.do/v1
kind: postgresql
spec:
  postgresql:
    version: "16"
    parameters:
      work_mem: "64MB"
"""
    api = "acid.zalan.do"
    kinds = ("postgresql",)
    path = ("spec", "postgresql", "parameters")
