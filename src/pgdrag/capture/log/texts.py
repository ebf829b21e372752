"""Which statement is a text of the log, and what values does it have for the statement's parameters?

A text becomes its skeleton first, with a mark for each constant and each parameter: there are few skeletons, and what one
is has to be found out once. pg_stat_statements writes its texts with `$n` for constants, which gives the same skeleton.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pgdrag.capture.log.values import SpreadCount, ValueAccount
from pgdrag.literals import sql_tokens
from pgdrag.twins.array_text import array_text
from pgdrag.twins.constants import unquoted
from pgdrag.twins.masking import CUT_LIST, masked_statement

CONSTANT, PARAMETER = "\x01", "\x02"
MOST_OTHERS = 1000
_MOST_SKELETONS, _MOST_SKELETON_BYTES = 20_000, 1 << 25
_LONGEST_TEXT = 100_000
# What the simple rules of `_CONSTANT` do not cover: comments, quoted names, backslashes, dollar quotes.
_DIFFICULT = re.compile(r'["\\\x01\x02]|--|/\*|\$(?!\d)')
_CONSTANT = re.compile(r"(?:(?<![\w$])(?:[bBxXnN]|[uU]&))?'[^']*(?:''[^']*)*'|(?<![\w$.])\.?\d(?:[eE][-+]?\d|[\w.$])*")  # fmt: skip
_PARAMETER = re.compile(r"(?<![\w$])\$\d+")
_EITHER = re.compile(f"{_CONSTANT.pattern}|{_PARAMETER.pattern}")
_WORD = re.compile(r'[\x01\x02]|"(?:[^"]|"")*"|[^\W\d][\w$]*|\S')
_SIMPLE_NAME = re.compile(r'"([a-z_][a-z0-9_$]*)"')
# Behind these words a minus belongs to the number that follows.
_BEFORE_EXPRESSIONS = frozenset(
    {"select", "where", "and", "or", "not", "then", "else", "when", "case", "between", "like", "ilike", "limit", "offset", "by", "on", "having", "return", "returning", "values", "in", "all", "distinct", "set", "to", "is"}
)  # fmt: skip
_LIST = re.compile(r"(\bin \(|\barray \[) \?(?: , \?)+")
_CUT = re.compile(rf"\$(\d+)\s*{re.escape(CUT_LIST)}")
_LOGGED_PARAMETER = re.compile(r"\$(\d+) = (NULL|'([^']*(?:''[^']*)*)')")

Kind = Literal["begin", "commit", "rollback", "statement"]
_CONTROL: Mapping[str, Kind] = {
    "begin": "begin",
    "start transaction": "begin",
    "commit": "commit",
    "end": "commit",
    "prepare transaction": "commit",
    "rollback": "rollback",
    "abort": "rollback",
}


@dataclass(frozen=True)
class KnownStatement:
    """A statement of pg_stat_statements.

    Attributes:
        number: that of the twin.
        text: as the view has it.
        user: who sent it.
        types: of its parameters, where they are known.
    """

    number: int
    text: str
    user: str
    query_id: int
    types: tuple[str, ...] = ()


@dataclass
class SeenStatement:
    """A statement of the log.

    Attributes:
        number: its own in this reading.
        known: that of pg_stat_statements; None: it did not have it.
        text: without constants, where it is not known.
        values: of its parameters, by n of $n.
        lists: how long the lists were that the server cut short to one of them.
        sent: parameters that were sent beside the text at least once; all others are constants in it.
    """

    number: int
    kind: Kind
    known: KnownStatement | None
    text: str
    is_chain: bool = False
    calls: int = 0
    values: dict[int, ValueAccount] = field(default_factory=dict)
    lists: dict[int, SpreadCount] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    pairs: dict[tuple[int, int], list[tuple[str, str]]] = field(default_factory=dict)


Values = tuple[tuple[int, str | None], ...]


@dataclass(frozen=True)
class _Part:
    """What a skeleton's statement is.

    Attributes:
        parameters: which one each mark is of; 0: of none.
        negatives: marks that are numbers below zero.
        marks: how many the skeleton has.
        lists: parameters that stand for a list, and how long it is.
        words: NULL, TRUE and FALSE, which are marks, too: their places among all.
    """

    statement: SeenStatement
    parameters: tuple[int, ...]
    negatives: frozenset[int]
    marks: int
    words: tuple[tuple[int, str], ...]
    lists: tuple[tuple[int, int], ...] = ()


class StatementTexts:
    """The statements of a log, known ones and others."""

    def __init__(self, known: Iterable[KnownStatement]) -> None:
        self._known = tuple(known)
        self._by_id: dict[int, list[KnownStatement]] = {}
        self._by_key: dict[str, list[KnownStatement]] = {}
        for one in self._known:
            if one.query_id:
                self._by_id.setdefault(one.query_id, []).append(one)
            words = _words(skeleton(one.text)[0])
            key = " ".join(words[0])
            for each in dict.fromkeys((key, _folded(key))):
                self._by_key.setdefault(each, []).append(one)
        self._parts: dict[tuple[str, str], tuple[_Part, ...]] = {}
        self._whole: dict[tuple[str, str], tuple[tuple[_Part, ...], Sequence[str]]] = {}
        self._part_bytes = 0
        self._statements: dict[object, SeenStatement] = {}
        self._others = 0
        self.other = SeenStatement(0, "statement", None, "")

    def statements(self) -> Iterable[SeenStatement]:
        """Return all that were seen."""
        return self._statements.values()

    def read(
        self, text: str, user: str, query_id: int, detail: str
    ) -> list[tuple[SeenStatement, Values]]:
        """Return the statements of a text, which may be several, each with its parameters' values."""
        parts, marks = self._whole.get((text, user)) or self._of_text(text, user, query_id)
        found = []
        given = _logged_parameters(detail) if detail and "$" in text else None
        at = 0
        for part in parts:
            own = marks[at : at + part.marks]
            at += part.marks
            has_values = part.marks or part.words
            for number, length in part.lists:
                part.statement.lists.setdefault(number, SpreadCount()).add(length)
            found.append((part.statement, _values(part, own, given) if has_values else ()))
        return found

    def _of_text(
        self, text: str, user: str, query_id: int
    ) -> tuple[tuple[_Part, ...], Sequence[str]]:
        marked, marks = skeleton(text)
        parts = self._parts.get((marked, user))
        if parts is None:
            parts = self._learn(marked, marks, user, query_id)
        if all(x[0] == "$" for x in marks):
            # The next one is the same, and need not be looked through.
            self._make_room(len(text))
            self._whole[text, user] = parts, marks
        return parts, marks

    def _learn(
        self, marked: str, marks: Sequence[str], user: str, query_id: int
    ) -> tuple[_Part, ...]:
        pieces = [x for x in marked.split(";") if x.strip()]
        found: list[_Part] = []
        at = 0
        for piece in pieces:
            count = piece.count(CONSTANT) + piece.count(PARAMETER)
            id_ = query_id if len(pieces) == 1 else 0
            found.append(self._part(piece, marks[at : at + count], user, id_))
            at += count
        parts = tuple(found)
        self._make_room(len(marked))
        self._parts[marked, user] = parts
        return parts

    def _make_room(self, size: int) -> None:
        """Forget all texts if they are too many or too long together."""
        is_full = len(self._parts) + len(self._whole) >= _MOST_SKELETONS
        if is_full or self._part_bytes > _MOST_SKELETON_BYTES:
            self._parts.clear()
            self._whole.clear()
            self._part_bytes = 0
        self._part_bytes += size

    def _part(self, piece: str, marks: Sequence[str], user: str, query_id: int) -> _Part:
        count = len(marks)
        piece, places = _with_words(piece)
        marks = _inserted(marks, places)
        words, negatives = _words(piece)
        key = " ".join(words)
        kind = _control(words)
        cut: frozenset[int] = frozenset()

        def part(statement: SeenStatement, numbers: tuple[int, ...] = ()) -> _Part:
            lists = tuple((n, times) for n, times in Counter(numbers).items() if n in cut)
            statement.sent.update(n for n, mark in zip(numbers, marks, strict=False) if _is_sent(mark))  # fmt: skip
            return _Part(statement, numbers, negatives, count, places, lists)

        if kind != "statement":
            is_chain = words[-2:] == ["and", "chain"]
            name = kind, is_chain
            return part(self._statement(name, lambda at: SeenStatement(at, kind, None, "", is_chain)))  # fmt: skip
        known = self._found(key, user, query_id)
        if known is not None:
            seen = self._statement(known.number, lambda at: SeenStatement(at, kind, known, ""))
            cut = frozenset(int(x) for x in _CUT.findall(known.text))
            return part(seen, _aligned(known.text, piece))
        folded = _folded(key)
        if folded not in self._statements:
            if self._others >= MOST_OTHERS:
                return part(self.other)
            self._others += 1
        text, numbers = _written(piece, marks, negatives)
        masked = masked_statement(text)[:_LONGEST_TEXT]
        return part(self._statement(folded, lambda at: SeenStatement(at, kind, None, masked)), numbers)  # fmt: skip

    def _statement(self, name: object, make: Callable[[int], SeenStatement]) -> SeenStatement:
        found = self._statements.get(name)
        if found is None:
            found = self._statements[name] = make(len(self._statements) + 1)
        return found

    def _found(self, key: str, user: str, query_id: int) -> KnownStatement | None:
        """Return the known statement of a text: by the query's id, else by the text; of this user, if there is one."""
        for some in (self._by_id.get(query_id), self._by_key.get(key), self._by_key.get(_folded(key))):  # fmt: skip
            if some:
                return next((one for one in some if one.user == user), some[0])
        return None


