"""Is what a command prints with --json what its schema says? For whatever test runs a command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

import jsonschema

from pgdrag.cli.documents import documents


def hold_to_schema(arguments: Sequence[str], out: str) -> None:
    """Hold what a command printed to the schemas of its documents; nothing where it printed nothing."""
    is_json = "--json" in arguments or "--format json" in " ".join(arguments)
    if not is_json or "--output" in arguments or not out.strip():
        return
    words = [x for x in arguments if not x.startswith("-")]
    validators = _of(" ".join(words[:2])) or _of(words[0])
    assert validators, f"no schema of what pgdrag {words[0]} prints: cli/documents.py"
    found = json.loads(out, parse_constant=_refused)
    errors = {
        name: jsonschema.exceptions.best_match(x.iter_errors(found)) for name, x in validators
    }
    if all(errors.values()):
        raise AssertionError(
            "\n".join(
                f"{name}: {error.json_path}: {error.message}" for name, error in errors.items()
            )
        )


@cache
def _of(command: str) -> list[tuple[str, jsonschema.Draft202012Validator]]:
    return [
        (name, jsonschema.Draft202012Validator(one.schema()))
        for name, one in documents().items()
        if command in one.commands
    ]


def _refused(constant: str) -> None:
    raise AssertionError(f"JSON has no {constant}")
