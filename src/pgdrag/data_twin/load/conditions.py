"""What is each parameter of a statement compared with? Read from the plan, where the server has resolved all names.

EXPLAIN (VERBOSE) writes conditions out with the alias of each column's table: `((o.w_id = $1) AND (o.id >= $2))`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pgdrag.literals import sql_tokens

_CONDITIONS = (
    "Index Cond", "Recheck Cond", "Filter", "Hash Cond", "Merge Cond", "Join Filter", "TID Cond", "Order By",
    "One-Time Filter", "Conflict Filter",
)  # fmt: skip
_OF_ROWS = ("Index Cond", "Recheck Cond", "Filter")
_SIGNS = frozenset("+-*/<>=~!@#%^&|`?")
BEHIND = "ROW "  # before the operator, of a column that is not the first one of a row
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "@>": "<@", "<@": "@>"}
_MIRRORED |= {f"{BEHIND}{x}": f"{BEHIND}{y}" for x, y in _MIRRORED.items()}
_COMPARISONS = frozenset(
    "= <> != < <= > >= ~~ ~~* !~~ !~~* ~ ~* !~ !~* @> <@ && @@ @? ^@ <->".split()  # noqa: SIM905
)
_NAME = r'(?:"(?:[^"]|"")*"|[^\W\d][\w$]*)'
_COLUMN = re.compile(rf"\(?{_NAME}\.{_NAME}\)?(?:::\w+)?")
_PARAMETER = re.compile(r"\$(\d+)")
_UNNEST = re.compile(r"unnest\((\$\d+)\)")


@dataclass(frozen=True)
class Comparison:
    """A parameter that is compared with an expression of columns.

    Attributes:
        parameter: its number.
        operator: as if the columns stood on the left: "=", ">=", "= ANY", "~~", "->>"; "ROW <" of a row's columns but the first.
        value: the side that the parameter is in: "$1", "lower($1)", "(now() - $2)".
        columns: the other side: "o.w_id", "lower((c.name)::text)".
        alias: of the table that its first column is of.
    """

    parameter: int
    operator: str
    value: str
    columns: str
    alias: str

    @property
    def is_plain(self) -> bool:
        """Whether the parameter itself is compared, however it is cast."""
        return re.fullmatch(r"\(*\$\d+\)*(::[\w \[\]\".()]+)?", self.value) is not None


@dataclass
class Conditions:
    """What a plan says of a statement.

    Attributes:
        tables: schema and name of the tables of the plan, by their alias.
        comparisons: in the order of the plan; a parameter may have several.
        joins: columns of two tables that are equal: ("a.x", "b.y").
        fixed: conditions on columns of one table without a parameter, with the table's alias: ("o", "(o.ended IS NULL)").
    """

    tables: dict[str, tuple[str, str]] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    joins: list[tuple[str, str]] = field(default_factory=list)
    fixed: list[tuple[str, str]] = field(default_factory=list)

    def first(self) -> Mapping[int, Comparison]:
        """Return of each parameter the comparison that tells most: with a column, and by an index before a filter."""
        found: dict[int, Comparison] = {}
        for one in self.comparisons:
            if one.alias in self.tables:
                found.setdefault(one.parameter, one)
        return found


def conditions(
    plan: Mapping[str, Any], arrays: Mapping[str, int] = MappingProxyType({})
) -> Conditions:
    """Return what a plan (EXPLAIN (VERBOSE, FORMAT JSON)) compares.

    Args:
        arrays: parameters whose entries are rows, by the column that has them: {"u.id": 1} of `unnest($1) AS u (id)`.
    """
    found = Conditions()
    for node in _nodes(plan):
        if "Relation Name" in node:
            alias = str(node.get("Alias", node["Relation Name"]))
            found.tables.setdefault(
                alias, (str(node.get("Schema", "")), str(node["Relation Name"]))
            )
    calls = _calls(plan) | {column: f"unnest(${number})" for column, number in arrays.items()}
    for key in _CONDITIONS:
        for node in _nodes(plan):
            if isinstance(text := node.get(key), str):
                _read(_with_calls(text, calls), found)
                found.fixed += _fixed(text) if key in _OF_ROWS else ()
    return found


def index_conditions(plan: Mapping[str, Any]) -> frozenset[str]:
    """Return what a plan looks for in which index, whatever the types are."""
    return frozenset(
        f"{node.get('Index Name')} {re.sub(r'::[a-z][a-z ]*|[()]', '', str(node.get('Index Cond', '')))}"
        for node in _nodes(plan)
        if "Index Name" in node
    )


def scanned_indexes(plan: Mapping[str, Any], alias: str = "") -> Iterator[tuple[str, str]]:
    """Yield the indexes that a plan reads, each with the alias of its table."""
    alias = str(plan.get("Alias", alias))
    if "Index Name" in plan:
        yield alias, str(plan["Index Name"])
    for child in plan.get("Plans", ()):
        yield from scanned_indexes(child, alias)


def _fixed(text: str) -> Iterator[tuple[str, str]]:
    for items in _conjuncts(items_of(text)):
        condition = _slice(items, text)
        aliases = {_bare(alias) for alias, _ in _column_names(items)}
        if len(aliases) == 1 and "$" not in condition and "Plan " not in condition:
            yield aliases.pop(), condition


def _conjuncts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Split at AND where no OR is beside it."""
    while len(items) == 1 and items[0].inner:
        items = items[0].inner
    ends = [at for at, x in enumerate(items) if x.word == "and"]
    if any(x.word == "or" for x in items):
        ends = []
    for begin, end in zip([0, *(x + 1 for x in ends)], [*ends, len(items)], strict=True):
        yield items[begin:end]


