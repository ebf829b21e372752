"""What values does a parameter have, without keeping them? How often they come again, whether they ascend, how long they are.

In bounded memory: of the most frequent ones and of a sample the values are kept while the log is read, of all others their
hashes, which Python draws by lot for each process. No value gets into the file.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

from pgdrag.twins.array_text import array_elements
from pgdrag.twins.tokens import MOST_SMALL, finite, is_small
from pgdrag.twins.transactions import QUANTILES, Kind, Spread
from pgdrag.units import significant

_MOST_COUNTED, _MOST_SAMPLED, _MOST_HASHES = 2000, 400, 1024
_LONG = 256
_TOPS = (1, 10, 100)
_ALL = 0.999  # of the values: counts are lost where there are very many
_LEAST_AGES, _MOST_AGES = 10, 20
_NEW = 0.5  # of the values are different where the clock tells them
_APART_S, _SLOW_S = 1.0, 5.0  # from one age to the next; what a program waits before it sends
_TIME_OF_DAY = ":"
_STEP = math.log(1.05)
_HASHES = 1 << 64
_LARGEST = 1e100


class SpreadCount:
    """A distribution of amounts that are not below zero, to 5 %."""

    __slots__ = ("_buckets", "count", "least", "most", "total")

    def __init__(self) -> None:
        self._buckets: Counter[int | None] = Counter()
        self.count = 0
        self.total = 0.0
        self.least, self.most = math.inf, 0.0

    def add(self, amount: float, times: int = 1) -> None:
        """Add an amount; below zero, since clocks are rounded, it is zero but for the mean."""
        self.count += times
        self.total += amount * times
        amount = max(amount, 0.0)
        if amount < self.least:
            self.least = amount
        if amount > self.most:
            self.most = amount
        self._buckets[int(math.log(amount) // _STEP) if amount > 1e-7 else None] += times

    def spread(self) -> Spread:
        """Return the distribution; of nothing, zeros."""
        if not self.count:
            return Spread(0.0, (0.0,) * len(QUANTILES))
        ordered = sorted(self._buckets.items(), key=lambda x: -math.inf if x[0] is None else x[0])
        found = []
        for quantile in QUANTILES[1:-1]:
            wanted, seen = quantile * (self.count - 1), 0
            bucket: int | None = None
            for bucket, count in ordered:  # noqa: B007
                seen += count
                if seen > wanted:
                    break
            middle = 0.0 if bucket is None else math.exp((bucket + 0.5) * _STEP)
            found.append(min(max(middle, self.least), self.most))
        quantiles = (self.least, *found, self.most)
        return Spread(
            significant(max(self.total / self.count, 0.0)), tuple(map(significant, quantiles))
        )


class ValueAccount:
    """The values of one parameter.

    Attributes:
        seen, nulls: how many.
        counts: of the most frequent ones.
        sample: some of them, spread over the log.
        moments: when the statements of those began, in seconds since 1970.
    """

    __slots__ = ("_ascending", "_every", "_hashes", "_is_pruned", "_last", "_limit", "counts", "moments", "nulls", "sample", "seen")  # fmt: skip

    def __init__(self) -> None:
        self.seen = self.nulls = 0
        self.counts: dict[str, int] = {}
        self.sample: list[str] = []
        self.moments: list[float] = []
        self._every = 1
        self._hashes: set[int] = set()
        self._limit = _HASHES
        self._is_pruned = False
        self._ascending = 0
        self._last: float | str | None = None

    def add(self, value: str | None, at_s: float = 0.0) -> None:
        """Add a value of a statement that began then; None is NULL."""
        self.seen += 1
        if value is None:
            self.nulls += 1
            return
        if self.seen % self._every == 0:
            self._sample(value, at_s)
        if len(value) > _LONG:
            value = f"{value[:8]}{hash(value)}"
        counts = self.counts
        if value in counts:
            counts[value] += 1
        else:
            counts[value] = 1
            self._add_new(value)

    def _sample(self, value: str, at_s: float) -> None:
        self.sample.append(value[:10_000])
        self.moments.append(at_s)
        if len(self.sample) >= _MOST_SAMPLED:
            self.sample, self.moments = self.sample[::2], self.moments[::2]
            self._every *= 2

    def _add_new(self, value: str) -> None:
        hashed = hash(value) % _HASHES
        if hashed < self._limit:
            self._hashes.add(hashed)
            if len(self._hashes) >= 2 * _MOST_HASHES:
                self._hashes = set(heapq.nsmallest(_MOST_HASHES, self._hashes))
                self._limit = max(self._hashes) + 1
        place = order_of(value)
        if place is not None:
            last = self._last
            is_time = isinstance(place, str)
            if last is None or (is_time == isinstance(last, str) and place > last):  # type: ignore[operator]
                self._last = place
                self._ascending += 1
        if len(self.counts) > 2 * _MOST_COUNTED:
            top = heapq.nlargest(_MOST_COUNTED, self.counts.items(), key=lambda x: x[1])
            self.counts = dict(top)
            self._is_pruned = True

    @property
    def given(self) -> int:
        """Return how many were no NULLs."""
        return self.seen - self.nulls

    @property
    def distinct(self) -> int:
        """Return how many different ones there were, about."""
        if not self._is_pruned or self._limit == _HASHES:
            return max(len(self.counts), len(self._hashes))
        # The k-th smallest of n hashes is at about k/n of their range.
        smallest = heapq.nsmallest(_MOST_HASHES, self._hashes)
        return round((_MOST_HASHES - 1) * _HASHES / smallest[-1])

    @property
    def top_shares(self) -> tuple[float, float, float]:
        """Return the shares of the most frequent 1, 10 and 100."""
        top = heapq.nlargest(_TOPS[-1], self.counts.values())
        given = max(self.given, 1)
        one, ten, hundred = (significant(min(sum(top[:x]) / given, 1.0)) for x in _TOPS)
        return one, ten, hundred

    @property
    def ascending_share(self) -> float:
        """Return the share of values above all before them."""
        return significant(self._ascending / max(self.given, 1))

    @property
    def ages(self) -> tuple[tuple[float, float], ...]:
        """Return how many seconds before its statement each value was, with shares, if programs take it from their clock.

        Then it is new each time, and one of few lengths of time ago.
        """
        if self.given < _LEAST_AGES or self.distinct < _NEW * self.given:
            return ()
        pairs = zip(self.sample, self.moments, strict=True)
        known = sorted(at_s - then for x, at_s in pairs if _TIME_OF_DAY in x and (then := amount_of(x)) is not None)  # fmt: skip
        if len(known) < _LEAST_AGES:
            return ()
        groups = [[known[0]]]
        for age in known[1:]:
            if age - groups[-1][-1] > _APART_S:
                groups.append([])
            groups[-1].append(age)
        if len(groups) > _MOST_AGES or any(x[-1] - x[0] > _SLOW_S for x in groups):
            return ()
        return tuple((_rounded(x[len(x) // 2]), significant(len(x) / len(known))) for x in groups)

    def most_common(self, most: int) -> list[tuple[str, float]]:
        """Return the most frequent values with their shares."""
        top = heapq.nlargest(most, self.counts.items(), key=lambda x: x[1])
        return [(value, count / max(self.given, 1)) for value, count in top]

    def small_numbers(self) -> tuple[tuple[str, float], ...]:
        """Return all values with their shares, the most frequent first, if they are whole numbers that are their own tokens."""
        amounts = [(finite(x), share) for x, share in self.most_common(2 * MOST_SMALL + 1)]
        small = [(f"{x:f}", share) for x, share in amounts if x is not None and is_small(x)]
        is_all = len(small) == len(amounts) and sum(share for _, share in small) >= _ALL
        return tuple((x, significant(share)) for x, share in small) if is_all else ()

    def chance_of(self, other: ValueAccount) -> float:
        """Return how often a value of both would be equal by chance."""
        few, many = sorted((self, other), key=lambda x: len(x.counts))
        total = sum(count * many.counts.get(value, 0) for value, count in few.counts.items())
        return total / max(few.given * many.given, 1)

    def lengths(self, kind: Kind) -> Spread | None:
        """Return how long texts and byte strings are, and how many elements arrays have."""
        if kind not in ("text", "array", "bytea") or not self.sample:
            return None
        count = SpreadCount()
        for value in self.sample:
            count.add(_elements(value) if kind == "array" else len(value))
        return count.spread()


_TYPES: Mapping[Kind, tuple[str, ...]] = {
    "array": ("[]",),
    "number": ("smallint", "integer", "bigint", "numeric", "real", "double precision", "oid"),
    "time": ("date", "timestamp"),
    "boolean": ("boolean",),
    "bytea": ("bytea",),
    "text": ("text", "character", "name", "\"char\"", "json", "citext"),
}  # fmt: skip


def kind_of(type_: str, sample: Sequence[str]) -> Kind:
    """Return what values are: by their type, else by what they look like."""
    if type_.endswith("[]"):
        return "array"
    for kind, beginnings in _TYPES.items():
        if type_.startswith(beginnings):
            return kind
    if type_ or not sample:
        return "other"
    some = [order_of(x) for x in islice(sample, 50)]
    if all(isinstance(x, int | float) for x in some):
        return "number"
    if all(isinstance(x, str) for x in some):
        return "time"
    if all(x.lower() in ("t", "f", "true", "false") for x in sample):
        return "boolean"
    return "array" if all(x[:1] == "{" and x[-1:] == "}" for x in sample) else "text"


def order_of(value: str) -> float | str | None:
    """Return the place of a number or a time among others; None: it is neither."""
    try:
        # A float has no room for numbers of more than 15 digits.
        number = int(value) if value.isdigit() and len(value) < 40 else float(value)
        return number if math.isfinite(number) else None
    except ValueError:
        return value if value[4:5] == "-" and value[:4].isdigit() else None


def amount_of(value: str) -> float | None:
    """Return a number, or a time in seconds."""
    place = order_of(value)
    if not isinstance(place, str):
        return place if place is None or abs(place) < _LARGEST else None
    try:
        moment = datetime.fromisoformat(place)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def rounded(differences: Iterable[float]) -> tuple[float, ...]:
    """Return the quantiles of differences so that none is an original value: whole ones up to 99, else powers of 2 by quarters."""
    ordered = sorted(differences)
    quantiles = (ordered[round(x * (len(ordered) - 1))] for x in QUANTILES)
    found = tuple(_rounded(x) for x in quantiles)
    return found[:1] if len(set(found)) == 1 else found


def _rounded(number: float) -> float:
    exact = finite(repr(float(number)))
    if number == 0 or (exact is not None and is_small(exact)):
        return float(number)
    # Never whole, and none that a person would write.
    power = (math.floor(math.log2(abs(number)) * 4) + 0.5) / 4
    return math.copysign(2.0**power, number)


def _elements(value: str) -> int:
    try:
        return len(array_elements(value))
    except ValueError:
        return 0
