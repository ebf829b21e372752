"""What is in the report as JSON? Its JSON Schema, made of the values that are printed.

Every key is described by the docstring of the value that it is a field of, so that the schema says
what the code says.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from inspect import getdoc
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pgdrag.findings.analysis import treatment_analyses
from pgdrag.findings.design_analysis import all_analyses
from pgdrag.findings.values import DesignFinding, Findings, Interval, TreatmentFinding
from pgdrag.model import Level, Outcome, RestoreCost, RunRecord, Study
from pgdrag.model.measurement import Arrivals, Counts, DriverCost
from pgdrag.model.recordings import SHIPPED, Recordings

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

_ATTRIBUTE = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)


def report_schema() -> Schema:
    """Return the JSON Schema of `report.json.render_json`."""
    made = _Maker()
    properties = {
        "pgdrag_report": {
            "const": 1,
            "description": "Changes when a key changes its meaning or goes away",
        },
        **made.properties(Findings, ("answer", "noise_floor", "instrument", "warnings")),
        "run": made.dataclass(RunRecord, without=("study", "results")),
        "study": made.dataclass(Study, without=("rungs",)),
        "rungs": {
            "type": "array",
            "items": _rung(made),
        },
        "found": {"anyOf": [*_found(made), {"type": "null"}]},
        "trials": {"type": "array", "items": _trial(made)},
    }
    return {
        "$schema": SCHEMA_ID,
        "title": "pgdrag report",
        "description": "What a run found. Where a number can be infinite or unknown, null stands for that.",
        **_object(properties),
        "$defs": dict(sorted(made.definitions.items())),
    }


def _rung(made: _Maker) -> Schema:
    names = [field.name for field in fields(TreatmentFinding) if field.name != "found"]
    analysed = {name: made.of(kind.finds | None) for name, kind in treatment_analyses().items()}
    core = made.properties(TreatmentFinding, names)
    return _object({"state": {"type": "string"}, **core, **analysed})


def _found(made: _Maker) -> list[Schema]:
    return [
        made.reference(finding_class(name), {"design": {"const": name}}) for name in all_analyses()
    ]


def finding_class(design: str) -> type[DesignFinding]:
    """Return what the analysis of a design finds."""
    told = get_type_hints(all_analyses()[design].find)["return"]
    # Of a design whose treatments may say it all, `find` returns a finding or None.
    kinds: list[type[DesignFinding]] = [x for x in get_args(told) or [told] if x is not type(None)]
    (found,) = kinds
    return found


def _trial(made: _Maker) -> Schema:
    number, text = made.of(float | None), {"type": "string"}
    whole = {"type": "integer"}
    return _object(
        {
            "number": whole,
            "block": whole,
            "replicate": whole,
            "treatment": text,
            "levels": made.of(tuple[Level, ...]),
            "is_brief": {"type": "boolean"},
            "seed": whole,
            "started_unix_s": number,
            "server_version": text,
            "outcome": made.of(Outcome),
            "reason": text,
            "elapsed_s": number,
            "stopped_by": made.of(str | None),
            "warm_up_s": number,
            "arrivals": made.of(Arrivals | None),
            "committed": made.of(int | None),
            "committed_per_s": number,
            "counts": made.of(Mapping[str, Counts] | None),
            "driver": made.of(DriverCost | None),
            "phases_s": made.of(Mapping[str, float]),
            "restored": made.of(RestoreCost | None),
            "violations": made.of(tuple[str, ...]),
            "warnings": made.of(tuple[str, ...]),
        }
    )


class _Maker:
    """Makes schemas of types, each dataclass once."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def of(self, kind: Any) -> Schema:
        """Return the schema of values of a type, as `report.json.plain` writes them."""
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(one) for one in arguments]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (tuple, list, Sequence) or (
            isinstance(origin, type) and issubclass(origin, Sequence)
        ):
            return self._array(origin, arguments)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [one.value for one in kind]}
        if kind is Recordings:
            return self._recordings()
        if is_dataclass(kind):
            assert isinstance(kind, type), kind
            return self.reference(kind, {})
        return _plain(kind)

    def _array(self, origin: Any, arguments: tuple[Any, ...]) -> Schema:
        if origin is tuple and arguments[-1] is not Ellipsis:
            items = [self.of(one) for one in arguments]
            return {
                "type": "array",
                "prefixItems": items,
                "minItems": len(items),
                "maxItems": len(items),
            }
        return {"type": "array", "items": self.of(arguments[0])}

    def _recordings(self) -> Schema:
        kinds = {kind.key: {"type": "array", "items": self.of(kind)} for kind in SHIPPED}
        missing = {
            **self.of(Mapping[str, str]),
            "description": "why a collector recorded nothing, by its name.",
        }
        # Other keys are those of plug-ins.
        return {
            **_object({**kinds, "missing": missing}),
            "additionalProperties": {"type": "array"},
        }

    def reference(self, kind: type, more: Mapping[str, Schema]) -> Schema:
        """Return a reference to a dataclass's schema, with further properties that are written before."""
        if kind not in self._names:
            # Two modules may have a class of one name.
            is_taken = kind.__name__ in self.definitions
            module = kind.__module__.rpartition(".")[2]
            name = self._names[kind] = f"{module}.{kind.__name__}" if is_taken else kind.__name__
            self.definitions[name] = {}  # it may hold others of itself
            made = self.dataclass(kind)
            if kind is Interval:
                more = {**more, "censored": _CENSORED}
            made = _object({**more, **made["properties"]}) | {"description": _summary(kind)}
            self.definitions[name] = made
        return {"$ref": f"#/$defs/{self._names[kind]}"}

    def dataclass(self, kind: type, *, without: Sequence[str] = ()) -> Schema:
        """Return the schema of a dataclass in place."""
        names = [field.name for field in fields(kind) if field.name not in without]
        return {**_object(self.properties(kind, names)), "description": _summary(kind)}

    def properties(self, kind: type, names: Sequence[str]) -> dict[str, Schema]:
        """Return the schemas of fields, each with what the docstring says of it."""
        hints, told = get_type_hints(kind), _attributes(kind)
        return {
            name: {**self.of(hints[name]), **({"description": told[name]} if name in told else {})}
            for name in names
        }


_CENSORED = {
    "enum": ["upper bound", "lower bound", None],
    "description": "How to read null: the value lies below high, or above low; null: both ends are known",
}


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _plain(kind: Any) -> Schema:
    match kind:
        case _ if kind is float:
            return {"type": ["number", "null"]}
        case _ if kind is bool:
            return {"type": "boolean"}
        case _ if kind is int:
            return {"type": "integer"}
        case _ if kind is str:
            return {"type": "string"}
        case _ if kind is type(None):
            return {"type": "null"}
        case _:
            assert kind is object, f"no schema for {kind}"
            return {}


def _summary(kind: type) -> str:
    return (getdoc(kind) or "").partition("\n")[0]


def _attributes(kind: type) -> dict[str, str]:
    """Return what the docstrings of a dataclass and of those that it is derived from say of its fields."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        text = (getdoc(one) or "").partition("Attributes:\n")[2]
        for names, told in _ATTRIBUTE.findall(text):
            sentence = " ".join(told.split())
            found.update(dict.fromkeys(names.split(", "), sentence))
    return found
