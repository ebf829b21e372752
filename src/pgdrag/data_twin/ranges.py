"""Which ranges has a column? They begin where, and are as long as, its statistics tell; those of one room do not overlap."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgdrag.data_twin.domains import (
    NULL,
    Codes,
    Domain,
    Form,
    ListedDomain,
    number_domain,
    time_domain,
    time_granule,
)
from pgdrag.twins.model import ColumnStatistics
from pgdrag.twins.range_text import RangeText, read_range
from pgdrag.twins.tokens import finite

NO_END = np.iinfo(np.int64).max
_DAY_US, _SECOND_US = 86_400_000_000, 1_000_000
_WHOLE = frozenset({"int4", "int8", "date"})
_TIMES = frozenset({"date", "ts", "tstz"})
_PART = re.compile(r'("(?:[^"]|"")+"|[^\W\d][\w$]*)(?: [\w.]+)? WITH (=|&&)(?=[,)])')


def bound_type(type_: str) -> str:
    """Return what a type of ranges, or of sets of ranges, begins with: "tstz"; "" where it is neither, or not the server's own."""
    match = re.fullmatch(r"(int4|int8|num|date|ts|tstz)(?:multi)?range", type_)
    return match[1] if match else ""


class Ranges(ListedDomain):
    """The ranges of a column, by their number.

    Attributes:
        granule: what bounds are multiples of.
        is_closed: both bounds are part of a range.
        lows, highs: bounds, as numbers of the domain of the bounds; NULL and NO_END: there is none. An empty range has a lower
            bound above its upper one.
    """

    def __init__(self, one: ColumnStatistics, type_: str) -> None:
        """Read the statistics, which have bounds; there are no ranges yet."""
        super().__init__([])
        self.lows, self.highs = np.empty(0, np.int64), np.empty(0, np.int64)
        self._is_set = "multirange" in type_
        known = [x for text in one.range_bounds if (x := read_range(text)) is not None]
        tokens = [end for x in known for end in (x.lower, x.upper) if end is not None]
        bound = bound_type(type_)
        is_of_times = bound in _TIMES
        self._bounds: Domain
        decimals = 0
        if is_of_times:
            self._bounds = time_domain(tokens)
        else:
            self._bounds, decimals = number_domain(tokens)
        self._form = Form(decimals=decimals, is_date=bound == "date")
        self._brackets = Counter(x.brackets for x in known).most_common(1)[0][0] if known else "[)"
        self.is_closed = self._brackets == "[]"
        self._unit = (_DAY_US if self._form.is_date else _SECOND_US) if is_of_times else 10**decimals  # fmt: skip
        codes = [code for x in tokens if (code := self._bounds.code(x)) is not None]
        self.granule = self._unit if bound in _WHOLE else time_granule(codes) if is_of_times else 1  # fmt: skip
        self._lowers = [self._code(x.lower) for x in known]
        self._uppers = [self._code(x.upper) for x in known]
        self._lengths = [float(x) * self._unit for x in one.range_lengths if finite(x) is not None]
        self._empty_share = one.empty_share or 0.0

    def _code(self, token: str | None) -> int | None:
        return None if token is None else self._bounds.code(token)

    def draw(self, count: int, rng: np.random.Generator) -> Codes:
        """Make so many ranges, and return their numbers."""
        endless = _by_lot(count, self._uppers.count(None) / max(len(self._uppers), 1), rng)
        beginless = _by_lot(count, self._lowers.count(None) / max(len(self._lowers), 1), rng)
        lows = self._quantiles(sorted(x for x in self._lowers if x is not None), count, rng)
        lengths = self._quantiles(sorted(self._lengths), count, rng)
        highs = lows + np.maximum(rng.permutation(lengths), self.granule)
        # What has no beginning ends where such ranges do.
        ends = self._quantiles(sorted(x for x in self._uppers if x is not None), count, rng)
        highs[beginless] = ends[beginless]
        lows[beginless], highs[endless] = NULL, NO_END
        empty = _by_lot(count, self._empty_share, rng)
        lows[empty], highs[empty] = 1, 0
        self.lows, self.highs = lows, highs
        return np.arange(count, dtype=np.int64)

    def _quantiles(self, ascending: Sequence[float], count: int, rng: np.random.Generator) -> Codes:
        """Return so many values spread as a histogram with these bounds says, in order."""
        if not ascending:
            return np.zeros(count, np.int64)
        places = (np.arange(count) + rng.random(count)) / max(count, 1) * (len(ascending) - 1)
        found = np.interp(places, np.arange(len(ascending)), np.array(ascending, float))
        rounded: Codes = np.rint(found / self.granule).astype(np.int64) * self.granule
        return rounded

    def texts(self, codes: Codes, form: Form) -> list[str]:
        """Return ranges as the server reads them."""
        lows, highs = self.lows[codes], self.highs[codes]
        is_empty = lows > highs
        lowers = self._written(np.where(is_empty, 0, lows), NULL)
        uppers = self._written(np.where(is_empty, 0, highs), NO_END)
        found = [
            "empty" if empty else str(RangeText(low, high, self._brackets))
            for empty, low, high in zip(is_empty.tolist(), lowers, uppers, strict=True)
        ]
        if self._is_set:
            return ["{}" if x == "empty" else f"{{{x}}}" for x in found]
        return found

    def _written(self, codes: Codes, none: int) -> list[str | None]:
        known = np.where(codes == none, 0, codes)
        different, places = np.unique(known, return_inverse=True)
        texts = np.array(self._bounds.texts(different, self._form), object)[places]
        return [None if code == none else text for code, text in zip(codes.tolist(), texts, strict=True)]  # fmt: skip


