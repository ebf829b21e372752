"""The findings about holds of different lengths: the values handed to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgdrag.stats.interval import Interval

DOSES_MIN = 5  # for a curve

DoseVerdict = Literal["falls", "does not fall", "inconclusive", "too few doses"]
DeciderVerdict = Literal[
    "the length, not this", "this, not the length", "both", "inconclusive", "cannot be separated"
]


@dataclass(frozen=True)
class DosePoint:
    """One treatment's throughput at the end of its hold.

    Attributes:
        held_s: how long the horizon was held in the window; 0 without a hold.
    """

    rung: str
    held_s: float
    per_s: Interval


@dataclass(frozen=True)
class DoseCurve:
    """Throughput at the end of the hold against its length, on treatments that are otherwise the same.

    Attributes:
        variant: what the treatments have in common, in words.
        points: by the length of the hold.
        doses: how many different lengths there are.
        verdict: "falls" where the interval of the fitted curve excludes no effect; "does not fall" where
            the longest hold costs less than a tenth; "too few doses" under five.
        half_dose_s: the length that halves throughput, by the curve 1 / (1 + length / half_dose);
            None without a curve. Where center is infinite, `low` is a lower bound.
        monotone: Kendall's tau of length and throughput: -1 where each longer hold is slower.
        curve: points (length, rate) of the fitted curve.
    """

    variant: str
    points: tuple[DosePoint, ...]
    doses: int
    verdict: DoseVerdict
    half_dose_s: Interval | None = None
    monotone: float | None = None
    curve: tuple[tuple[float, float], ...] = ()

    @property
    def longest_s(self) -> float:
        """The longest hold."""
        return self.points[-1].held_s


@dataclass(frozen=True)
class Recovery:
    """How long throughput took to recover after the release, for one treatment.

    Attributes:
        held_s: how long the horizon had been held.
        after_release: what was done then: "nothing", "vacuum" or "vacuum and reindex".
        reference: what throughput is compared with: "before the hold", "the hold's beginning" or the name
            of the treatment without a hold.
        share: of the reference that counts as recovered.
        back_s: from the release until throughput had recovered for five seconds; the median of the trials,
            and the range that they allow. Where `high` is infinite, a trial did not recover within its
            window; where center is, most did not, and `low` is a lower bound.
        watched_s: how long after the release the windows went on, at the least.
        censored: trials that did not recover within their window.
    """

    rung: str
    held_s: float
    after_release: str
    reference: str
    share: float
    back_s: Interval
    watched_s: float
    trials: int
    censored: int


@dataclass(frozen=True)
class Decider:
    """How one quantity, and the length of the hold, correlate with throughput.

    Attributes:
        name: of the series.
        with_length: rank correlation of the two.
        this_given_length: partial rank correlation of the log rate with this, the length held constant.
        length_given_this: the other way round.
        this_given_all: as `this_given_length`, the other quantities held constant too; None without any.
    """

    name: str
    label: str
    with_length: float
    this_given_length: Interval
    length_given_this: Interval
    verdict: DeciderVerdict
    this_given_all: Interval | None = None


@dataclass(frozen=True)
class DecidersFinding:
    """Whether the length of the hold decides, or what grows with it, over all trials of one variant.

    Attributes:
        intervals, trials: how many were read.
        deciders: of each quantity that was seen.
        missing: names of those that were not.
    """

    variant: str
    intervals: int
    trials: int
    deciders: tuple[Decider, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class HorizonFinding:
    """All findings about holds of different lengths."""

    doses: tuple[DoseCurve, ...]
    recoveries: tuple[Recovery, ...]
    deciders: tuple[DecidersFinding, ...]
