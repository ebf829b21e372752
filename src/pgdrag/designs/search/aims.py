"""What is a configuration to be best at? One objective; or, of several, each alone and all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pgdrag.designs.search.space import Point


@dataclass(frozen=True)
class Aim:
    """A weighing of the objectives.

    Attributes:
        name: "" where there is one objective.
        weights: of each objective; their sum is 1, so that a log gain is the mean of the objectives' own.
    """

    name: str = ""
    weights: tuple[float, ...] = (1.0,)

    def value(self, values: Sequence[float]) -> float:
        """Return the mean of the objectives' values."""
        return sum(w * x for w, x in zip(self.weights, values, strict=True))

    def variance(self, variances: Sequence[float]) -> float:
        """Return its variance, where theirs have nothing to do with each other."""
        return sum(w * w * x for w, x in zip(self.weights, variances, strict=True))


def aims_of(objectives: Sequence[str]) -> tuple[Aim, ...]:
    """Return what to look for, the main aim first: of several objectives all together, then each alone."""
    if len(objectives) == 1:
        return (Aim(),)
    alone = (Aim(name, tuple(float(name == other) for other in objectives)) for name in objectives)
    return (Aim("all together", (1 / len(objectives),) * len(objectives)), *alone)


@dataclass(frozen=True)
class Best:
    """The best point known after some trials, and its log gain over the baseline.

    Attributes:
        low, high: 95 % interval of the gain.
        is_confirmed: the gain is that of trials after the point was chosen, and not the model's.
    """

    trials: int
    point: Point
    gain: float
    low: float
    high: float
    is_confirmed: bool = False


@dataclass
class Sought:
    """How far the search for one aim is.

    Attributes:
        course: the best that had been tried, after each block of short trials.
        winner: the best point once exploring and competing are over.
        found: the winner with the fewest changes that keep its gain.
        claim: what the short trials after it was chosen say of the found point, before it is proved.
    """

    aim: Aim
    course: list[Best] = field(default_factory=list)
    winner: Point | None = None
    found: Point | None = None
    claim: Best | None = None
