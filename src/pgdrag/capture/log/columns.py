"""Where in its column's order are a parameter's values, and which have a token? Where the statement tells its column."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from pgdrag.capture.classes import ValueClasses, elements_of
from pgdrag.capture.log.values import ValueAccount, amount_of
from pgdrag.capture.names import Key
from pgdrag.capture.statistics import FoundStatistics
from pgdrag.literals import sql_tokens
from pgdrag.twins import constants as sql
from pgdrag.twins.array_text import array_text
from pgdrag.twins.transactions import POSITIONS

_MOST_TOKENS = 50
_TRIED = 100
_INSERTED = re.compile(r"\binsert\s+into\s+[^\s(]+\s*\(([^()]*)\)\s*values\b", re.IGNORECASE)
_TRUE, _FALSE = frozenset({"t", "true", "on", "yes", "1"}), frozenset({"f", "false", "off", "no", "0"})  # fmt: skip


class ColumnValues:
    """The values of a column, as the planner's statistics have them."""

    def __init__(self, key: Key, classes: ValueClasses, statistics: FoundStatistics | None) -> None:
        self._key, self._classes = key, classes
        self._ends: list[float] = []
        self._shares: list[float] = []
        if statistics is not None and classes.kind(key) in ("number", "time"):
            self._learn_order(statistics)

    def _learn_order(self, one: FoundStatistics) -> None:
        """Note the share of the rows up to each value of the statistics."""
        common = [amount_of(x) for x in elements_of(one.most_common)]
        bounds = [amount_of(x) for x in elements_of(one.histogram)]
        if None in common or None in bounds:
            return
        shares = list(one.most_common_shares or ())[: len(common)]
        weights: dict[float, float] = {}
        for value, share in zip(common, shares, strict=True):
            weights[value] = weights.get(value, 0.0) + share  # type: ignore[index,arg-type]
        rest = max(1.0 - one.null_share - sum(shares), 0.0)
        for _, upper in pairwise(bounds):
            weights[upper] = weights.get(upper, 0.0) + rest / (len(bounds) - 1)  # type: ignore[index,arg-type]
        if bounds:
            weights.setdefault(bounds[0], 0.0)  # type: ignore[arg-type]
        self._ends = sorted(weights)
        total = sum(weights.values())
        sum_ = 0.0
        for value in self._ends:
            sum_ += weights[value]
            self._shares.append(sum_ / total if total else 0.0)

    def positions(self, sample: Sequence[str]) -> tuple[float, ...]:
        """Return the shares of values in equal parts of the column's rows; none where it has no order."""
        amounts = [x for x in map(amount_of, sample) if x is not None]
        if len(self._ends) < POSITIONS // 2 or not amounts:
            return ()
        found = [0] * POSITIONS
        for amount in amounts:
            found[min(int(self._position(amount) * POSITIONS), POSITIONS - 1)] += 1
        return tuple(round(x / len(amounts), 4) for x in found)

    def _position(self, amount: float) -> float:
        at, after = bisect_left(self._ends, amount), bisect_right(self._ends, amount)
        low = self._shares[at - 1] if at else 0.0
        if at == len(self._ends):
            return 1.0
        high = self._shares[at]
        if after > at or not at:
            return (low + high) / 2  # one of the statistics' own values
        left, right = self._ends[at - 1], self._ends[at]
        return low + (high - low) * (amount - left) / (right - left)

    def common(self, account: ValueAccount) -> tuple[tuple[str, float], ...]:
        """Return the tokens of the most frequent values, with their shares."""
        kind = self._classes.kind(self._key)
        if kind in ("", "json"):
            return ()
        found: dict[str, float] = {}
        for value, share in account.most_common(_TRIED):
            token = self._boolean(value) if kind == "boolean" else self._token(value)
            if token is not None and share * account.given >= 2 and len(found) < _MOST_TOKENS:
                found[token] = found.get(token, 0.0) + share
        return tuple((token, float(f"{share:.6g}")) for token, share in found.items())

    def _token(self, value: str) -> str | None:
        """Return a value's token; of a list that the server cut short, an array of its values' tokens."""
        token = self._classes.token(self._key, value)
        if token is not None or value[:1] != "{":
            return token
        tokens = [self._classes.token(self._key, x) for x in elements_of(value)]
        return array_text(tokens) if tokens and None not in tokens else None

    def _boolean(self, value: str) -> str | None:
        word = value.lower()
        return "t" if word in _TRUE else "f" if word in _FALSE else None


class ParameterColumns:
    """The columns that statements' parameters are compared with or written to."""

    def __init__(self, classes: ValueClasses, statistics: Iterable[FoundStatistics]) -> None:
        self._classes = classes
        # Of a table with children the statistics of all together.
        self._statistics: dict[Key, FoundStatistics] = {}
        for one in sorted(statistics, key=lambda x: x.is_inherited):
            self._statistics[one.schema, one.relation, one.column] = one
        self._keys = cache(self._columns)
        self._values: dict[Key, ColumnValues] = {}

    def key(self, text: str, number: int) -> Key | None:
        """Return the name of the column of `$number`; None where the text does not tell."""
        return self._keys(text).get(number)

    def of(self, text: str, number: int) -> ColumnValues | None:
        """Return the column of `$number`; None where the text does not tell."""
        key = self.key(text, number)
        if key is None:
            return None
        if key not in self._values:
            self._values[key] = ColumnValues(key, self._classes, self._statistics.get(key))
        return self._values[key]

    def are_one(self, text: str, number: int, other_text: str, other: int) -> bool:
        """Whether two parameters belong to one column, or to columns that are compared with each other."""
        keys = self.key(text, number), self.key(other_text, other)
        return None not in keys and len({self._classes.root(x) for x in keys if x is not None}) == 1

    def _columns(self, text: str) -> dict[int, Key]:
        pieces: list[str] = []
        places: dict[int, int] = {}
        at = 0
        for token in sql_tokens(text):
            piece = "0" if token.kind == "parameter" else token.text
            if token.kind == "parameter":
                places[at] = int(token.text[1:])
            pieces.append(piece)
            at += len(piece)
        plain = "".join(pieces)
        resolve = self._classes.names.among(sql.sources(plain))
        inserted = _INSERTED.search(plain)
        names = [x.strip().strip('"') for x in inserted[1].split(",")] if inserted else []
        found: dict[int, Key] = {}
        for constant in sql.constants(plain):
            number = places.get(constant.begin)
            if number is None:
                continue
            chain = constant.column
            if chain is None and constant.function == "values" and constant.argument < len(names) and not constant.operator:  # fmt: skip
                chain = (names[constant.argument],)
            key = resolve(chain) if chain is not None else None
            if key is not None:
                found.setdefault(number, key)
        return found
