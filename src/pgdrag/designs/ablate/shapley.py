"""What is each change's share of the whole, independent of the order in which they are made?

What a change adds depends on what was changed before it. Its Shapley share is what it adds on average
over all orders of the changes: the shares add up to the whole, changes that do the same get the same,
and one that does nothing gets nothing.

For a few players all orders are used; for more, some are drawn, each with its reverse. Where changes
interact in pairs only, an order and its reverse together give the exact shares: in one of the two a
partner comes before, in the other after. So the drawn orders differ by noise, and by interactions of
three and more. The interval of a share includes both.

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

from pgdrag.designs.ablate.history import Value
from pgdrag.stats.distributions import f_quantile, t_multiplier

Order = tuple[int, ...]
Coalition = frozenset[int]
Floats = NDArray[np.float64]

_CONFIDENCE = 0.95
# The variance between a few draws is shrunk towards what noise alone explains, which counts as this
# many draws; not where the draws contradict it (at `_CONTRADICTED`).
_PRIOR_DRAWS = 4
_CONTRADICTED = 0.01
_CANDIDATES = 16  # that a draw is chosen from
# What a player adds depends on the order if it ranges over more than this many standard errors.
_RANGE_SE = 6.0


@lru_cache(maxsize=4096)
def coalitions(order: Order) -> frozenset[Coalition]:
    """Return every set of players that comes first in this order or in its reverse."""
    every = (frozenset(one[:at]) for one in both_ways(order) for at in range(len(order) + 1))
    return frozenset(every)


def both_ways(order: Order) -> tuple[Order, ...]:
    """Return the order and its reverse, once where they are the same."""
    return tuple(dict.fromkeys((order, order[::-1])))


@dataclass(frozen=True)
class Share:
    """One player's part of the whole, a natural logarithm: above 0 it makes the server slower.

    Attributes:
        low, high: the interval.
        noise_se: the part of the standard error that more trials would reduce.
        orders_se: the part that more orders would reduce; 0 where all were used.
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
        is_bounded: a coalition committed nothing, so the whole and its shares rest on bounds.
        draws: number of draws averaged.
    """

    players: tuple[Share, ...]
    whole: Share
    is_exact: bool
    is_bounded: bool
    draws: int


def all_orders(players: int) -> tuple[Order, ...]:
    """Return one of each order of a few players and its reverse; there are `players!` orders."""
    return tuple(one for one in permutations(range(players)) if one <= one[::-1])


@lru_cache(maxsize=1024)
def drawn_orders(players: int, seed: int, draws: int) -> tuple[Order, ...]:
    """Return the first orders that a seed draws, distinct also when reversed; fewer if no more exist.

    More draws of a seed begin with the same ones. Of several candidates the one is taken that best
    balances which of any three players comes between the other two: the shares of three that
    interact depend on that.
    """
    if draws == 0:
        return ()
    before = drawn_orders(players, seed, draws - 1)
    if len(before) < draws - 1 or len(before) >= max(math.factorial(players) // 2, 1):
        return before
    rng = np.random.default_rng([seed, players, draws])
    seen = {order for draw in before for order in both_ways(draw)}
    candidates: list[Order] = []
    while len(candidates) < (_CANDIDATES if players > 3 else 1):
        order = tuple(int(player) for player in rng.permutation(players))
        if order not in seen:
            candidates.append(order)
    middles = [_middles(draw) for draw in before]

    def repeated(order: Order) -> int:
        own = _middles(order)
        return sum(int((own == other).sum()) for other in middles)

    return (*before, min(candidates, key=lambda order: (repeated(order), order)))


def shares(
    players: int, draws: Sequence[Order], values: Mapping[Coalition, Value]
) -> Shares | None:
    """Estimate the share of each player, with 95 % intervals.

    Args:
        players: their number; they are counted from 0.
        draws: orders to average over, each with its reverse; those with a coalition without a value are left out.
        values: log throughput by coalition.

    Returns:
        None where no draw is complete. The centers add up to that of the whole exactly.
    """
    complete = [draw for draw in draws if coalitions(draw) <= values.keys()]
    if not complete:
        return None
    sets, of_draws = _steps(players, complete)
    steps = np.stack(of_draws)
    weights = steps.mean(axis=1)
    centers = np.array([values[one].center for one in sets])
    variances = np.array([values[one].variance for one in sets])
    dof_of_noise = min(values[one].dof for one in sets)
    from_noise = (weights.mean(axis=0) ** 2) @ variances
    is_exact = sum(len(both_ways(draw)) for draw in complete) == math.factorial(players)
    from_orders, orders_dof = np.zeros(players), np.ones(players)
    if not is_exact:
        from_orders, orders_dof = _orders_variance(steps, centers, variances, dof_of_noise)

    def share(center: float, noise_variance: float, variance: float, own_dof: float) -> Share:
        dof = dof_of_noise
        if math.isfinite(variance) and variance:  # Satterthwaite's degrees of freedom
            squares = noise_variance**2 / dof_of_noise + variance**2 / own_dof
            dof = (noise_variance + variance) ** 2 / squares
        half = t_multiplier(_CONFIDENCE, dof) * math.sqrt(noise_variance + variance)
        errors = math.sqrt(noise_variance), math.sqrt(variance)
        return Share(center, center - half, center + half, *errors)

    first, last = values[frozenset()], values[frozenset(range(players))]
    columns = (weights.mean(axis=0) @ centers, from_noise, from_orders, orders_dof)
    return Shares(
        tuple(share(*row) for row in np.column_stack(columns).tolist()),
        share(first.center - last.center, first.variance + last.variance, 0.0, 1.0),
        is_exact,
        any(values[one].is_bound for one in sets),
        len(complete),
    )


def leverage(players: int, draws: Sequence[Order]) -> dict[Coalition, float]:
    """Return the squared weight of each value in the share where it weighs most."""
    sets, of_draws = _steps(players, draws)
    mean = np.mean([steps.mean(axis=0) for steps in of_draws], axis=0)
    return dict(zip(sets, (mean**2).max(axis=0).tolist(), strict=True))


def _middles(order: Order) -> NDArray[np.int64]:
    """Return which of every three players comes between the other two."""
    place = np.argsort(np.array(order))
    threes = np.array(list(combinations(range(len(order)), 3)), dtype=np.int64).reshape(-1, 3)
    return np.asarray(threes[np.arange(len(threes)), np.argsort(place[threes], axis=1)[:, 1]])


def _steps(players: int, draws: Sequence[Order]) -> tuple[list[Coalition], list[Floats]]:
    """Return the coalitions, and for each draw their weights in what each player adds, by order and player."""

    def rank(one: Coalition) -> tuple[int, list[int]]:
        return len(one), sorted(one)

    # In an order that is the same in every run of Python.
    sets = list(dict.fromkeys(x for draw in draws for x in sorted(coalitions(draw), key=rank)))
    place = {one: at for at, one in enumerate(sets)}
    found = []
    for draw in draws:
        orders = both_ways(draw)
        steps = np.zeros((len(orders), players, len(sets)))
        for at, order in enumerate(orders):
            before: Coalition = frozenset()
            for player in order:
                after = before | {player}
                steps[at, player, place[before]] += 1
                steps[at, player, place[after]] -= 1
                before = after
        found.append(steps)
    return sets, found


def _orders_variance(
    steps: Floats, centers: Floats, variances: Floats, dof: float
) -> tuple[Floats, Floats]:
    """Return the variance of each share that comes from drawing orders, and its degrees of freedom.

    Args:
        steps: weights by draw, order, player and value.
    """
    weights = steps.mean(axis=1)
    draws, players = weights.shape[:2]
    if draws == 1:  # nobody knows what another draw would give
        return np.full(players, math.inf), np.ones(players)
    # The variance between draws that noise explains, and the one observed.
    expected = ((weights**2) @ variances).mean(axis=0)
    observed = (weights @ centers).var(axis=0, ddof=1)
    is_beyond = observed > expected * f_quantile(1 - _CONTRADICTED, draws - 1, dof)
    excess = observed - expected
    least = np.zeros(players)
    if is_beyond.any():
        # Where three interact, each draw treats one of them differently. That it was never this one may be
        # chance: so all players whose steps depend on the order are assumed to vary alike, relative to
        # their range.
        added = (steps @ centers).reshape(-1, players)
        chance = ((steps**2) @ variances).max(axis=(0, 1))
        reach = np.ptp(added, axis=0) ** 2
        depends = reach > _RANGE_SE**2 * chance
        if depends.any():
            relative = float(np.maximum(excess[depends] / reach[depends], 0.0).mean())
            least = np.where(depends, relative * reach, 0.0)
    moderated_dof = draws - 1 + _PRIOR_DRAWS
    moderated = np.maximum((draws - 1) * excess / moderated_dof, 0.0)
    between = np.where(is_beyond, excess, moderated)
    is_moderated = ~is_beyond & (least <= moderated)
    own_dof = np.where(is_moderated, moderated_dof, draws - 1)
    return np.maximum(between, least) / draws, own_dof
