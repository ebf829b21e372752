"""Which constants are in an SQL text, and with which column is each compared? Which columns are compared with each other?

Not a parser: it reads tokens, which is enough for what the server itself writes (defaults, constraints, indexes, views)
and for most of what programs send. What it takes for a column's constant, or for none, never lets a constant through:
those of no column are hidden in another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgdrag.literals import SqlToken, sql_tokens

Chain = tuple[str, ...]  # the parts of a qualified name, folded as the server does

_OPERATOR_SIGNS = frozenset("+-*/<>=~!@#%^&|?`")
COMPARISONS = frozenset({"=", "<>", "!=", "<", ">", "<=", ">=", "@>", "<@", "&&"})
PATTERNS = frozenset({"~", "~*", "!~", "!~*", "~~", "~~*", "!~~", "!~~*", "like", "ilike", "similar"})  # fmt: skip
JSON_OPERATORS = frozenset({"->", "->>", "#>", "#>>", "?", "?|", "?&", "@?", "#-"})
_TWO_WORDS = {"character": "varying", "double": "precision", "bit": "varying"}
_LISTS = frozenset({"array", "any", "all", "some", "in", "row", "values"})
_AFTER_SOURCE = frozenset(
    [
        "where",
        "on",
        "using",
        "join",
        "left",
        "right",
        "full",
        "inner",
        "cross",
        "natural",
        "outer",
        "group",
        "order",
        "having",
        "limit",
        "offset",
        "union",
        "except",
        "intersect",
        "set",
        "values",
        "select",
        "returning",
        "for",
        "fetch",
        "window",
        "when",
        "then",
        "default",
        "with",
        "tablesample",
        "as",
        "do",
        "lateral",
        "only",
    ]
)
_MODIFIED_TYPES = frozenset(
    [
        "varchar",
        "char",
        "character",
        "varying",
        "numeric",
        "decimal",
        "bit",
        "timestamp",
        "timestamptz",
        "time",
        "timetz",
        "interval",
        "bpchar",
        "precision",
        "float",
    ]
)


@dataclass(frozen=True)
class Constant:
    """A constant in a statement's text.

    Attributes:
        begin, end: where.
        value: without its quotes.
        cast: the type that it is cast to, "" where to none: "text", "shop.status".
        column: the column that it is compared with, if names tell.
        operator: before it: "=", "->>", "+"; "" where there is none.
        function, argument: whose argument it is, the first being 0; "" of none.
        is_executed: a statement that PL/pgSQL runs: EXECUTE '…', EXECUTE format('…').
    """

    begin: int
    end: int
    value: str
    is_number: bool
    cast: str = ""
    column: Chain | None = None
    operator: str = ""
    function: str = ""
    argument: int = 0
    is_executed: bool = False


@dataclass
class _Part:
    kind: str  # "constant", "number", "name", "operator", "parameter", "sign"
    text: str  # folded, of a name
    begin: int
    end: int
    cast: str = ""
    is_quoted: bool = False
    function: str = ""
    argument: int = 0


def constants(sql: str) -> list[Constant]:
    """Return the constants of a text, in order."""
    parts = _parts(sql)
    found = []
    for at, part in enumerate(parts):
        if part.kind not in ("constant", "number"):
            continue
        operator, column = _compared(parts, at)
        if column is None and part.function in ("coalesce", "nullif", "greatest", "least"):
            column = _first_argument(parts, at)
        found.append(
            Constant(
                part.begin, part.end,
                part.text if part.kind == "number" else unquoted(part.text),
                part.kind == "number", part.cast, column, operator, part.function, part.argument,
                _is_executed(parts, at),
            )
        )  # fmt: skip
    return found


def _is_executed(parts: Sequence[_Part], at: int) -> bool:
    """Whether a constant is what EXECUTE runs, or the format of it."""
    before = [x.text if not x.is_quoted else "" for x in parts[max(at - 8, 0) : at]]
    if before[-2:] == ["format", "("]:
        before = before[:-2]
        if before[-2:] == ["pg_catalog", "."]:
            before = before[:-2]
    while before[-1:] == ["("]:
        before.pop()
    return before[-1:] == ["execute"]


def arguments_end(sql: str) -> int:
    """Return where a function's arguments end, behind their parenthesis, in the statement that makes it."""
    depth = at = 0
    for token in sql_tokens(sql):
        at += len(token.text)
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
            if depth == 0:
                return at
    return at


