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
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pgdrag.analysis.subset_values import TrialNoise, Value, t_quantile

Order = tuple[int, ...]
Coalition = frozenset[int]

# What few draws differ by is known so badly that it is drawn towards what noise alone explains, which
# then counts as so many draws; not where the draws contradict it (at `_CONTRADICTED`).
_PRIOR_DRAWS = 4
_CONTRADICTED = 0.01


@dataclass(frozen=True)
class Draw:
    """Orders whose average is one estimate of all shares: an order with its reverse, or all orders."""

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


def all_orders(players: int) -> Draw:
    """Return every order of so many players; mind that there are `players!` of them."""
    return Draw(tuple(permutations(range(players))))


def drawn_orders(players: int, seed: int, draws: int) -> tuple[Draw, ...]:
    """Return the first so many draws of a seed, each an order with its reverse; no two alike.

    More draws of a seed begin with the same ones. Fewer come back where there are no more.
    """
    rng = np.random.default_rng(seed)
    seen: set[Order] = set()
    found: list[Draw] = []
    most = max(math.factorial(players) // 2, 1)
    while len(found) < min(draws, most):
        order = tuple(int(player) for player in rng.permutation(players))
        if order not in seen:
            seen |= {order, order[::-1]}
            found.append(Draw(tuple(dict.fromkeys((order, order[::-1])))))
    return tuple(found)


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
    weights = np.stack([_weights(players, draw, place) for draw in whole_draws])
    centers = np.array([values[one].center for one in sets])
    variances = np.array([values[one].variance for one in sets])
    is_exact = sum(len(draw.orders) for draw in whole_draws) == math.factorial(players)
    errors = _errors(weights, centers, variances, noise.dof, is_exact=is_exact)
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
    mean = np.mean([_weights(players, draw, place) for draw in draws], axis=0)
    return dict(zip(sets, (mean**2).max(axis=0).tolist(), strict=True))


@dataclass(frozen=True)
class _Error:
    noise_se: float
    orders_se: float
    dof: float


def _sorted(sets: frozenset[Coalition]) -> list[Coalition]:
    """Sets in an order that does not change from one run of Python to the next."""
    return sorted(sets, key=lambda one: (len(one), sorted(one)))


def _weights(players: int, draw: Draw, place: Mapping[Coalition, int]) -> NDArray[np.float64]:
    """Return what each value counts for in each share: slower is what loses log throughput."""
    weights = np.zeros((players, len(place)))
    part = 1 / len(draw.orders)
    for order in draw.orders:
        before: Coalition = frozenset()
        for player in order:
            after = before | {player}
            weights[player, place[before]] += part
            weights[player, place[after]] -= part
            before = after
    return weights


def _errors(
    weights: NDArray[np.float64],
    centers: NDArray[np.float64],
    variances: NDArray[np.float64],
    dof: float,
    *,
    is_exact: bool,
) -> list[_Error]:
    draws = len(weights)
    noise = (weights.mean(axis=0) ** 2) @ variances
    if is_exact:
        return [_Error(math.sqrt(one), 0.0, dof) for one in noise]
    if draws == 1:  # what another draw would differ by is anyone's guess
        return [_Error(math.sqrt(one), math.inf, dof) for one in noise]
    # What draws of independent trials would differ by through noise alone, and what they do differ by.
    expected = ((weights**2) @ variances).mean(axis=0)
    seen = (weights @ centers).var(axis=0, ddof=1)
    return [
        _drawn_error(float(n), float(e), float(s), draws, dof)
        for n, e, s in zip(noise, expected, seen, strict=True)
    ]


def _drawn_error(noise: float, expected: float, seen: float, draws: int, dof: float) -> _Error:
    own_dof: float = draws - 1
    is_contradicted = seen > expected * float(stats.f.ppf(1 - _CONTRADICTED, own_dof, dof))
    if not is_contradicted:
        seen = (_PRIOR_DRAWS * expected + own_dof * seen) / (_PRIOR_DRAWS + own_dof)
        own_dof += _PRIOR_DRAWS
    orders = max(seen - expected, 0.0) / draws
    total = noise + orders
    both = total**2 / (noise**2 / dof + orders**2 / own_dof)
    return _Error(math.sqrt(noise), math.sqrt(orders), both)


def _share(center: float, error: _Error, confidence: float) -> Share:
    half = t_quantile(confidence, error.dof) * math.hypot(error.noise_se, error.orders_se)
    return Share(center, center - half, center + half, error.noise_se, error.orders_se)
