"""Does a twin have a value of the original in it? Its whole text is searched for each value.

Names (of tables, columns, functions) are the original's on purpose, and so are the constants that `kept` lists: where a
value is one of these, it is told apart. Numbers up to 99, values of three characters or less and the like tell nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pgdrag.adapters import adapter_of
from pgdrag.twins import constants as sql
from pgdrag.twins.model import Twin
from pgdrag.twins.range_text import bounds_of
from pgdrag.twins.tokens import finite, is_telling, moment_of

# Keys of texts in SQL: their constants could have been values, their words are names.
_SQL = frozenset({"definition", "default", "bound", "partition_key", "keys", "text"})
# Keys of what the server or the schema calls things, and of numbers that count something.
_NAMES = frozenset(
    [
        "name",
        "schema",
        "schemas",
        "table",
        "table_schema",
        "relation",
        "column",
        "columns",
        "constraint",
        "partition_of",
        "references",
        "owned_by",
        "signature",
        "inherits",
        "language",
        "access_method",
        "method",
        "collation",
        "type",
        "extensions",
        "settings",
        "n_distinct",
        "dependencies",
        "parameters",
        "captured_by",
        "captured_on",
        "now",
        "source",
        "activity",
        "horizon",
        "relations",
        "options",
        "toast_options",
        "kind",
        "ending",
        "format",
        "notes",
    ]
)
_VALUES = frozenset({"labels", "most_common", "histogram", "elements", "common", "range_bounds", "range_lengths"})  # fmt: skip
_NUMBERS = frozenset({"differences"})  # that were made of values
_NUMBER = re.compile(r"(?<![\w.:-])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.:-])")
_SHOWN = 60
_PART = 4

Kind = Literal["value", "name", "kept"]


@dataclass(frozen=True)
class Leak:
    """A value of the original that is in a twin.

    Attributes:
        value: the original's.
        where: "statistics.17.most_common".
        kind: "value": it must not be there; "name": a name in the schema has it in itself; "kept": a constant that the
            twin lists as kept has it.
    """

    value: str
    where: str
    kind: Kind


@dataclass(frozen=True)
class _Leaf:
    where: str
    text: str
    kind: Kind


@dataclass(frozen=True)
class Scan:
    """What a search found.

    Attributes:
        searched: how many values were searched for, but those that tell nothing.
        texts: in how many texts of the twin.
        leaks: of kind "value": none, if the twin is what it should be.
        excused: values that are names or kept constants.
    """

    searched: int
    texts: int
    leaks: tuple[Leak, ...]
    excused: tuple[Leak, ...]


def scan(twin: Twin, values: Iterable[str]) -> Scan:
    """Search a twin for values of the original."""
    wanted = sorted({value for value in values if is_telling(value)})
    leaves = list(_leaves(twin))
    found: dict[tuple[str, Kind], Leak] = {}
    for leak in (*_texts(wanted, leaves), *_numbers(wanted, leaves)):
        found.setdefault((leak.value, leak.kind), leak)
    real = {value for value, kind in found if kind == "value"}
    return Scan(
        len(wanted),
        len(leaves),
        tuple(x for x in found.values() if x.kind == "value"),
        tuple(x for x in found.values() if x.kind != "value" and x.value not in real),
    )


def _texts(wanted: Iterable[str], leaves: Iterable[_Leaf]) -> Iterator[Leak]:
    """Yield texts that stand anywhere within a text; of times, those that are the same as another one, too."""
    by_kind: dict[Kind, list[_Leaf]] = {"value": [], "name": [], "kept": []}
    moments: dict[datetime, _Leaf] = {}
    for leaf in leaves:
        moment = moment_of(leaf.text)
        if moment is None:
            by_kind[leaf.kind].append(leaf)
        elif leaf.kind == "value":
            moments[moment] = leaf
    whole = {kind: _Searched("\n".join(x.text for x in some)) for kind, some in by_kind.items()}
    for value in wanted:
        if finite(value) is not None:
            continue
        moment = moment_of(value)
        if moment is not None and moment in moments:
            yield Leak(value, moments[moment].where, "value")
        text = value.rstrip()[: 19 if moment is not None else None]
        for kind, everything in whole.items():
            if everything.has(text):
                where = next((x.where for x in by_kind[kind] if text in x.text), None)
                if where is not None:
                    yield Leak(value, where, kind)


class _Searched:
    """A long text in which thousands of others are searched for: most have a part of four characters that it has not."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts = {text[at : at + _PART] for at in range(len(text) - _PART + 1)}

    def has(self, text: str) -> bool:
        """Whether a text is in it."""
        parts = (text[at : at + _PART] for at in range(len(text) - _PART + 1))
        return all(part in self._parts for part in parts) and text in self._text


def _numbers(wanted: Iterable[str], leaves: Iterable[_Leaf]) -> Iterator[Leak]:
    """Yield numbers that stand alone in a text: those of names and of times are parts of these."""
    known = {number: value for value in wanted if (number := finite(value)) is not None}
    for leaf in leaves:
        if leaf.kind == "name" or moment_of(leaf.text) is not None:
            continue
        for match in _NUMBER.finditer(leaf.text):
            number = finite(match[0])
            if number is not None and number in known:
                yield Leak(known[number], leaf.where, leaf.kind)


def _leaves(twin: Twin) -> Iterator[_Leaf]:
    document: Any = json.loads(adapter_of(Twin).dump_json(twin))
    kept = {one["constant"] for one in document["kept"]}
    yield from _within(document, (), kept)


def _within(value: Any, path: tuple[str, ...], kept: set[str]) -> Iterator[_Leaf]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _within(inner, (*path, str(key)), kept)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _within(inner, (*path, str(at)), kept)
        return
    where = ".".join(path)[-_SHOWN:]
    keys = [x for x in path if not x.isdigit()]
    last = keys[-1] if keys else ""
    if isinstance(value, int | float) and last in _NUMBERS:
        yield _Leaf(where, f"{value:.15g}", "value")
    elif isinstance(value, str) and value:
        if last in _VALUES:
            yield from (_Leaf(where, part, "value") for part in bounds_of(value) or [value])
        elif last in _SQL:
            yield from _sql_leaves(value, where, kept)
        elif last == "constant" or last == "where":
            yield _Leaf(where, value, "kept" if last == "constant" else "name")
        else:
            yield _Leaf(where, value, "name" if _NAMES.intersection(keys[:1] + keys[-1:]) else "value")  # fmt: skip


def _sql_leaves(text: str, where: str, kept: set[str]) -> Iterator[_Leaf]:
    """Yield the constants of an SQL text, those of function bodies one by one, and its other words as names."""
    pieces, at = [], 0
    for constant in sql.constants(text):
        pieces.append(text[at : constant.begin])
        at = constant.end
        if text[constant.begin] == "$":
            yield from _sql_leaves(constant.value, where, kept)
        elif not sql.is_modifier(constant):
            kind: Kind = "kept" if constant.value in kept else "value"
            yield _Leaf(where, constant.value, kind)
    yield _Leaf(where, " ".join((*pieces, text[at:])), "name")
