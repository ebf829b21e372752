"""How long do holds last if the end of some was not seen, and are two sets of holds the same?

A hold without an end has lasted at least as long as it was seen (right censoring): the product-limit
estimate (Kaplan and Meier 1958).

Of holds that were sampled only the two samples are known between which they ended. The ages at which they
are met count, too: where none is older than a second, none lasts two. The estimate has the highest
likelihood (Turnbull 1976: interval-censored and truncated), by expectation-maximization over lengths a few
per cent apart. Where every end is known it is the product-limit estimate. (SciPy has no estimate for
interval censoring.)

The distance of two sets is Wasserstein's on the logarithms of the lengths: the factor by which a hold must be
made longer or shorter, on average, to turn one distribution into the other. Kolmogorov and Smirnov's is given
beside it but does not decide: between two sharp modes a hundredth apart it is 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
MOST_STEPS = 40
TOLERANCE = 1.25  # lengths that differ by less than this factor, on average, are alike
_RESAMPLES = 400
_SHARES = (0.1, 0.5, 0.9)
_RATIO = 1.03  # from one length to the next, of sampled holds
_ITERATIONS = 400
_LEAST_SHARE = 1e-4  # smaller shares are left over from the iterations


@dataclass(frozen=True)
class SeenHold:
    """One hold, as it was observed.

    Attributes:
        length_s: from its beginning to its end, or to when it was last seen; over 0.
        has_ended: its end was seen.
    """

    length_s: float
    has_ended: bool = True

    def __post_init__(self) -> None:
        assert self.length_s > 0, f"{self.length_s} s"


@dataclass(frozen=True)
class LengthCurve:
    """The share of holds that last longer than a length: a step down at each.

    Attributes:
        lengths_s: ascending, positive.
        longer: the share that lasts longer than the length at the same place; descending, the last 0.
        open_share: share of holds without an end: they last at least as long as the last length, and
            are taken to end there (Efron 1967).
    """

    lengths_s: tuple[float, ...]
    longer: tuple[float, ...]
    open_share: float = 0.0

    def __post_init__(self) -> None:
        assert self.lengths_s, "a curve has a step"
        assert len(self.lengths_s) == len(self.longer), "a share for each length"
        assert self.lengths_s[0] > 0, "lengths are positive"
        assert all(a < b for a, b in pairwise(self.lengths_s)), "lengths ascend"
        assert all(a > b for a, b in pairwise((1.0, *self.longer))), "shares descend"
        assert self.longer[-1] == 0, "in the end every hold has ended"

    @classmethod
    def of_shares(
        cls, lengths_s: ArrayLike, shares: ArrayLike, open_share: float = 0.0
    ) -> LengthCurve:
        """Return the curve of ascending lengths with the share of holds that last as long; none is 0."""
        longer = 1 - np.cumsum(shares)
        longer[-1] = 0.0
        return cls(tuple(np.asarray(lengths_s).tolist()), tuple(longer.tolist()), open_share)

    @property
    def shares(self) -> Array:
        """The share of holds that last as long as each length."""
        return -np.diff((1.0, *self.longer))

    def steps(self) -> Iterator[tuple[float, float]]:
        """Yield each length with the share of holds that last as long."""
        return zip(self.lengths_s, self.shares.tolist(), strict=True)

    def quantile(self, share: float) -> float:
        """Return the least length that at least `share` of the holds do not exceed, in seconds."""
        at = next(i for i, longer in enumerate(self.longer) if 1 - longer >= share - 1e-12)
        return self.lengths_s[at]

    def longer_than(self, length_s: float) -> float:
        """Return the share of holds that last longer."""
        at = int(np.searchsorted(self.lengths_s, length_s, side="right"))
        return (1.0, *self.longer)[at]

    def capped(self, longest_s: float) -> LengthCurve:
        """Return the curve of the same holds, had each ended after `longest_s` at the latest."""
        kept = int(np.searchsorted(self.lengths_s, longest_s))
        if kept == len(self.lengths_s):
            return self
        return LengthCurve((*self.lengths_s[:kept], longest_s), (*self.longer[:kept], 0.0))

    def thinned(self, most: int = MOST_STEPS) -> LengthCurve:
        """Return a curve with a limited number of steps; neighbours are merged at their geometric mean.

        The longest stays as it is: it matters most.
        """
        if len(self.lengths_s) <= most:
            return self
        *others, longest = self.steps()
        found: list[tuple[float, float]] = []
        near: list[tuple[float, float]] = []
        for at, step in enumerate(others, start=1):
            near.append(step)
            share = sum(mass for _, mass in near)
            if share >= 1 / (most - 2) or at == len(others):
                lengths, masses = np.array(near).T
                mean_s = float(np.exp(np.average(np.log(lengths), weights=masses)))
                # Rounding never takes the mean beyond the lengths.
                found.append((float(np.clip(mean_s, lengths[0], lengths[-1])), share))
                near = []
        lengths_s, shares = zip(*found, longest, strict=True)
        return LengthCurve.of_shares(lengths_s, shares, self.open_share)


def product_limit(holds: Sequence[SeenHold]) -> LengthCurve | None:
    """Estimate how long holds last; None without any."""
    if not holds:
        return None
    lengths = np.array([x.length_s for x in holds])
    has_ended = np.array([x.has_ended for x in holds])
    found = scipy.stats.ecdf(scipy.stats.CensoredData.right_censored(lengths, ~has_ended)).sf
    open_share = float(found.probabilities[-1])
    open_share = open_share if open_share > 1e-12 else 0.0
    shares = -np.diff(found.probabilities, prepend=1.0)
    shares[-1] += open_share  # what is left is taken to end with the longest
    kept = shares > 1e-12
    return LengthCurve.of_shares(found.quantiles[kept], shares[kept], open_share)


@dataclass(frozen=True)
class BoundedHold:
    """One hold, as seen in samples.

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
    longest_s = max(x.low_s if math.isinf(x.high_s) else x.high_s for x in holds)
    cells = max(math.ceil(math.log(max(longest_s / shortest_s, 1.0)) / math.log(_RATIO)), 1)
    edges: Array = shortest_s * _RATIO ** np.arange(cells + 1.0)
    edges[-1] = max(edges[-1], longest_s)
    middles = _middles(holds, edges)
    met: Array = np.minimum(middles / every_s, 1.0)
    rows = Counter(_row(hold, edges) for hold in holds)
    firsts, lasts, entries = (np.array(x) for x in zip(*rows, strict=True))
    counts = np.array(list(rows.values()), dtype=float)
    shares = _shares(firsts, lasts, entries, counts, met)
    counted, total = shares[1:].copy(), float(shares[1:].sum())
    if total < _LEAST_SHARE:
        return LengthEstimate(None, 0.0, 1.0)
    number = total * float(counts[entries < 0].sum()) / float(met @ shares)
    met_share = float(met[1:] @ counted) / total
    # What lasts beyond the last end that was seen counts as the longest.
    ends = [x.high_s for x in holds if not math.isinf(x.high_s)]
    seen_until = _cell(max(ends), edges) if ends else 0
    counted /= total
    open_share = float(counted[seen_until:].sum())
    counted[seen_until:] = 0.0
    counted[-1] += open_share
    kept = counted > min(_LEAST_SHARE, float(counted.max()) / 2)
    lengths_s, counted = middles[1:][kept], counted[kept]
    curve = LengthCurve.of_shares(lengths_s, counted / counted.sum(), open_share)
    return LengthEstimate(curve, number, met_share)


