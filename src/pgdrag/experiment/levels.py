"""Which levels does a file's table name, and on which lines? Pasted text and dotted names included.

A table of levels may be written as a table or as the text of a postgresql.conf; here both become
the plain table that the model knows, before the model sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pgdrag.errors import ConfError
from pgdrag.experiment.mistakes import Mistake, in_table
from pgdrag.experiment.model import ScaleTable
from pgdrag.experiment.pasted import effective, parse_pasted
from pgdrag.experiment.said import Mended
from pgdrag.factors import Phase, is_of
from pgdrag.servers.conf import fold
from pgdrag.toml_lines import KeyLines, KeyPath


@dataclass
class Written:
    """What was found while the tables of levels were made plain.

    Attributes:
        lines: of each level, by the path of its plain key.
        mends: what had to be mended in pasted text, in the file's line numbers.
        mistakes: what cannot be understood.
    """

    lines: dict[KeyPath, int] = field(default_factory=dict)
    mends: list[Mended] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)


def make_plain(document: dict[str, Any], kinds: list[str], lines: KeyLines) -> Written:
    """Replace every table of levels in the document by its plain form: name → value as written."""
    written = Written()
    for path, table in _level_holders(document):
        without = ScaleTable.kinds_without_levels if path[0] == "scales" else ()
        for kind in kinds:
            if kind in table and kind not in without:
                table[kind] = _plain((*path, kind), table[kind], lines, written)
    return written


def _level_holders(document: dict[str, Any]) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """The tables that may contain tables of levels, if they are tables."""
    rungs, scales = document.get("rungs"), document.get("scales")
    holders: list[tuple[KeyPath, Any]] = [(("baseline",), document.get("baseline"))]
    if isinstance(rungs, list):
        holders += [(("rungs", index), rung) for index, rung in enumerate(rungs)]
    if isinstance(scales, dict):
        holders += [(("scales", name), scale) for name, scale in scales.items()]
    for path, table in holders:
        if isinstance(table, dict):
            yield path, table


def _plain(path: KeyPath, value: object, lines: KeyLines, written: Written) -> object:
    if isinstance(value, str) and is_of(Phase.SETTINGS, str(path[-1])):
        return _pasted(path, value, lines.line_of_text(path), written)
    if isinstance(value, dict):
        return _flat(path, value, lines, written)
    return value


def _pasted(path: KeyPath, text: str, first_line: int, written: Written) -> dict[str, str]:
    try:
        found, mended = parse_pasted(text, first_line=first_line)
    except ConfError as error:
        line = error.line or first_line
        message = error.message.removeprefix(f"line {line}: ")
        written.mistakes.append(Mistake(path, message, error.hint or "", line=line))
        return {}
    written.mends += mended
    last = effective(found)
    for name, given in last.items():
        written.lines[(*path, name)] = given.place.line
    return {name: given.value for name, given in last.items()}


def _flat(
    path: KeyPath, table: dict[str, Any], lines: KeyLines, written: Written
) -> dict[str, object]:
    plain: dict[str, object] = {}
    for inner, value in _leaves(table, ()):
        name = ".".join(inner)
        if is_of(Phase.SETTINGS, str(path[-1])):
            name = fold(name)  # as the server does: two spellings are one setting
        line = lines.line((*path, *inner))
        if name in plain:
            message = f'"{name}" is given twice in {in_table(path)}'
            written.mistakes.append(Mistake((*path, *inner), message))
        plain[name] = value
        written.lines[(*path, name)] = line
    return plain


def _leaves(
    table: dict[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value
