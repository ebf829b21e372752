"""An estimate with its bounds: what every number of the analysis is handed on as."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Interval:
    """An estimate with its bounds.

    Attributes:
        center: the estimate; for a censored rate the upper bound stands in `high` and center is 0;
            for a slowdown to a treatment that committed nothing the bound stands in `low` and
            center is infinite.
        low, high: bounds; `high` may be infinite, `low` may be 0.
        confidence: the coverage, in (0, 1).
        method: how it was made, in a few words.
        warnings: to print beside the number, each naming the remedy still untried.
    """

    low: float
    center: float
    high: float
    confidence: float
    method: str
    warnings: tuple[str, ...] = ()


class Verdict(StrEnum):
    """How a treatment compares with another."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Comparison:
    """One treatment against another: how many times *slower* (over 1) or faster (under 1) it is.

    Attributes:
        slowdown: throughput of the reference divided by that of the treatment.
        detectable: the smallest slowdown (as a ratio over 1) that trials like these detect
            with a power of 80 %; infinite where they can detect none.
    """

    verdict: Verdict
    slowdown: Interval
    detectable: float

    @property
    def is_significant(self) -> bool:
        """Whether it is slower or faster."""
        return self.verdict in (Verdict.SLOWER, Verdict.FASTER)
