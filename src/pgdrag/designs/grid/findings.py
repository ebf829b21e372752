"""What a grid found of its factors together: the values handed to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pgdrag.findings.values import Comparison, DesignFinding, Interval


@dataclass(frozen=True)
class FactorFinding:
    """One factor of a grid.

    Attributes:
        name: of the factor.
        levels: their values; the first is what the others are compared with.
    """

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class CombinationFinding:
    """One combination of levels.

    Attributes:
        treatment: its name.
        levels: values, in the order of the factors.
        to_first: against the combination of each factor's first level; None for that one itself, and where
            a side has no number.
    """

    treatment: str
    levels: tuple[str, ...]
    to_first: Comparison | None


@dataclass(frozen=True)
class InteractionFinding:
    """What a level of one factor and a level of another make together.

    Attributes:
        factors: names of the two.
        changes: of each, "from → to".
        alone: how many times slower each makes it by itself, in the order of `factors`.
        both: how many times slower both make it together.
        product: what `alone` come to, multiplied.
        interaction: `both` divided by `product`: 1 where neither acts on the other.
        is_significant: it differs from 1, by an interval that allows for the number of interactions.
        detectable: the smallest interaction, as a ratio over 1 that these trials can detect.
        averaged_over: combinations of the other factors' levels, over which all this is averaged; 1 where
            there is no other factor.
        sentence: the same in words.
    """

    factors: tuple[str, str]
    changes: tuple[str, str]
    alone: tuple[Interval, Interval]
    both: Interval
    product: float
    interaction: Interval
    is_significant: bool
    detectable: float
    averaged_over: int
    sentence: str = ""


@dataclass(frozen=True)
class GridFinding(DesignFinding):
    """What a grid found.

    Attributes:
        factors: that were crossed.
        baseline: name of the treatment that rungs are compared with.
        combinations: all that were asked for, in order.
        interactions: of each two factors, and each two of their levels beyond the first.
        method: how the intervals were made, in words.
    """

    completes_answer: ClassVar[bool] = True
    names_all_treatments: ClassVar[bool] = False

    factors: tuple[FactorFinding, ...]
    baseline: str
    combinations: tuple[CombinationFinding, ...]
    interactions: tuple[InteractionFinding, ...]
    method: str

    def comparison(self, rung: str) -> Comparison | None:
        """Return a combination against the baseline, where that is the first of them."""
        if not self.combinations or self.combinations[0].treatment != self.baseline:
            return None
        return next((one.to_first for one in self.combinations if one.treatment == rung), None)
