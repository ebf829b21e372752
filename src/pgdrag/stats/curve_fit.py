"""Which curve does a trial's rate follow, and how sure is that?

The noise around the curve is a first-order autoregression with unknown autocorrelation. Every curve of a
grid is weighed against every autocorrelation; the level and the size of the noise are integrated out. An
interval holds 95 % of the weight, so it is as wide as the autocorrelation is uncertain. (Least squares
with `scipy.optimize.curve_fit` and a corrected covariance calls a steady window a trend in up to 10 % of
cases, where this stays below 5 %: see simulations/decay.py.)

Source: Box and Tiao 1973, chapter 2 (regression with autocorrelated errors); Hurvich and Tsai 1989 (the
corrected information criterion); Hampel 1974 (outliers by the distance from a median).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Model = Literal["exponential", "hyperbolic", "exponential toward a floor"]

CONFIDENCE = 0.95
INTERVALS_MIN = 10  # fewer cannot separate a trend from autocorrelation

_AUTOCORRELATIONS = np.linspace(0.0, 0.99, 15)
_CHANGES, _BENDS = 81, 16  # points of a grid
_STRAIGHTEST, _MOST_BENT = 0.05, 30.0
_WIDEST = 3.0  # largest change tried, in ranges of the log rates
_FAR = 14.0  # log weight below the best at which a curve is dropped
_ROUNDS = 3  # of narrowing the grid
_NEIGHBOURS = 3  # on either side
_OUTLIER_SD = 3.5
_LEAST = 1e-6


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
class Estimate:
    """A number with its interval, on the scale on which trials are averaged."""

    low: float
    center: float
    high: float

    @classmethod
    def around(cls, center: float, half: float) -> Estimate:
        """Return a symmetric interval."""
        return cls(center - half, center, center + half)

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Curves:
    """Curves of one family over a stretch that goes from 0 to 1.

    Attributes:
        changes: logarithm of the rate at the end over that at the beginning.
        bends: rates of approach to the floor, per length of the stretch; only of that family.
    """

    name: Model
    changes: Values
    bends: Values

    def at(self, places: Values) -> Values:
        """Return a row for each curve: the log rate, less that at the beginning, at places in 0…1."""
        changes, bends = self.changes[:, None], self.bends[:, None]
        if self.name == "exponential":
            return np.asarray(changes * places)
        if self.name == "hyperbolic":  # -log(1 + t/tau): each second adds the same cost
            return np.asarray(-np.log1p(np.expm1(-changes) * places))
        floor = self._floors()[:, None]
        return np.asarray(np.log(floor + (1 - floor) * np.exp(-bends * places)))

    def half_lives(self) -> Values:
        """Return where each has halved, in lengths of the stretch; infinite where it never does."""
        falls = np.maximum(-self.changes, _LEAST)
        if self.name == "exponential":
            return np.where(self.changes < 0, math.log(2) / falls, np.inf)
        if self.name == "hyperbolic":
            return np.asarray(1 / np.expm1(falls))
        with np.errstate(divide="ignore"):  # where the floor is above a half: infinite
            left = np.clip((0.5 - self._floors()) / (1 - self._floors()), 0.0, None)
            return np.asarray(-np.log(left) / self.bends)

    def _floors(self) -> Values:
        """Return the rate that each approaches, over that at the beginning."""
        return np.asarray((np.exp(self.changes) - np.exp(-self.bends)) / -np.expm1(-self.bends))


# The families, each with how many parameters shape its curves.
FAMILIES: dict[Model, int] = {"exponential": 1, "hyperbolic": 1, "exponential toward a floor": 2}
LINE: tuple[Model, ...] = ("exponential",)


@dataclass(frozen=True)
class FamilyFit:
    """How likely each curve of a family is.

    Attributes:
        weights: sum to 1; empty where the family has no curve that fits a rise.
        levels, level_variances: of each curve: log rate at the beginning, and its variance.
        best: the likeliest curve.
        aicc: its corrected information criterion; lower is better.
    """

    curves: Curves
    weights: Values
    levels: Values
    level_variances: Values
    best: int
    aicc: float


@dataclass(frozen=True)
class TrialFit:
    """One trial's stretch with the families that were fitted to it."""

    stretch: Stretch
    families: tuple[FamilyFit, ...]

    def estimate(
        self, of: Callable[[Curves], Values], shares: Sequence[float], chosen: int
    ) -> Estimate:
        """Return a number that depends on the curve alone, over families with these shares.

        The center is that of the likeliest curve of the family chosen.
        """
        values = [of(one.curves) for one in self.families]
        weights = [share * one.weights for share, one in zip(shares, self.families, strict=True)]
        low, high = quantiles(np.concatenate(values), np.concatenate(weights), CONFIDENCE)
        center = float(values[chosen][self.families[chosen].best])
        return Estimate(min(low, center), center, max(high, center))

    def log_rate(self, t_s: float, shares: Sequence[float], chosen: int) -> Estimate:
        """Return the logarithm of the fitted rate at a moment of the window."""
        place = np.array([self.stretch.place(t_s)])
        values = [one.levels + one.curves.at(place)[:, 0] for one in self.families]
        every = np.concatenate(values)
        variances = np.concatenate([one.level_variances for one in self.families])
        parts = [share * one.weights for share, one in zip(shares, self.families, strict=True)]
        weights = np.concatenate(parts) / np.concatenate(parts).sum()
        mean = float(weights @ every)
        half = 2 * math.sqrt(float(weights @ ((every - mean) ** 2 + variances)))
        center = float(values[chosen][self.families[chosen].best])
        return Estimate(min(mean - half, center), center, max(mean + half, center))


