"""How do rows spread over the values of a column, so that its statistics come out as they were?

Pure arithmetic: numbers of values (see `domains.py`) and of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdrag.data_twin.domains import NULL, Codes, Domain, Form

Counts = NDArray[np.int64]

_COMMON_LISTED = 90  # ANALYZE lists up to 100, unless told otherwise
_MANY_ROWS = 20  # of a value: from here on ANALYZE tells frequencies apart


@dataclass(frozen=True)
class Spread:
    """The values of a column, ascending, and how many rows have each.

    Attributes:
        nulls: rows without a value.
    """

    codes: Codes
    counts: Counts
    nulls: int = 0

    @property
    def rows(self) -> int:
        """Rows in all."""
        return int(self.counts.sum()) + self.nulls

    def repeated(self) -> Codes:
        """Return the value of each row, ascending, without NULLs."""
        return np.repeat(self.codes, self.counts)


@dataclass(frozen=True)
class Wanted:
    """What the statistics of a column ask for, in numbers.

    Attributes:
        rows: of the table.
        nulls: rows without a value.
        distinct: how many values.
        common, common_shares: values that are told one by one, and the share of all rows that has each.
        bounds: of the histogram: between each two of them as many rows; ascending, some may be equal.
        is_unique: no two rows have the same.
        is_even: values of one stretch have the same number of rows, as in a key of several columns.
    """

    rows: int
    nulls: int
    distinct: int
    common: Sequence[int] = ()
    common_shares: Sequence[float] = ()
    bounds: Sequence[int] = ()
    is_unique: bool = False
    is_even: bool = False


def spread(
    wanted: Wanted,
    domain: Domain,
    form: Form,
    rng: np.random.Generator,
    source: Codes | None = None,
    *,
    is_strict: bool = True,
) -> Spread:
    """Return values and rows of each.

    Args:
        form: how the column writes its values; different values must have different texts.
        source: values to take, such as those of the key that a foreign key leads to; None: any.
        is_strict: there are no others.
    """
    if source is not None and not is_strict:
        wanted_values = wanted.rows if wanted.is_unique else wanted.distinct
        if wanted.bounds:
            source = source[(source >= min(wanted.bounds)) & (source <= max(wanted.bounds))]
        if len(source) < 0.9 * wanted_values:
            source = None
    filled = max(wanted.rows - wanted.nulls, 0)
    if not filled:
        return Spread(np.empty(0, np.int64), np.empty(0, np.int64), wanted.rows)
    if wanted.is_unique:
        codes = _values(wanted.bounds, filled, domain, form, rng, source, np.empty(0, np.int64))
        codes = _exactly(codes, filled, domain, form, rng, source)
        return Spread(codes, np.ones(len(codes), np.int64), wanted.rows - len(codes))
    common, counts = _common(wanted, filled, source if is_strict else None)
    left = filled - int(counts.sum())
    distinct = min(max(wanted.distinct - len(common), 0 if len(common) else 1), left)
    others = _values(wanted.bounds, distinct, domain, form, rng, source, common)
    if left and not len(others):
        if not len(common):
            common, counts = domain.beyond(0, 1, form)[:1], np.zeros(1, np.int64)
        counts = counts + _shares_of(left, counts + 1)
    # With room in the list of common values no other one stood out: they are as frequent as each other.
    if len(wanted.common) < _COMMON_LISTED and left > _MANY_ROWS * len(others) > 0:
        other_counts = _shares_of(left, np.ones(len(others)))
    else:
        other_counts = _counts(others, wanted, left, rng)
    codes = np.concatenate((common, others))
    order = np.argsort(codes, kind="stable")
    return Spread(codes[order], np.concatenate((counts, other_counts))[order], wanted.nulls)


def _common(wanted: Wanted, filled: int, source: Codes | None) -> tuple[Codes, Counts]:
    codes = np.array(wanted.common, np.int64)
    shares = np.array(wanted.common_shares, float)
    codes, first = np.unique(codes, return_index=True)
    shares = shares[first] if len(first) else shares[:0]
    if source is not None and len(codes):
        is_there = np.isin(codes, source)
        codes, shares = codes[is_there], shares[is_there]
    counts = np.maximum(np.rint(shares * wanted.rows), 1).astype(np.int64)
    if counts.sum() > filled:
        keep = np.argsort(-shares, kind="stable")[:filled]
        codes, shares = codes[np.sort(keep)], shares[np.sort(keep)]
        counts = _shares_of(filled, shares)
    return codes, counts


def _shares_of(total: int, weights: NDArray[np.float64] | Counts) -> Counts:
    """Return whole numbers that add up to a total and are as near to the weights as they can."""
    exact = total * np.asarray(weights, float) / max(float(np.sum(weights)), 1e-300)
    found = np.floor(exact).astype(np.int64)
    missing = total - int(found.sum())
    found[np.argsort(found - exact, kind="stable")[:missing]] += 1
    return found


def _values(
    bounds: Sequence[int],
    count: int,
    domain: Domain,
    form: Form,
    rng: np.random.Generator,
    source: Codes | None,
    but: Codes,
) -> Codes:
    """Return up to so many values within the bounds, as many in each stretch, without those in `but`."""
    if count <= 0:
        return np.empty(0, np.int64)
    if source is not None:
        return _chosen(source, bounds, count, rng, but)
    edges = np.unique(np.array(bounds, np.int64))
    if not len(edges):
        return _fresh(count, domain, form, but)
    edges = edges[~np.isin(edges, but)] if len(but) else edges
    if count <= len(edges):
        return edges[np.linspace(0, len(edges) - 1, count).astype(np.int64)]
    stretches = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    asked, together = count - len(edges), edges
    while len(together) < count and stretches:
        each, more = divmod(asked, len(stretches))
        parts = [edges]
        for at, (low, high) in enumerate(stretches):
            parts.append(domain.between(low, high, min(each + (at < more), count), form))
        found = np.unique(np.concatenate(parts))
        found = found[~np.isin(found, but)] if len(but) else found
        if len(found) <= len(together) and asked > 2 * count:
            break  # whole numbers between two bounds come to an end
        together, asked = found, 2 * asked
    if len(together) <= count:
        return together
    # Those that were one too many, from all over.
    inner = np.setdiff1d(together, edges, assume_unique=True)
    kept = np.sort(rng.choice(inner, count - len(edges), replace=False))
    return np.union1d(edges, kept)


def _fresh(count: int, domain: Domain, form: Form, but: Codes) -> Codes:
    """Return values of which nothing is known."""
    last = int(but.max()) if len(but) else 0
    return domain.beyond(last, count, form)


def _chosen(
    source: Codes, bounds: Sequence[int], count: int, rng: np.random.Generator, but: Codes
) -> Codes:
    """Return so many of the values that there are, as many in each stretch as can be."""
    there = source[~np.isin(source, but)] if len(but) else source
    if count >= len(there):
        return there
    edges = np.unique(np.array(bounds, np.int64))
    if len(edges) < 2:
        return np.sort(rng.choice(there, count, replace=False))
    places = np.clip(np.searchsorted(edges, there, side="right") - 1, -1, len(edges) - 1)
    places[there == edges[-1]] = len(edges) - 2
    is_inside = (places >= 0) & (places < len(edges) - 1)
    room = np.bincount(places[is_inside], minlength=len(edges) - 1)
    takes = _levelled(room, count)
    # By lot within each stretch: the first ones in the order of a lot.
    lots = rng.random(len(there))
    order = np.lexsort((lots, places))
    ordered = places[order]
    starts = np.searchsorted(ordered, np.arange(len(edges) - 1))
    rank = np.arange(len(there)) - starts[np.clip(ordered, 0, len(edges) - 2)]
    is_taken = (ordered >= 0) & (ordered < len(edges) - 1)
    is_taken &= rank < takes[np.clip(ordered, 0, len(edges) - 2)]
    found = np.sort(there[order[is_taken]])
    if len(found) < count:  # the bounds are narrower than the values they need
        rest = np.setdiff1d(there, found, assume_unique=True)
        found = np.union1d(found, rng.choice(rest, count - len(found), replace=False))
    return found


def _levelled(room: Counts, count: int) -> Counts:
    """Return how many of each are taken, as equal as the room in each allows."""
    takes = np.zeros(len(room), np.int64)
    left = int(min(count, room.sum()))
    while left > 0:
        open_ = np.flatnonzero(takes < room)
        each = max(left // len(open_), 1)
        for at in open_[: left if each == 1 and left < len(open_) else None]:
            more = int(min(each, room[at] - takes[at], left))
            takes[at] += more
            left -= more
    return takes


def _exactly(
    codes: Codes,
    count: int,
    domain: Domain,
    form: Form,
    rng: np.random.Generator,
    source: Codes | None,
) -> Codes:
    """Return so many values: some by lot where there are more, further ones where there are fewer."""
    if len(codes) > count:
        return np.sort(rng.choice(codes, count, replace=False))
    if len(codes) < count and source is None:
        last = int(codes[-1]) if len(codes) else 0
        return np.concatenate((codes, domain.beyond(last, count - len(codes), form)))
    return codes


def _counts(values: Codes, wanted: Wanted, rows: int, rng: np.random.Generator) -> Counts:
    """Return how many rows have each value: one at least, and as many in each stretch of the histogram."""
    if not len(values) or rows <= 0:
        return np.zeros(len(values), np.int64)
    bounds = np.array(wanted.bounds, np.int64)
    edges, repeats = np.unique(bounds, return_counts=True)
    counts = np.ones(len(values), np.int64)
    left = rows - len(values)
    if len(edges) < 2:
        return counts + _lots(left, len(values), rng, is_even=wanted.is_even)
    places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    numbers = np.bincount(places, minlength=len(edges) - 1)
    # A bound that is there several times has whole stretches to itself.
    own = {int(code): int(times) - 1 for code, times in zip(edges, repeats, strict=True) if times > 1}  # fmt: skip
    stretches = len(bounds) - 1
    for code, times in own.items():
        at = int(np.searchsorted(values, code))
        if at < len(values) and values[at] == code:
            more = int(min(round(rows * times / stretches), left))
            counts[at] += more
            left -= more
    target = np.where(numbers > 0, rows / stretches - numbers, 0.0).clip(min=0)
    each = _shares_of(left, target if target.sum() > 0 else numbers)
    for place, number in enumerate(each.tolist()):
        inside = places == place
        if number and inside.any():
            counts[inside] += _lots(number, int(inside.sum()), rng, is_even=wanted.is_even)
    return counts


def _lots(rows: int, values: int, rng: np.random.Generator, *, is_even: bool) -> Counts:
    """Return how many rows more than one each value has: equally many, or as many as by lot, where each has one."""
    if rows <= 0:
        return np.zeros(values, np.int64)
    if is_even:
        return _shares_of(rows, np.ones(values))
    found = _once_or_more(1 + rows / values, values, rng) - 1
    surplus = int(found.sum() - rows)
    # A few more or fewer, so that they add up.
    while surplus > 0:
        some = np.flatnonzero(found > 0)
        less = rng.choice(some, min(surplus, len(some)), replace=False)
        found[less] -= 1
        surplus = int(found.sum() - rows)
    return found + np.bincount(rng.integers(0, values, -surplus), minlength=values)


def _once_or_more(mean: float, count: int, rng: np.random.Generator) -> Counts:
    """Return numbers by a Poisson distribution without 0."""
    rate = mean
    for _ in range(30):
        rate = mean * -math.expm1(-rate)
    if rate < 0.5:
        return 1 + rng.poisson(max(mean - 1, 0), count)
    found = rng.poisson(rate, count)
    while len(zeros := np.flatnonzero(found == 0)):
        found[zeros] = rng.poisson(rate, len(zeros))
    return found.astype(np.int64)


# --- the order of rows ----------------------------------------------------------------------

_SAMPLE = 4000  # rows that are enough to see how values and places go together
_SORTED = 0.995


def arranged(spread: Spread, correlation: float | None, rng: np.random.Generator) -> Codes:
    """Return the value of each row in the table's order, NULLs included, so that order and values go together as told.

    Args:
        correlation: as ANALYZE has it: 1: the table is in the order of the values.
    """
    values = spread.repeated()
    count = len(values)
    if correlation is not None and abs(correlation) >= _SORTED:
        placed = values if correlation > 0 else values[::-1]
    else:
        strength = latent_strength(spread.counts, correlation or 0.0)
        placed = values[np.argsort(latent(count, strength, rng), kind="stable")]
    if not spread.nulls:
        return placed
    found = np.full(count + spread.nulls, NULL, np.int64)
    found[np.sort(rng.choice(len(found), count, replace=False))] = placed
    return found


def latent(count: int, strength: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a key for each of so many ascending values: sorted by it, they are as mixed as the strength says."""
    noise = rng.standard_normal(count)
    found: NDArray[np.float64] = strength * _scores(count) + (1 - strength**2) ** 0.5 * noise
    return found


