"""Which curve does the rate of one trial follow, and how sure is that?

Neighbouring seconds resemble each other: what is left beside the curve is taken for a first-order
autoregression of unknown memory. All members of a family are tried against all memories; level and
size of the noise are integrated out, and what remains is how likely each member is. An interval is
what holds 95 % of that, so that it is as wide as the memory is uncertain: a few seconds that all
lie high may be a trend, or a noise that lasts. A stall of a second or two is no part of that noise.

Source: Hampel 1974 (distances from a median); Box and Tiao 1973 (regression with autocorrelated errors, chapter 2); Hurvich and Tsai 1989
(the corrected information criterion); Burnham and Anderson 2002 (weights of models, chapter 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pgdrag.stats.curve_shapes import FAMILIES, Box, Family, Model, Shapes, Values

CONFIDENCE = 0.95
INTERVALS_MIN = 10  # fewer cannot tell a trend from a memory

_MEMORIES: Values = np.linspace(0.0, 0.99, 15)
_WIDEST = 3.0  # ranges of the log rates: no change beyond is tried
_FAR = 14.0  # a member that is less likely by this in its logarithm is left out
_ROUNDS = 3
_NEIGHBOURS = 3  # on either side
_UNUSUAL = 3.5  # standard deviations, as the median distance tells them


@dataclass(frozen=True)
class Stretch:
    """A part of a window, in intervals of nearly one length.

    Attributes:
        begin_s, end_s: seconds of the window.
        times_s: the middle of each interval, in seconds of the window.
        rates_per_s: all above 0.
    """

    begin_s: float
    end_s: float
    times_s: tuple[float, ...]
    rates_per_s: tuple[float, ...]

    @property
    def length_s(self) -> float:
        """How long it is."""
        return self.end_s - self.begin_s

    def place(self, t_s: float) -> float:
        """Return where a moment lies, from 0 at the beginning to 1 at the end."""
        return (t_s - self.begin_s) / self.length_s


@dataclass(frozen=True)
class FamilyFit:
    """How likely each member of a family is.

    Attributes:
        weights: sum to 1.
        levels, level_variances: of each member: log rate at the beginning, and its variance.
        aicc: of the likeliest member; lower is better.
    """

    shapes: Shapes
    weights: Values
    levels: Values
    level_variances: Values
    best: int
    aicc: float

    @property
    def name(self) -> Model:
        """Of the family."""
        return self.shapes.family.name


@dataclass(frozen=True)
class Estimate:
    """A number of one trial, on the scale on which trials are averaged."""

    low: float
    center: float
    high: float

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class TrialFit:
    """One trial's stretch with the families that were fitted to it."""

    stretch: Stretch
    families: tuple[FamilyFit, ...]

    @property
    def line(self) -> FamilyFit:
        """The family that asks for nothing but a trend."""
        return self.families[0]

    def estimate(
        self, of: Callable[[Shapes], Values], shares: Sequence[float], chosen: Model
    ) -> Estimate:
        """Return a number that depends on the shape alone, over families with these shares.

        The center is that of the likeliest member of the family chosen.
        """
        values = np.concatenate([of(one.shapes) for one in self.families])
        parts = [share * one.weights for share, one in zip(shares, self.families, strict=True)]
        weights = np.concatenate(parts)
        best = next(one for one in self.families if one.name == chosen)
        center = float(of(best.shapes.only(best.best))[0])
        low, high = quantiles(values, weights, CONFIDENCE)
        return Estimate(min(low, center), center, max(high, center))

    def change(self, shares: Sequence[float], chosen: Model) -> Estimate:
        """Return the logarithm of the rate at the end over that at the beginning."""
        return self.estimate(lambda shapes: shapes.changes, shares, chosen)

    def log_rate(self, t_s: float, shares: Sequence[float], chosen: Model) -> Estimate:
        """Return the logarithm of the fitted rate at a moment of the window."""
        place = np.array([self.stretch.place(t_s)])
        means, seconds, used = 0.0, 0.0, 0.0
        for share, one in zip(shares, self.families, strict=True):
            if share > 0 and one.weights.size:
                values = one.levels + one.shapes.at(place)[:, 0]
                weights = share * one.weights
                means += float(weights @ values)
                seconds += float(weights @ (values**2 + one.level_variances))
                used += share
        best = next(one for one in self.families if one.name == chosen)
        center = float(best.levels[best.best] + best.shapes.only(best.best).at(place)[0, 0])
        mean = means / used
        half = 2 * math.sqrt(max(seconds / used - mean**2, 0.0))
        return Estimate(min(mean - half, center), center, max(mean + half, center))


def fit_stretch(stretch: Stretch, families: Sequence[Family] = FAMILIES) -> TrialFit | None:
    """Fit families to a stretch; None where its intervals are too few to tell anything."""
    if len(stretch.times_s) < INTERVALS_MIN:
        return None
    return TrialFit(stretch, tuple(_fit_family(family, stretch) for family in families))


