"""What is known of the objective over the space? An additive Gaussian process, relative to the baseline.

The logarithm of the objective is taken as a constant, plus a function of each dimension that is 0 at the baseline's
value, plus what the point does beyond the sum of its changes, plus what the trials of one block share, plus noise. How
noisy trials are, those say that were repeated. How much each dimension matters, and how badly effects add up, is
estimated by maximizing the posterior; a lognormal prior lets a few dimensions matter much and the rest nothing
(automatic relevance determination). Two trends are a part of it, each with a number that all dimensions share and the
trials tell: how much rules of thumb keep of their promise, and what it costs to go far from the baseline, for whom most
values at the ends are bad.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import scipy  # whose parts it loads when they are used: most commands have no search
from numpy.typing import NDArray

from pgdrag.designs.search.space import Point, Space
from pgdrag.stats.noise import Noise, pooled_noise

Array = NDArray[np.float64]

_OFFSET_SD = 10.0  # of the constant: nothing is known of it
_NOISE = Noise(0.05, 4)  # between trials of one point, beforehand
_TREND = 0.7  # share of a dimension's effect that goes on in the same direction
_BLOCK_SHARE = 0.5  # of the noise's standard deviation: what trials of a block share
# What a dimension's effect is worth beforehand, as a standard deviation of the log objective.
_EXPECTED, _UNEXPECTED = 0.12, 0.06
_MISFIT = 0.01  # the same of a point beyond the sum of its changes
_RULE_GAIN = 0.06  # log gain that a rule of thumb brings, beforehand
_FAR_COST = (
    0.05  # log gain that the end of a dimension costs, beforehand; on the way there its square
)
_TREND_SD = 1.0  # of how much of either is so in all dimensions together: 1 beforehand
_RELEVANCE_SD, _SHARED_SD = (
    1.8,
    1.0,
)  # of the logarithm of that: of each by itself, and of all together
_FARTHEST = 6.0
_LARGE_LOSS = 0.7  # as a logarithm: half the speed
_JITTER = 1e-9
_ITERATIONS = 30


@dataclass(frozen=True)
class Tried:
    """A trial with a number.

    Attributes:
        value: the logarithm of the objective; more is better.
        variance: of that from within the trial; noise between trials is not in it.
        is_large_loss: it was less than half as good as the start.
    """

    point: Point
    value: float
    variance: float
    block: int
    is_large_loss: bool = False

    @classmethod
    def of(cls, point: Point, value: float, variance: float, block: int, start: float) -> Tried:
        """Return a trial as the model takes it: of a large loss against the start, its size hardly counts.

        Losses do not add up: what makes a server ten times slower hides what else would, and what would help.
        """
        beyond = max(start - value - _LARGE_LOSS, 0.0)
        told = _LARGE_LOSS * math.log1p(beyond / _LARGE_LOSS)
        return cls(point, value + beyond - told, variance + told**2, block, beyond > 0)


class Kernels:
    """How similar the values of each dimension are, relative to the baseline's value.

    Args:
        is_far_costly: performance is lost far from the baseline; of slowness this is not known.

    Attributes:
        of: by dimension, the covariance of its values with a greatest variance of 1.
        trends: by dimension, what its values are expected to gain beforehand by rules of thumb, and by how far from the
            baseline's they are: 2 x values.
        expected: returns the log gain of a point that is expected beforehand, by each trend.
    """

    def __init__(self, space: Space, *, is_far_costly: bool = True) -> None:
        self.space = space
        cost = _FAR_COST if is_far_costly else 0.0
        self.of = [self._of(at) for at in range(len(space.dimensions))]
        self.trends = [
            np.array([self._promise(at), -cost * self._away(at) ** 2])
            for at in range(len(space.dimensions))
        ]
        # Prior draws are these times independent normal numbers.
        self.roots = [_root(one) for one in self.of]
        self.expected = cache(self._expected)
        sds = [_EXPECTED if one.is_expected else _UNEXPECTED for one in space.dimensions]
        self.prior = np.log([*sds, _MISFIT])

    def _of(self, at: int) -> Array:
        one, start = self.space.dimensions[at], self.space.start[at]
        if not one.is_ordered:
            return np.asarray(np.eye(len(one.values)) * (np.arange(len(one.values)) != start))
        # What harms below the baseline's value says nothing of above. On either side a trend, and a random walk
        # around it.
        away, side = self._away(at), np.sign(np.arange(len(one.values)) - start)
        walked = np.minimum(away[:, None], away[None, :])
        is_one_side = side[:, None] == side[None, :]
        alike = _TREND * np.outer(away, away) + (1 - _TREND) * walked
        return np.asarray(np.where(is_one_side, alike, 0.0), dtype=np.float64)

    def _away(self, at: int) -> Array:
        """Return how far each value is from the baseline's: 1 at either end; a word half as far."""
        one, start = self.space.dimensions[at], self.space.start[at]
        places = np.arange(len(one.values)) - start
        if not one.is_ordered:
            return np.where(places == 0, 0.0, math.sqrt(0.5))
        reach = np.where(places < 0, start, len(one.values) - 1 - start)
        return np.asarray(np.abs(places) / np.maximum(reach, 1))

    def _promise(self, at: int) -> Array:
        """Return what rules of thumb promise: the nearer to one, the more of its gain."""
        one, start, rule = self.space.dimensions[at], self.space.start[at], self.space.rule[at]
        if rule == start:
            return np.zeros(len(one.values))
        if not one.is_ordered:
            return np.where(np.arange(len(one.values)) == rule, _RULE_GAIN, 0.0)
        way = (np.arange(len(one.values)) - start) / (rule - start)
        return np.asarray(_RULE_GAIN * np.clip(way, -1.0, 1.0))

    def _expected(self, point: Point) -> Array:
        found = np.zeros(2)
        for one, at in zip(self.trends, point, strict=True):
            found += one[:, at]
        return found