def skeleton(text: str) -> tuple[str, list[str]]:
    """Return a text with a mark for each constant and parameter, and these, in order."""
    if _DIFFICULT.search(text) is None:
        marks = _EITHER.findall(text)
        if not marks:
            return text, marks
        return _PARAMETER.sub(PARAMETER, _CONSTANT.sub(CONSTANT, text)), marks
    pieces, found = [], []
    for token in sql_tokens(text):
        match token.kind:
            case "string" | "number" | "cut":
                pieces.append(CONSTANT)
                found.append(token.text)
            case "parameter":
                pieces.append(PARAMETER)
                found.append(token.text)
            case "blank" | "comment":
                pieces.append(" ")
            case "name":
                # What separates statements is not part of a name.
                pieces.append(token.text.replace(";", "_").translate(_UNMARKED))
            case _:
                pieces.append(token.text.translate(_UNMARKED))
    return "".join(pieces), found


_LITERAL_WORD = re.compile(r"\b(null|true|false)\b", re.IGNORECASE)
_NO_VALUE = re.compile(r"\b(?:is|not)\s+$", re.IGNORECASE)


def _with_words(piece: str) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return a skeleton in which NULL, TRUE and FALSE are constants, and their places among all marks."""
    if _LITERAL_WORD.search(piece) is None:
        return piece, ()
    pieces: list[str] = []
    places: list[tuple[int, str]] = []
    at = 0
    for match in _LITERAL_WORD.finditer(piece):
        if _NO_VALUE.search(piece, 0, match.start()) is None and '"' not in piece:
            pieces += [piece[at : match.start()], CONSTANT]
            at = match.end()
            before = "".join(pieces[:-1])
            places.append((before.count(CONSTANT) + before.count(PARAMETER), match[0].lower()))
    return "".join((*pieces, piece[at:])), tuple(places)


def _inserted(marks: Sequence[str], places: Iterable[tuple[int, str]]) -> Sequence[str]:
    found = list(marks)
    for at, word in places:
        found.insert(at, word)
    return found


_UNMARKED = {1: " ", 2: " "}


def _words(marked: str) -> tuple[list[str], frozenset[int]]:
    """Return the words and signs of a skeleton, `?` for marks, and which constants have a minus that is their own."""
    found: list[str] = []
    negatives = set()
    mark = 0
    for word in _WORD.findall(marked):
        if word in (CONSTANT, PARAMETER):
            if word == CONSTANT and found[-1:] == ["-"] and _is_sign(found[:-1]):
                found.pop()
                negatives.add(mark)
            found.append("?")
            mark += 1
        elif word.startswith('"'):
            simple = _SIMPLE_NAME.fullmatch(word)
            found.append(simple[1] if simple else word)
        else:
            found.append(word.lower())
    if found[-1:] == [";"]:
        found.pop()
    return found, frozenset(negatives)


def _is_sign(before: Sequence[str]) -> bool:
    if not before:
        return True
    last = before[-1]
    return last in _BEFORE_EXPRESSIONS or not (last[-1].isalnum() or last[-1] in '_$?)]"')


def _folded(key: str) -> str:
    """Return a key in which lists of constants are one: PostgreSQL 18 counts all lengths together."""
    return _LIST.sub(r"\1 ?", key)


def _control(words: Sequence[str]) -> Kind:
    two = " ".join(words[:2])
    kind = _CONTROL.get(two) or _CONTROL.get(words[0] if words else "")
    # ROLLBACK TO a savepoint does not end a transaction; a prepared one is another transaction.
    return "statement" if kind is None or "to" in words[1:4] or "prepared" in words[1:2] else kind


def _aligned(known: str, piece: str) -> tuple[int, ...]:
    """Return n of $n in a known text for each mark of a skeleton; 0: it is a constant there; none if they differ."""
    marked, marks = skeleton(known)
    theirs, _ = _words(marked)
    ours, _ = _words(piece)
    numbers = [int(x[1:]) if x.startswith("$") and x[1:].isdigit() else 0 for x in marks]
    if theirs == ours:
        return tuple(numbers)
    found: list[int] = []
    at = their = 0
    # Lists of other lengths: a mark too many is of the list's last parameter.
    while at < len(ours):
        if their < len(theirs) and ours[at] == theirs[their]:
            if ours[at] == "?":
                found.append(numbers[theirs[:their].count("?")])
            at, their = at + 1, their + 1
        elif ours[at : at + 2] == [",", "?"] and ours[at - 1] == "?":
            found.append(found[-1])
            at += 2
        else:
            return (0,) * ours.count("?")
    return tuple(found)


def _written(
    piece: str, marks: Sequence[str], negatives: Collection[int]
) -> tuple[str, tuple[int, ...]]:
    """Return a skeleton with parameters' own numbers, and the next ones for constants with the minus that is theirs."""
    own = [int(x[1:]) for x in marks if x.startswith("$") and x[1:].isdigit()]
    following = max(own, default=0) + 1
    pieces: list[str] = []
    numbers: list[int] = []
    place = 0
    for character in re.split("([\x01\x02])", piece):
        if character == CONSTANT:
            if place in negatives:
                pieces[-1] = pieces[-1].rstrip().removesuffix("-")
            numbers.append(following)
            pieces.append(f"${following}")
            following, place = following + 1, place + 1
        elif character == PARAMETER:
            numbers.append(int(marks[place][1:]))
            pieces.append(marks[place])
            place += 1
        else:
            pieces.append(character)
    return "".join(pieces), tuple(numbers)


