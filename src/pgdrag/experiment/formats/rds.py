"""A parameter group of Amazon RDS or Aurora, as `aws rds describe-db-parameters` prints it."""

from __future__ import annotations

import re

from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._service import ServiceFormat

_UNIT = re.compile(r"\((\d*[A-Za-z]+)\)")
_FORMULA = re.compile(r"[{}]|\b(?:GREATEST|LEAST|SUM)\(")


class Rds(ServiceFormat):
    """`Parameters`, in JSON or YAML."""

    name = "rds"
    summary = "a parameter group of Amazon RDS (aws rds describe-db-parameters)"
    example = """
{"Parameters": [
  {"ParameterName": "work_mem", "ParameterValue": "65536", "Description": "(kB) Sets the memory."}
]}
"""
    keys = ("ParameterName", "ParameterValue")

    def elements(self, document: Entry) -> list[Entry]:
        return (document.get("Parameters") or document).elements()

    def unit(self, element: Entry) -> str:
        """Return what the description begins with: (8kB) Sets the number of …."""
        match = _UNIT.match(element.word("Description").lstrip())
        return match[1] if match else ""

    def why_not(self, element: Entry) -> str:
        """Return why a formula, or a default of the engine, sets nothing here."""
        if _FORMULA.search(element.word(self.keys[1])):
            return "a formula of the instance class; write the number that SHOW prints there"
        if element.word("Source") == "engine-default":
            return "at the default there"
        return ""