@dataclass(frozen=True, eq=False)
class Trials:
    """At least one trial, and what of them is the same whatever matters how much.

    Attributes:
        places: by trial and dimension, which value it had.
        expected: the log gains that are expected beforehand: trials x trends.
        values: by trial, its log gain less that.
        noise: standard deviation between trials of one point, by those that were repeated.
        own_variances: by trial, the variance of what it shares with no other.
    """

    kernels: Kernels
    tried: Sequence[Tried]

    @cached_property
    def places(self) -> NDArray[np.intp]:
        return np.array([one.point for one in self.tried], dtype=np.intp)

    @cached_property
    def expected(self) -> Array:
        return np.array([self.kernels.expected(one.point) for one in self.tried])

    @cached_property
    def values(self) -> Array:
        return np.asarray([one.value for one in self.tried] - self.expected.sum(axis=1))

    @cached_property
    def noise(self) -> float:
        repeats: dict[Point, list[float]] = {}
        for one in self.tried:
            repeats.setdefault(one.point, []).append(one.value)
        found = pooled_noise(repeats.values(), prior=_NOISE)
        assert found is not None, "there is a prior"
        return found.log_sd

    @cached_property
    def own_variances(self) -> Array:
        within = np.array([one.variance for one in self.tried])
        return np.asarray(self.noise**2 + within + _JITTER)

    @cached_property
    def same_point(self) -> Array:
        """For each pair of trials, 1 where both have the same point, other than the baseline, else 0."""
        is_same = np.all(self.places[:, None, :] == self.places[None, :, :], axis=2)
        is_changed = np.any(self.places != np.array(self.kernels.space.start), axis=1)
        return np.asarray(is_same & is_changed[:, None], dtype=np.float64)

    @cached_property
    def stack(self) -> Array:
        """The covariance by each dimension and by what does not add up: these x trials x trials."""
        places = self.places
        by_dimension = [
            one[np.ix_(places[:, at], places[:, at])] for at, one in enumerate(self.kernels.of)
        ]
        return np.array([*by_dimension, self.same_point])

    @cached_property
    def _shared(self) -> tuple[Array, Array]:
        """The covariance by the trends, and by what trials of one block share."""
        blocks = np.array([one.block for one in self.tried])
        is_same = np.asarray(blocks[:, None] == blocks[None, :], dtype=np.float64)
        trends = _TREND_SD**2 * self.expected @ self.expected.T
        return trends, (_BLOCK_SHARE * self.noise) ** 2 * is_same

    def covariance(self, squares: Array) -> Array:
        """Return the covariance of the values.

        Args:
            squares: by each of the stack, its variance.
        """
        trends, blocks = self._shared
        found = np.tensordot(squares, self.stack, axes=1) + _OFFSET_SD**2 + trends + blocks
        return np.asarray(found + np.diag(self.own_variances))


