"""Response surfaces with known truth, for searches: what each value of each dimension does to the logarithm of speed.

Some are fitted to pools of real trials; the others are made up. The shapes of these follow what ablations and searches of this laboratory found on real servers: effects add up on the
logarithm; few settings matter, most of them those that are known to; an effect grows with the distance from its best
value; a start that somebody chose has little to lose and something to gain; values at the ends of what the server
accepts may cost much; some are refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pgdrag.designs.search.feasible import Feasible
from pgdrag.designs.search.parameters import Dimension, Goal
from pgdrag.designs.search.procedure import Procedure
from pgdrag.designs.search.response import Kernels, Response, Tried, respond
from pgdrag.designs.search.space import Point, Space
from pgdrag.designs.search.trials import Observed, Request
from pgdrag.model import Treatment

KNOWN, UNKNOWN = 25, 90  # dimensions that are expected to matter, and others
_MATTERING_KNOWN, _MATTERING_UNKNOWN = 0.35, 0.02  # share of each that can gain something
_GAIN = 0.08  # mean log gain of one that does
# Share whose ends cost something, and lognormal size of that: ten changes at random lose what ten lost in the pool of
# TPC-C (a median of 13 %, 40 % in a quarter of the trials).
_HARMFUL, _HARM = 0.35, (math.log(0.15), 1.5)
_RULED = 0.7  # share of the known ones that matter whose rule of thumb is near the best value
_SHOWN = (
    3.0  # standard deviations that an effect in a pool must be from 0: there are hundreds of values
)
REFUSED_RISK = 0.5  # of a value: in a pool's surface it keeps the server from starting
STALLED = math.log(12_000)  # how many times slower a server may be and still commit in time
_LARGE = math.log(3)  # from there, effects add to a transaction's time and not to its logarithm
_COMMITS = 6_000  # of a trial at the start
_BLOCK_SHARE = 0.5  # of the noise: what trials of a block share


@dataclass(frozen=True)
class Surface:
    """A space, and the log gain of each value of each dimension over the start."""

    space: Space
    effects: Sequence[NDArray[np.float64]]
    is_refused: Sequence[NDArray[np.bool_]]
    goal: ClassVar[Goal] = "maximize"

    @property
    def best(self) -> float:
        """The greatest log gain that there is."""
        return float(
            sum(
                np.max(np.where(no, -np.inf, one))
                for one, no in zip(self.effects, self.is_refused, strict=True)
            )
        )

    def gain(self, point: Point) -> float:
        """Return the log gain of a point over the start."""
        return float(sum(one[at] for one, at in zip(self.effects, point, strict=True)))

    def runs(self, point: Point) -> bool:
        """Tell whether the server starts with it."""
        return not any(no[at] for no, at in zip(self.is_refused, point, strict=True))

    def variance(self, point: Point) -> float:
        """Return how unsure the logarithm is that one trial says, by what it says itself."""
        return 0.0


@dataclass(frozen=True)
class Slow(Surface):
    """How much slower a server can be made: the times of a few culprits add up, and too slow is a stall."""

    goal: ClassVar[Goal] = "minimize"

    @property
    def best(self) -> float:
        """The greatest log gain that is no stall."""
        return min(super().best, STALLED)

    def gain(self, point: Point) -> float:
        """Return the logarithm of how much longer a transaction takes than at the start."""
        effects = [float(one[at]) for one, at in zip(self.effects, point, strict=True)]
        large = sum(math.expm1(x) for x in effects if x > _LARGE)
        return math.log1p(large) + sum(x for x in effects if x <= _LARGE)

    def runs(self, point: Point) -> bool:
        """Tell whether anything is committed in time."""
        return super().runs(point) and self.gain(point) <= STALLED

    def variance(self, point: Point) -> float:
        """Return that of the logarithm of a count of commits."""
        return 1 / max(_COMMITS * math.exp(-self.gain(point)), 1.0)


def slow_surface(seed: int) -> Surface:
    """Return a surface for those who look for the slowest: three of the settings can ruin it."""
    made = surface(seed)
    rng = np.random.default_rng([seed, 5])
    effects = list(made.effects)
    for at in (*rng.choice(KNOWN, 2, replace=False), KNOWN + rng.integers(UNKNOWN)):
        dimension = made.space.dimensions[at]
        start = dimension.values.index(dimension.start)
        places = np.arange(len(dimension.values))
        end = len(places) - 1 if start == 0 or rng.random() < 0.5 else 0
        way = np.clip((places - start) / ((end - start) or 1), 0, 1)
        effects[at] = effects[at] + rng.uniform(3, 7) * way**2
    return Slow(made.space, effects, made.is_refused)


def surface(seed: int, *, refused: float = 0.0) -> Surface:
    """Return a surface.

    Args:
        refused: share of the dimensions whose last value keeps the server from starting.
    """
    rng = np.random.default_rng(seed)
    made = [_dimension(rng, at, is_known=at < KNOWN) for at in range(KNOWN + UNKNOWN)]
    dimensions = tuple(one for one, _ in made)
    nos = []
    for one in dimensions:
        no = np.zeros(len(one.values), dtype=bool)
        last = len(one.values) - 1
        if (
            rng.random() < refused
            and one.values.index(one.start) != last
            and one.rule != one.values[last]
        ):
            no[last] = True
        nos.append(no)
    return Surface(Space(dimensions, Treatment("start")), [effect for _, effect in made], nos)


def _dimension(
    rng: np.random.Generator, at: int, *, is_known: bool
) -> tuple[Dimension, NDArray[np.float64]]:
    count = int(rng.integers(2, 11))
    # Who chose the default did not choose an end that hurts.
    start = int(rng.integers(0, count)) if count < 4 else int(rng.integers(1, count - 1))
    place = np.arange(count) / (count - 1)
    effect = np.zeros(count)
    matters = rng.random() < (_MATTERING_KNOWN if is_known else _MATTERING_UNKNOWN)
    if matters:
        away = -(np.abs(place - rng.random()) ** rng.uniform(0.7, 2.0))
        gain = rng.exponential(_GAIN) + 0.01
        span = away.max() - away[start]
        effect += away * (gain / span if span > 0.05 else gain)
    if rng.random() < _HARMFUL:
        end = place if rng.random() < 0.5 else 1 - place
        beyond = np.maximum(0.0, end - max(0.6, end[start])) / 0.4
        effect -= rng.lognormal(*_HARM) * beyond
    effect -= effect[start]
    rule = None
    if matters and is_known and rng.random() < _RULED:
        near = int(np.clip(np.argmax(effect) + rng.integers(-1, 2), 0, count - 1))
        rule = str(near) if near != start else None
    dimension = Dimension(
        name=f"{'known' if is_known else 'other'}{at}",
        values=tuple(map(str, range(count))),
        is_ordered=count > 2,
        start=str(start),
        rule=rule,
        is_expected=is_known,
    )
    return dimension, effect


POOLS = Path(__file__).with_name("pools")


def pools() -> list[str]:
    """Return the names of the pools of real trials that there are: see `benchmarks.search_pool`."""
    return sorted(path.stem for path in POOLS.glob("*.json"))


@cache
def fitted(pool: str) -> Surface:
    """Return the surface that a pool of real trials shows.

    Effects are means of the additive model's posterior; a dimension that shows nothing does nothing.
    """
    response, is_refused = _fit(pool)
    effects = [
        mean if np.any(np.abs(mean) > _SHOWN * sd) else np.zeros_like(mean)
        for mean, sd in response.effects
    ]
    return Surface(response.kernels.space, effects, is_refused)


def _fit(pool: str) -> tuple[Response, Sequence[NDArray[np.bool_]]]:
    read = json.loads((POOLS / f"{pool}.json").read_text())
    space = Space(
        tuple(Dimension.model_validate(one) for one in read["dimensions"]), Treatment("start")
    )
    feasible, tried = Feasible(space), []
    for places, value, variance, block in zip(
        read["points"], read["values"], read["variances"], read["blocks"], strict=True
    ):
        point = tuple(places)
        (feasible.failed if value is None else feasible.worked).append(point)
        if value is not None:
            tried.append(Tried.of(point, value, variance, block, start=0.0))
    return respond(Kernels(space), tried), [risk >= REFUSED_RISK for risk in feasible.risks()]


class Machine:
    """Runs trials of a surface, with noise between trials and between blocks."""

    def __init__(self, one: Surface, noise: float, seed: int) -> None:
        self.surface, self.noise = one, noise
        self.trials = 0
        self._rng = np.random.default_rng([seed, 1])
        self._blocks = 0

    def run(self, points: Sequence[Point], *, is_brief: bool = True) -> list[Observed]:
        """Return one block of trials."""
        self._blocks += 1
        self.trials += len(points)
        shared = self._rng.normal(scale=_BLOCK_SHARE * self.noise)
        return [self._trial(point, shared, is_brief=is_brief) for point in points]

    def answer(self, procedure: Procedure, request: Request) -> None:
        """Run a block that a search asks for, and tell it."""
        points = [point for point in request.points if not isinstance(point, str)]
        procedure.tell(self.run(points, is_brief=request.is_brief))

    def _trial(self, point: Point, shared: float, *, is_brief: bool) -> Observed:
        value = None
        if self.surface.runs(point):
            value = self.surface.gain(point) + shared + float(self._rng.normal(scale=self.noise))
        variance = self.surface.variance(point)
        if value is None:
            return Observed(point, None, (variance,), self._blocks, is_brief, is_failure=True)
        value += float(self._rng.normal(scale=math.sqrt(variance)))
        return Observed(point, (value,), (variance,), self._blocks, is_brief, is_failure=False)
