"""The schema of the JSON report is the one in the reference, and describes every field."""

from __future__ import annotations

import json
from pathlib import Path

from pgdrag.designs import Design, all_designs
from pgdrag.report.schema import report_schema

KEPT = Path(__file__).parents[2] / "docs" / "reference" / "report.schema.json"


def test_the_reference_has_the_schema():
    assert json.loads(KEPT.read_text(encoding="utf-8")) == report_schema(), "run: make docs"


def test_each_design_with_findings_of_its_own_stands_in_the_schema():
    schemas = [one for one in report_schema()["properties"]["found"]["anyOf"] if "$ref" in one]
    assert len(schemas) == sum(kind.find is not Design.find for kind in all_designs().values())


def test_every_field_of_what_a_design_found_is_described():
    schema = report_schema()
    refs = [one["$ref"] for one in schema["properties"]["found"]["anyOf"] if "$ref" in one]
    for ref in refs:
        found = schema["$defs"][ref.removeprefix("#/$defs/")]["properties"]
        missing = {name for name, one in found.items() if "description" not in one} - {"design"}
        assert not missing, ref
