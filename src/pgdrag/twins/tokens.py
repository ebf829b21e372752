"""What takes the place of a class's values? Tokens in the same order and as wide, that tell none of the values.

A class is of columns whose values are compared with each other. All its values are known before a token is made: each
gets its token from its place among the others. The random draws are not kept, so that tokens cannot be reversed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation, localcontext
from ipaddress import IPv4Address, IPv6Address, ip_interface
from itertools import pairwise

# --- what tells nothing ---------------------------------------------------------------------

MOST_SMALL = 99  # whole numbers up to this one are their own tokens: codes and small counts
_SHORT = 3  # characters: `GC`, `USA`
_ENDLESS = frozenset({"infinity", "-infinity", "nan"})
# Dates before and after these are not real data, but mean "never".
_FIRST_YEAR, _LAST_YEAR = 1200, 2900


def is_telling(value: str) -> bool:
    """Whether a value could reveal something of the data: not if it is small, short, or means no value."""
    text = value.strip()
    if len(text) <= _SHORT or text.lower() in {*_ENDLESS, "true", "false"}:
        return False
    if not text.strip("0-+.:/ ") or not any(x.isalnum() for x in text):
        return False
    if (number := finite(text)) is not None:
        return not is_small(number)
    moment = moment_of(text)
    return moment is None or not _is_never(moment)


def is_small(number: Decimal) -> bool:
    """Whether a number is whole and small enough to be its own token."""
    return abs(number) <= MOST_SMALL and number == number.to_integral_value()


# --- numbers --------------------------------------------------------------------------------

# Numbers of a server may have more digits than the 28 that Decimal keeps by default.
EXACT = Context(prec=400)
# Distances grow by up to a fifth, so that whole numbers keep room between them; where there is none above, they shrink.
_STRETCHES = ((1.02, 1.2), (1.0, 1.02), (0.8, 0.98))


def number_tokens(
    values: Iterable[str],
    rng: random.Random,
    *,
    largest: Decimal | None = None,
    avoid: Collection[Decimal] = frozenset(),
) -> dict[str, str]:
    """Return a token for each number.

    Args:
        values: as the server writes them.
        largest: that their type can have; None: any.
        avoid: values of the original, which no token is.

    Returns:
        None of those that are longer than any that can be told.
    """
    with localcontext(EXACT):
        return _number_tokens(values, rng, largest, avoid)


def _number_tokens(
    values: Iterable[str], rng: random.Random, largest: Decimal | None, avoid: Collection[Decimal]
) -> dict[str, str]:
    numbers = {value: finite(value) for value in values}
    found = {
        value: value
        for value, number in numbers.items()
        if number == 0 or (number is None and value.strip().lower() in _ENDLESS)
    }
    known = {x for x in numbers.values() if x}
    tokens: dict[Decimal, Decimal] = {}
    for sign in (1, -1):
        side = sorted(abs(x) for x in known if x * sign > 0)
        stretched = _stretched(side, rng, largest, lambda x, sign=sign: sign * x in avoid)  # type: ignore[misc]
        tokens |= {sign * value: sign * token for value, token in stretched.items()}
    for value, number in numbers.items():
        if number:
            is_scientific = "e" in value.lower()
            found[value] = f"{tokens[number]:e}" if is_scientific else f"{tokens[number]:f}"
    return found


def _stretched(
    ascending: Sequence[Decimal],
    rng: random.Random,
    largest: Decimal | None,
    is_taken: Callable[[Decimal], bool],
) -> dict[Decimal, Decimal]:
    """Return positive numbers with those that take their place."""
    found: dict[Decimal, Decimal] = {}
    are_whole = all(x == x.to_integral_value() for x in ascending)
    for low, high in _STRETCHES:
        found = {}
        value = token = Decimal(0)
        for number in ascending:
            if are_whole and is_small(number):
                value = token = number
            else:
                unit = _unit(number)
                factor = Decimal(rng.uniform(low, high))
                step = (number - value) * factor
                wanted = max((token + step).quantize(unit), token + unit)
                while is_taken(wanted):
                    wanted += unit
                value, token = number, wanted
            found[number] = token
        if largest is None or token <= largest:
            return found
    # No room: hashes that fill their type, for instance.
    return _packed(ascending, largest or Decimal(0), found)


def _packed(
    ascending: Sequence[Decimal], largest: Decimal, found: Mapping[Decimal, Decimal]
) -> dict[Decimal, Decimal]:
    """Return what fits below the largest, one unit from the other at least, from the top down."""
    fitting: dict[Decimal, Decimal] = {}
    limit = largest
    for number in reversed(ascending):
        token = min(found[number], limit)
        fitting[number] = token
        limit = token - _unit(number)
    return fitting


def length_tokens(
    values: Iterable[str], rng: random.Random, *, avoid: Collection[Decimal] = frozenset()
) -> dict[str, str]:
    """Return a token for each length of a range: as long but for 8 %, in the same order, of four digits that count.

    Args:
        values: numbers, as the server writes them.
        avoid: values of the original, which no token is.
    """
    numbers = {value: finite(value) for value in values}
    found = {value: value for value, number in numbers.items() if number is None}
    ascending = sorted({x for x in numbers.values() if x is not None})
    are_whole = all(x == x.to_integral_value() for x in ascending)
    last = exact = token = Decimal(0)
    tokens: dict[Decimal, Decimal] = {}
    with localcontext(EXACT):
        for number in ascending:
            exact += (number - last) * Decimal(rng.uniform(1 - _JITTER, 1 + _JITTER))
            wanted = number
            if number > 0 and not (are_whole and is_small(number)):
                unit = Decimal(1).scaleb(max(number.adjusted() - 3, 0 if are_whole else -6))
                wanted = max(exact.quantize(unit), token)
                while wanted in avoid:
                    wanted += unit
            last, token = number, max(wanted, token)
            tokens[number] = token
    return found | {value: f"{tokens[x]:f}" for value, x in numbers.items() if x is not None}


def _unit(number: Decimal) -> Decimal:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "it is finite"
    return Decimal(1).scaleb(min(exponent, 0))


def finite(text: str) -> Decimal | None:
    """Return the number that a text is; None where it is none, or without end."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) < 150 else None


