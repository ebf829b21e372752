"""Which configurations are there? Points of a grid, one value of each dimension."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pgdrag.designs.search.parameters import Dimension
from pgdrag.english import cut, listed
from pgdrag.model import Level, Treatment
from pgdrag.units import size_of

Point = tuple[int, ...]  # by dimension, the place of its value
_NAME_LENGTH = 60  # of a treatment, at most


@dataclass(frozen=True)
class Space:
    """The configurations that a search chooses from.

    Attributes:
        base: the baseline; its levels hold wherever a dimension says nothing else.
    """

    dimensions: tuple[Dimension, ...]
    base: Treatment

    @cached_property
    def start(self) -> Point:
        """The baseline as a point."""
        return tuple(one.values.index(one.start) for one in self.dimensions)

    @cached_property
    def rule(self) -> Point:
        """What the rules of thumb say; the baseline where they say nothing."""
        return self.effective(
            tuple(one.values.index(one.rule or one.start) for one in self.dimensions)
        )

    @cached_property
    def _needs(self) -> list[tuple[int, int, frozenset[int]]]:
        """Each dimension that needs another one, that one, and the places of its values with which it matters."""
        at = {one.name: place for place, one in enumerate(self.dimensions)}
        return [
            (
                place,
                at[one.needs],
                frozenset(map(self.dimensions[at[one.needs]].values.index, one.needs_values)),
            )
            for place, one in enumerate(self.dimensions)
            if one.needs in at
        ]

    def effective(self, point: Point) -> Point:
        """Return a point with the baseline's values in the dimensions that do nothing in it."""
        found = list(point)
        for at, other, values in self._needs:
            if point[other] not in values:
                found[at] = self.start[at]
        return tuple(found)

    def near(self, treatment: Treatment) -> Point:
        """Return the point nearest to a treatment, in the dimensions whose values it names."""
        values = {level.factor: level.value for level in treatment.levels}
        return tuple(
            start
            if (value := values.get((one.kind, one.name))) is None
            else _nearest(one, value, start)
            for one, start in zip(self.dimensions, self.start, strict=True)
        )

    def changed(self, point: Point) -> tuple[int, ...]:
        """Return the dimensions in which a point differs from the baseline."""
        return tuple(
            at
            for at, (one, start) in enumerate(zip(point, self.start, strict=True))
            if one != start
        )

    def only(self, point: Point, kept: Iterable[int]) -> Point:
        """Return the baseline with a point's values in some dimensions."""
        chosen = {*kept}
        return self.effective(
            tuple(
                one if at in chosen else start
                for at, (one, start) in enumerate(zip(point, self.start, strict=True))
            )
        )

    def level(self, at: int, value: int) -> Level:
        """Return one value of a dimension as a level."""
        one = self.dimensions[at]
        return Level(one.kind, one.name, one.values[value])

    def levels(self, point: Point) -> tuple[Level, ...]:
        """Return the levels that turn the baseline into a point."""
        return tuple(self.level(at, point[at]) for at in self.changed(point))

    def treatment(self, point: Point, name: str = "") -> Treatment:
        """Return a point as a treatment; without a name it is called by its levels."""
        if point == self.start:
            return self.base
        return self.base.with_levels(name or self.words(point), self.levels(point))

    def words(self, point: Point) -> str:
        """Return a point's levels in a few words, and a number that tells it from others of the same beginning."""
        levels = self.levels(point)
        few = 2
        if len(levels) <= few:
            return cut(listed([f"{x.name} = {x.shown}" for x in levels]), _NAME_LENGTH)
        digest = self.base.with_levels("", levels).identity[:6]
        return f"{len(levels)} changes ({digest})"


def _nearest(dimension: Dimension, value: str, otherwise: int) -> int:
    if value in dimension.values:
        return dimension.values.index(value)
    size = size_of(value)
    sizes = {at: size_of(one) for at, one in enumerate(dimension.values)}
    positive = {at: one for at, one in sizes.items() if one is not None and one > 0}
    if size is None or size <= 0 or not positive or not dimension.is_ordered:
        return otherwise
    return min(positive, key=lambda at: abs(math.log(positive[at] / size)))
