"""What do the words of a statement say of its parameters: which column gets one, which one limits rows?

Conditions are the plan's to tell (`conditions.py`); what INSERT and UPDATE assign, a plan does not name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgdrag.data_twin.load.conditions import Item, cells_of, items_of, parameters_of
from pgdrag.literals import sql_tokens
from pgdrag.twins.array_text import array_elements
from pgdrag.twins.constants import string_constant
from pgdrag.twins.masking import CUT_LIST
from pgdrag.twins.mending import limiting, mended_text, with_calls_of_now
from pgdrag.twins.tokens import finite
from pgdrag.twins.transactions import Parameter

Kind = Literal["select", "insert", "update", "delete", "other"]

_CUT = re.escape(CUT_LIST)
_CUT_IN = re.compile(rf"\b(NOT\s+)?IN\s*\(\s*(\$\d+)\s*{_CUT}\s*\)", re.IGNORECASE)
_CUT_ARRAY = re.compile(rf"\bARRAY\s*\[\s*(\$\d+)\s*{_CUT}\s*\]", re.IGNORECASE)
_SELECTION_ENDS = frozenset(
    {"from", "where", "group", "order", "limit", "on", "returning", "union"}
)
SUM = re.compile(r"(?:\$\d+(?:::[\w ]+)?\s*[-+]\s*)+\$\d+(?:::[\w ]+)?")
_LOCKING = re.compile(r"\bfor\s+(?:no\s+key\s+)?update\b", re.IGNORECASE)
_SETS_END = frozenset({"where", "from", "returning"})
_UNNEST = re.compile(
    r"(?:pg_catalog\.)?unnest\s*\(\s*\$(\d+)\s*(?:::[\w \[\]\".]+)?\)", re.IGNORECASE
)


def sendable(text: str) -> str:
    """Return a statement of pg_stat_statements as a client can send it.

    A list that was cut short is one array, and the present moment comes from a function: see `clock.py`.
    """
    text = text.strip().rstrip(";")
    text = _CUT_IN.sub(lambda x: f"<> ALL ({x[2]})" if x[1] else f"= ANY ({x[2]})", text)
    text = _CUT_ARRAY.sub(lambda x: x[1], text)
    return with_calls_of_now(mended_text(text) or text)


def with_constants(text: str, parameters: Iterable[Parameter]) -> str:
    """Return a statement with those constants that a log tells were always the same: an index may be for rows that have them."""
    known = {f"${x.number}": x for x in parameters if x.is_constant and x.common}
    if not known:
        return text
    tokens = [x.text for x in sql_tokens(text)]
    for at, word in enumerate(tokens):
        one = known.get(word)
        if one is None:
            continue
        value, after = one.common[0][0], "".join(tokens[at + 1 : at + 3]).strip()
        is_list = after == CUT_LIST and value.startswith("{")
        values = [x for x in array_elements(value) if x is not None] if is_list else [value]
        if is_list:
            tokens[at + 1] = ""
            tokens[at + 2] = "" if tokens[at + 2] == CUT_LIST else tokens[at + 2]
        tokens[at] = ", ".join(_constant(x, one.kind) for x in values)
    return "".join(tokens)


def with_types(text: str, types: Mapping[int, str]) -> str:
    """Return a statement that says the types of some parameters, where it says none."""
    tokens = [x.text for x in sql_tokens(text)]
    for at, word in enumerate(tokens):
        number = int(word[1:]) if word[:1] == "$" and word[1:].isdigit() else 0
        if number in types and "".join(tokens[at + 1 : at + 3]) != "::":
            tokens[at] = f"{word}::{types[number]}"
    return "".join(tokens)


def _constant(value: str, kind: str) -> str:
    if kind == "number" and finite(value) is not None:
        return f"({value})" if value.startswith("-") else value
    return string_constant(value)


def refusal(text: str) -> str:
    """Return why no script can have this statement, or ""."""
    tokens = [*sql_tokens(text)]
    if any((x.kind == "other" and x.text in ";\\") or x.kind == "cut" for x in tokens):
        return "it is more than one statement"
    if any(re.search(r":[A-Za-z_]", x.text) for x in tokens if x.kind in ("string", "name")):
        return "a constant or name in it has a colon before a letter"
    if len(set(parameters_of(text))) > 255:  # what the driver's language allows
        return "it has more than 255 parameters"
    return ""


def is_locking(text: str) -> bool:
    """Whether a query locks rows as one does that changes them."""
    return _LOCKING.search(text) is not None


def limits(text: str) -> dict[int, Literal["limit", "offset", "inner"]]:
    """Return which parameters limit rows, "inner" those of a part of a query: what it returns does not tell them."""
    items = items_of(text)
    groups = [(x.begin, x.end) for x in items if x.inner] if change_of(text).kind == "select" else []  # fmt: skip
    return {
        x.number: "offset" if x.is_offset
        else "inner" if any(begin < x.begin < end for begin, end in groups)
        else "limit"
        for x in limiting(text)
    }  # fmt: skip


@dataclass(frozen=True)
class Assignment:
    """A column that gets a value.

    Attributes:
        parameter: in the value.
        column: its name; "" with its `place`, from 0, where the statement names no columns.
        is_plain: the value is the parameter, and not computed from it.
        is_first: of a sum or difference of parameters: `$1 - $2`.
        is_more: added in such a sum, or subtracted.
        is_leading: the first of another expression.
        is_divisor: of a remainder: `($1 + 2) % $2`.
        is_list: it is an array of such values, one for each row: `unnest($1)`.
        value: the expression that it is in.
        row: of VALUES, from 0.
        is_inserted: by INSERT, not by its ON CONFLICT.
    """

    parameter: int
    column: str
    is_plain: bool
    place: int = 0
    row: int = 0
    is_inserted: bool = False
    is_first: bool = False
    is_more: bool = False
    is_leading: bool = False
    is_divisor: bool = False
    is_list: bool = False
    value: str = ""


@dataclass(frozen=True)
class Change:
    """What a statement changes.

    Attributes:
        table: as the text has it: ("shop", "orders") or ("orders",).
        inserted: columns that INSERT names; empty where it names none.
        has_conflict: ON CONFLICT.
    """

    kind: Kind
    table: tuple[str, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    inserted: tuple[str, ...] = ()
    has_conflict: bool = False


def change_of(text: str) -> Change:
    """Return what a statement changes; of WITH, its main statement."""
    items = items_of(text)
    at = next((i for i, x in enumerate(items) if x.word in ("select", "values", "insert", "update", "delete", "merge")), None)  # fmt: skip
    kind = items[at].word if at is not None else ""
    if at is None or kind in ("select", "values"):
        return Change("select")
    if kind == "insert":
        return _insert(items, at, text)
    if kind == "update":
        at += items[at + 1].word == "only" if at + 1 < len(items) else 0
        table, at = _name(items, at + 1)
        return Change("update", table, tuple(_sets(items, at, text)))
    if kind == "delete":
        at += 1 + (at + 2 < len(items) and items[at + 2].word == "only")
        return Change("delete", _name(items, at + 1)[0])
    return Change("other")


def probe_of(text: str) -> str:
    """Return a query for the rows that an UPDATE or DELETE of one table finds, or ""."""
    items = items_of(text)
    kind = items[0].word if items else ""
    if kind not in ("update", "delete"):
        return ""
    words = [x.word for x in items]
    begin = 1 if kind == "update" else 2
    end = words.index("set") if kind == "update" and "set" in words else len(items)
    where = words.index("where") if "where" in words else len(items)
    rest = words[end:where] if kind == "update" else words[begin:where]
    if {"from", "using", "current"} & {*rest, *words[where : where + 2]}:
        return ""
    last = words.index("returning") if "returning" in words else len(items)
    table = items[begin : min(end, where, last)]
    condition = items[where:last]
    if not table:
        return ""
    query = f"SELECT FROM {text[table[0].begin : table[-1].end]}"
    return f"{query} {text[condition[0].begin : condition[-1].end]}" if condition else query


def _insert(items: Sequence[Item], at: int, text: str) -> Change:
    table, at = _name(items, at + 2)
    if at < len(items) and items[at].word == "as":
        at += 2
    columns: list[str] = []
    if at < len(items) and items[at].kind == "group":
        columns = [x.name for x in items[at].inner if x.kind in ("word", "name")]
        at += 1
    found: list[Assignment] = []
    lists = unnested(text)
    values = next((i for i in range(at, len(items)) if items[i].word == "values"), None)
    row = 0
    for item in items[values + 1 :] if values is not None else ():
        if item.kind == "group":
            for place, cell in enumerate(cells_of(item.inner)):
                column = columns[place] if place < len(columns) else ""
                found += _assignment(cell, text, column, {}, place=place, row=row, is_inserted=True)
            row += 1
        elif item.text != ",":
            break
    selected = next((i for i in range(at, len(items)) if items[i].word == "select"), None)
    if values is None and selected is not None:
        end = next(
            (i for i in range(selected, len(items)) if items[i].word in _SELECTION_ENDS), len(items)
        )
        for place, cell in enumerate(cells_of(items[selected + 1 : end])):
            column = columns[place] if place < len(columns) else ""
            found += _assignment(cell, text, column, lists, place=place, is_inserted=True)
    conflict = next((i for i in range(at, len(items)) if items[i].word == "conflict"), None)
    if conflict is not None:
        found += _sets(items, conflict, text)
    return Change("insert", table, tuple(found), tuple(columns), conflict is not None)


def _sets(items: Sequence[Item], at: int, text: str) -> Iterator[Assignment]:
    start = next((i for i in range(at, len(items)) if items[i].word == "set"), None)
    if start is None:
        return
    end = next((i for i in range(start, len(items)) if items[i].word in _SETS_END), len(items))
    lists = unnested(text)
    for piece in cells_of(items[start + 1 : end]):
        sign = next((i for i, x in enumerate(piece) if x.text == "="), None)
        if sign is None or sign == 0:
            continue
        target, value = piece[:sign], piece[sign + 1 :]
        if target[0].kind != "group":
            yield from _assignment(value, text, target[0].name, lists)
            continue
        names = [x.name for x in target[0].inner if x.kind in ("word", "name")]
        inner = value[-1].inner if value else ()
        for name, cell in zip(names, cells_of(inner), strict=False):
            yield from _assignment(cell, text, name, lists)


def _assignment(
    cell: Sequence[Item], text: str, column: str, lists: Mapping[str, int], *, place: int = 0, row: int = 0, is_inserted: bool = False
) -> Iterator[Assignment]:  # fmt: skip
    if not cell:
        return
    value = text[cell[0].begin : cell[-1].end]
    listed = _UNNEST.fullmatch(value)
    array = int(listed[1]) if listed else lists.get("".join(x.name for x in cell))
    if array is not None:
        yield Assignment(array, column, False, place, row, is_inserted, is_list=True)
        return
    is_plain = re.fullmatch(r"\(*\s*\$\d+\s*\)*\s*(::[\w \[\]\".()]+)?|(?i:cast)\s*\(\s*\$\d+\s+(?i:as)\s.*", value) is not None  # fmt: skip
    first, *more = parameters_of(value) or [0]
    is_sum = bool(more) and SUM.fullmatch(value) is not None
    divisors = {int(x) for x in re.findall(r"%\s*\$(\d+)", value)}
    for number in parameters_of(value):
        yield Assignment(
            number, column, is_plain, place, row, is_inserted,
            is_first=is_sum and number == first, is_more=is_sum and number != first,
            is_leading=number == first and not (is_plain or is_sum), is_divisor=number in divisors, value=value,
        )  # fmt: skip


def unnested(text: str) -> dict[str, int]:
    """Return the parameters whose entries are rows of FROM, by the columns that have them, as a statement may name these.

    `unnest($1, $2) AS u (a, b)` has u.a and a, u.b and b; `unnest($1) AS u` has u.u and u.
    """
    items, found = items_of(text), dict[str, int]()
    for at, item in enumerate(items[:-2]):
        if item.word != "unnest" or items[at + 1].kind != "group":
            continue
        arrays = [
            parameters_of(text[x[0].begin : x[-1].end]) for x in cells_of(items[at + 1].inner) if x
        ]
        rest = [x for x in items[at + 2 : at + 6] if x.word not in ("as", "with", "ordinality")]
        if not rest or rest[0].kind not in ("word", "name"):
            continue
        alias = rest[0].name
        listed = rest[1].inner if len(rest) > 1 and rest[1].kind == "group" else rest[:1]
        columns = [x.name for x in listed if x.kind in ("word", "name")]
        for column, numbers in zip(columns, arrays, strict=False):
            if len(numbers) == 1:
                found[f"{alias}.{column}"] = found[column] = numbers[0]
    return found


def _name(items: Sequence[Item], at: int) -> tuple[tuple[str, ...], int]:
    found = []
    while at < len(items) and items[at].kind in ("word", "name"):
        found.append(items[at].name)
        if at + 1 < len(items) and items[at + 1].text == ".":
            at += 2
            continue
        return tuple(found), at + 1
    return tuple(found), at
