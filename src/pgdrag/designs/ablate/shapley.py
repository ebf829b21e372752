"""Which part of the whole is each change's, whatever the order in which they are made?

What a change adds depends on what was changed before it. Its Shapley share is what it adds on average
over all orders of the changes: shares add up to the whole, changes that do the same get the same,
and one that does nothing gets nothing.

All orders of a few players are gone through; of more, some are drawn, each with its reverse. Where
changes interact in pairs only, an order and its reverse together have the exact shares: in one of the
two a partner comes before, in the other after. So what the drawn orders differ by is noise, and
interactions of three and more. The interval of a share holds both.

Source: Shapley 1953; orders with their reverses, Lomeli, Rowland, Gretton and Ghahramani 2019 and
Mitchell, Cooper, Frank and Holmes 2022; moderated variances after Smyth 2004.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from pgdrag.designs.ablate.subset_values import TrialNoise, Value, t_quantile
from pgdrag.stats.distributions import f_quantile

Order = tuple[int, ...]
Coalition = frozenset[int]

# What few draws differ by is known so badly that it is drawn towards what noise alone explains, which
# then counts as so many draws; not where the draws contradict it (at `_CONTRADICTED`).
_PRIOR_DRAWS = 4
_CONTRADICTED = 0.01
_LOTS = 16  # that a draw is chosen from
_REACH_SD = (
    6.0  # what a player adds depends on the order where it differs by more than so many errors
)


@dataclass(frozen=True)
class Draw:
    """Orders whose average is one estimate of all shares: an order with its reverse."""

    orders: tuple[Order, ...]

    def coalitions(self) -> frozenset[Coalition]:
        """Return every set of players that stands at some point of these orders."""
        return frozenset(
            frozenset(order[:at]) for order in self.orders for at in range(len(order) + 1)
        )


@dataclass(frozen=True)
class Share:
    """One player's part of the whole, a natural logarithm: above 0 it makes things slower.

    Attributes:
        low, high: the interval.
        noise_se: the part of the standard error that more trials would lessen.
        orders_se: the part that more orders would lessen; 0 where all were gone through.
    """

    center: float
    low: float
    high: float
    noise_se: float
    orders_se: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Shares:
    """The shares of all players, in their order, and the whole that they add up to.

    Attributes:
        is_exact: over all orders.
        is_bounded: some coalition committed nothing, so that the whole and its shares rest on bounds.
        draws: estimates that are averaged.
    """

    players: tuple[Share, ...]
    whole: Share
    is_exact: bool
    is_bounded: bool
    draws: int


def all_orders(players: int) -> tuple[Draw, ...]:
    """Return every order of so many players, each with its reverse; mind that there are `players!`."""
    every = permutations(range(players))
    return tuple(_with_reverse(order) for order in every if order <= order[::-1])


def _with_reverse(order: Order) -> Draw:
    return Draw(tuple(dict.fromkeys((order, order[::-1]))))


@lru_cache(maxsize=1024)
def drawn_orders(players: int, seed: int, draws: int) -> tuple[Draw, ...]:
    """Return the first so many draws of a seed, each an order with its reverse; no two alike.

    More draws of a seed begin with the same ones. Fewer come back where there are no more. Of several
    lots the one is taken that best evens out who of any three stands in the middle: that is what the
    shares of three that act together hang on.
    """
    if draws == 0:
        return ()
    before = drawn_orders(players, seed, draws - 1)
    if len(before) < draws - 1 or len(before) >= max(math.factorial(players) // 2, 1):
        return before
    rng = np.random.default_rng([seed, players, draws])
    seen = {order for draw in before for order in draw.orders}
    lots: list[Order] = []
    while len(lots) < (_LOTS if players > 3 else 1):
        order = tuple(int(player) for player in rng.permutation(players))
        if order not in seen:
            lots.append(order)
    middles = [_middles(draw.orders[0]) for draw in before]

    def repeated(order: Order) -> int:
        own = _middles(order)
        return sum(int((own == other).sum()) for other in middles)

    best = min(lots, key=lambda order: (repeated(order), order))
    return (*before, _with_reverse(best))


def _middles(order: Order) -> NDArray[np.int64]:
    """Return who stands in the middle of every three players."""
    place = np.argsort(np.array(order))
    threes = _threes(len(order))
    return np.asarray(threes[np.arange(len(threes)), np.argsort(place[threes], axis=1)[:, 1]])


@lru_cache(maxsize=64)
def _threes(players: int) -> NDArray[np.int64]:
    return np.array(list(combinations(range(players), 3)), dtype=np.int64).reshape(-1, 3)


def shares(
    players: int,
    draws: Sequence[Draw],
    values: Mapping[Coalition, Value],
    noise: TrialNoise,
    *,
    confidence: float = 0.95,
) -> Shares | None:
    """Estimate the share of each player.

    Args:
        players: how many; they are numbered from 0.
        draws: orders to average over; those of which a coalition has no value are left out.
        values: log throughput by coalition.
        noise: what the variances of the values rest on.
        confidence: coverage wanted of each interval.

    Returns:
        None where no draw is whole. The centers add up to that of the whole exactly.
    """
    whole_draws = [draw for draw in draws if draw.coalitions() <= values.keys()]
    if not whole_draws:
        return None
    sets = list(dict.fromkeys(one for draw in whole_draws for one in _sorted(draw.coalitions())))
    place = {one: at for at, one in enumerate(sets)}
    steps = [_steps(players, draw, place) for draw in whole_draws]
    weights = np.stack([one.mean(axis=0) for one in steps])
    centers = np.array([values[one].center for one in sets])
    variances = np.array([values[one].variance for one in sets])
    is_exact = sum(len(draw.orders) for draw in whole_draws) == math.factorial(players)
    if is_exact:
        noises = np.sqrt((weights.mean(axis=0) ** 2) @ variances)
        errors = [_Error(float(one), 0.0, noise.dof) for one in noises]
    else:
        errors = _errors(np.stack(steps), centers, variances, noise.dof)
    found = weights.mean(axis=0) @ centers
    ends = (values[frozenset()], values[frozenset(range(players))])
    whole_se = math.sqrt(sum(end.variance for end in ends))
    return Shares(
        tuple(
            _share(float(center), error, confidence)
            for center, error in zip(found, errors, strict=True)
        ),
        _share(ends[0].center - ends[1].center, _Error(whole_se, 0.0, noise.dof), confidence),
        is_exact,
        any(values[one].is_bound for one in sets),
        len(whole_draws),
    )


def leverage(players: int, draws: Sequence[Draw]) -> dict[Coalition, float]:
    """Return how much a value's error weighs in the share that it weighs most in, squared."""
    sets = list(dict.fromkeys(one for draw in draws for one in _sorted(draw.coalitions())))
    place = {one: at for at, one in enumerate(sets)}
    mean = np.mean([_steps(players, draw, place).mean(axis=0) for draw in draws], axis=0)
    return dict(zip(sets, (mean**2).max(axis=0).tolist(), strict=True))


