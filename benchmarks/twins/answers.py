"""What do trials say of a configuration, on an original and on its twin? Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgdrag.stats.distributions import t_multiplier

ORIGINAL, TWIN = "original", "twin"
BASE = "base"
CONFIDENCE = 0.95
GUILTY_BELOW = 0.9  # of the base's throughput
FOUND_GOAL, RATIO_GOAL = 0.9, 0.15


@dataclass(frozen=True)
class Tried:
    """A trial: the throughput of one side with one configuration, in one block of trials close together.

    Attributes:
        tps: committed a second; of a trial that committed nothing, what half a commit would be.
        reason: why it is no ordinary number, or "".
    """

    database: str
    side: str
    configuration: str
    block: int
    tps: float
    reason: str = ""


@dataclass(frozen=True)
class Effect:
    """Throughput with a configuration / without, with its interval."""

    low: float
    center: float
    high: float

    @property
    def is_guilty(self) -> bool:
        """Whether it is slower, surely, and by more than anybody would bear."""
        return self.center < GUILTY_BELOW and self.high < 1


@dataclass(frozen=True)
class Answer:
    """What both sides say of one configuration."""

    database: str
    configuration: str
    is_harmless: bool
    original: Effect
    twin: Effect

    @property
    def distance(self) -> float:
        """Log of the ratio of both effects."""
        return math.log(self.twin.center / self.original.center)


@dataclass(frozen=True)
class Answers:
    """What all of them come to."""

    answers: tuple[Answer, ...]

    @property
    def guilty(self) -> tuple[Answer, ...]:
        """Those that the original finds guilty."""
        return tuple(x for x in self.answers if x.original.is_guilty)

    @property
    def found(self) -> tuple[Answer, ...]:
        """Those of them that the twin finds, too."""
        return tuple(x for x in self.guilty if x.twin.is_guilty)

    @property
    def only_twin(self) -> tuple[Answer, ...]:
        """Those that only the twin finds guilty."""
        return tuple(x for x in self.answers if x.twin.is_guilty and not x.original.is_guilty)

    def accused(self, side: str) -> tuple[Answer, ...]:
        """Return the harmless ones that a side finds guilty."""
        return tuple(x for x in self.answers if x.is_harmless and getattr(x, side).is_guilty)

    @property
    def median_distance(self) -> float:
        """How far the twin's effect is from the original's, at the median: 0.1 is 10 %."""
        return math.expm1(statistics.median(abs(x.distance) for x in self.answers)) if self.answers else 0.0  # fmt: skip

    @property
    def is_met(self) -> bool:
        """Whether the goals are reached."""
        return (
            len(self.found) >= FOUND_GOAL * len(self.guilty)
            and self.median_distance <= RATIO_GOAL
            and len(self.accused(TWIN)) <= len(self.accused(ORIGINAL))
        )


def answers(tried: Iterable[Tried], harmless: Iterable[tuple[str, str]]) -> Answers:
    """Return what trials say of each configuration that both sides have been tried with.

    Args:
        harmless: databases and configurations of which no effect is expected.
    """
    rates: dict[tuple[str, str], dict[tuple[str, int], float]] = {}
    for one in tried:
        rates.setdefault((one.database, one.side), {})[one.configuration, one.block] = one.tps
    innocent, found = set(harmless), []
    for database in dict.fromkeys(database for database, _ in rates):
        original, twin = (
            effects(rates.get((database, side), {})) for side in (ORIGINAL, TWIN)
        )  # fmt: skip
        found += [
            Answer(database, name, (database, name) in innocent, original[name], twin[name])
            for name in original
            if name in twin
        ]
    return Answers(tuple(found))


def effects(rates: Mapping[tuple[str, int], float]) -> dict[str, Effect]:
    """Return the effect of each configuration on one side, from throughputs by configuration and block.

    What trials vary by is taken from all configurations together, at the median, and from a configuration's own where that is more.
    """
    logs: dict[str, list[float]] = {}
    for (name, block), tps in rates.items():
        base = rates.get((BASE, block))
        if name != BASE and base:
            logs.setdefault(name, []).append(math.log(tps / base))
    usual = _usual_variance([x for x in logs.values() if len(x) > 1])
    freedom = sum(len(x) - 1 for x in logs.values())
    return {name: _effect(x, usual, freedom) for name, x in logs.items()}


def _usual_variance(several: Sequence[Sequence[float]]) -> float:
    if not several:
        return 0.0
    freedom = statistics.median(len(x) - 1 for x in several)
    # A variance's median is less than its mean: Wilson and Hilferty's approximation of chi-squared.
    return statistics.median(map(statistics.variance, several)) / (1 - 2 / (9 * freedom)) ** 3


def _effect(logs: Sequence[float], usual: float, freedom: int) -> Effect:
    mean = statistics.fmean(logs)
    if freedom < 1:
        return Effect(0.0, math.exp(mean), math.inf)
    own = statistics.variance(logs) if len(logs) > 1 else 0.0
    half = t_multiplier(CONFIDENCE, freedom) * math.sqrt(max(own, usual) / len(logs))
    return Effect(math.exp(mean - half), math.exp(mean), math.exp(mean + half))