def _logged_parameters(detail: str) -> dict[int, str | None]:
    """Return the values of "Parameters: $1 = 'text', $2 = NULL"."""
    return {
        int(number): None if whole == "NULL" else text.replace("''", "'")
        for number, whole, text in _LOGGED_PARAMETER.findall(detail)
    }


def _values(part: _Part, marks: Sequence[str], given: Mapping[int, str | None] | None) -> Values:
    if part.words:
        marks = _inserted(marks, part.words)
    found: dict[int, str | None] = {}
    lists: dict[int, list[str | None]] = {number: [] for number, _ in part.lists}
    for at, (number, mark) in enumerate(zip(part.parameters, marks, strict=False)):
        # One parameter may be in a statement twice.
        if not number or (number in found and number not in lists):
            continue
        value: str | None
        if _is_sent(mark):
            if given is None or (own := int(mark[1:])) not in given:
                continue
            value = given[own]
        elif mark == "null":
            value = None
        elif mark[-1] in "'$":
            value = unquoted(mark)
        else:
            value = f"-{mark}" if at in part.negatives else mark
        if number in lists:
            lists[number].append(value)
            value = array_text(lists[number])
        found[number] = value
    return tuple(found.items())


def _is_sent(mark: str) -> bool:
    return mark[0] == "$" and mark[1:].isdigit()
