"""What holds of different lengths came to: the values handed to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgdrag.stats.interval import Interval

DOSES_MIN = 5  # that make a curve

DoseVerdict = Literal["falls", "does not fall", "inconclusive", "too few doses"]
DeciderVerdict = Literal[
    "the length, not this", "this, not the length", "both", "inconclusive", "cannot be separated"
]


@dataclass(frozen=True)
class DosePoint:
    """One rung's throughput at the end of its hold.

    Attributes:
        held_s: for how long the horizon was held in the window; 0 where nothing was.
    """

    rung: str
    held_s: float
    per_s: Interval


@dataclass(frozen=True)
class DoseCurve:
    """Throughput at the end of the hold against its length, on rungs that are else alike.

    Attributes:
        variant: what the rungs have in common, in words.
        points: by the length of the hold.
        verdict: "falls" where the interval of the fitted curve excludes that the length does nothing;
            "does not fall" where the longest hold costs less than a tenth; "too few doses" under five.
        half_dose_s: the length that halves throughput, by the curve 1 / (1 + length / half_dose);
            None without a curve. Where center is infinite, `low` is a lower bound.
        monotone: Kendall's tau of length and throughput: -1 where each longer hold is slower.
        curve: points (length, rate) of the fitted curve.
        sentence: all that in words.
    """

    variant: str
    points: tuple[DosePoint, ...]
    verdict: DoseVerdict
    half_dose_s: Interval | None
    monotone: float | None
    curve: tuple[tuple[float, float], ...]
    sentence: str


@dataclass(frozen=True)
class Recovery:
    """How long after the release throughput was back, on one rung.

    Attributes:
        held_s: for how long the horizon had been held.
        after_release: what was done then: "nothing", "vacuum" or "vacuum and reindex".
        reference: what it had to come back to: "before the hold", "the hold's beginning" or the rung that
            holds nothing.
        share: of that which counts as back.
        back_s: from the release until throughput was back for five seconds on end; the median of the
            trials, and the range of what each of them allows. Where `high` is infinite a trial was not back
            within its window; where center is, most were not, and `low` is a lower bound.
        watched_s: how long after the release the windows went on, at the least.
        trials, censored: and those not back within their window.
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
    sentence: str


@dataclass(frozen=True)
class Decider:
    """What one quantity, beside the length of the hold, has to do with throughput.

    Attributes:
        name: of the series.
        with_length: rank correlation of the two.
        this_given_length: partial rank correlation of the log rate with this, the length kept equal.
        length_given_this: the other way round.
        this_given_all: as `this_given_length`, the other quantities kept equal as well; None where there are
            none.
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
        intervals, trials: that were read; all of a trial's intervals are drawn together.
        deciders: of each quantity that was seen.
        missing: names of those that were not.
        sentence: the verdict in words.
    """

    variant: str
    intervals: int
    trials: int
    deciders: tuple[Decider, ...]
    missing: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class HorizonFinding:
    """All that holds of different lengths came to."""

    doses: tuple[DoseCurve, ...]
    recoveries: tuple[Recovery, ...]
    deciders: tuple[DecidersFinding, ...]