def _by_lot(count: int, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    found = np.zeros(count, np.bool_)
    found[: round(share * count)] = True
    return rng.permutation(found)


def kept_apart(
    kind: str, definition: str, columns: tuple[str, ...]
) -> tuple[tuple[str, ...], str] | None:
    """Return the columns of which equal values make ranges of another column not overlap, and that column; None: nothing does.

    Args:
        kind, definition, columns: of a constraint, see `Constraint`.
    """
    if kind in "pu" and "WITHOUT OVERLAPS" in definition:
        return columns[:-1], columns[-1]
    parts = [(x.strip('"').replace('""', '"'), sign) for x, sign in _PART.findall(definition)]
    ranges = [x for x, sign in parts if sign == "&&"]
    if kind != "x" or len(ranges) != 1 or len(parts) != definition.count(" WITH "):
        return None
    return tuple(x for x, sign in parts if sign == "="), ranges[0]


def keep_apart(ranges: Ranges, codes: Codes, groups: NDArray[np.int64], rng: np.random.Generator) -> Codes:  # fmt: skip
    """Deal ranges out again so that those of one group follow each other; return the number of each row's.

    Each group has some of all times. What would overlap is moved behind the one before it, or before the one behind it where it
    would end later than all; the last of a group is the one without end, if any was.

    Args:
        codes: the number of each row's range; NULL: it has none.
        groups: of each row; negative: it is in none.
    """
    rows = np.flatnonzero((codes != NULL) & (groups >= 0))
    rows = rows[ranges.lows[codes[rows]] <= ranges.highs[codes[rows]]]
    if not len(rows):
        return codes
    by_group = rows[np.argsort(groups[rows], kind="stable")]
    _, begins, counts = np.unique(groups[by_group], return_index=True, return_counts=True)
    places = np.arange(len(rows)) - np.repeat(begins, counts)
    # The first range goes to the row whose place in its group comes first, the groups being of different size.
    order = np.argsort((places + rng.random(len(rows))) / np.repeat(counts, counts), kind="stable")
    own = codes[rows]
    ascending = own[np.argsort(ranges.lows[own], kind="stable")]
    dealt = codes.copy()
    dealt[by_group[order]] = ascending
    ends = ranges.highs[own]
    latest = int(ends[ends != NO_END].max(initial=NULL))
    for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
        chain = dealt[by_group[begin : begin + count]]
        _follow(ranges, chain)
        _end_by(ranges, chain, latest)
    return dealt


def _follow(ranges: Ranges, chain: Codes) -> None:
    """Let ranges follow each other."""
    lows, highs = ranges.lows[chain].tolist(), ranges.highs[chain].tolist()
    has_endless, before = False, NULL
    for at in range(len(chain)):
        is_last = at + 1 == len(chain)
        has_endless |= highs[at] == NO_END
        if highs[at] == NO_END and not is_last:
            highs[at] = max(lows[at + 1], lows[at] + ranges.granule)
        if lows[at] == NULL and at:
            lows[at] = highs[at] - ranges.granule
        if lows[at] < before:
            length = highs[at] - lows[at]
            lows[at] = before
            highs[at] = NO_END if highs[at] == NO_END else before + length
        if is_last and has_endless:
            highs[at] = NO_END
        # Ranges that have both their bounds must not meet.
        before = min(highs[at] + (ranges.granule if ranges.is_closed else 0), NO_END)
    ranges.lows[chain], ranges.highs[chain] = lows, highs


def _end_by(ranges: Ranges, chain: Codes, latest: int) -> None:
    """Let ranges that follow each other end by a time, the last ones beside each other, as far as there is room."""
    lows, highs = ranges.lows[chain].tolist(), ranges.highs[chain].tolist()
    gap = ranges.granule if ranges.is_closed else 0
    for at in reversed(range(len(chain))):
        if latest < highs[at] < NO_END:
            lows[at] = NULL if lows[at] == NULL else latest - (highs[at] - lows[at])
            highs[at] = latest
        latest = min(latest, lows[at] - gap)
    ranges.lows[chain], ranges.highs[chain] = lows, highs