_NUMBER = re.compile(r"-?[\d.]+")


def is_storage_parameter(constant: Constant) -> bool:
    """Whether a constant of an index's definition sets up the index: WITH (fillfactor='70'), gist_trgm_ops (siglen='32')."""
    is_number = _NUMBER.fullmatch(constant.value) is not None
    is_of_operators = constant.function.endswith("_ops") and constant.operator == "="
    return constant.function == "with" or (is_of_operators and is_number)


def is_modifier(constant: Constant) -> bool:
    """Whether a number belongs to a type's name: the 20 of varchar(20)."""
    return constant.is_number and constant.function in _MODIFIED_TYPES


def comparisons(sql: str) -> Iterator[tuple[Chain, Chain]]:
    """Yield columns that are compared with each other, by their names in the text."""
    parts = _parts(sql)
    for at, part in enumerate(parts):
        if part.kind == "operator" and part.text in ("=", "<", ">", "<=", ">=", "<>", "!="):
            left, right = _name_before(parts, at), _name_after(parts, at)
            if left and right:
                yield left, right
        elif part.kind == "name" and part.text == "in" and not part.is_quoted:
            left = _name_before(parts, at)
            if left and [x.text for x in parts[at + 1 : at + 3]] == ["(", "select"]:
                right = _name_after(parts, at + 2)
                if right:
                    yield left, right


def joined_by_name(sql: str) -> Iterator[str]:
    """Yield columns that tables of the text are joined by with USING."""
    parts = _parts(sql)
    for at, part in enumerate(parts):
        if part.text == "using" and not part.is_quoted and parts[at + 1 : at + 2]:
            if parts[at + 1].text != "(":
                continue
            for one in parts[at + 2 :]:
                if one.text == ")":
                    break
                if one.kind == "name":
                    yield one.text


def sources(sql: str) -> Mapping[str, Chain]:
    """Return the tables that a text names, by the name that columns have before their dot."""
    parts = _parts(sql)
    found: dict[str, Chain] = {}
    at = 0
    while at < len(parts):
        part = parts[at]
        at += 1
        if part.kind != "name" or part.is_quoted or part.text not in ("from", "join", "update", "into"):  # fmt: skip
            continue
        while True:
            while at < len(parts) and parts[at].text in ("only", "lateral", "(") and not parts[at].is_quoted:  # fmt: skip
                at += 1
            chain, at = _chain_from(parts, at)
            if not chain:
                break
            alias = chain[-1]
            if at < len(parts) and parts[at].text == "as" and not parts[at].is_quoted:
                at += 1
            if at < len(parts) and _is_alias(parts[at]):
                alias = parts[at].text
                at += 1
            found[alias] = chain
            if at < len(parts) and parts[at].text == ",":
                at += 1
                continue
            break
    return found


def names(sql: str) -> set[str]:
    """Return all words and names of a text, folded."""
    return {part.text for part in _parts(sql) if part.kind == "name"}


def called(sql: str) -> set[str]:
    """Return the names of functions that a text calls, without their schema."""
    parts = _parts(sql)
    return {
        part.text for part, after in pairwise(parts) if part.kind == "name" and after.text == "("
    }


def replaced(sql: str, constants_: Sequence[tuple[Constant, str]]) -> str:
    """Return a text with other words in the places of constants."""
    pieces, at = [], 0
    for constant, words in sorted(constants_, key=lambda each: each[0].begin):
        pieces += [sql[at : constant.begin], words]
        at = constant.end
    return "".join((*pieces, sql[at:]))


