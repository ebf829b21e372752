"""Which values can a column have, beyond those that its statistics name? Numbers in the order of the values.

Columns that are compared with each other share a domain, and a value has the same number in each of them. A twin's tokens
say which values there are at the ends of each stretch of a histogram; a domain makes as many between them as are wanted.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from ipaddress import IPv4Address, IPv6Address, ip_interface

import numpy as np
from numpy.typing import NDArray

from pgdrag.twins.tokens import EXACT, finite, mac_form, moment_of, uuid_form

Codes = NDArray[np.int64]

NULL = np.iinfo(np.int64).min
_MOST = 2**62  # beyond it nothing is made
_MOST_DECIMALS = 12
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
SECOND_CODES = 1_000_000  # of times
# Between two tokens the values are counted: a token has 0.
_COUNTER_BITS = 40
_COUNTER: int = 1 << _COUNTER_BITS
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LAST = "z"


@dataclass(frozen=True)
class Form:
    """How one of a domain's columns writes its values.

    Attributes:
        granule: what its values are multiples of, in codes.
        decimals: digits behind the point.
        longest: characters that fit; 0: any number.
        is_date: without a time of day.
    """

    granule: int = 1
    decimals: int = 0
    longest: int = 0
    is_date: bool = False


class Domain(ABC):
    """The values of columns that are compared with each other."""

    @abstractmethod
    def code(self, token: str) -> int | None:
        """Return the number of a token; None where it is not one of this domain's."""

    @abstractmethod
    def between(self, low: int, high: int, count: int, form: Form) -> Codes:
        """Return up to so many numbers over `low` and under `high`, ascending, evenly spread."""

    @abstractmethod
    def beyond(self, last: int, count: int, form: Form) -> Codes:
        """Return so many numbers over `last`, ascending."""

    @abstractmethod
    def texts(self, codes: Codes, form: Form) -> list[str]:
        """Return values as the server reads them."""


class WrittenOtherwise(Domain):
    """The values of another domain, of which a column writes or reads some otherwise."""

    def __init__(self, inner: Domain) -> None:
        self._inner = inner

    def code(self, token: str) -> int | None:
        """Return the number of a token; None where it is not one of this domain's."""
        return self._inner.code(token)

    def between(self, low: int, high: int, count: int, form: Form) -> Codes:
        """Return the other domain's."""
        return self._inner.between(low, high, count, form)

    def beyond(self, last: int, count: int, form: Form) -> Codes:
        """Return the other domain's."""
        return self._inner.beyond(last, count, form)

    def texts(self, codes: Codes, form: Form) -> list[str]:
        """Return values as the server reads them."""
        return self._inner.texts(codes, form)


