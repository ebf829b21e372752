"""A level of a factor, a treatment, and the treatments that a design asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pgdrag.english import cut

LONGEST_SHOWN = 100  # characters of a level's value


@dataclass(frozen=True, order=True)
class Level:
    """One value of one factor.

    Attributes:
        kind: the kind of factor, as `pgdrag list` names it: "setting", …
        name: the factor's own name, "shared_buffers".
        value: as the user wrote it, "8MB".
    """

    kind: str
    name: str
    value: str

    @property
    def factor(self) -> tuple[str, str]:
        """Which factor this is a level of."""
        return (self.kind, self.name)

    @property
    def shown(self) -> str:
        """The value as people read it; of one that carries a file, what the file is."""
        short = self.value.partition(" {")[0] if len(self.value) > LONGEST_SHOWN else self.value
        return cut(short, LONGEST_SHOWN)


@dataclass(frozen=True)
class Treatment:
    """A level for each factor of the experiment; a factor not named keeps its default."""

    name: str
    levels: tuple[Level, ...] = ()

    def with_levels(self, name: str, levels: Iterable[Level]) -> Treatment:
        """Return this treatment changed by `levels`; a later level of a factor replaces an earlier."""
        merged = {level.factor: level for level in self.levels}
        merged.update((level.factor, level) for level in levels)
        return Treatment(name, tuple(merged.values()))

    def of_kind(self, kind: str) -> dict[str, str]:
        """Return the levels of one kind of factor, by name."""
        return {level.name: level.value for level in self.levels if level.kind == kind}

    @cached_property
    def identity(self) -> str:
        """A digest of the levels alone: equal treatments have equal identities, whatever their names."""
        text = json.dumps(sorted((x.kind, x.name, x.value) for x in self.levels))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Block:
    """Treatments that a design wants run next, close together and in random order; none: it is done.

    Attributes:
        treatments: one may stand in it more than once.
        is_brief: by short trials, which are enough to tell what matters from what does not.
        is_patient: a window with few commits goes on; else it ends when it was to end, and tells no more than that
            it is slow.
        replicates: how often it is run, at most as often as the study says; None: as often as the study says.
    """

    treatments: tuple[Treatment, ...] = ()
    is_brief: bool = False
    is_patient: bool = True
    replicates: int | None = None

    def times(self, replicates: int) -> int:
        """Return how often it is run in a study with this many replicates."""
        asked = replicates if self.replicates is None else self.replicates
        assert 1 <= asked <= replicates, f"{asked} of {replicates} replicates"
        return asked


@dataclass(frozen=True)
class Forecast:
    """How many trials are still to come, at least and at most.

    Attributes:
        most_in_all: of whole and short ones together, where both maxima exclude each other; None: their sum.
    """

    least: int
    most: int
    brief_least: int = 0
    brief_most: int = 0
    most_in_all: int | None = None

    def times(self, replicates: int) -> Forecast:
        """Return the trials of this many replicates."""
        return Forecast(
            replicates * self.least,
            replicates * self.most,
            replicates * self.brief_least,
            replicates * self.brief_most,
            None if self.most_in_all is None else replicates * self.most_in_all,
        )

    def without(self, trials: int = 1, *, is_brief: bool) -> Forecast:
        """Return what is left after `trials` more trials."""
        whole, brief = (0, trials) if is_brief else (trials, 0)
        return Forecast(
            max(0, self.least - whole),
            max(0, self.most - whole),
            max(0, self.brief_least - brief),
            max(0, self.brief_most - brief),
            None if self.most_in_all is None else max(0, self.most_in_all - trials),
        )

    @property
    def fewest(self) -> int:
        """Trials at least, of either length."""
        return self.least + self.brief_least

    @property
    def greatest(self) -> int:
        """Trials at most, of either length."""
        both = self.most + self.brief_most
        return both if self.most_in_all is None else min(both, self.most_in_all)

    @property
    def longest(self) -> tuple[int, int]:
        """Whole and short trials in the case that takes longest: as many whole ones as there may be."""
        whole = min(self.most, self.greatest)
        return whole, min(self.brief_most, self.greatest - whole)