# --- times ----------------------------------------------------------------------------------

ANCHOR = datetime(2000, 1, 1, tzinfo=UTC)  # the token of the capture's day
_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)
_GRANULES = (_DAY, _SECOND, timedelta(microseconds=1))
_JITTER = 0.08


def time_tokens(
    values: Iterable[str],
    rng: random.Random,
    *,
    now: datetime,
    avoid: Collection[datetime] = frozenset(),
) -> dict[str, str]:
    """Return a token for each date or timestamp.

    What was before the day of `now` is before the day of its token, and what was before the second of `now` is before it.
    """
    moments = {value: moment_of(value) for value in values}
    found = {value: value for value, moment in moments.items() if _stays(value, moment)}
    known = {x for value, x in moments.items() if x is not None and value not in found}
    second = now.astimezone(UTC).replace(microsecond=0)
    day = second.replace(hour=0, minute=0, second=0)
    noted = {day: ANCHOR, second: ANCHOR + (second - day)}
    tokens = {day: ANCHOR}
    for begin, end, sign in ((day, None, -1), (day, second, 1), (second, None, 1)):
        side = sorted(
            (x for x in known if (x - begin) * sign > timedelta(0) and (end is None or x < end)),
            key=lambda x: abs(x - begin),
        )
        ends = [begin, *side] + ([end] if end is not None else [])
        steps = [abs(b - a) * rng.uniform(1 - _JITTER, 1 + _JITTER) for a, b in pairwise(ends)]
        whole = sum(steps, timedelta(0))
        # Between two moments whose tokens are given, all steps together are as long as they were.
        factor = (end - begin) / whole if end is not None and whole else 1.0
        token = noted[begin] if sign < 0 else max(tokens.values())
        for moment, step in zip(side, steps, strict=False):
            granule = next(x for x in _GRANULES if not (moment - day) % x)
            wanted = ANCHOR + sign * _up((token + sign * factor * step - ANCHOR) * sign, granule)
            if (wanted - token) * sign <= timedelta(0):
                wanted = ANCHOR + sign * (_up((token - ANCHOR) * sign, granule) + granule)
            while wanted in avoid:
                wanted += sign * granule
            tokens[moment] = token = wanted
        if end is not None:
            tokens[end] = max(noted[end], token)
    for text, seen in moments.items():
        if text not in found and seen is not None:
            found[text] = _written(tokens[seen], text)
    return found