@dataclass(frozen=True)
class Response:
    """What the trials say; see `respond`.

    Attributes:
        scales: by dimension, the standard deviation of its effect.
        misfit: standard deviation of what a point does beyond the sum of its changes.
        away: logarithms of how much more each dimension and the misfit matter than thought beforehand, and of how much
            all do.
    """

    trials: Trials
    scales: Array
    misfit: float
    away: Array

    @property
    def kernels(self) -> Kernels:
        """How similar the values of each dimension are."""
        return self.trials.kernels

    @property
    def tried(self) -> Sequence[Tried]:
        """The trials."""
        return self.trials.tried

    @cached_property
    def _factor(self) -> tuple[Array, bool]:
        covariance = self.trials.covariance(np.append(self.scales, self.misfit) ** 2)
        return scipy.linalg.cho_factor(covariance, lower=True)  # type: ignore[no-any-return]

    @cached_property
    def _weights(self) -> Array:
        return np.asarray(scipy.linalg.cho_solve(self._factor, self.trials.values))

    @cached_property
    def effects(self) -> list[tuple[Array, Array]]:
        """By dimension, the mean and the standard deviation of each value's effect."""
        found = []
        for at, scale in enumerate(self.scales):
            kernel = self.kernels.of[at]
            trends = self.kernels.trends[at]
            cross = scale**2 * kernel[:, self.trials.places[:, at]]
            cross += _TREND_SD**2 * trends.T @ self.trials.expected.T
            mean = trends.sum(axis=0) + cross @ self._weights
            taken = np.einsum("ij,ji->i", cross, scipy.linalg.cho_solve(self._factor, cross.T))
            prior = scale**2 * np.diag(kernel) + _TREND_SD**2 * (trends**2).sum(axis=0)
            found.append((mean, np.sqrt(np.maximum(prior - taken, 0.0))))
        return found

    def gain(self, point: Point, over: Point | None = None) -> tuple[float, float]:
        """Return the mean and the standard deviation of a point's log gain over another, by default the baseline."""
        start = self.kernels.space.start
        over = start if over is None else over
        if point == over:
            return 0.0, 0.0
        expected = self.kernels.expected(point) - self.kernels.expected(over)
        cross = _TREND_SD**2 * self.trials.expected @ expected
        cross += self.misfit**2 * (self._is_of(point) - self._is_of(over))
        prior = _TREND_SD**2 * float(expected @ expected)
        prior += self.misfit**2 * ((point != start) + (over != start))
        for at, (one, other) in enumerate(zip(point, over, strict=True)):
            if one != other:
                kernel, square = self.kernels.of[at], self.scales[at] ** 2
                cross += square * (kernel[one] - kernel[other])[self.trials.places[:, at]]
                prior += square * (kernel[one, one] - 2 * kernel[one, other] + kernel[other, other])
        variance = prior - float(cross @ scipy.linalg.cho_solve(self._factor, cross))
        return float(expected.sum() + cross @ self._weights), math.sqrt(max(variance, 0.0))

    def _is_of(self, point: Point) -> Array:
        """Return 1 for each trial of a point other than the baseline, else 0."""
        if point == self.kernels.space.start:
            return np.zeros(len(self.tried))
        return np.array([float(one.point == point) for one in self.tried])

    @cached_property
    def _residuals(self) -> Array:
        beyond = self.misfit**2 * self.trials.same_point @ self._weights
        return np.asarray(self.trials.own_variances * self._weights + beyond)

    def alone(self, at: int) -> list[float]:
        """Return, by trial, its log gain over the baseline less the mean effects of all other dimensions."""
        effects, _ = self.effects[at]
        found: list[float] = (self._residuals + effects[self.trials.places[:, at]]).tolist()
        return found

    def draw(self, rng: np.random.Generator) -> list[Array]:
        """Draw, by dimension, the effects of its values from what the trials leave possible.

        Source: Matheron's rule, as in Wilson et al. 2020 (arXiv 2002.09309).
        """
        drawn = [
            scale * (root @ rng.normal(size=root.shape[1]))
            for scale, root in zip(self.scales, self.kernels.roots, strict=True)
        ]
        at_trials = np.sum([one[self.trials.places[:, at]] for at, one in enumerate(drawn)], axis=0)
        blocks = np.array([one.block for one in self.tried])
        shared = {
            x: rng.normal(scale=_BLOCK_SHARE * self.trials.noise)
            for x in sorted({*blocks.tolist()})
        }
        at_trials = at_trials + np.array([shared[x] for x in blocks.tolist()])
        own = np.sqrt(self.trials.own_variances)
        at_trials = at_trials + rng.normal(size=len(own)) * own
        beyond = {one.point: rng.normal(scale=self.misfit) for one in self.tried}
        beyond[self.kernels.space.start] = 0.0
        at_trials = at_trials + np.array([beyond[one.point] for one in self.tried])
        at_trials = at_trials + _OFFSET_SD * rng.normal()
        kept = _TREND_SD * rng.normal(size=2)
        weights = scipy.linalg.cho_solve(
            self._factor, self.trials.values - at_trials - self.trials.expected @ kept
        )
        kept = 1 + kept + _TREND_SD**2 * self.trials.expected.T @ weights
        return [
            kept @ self.kernels.trends[at]
            + one
            + scale**2 * self.kernels.of[at][:, self.trials.places[:, at]] @ weights
            for at, (one, scale) in enumerate(zip(drawn, self.scales, strict=True))
        ]