def fit_stretch(stretch: Stretch, families: Sequence[Model] = tuple(FAMILIES)) -> TrialFit | None:
    """Fit families to a stretch; None where it has too few intervals."""
    if len(stretch.times_s) < INTERVALS_MIN:
        return None
    return TrialFit(stretch, tuple(_fit_family(name, stretch) for name in families))


def without_stalls(logs: Values) -> Values:
    """Return log rates with outliers pulled in, such as a second's stall.

    An interval further from the median of its seven neighbours than 3.5 times the usual distance is moved
    to that distance. A steady fall or rise is its own median, however steep; the first and last three
    intervals are left as they are.
    """
    if len(logs) < 2 * _NEIGHBOURS + 1:
        return logs
    windows = np.lib.stride_tricks.sliding_window_view(logs, 2 * _NEIGHBOURS + 1)
    middles = np.median(windows, axis=1)
    inner = slice(_NEIGHBOURS, len(logs) - _NEIGHBOURS)
    apart = logs[inner] - middles
    most = _OUTLIER_SD * 1.4826 * float(np.median(np.abs(apart)))
    if most == 0:
        return logs
    held = logs.copy()
    held[inner] = middles + np.clip(apart, -most, most)
    return held


def quantiles(values: Values, weights: Values, confidence: float) -> tuple[float, float]:
    """Return the bounds that leave half of the rest on either side."""
    order = np.argsort(values, kind="stable")
    ranked, mass = values[order], weights[order] / weights.sum()
    middles = np.cumsum(mass) - mass / 2
    rest = (1 - confidence) / 2
    low, high = (float(x) for x in np.interp([rest, 1 - rest], middles, ranked))
    return low, high


@lru_cache(maxsize=1024)  # a run in progress is read again after each trial
def _fit_family(name: Model, stretch: Stretch) -> FamilyFit:
    """Weigh a grid of curves, and narrow it around the likely ones."""
    logs = without_stalls(np.log(np.array(stretch.rates_per_s)))
    places = np.array([stretch.place(t_s) for t_s in stretch.times_s])
    widest = _WIDEST * (float(np.ptp(logs)) or 1e-9)
    low, high, straight, bent = -widest, widest, _STRAIGHTEST, _MOST_BENT
    for _ in range(_ROUNDS):
        if name == "hyperbolic":  # a cost that shrinks steadily would come to nothing
            low, high = min(low, -_LEAST), min(high, -_LEAST)
        if low == high:
            break
        count = _CHANGES // 2 if FAMILIES[name] > 1 else _CHANGES
        changes, step = np.linspace(low, high, count, retstep=True)
        more, factor = np.zeros(1), 1.0  # how much faster than without a floor the fall begins
        if FAMILIES[name] > 1:
            more = np.geomspace(straight, bent, _BENDS)
            factor = (bent / straight) ** (1 / (_BENDS - 1))
        change, extra = (x.ravel() for x in np.meshgrid(changes, more, indexing="ij"))
        curves = Curves(name, change, extra + np.maximum(-change, 0.0))
        found = _weigh(curves, places, logs)
        likely = found.weights > found.weights.max() * math.exp(-_FAR)
        low, high = float(change[likely].min() - step), float(change[likely].max() + step)
        straight = max(float(extra[likely].min()) / factor, _STRAIGHTEST)
        bent = min(float(extra[likely].max()) * factor, _MOST_BENT)
    else:
        return found
    nothing = np.empty(0)
    return FamilyFit(Curves(name, nothing, nothing), nothing, nothing, nothing, 0, math.inf)


def _weigh(curves: Curves, places: Values, logs: Values) -> FamilyFit:
    """Weigh curves against one series of log rates, over all autocorrelations."""
    rest = logs - curves.at(places)
    middle = rest.mean(axis=1)
    rest -= middle[:, None]  # so that little is lost where sums of squares cancel
    n = rest.shape[1]
    least = max(float(np.var(logs)), 1e-12) * 1e-9  # for a curve that fits without any noise
    m = _AUTOCORRELATIONS[:, None]
    # Without autocorrelation an interval is w[0] = sqrt(1 - m^2) r[0] and w[i] = r[i] - m r[i-1]. The sums
    # of w and of its squares follow from sums of r and of its products, which serve every m.
    first, last, total = rest[:, 0], rest[:, -1], rest.sum(axis=1)
    squares, products = (rest**2).sum(axis=1), (rest[:, 1:] * rest[:, :-1]).sum(axis=1)
    white_squares = squares - 2 * m * products + m**2 * (squares - first**2 - last**2)
    information = 1 - m**2 + (n - 1) * (1 - m) ** 2
    levels = (1 - m**2) * first + (1 - m) * (total - first - m * (total - last))
    levels /= information
    left = np.maximum(white_squares - levels**2 * information, least)
    log_weights = 0.5 * np.log((1 - m**2) / information) - (n - 1) / 2 * np.log(left)
    likelihoods = (0.5 * np.log(1 - m**2) - n / 2 * np.log(left / n)).max(axis=0)
    shares = np.exp(log_weights - log_weights.max())
    weights = np.maximum(shares.sum(axis=0), 1e-300)
    shares = shares / weights
    level = (shares * levels).sum(axis=0)
    variances = left / max(n - 3, 1) / information + (levels - level) ** 2
    best = int(np.argmax(likelihoods))
    free = FAMILIES[curves.name] + 3  # and the level, the size of the noise, its autocorrelation
    penalty = 2 * free + 2 * free * (free + 1) / max(n - free - 1, 0.5)
    return FamilyFit(
        curves,
        weights / weights.sum(),
        middle + level,
        (shares * variances).sum(axis=0),
        best,
        penalty - 2 * float(likelihoods[best]),
    )