def _scores(count: int) -> NDArray[np.float64]:
    return normal_scores(np.arange(count))


def normal_scores(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return about the quantiles of a normal distribution for ranks from 0 on."""
    share = (ranks + 0.5) / max(len(ranks), 1)
    scores: NDArray[np.float64] = np.log(share / (1 - share)) * 0.5513
    return scores


def latent_strength(counts: Counts, correlation: float) -> float:
    """Return how strongly values must go with places for ANALYZE to find a correlation.

    Equal values are counted in the order of the table, so that few values seem to be in order where they are not.
    """
    rng = np.random.default_rng(5)
    total = int(counts.sum())
    if total < 2 or len(counts) < 2:
        return 0.0
    places = np.linspace(0, total - 1, min(total, _SAMPLE)).astype(np.int64)
    values = np.searchsorted(np.cumsum(counts), places, side="right")
    noise = rng.standard_normal(len(values))
    scores = _scores(len(values))
    low, high = -1.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        keys = middle * scores + np.sqrt(1 - middle * middle) * noise
        if order_correlation(values[np.argsort(keys, kind="stable")]) < correlation:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def order_correlation(values: Codes) -> float:
    """Return the correlation of values, in the order of the table, with their places, as ANALYZE counts it."""
    count = len(values)
    if count < 2:
        return 1.0
    ranks = np.empty(count)
    ranks[np.argsort(values, kind="stable")] = np.arange(count)
    return float(np.corrcoef(np.arange(count), ranks)[0, 1])
