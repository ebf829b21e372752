"""What a ladder with single changes found: the values handed to the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.designs.ablate.labels import Label
from pgdrag.findings.values import Comparison, DesignFinding, Interval


@dataclass(frozen=True)
class RungChange:
    """What one step of a ladder is to the whole, looked at in three ways.

    Attributes:
        rung: name of the rung that takes it.
        title: of that rung.
        label: what it is, with `meaning` in a sentence.
        step: the rung against the one before it; None where a side has no number.
        to_baseline: the rung against the baseline.
        alone: the baseline with this change against the baseline.
        with_others: the whole against the whole without this change.
        alone_part, with_others_part: of the whole, on the log scale; None where the whole does not differ significantly from
            no change.
        carries: by both contrasts it is more than half of the whole.
        detectable: the smallest effect, as a ratio over 1, that the coarser of the two contrasts can detect;
            infinite where there is none.
    """

    rung: str
    title: str
    label: Label
    meaning: str
    step: Comparison | None
    to_baseline: Comparison | None
    alone: Comparison | None
    with_others: Comparison | None
    alone_part: Interval | None
    with_others_part: Interval | None
    carries: bool
    detectable: float


@dataclass(frozen=True)
class LadderFinding(DesignFinding):
    """What a ladder found whose changes were also tried one by one.

    Attributes:
        baseline, target: names of the first rung, and of the last that could be tested here.
        whole: the target against the baseline; None where a side has no number.
        changes: of each step, in the ladder's order.
        together: how many times slower all of them are than the product of each alone; None where
            one of these is not known.
        method: how the intervals were made, in words.
        sentence: which change carries the whole, or why that cannot be said.
        rates: committed transactions/s of each rung that has a number, with the noise of all trials.
    """

    completes_answer: ClassVar[bool] = True

    baseline: str
    target: str
    whole: Comparison | None
    changes: tuple[RungChange, ...]
    together: Interval | None
    method: str
    sentence: str
    rates: Mapping[str, Interval]

    def rate(self, rung: str) -> Interval | None:
        """Return a rung's rate, with the noise of all trials."""
        return self.rates.get(rung)

    def comparison(self, rung: str) -> Comparison | None:
        """Return a rung against the baseline, with the noise of all trials."""
        return next((one.to_baseline for one in self.changes if one.rung == rung), None)

    def step(self, rung: str) -> Comparison | None:
        """Return a rung against the one before it, with the noise of all trials."""
        return next((one.step for one in self.changes if one.rung == rung), None)

    def claim_notes(self) -> tuple[str, ...]:
        """Return which single change carries the whole, to stand beside a published total."""
        return (self.sentence,)