def _calls(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return which calls stand in FROM, by the one column that each has: {"q.q": "plainto_tsquery($1)"}."""
    return {
        output[0]: str(node["Function Call"])
        for node in _nodes(plan)
        if "Function Call" in node and len(output := node.get("Output", ())) == 1
    }


def _with_calls(text: str, calls: Mapping[str, str]) -> str:
    for column, call in calls.items():
        text = re.sub(rf'(?<![\w".]){re.escape(column)}(?![\w"])', call.replace("\\", r"\\"), text)
    return text


def columns_of(text: str) -> list[tuple[str, str]]:
    """Return alias and name of each column in an expression of a plan."""
    return [(_bare(a), _bare(c)) for a, c in _column_names(items_of(text))]


# --- reading expressions --------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """A token, or a group in parentheses or brackets."""

    text: str
    kind: str  # "word", "name", "sign", "string", "number", "parameter", "group", "other"
    begin: int
    end: int
    inner: tuple[Item, ...] = ()

    @property
    def word(self) -> str:
        """The keyword that it is, in small letters; "" where it is none."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """The name that it is: folded, unless it is quoted."""
        return _bare(self.text) if self.kind == "name" else self.text.lower()


def items_of(text: str) -> list[Item]:
    """Return the tokens of a text, without blanks and comments; what is in parentheses is one."""
    stack: list[tuple[int, list[Item]]] = [(0, [])]
    at = 0
    for token in sql_tokens(text):
        begin, at = at, at + len(token.text)
        if token.kind in ("blank", "comment"):
            continue
        if token.text in ("(", "["):
            stack.append((begin, []))
        elif token.text in (")", "]") and len(stack) > 1:
            start, inner = stack.pop()
            stack[-1][1].append(Item(text[start:at], "group", start, at, tuple(inner)))
        else:
            level = stack[-1][1]
            is_sign = token.text in _SIGNS and token.kind == "other"
            last = level[-1] if level else None
            if is_sign and last is not None and last.kind == "sign" and last.end == begin:
                level[-1] = Item(last.text + token.text, "sign", last.begin, at)
            else:
                level.append(Item(token.text, "sign" if is_sign else token.kind, begin, at))
    while len(stack) > 1:  # a text that is cut off
        start, inner = stack.pop()
        stack[-1][1].append(Item(text[start:], "group", start, len(text), tuple(inner)))
    return stack[0][1]


def cells_of(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield what stands between commas."""
    cell: list[Item] = []
    for item in items:
        if item.text == ",":
            yield cell
            cell = []
        else:
            cell.append(item)
    yield cell


def _read(text: str, found: Conditions) -> None:
    _read_level(items_of(text), text, found)


def _read_level(items: Sequence[Item], text: str, found: Conditions) -> None:
    for piece in _pieces(items):
        at = next((i for i, x in enumerate(piece) if x.kind == "sign" and x.text in _COMPARISONS), None)  # fmt: skip
        if at is None or at == 0 or at == len(piece) - 1:
            _read_keys(piece, text, found)
            for item in piece:
                if item.inner:
                    _read_level(item.inner, text, found)
            continue
        _compare(piece[:at], piece[at].text, piece[at + 1 :], text, found)


def _pieces(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Split at AND, OR, NOT, and at commas of arguments."""
    piece: list[Item] = []
    for item in items:
        if item.text == "," or (item.kind == "word" and item.text.upper() in ("AND", "OR", "NOT", "WHEN", "THEN", "ELSE", "CASE", "END")):  # fmt: skip
            if piece:
                yield piece
            piece = []
        else:
            piece.append(item)
    if piece:
        yield piece


def _compare(
    left: Sequence[Item], operator: str, right: Sequence[Item], text: str, found: Conditions
) -> None:
    cells, others = _row_cells(left), _row_cells(right)
    if not cells or not others:
        _compare_values(left, operator, right, text, found)
    # Of two rows the first columns decide, mostly; the others have values of the same row.
    for at, (one, other) in enumerate(zip(cells, others, strict=False)):
        sign = f"{BEHIND}{operator}" if at and operator in _MIRRORED else operator
        _compare_values(one, sign, other, text, found)


def _compare_values(
    left: Sequence[Item], operator: str, right: Sequence[Item], text: str, found: Conditions
) -> None:
    if right[0].kind == "word" and right[0].text.upper() in ("ANY", "ALL") and len(right) > 1:
        operator, right = f"{operator} {right[0].text.upper()}", right[1:]
    sides = (left, right)
    for (own, other), sign in zip((sides, sides[::-1]), (_MIRRORED.get(operator, operator), operator), strict=True):  # fmt: skip
        names, value = _column_names(other), _slice(own, text)
        if sign == "=" and (array := _UNNEST.fullmatch(value)):
            sign, value = "= ANY", array[1]
        for number in parameters_of(value) if names else ():
            found.comparisons.append(
                Comparison(number, sign, value, _slice(other, text), _bare(names[0][0]))
            )
    if operator == "=" and all(_COLUMN.fullmatch(_slice(x, text)) for x in sides):
        [(one, _)], [(another, _)] = map(_column_names, sides)
        if one != another:
            found.joins.append((_slice(left, text), _slice(right, text)))
    for side in sides:
        _read_keys(side, text, found)
        for item in side:
            if item.inner:
                _read_level(item.inner, text, found)


def _row_cells(items: Sequence[Item]) -> list[list[Item]]:
    """Return the members of `ROW(a, b)`; [] of anything else."""
    is_row = len(items) == 2 and items[0].word == "row" and bool(items[1].inner)
    cells = [*cells_of(items[1].inner)] if is_row else []
    return cells if all(cells) else []


def _read_keys(items: Sequence[Item], text: str, found: Conditions) -> None:
    """Note the keys of documents: `(o.body ->> $1)`."""
    for at, item in enumerate(items):
        if item.kind == "sign" and item.text in ("->", "->>", "#>", "#>>", "?", "?|", "?&") and at:
            names = _column_names(items[:at])
            for number in parameters_of(_slice(items[at + 1 : at + 2], text)) if names else ():
                found.comparisons.append(
                    Comparison(number, item.text, _slice(items[at + 1 : at + 2], text), _slice(items[:at], text), _bare(names[0][0]))
                )  # fmt: skip


def parameters_of(text: str) -> list[int]:
    """Return the numbers of the parameters in a text, each once."""
    return [int(x) for x in dict.fromkeys(_PARAMETER.findall(text))]


def _slice(items: Sequence[Item], text: str) -> str:
    return "" if not items else text[items[0].begin : items[-1].end]


def _column_names(items: Sequence[Item]) -> list[tuple[str, str]]:
    found = []
    for at, item in enumerate(items):
        if item.inner:
            found += _column_names(item.inner)
        elif item.text == "." and at and at + 1 < len(items):
            before, after = items[at - 1], items[at + 1]
            is_call = at + 2 < len(items) and items[at + 2].kind == "group" and items[at + 2].text.startswith("(")  # fmt: skip
            is_type = at > 1 and items[at - 2].text == ":"
            if {before.kind, after.kind} <= {"word", "name"} and not is_call and not is_type:
                found.append((before.text, after.text))
    return found


def _bare(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)
