"""By which curves may a rate change, and which members of a family are to be tried?

A shape is the logarithm of the rate less that at its beginning, over a stretch that goes from 0 to
1. It is named by what it comes to at the end, `change`, which means the same in every family; so
that families are searched alike, and no search has a starting value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Model = Literal["exponential", "hyperbolic", "exponential toward a floor"]

_CHANGES = 81
_BENDS = 16
_LEAST = 1e-6


@dataclass(frozen=True)
class Box:
    """Between which bounds members are to be tried.

    Attributes:
        low, high: of their changes.
        straightest, most_bent: of how much faster than without a floor the fall begins.
    """

    low: float
    high: float
    straightest: float = 0.05
    most_bent: float = 30.0


@dataclass(frozen=True)
class Shapes:
    """Members of one family.

    Attributes:
        changes: logarithm of the rate at the end over that at the beginning.
        bends: rates of approach to the floor, per length of the stretch; 1 in families without one.
    """

    family: Family
    changes: Values
    bends: Values

    def around(self, likely: NDArray[np.bool_]) -> Box:
        """Return bounds that hold the likely members, and reach to the next on either side."""
        changes, extra = self.changes, self.bends - np.maximum(-self.changes, 0.0)
        step = float(np.diff(np.unique(changes)).min(initial=np.inf))
        ranked = np.unique(extra.round(12))
        times = float((ranked[1:] / ranked[:-1]).min(initial=2.0)) if ranked[0] > 0 else 1.0
        return Box(
            float(changes[likely].min()) - step,
            float(changes[likely].max()) + step,
            max(float(extra[likely].min()) / times, Box.straightest),
            min(float(extra[likely].max()) * times, Box.most_bent),
        )

    def at(self, places: Values) -> Values:
        """Return a row a member: the log rate at places in 0…1, less that at 0."""
        return self.family.curve(self.changes[:, None], self.bends[:, None], places[None, :])

    def half_lives(self) -> Values:
        """Return where each has halved, in lengths of the stretch; infinite where it never does."""
        return self.family.half_life(self.changes, self.bends)

    def only(self, at: int) -> Shapes:
        """Return one of them."""
        return Shapes(self.family, self.changes[at : at + 1], self.bends[at : at + 1])


class Family(ABC):
    """Curves of one kind.

    Class attributes:
        parameters: that shape it, beside its level.
    """

    name: ClassVar[Model]
    parameters: ClassVar[int]

    def members(self, box: Box) -> Shapes:
        """Return members within the bounds, evenly spread."""
        changes = np.linspace(box.low, box.high, _CHANGES)
        return Shapes(self, changes, np.ones_like(changes))

    @abstractmethod
    def curve(self, changes: Values, bends: Values, places: Values) -> Values:
        """Return log rates at places in 0…1, less that at 0."""

    @abstractmethod
    def half_life(self, changes: Values, bends: Values) -> Values:
        """Return where the rate is half of that at 0; infinite where it never is."""


class Exponential(Family):
    """The same share is lost, or won, each second: a straight line of the logarithm."""

    name: ClassVar[Model] = "exponential"
    parameters: ClassVar[int] = 1

    def curve(self, changes: Values, bends: Values, places: Values) -> Values:
        """Return a line."""
        return np.asarray(changes * places)

    def half_life(self, changes: Values, bends: Values) -> Values:
        """Return the inverse of the slope."""
        return np.where(changes < 0, np.log(2) / np.maximum(-changes, _LEAST), np.inf)


class Hyperbolic(Family):
    """Each transaction costs more by the same amount each second: r0 / (1 + t/tau)."""

    name: ClassVar[Model] = "hyperbolic"
    parameters: ClassVar[int] = 1

    def members(self, box: Box) -> Shapes:
        """Return falling members only: a cost that shrinks by an amount comes to nothing."""
        if box.low >= -_LEAST:
            return Shapes(self, np.empty(0), np.empty(0))
        return super().members(replace(box, high=min(box.high, -_LEAST)))

    def curve(self, changes: Values, bends: Values, places: Values) -> Values:
        """Return -log(1 + t/tau)."""
        return np.asarray(-np.log1p(np.expm1(-changes) * places))

    def half_life(self, changes: Values, bends: Values) -> Values:
        """Return tau: then the cost has doubled."""
        return np.asarray(1 / np.maximum(np.expm1(-changes), _LEAST))


class TowardFloor(Family):
    """It falls, or rises, toward a rate at which it stays."""

    name: ClassVar[Model] = "exponential toward a floor"
    parameters: ClassVar[int] = 2

    def members(self, box: Box) -> Shapes:
        """Return changes crossed with bends; a floor lies above 0."""
        changes = np.linspace(box.low, box.high, _CHANGES // 2)
        more = np.geomspace(box.straightest, box.most_bent, _BENDS)
        change, bend = (x.ravel() for x in np.meshgrid(changes, more, indexing="ij"))
        return Shapes(self, change, bend + np.maximum(-change, 0.0))

    def curve(self, changes: Values, bends: Values, places: Values) -> Values:
        """Return log(floor + (1 - floor) exp(-bend t))."""
        floor = _floor(changes, bends)
        return np.asarray(np.log(floor + (1 - floor) * np.exp(-bends * places)))

    def half_life(self, changes: Values, bends: Values) -> Values:
        """Return where half is passed, if the floor lies below it."""
        floor = _floor(changes, bends)
        inside = np.where(floor < 0.5, (0.5 - floor) / np.where(floor < 0.5, 1 - floor, 1.0), 1.0)
        return np.where(floor < 0.5, -np.log(np.maximum(inside, 1e-300)) / bends, np.inf)


FAMILIES: tuple[Family, ...] = (Exponential(), Hyperbolic(), TowardFloor())


def _floor(changes: Values, bends: Values) -> Values:
    """Return the rate that the curve comes to in the end, over that at the beginning."""
    return np.asarray((np.exp(changes) - np.exp(-bends)) / -np.expm1(-bends))
