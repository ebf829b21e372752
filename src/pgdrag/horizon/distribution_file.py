"""Reads and writes a distribution of holds as a TOML file, and reports errors with their line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pgdrag.english import capital
from pgdrag.errors import HoldsError
from pgdrag.findings.holds.distribution import (
    FORMAT_VERSION,
    Capture,
    HoldDistribution,
    KindOfHolds,
    Steps,
    as_level,
    distribution_of,
)
from pgdrag.host.foreign_files import as_text, read_named
from pgdrag.toml_lines import KeyLines, KeyPath
from pgdrag.units import format_duration

LARGEST_BYTES = 200_000
_HINT = "Such a file is written by: pgdrag capture horizon DSN --for 1h --output FILE"


def read_distribution(path: Path) -> HoldDistribution:
    """Return the distribution in a file.

    Raises:
        HoldsError: it cannot be read, or is not one; with file and line.
    """
    try:
        content = read_named(path, LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise HoldsError("larger than 200 kB, so not a distribution of holds", path=path)
        text = as_text(content)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HoldsError(f'could not read "{path}": {reason}', hint=_HINT) from None
    except UnicodeDecodeError:
        raise HoldsError("the text is not UTF-8", path=path) from None
    return parse_distribution(text.removeprefix("\ufeff"), path)


def parse_distribution(text: str, path: Path) -> HoldDistribution:
    """Return the distribution in a file's text.

    Raises:
        HoldsError: the text is not one; with `path` and line.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise HoldsError(f"TOML syntax: {str(error).lower()}", path=path) from None
    lines = KeyLines(text)
    version = document.get("pgdrag_holds")
    if version is None:
        raise HoldsError("not a distribution of holds", path=path, hint=_HINT)
    if type(version) is int and version > FORMAT_VERSION:
        message = f"file format {version} is newer than this pgdrag reads, {FORMAT_VERSION}"
        hint = "Install a newer pgdrag."
        raise HoldsError(message, path=path, line=lines.line(("pgdrag_holds",)), hint=hint)
    try:
        found = distribution_of(document)
    except ValidationError as error:
        first, *others = map(_wrong, error.errors())
        # A key that is unknown is why another is missing.
        where, message = next((x for x in others if "unknown" in x[1]), first)
        raise HoldsError(message, path=path, line=lines.line(where)) from None
    for where, message in _contradictions(found):
        raise HoldsError(message, path=path, line=lines.line(where))
    return found


def distribution_text(found: HoldDistribution) -> str:
    """Return the file's text: TOML with comments."""
    lines = [
        "# How long, how often and by which kind of holder the horizon was held, from samples.",
        '# To replay it in an experiment: [baseline.horizon] or [rungs.horizon], replay = "FILE".',
        f"# {capital(found.words)}.",
        f"pgdrag_holds = {FORMAT_VERSION}",
        "",
        "# From the start of one hold to the start of the next: [seconds, share of gaps that are longer].",
        f"gaps = {_steps(found.gaps)}",
        "",
        "[capture]",
        *_lines(found.capture),
        "",
        "[at_once]  # how many held at the same time = share of samples",
        *(f"{number} = {share:g}" for number, share in found.at_once.items()),
    ]
    for holder, kind in sorted(found.kinds.items()):
        lines += ["", f"[kinds.{holder}]", *_lines(kind), *_curve_lines(kind)]
    return "\n".join(lines) + "\n"


def inlined(name: str, directory: Path) -> str:
    """Return the level's value that carries the distribution in a file.

    Args:
        name: the file's, relative to `directory`.

    Raises:
        HoldsError: it cannot be read, is not a distribution, or has no hold to replay.
    """
    found = read_distribution(directory / name)
    if not found.can_be_drawn:
        raise HoldsError(
            "it has no hold of known length, so there is nothing to replay",
            path=directory / name,
            hint="Capture for longer, while the horizon is held.",
        )
    return as_level(found, Path(name).name)


# What the key of a line does not say.
_COMMENTS = {
    "every_s": "between two samples",
    "look_s": "duration of one sample, on average",
    "blind_s": "the server was unreachable",
    "shortest_s": "shorter holds are left out",
    "in_progress_at_begin": "left-truncated at their age then",
    "in_progress_at_end": "censored: their end was not seen",
    "begin_unknown": "not in the curve",
    "ends_between_looks": "of the others the server showed the end",
    "estimated_share": "not sampled; estimated, since samples miss holds shorter than every_s",
    "open_share": "longer than the last length; end not seen",
}


def _lines(found: Capture | KindOfHolds) -> Iterator[str]:
    for field in fields(found):
        value = getattr(found, field.name)
        if field.name == "longer_than" or value == {}:
            continue
        comment = _COMMENTS.get(field.name)
        yield f"{field.name} = {_value(value)}" + (f"  # {comment}" if comment else "")


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_value(name)} = {n}' for name, n in value.items())} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _curve_lines(kind: KindOfHolds) -> Iterator[str]:
    if (curve := kind.curve) is not None:
        shown = ", ".join(format_duration(curve.quantile(x)) for x in (0.1, 0.5, 0.9))
        yield f"# Deciles 1, 5 and 9: {shown}."
    yield "# [seconds, share of holds that last longer]"
    yield f"longer_than = {_steps(kind.longer_than)}"


def _steps(steps: Steps) -> str:
    pairs = [f"[{length:g}, {share:g}]" for length, share in steps]
    rows = [", ".join(pairs[at : at + 6]) for at in range(0, len(pairs), 6)]
    inner = "".join(f"\n  {row}," for row in rows)
    return f"[{inner}\n]" if rows else "[]"


def _wrong(details: ErrorDetails) -> tuple[KeyPath, str]:
    where = tuple(part for part in details["loc"] if part != "[key]")
    key = ".".join(map(str, where)) or "the file"
    match details["type"]:
        case "missing":
            return where[:-1], f'missing key "{key}"'
        case "unexpected_keyword_argument" | "extra_forbidden":
            return where, f'unknown key "{key}"'
        case "value_error":
            return where, f'"{key}": {details["ctx"]["error"]}'
    text = details["msg"]
    text = text.removeprefix("Input should ") if text.startswith("Input should ") else text.lower()
    return where, f'"{key}" must {text}'


def _contradictions(found: HoldDistribution) -> Iterator[tuple[KeyPath, str]]:
    """Yield contradictions, with their place in the file."""
    wrong = [number for number in found.at_once if not number.isdecimal()]
    if wrong:
        yield ("at_once", wrong[0]), f'"{wrong[0]}" in [at_once] is not a number of holders'
    total = sum(found.at_once.values())
    if found.at_once and abs(total - 1) > 0.01:
        yield ("at_once",), f"the shares of [at_once] add up to {total:.3g}, not to 1"
