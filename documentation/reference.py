"""What does the code say of its commands, factors, workloads, designs, collectors and mechanisms? Each is a page.

`PAGES` has the text of each page by the name of its file. A test compares them with docs/reference, and `make docs`
writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from pgdrag.cli import COMMANDS, load_command
from pgdrag.cli.documents import documents
from pgdrag.collectors import all_collectors, all_observations
from pgdrag.designs import all_designs
from pgdrag.errors import EXIT_STATUSES
from pgdrag.factors import Factor, all_factors
from pgdrag.findings.mechanisms.catalogue import CATALOGUE, Claim, Mechanism, Sign
from pgdrag.findings.mechanisms.ledger import COMPONENTS
from pgdrag.horizon.holders import all_holders
from pgdrag.workloads import all_workloads

_UNLIMITED = 2**62
SCHEMAS = "schemas"  # a folder
_GENERATED = "`make docs` generates this page from the code."


def commands() -> str:
    """Return the page of all commands with their arguments, options and exit statuses."""
    parts = [
        "# Commands and options",
        f"{_GENERATED} `pgdrag COMMAND --help` prints the same. [The command line](command-line.md) explains what "
        "several commands share: arms, time limits, consent, exit status and environment.",
        _table(
            ("command", "what it does"),
            (
                (f"[`pgdrag {name}`](#pgdrag-{name})", summary)
                for name, (_, summary) in COMMANDS.items()
            ),
        ),
        "## Exit status",
        _table(("status", "meaning"), ((str(x), words) for x, words in EXIT_STATUSES.items())),
        "[What they mean, command by command](command-line.md#exit-status).",
    ]
    for name in COMMANDS:
        parts += _command(f"pgdrag {name}", load_command(name), level=2)
    return _page(parts)


def _command(name: str, command: Any, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    yield _prose(command.help or "")
    under = getattr(command, "commands", None)
    if under is not None:
        for one, its_command in under.items():
            yield from _command(f"{name} {one}", its_command, level=level + 1)
        return
    arguments, options = parameters(command)
    yield f"```text\n{synopsis(name, command)}\n```"
    yield _table(
        ("argument", "meaning"),
        ((_code(argument_name(x)), _prose(meaning(x))) for x in arguments),
    )
    yield _table(
        ("option", "meaning"),
        ((", ".join(map(_code, option_names(x))), _prose(meaning(x))) for x in options),
    )


def parameters(command: Any) -> tuple[list[Any], list[Any]]:
    """Return a command's arguments, and its options without those that nobody should use."""
    arguments = [x for x in command.params if x.param_type_name == "argument"]
    return arguments, [x for x in command.params if x not in arguments and not x.hidden]


def synopsis(name: str, command: Any) -> str:
    """Return how a command is called: "pgdrag show [OPTIONS] [RUN]"."""
    arguments, options = parameters(command)
    return " ".join([name, *(["[OPTIONS]"] if options else []), *map(argument_name, arguments)])


def argument_name(one: Any) -> str:
    """Return an argument as it is written where a command is called: "[RUN...]"."""
    name = one.metavar or one.name.upper()
    shown = f"{name}..." if one.nargs == -1 and not name.endswith("...") else name
    return shown if one.required or shown.startswith("[") else f"[{shown}]"


def option_names(one: Any) -> list[str]:
    """Return all names of an option, long ones first, each with its value: ["--output FILE", "-o FILE"]."""
    value = "" if one.is_flag else f" {one.metavar or one.name.upper()}"
    names = [*sorted(one.opts, key=lambda name: not name.startswith("--")), *one.secondary_opts]
    return [f"{name}{value}" for name in names]


def meaning(one: Any) -> str:
    """Return what an argument or option means, with its range and default."""
    notes = []
    if one.min is not None and one.max is not None and one.max < _UNLIMITED:
        notes.append(f"{one.min:,} to {one.max:,}")
    if one.show_default and one.default not in (None, False, (), []) and not callable(one.default):
        notes.append(f"default: {'on' if one.default is True else one.default}")
    text = one.help or ""
    if not notes:
        return text
    known = re.search(r" \((default: [^()]*)\)$", text)
    if known:
        text, notes = text[: known.start()], [known[1], *notes]
    return f"{text} ({'; '.join(notes)})"


