"""How often does a machine see a difference between a treatment and itself?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pgdrag.english import counted, percent_words
from pgdrag.findings.find import design_finding
from pgdrag.model import RunRecord
from pgdrag.stats.counts import exact_share
from pgdrag.stats.interval import Interval


@dataclass(frozen=True)
class FalseAlarms:
    """Comparisons of a treatment with itself, made on one machine.

    Attributes:
        alarms: how many of them found a significant difference, where there is none.
    """

    comparisons: int
    alarms: int

    @property
    def rate(self) -> Interval:
        """The share of false alarms, with its exact interval."""
        return exact_share(self.alarms, self.comparisons)

    @property
    def words(self) -> str:
        """The share in a sentence."""
        rate = self.rate
        bounds = f"{percent_words(rate.low)} to {percent_words(rate.high)}"
        return (
            f"False alarms on this machine: {self.alarms} of {counted(self.comparisons, 'comparison')} of a server with "
            f"itself, {percent_words(rate.center)} (95 % CI {bounds})."
        )


def false_alarms(runs: Iterable[RunRecord]) -> FalseAlarms | None:
    """Count what comparisons of a treatment with itself found; None where none of them has a verdict."""
    found = [
        comparison.is_significant
        for run in runs
        if (design := design_finding(run)) is not None
        and (comparison := design.comparison(run.study.rungs[-1].name)) is not None
    ]
    return FalseAlarms(len(found), sum(found)) if found else None