def _middles(holds: Sequence[BoundedHold], edges: Array) -> Array:
    """Return the length that represents each cell: the mean of those known exactly, if there are any."""
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


@dataclass(frozen=True)
class LengthDistance:
    """How far the lengths of holds are from a distribution.

    Attributes:
        factor: the mean factor between the two, 1 or more.
        low, high: its interval, by resampling the holds.
        chance: the factor that 95 in 100 perfect repetitions of as many holds stay below.
        largest_gap: the largest difference of the two curves (Kolmogorov–Smirnov), 0 to 1.
        holds: how many there were.
        quantiles: of shares 0.1, 0.5 and 0.9: the length in the distribution and in the holds, s.
    """

    factor: float
    low: float
    high: float
    chance: float
    largest_gap: float
    holds: int
    quantiles: tuple[tuple[float, float, float], ...]

    @property
    def is_alike(self) -> bool:
        """Whether the factor is within the tolerance, or within chance."""
        return self.factor <= max(TOLERANCE, self.chance)


def log_wasserstein(first: LengthCurve, second: LengthCurve) -> float:
    """Return the mean distance of the logarithms of two curves' lengths, 0 or more."""
    logs = np.log(first.lengths_s), np.log(second.lengths_s)
    return float(scipy.stats.wasserstein_distance(*logs, first.shares, second.shares))


def kolmogorov_smirnov(first: LengthCurve, second: LengthCurve) -> float:
    """Return the largest difference of two curves, 0 to 1."""
    lengths_s = (*first.lengths_s, *second.lengths_s)
    return max(abs(first.longer_than(x) - second.longer_than(x)) for x in lengths_s)


def distance(
    wanted: LengthCurve, holds: Sequence[SeenHold], *, longest_s: float, seed: int
) -> LengthDistance:
    """Return how far holds are from the distribution that they were to repeat.

    Args:
        holds: at least one.
        longest_s: no hold could last longer, such as the length of the measured window; both are
            compared as if each hold ended there.
        seed: of the resampling behind the interval and behind chance.
    """
    assert holds, "a distance needs a hold"
    rng = np.random.default_rng(seed)
    wanted = wanted.capped(longest_s)
    found = _capped(holds, longest_s)
    number = len(holds)
    again = [
        log_wasserstein(wanted, _capped([holds[i] for i in chosen], longest_s))
        for chosen in rng.integers(number, size=(_RESAMPLES, number))
    ]
    logs, shares = np.log(wanted.lengths_s), wanted.shares
    by_chance = [
        scipy.stats.wasserstein_distance(logs, drawn, shares)
        for drawn in rng.choice(logs, size=(_RESAMPLES, number), p=shares / shares.sum())
    ]
    low, high = np.quantile(again, [0.025, 0.975])
    center = log_wasserstein(wanted, found)
    return LengthDistance(
        factor=math.exp(center),
        low=math.exp(min(float(low), center)),
        high=math.exp(max(float(high), center)),
        chance=math.exp(float(np.quantile(by_chance, 0.95))),
        largest_gap=kolmogorov_smirnov(wanted, found),
        holds=number,
        quantiles=tuple((x, wanted.quantile(x), found.quantile(x)) for x in _SHARES),
    )


def _capped(holds: Sequence[SeenHold], longest_s: float) -> LengthCurve:
    found = product_limit(holds)
    assert found is not None, "there is a hold"
    return found.capped(longest_s)
