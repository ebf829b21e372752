"""Which configurations are worth a trial next, and which is the best by what is known?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgdrag.designs.search.feasible import Feasible
from pgdrag.designs.search.response import Array, Response
from pgdrag.designs.search.space import Point

_CAUTION = 1.0  # standard deviations that the gain of a change nobody expects must exceed to be in the best
_DOUBTFUL = 0.5  # a value of a greater risk is not chosen


def best(response: Response, feasible: Feasible) -> Point:
    """Return the best point by what is known: that of the best effects, or one that was tried and is surely better.

    A point that failed or lost much is not it, although it worked another time, unless every other one did, too.
    """
    found, ruinous = summed(response, feasible), _ruinous(response, feasible)
    for point in dict.fromkeys(one.point for one in response.tried if one.point not in ruinous):
        more, sd = response.gain(point, found)
        if more > _CAUTION * sd or found in ruinous:
            found = point
    return found


def best_tried(response: Response, feasible: Feasible) -> Point:
    """Return the best of the points that were tried and ruined nothing; what effects add up to is no part of it."""
    tried = dict.fromkeys(one.point for one in response.tried)
    ruinous = _ruinous(response, feasible)
    sound = [point for point in tried if point not in ruinous]
    return max(sound or tried, key=lambda point: response.gain(point)[0])


def _ruinous(response: Response, feasible: Feasible) -> set[Point]:
    """Return the points that failed, or lost so much that the model ignores how much."""
    lost = {one.point for one in response.tried if one.is_large_loss}
    return (lost - {response.kernels.space.start}) | {*feasible.failed}


def summed(response: Response, feasible: Feasible) -> Point:
    """Return the point of the best effects: a change that may well be worth nothing is not in it."""
    space, risks = response.kernels.space, feasible.risks()
    found = [
        int(
            np.argmax(np.where(risk > 0, -np.inf, mean - (0 if one.is_expected else _CAUTION) * sd))
        )
        for one, (mean, sd), risk in zip(space.dimensions, response.effects, risks, strict=True)
    ]
    return space.effective(tuple(found))


def propose(
    response: Response,
    feasible: Feasible,
    incumbent: Point,
    *,
    width: int,
    rng: np.random.Generator,
) -> Point:
    """Return a point that may be better than the incumbent: the best of a draw from the posterior.

    Of the dimensions not expected to matter, only those that gain most in the draw are changed: many at once
    would tell nothing of any.

    Args:
        width: how many of these.

    Source: Thompson sampling (Thompson 1933; Russo et al. 2018, arXiv 1707.02038).
    """
    drawn, risks = response.draw(rng), feasible.risks()
    chosen, gains = _maxima(drawn, [risk > _DOUBTFUL for risk in risks], incumbent)
    dimensions = response.kernels.space.dimensions
    others = [at for at, one in enumerate(dimensions) if not one.is_expected and gains[at] > 0]
    kept = {*sorted(others, key=lambda at: -gains[at])[:width]}
    point = tuple(
        chosen[at] if one.is_expected or at in kept else incumbent[at]
        for at, one in enumerate(dimensions)
    )
    cautious = feasible.cautious(point, incumbent, risks)
    return response.kernels.space.effective(cautious)


def _maxima(
    effects: Sequence[Array], forbidden: Sequence[NDArray[np.bool_]], incumbent: Point
) -> tuple[list[int], list[float]]:
    """Return the best value of each dimension, and by how much it is better than the incumbent's."""
    chosen, gains = [], []
    for of_one, no, now in zip(effects, forbidden, incumbent, strict=True):
        value = int(np.argmax(np.where(no, -np.inf, of_one)))
        gain = float(of_one[value] - of_one[now])
        chosen.append(value if gain > 0 else now)
        gains.append(gain)
    return chosen, gains
