"""What is wrong with an experiment file, in words: where, what was found, what is wanted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pgdrag.english import did_you_mean
from pgdrag.errors import ExperimentError
from pgdrag.experiment.model import FORMS, ExperimentTable
from pgdrag.toml_lines import KeyLines, KeyPath
from pgdrag.wrong_values import wanted

MOST_LISTED = 10
# Keys that people bring along from other tools, too unlike ours for a comparison of letters.
_OTHER_WORDS = {
    "terminals": "connections",
    "clients": "connections",
    "duration": "measure_s",
    "time": "measure_s",
    "ramp_up": "warm_up_s",
    "scalefactor": "warehouses",
    "repeats": "replicates",
    "runs": "replicates",
    "settings": "setting",
    "steps": "rungs",
    "rate": "rate_per_s",
    "rate_limit": "rate_per_s",
    "ramp": "sessions",
    "workers": "threads",
    "jobs": "threads",
    "latency_limit": "latency_limit_ms",
    "max_retries": "max_tries",
    "retries": "max_tries",
    "consistency_check": "check",
}


@dataclass(frozen=True)
class Mistake:
    """One thing that keeps a file from being run.

    Attributes:
        path: the key, as one walks to it.
        message: in the style of PostgreSQL's messages.
        hint: a sentence, or "".
    """

    path: KeyPath
    message: str
    hint: str = ""
    line: int | None = None  # where it is not the line of the key


def experiment_error(
    mistakes: Iterable[Mistake], lines: KeyLines, file: Path | str
) -> ExperimentError:
    """Return one error of all mistakes: the first in the file as message, the rest as detail."""
    # Without repetition: a mistake of [workload] is found again in every scale.
    placed = {(x.line or lines.line(x.path), x.message, x.hint) for x in mistakes}
    return error_of_all(placed, file)


def error_of_all(placed: Iterable[tuple[int, str, str]], file: Path | str) -> ExperimentError:
    """Return one error of mistakes given as (line, message, hint or ""), in the order of lines."""
    return error_of_places([(file, *mistake) for mistake in sorted(placed)])


def error_of_places(placed: Sequence[tuple[Path | str, int, str, str]]) -> ExperimentError:
    """Return one error of mistakes given as (file, line, message, hint or ""), in this order."""
    assert placed, "an error needs a mistake"
    (file, line, message, hint), *others = placed
    told = [
        f"{other}:{at}: {what}" + (f" ({why})" if why else "")
        for other, at, what, why in others[: MOST_LISTED - 1]
    ]
    if len(placed) > MOST_LISTED:
        told.append(f"There are {len(placed) - MOST_LISTED} more.")
    return ExperimentError(
        message, path=file, line=line, detail="\n".join(told) or None, hint=hint or None
    )


def mistakes_of(
    error: ValidationError,
    schema: Mapping[str, Any],
    table: KeyPath = (),
    forms: Mapping[str, str] = FORMS,
) -> list[Mistake]:
    """Return what a model found wrong.

    Args:
        error: from validating the table with the model.
        schema: the model's JSON Schema: it knows the keys that were possible.
        table: where the table stands in the file.
        forms: what texts are made of that a pattern of the model matches, by the pattern.
    """
    return [_mistake(details, schema, table, forms) for details in error.errors()]


def unknown_name(what: str, name: str, known: Iterable[str], path: KeyPath) -> Mistake:
    """Return the mistake of a name that nothing is registered under."""
    names = sorted(known)
    hint = did_you_mean(name, names) or f"Known are: {', '.join(names)}."
    return Mistake(path, f'unknown {what} "{name}"', hint)


def key_meant(name: str, known: Sequence[str]) -> str:
    """Return a question that names the nearest known key, or what other tools call it, or ""."""
    other = _OTHER_WORDS.get(name.lower())
    return did_you_mean(name, known) or (f'Did you mean "{other}"?' if other in known else "")


def in_table(path: KeyPath) -> str:
    """Return how the file heads a table: `[scales.demo.load]`, `[[rungs]]`."""
    names = ".".join(part if _is_bare(part) else json.dumps(part) for part in _names(path))
    return f"[[{names}]]" if path and isinstance(path[-1], int) else f"[{names}]"


def _mistake(
    details: ErrorDetails, schema: Mapping[str, Any], table: KeyPath, forms: Mapping[str, str]
) -> Mistake:
    is_of_key = details["loc"][-1:] == ("[key]",)
    inner: KeyPath = details["loc"][:-1] if is_of_key else details["loc"]
    path = (*table, *inner)
    if not inner:
        what = wanted(details, forms)
        return Mistake(table, f"{in_table(table)}{what}" if table else what.removeprefix(": "))
    key, around = str(path[-1]), path[:-1]
    where = f" in {in_table(around)}" if around else ""
    if details["type"] == "extra_forbidden":
        return Mistake(path, f'unknown key "{key}"{where}', _place_hint(schema, path, inner))
    if details["type"] == "missing":
        return Mistake(around, f'missing key "{key}"{where}', _description(schema, inner))
    if is_of_key:
        return Mistake(path, f'the name "{key}"{where}{wanted(details, forms)}')
    if isinstance(path[-1], int):
        return Mistake(path, f"element {path[-1] + 1} of {_array(path)}{wanted(details, forms)}")
    return Mistake(path, f'"{key}"{where}{wanted(details, forms)}')


def _place_hint(schema: Mapping[str, Any], path: KeyPath, inner: KeyPath) -> str:
    """Return where an unknown key belongs, or how it is spelt, or ""."""
    key, around = str(path[-1]), path[:-1]
    properties = _schema_at(schema, inner[:-1]).get("properties", {})
    for name in properties:
        if key in _schema_at(schema, (*inner[:-1], name)).get("properties", {}):
            return f"It belongs in {in_table((*around, name))}."
    if around and key in ExperimentTable.model_fields:
        return f"It belongs above the first table: here it is a key of {in_table(around)}."
    return key_meant(key, list(properties))


def _description(schema: Mapping[str, Any], path: KeyPath) -> str:
    text = str(_schema_at(schema, path).get("description", ""))
    return f"{text}." if text else ""


def _schema_at(root: Mapping[str, Any], path: KeyPath) -> Mapping[str, Any]:
    """Return the part of a JSON Schema that a key is judged by; {} where it says nothing."""
    schema = root
    for part in path:
        schema = _resolved(root, schema)
        properties = schema.get("properties", {})
        if isinstance(part, int):
            schema = schema.get("items", {})
        elif part in properties:
            schema = properties[part]
        else:
            # Tables of tables, whose names are the user's: with a pattern or without one.
            patterns = schema.get("patternProperties", {})
            inner = next(iter(patterns.values()), schema.get("additionalProperties"))
            schema = inner if isinstance(inner, Mapping) else {}
    return _resolved(root, schema)


def _resolved(root: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return {**found, **{key: value for key, value in schema.items() if key != "$ref"}}


def _array(path: KeyPath) -> str:
    return f"[[{'.'.join(_names(path))}]]" if len(_names(path)) == 1 else f'"{_names(path)[-1]}"'


def _names(path: KeyPath) -> list[str]:
    return [part for part in path if isinstance(part, str)]


def _is_bare(part: str) -> bool:
    return bool(part) and all(x.isascii() and (x.isalnum() or x in "-_") for x in part)