def string_constant(value: str) -> str:
    """Return a text as SQL has it in quotes."""
    doubled = value.replace("'", "''")
    if "\\" in doubled:
        return " E'" + doubled.replace("\\", "\\\\") + "'"
    return f"'{doubled}'"


def _parts(sql: str) -> list[_Part]:
    return _with_functions(_without_casts(_joined(sql)))


def _joined(sql: str) -> list[_Part]:
    """Return the tokens of a text without blanks; signs that make an operator are one."""
    found: list[_Part] = []
    at = 0
    for token in sql_tokens(sql):
        begin, at = at, at + len(token.text)
        if token.kind in ("blank", "comment"):
            continue
        part = _part(token, begin, at)
        last = found[-1] if found else None
        if last is not None and last.end == begin and _are_one(last, part):
            last.text, last.end = last.text + part.text, at
        else:
            found.append(part)
    return found


def _part(token: SqlToken, begin: int, end: int) -> _Part:
    match token.kind:
        case "string" | "cut":
            return _Part("constant", token.text, begin, end)
        case "number" | "parameter":
            return _Part(token.kind, token.text, begin, end)
        case "name":
            text = token.text.removeprefix("U&").removeprefix("u&")[1:-1].replace('""', '"')
            return _Part("name", text, begin, end, is_quoted=True)
        case "word":
            word = token.text.lower()
            return _Part("operator" if word in PATTERNS else "name", word, begin, end)
        case _:
            kind = "operator" if token.text in _OPERATOR_SIGNS else "sign"
            return _Part(kind, token.text, begin, end)


def _are_one(last: _Part, part: _Part) -> bool:
    """Whether two signs that touch are one operator, or a cast."""
    are_operators = last.kind == part.kind == "operator" and part.text in _OPERATOR_SIGNS
    return (are_operators and not last.text.isalpha()) or last.text == part.text == ":"


def _without_casts(parts: list[_Part]) -> list[_Part]:
    """Return parts without `::type`; what is cast knows to what."""
    found: list[_Part] = []
    at = 0
    while at < len(parts):
        part = parts[at]
        if part.text != "::":
            found.append(part)
            at += 1
            continue
        chain, at = _chain_from(parts, at + 1)
        if chain and at < len(parts) and _TWO_WORDS.get(chain[-1]) == parts[at].text:
            at += 1
        at = _after_modifier(parts, at)
        if [x.text for x in parts[at : at + 3]][1:] == ["time", "zone"]:
            at += 3
        while [x.text for x in parts[at : at + 2]] == ["[", "]"]:
            at += 2
        if found and not found[-1].cast:
            found[-1].cast = ".".join(chain)
            _cast_inner(found, ".".join(chain))
    return found


def _cast_inner(parts: Sequence[_Part], cast: str) -> None:
    """Note the cast of `(100)::numeric` at the constant itself."""
    if len(parts) >= 3 and parts[-1].text == ")" and parts[-3].text == "(":
        inner = parts[-2]
        if inner.kind in ("constant", "number") and not inner.cast:
            inner.cast = cast


def _after_modifier(parts: Sequence[_Part], at: int) -> int:
    if at < len(parts) and parts[at].text == "(":
        end = at + 1
        while end < len(parts) and (parts[end].kind == "number" or parts[end].text == ","):
            end += 1
        if end > at + 1 and end < len(parts) and parts[end].text == ")":
            return end + 1
    return at


def _with_functions(parts: list[_Part]) -> list[_Part]:
    """Note of each part the innermost function whose argument it is."""
    open_: list[tuple[str, int]] = []
    for before, part in zip([None, *parts], parts, strict=False):
        if part.text == "(" and part.kind == "sign":
            is_call = before is not None and before.kind == "name"
            open_.append((before.text if before is not None and is_call else "", 0))
        elif part.text == ")" and part.kind == "sign":
            if open_:
                open_.pop()
        elif part.text == "," and part.kind == "sign":
            if open_:
                name, argument = open_[-1]
                open_[-1] = name, argument + 1
        elif open_:
            part.function, part.argument = open_[-1]
    return parts