def json_documents() -> str:
    """Return the page of what commands print with --json."""
    return _page(
        [
            "# JSON",
            f"{_GENERATED} With `--json` a command prints one document to standard output. Each follows its JSON Schema, "
            "which `pgdrag schema DOCUMENT` prints, too: keys stay what they are, and new ones may come. Where a number "
            "can be infinite or unknown, null stands for that.",
            _table(
                ("document", "what it is", "printed by"),
                (
                    (
                        f"[{name}]({SCHEMAS}/{name}.schema.json)"
                        if name != "report"
                        else "[report](report.schema.json)",
                        one.title,
                        ", ".join(f"`pgdrag {command}`" for command in one.commands),
                    )
                    for name, one in documents().items()
                ),
            ),
        ]
    )


def schemas() -> dict[str, str]:
    """Return the JSON Schema of each document but the report's, by the name of its file."""
    return {
        f"{SCHEMAS}/{name}.schema.json": f"{json.dumps(one.schema(), indent=2, ensure_ascii=False)}\n"
        for name, one in documents().items()
        if name != "report"
    }


def factors() -> str:
    """Return the page of the kinds of factors and of holders."""
    parts = [
        "# Factors",
        f"{_GENERATED} A factor is anything that can be changed. Each kind is a table of an experiment's baseline and "
        "rungs ([the experiment file](experiment-file.md#baseline-and-rungs)); `pgdrag list` prints their names.",
    ]
    parts += [part for name, kind in all_factors().items() for part in _factor(name, kind)]
    parts += [
        "## Holders of the horizon",
        "The kinds of `holder` in a `horizon` table "
        "([how to hold it in an experiment](../how-to/horizon.md#holding-it-in-an-experiment)).",
        _table(
            ("holder", "what it is", "where"),
            (
                (
                    f"`{name}`",
                    _prose(one.summary),
                    "throw-away clusters" if one.needs_cluster else "any server",
                )
                for name, one in all_holders().items()
            ),
        ),
    ]
    return _page(parts)


def _factor(name: str, kind: type[Factor]) -> Iterator[str]:
    yield f"## {name}"
    yield _sentence(kind.summary)
    facts = [
        "Changes the operating system, so it is undone from the undo journal."
        if kind.changes_host
        else "",
        "Needs root." if kind.examples and all(one.needs_root for one in kind.examples) else "",
    ]
    if any(facts):
        yield " ".join(fact for fact in facts if fact)
    if kind.examples:
        yield _table(
            ("level", "reads back as", "refused"),
            (
                (
                    _code(f"{one.level.name} = {_toml(one.level.value)}"),
                    _code(one.effective),
                    _code(f"{one.mistake.name} = {_toml(one.mistake.value)}"),
                )
                for one in kind.examples
            ),
        )
    if kind.search_values:
        yield "Values that `pgdrag search --os` tries:"
        yield _table(
            ("name", "values"),
            (
                (_code(level), ", ".join(map(_code, values)))
                for level, values in kind.search_values.items()
            ),
        )


def workloads() -> str:
    """Return the page of the workloads and their keys."""
    return _page(
        [
            "# Workloads",
            f"{_GENERATED} These are the values of `kind` in `[workload]`, each with its keys; "
            "[the experiment file](experiment-file.md#workload) explains them at length. A key marked *one value* must "
            "be the same at all scales, or in all arms.",
            *(
                part
                for name, kind in all_workloads().items()
                for part in (
                    f"## {name}",
                    _sentence(kind.summary),
                    _keys(
                        kind,
                        {
                            **dict.fromkeys(kind.alike_in_all_arms, "*One value in all arms.*"),
                            **dict.fromkeys(kind.alike_at_all_scales, "*One value at all scales.*"),
                        },
                    ),
                )
            ),
        ]
    )


def designs() -> str:
    """Return the page of the designs and their parameters."""
    return _page(
        [
            "# Designs",
            f"{_GENERATED} These are the values of `kind` in `[design]`, each with its keys; "
            "[the experiment file](experiment-file.md#design) and [the method](../method.md) explain them.",
            *(
                part
                for name, design in all_designs().items()
                for part in (f"## {name}", _sentence(design.summary), _keys(design.Parameters, {}))
            ),
        ]
    )


def _keys(model: type[BaseModel], notes: Mapping[str, str]) -> str:
    schema = model.model_json_schema(by_alias=True)
    named = schema.get("$defs", {})
    required = set(schema.get("required", ()))
    return _table(
        ("key", "type", "default", "meaning"),
        (
            (
                f"`{key}`",
                _type(one, named),
                "required" if key in required else _default(one.get("default")),
                " ".join(
                    x for x in (_sentence(one.get("description", "")), notes.get(key, "")) if x
                ),
            )
            for key, one in schema.get("properties", {}).items()
            if key != "kind"
        ),
    )


