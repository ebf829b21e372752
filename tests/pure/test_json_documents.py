"""What commands print with --json has a published schema: each command, each key, in the reference."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from documentation.reference import schemas
from in_process import pgdrag
from pgdrag.cli import COMMANDS, load_command
from pgdrag.cli.documents import documents
from pgdrag.report.json import plain
from pgdrag.report.schema import schema_of
from pgdrag.stats.interval import Interval
from printed import hold_to_schema

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


# What they print is no answer of theirs: a script, a schema, the path of a file or the address of a page.
WITHOUT_JSON = {
    *("capture twin", "completions", "observe", "schema", "serve"),
    *("fleet join", "fleet worker", "horizon hold", "tpcc load"),
}


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command with its name, `conf diff`."""

    def of(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        under = getattr(command, "commands", {})
        if not under:
            yield name, command
        for each, one in under.items():
            yield from of(f"{name} {each}", one)

    for name in COMMANDS:
        yield from of(name, load_command(name))


def has_json(command: Any) -> bool:
    return any(
        "--json" in x.opts
        or ("--format" in x.opts and "json" in get_args(x.type_descriptor.annotation))
        for x in command.params
    )


def test_every_command_has_json_with_a_schema_or_prints_nothing_of_its_own() -> None:
    found = {name for name, command in commands() if has_json(command)}
    assert found == {command for one in documents().values() for command in one.commands}
    assert {name for name, _ in commands()} - found == WITHOUT_JSON


@pytest.mark.parametrize("name", documents())
def test_each_schema_is_one_and_says_what_the_document_is(name: str) -> None:
    schema = documents()[name].schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith("pgdrag ")
    assert schema["description"]


def test_the_reference_has_the_schemas() -> None:
    kept = {
        f"schemas/{path.name}": path.read_text(encoding="utf-8")
        for path in (REFERENCE / "schemas").iterdir()
    }
    assert kept == schemas(), "run: make docs"


def test_what_is_not_in_the_schema_is_told() -> None:
    with pytest.raises(AssertionError, match="explain: "):
        hold_to_schema(["explain", "--json"], '{"run": "r", "lines": [], "more": 1}')
    with pytest.raises(AssertionError, match="no Infinity"):
        hold_to_schema(["explain", "--json"], '{"run": Infinity}')


@pytest.mark.parametrize("center", [0.0, 1.5, math.inf])
def test_an_interval_that_is_a_bound_follows_its_schema(center: float) -> None:
    schema = schema_of(tuple[Interval, ...], "intervals", "of ratios")
    value = plain([Interval(0.0, center, math.inf, 0.95, "t")])
    jsonschema.validate(value, schema)


def test_the_command_prints_each_schema_and_lists_them() -> None:
    status, out, _ = pgdrag("schema")
    assert status == 0
    assert {line.split()[0] for line in out.splitlines()[1:] if line[0] != " "} == set(documents())
    status, out, _ = pgdrag("schema", "runs")
    assert (status, json.loads(out)["type"]) == (0, "array")
    status, _, err = pgdrag("schema", "run")
    assert status == 2
    assert 'Did you mean "runs"?' in err