@dataclass(frozen=True)
class _Error:
    noise_se: float
    orders_se: float
    dof: float


def _sorted(sets: frozenset[Coalition]) -> list[Coalition]:
    """Sets in an order that does not change from one run of Python to the next."""
    return sorted(sets, key=lambda one: (len(one), sorted(one)))


def _steps(players: int, draw: Draw, place: Mapping[Coalition, int]) -> NDArray[np.float64]:
    """Return what each value counts for in what a player adds, by order: slower is what loses throughput."""
    steps = np.zeros((len(draw.orders), players, len(place)))
    for at, order in enumerate(draw.orders):
        before: Coalition = frozenset()
        for player in order:
            after = before | {player}
            steps[at, player, place[before]] += 1
            steps[at, player, place[after]] -= 1
            before = after
    return steps


def _errors(
    steps: NDArray[np.float64],
    centers: NDArray[np.float64],
    variances: NDArray[np.float64],
    dof: float,
) -> list[_Error]:
    """Return the error of each share from draws of orders; `steps`: by draw, order, player and value."""
    weights = steps.mean(axis=1)
    draws = len(weights)
    noise = (weights.mean(axis=0) ** 2) @ variances
    if draws == 1:  # what another draw would differ by is anyone's guess
        return [_Error(math.sqrt(one), math.inf, dof) for one in noise]
    # What draws of independent trials would differ by through noise alone, and what they do differ by.
    expected = ((weights**2) @ variances).mean(axis=0)
    seen = (weights @ centers).var(axis=0, ddof=1)
    limit = f_quantile(1 - _CONTRADICTED, draws - 1, dof)
    beyond = seen > expected * limit
    floors = np.zeros(len(noise))
    if beyond.any():
        floors = _shared_spread(steps, centers, variances, seen - expected)
    return [
        _drawn_error(float(noise[at]), float(expected[at]), float(seen[at]), draws, dof, floors[at])
        if not beyond[at]
        else _total_error(
            float(noise[at]), max(float(seen[at] - expected[at]), floors[at]), draws, draws - 1, dof
        )
        for at in range(len(noise))
    ]


def _shared_spread(
    steps: NDArray[np.float64],
    centers: NDArray[np.float64],
    variances: NDArray[np.float64],
    excess: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the least variance from draw to draw to be believed of each player, once any has some.

    Where three act together, each draw treats one of them apart. That this was never the same one may be
    luck: so all players whose steps depend on the order are taken to vary alike, relative to how far.
    """
    added = (steps @ centers).reshape(-1, steps.shape[2])
    chance = ((steps**2) @ variances).max(axis=(0, 1))
    reach = np.ptp(added, axis=0)
    depends = reach**2 > _REACH_SD**2 * chance
    if not depends.any():
        return np.zeros(len(reach))
    relative = float(np.maximum(excess[depends] / reach[depends] ** 2, 0.0).mean())
    return np.where(depends, relative * reach**2, 0.0)


def _drawn_error(
    noise: float, expected: float, seen: float, draws: int, dof: float, floor: float
) -> _Error:
    own_dof = draws - 1 + _PRIOR_DRAWS
    moderated = (_PRIOR_DRAWS * expected + (draws - 1) * seen) / own_dof
    between = max(moderated - expected, 0.0)
    if floor > between:
        return _total_error(noise, floor, draws, draws - 1, dof)
    return _total_error(noise, between, draws, own_dof, dof)


def _total_error(noise: float, between: float, draws: int, own_dof: float, dof: float) -> _Error:
    orders = between / draws
    total = noise + orders
    both = total**2 / (noise**2 / dof + orders**2 / own_dof)
    return _Error(math.sqrt(noise), math.sqrt(orders), both)


def _share(center: float, error: _Error, confidence: float) -> Share:
    half = t_quantile(confidence, error.dof) * math.hypot(error.noise_se, error.orders_se)
    return Share(center, center - half, center + half, error.noise_se, error.orders_se)