def _type(schema: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _type(named[schema["$ref"].rpartition("/")[2]], named)
    if "anyOf" in schema:
        kinds = [_type(one, named) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    kind = {"object": "table", "array": "list"}.get(
        schema.get("type", ""), schema.get("type", "any")
    )
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    if least is not None and most is not None:
        return f"{kind}, {least:,} to {most:,}"
    if least is not None:
        return f"{kind} {'>' if 'exclusiveMinimum' in schema else '≥'} {least:,}"
    return f"{kind} ≤ {most:,}" if most is not None else str(kind)


def _default(value: Any) -> str:
    if value in (None, "", [], {}):
        return "none"
    return _code(json.dumps(value, ensure_ascii=False))


def collectors() -> str:
    """Return the page of the collectors and all that they can observe."""
    seen = all_observations()
    parts = [
        "# Collectors and observations",
        f"{_GENERATED} Each collector reads the server or the machine before, during and after the measured window; "
        "`pgdrag list --observations` prints the same names. An experiment file uses them in `expects`, in claims and "
        "in the `limits` of a search.",
    ]
    for name, collector in all_collectors().items():
        parts += [
            f"## {name}",
            _sentence(collector.summary)
            + (" Only on request: `[instrument]`." if collector.is_optional else ""),
            _table(
                ("observation", "unit", "what it is"),
                ((f"`{one.name}`", one.unit or "", _prose(one.label)) for one in seen[name]),
            ),
        ]
    return _page(parts)


def mechanisms() -> str:
    """Return the page of the mechanisms of slowdown and their signs."""
    return _page(
        [
            "# Mechanisms",
            f"{_GENERATED} These are the mechanisms of slowdown that pgdrag can name; `pgdrag list --mechanisms` prints "
            "the same list. For how they are tested, see [the method](../method.md#mechanisms).",
            "A mechanism is named if all of its signs moved significantly, ▲ up or ▼ down, and those with bounds are "
            "within them on the slower side. It accounts for the time that its claims added: a component of sessions' "
            "time, as a whole or by one factor. A claim marked *(2)* counts only if no mechanism with a lower number "
            "has moved.",
            _table(
                ("mechanism", "what happens", "signs", "accounts for"), map(_mechanism, CATALOGUE)
            ),
        ]
    )


def _mechanism(one: Mechanism) -> tuple[str, ...]:
    signs = ", ".join(_sign(sign) for sign in one.signs)
    return f"**{one.name}**", one.summary, signs, "; ".join(_claim(claim) for claim in one.claims)


def _sign(sign: Sign) -> str:
    wanted = sign.wanted.replace("up", "▲", 1).replace("down", "▼", 1)
    arrow, _, bounds = wanted.partition(" ") if wanted[0] in "▲▼" else ("", "", wanted)
    return " ".join(word for word in (arrow, f"`{sign.observation}`", bounds) if word)


def _claim(claim: Claim) -> str:
    component = next(one for one in COMPONENTS if one.name == claim.component)
    each = "by the wait for each" if component.counts else ""
    by = f"by `{claim.factor}`" if claim.factor else each
    given = f"if {_sign(claim.given)}" if claim.given is not None else ""
    rank = f"*({claim.rank + 1})*" if claim.rank else ""
    return " ".join(word for word in (component.place, by, given, rank) if word)


PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands,
    "factors.md": factors,
    "workloads.md": workloads,
    "designs.md": designs,
    "collectors.md": collectors,
    "mechanisms.md": mechanisms,
    "json.md": json_documents,
}


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    heads = list(heading)
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if cells else ""


def _sentence(words: str) -> str:
    text = _prose(words)
    first = text[:1] if text.startswith("pg") else text[:1].upper()
    return text and first + text[1:] + ("" if text.endswith((".", "…")) else ".")


def _prose(words: str) -> str:
    """Plain words as Markdown: on one line, and what would be markup is text."""
    return re.sub(r"[\\*<\[]|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(words.split()))


def _code(text: str) -> str:
    return f"`{text}`"


def _toml(value: str) -> str:
    return value if value.replace(".", "", 1).isdigit() else json.dumps(value)
