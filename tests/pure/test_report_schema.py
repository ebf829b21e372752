"""The JSON report is as its schema says, whatever a run found."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from pgdrag.designs import Design, all_designs
from pgdrag.report.json import render_json
from pgdrag.report.schema import report_schema
from pgdrag.testing.conformance_sections import every_state

KEPT = Path(__file__).parents[2] / "docs" / "reference" / "report.schema.json"


@pytest.fixture(scope="module")
def validator():
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_reference_has_the_schema():
    assert json.loads(KEPT.read_text(encoding="utf-8")) == report_schema(), "run: make docs"


def test_every_run_is_reported_as_the_schema_says(validator):
    for findings in every_state():
        document = json.loads(render_json(findings))
        errors = [
            f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)
        ]
        assert not errors, findings.run.study.design


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
