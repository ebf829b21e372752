"""How long do holds last, if of many only the two samples between which they ended are known?

The ages at which holds are met count, too: where none is older than a second, none lasts two. The estimate
has the highest likelihood (Turnbull 1976: interval-censored and truncated), by expectation-maximization
over lengths a few per cent apart. Where every end is known it is the product-limit estimate. (SciPy has
no estimate for interval censoring.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdrag.stats.product_limit import LengthCurve

Array = NDArray[np.float64]
_RATIO = 1.03  # from one length to the next
_ITERATIONS = 400
_LEAST_SHARE = 1e-4  # smaller shares are left over from the iterations


@dataclass(frozen=True)
class BoundedHold:
    """One hold as far as samples show.

    Attributes:
        low_s, high_s: it lasted so long at least and at most; inf: its end was not seen; the two are
            equal where the end is known.
        entry_s: how old it was before any sample could meet it; None: it began between two samples, and
            the longer it lasted, the more likely it was met.
    """

    low_s: float
    high_s: float
    entry_s: float | None = None


@dataclass(frozen=True)
class LengthEstimate:
    """How long holds last that are longer than the shortest that counts.

    Attributes:
        curve: None without any.
        number: how many of those began between samples, met or not.
        met_share: the share of these that samples met.
    """

    curve: LengthCurve | None
    number: float
    met_share: float


def estimate_lengths(
    holds: Sequence[BoundedHold], *, every_s: float, shortest_s: float
) -> LengthEstimate:
    """Estimate how long holds last, from samples that are `every_s` apart.

    Args:
        holds: all that were met.
        every_s: from one sample to the next.
        shortest_s: shorter ones are estimated too, and left out.
    """
    assert 0 < shortest_s < every_s, f"{shortest_s} and {every_s} s"
    if not holds:
        return LengthEstimate(None, 0.0, 1.0)
    edges = _edges(holds, shortest_s)
    middles = _middles(holds, edges)
    met: Array = np.minimum(middles / every_s, 1.0)
    rows = Counter(_row(hold, edges) for hold in holds)
    firsts, lasts, entries = (np.array(x) for x in zip(*rows, strict=True))
    counts = np.array(list(rows.values()), dtype=float)
    shares = _shares(firsts, lasts, entries, counts, met)
    counted, total = shares[1:], float(shares[1:].sum())
    if total < _LEAST_SHARE:
        return LengthEstimate(None, 0.0, 1.0)
    number = total * float(counts[entries < 0].sum()) / float(met @ shares)
    ends = [x.high_s for x in holds if not math.isinf(x.high_s)]
    seen_until = _cell(max(ends), edges) if ends else 0
    curve = _curve(counted / total, middles[1:], seen_until)
    return LengthEstimate(curve, number, float(met[1:] @ counted) / total)


def _edges(holds: Sequence[BoundedHold], shortest_s: float) -> Array:
    longest_s = max(x.low_s if math.isinf(x.high_s) else x.high_s for x in holds)
    cells = max(math.ceil(math.log(max(longest_s / shortest_s, 1.0)) / math.log(_RATIO)), 1)
    found: Array = shortest_s * _RATIO ** np.arange(cells + 1.0)
    found[-1] = max(found[-1], longest_s)
    return found


def _middles(holds: Sequence[BoundedHold], edges: Array) -> Array:
    """Return the length that each cell stands for: the mean of those known exactly, where there are any."""
    # The first cell has all that are too short to count.
    found: Array = np.concatenate([edges[:1] / 2, np.sqrt(edges[:-1] * edges[1:])])
    longest_s = max(x.low_s for x in holds)
    exact: dict[int, list[float]] = {}
    for hold in holds:
        is_longest = math.isinf(hold.high_s) and hold.low_s == longest_s
        if hold.low_s > edges[0] and (hold.low_s == hold.high_s or is_longest):
            exact.setdefault(_cell(hold.low_s, edges), []).append(math.log(hold.low_s))
    for cell, logs in exact.items():
        found[cell] = math.exp(float(np.mean(logs)))
    return found


def _cell(length_s: float, edges: Array) -> int:
    return min(int(np.searchsorted(edges, length_s, side="left")), len(edges) - 1)


def _row(hold: BoundedHold, edges: Array) -> tuple[int, int, int]:
    """Return the first and the last cell that a hold's length may lie in, and that of its entry or -1."""
    first = _cell(hold.low_s, edges)
    if math.isinf(hold.high_s):  # it lasts longer than those that ended when it was last seen
        first = min(first + 1, len(edges) - 1)
    last = max(_cell(hold.high_s, edges), first)
    return first, last, -1 if hold.entry_s is None else min(_cell(hold.entry_s, edges), first)


def _shares(
    firsts: NDArray[np.int_],
    lasts: NDArray[np.int_],
    entries: NDArray[np.int_],
    counts: Array,
    met: Array,
) -> Array:
    """Return the share of holds in each cell, by expectation-maximization."""
    cells = np.arange(len(met))
    may_be = (cells >= firsts[:, None]) & (cells <= lasts[:, None])
    is_begun = entries < 0
    could_meet = np.where(is_begun[:, None], met, (cells >= entries[:, None]).astype(float))
    shares = np.full(len(met), 1 / len(met))
    for _ in range(_ITERATIONS):
        weighed = may_be * shares
        seen = (counts / weighed.sum(axis=1)) @ weighed
        # How many like it were missed for each that was met.
        chance = could_meet @ shares
        missed = ((counts / chance) @ (1 - could_meet)) * shares
        shares = seen + missed
        shares /= shares.sum()
    return shares


def _curve(shares: Array, middles: Array, seen_until: int) -> LengthCurve:
    """Return the curve; what lasts beyond the last end that was seen counts as the longest."""
    shares = shares.copy()
    open_share = float(shares[seen_until:].sum())
    shares[seen_until:] = 0.0
    shares[-1] += open_share
    kept = shares > min(_LEAST_SHARE, float(shares.max()) / 2)
    return LengthCurve.of_shares(middles[kept], shares[kept] / shares[kept].sum(), open_share)