def has_moment(value: str) -> bool:
    """Whether a value is a date or a timestamp that a token can be made of."""
    return value.lower() in _ENDLESS or moment_of(value) is not None


def _stays(value: str, moment: datetime | None) -> bool:
    return moment is None or _is_never(moment) or value.lower() in _ENDLESS


def _is_never(moment: datetime) -> bool:
    return not _FIRST_YEAR <= moment.year <= _LAST_YEAR


def _up(length: timedelta, granule: timedelta) -> timedelta:
    """Return a length in whole granules, the nearest."""
    return round(length / granule) * granule


def moment_of(text: str) -> datetime | None:
    """Return the moment that a date or a timestamp is, in UTC; None where it is none."""
    if len(text) < 8 or text[4:5] != "-":
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # in UTC it may be before year 1, or after 9999
        return None


def _written(moment: datetime, like: str) -> str:
    if len(like) == len("2000-01-01"):
        return date(moment.year, moment.month, moment.day).isoformat()
    text = moment.replace(tzinfo=None).isoformat(sep=" ")
    return f"{text}+00" if like.endswith("+00") else text


# --- texts ----------------------------------------------------------------------------------

# No two of these letters make a letter of their own in any language's order, and all come in the same order in each.
_LETTERS = "bdfgkmprtvx"
# For short values, of which there may be many.
_ALPHABETS = (_LETTERS, "abcdefghijklmnopqrstuvwxyz", "0123456789abcdefghijklmnopqrstuvwxyz")
_ROOM = 3  # letters more than it takes to tell values apart, so that there is room between any two


def text_tokens(
    ascending: Sequence[str],
    *,
    width: Callable[[str], int] = lambda value: len(value.encode()),
    avoid: Collection[str] = frozenset(),
    is_free: bool = False,
) -> dict[str, str]:
    """Return a token for each text.

    Args:
        ascending: in the order of their collation, each once.
        width: of a value's token.
        avoid: values of the original, which no token is, but short ones.
        is_free: the order does not matter, so that no token need be wider than its value to fit in.
    """
    widths = [width(value) for value in ascending]
    for alphabet in _ALPHABETS:
        tokens = _in_order(widths, alphabet, avoid, is_spread=True)
        tokens = tokens or _in_order(widths, alphabet, avoid, is_spread=False)
        if tokens is not None:
            return dict(zip(ascending, tokens, strict=True))
    if is_free:
        order = sorted(range(len(widths)), key=lambda i: widths[i])
        tokens = _in_order([widths[i] for i in order], _ALPHABETS[-1], avoid, is_spread=False)
        if tokens is not None:
            return {ascending[i]: token for i, token in zip(order, tokens, strict=True)}
    # Too many short ones: each a little wider.
    least = len(_digits(len(ascending), len(_LETTERS))) + 1
    tokens = _in_order([max(x, least) for x in widths], _LETTERS, avoid, is_spread=True)
    assert tokens is not None, "there is room for all of them"
    return dict(zip(ascending, tokens, strict=True))


