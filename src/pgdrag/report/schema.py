"""What is in a document of JSON, such as the report? Its JSON Schema, made by pydantic of the dataclasses that are printed.

Every key is described by the docstring of the dataclass that has it as a field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, make_dataclass
from functools import reduce
from inspect import getdoc
from operator import or_
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, core_schema

from pgdrag.findings.analysis import run_analyses, treatment_analyses
from pgdrag.findings.find import finding_class
from pgdrag.findings.values import Findings, Interval, TreatmentFinding
from pgdrag.model import RunRecord, Study
from pgdrag.model.design import Design, all_designs
from pgdrag.model.recordings import SHIPPED, Recordings
from pgdrag.report.json import FORMAT, HEAD, Trial, keys_of

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

_ATTRIBUTE = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_CENSORED = {
    "enum": ["upper bound", "lower bound", None],
    "description": "How to read null: the value lies below high, or above low; null: both ends are known",
}


def report_schema() -> Schema:
    """Return the JSON Schema of `report.json.render_json`."""
    designs = {
        finding_class(name): name
        for name, kind in all_designs().items()
        if kind.find is not Design.find
    }
    analysed = {name: kind.finds | None for name, kind in treatment_analyses().items()}
    report: Any = _record(
        Findings,
        {
            "pgdrag_report": Literal[FORMAT],
            **_types(Findings, HEAD),
            "run": _record(RunRecord, _types(RunRecord, keys_of(RunRecord, ["study", "results"]))),
            "study": _record(Study, _types(Study, keys_of(Study, ["rungs", "claims"]))),
            "rungs": tuple[_rung(analysed), ...],  # type: ignore[misc]
            **{name: kind.finds | None for name, kind in run_analyses().items()},
            "found": reduce(or_, designs) | None,
            "trials": tuple[Trial, ...],
        },
    )
    made = schema_of(
        report,
        "pgdrag report",
        "What a run found. Where a number can be infinite or unknown, null stands for that.",
    )
    definitions = made["$defs"]
    for kind, name in designs.items():
        definitions[kind.__name__]["properties"]["design"] = {"const": name}
    definitions["Recordings"]["additionalProperties"] = {"type": "array"}  # those of plug-ins
    return made


def schema_of(kind: Any, title: str, description: str) -> Schema:
    """Return the JSON Schema of what `report.json.plain` makes of values of a type."""
    made = TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_Generator)
    for name, one in made.get("$defs", {}).items():
        if name == Interval.__name__:
            one["properties"]["censored"] = _CENSORED
    return {**made, "$schema": SCHEMA_ID, "title": title, "description": description}


def extended(kind: type, more: Mapping[str, Any], instead: Mapping[str, Any] | None = None) -> type:
    """Return a dataclass that has some keys more than another one, or of other types, and its descriptions."""
    names = [field.name for field in fields(kind)]
    return _record(kind, {**more, **_types(kind, names), **(instead or {})})


def _rung(analysed: Mapping[str, Any]) -> type:
    recordings = make_dataclass(
        "Recordings",
        [
            *((kind.key, tuple[kind, ...]) for kind in SHIPPED),  # type: ignore[valid-type]
            ("missing", Mapping[str, str]),
        ],
    )
    recordings.__doc__ = Recordings.__doc__
    core = _types(TreatmentFinding, keys_of(TreatmentFinding, ["found"]))
    return _record(TreatmentFinding, {"state": str, **core, "recordings": recordings, **analysed})


def _types(kind: type, names: Sequence[str]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in names}


def _record(kind: type, types: Mapping[str, Any]) -> type:
    """Return a dataclass with fields of these types that is described as another."""
    made = make_dataclass(kind.__name__, list(types.items()))
    made.__doc__ = getdoc(kind)
    return made


class _Generator(GenerateJsonSchema):
    """Writes numbers that may be infinite as null, and docstrings as descriptions."""

    def float_schema(self, schema: core_schema.FloatSchema) -> Schema:
        """Return the schema of a number; infinite ones are null."""
        return {"type": ["number", "null"]}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> Schema:
        """Return the schema of a dataclass, with descriptions of it and of its fields."""
        made = super().dataclass_schema(schema)
        described = _attributes(schema["cls"])
        for name, one in made.get("properties", {}).items():
            one.pop("title", None)
            if name in described:
                one["description"] = described[name]
        made["additionalProperties"] = False
        made["description"] = (getdoc(schema["cls"]) or "").partition("\n")[0]
        return made

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> Schema:
        """Return the schema of what has a default, without the default: it is always printed."""
        inner: CoreSchema = schema["schema"]
        return self.generate_inner(inner)


def _attributes(kind: type) -> dict[str, str]:
    """Return what the docstrings of a dataclass and of those that it is derived from say of its fields."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        text = (getdoc(one) or "").partition("Attributes:\n")[2]
        for names, described in _ATTRIBUTE.findall(text):
            found.update(dict.fromkeys(names.split(", "), " ".join(described.split())))
    return found
