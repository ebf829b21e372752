"""What has an ablation been told so far, and how many trials may it still ask for?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pgdrag.designs.ablate.subset_values import Changes, SubsetValues
from pgdrag.findings.readings import Reading
from pgdrag.model import Outcome


@dataclass(frozen=True)
class AblationOptions:
    """What an ablation aims at and may cost.

    Attributes:
        threshold: the smallest slowdown or speedup worth a name, as a ratio less 1.
        share_precision: half the length wanted of a share's interval, as a part of the whole.
        max_trials: short and long ones together; None: `default_max_trials` of each replicate.
        max_pairs: of suspected pairs, at most so many get a factorial.
        has_brief_screening: short trials tell the survivors; else long ones do.
        seed: of the orders drawn.
    """

    threshold: float = 0.05
    share_precision: float = 0.05
    max_trials: int | None = None
    max_pairs: int = 6
    has_brief_screening: bool = True
    seed: int = 0

    @property
    def matters(self) -> float:
        """The threshold as a logarithm."""
        return math.log1p(self.threshold)


def default_max_trials(changes: int) -> int:
    """Return a budget that lets a search through so many changes come to its end, mostly."""
    return 4 * changes + 88


@dataclass(frozen=True)
class Wanted:
    """One block: sets of changes to run upon the reference; a set may stand in it more than once."""

    sets: tuple[Changes, ...]
    is_brief: bool


@dataclass(frozen=True)
class Told:
    """What came of one trial; `reading` is None where it has no number."""

    changes: Changes
    is_brief: bool
    reading: Reading | None
    outcome: Outcome


class Book:
    """Everything told, and the budget; each stage of the search asks through it."""

    def __init__(self, limit: int, *, is_of_each_replicate: bool = False) -> None:
        self.limit = limit
        self._is_of_each_replicate = is_of_each_replicate
        self.brief = SubsetValues()
        self.full = SubsetValues()
        self.told = 0
        self.told_brief = 0
        self._asked = 0
        self._pending = 0  # of those asked for, not told yet

    def add(self, told: Iterable[Told]) -> None:
        """Write down trials."""
        self._pending = 0
        for one in told:
            self.told += 1
            self.told_brief += one.is_brief
            values = self.brief if one.is_brief else self.full
            values.add(one.changes, one.reading, one.outcome)

    @property
    def left(self) -> int:
        """How many sets may still be run, once each, with those that are asked for now."""
        asked = self._asked - self._pending
        if self._is_of_each_replicate:
            return max(self.limit - asked, 0)
        # The laboratory may run every set several times: its replicates.
        times = max(round(self.told / asked), 1) if asked else 1
        return max(self.limit - self.told, 0) // times

    def want(self, sets: Sequence[Changes], *, is_brief: bool) -> Iterator[Wanted]:
        """Ask for one block, as far as the budget goes; nothing where nothing is wanted."""
        affordable = tuple(sets[: self.left])
        if affordable:
            self._asked += len(affordable)
            self._pending = len(affordable)
            yield Wanted(affordable, is_brief)