def _in_order(
    widths: Sequence[int], alphabet: str, avoid: Collection[str], *, is_spread: bool
) -> list[str] | None:
    """Return ascending texts of these widths; None where the alphabet has no room for them."""
    found: list[str] = []
    size, count = len(alphabet), len(widths)
    digits = len(_digits(count, size)) + _ROOM
    last = ""
    for at, width in enumerate(widths):
        if width == 0:
            if found:
                return None
            found.append("")
            continue
        token = ""
        if is_spread:
            place = (at + 1) * size**digits // (count + 1)
            letters = [alphabet[x] for x in _digits(place, size, digits)]
            token = "".join(letters)[:width].ljust(width, alphabet[size // 2])
        if not is_spread or token <= last or (token in avoid and width > _SHORT):
            after = max(last, token) if is_spread and token > last else last
            following = _after(after, width, alphabet)
            while following is not None and width > _SHORT and following in avoid:
                following = _after(following, width, alphabet)
            if following is None:
                return None
            token = following
        found.append(token)
        last = token
    return found


def _after(text: str, width: int, alphabet: str) -> str | None:
    """Return the first text of a width that comes after another one; None where there is none."""
    if width > len(text):
        return text + alphabet[0] * (width - len(text))
    letters = [alphabet.index(x) for x in text[:width]]
    for at in reversed(range(width)):
        if letters[at] + 1 < len(alphabet):
            letters[at] += 1
            return "".join(alphabet[x] for x in letters[: at + 1]) + alphabet[0] * (width - at - 1)
    return None


def _digits(number: int, base: int, least: int = 1) -> list[int]:
    found: list[int] = []
    while number or len(found) < least:
        number, digit = divmod(number, base)
        found.append(digit)
    return found[::-1]


# --- values of fixed forms ------------------------------------------------------------------


def spread_tokens(
    ascending: Sequence[str], rng: random.Random, form: Callable[[int], str], bits: int
) -> dict[str, str]:
    """Return tokens that are spread over a range of numbers, each written by `form`."""
    size = (1 << bits) // (len(ascending) + 1)
    return {
        value: form((at + 1) * size + rng.randrange(max(size // 2, 1)))
        for at, value in enumerate(ascending)
    }


def uuid_form(number: int) -> str:
    """Return a number of 128 bits as a uuid."""
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def bytea_tokens(ascending: Sequence[str]) -> dict[str, str]:
    """Return tokens of byte strings, `\\x` and hexadecimal digits: as long, in order."""
    widths = {value: max(len(value) - 2, 0) // 2 for value in ascending}
    letters = text_tokens(ascending, width=lambda value: widths[value])
    return {value: "\\x" + letters[value].encode().hex() for value in ascending}


def is_address(value: str) -> bool:
    """Whether a value is an address or a network, as the server writes them."""
    try:
        ip_interface(value)
    except ValueError:
        return False
    _, slash, length = value.partition("/")
    return not slash or length.isdecimal()


def address_tokens(
    ascending: Sequence[str], rng: random.Random, *, avoid: Collection[str] = frozenset()
) -> dict[str, str]:
    """Return addresses and networks by lot, in order, with the same length of mask."""
    fours = [x for x in ascending if ":" not in x]
    sixes = [x for x in ascending if ":" in x]
    found = _networks(fours, rng, avoid, IPv4Address, 32)
    return found | _networks(sixes, rng, avoid, IPv6Address, 128)


def _networks(
    values: Sequence[str],
    rng: random.Random,
    avoid: Collection[str],
    kind: type[IPv4Address] | type[IPv6Address],
    bits: int,
) -> dict[str, str]:
    found: dict[str, str] = {}
    room = (1 << bits) // (len(values) + 1)
    last = -1
    for at, value in enumerate(sorted(values, key=lambda x: ip_interface(x).ip)):
        _, slash, length = value.partition("/")
        block = 1 << (bits - int(length or bits))
        number = ((at + 1) * room + rng.randrange(max(room // 2, 1))) // block * block
        token = f"{kind(number)}{slash}{length}"
        # Large networks are few: there the next one may have to do.
        while (number <= last or token in avoid) and number + block < 1 << bits:
            number += block
            token = f"{kind(number)}{slash}{length}"
        found[value] = token
        last = number
    return found


def mac_form(number: int) -> str:
    """Return a number of 40 bits as a locally administered address."""
    digits = f"02{number:010x}"
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))