class ScalarDomain(Domain):
    """Numbers and times, whose own size is their number: in units of `1 / 10**decimals`, or in microseconds."""

    def __init__(self, codes: Mapping[str, int], write: Callable[[Codes, Form], list[str]]) -> None:
        self._codes, self._write = codes, write

    def code(self, token: str) -> int | None:
        """Return the number of a token."""
        return self._codes.get(token)

    def between(self, low: int, high: int, count: int, form: Form) -> Codes:
        """Return values that are evenly spread between two."""
        room = min((high - 1) // form.granule, _MOST) - low // form.granule
        count = min(count, room)
        if count <= 0:
            return np.empty(0, np.int64)
        steps = np.linspace(0, room + 1, count + 2)[1:-1].astype(np.int64)
        if count > 1 and steps[0] == 0:  # more than a float tells apart
            steps = np.arange(1, count + 1, dtype=np.int64)
        return (low // form.granule + np.maximum(steps, 1)) * form.granule

    def beyond(self, last: int, count: int, form: Form) -> Codes:
        """Return the next values."""
        steps = np.arange(1, count + 1, dtype=np.int64)
        return (last // form.granule + steps) * form.granule

    def texts(self, codes: Codes, form: Form) -> list[str]:
        """Return values as the server reads them."""
        return self._write(codes, form)


def number_domain(tokens: Iterable[str]) -> tuple[Domain, int]:
    """Return the domain of numbers, and how many decimals its numbers have."""
    values = {x: number for x in tokens if (number := finite(x)) is not None}
    decimals = max((_decimals(x) for x in values.values()), default=0)
    decimals = min(decimals, _MOST_DECIMALS)
    with localcontext(EXACT):
        codes = {x: int(number.scaleb(decimals)) for x, number in values.items()}
    if any(abs(x) > _MOST for x in codes.values()) or len(set(codes.values())) < len(set(values.values())):  # fmt: skip
        return TokenDomain(sorted(values, key=values.__getitem__), _Decimals()), 0
    return ScalarDomain(
        codes, lambda given, form: _written_numbers(given, decimals, form)
    ), decimals


def _decimals(number: Decimal) -> int:
    exponent = number.normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def _written_numbers(codes: Codes, decimals: int, form: Form) -> list[str]:
    shown = min(form.decimals, decimals)
    if decimals > shown:
        codes = codes // 10 ** (decimals - shown)
    if not shown:
        return list(map(str, codes.tolist()))
    unit = 10**shown
    return [
        f"{'-' if x < 0 else ''}{abs(x) // unit}.{abs(x) % unit:0{shown}d}" for x in codes.tolist()
    ]


def time_domain(tokens: Iterable[str]) -> Domain:
    """Return the domain of dates and timestamps."""
    codes = {}
    for token in tokens:
        moment = moment_of(token)
        if moment is not None:
            codes[token] = time_code(moment)
        elif token in ("infinity", "-infinity"):
            codes[token] = -_MOST if token.startswith("-") else _MOST
    return ScalarDomain(codes, _written_times)


def time_code(moment: datetime) -> int:
    """Return the number of a moment."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def time_granule(codes: Iterable[int]) -> int:
    """Return what times are multiples of: days, seconds or microseconds."""
    known = [x for x in codes if abs(x) != _MOST]
    for granule in (_DAY_US, SECOND_CODES):
        if all(not code % granule for code in known):
            return granule
    return 1


def _written_times(codes: Codes, form: Form) -> list[str]:
    finite_codes = np.where(np.abs(codes) == _MOST, 0, codes)
    moments = np.datetime64("2000-01-01", "us") + finite_codes
    texts: list[str] = moments.astype("datetime64[D]" if form.is_date else "datetime64[us]").astype(str).tolist()  # fmt: skip
    for at in np.flatnonzero(np.abs(codes) == _MOST):
        texts[at] = "infinity" if codes[at] > 0 else "-infinity"
    return texts


# --- between tokens -------------------------------------------------------------------------


class Stretches(ABC):
    """Makes values between two tokens: of the first, None before all of them, and of the second, None behind them."""

    def room(self, before: str | None, after: str | None) -> int:
        """Return how many values there can be."""
        return _COUNTER

    @abstractmethod
    def texts(self, before: str | None, after: str | None, numbers: Sequence[int], most: int) -> list[str]:  # fmt: skip
        """Return the values of these numbers, from 1 on, as the server reads them; in their order, where there is one.

        Args:
            most: the largest number that this domain has in any of its stretches.
        """


class TokenDomain(Domain):
    """Values that are told apart by the token before them and a number."""

    def __init__(self, ascending: Sequence[str], between: Stretches) -> None:
        self.tokens = list(ascending)
        self._places = {token: at for at, token in enumerate(self.tokens, start=1)}
        self._stretches = between
        self._most = 1

    def code(self, token: str) -> int | None:
        """Return the number of a token; None where it is not one of this domain's."""
        place = self._places.get(token)
        return None if place is None else place << _COUNTER_BITS

    def between(self, low: int, high: int, count: int, form: Form) -> Codes:
        """Return up to so many values; tokens of other columns that are in between are among them."""
        first, last = low >> _COUNTER_BITS, (high - 1) >> _COUNTER_BITS
        if count <= 0 or last < first:
            return np.empty(0, np.int64)
        each, more = divmod(count, last - first + 1)
        parts = []
        for place in range(first, last + 1):
            number = each + (place - first < more)
            if not number:
                break
            begin = place << _COUNTER_BITS
            if place == first:
                begin = low + 1
            else:
                parts.append(np.array([begin], np.int64))
                begin, number = begin + 1, number - 1
            number = min(number, self._stretches.room(*self._ends(place)))
            if number > 0:
                parts.append(begin + np.arange(number, dtype=np.int64))
                self._most = max(self._most, (begin & (_COUNTER - 1)) + number)
        found = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return found[found < high]

    def beyond(self, last: int, count: int, form: Form) -> Codes:
        """Return further values behind one."""
        self._most = max(self._most, (last & (_COUNTER - 1)) + count + 1)
        return last + np.arange(1, count + 1, dtype=np.int64)

    def texts(self, codes: Codes, form: Form) -> list[str]:
        """Return ascending values as the server reads them."""
        if not len(codes):  # of NULLs alone
            return []
        places, begins = np.unique(codes >> _COUNTER_BITS, return_index=True)
        ends = [*begins.tolist()[1:], len(codes)]
        found: list[str] = []
        for place, begin, end in zip(places.tolist(), begins.tolist(), ends, strict=True):
            numbers = (codes[begin:end] & (_COUNTER - 1)).tolist()
            before, after = self._ends(place)
            if numbers[0] == 0 and before is not None:
                found.append(before)
                numbers = numbers[1:]
            if numbers:
                found += self._stretches.texts(before, after, numbers, self._most)
        return found

    def _ends(self, place: int) -> tuple[str | None, str | None]:
        before = self.tokens[place - 1] if place else None
        return before, self.tokens[place] if place < len(self.tokens) else None


@dataclass(frozen=True)
class Wide:
    """Which share of a column's values has another width, in bytes: those in a TOAST table."""

    share: float = 0.0
    width: float = 0.0

    def has(self, key: int) -> bool:
        """Whether a value is one of them; by lot."""
        return zlib.crc32(key.to_bytes(8, "little")) < self.share * 2**32


@dataclass(frozen=True)
class _Texts(Stretches):
    """Texts of letters.

    One begins as the token before it up to where that differs from the token behind it, so that it comes before that;
    then follows the last letter, which tokens seldom have there, so that it comes behind the first.

    Attributes:
        width: on average, in bytes.
        factor: how much wider than the token before it one is; 0: all have the same width.
        longest: 0: any number of letters.
    """

    width: float
    factor: float
    longest: int
    wide: Wide = Wide()

    def texts(self, before: str | None, after: str | None, numbers: Sequence[int], most: int) -> list[str]:  # fmt: skip
        """Return texts."""
        head, width = self._head(before or "", after), self._width(before)
        digits = len(_digits(most))
        room = width - len(head) - digits
        if self.longest and len(head) + digits > self.longest:
            return [f"{zlib.crc32(f'{head}{x}'.encode()):08x}"[: self.longest] for x in numbers]
        if room <= 0 and not self.wide.share:
            return [head + _digits(x, digits) for x in numbers]
        key, wide_room = zlib.crc32(head.encode()), round(self.wide.width) - len(head) - digits
        rooms = (wide_room if self.wide.has(key + x) else room for x in numbers)
        return [
            head + _digits(x, digits) + noise(key + x, max(room, 0))
            for x, room in zip(numbers, rooms, strict=True)
        ]

    def room(self, before: str | None, after: str | None) -> int:
        """Return how many there can be: none where the second goes on with the least letter of all."""
        if not before or after is None or not after.startswith(before):
            return _COUNTER
        return 0 if _under(after[len(before)]) is None else _COUNTER

    def _head(self, before: str, after: str | None) -> str:
        if before and after is not None and after.startswith(before):
            return before + (_under(after[len(before)]) or "")
        kept = min(_common(before, after) + 1 if after is not None else 1, len(before))
        while kept < len(before) and before[kept] == _LAST:
            kept += 1
        return before[:kept] + (_LAST if before else "")

    def _width(self, before: str | None) -> int:
        width = round(len(before) * self.factor if before and self.factor else self.width)
        return min(width, self.longest) if self.longest else width


@dataclass(frozen=True)
class _ShortTexts(Stretches):
    """Texts of so few letters that they are counted."""

    longest: int
    letters: str

    def room(self, before: str | None, after: str | None) -> int:
        """Return how many there are between two."""
        last = len(self.letters) ** self.longest if after is None else self._number(after)
        return max(last - self._number(before) - 1, 0)

    def texts(self, before: str | None, after: str | None, numbers: Sequence[int], most: int) -> list[str]:  # fmt: skip
        """Return texts."""
        first = self._number(before)
        return [self._text(first + x) for x in numbers]

    def _number(self, text: str | None) -> int:
        number = 0
        for letter in (text or "").ljust(self.longest, self.letters[0]):
            number = number * len(self.letters) + max(self.letters.find(letter), 0)
        return number

    def _text(self, number: int) -> str:
        found: list[str] = []
        for _ in range(self.longest):
            number, digit = divmod(number, len(self.letters))
            found.append(self.letters[digit])
        return "".join(reversed(found))


def _under(letter: str) -> str | None:
    """Return a letter that comes before another one in each collation; None where there is none."""
    return next((x for x in "a0" if x < letter), None)


_FEW_LETTERS = 5


def text_domain(
    tokens: Iterable[str], *, longest: int, width: float, wide: Wide = Wide()
) -> TokenDomain:
    """Return the domain of texts, in the order of their letters.

    Args:
        longest: characters that fit; 0: any number.
        width: of those without a token, on average, in bytes.
        wide: which of them have another width.
    """
    ascending = sorted(set(tokens))
    if 0 < longest <= _FEW_LETTERS:
        is_plain = all(set(x) <= set(_LETTERS) for x in ascending)
        letters = _LETTERS if is_plain else f"0123456789{_LETTERS}"
        return TokenDomain(ascending, _ShortTexts(longest, letters))
    mean = sum(map(len, ascending)) / len(ascending) if ascending else 0.0
    # Of a column with values in a TOAST table those that are told are all of the others' width.
    factor = 0.0 if not mean else 1.0 if wide.share else width / mean
    return TokenDomain(ascending, _Texts(width, factor, longest, wide))


def _common(one: str, other: str) -> int:
    at = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        at += 1
    return at


def _digits(number: int, least: int = 1) -> str:
    if number < 676 and least == 2:
        return _PAIRS[number]
    found: list[str] = []
    while number >= 676:
        number, pair = divmod(number, 676)
        found.append(_PAIRS[pair])
    found.append(_PAIRS[number] if number >= 26 else _LETTERS[number])
    return "".join(reversed(found)).rjust(least, "a")


_PAIRS = [one + other for one in _LETTERS for other in _LETTERS]
_NOISE = "".join(_LETTERS[x] for x in np.random.default_rng(11).integers(0, 26, 1 << 17).tolist())


def noise(key: int, length: int) -> str:
    """Return letters without an order, which nothing compresses; the same for the same key."""
    at = key * 7919 & 0xFFFF
    if length <= 0x10000:
        return _NOISE[at : at + length]
    return (_NOISE[at : at + 0x10000] * (length // 0x10000 + 1))[:length]


@dataclass(frozen=True)
class _Bytes(Stretches):
    """Byte strings, as `\\x` and hexadecimal digits: tokens are letters."""

    inner: _Texts

    def texts(self, before: str | None, after: str | None, numbers: Sequence[int], most: int) -> list[str]:  # fmt: skip
        """Return byte strings."""
        low, high = (None if x is None else bytes.fromhex(x[2:]).decode("latin-1") for x in (before, after))  # fmt: skip
        return [f"\\x{x.encode('latin-1').hex()}" for x in self.inner.texts(low, high, numbers, most)]  # fmt: skip


def bytea_domain(tokens: Iterable[str], *, width: float) -> Domain:
    """Return the domain of byte strings."""
    return TokenDomain(sorted(set(tokens)), _Bytes(_Texts(width, 0.0, 0)))


@dataclass(frozen=True)
class _Numbered(Stretches):
    """Values that are a number in another form."""

    read: Callable[[str], int]
    write: Callable[[int], str]
    greatest: int

    def room(self, before: str | None, after: str | None) -> int:
        """Return how many whole numbers there are between two."""
        low, high = self._ends(before, after)
        return max(high - low - 1, 0)

    def texts(self, before: str | None, after: str | None, numbers: Sequence[int], most: int) -> list[str]:  # fmt: skip
        """Return values."""
        low, high = self._ends(before, after)
        most = max(most, numbers[-1])
        step = max((high - low) // (most + 1), 1)
        return [self.write(low + step * x) for x in numbers]

    def _ends(self, before: str | None, after: str | None) -> tuple[int, int]:
        low = 0 if before is None else self.read(before)
        return low, self.greatest if after is None else self.read(after)


def uuid_domain(tokens: Iterable[str]) -> Domain:
    """Return the domain of uuids."""
    between = _Numbered(lambda x: int(x.replace("-", ""), 16), uuid_form, 2**128 - 1)
    return TokenDomain(sorted(set(tokens)), between)


def mac_domain(tokens: Iterable[str]) -> Domain:
    """Return the domain of MAC addresses."""
    between = _Numbered(lambda x: int(x.replace(":", ""), 16) & (2**40 - 1), mac_form, 2**40 - 1)
    return TokenDomain(sorted(set(tokens)), between)


# Addresses of version 6 come behind those of version 4.
_SIXES = 2**32


def address_domain(tokens: Iterable[str]) -> Domain:
    """Return the domain of addresses: single ones between those of the original."""

    def read(text: str) -> int:
        number = int(ip_interface(text).ip)
        return number + _SIXES if ":" in text else number

    def write(number: int) -> str:
        return str(IPv4Address(number) if number < _SIXES else IPv6Address(number - _SIXES))

    has_six = any(":" in x for x in tokens)
    greatest = _SIXES + 2**128 - 1 if has_six else _SIXES - 1
    return TokenDomain(sorted(set(tokens), key=read), _Numbered(read, write, greatest))


class _Decimals(Stretches):
    """Numbers of too many digits to be counted."""

    def texts(self, before: str | None, after: str | None, numbers: Sequence[int], most: int) -> list[str]:  # fmt: skip
        """Return numbers."""
        with localcontext(EXACT):
            low = Decimal(before or 0)
            high = Decimal(after) if after is not None else low + abs(low) + 1
            step = (high - low) / (max(most, numbers[-1]) + 1)
            return [f"{low + step * x:e}" for x in numbers]


# --- values that are listed -----------------------------------------------------------------


@dataclass
class ListedDomain(Domain):
    """Values that are all known: labels, booleans, documents."""

    values: list[str]
    make: Callable[[int], str] | None = None
    _places: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = {value: at for at, value in enumerate(self.values)}

    def code(self, token: str) -> int | None:
        """Return the place of a value in the list."""
        return self._places.get(token)

    def between(self, low: int, high: int, count: int, form: Form) -> Codes:
        """Return the values between two."""
        return np.arange(low + 1, min(high, low + 1 + count), dtype=np.int64)

    def beyond(self, last: int, count: int, form: Form) -> Codes:
        """Return further values, as far as there are any: those that are made have no end."""
        most = len(self.values) if self.make is None else last + 1 + count
        return np.arange(last + 1, min(most, last + 1 + count), dtype=np.int64)

    def texts(self, codes: Codes, form: Form) -> list[str]:
        """Return values as the server reads them."""
        known = self.values
        return [
            known[x] if x < len(known) else (self.make(x) if self.make else known[-1])
            for x in codes.tolist()
        ]