def _compared(parts: Sequence[_Part], at: int) -> tuple[str, Chain | None]:
    """Return the operator before a constant or the list that it is in, and the column before that."""
    before = parts[at - 1] if at else None
    direct = before.text if before is not None and before.kind == "operator" else ""
    place = at - 1
    while place >= 0:
        part = parts[place]
        is_filler = part.kind in ("constant", "number", "parameter") or part.text in ("(", "[", ",", "-", "]", ")")  # fmt: skip
        is_word = part.kind == "name" and not part.is_quoted
        if is_word and part.text == "from" and place and parts[place - 1].text == "distinct":
            return direct or "=", _name_before(parts, place - 3 + 1)
        if is_word and part.text == "in":
            end = place - 1 if place and parts[place - 1].text == "not" else place
            return direct or "in", _name_before(parts, end)
        if is_filler or (is_word and part.text in _LISTS):
            place -= 1
            continue
        if part.kind == "operator":
            is_comparison = part.text in COMPARISONS or part.text in PATTERNS
            operator = direct or part.text
            return operator, _name_before(parts, place) if is_comparison else None
        break
    return direct, None


def _first_argument(parts: Sequence[_Part], at: int) -> Chain | None:
    """Return the first argument of the call that a part is in, if it is a name."""
    depth = 0
    for place in reversed(range(at)):
        if parts[place].text == ")":
            depth += 1
        elif parts[place].text == "(":
            if depth == 0:
                chain, _ = _chain_from(parts, place + 1)
                return chain or None
            depth -= 1
    return None


def _name_before(parts: Sequence[_Part], at: int) -> Chain | None:
    """Return the name that ends before a place, in parentheses or not."""
    place = at - 1
    while place >= 0 and parts[place].text == ")" and parts[place].kind == "sign":
        place -= 1
    chain: list[str] = []
    while place >= 0 and parts[place].kind == "name":
        chain.insert(0, parts[place].text)
        if place >= 2 and parts[place - 1].text == ".":
            place -= 2
        else:
            break
    return tuple(chain) or None


def _name_after(parts: Sequence[_Part], at: int) -> Chain | None:
    place = at + 1
    while place < len(parts) and parts[place].text == "(":
        place += 1
    chain, after = _chain_from(parts, place)
    is_call = after < len(parts) and parts[after].text == "("
    return None if is_call or not chain else chain


def _chain_from(parts: Sequence[_Part], at: int) -> tuple[Chain, int]:
    chain: list[str] = []
    while at < len(parts) and parts[at].kind == "name":
        if not chain and not parts[at].is_quoted and parts[at].text in _AFTER_SOURCE:
            break
        chain.append(parts[at].text)
        if at + 2 < len(parts) and parts[at + 1].text == "." and parts[at + 2].kind == "name":
            at += 2
        else:
            return tuple(chain), at + 1
    return tuple(chain), at


def _is_alias(part: _Part) -> bool:
    return part.kind == "name" and (part.is_quoted or part.text not in _AFTER_SOURCE)


_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unquoted(text: str) -> str:
    """Return the value of a constant in quotes, however they are."""
    if text.startswith("$"):
        tag = text[: text.find("$", 1) + 1]
        return text[len(tag) :].removesuffix(tag)
    prefix, _, inner = text.partition("'")
    inner = inner.removesuffix("'").replace("''", "'")
    return _ESCAPE.sub(_unescaped, inner) if prefix in ("e", "E") else inner


def _unescaped(found: re.Match[str]) -> str:
    octal, hexadecimal, unicode, other = found.groups()
    if octal or hexadecimal or unicode:
        return chr(int(octal, 8) if octal else int(hexadecimal or unicode, 16))
    return _ESCAPED.get(other, other)