def without_stalls(logs: Values) -> Values:
    """Return log rates in which no interval lies far from its neighbours.

    One second's stall says nothing of a trend, but by its size would drown it. What lies further from the
    median of seven neighbouring intervals than intervals usually do is taken to lie just so far. A steady
    fall or rise is its own median, however steep; the first and last three intervals are left as they are.
    """
    if len(logs) < 2 * _NEIGHBOURS + 1:
        return logs
    windows = np.lib.stride_tricks.sliding_window_view(logs, 2 * _NEIGHBOURS + 1)
    middles = np.median(windows, axis=1)
    inner = slice(_NEIGHBOURS, len(logs) - _NEIGHBOURS)
    apart = logs[inner] - middles
    usual = 1.4826 * float(np.median(np.abs(apart)))
    if usual == 0:
        return logs
    held = logs.copy()
    held[inner] = middles + np.clip(apart, -_UNUSUAL * usual, _UNUSUAL * usual)
    return held


def quantiles(values: Values, weights: Values, confidence: float) -> tuple[float, float]:
    """Return the bounds that leave half of the rest on either side."""
    order = np.argsort(values, kind="stable")
    ranked, mass = values[order], weights[order] / weights.sum()
    middles = np.cumsum(mass) - mass / 2
    rest = (1 - confidence) / 2
    return _at(rest, middles, ranked), _at(1 - rest, middles, ranked)


def _at(share: float, middles: Values, ranked: Values) -> float:
    above = int(np.searchsorted(middles, share))
    if above in (0, len(ranked)) or not np.isfinite(ranked[min(above, len(ranked) - 1)]):
        return float(ranked[min(above, len(ranked) - 1)])
    return float(np.interp(share, middles[above - 1 : above + 1], ranked[above - 1 : above + 1]))


@lru_cache(maxsize=1024)  # a run that goes on is read again after each trial
def _fit_family(family: Family, stretch: Stretch) -> FamilyFit:
    """Try members ever closer to the likeliest ones."""
    logs = without_stalls(np.log(np.array(stretch.rates_per_s)))
    places = np.array([stretch.place(t_s) for t_s in stretch.times_s])
    span = float(np.ptp(logs)) or 1e-9
    box = Box(-_WIDEST * span, _WIDEST * span)
    likely = _Likely(places, logs)
    for _ in range(_ROUNDS):
        shapes = family.members(box)
        if not shapes.changes.size:
            break
        found = likely.of(shapes)
        box = shapes.around(found.logs > found.logs.max() - _FAR)
    else:
        return found.fitted(family.parameters)
    empty = np.empty(0)
    return FamilyFit(shapes, empty, empty, empty, 0, math.inf)


@dataclass(frozen=True)
class _Found:
    """What the members come to, over all memories."""

    shapes: Shapes
    logs: Values
    levels: Values
    level_variances: Values
    likelihoods: Values
    intervals: int

    def fitted(self, parameters: int) -> FamilyFit:
        weights = np.exp(self.logs - self.logs.max())
        best = int(np.argmax(self.likelihoods))
        # Beside the shape: the level, the size of the noise and its memory.
        free, n = parameters + 3, self.intervals
        penalty = 2 * free + 2 * free * (free + 1) / max(n - free - 1, 0.5)
        return FamilyFit(
            self.shapes,
            weights / weights.sum(),
            self.levels,
            self.level_variances,
            best,
            penalty - 2 * float(self.likelihoods[best]),
        )


class _Likely:
    """Weighs shapes against one series of log rates."""

    def __init__(self, places: Values, logs: Values) -> None:
        self._places = places
        self._logs = logs
        self._least = max(float(np.var(logs)), 1e-12) * 1e-9  # a curve without any noise at all

    def of(self, shapes: Shapes) -> _Found:
        rest = self._logs[None, :] - shapes.at(self._places)
        n = rest.shape[1]
        weights, levels, level_variances, likelihoods = self._with_memories(rest)
        top = weights.max(axis=0)
        shares = np.exp(weights - top)
        together = shares.sum(axis=0)
        shares /= together
        mean = (shares * levels).sum(axis=0)
        variances = (shares * (level_variances + (levels - mean) ** 2)).sum(axis=0)
        logs = top + np.log(together)
        return _Found(shapes, logs, mean, variances, likelihoods.max(axis=0), n)

    def _with_memories(self, rest: Values) -> tuple[Values, Values, Values, Values]:
        """Return log weight, level, its variance and log likelihood of each memory and row."""
        n = rest.shape[1]
        m = _MEMORIES[:, None]
        # Without memory's part an interval is w[0] = sqrt(1 - m^2) r[0] and w[i] = r[i] - m r[i-1]. Sums of
        # w and its squares are sums of r and its products, which serve all memories; in the middle, so
        # that little is lost where these cancel.
        middle = rest.mean(axis=1)
        rest = rest - middle[:, None]
        first, last, total = rest[:, 0], rest[:, -1], rest.sum(axis=1)
        squares, products = (rest**2).sum(axis=1), (rest[:, 1:] * rest[:, :-1]).sum(axis=1)
        white_squares = squares - 2 * m * products + m**2 * (squares - first**2 - last**2)
        information = 1 - m**2 + (n - 1) * (1 - m) ** 2
        onto_level = (1 - m**2) * first + (1 - m) * (total - first - m * (total - last))
        levels = onto_level / information
        left = np.maximum(white_squares - levels**2 * information, self._least)
        memory_part = 0.5 * np.log(1 - m**2)
        weight = memory_part - 0.5 * np.log(information) - (n - 1) / 2 * np.log(left)
        variances = left / max(n - 3, 1) / information
        return weight, middle + levels, variances, memory_part - n / 2 * np.log(left / n)
