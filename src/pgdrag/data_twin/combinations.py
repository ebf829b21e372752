"""Which combinations of values are the rows of a key of several columns?

Statistics tell the values of each column, not which occur together. Three shapes are told apart by their numbers: all
combinations (warehouse, district), a list of lines beneath each (order, line number), and a sparse choice (user, item).
Pure arithmetic, on places: a combination is a row of an array with a place in the values of each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import prod

import numpy as np
from numpy.typing import NDArray

from pgdrag.data_twin.domains import Codes
from pgdrag.data_twin.spreads import (
    Counts,
    Spread,
    arranged,
    latent_strength,
    normal_scores,
    order_correlation,
)

Places = NDArray[np.int64]  # (rows, parts)

# Of all combinations: from here on they are drawn one by one, and doubles exchanged.
_SPARSE = 4
_ROUNDS = 50
_MOST_ORDERED = 4  # columns whose orders are all tried
_GOOD_ORDER = 0.12
_SAMPLE = 20_000
_BY_SAMPLE = 1.08  # as much more than there is may a value have by a sample of the rows


def distinct_combinations(
    counts: Sequence[Counts],
    rows: int,
    rng: np.random.Generator,
    correlations: Sequence[float | None] = (),
) -> tuple[Places, bool]:
    """Return up to so many different combinations.

    Args:
        counts: of each part, in how many rows each of its values is to be.
        correlations: of each part with the order of the table.

    Returns:
        One row a combination, fewer only where there are not as many; and whether they are in the order of the table.
    """
    sizes = [len(x) for x in counts]
    if len(sizes) > 1 and prod(sizes) > _SPARSE * rows and _lines(counts, prod(sizes)) is None:
        return _drawn(counts, rows, rng, correlations or [None] * len(counts)), True
    return _dense(counts, rows, rng), False


def _dense(counts: Sequence[Counts], rows: int, rng: np.random.Generator) -> Places:
    sizes = [len(x) for x in counts]
    total = prod(sizes)
    if rows >= total * 0.999 or total == 0:
        return _all(sizes)
    if len(sizes) == 1:
        return np.sort(rng.choice(sizes[0], rows, replace=False))[:, None]
    lines = _lines(counts, total)
    if lines is not None:
        return _beneath(counts, lines, rng)[:rows]
    if total <= _SPARSE * rows:
        return _of_all(counts, rows, rng)
    return _drawn(counts, rows, rng, [None] * len(counts))


def _all(sizes: Sequence[int]) -> Places:
    return np.stack([x.ravel() for x in np.indices(sizes)], axis=1).astype(np.int64)


def _lines(counts: Sequence[Counts], total: int) -> int | None:
    """Return the part whose values are lines beneath the combinations of the others.

    Its most frequent value is in nearly all of them, and others are in fewer.
    """
    found, best = None, 0.05
    for at, own in enumerate(counts):
        mean, most = float(own.mean()), int(own.max())
        variation = float(own.std()) / mean if mean else 0.0
        others = total // max(len(own), 1)
        if variation > best and 0.8 * others <= most <= _BY_SAMPLE * others:
            found, best = at, variation
    return found


def _beneath(counts: Sequence[Counts], lines: int, rng: np.random.Generator) -> Places:
    own = counts[lines]
    others = [x for at, x in enumerate(counts) if at != lines]
    above = _dense(others, int(own.max()), rng)
    above = above[rng.permutation(len(above))]
    own = np.minimum(own, len(above))
    # Those that have a line have all lines that are more frequent.
    which = np.concatenate([np.arange(number) for number in own.tolist()])
    line = np.repeat(np.arange(len(own)), own)
    return np.insert(above[which], lines, line, axis=1)


def _of_all(counts: Sequence[Counts], rows: int, rng: np.random.Generator) -> Places:
    """Return a choice of all combinations, by the weights of their parts."""
    every = _all([len(x) for x in counts])
    keys = rng.gumbel(size=len(every))
    for at, own in enumerate(counts):
        keys += np.log(np.maximum(own, 1e-9))[every[:, at]]
    return every[np.sort(np.argpartition(-keys, rows - 1)[:rows])]


def _drawn(
    counts: Sequence[Counts],
    rows: int,
    rng: np.random.Generator,
    correlations: Sequence[float | None],
) -> Places:
    """Return combinations whose parts are drawn by themselves; of equal ones all but one are exchanged with others."""
    sizes = [len(x) for x in counts]
    columns = []
    for own, correlation in zip(counts, correlations, strict=True):
        own = own if own.sum() == rows else np.bincount(np.sort(rng.choice(np.repeat(np.arange(len(own)), own), rows, replace=own.sum() < rows)), minlength=len(own))  # fmt: skip
        columns.append(arranged(Spread(np.arange(len(own)), own), correlation, rng))
    found = np.stack(columns, axis=1).astype(np.int64)
    for _ in range(_ROUNDS):
        double = _doubles(found, sizes)
        if not len(double):
            return found
        others = rng.integers(0, rows, len(double))
        # One part of each with the same of another row, which keeps how often each value occurs.
        part = int(rng.integers(0, found.shape[1]))
        for one, other in zip(double.tolist(), others.tolist(), strict=True):
            found[one, part], found[other, part] = found[other, part], found[one, part]
    return np.delete(found, _doubles(found, sizes), axis=0)


def _doubles(found: Places, sizes: Sequence[int]) -> Places:
    """Return which rows are equal to an earlier one."""
    if prod(sizes) < 2**62:
        _, first = np.unique(np.ravel_multi_index(tuple(found.T), tuple(sizes)), return_index=True)
    else:
        _, first = np.unique(found, axis=0, return_index=True)
    is_double = np.ones(len(found), bool)
    is_double[first] = False
    return np.flatnonzero(is_double)


def ordered(
    columns: Sequence[Codes], correlations: Sequence[float | None], rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return the order of the table in which its columns go together with their values as told.

    Tables are often in the order of some of their columns: each such order is tried, then one by lot.

    Args:
        columns: each with a value a row.
    """
    rows = len(columns[0])
    # Some rows tell as well as all; by lot: every tenth row would miss what comes back every five.
    seen = rng.permutation(rows)[:_SAMPLE]
    some = [x[seen] for x in columns]
    best, order = _GOOD_ORDER, None
    for which in permutations(range(min(len(columns), _MOST_ORDERED))):
        one = np.lexsort([some[at] for at in reversed(which)])
        error = _error([x[one] for x in some], correlations)
        if error < best:
            best, order = error, which
    if order is not None:
        return np.lexsort([columns[at] for at in reversed(order)])
    keys = np.zeros(rows)
    left = 1.0
    for column, correlation in zip(columns, correlations, strict=True):
        values, counts = np.unique(column, return_counts=True)
        strength = latent_strength(counts.astype(np.int64), correlation or 0.0)
        strength = float(np.clip(strength, -np.sqrt(max(left, 0)), np.sqrt(max(left, 0))))
        if abs(strength) < 0.02 or len(values) < 2:
            continue
        # Equal values by lot, so that they do not follow another column.
        ranks = np.empty(rows, np.int64)
        ranks[np.lexsort((rng.random(rows), column))] = np.arange(rows)
        keys += strength * normal_scores(ranks)
        left -= strength * strength
    return np.argsort(keys + np.sqrt(max(left, 0)) * rng.standard_normal(rows), kind="stable")


def _error(columns: Sequence[Codes], correlations: Sequence[float | None]) -> float:
    return max(
        (
            abs(order_correlation(column) - correlation)
            for column, correlation in zip(columns, correlations, strict=True)
            if correlation is not None
        ),
        default=1.0,
    )
