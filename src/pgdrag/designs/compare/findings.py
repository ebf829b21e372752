"""What a comparison of two treatments found: the values that its report is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pgdrag.designs.compare.pairs import Pair
from pgdrag.designs.compare.quantities import Quantity
from pgdrag.designs.compare.rules import End, Gate, Look
from pgdrag.findings.values import Comparison, DesignFinding, Interval, Verdict
from pgdrag.stats.distributions import f_beyond
from pgdrag.stats.line import line_through

_TREND_LEVEL = 0.01  # a trend is looked for in every run: few of those that are none may be told
_TREND_MATTERS = 0.01
_TREND_PAIRS = 4
_NOISE_LEVEL = 0.01


@dataclass(frozen=True)
class NoiseFloor:
    """What pairs of one and the same treatment differed by on this machine.

    Attributes:
        log_sd: standard deviation of the log ratio from pair to pair.
        pairs: that it was estimated from.
        when: they were run, in words; "" where that is unknown.
    """

    log_sd: float
    pairs: int
    when: str = ""

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> NoiseFloor | None:
        """Return the noise floor among a design's parameters, if it is there."""
        found = parameters.get("noise_floor")
        return None if found is None else cls(**found)


@dataclass(frozen=True)
class PairFinding:
    """One pair of trials.

    Attributes:
        block: its number in the run.
        reference_per_s, treatment_per_s: committed transactions per second; 0 where nothing was.
        slowdown: reference divided by treatment; infinite where the treatment committed nothing,
            and 1 where neither did.
        is_reference_first: the reference's trial ran first.
    """

    block: int
    reference_per_s: float
    treatment_per_s: float
    slowdown: float
    is_reference_first: bool


@dataclass(frozen=True)
class Prospect:
    """What the noise seen lets a comparison tell.

    Attributes:
        slowdown: a ratio over 1.
        pairs: that tell it from none four times in five; None: more than 1,000.
    """

    slowdown: float
    pairs: int | None


@dataclass(frozen=True)
class Trend:
    """How the speed of both sides changed over the run, as a straight line.

    Attributes:
        change: from the first pair to the last, as a ratio over 1 or under.
        lasted_s: from the start of the first trial to that of the last one.
    """

    change: float
    lasted_s: float


@dataclass(frozen=True)
class CompareFinding(DesignFinding):
    """The verdict on two treatments.

    Attributes:
        reference, treatment: their names.
        verdict: how the treatment compares, at the confidence of the whole comparison.
        slowdown: throughput of the reference divided by that of the treatment, with the interval that
            the verdict rests on: widened for the looks taken before. None without a number.
        fixed: the interval as if the number of pairs had been settled beforehand. None where commits
            are counted (`slowdown` is exact then), or with fewer than two pairs.
        bootstrap: the same by the bootstrap; None with too few pairs for it.
        p: that there is no difference, of the exact randomization test (of t tests with fewer than
            10 pairs), not adjusted for the looks; None as for `fixed`.
        gate: whether it passes `margin`; None where none was set.
        margin: the largest slowdown that passes, as a share.
        equivalence: slowdowns within 1/(1 + equivalence) … 1 + equivalence count as equal.
        end: why no further pair was run.
        looks: what each look saw, in order.
        pairs: each pair that was compared, in the order run.
        detectable: the smallest slowdown (over 1) that these pairs would have told from none four
            times in five; infinite where nothing could be told.
        more_pairs: how many more would decide it four times in five, if effect and noise stay as
            they are; 0 where it is decided, None where that cannot be said or is over 1,000.
        pair_log_sd: standard deviation of the log slowdown from pair to pair; None as for `fixed`.
        prospects: how many pairs it takes to tell which slowdown, at this noise; none without it.
        is_same: both sides are the same treatment, so that all that differs is noise.
        noise_floor: what pairs of one treatment differed by on this machine; None: not calibrated.
        order: how many times slower the second trial of a pair was, whichever treatment it ran; None
            where that cannot be told from noise.
        trend: None where there is none that matters.
        quantities: latency and processor time on both sides.
        reference_outcomes, treatment_outcomes: how often each side's trials ended in each way.
    """

    # Its interval knows of the looks that were taken at it.
    has_rungs: ClassVar[bool] = False

    reference: str
    treatment: str
    verdict: Verdict
    slowdown: Interval | None
    fixed: Interval | None
    bootstrap: Interval | None
    p: float | None
    gate: Gate | None
    margin: float | None
    equivalence: float
    end: End
    looks: tuple[Look, ...]
    pairs: tuple[PairFinding, ...]
    detectable: float
    more_pairs: int | None
    pair_log_sd: float | None
    prospects: tuple[Prospect, ...]
    is_same: bool
    noise_floor: NoiseFloor | None
    order: float | None
    trend: Trend | None
    quantities: tuple[Quantity, ...]
    reference_outcomes: dict[str, int]
    treatment_outcomes: dict[str, int]

    def comparison(self, rung: str) -> Comparison | None:
        """Return the verdict with the interval that all looks together keep."""
        if rung != self.treatment or self.slowdown is None:
            return None
        return Comparison(self.verdict, self.slowdown, self.detectable)


def pair_finding(pair: Pair) -> PairFinding:
    """Return what one pair shows."""
    before, after = (rate.per_s for rate in pair.rates)
    return PairFinding(
        pair.reference.trial.block,
        before,
        after,
        before / after if after else (math.inf if before else 1.0),
        pair.is_reference_first,
    )


def trend(pairs: Sequence[Pair]) -> Trend | None:
    """Return how both sides together drifted over the run; None where that is noise or too little.

    Pairs cancel it: it is told so that a reader knows what they cancelled.
    """
    rates = [pair.rates for pair in pairs]
    if len(pairs) < _TREND_PAIRS or any(not rate.per_s for both in rates for rate in both):
        return None
    times = [(one.reference.started_unix_s + one.treatment.started_unix_s) / 2 for one in pairs]
    lasted_s = times[-1] - times[0]
    if lasted_s <= 0:
        return None
    levels = [(math.log(before.per_s) + math.log(after.per_s)) / 2 for before, after in rates]
    line = line_through(times, levels)
    change = line.slope * lasted_s
    if line.p_value > _TREND_LEVEL or abs(change) < _TREND_MATTERS:
        return None
    return Trend(math.exp(change), lasted_s)


def is_noisier(log_sd: float, pairs: int, floor: NoiseFloor) -> bool:
    """Tell whether pairs differed by more than the machine's noise floor explains (an F test)."""
    if floor.log_sd == 0:
        return False
    ratio = (log_sd / floor.log_sd) ** 2
    return f_beyond(ratio, max(pairs - 2, 1), floor.pairs - 1) < _NOISE_LEVEL
