"""How are values made that have parts: documents, arrays, search vectors, ranges? Of what is known of their parts.

Statistics show up to some hundred whole documents and arrays, and how frequent elements are. New ones are put together
of the parts of those, each part drawn by itself. Of types whose values have no tokens only width and number are known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import scipy  # whose parts it loads when they are used
from numpy.typing import NDArray

from pgdrag.data_twin.domains import noise
from pgdrag.twins.array_text import array_elements, array_text
from pgdrag.twins.model import ColumnStatistics

_NUMBER_STEPS = (
    20  # from so many different numbers on in one place of a document, others may come between
)
_HEADER = 4  # bytes of a value before its content
_AT_ONCE = 10_000
_LEXEME_BYTES = 8  # that a lexeme takes beside its letters: an entry and a place
_LONG = 127


# --- json -----------------------------------------------------------------------------------


class Documents:
    """Makes documents like those that are known."""

    def __init__(self, known: Sequence[str], weights: Sequence[float], width: int) -> None:
        self._known = [json.loads(x, parse_float=Decimal, parse_int=Decimal) for x in known]
        total = sum(weights) or 1.0
        self._weights = np.array([x / total for x in weights])
        self._width = width
        self._leaves: dict[tuple[object, ...], list[Any]] = {}
        for document in self._known:
            for path, leaf in _leaves(document, ()):
                self._leaves.setdefault(path, []).append(leaf)
        # Places where no text is there twice: there are more than those that are known.
        self._keys = {
            path
            for path, leaves in self._leaves.items()
            if len(leaves) > _NUMBER_STEPS and len(set(map(str, leaves))) == len(leaves)
        }

    def make(self, count: int, rng: np.random.Generator) -> list[str]:
        """Return so many documents; as far as their parts allow, all are different."""
        if not self._known:
            return [json.dumps({"k": noise(at, max(self._width - 16, 1))}) for at in range(count)]
        which = rng.choice(len(self._known), count, p=self._weights)
        found = [_text(self._varied(self._known[at], (), rng)) for at in which.tolist()]
        seen = set(found)
        if len(seen) == count:
            return found
        seen.clear()
        for at, text in enumerate(found):
            if text in seen:
                found[at] = self._other(text, at, rng, seen)
            seen.add(found[at])
        return found

    def _other(self, text: str, number: int, rng: np.random.Generator, seen: set[str]) -> str:
        for _ in range(3):
            at = int(rng.choice(len(self._known), p=self._weights))
            text = _text(self._varied(self._known[at], (), rng))
            if text not in seen:
                break
        return text

    def _varied(self, value: Any, path: tuple[object, ...], rng: np.random.Generator) -> Any:
        if isinstance(value, dict):
            return {key: self._varied(inner, (*path, key), rng) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._varied(inner, (*path, 0), rng) for inner in value]
        others = self._leaves[path]
        other = others[int(rng.integers(len(others)))]
        if isinstance(other, Decimal) and len(others) > _NUMBER_STEPS:
            return self._number(path, other, rng)
        if isinstance(other, str) and path in self._keys:
            return noise(int(rng.integers(2**40)), len(other))
        return other

    def _number(self, path: tuple[object, ...], low: Decimal, rng: np.random.Generator) -> Decimal:
        """Return a number from one that is known up to the next one."""
        numbers = sorted({x for x in self._leaves[path] if isinstance(x, Decimal)})
        if len(numbers) <= _NUMBER_STEPS:
            return low
        at = numbers.index(low)
        high = numbers[min(at + 1, len(numbers) - 1)]
        exponent = min(int(low.as_tuple().exponent), int(high.as_tuple().exponent), 0)
        step = (high - low) * Decimal(float(rng.random()))
        return (low + step).quantize(Decimal(1).scaleb(exponent))


def _leaves(value: Any, path: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, (*path, 0))
    else:
        yield path, value


def _text(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {_text(v)}" for k, v in value.items()) + "}"  # fmt: skip
        case list():
            return "[" + ", ".join(map(_text, value)) + "]"
        case Decimal():
            return f"{value:f}"
        case _:
            return json.dumps(value, ensure_ascii=False)


# --- arrays and search vectors --------------------------------------------------------------


def arrays(one: ColumnStatistics, count: int, rng: np.random.Generator) -> list[str]:
    """Return so many arrays with as many elements, each as frequent as it was."""
    elements, weights = list(one.elements), np.array(one.element_shares[: len(one.elements)])
    if not elements:
        known = one.histogram or one.most_common or ("{}",)
        return [known[at] for at in rng.integers(0, len(known), count).tolist()]
    # Behind the counts their mean.
    lengths = np.array(one.element_counts[:-1] or tuple(len(array_elements(x)) for x in one.histogram) or (1,))  # fmt: skip
    drawn = lengths[rng.integers(0, len(lengths), count)].astype(np.int64)
    which = rng.choice(len(elements), int(drawn.sum()), p=weights / weights.sum()).tolist()
    found, at = [], 0
    for number in drawn.tolist():
        found.append(array_text(elements[x] for x in dict.fromkeys(which[at : at + number])))
        at += number
    return found


class Lexemes:
    """Draws the lexemes of search vectors: each as often as statistics say, and rare ones up to the width.

    Args:
        others: how many rare ones each vector has already.

    Attributes:
        letters: of the lexemes of one vector, on average, with a space behind each.
    """

    def __init__(self, one: ColumnStatistics, rows: int, *, others: int = 0) -> None:
        self._words, self._shares = one.elements, np.array(one.element_shares[: len(one.elements)])
        least = float(self._shares.min()) if self._shares.size else 1.0 / max(rows, 1)
        mean = sum(map(len, self._words)) / len(self._words) if self._words else 6.0
        known = float(sum(s * (len(x) + _LEXEME_BYTES) for s, x in zip(self._shares, self._words, strict=True)))  # fmt: skip
        rare = max((one.width - _HEADER - 4 - known) / (mean + _LEXEME_BYTES) - others, 0.0)
        self.letters = known + rare * mean - (_LEXEME_BYTES - 1) * float(self._shares.sum())
        # Each of the rare ones is less frequent than any that is told.
        self._rare_words = max(int(rare / max(least / 2, 1.0 / max(rows, 1))), 1)
        self._rare, self._rare_length = rare, max(round(mean) - 1, 3)

    def of(self, keys: NDArray[np.int64]) -> Iterator[list[str]]:
        """Yield the lexemes of each vector; the same for the same key."""
        for begin in range(0, len(keys), _AT_ONCE):
            some = keys[begin : begin + _AT_ONCE]
            is_there = _lots(some, len(self._shares), salt=1) < self._shares
            numbers = scipy.stats.poisson.ppf(_lots(some, 1, salt=2)[:, 0], self._rare).astype(int)
            rare = _lots(some, int(numbers.max()), salt=3) * self._rare_words
            for key, present, number, others in zip(some.tolist(), is_there, numbers.tolist(), rare, strict=True):  # fmt: skip
                words = {f"z{noise(int(x), self._rare_length)}" for x in others[:number]}
                own = [self._words[x] for x in np.flatnonzero(present).tolist()]
                yield [*own, *sorted(words)] or [f"z{key}"]


def _lots(keys: NDArray[np.int64], count: int, *, salt: int) -> NDArray[np.float64]:
    """Return so many numbers from 0 to 1 for each key, always the same for one: SplitMix64 of key and place."""
    places = np.arange(salt << 32, (salt << 32) + count, dtype=np.uint64)
    mixed = (keys.astype(np.uint64)[:, None] + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = mixed + places * np.uint64(0xD1B54A32D192ED03)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) / 2.0**53


def search_vectors(one: ColumnStatistics, rows: int, count: int, rng: np.random.Generator) -> list[str]:  # fmt: skip
    """Return so many tsvectors, with each lexeme as frequent as it was, and rare ones up to the width."""
    keys = rng.integers(0, 2**62, count)
    return [
        " ".join(f"{_quoted(x)}:{place}" for place, x in enumerate(lexemes, start=1))
        for lexemes in Lexemes(one, rows).of(keys)
    ]


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


# --- types whose values have no tokens ------------------------------------------------------

_MAKERS: Mapping[str, Callable[[int], str]] = {
    "int4range": lambda at: f"[{at},{at + 10})",
    "int8range": lambda at: f"[{at},{at + 10})",
    "numrange": lambda at: f"[{at},{at + 10})",
    "daterange": lambda at: f"[{_day(at)},{_day(at, 30)})",
    "tsrange": lambda at: f"[{_day(at)},{_day(at, 1)})",
    "tstzrange": lambda at: f"[{_day(at)},{_day(at, 1)})",
    "interval": lambda at: f"{at} seconds",
    "time": lambda at: f"{at // 3600 % 24:02d}:{at // 60 % 60:02d}:{at % 60:02d}",
    "timetz": lambda at: f"{at // 3600 % 24:02d}:{at // 60 % 60:02d}:{at % 60:02d}+00",
    "money": lambda at: f"{at}.00",
    "point": lambda at: _point(at),
    "box": lambda at: f"{_point(at)},{_point(at, 1)}",
    "lseg": lambda at: f"[{_point(at)},{_point(at, 1)}]",
    "circle": lambda at: f"<{_point(at)},1>",
    "xml": lambda at: f"<x>{at}</x>",
    "macaddr8": lambda at: ":".join(f"{at:016x}"[x : x + 2] for x in range(0, 16, 2)),
    "pg_lsn": lambda at: f"0/{at:X}",
    "hstore": lambda at: f"k=>{at}",
    "ltree": lambda at: f"a.n{at % 100}.n{at}",
    "tsquery": lambda at: f"q{at}",
    "jsonpath": lambda at: f"$.k{at}",
}


def _point(at: int, away: int = 0) -> str:
    """Return a point in a square of 1000 by 1000; however many there are, they are evenly spread (a Kronecker sequence)."""
    x, y = (at * 0.7548776662466927 % 1, at * 0.5698402909980532 % 1)
    return f"({1000 * x + away:.6g},{1000 * y + away:.6g})"


def _day(at: int, later: int = 0) -> str:
    return str(np.datetime64("2000-01-01") - 365 + at % 10_000 + later)


def others(type_: str, modifier: int) -> Callable[[int], str] | None:
    """Return what makes a value of a type of its number; None where nobody knows how."""
    if type_ in ("bit", "varbit"):
        width = max(modifier, 1)
        return lambda at: f"{at % 2 ** min(width, 62):0{width}b}"[-width:]
    if type_ == "vector" and modifier > 0:
        return lambda at: "[" + ",".join(str((at * 31 + x) % 997) for x in range(modifier)) + "]"
    return _MAKERS.get(type_)