def respond(kernels: Kernels, tried: Sequence[Tried], before: Response | None = None) -> Response:
    """Estimate what matters, from at least one trial; how noisy they are, from those that were repeated.

    Args:
        before: what fewer of the trials said, to begin from.
    """
    trials = Trials(kernels, tuple(tried))
    values = trials.values
    spreads = np.array([_RELEVANCE_SD] * len(kernels.prior) + [_SHARED_SD])
    begin = np.zeros(len(kernels.prior) + 1) if before is None else before.away

    def loss(away: Array) -> tuple[float, Array]:
        squares = np.exp(2 * (kernels.prior + away[:-1] + away[-1]))
        factor = scipy.linalg.cho_factor(trials.covariance(squares), lower=True)
        weights = scipy.linalg.cho_solve(factor, values)
        inverse = scipy.linalg.cho_solve(factor, np.eye(len(values)))
        spread = away / spreads
        worth = 0.5 * float(values @ weights) + float(np.log(np.diag(factor[0])).sum())
        worth += 0.5 * float(spread @ spread)
        # The derivative of the likelihood by a covariance is half of this.
        by_covariance = inverse - np.outer(weights, weights)
        slope = squares * np.einsum("dij,ij->d", trials.stack, by_covariance)
        return worth, np.append(slope, slope.sum()) + spread / spreads

    found = scipy.optimize.minimize(
        loss,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-_FARTHEST, _FARTHEST)] * len(begin),
        options={"maxiter": _ITERATIONS},
    )
    *scales, misfit = np.exp(kernels.prior + found.x[:-1] + found.x[-1])
    return Response(trials, np.array(scales), misfit, found.x)


def _root(kernel: Array) -> Array:
    """Return a matrix whose product with its transpose is the kernel, which may be singular."""
    values, vectors = scipy.linalg.eigh(kernel)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
